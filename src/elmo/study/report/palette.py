"""The colours of the report: few, told apart by the colour-blind too, a pair for light and dark."""

from __future__ import annotations

from dataclasses import dataclass

from elmo.study.results import Group


@dataclass(frozen=True)
class Colour:
    """A colour by the name of its CSS variable."""

    name: str
    light: str
    """Also that of paper."""
    dark: str


PAPER = Colour("paper", "#fefefe", "#14181d")
INK = Colour("ink", "#1f2933", "#e4e9ee")
FAINT = Colour("faint", "#5c6875", "#a3aeba")
LINES = Colour("lines", "#dde3e8", "#343d47")
SHADE = Colour("shade", "#f3f6f8", "#1c2229")
ON_STRONG = Colour("on-strong", "#fffffe", "#10151a")
"""Of text on a strong colour."""
CONTROL = Colour("control", "#66717d", "#a9b4bf")
STATIC = Colour("static", "#b8500f", "#f0a067")
ELMO = Colour("elmo", "#1c5d99", "#74b3ec")

COLOURS = (PAPER, INK, FAINT, LINES, SHADE, ON_STRONG, CONTROL, STATIC, ELMO)
OF_GROUP: dict[Group, Colour] = {"control": CONTROL, "static": STATIC, "elmo": ELMO}
# Shapes too, for those who print in grey.
MARKERS: dict[Group, str] = {"control": "s", "static": "D", "elmo": "o"}


def css_variables(dark: bool) -> str:
    """Declarations of all colours."""
    return " ".join(f"--{one.name}: {one.dark if dark else one.light};" for one in COLOURS)


def with_variables(tag: str) -> str:
    """A tag of a drawing whose colours follow those of the page it stands in."""
    for colour in COLOURS:
        tag = tag.replace(colour.light, f"var(--{colour.name})")
    return tag

"""What is written and drawn in a figure, read from its SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from elmo.study.formats import Figure

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(figure: Figure) -> list[str]:
    """Everything that is written, in its order."""
    found = ElementTree.fromstring(figure.svg).iter(f"{_NAMESPACE}text")
    return ["".join(one.itertext()).strip() for one in found]


def count(figure: Figure, style: str) -> int:
    """How many elements have that in their style."""
    elements = ElementTree.fromstring(figure.svg).iter()
    return sum(style in (one.get("style") or "") for one in elements)

"""Words stand below each other, and no line is wider than the terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from elmo.cli.concordance import Line, fitting, print_concordance


def line(label: str, text: str, position: int) -> Line:
    return Line(label, text.split(), position)


LINES = [
    line("0.9", "the cat sat on the mat and then it slept all day", 5),
    line("0.12", "雨 雨 [old] mat", 2),
    line("", "mat on the floor of the old house", 0),
]


def shown(lines: list[Line], width: int, *, terminal: bool = False) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    print_concordance(lines, console)
    return out.getvalue().splitlines()


def test_a_narrow_and_a_wide_one() -> None:
    assert shown(LINES, 50) == [
        "0.9   … cat sat on the  «mat»    and then it …",
        "0.12             雨 雨  «[old]»  mat",
        "                        «mat»    on the floor of …",
    ]
    # What one side does not need, the other has.
    assert shown(LINES[2:], 33) == ["    «mat»  on the floor of the …"]
    assert shown(LINES[:1], 100) == ["0.9  the cat sat on the  «mat»  and then it slept all day"]
    assert shown(LINES[:1], 12) == ["0.9  …  «mat»  …"]


def test_bold_in_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=True, color_system="standard")
    print_concordance(LINES, console)
    assert "\x1b[1mmat  \x1b[0m" in out.getvalue()
    assert "«" not in out.getvalue()


WORDS = st.lists(st.text("ab雨", min_size=1, max_size=9), max_size=9)


@given(WORDS, WORDS, st.sampled_from(["mat", "雨"]), st.integers(40, 80))
def test_what_is_shown_fits(before: list[str], behind: list[str], word: str, width: int) -> None:
    (found,) = shown([Line("0.1234", [*before, word, *behind], len(before))], width)
    assert cell_len(found) <= width
    left, right = (side.split() for side in found[6:].split(f"«{word}»"))
    for side, whole in ((left[::-1], before[::-1]), (right, behind)):
        assert side in (whole, [*whole[: len(side) - 1], "…"])


@pytest.mark.parametrize(
    ("width", "wanted"), [(11, ["one", "two", "six"]), (10, ["one", "two", "…"]), (4, ["…"])]
)
def test_as_many_as_fit(width: int, wanted: list[str]) -> None:
    assert fitting(["one", "two", "six"], width) == wanted

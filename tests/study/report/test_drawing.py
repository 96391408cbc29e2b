"""Drawings are whole, alike each time, and hold whatever letters they are given."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.study.report.drawing import Margins, head, in_tags, new_figure, panels, spaced, to_svg
from elmo.study.report.printable import printable_text

TEXT = "{http://www.w3.org/2000/svg}text"


def drawn(title: str, name: str = "it") -> str:
    figure = new_figure(1)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], "o-")
    head(axes, title)
    return to_svg(figure, name)


def test_the_same_drawing_gives_the_same_text() -> None:
    assert drawn("a") == drawn("a")


def test_two_drawings_share_no_identifier() -> None:
    first, second = (set(re.findall(r' id="([^"]+)"', drawn("a", name))) for name in ("x", "y"))
    assert first
    assert not first & second


def test_every_identifier_is_used() -> None:
    svg = drawn("a")
    found = re.findall(r' id="([^"]+)"', svg)
    assert len(set(found)) == len(found)
    assert set(found) == set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))


def test_nothing_is_said_of_program_or_day() -> None:
    svg = drawn("a")
    assert "metadata" not in svg
    assert not re.search(r"matplotlib|20\d\d-", svg, re.IGNORECASE)


@settings(max_examples=15)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(printable_text))
def test_letters_stay_letters(title: str) -> None:
    found = [one.text or "" for one in ElementTree.fromstring(drawn(title)).iter(TEXT)]
    # Lines of text and spaces are laid out; nothing else changes.
    assert "".join(title.split()) in "".join("".join(found).split())


@pytest.mark.parametrize("title", ["$x^2$ <b>&\"'", 'a id="it" url(#x)', "雨 العربية", "#1f2933"])
def test_what_looks_like_markup_is_text(title: str) -> None:
    found = [one.text for one in ElementTree.fromstring(drawn(title)).iter(TEXT)]
    assert title in found


def test_only_tags_are_changed() -> None:
    assert in_tags("<a>b</a>b", lambda tag: tag.replace("a", "b")) == "<b>b</b>b"
    assert in_tags("<a>a</a>", str.upper) == "<A>a</A>"


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.3))
def test_names_have_room_and_keep_their_order(heights: list[float], least: float) -> None:
    moved = spaced(heights, least)
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    gaps = [moved[b] - moved[a] for a, b in pairwise(order)]
    assert all(gap >= least - 1e-9 for gap in gaps)
    assert sum(moved) == pytest.approx(sum(heights), abs=1e-9)


def test_panels_with_margins_fill_the_figure() -> None:
    margins = Margins(left=0.5, right=0.1, top=0.2, bottom=0.3)
    grid = panels(5, 2.0, 3, margins=margins)
    width, height = grid.figure.get_size_inches()
    assert (len(grid.axes), height) == (5, 4.0)
    first, last = grid.axes[0].get_position(), grid.axes[4].get_position()
    assert first.x0 * width == pytest.approx(0.5)
    assert (1 - first.y1) * height == pytest.approx(0.2)
    assert last.y0 * height == pytest.approx(0.3)
    assert first.width * width == pytest.approx(width / 3 - 0.6)
    assert first.height * height == pytest.approx(1.5)

"""Colours can be read on both backgrounds, and groups told apart."""

from __future__ import annotations

import pytest

from elmo.study.report.palette import (
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    OF_GROUP,
    PAPER,
    SHADE,
    css_variables,
    with_variables,
)


def luminance(colour: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", [INK, FAINT, *OF_GROUP.values()], ids=lambda one: one.name)
@pytest.mark.parametrize("below", [PAPER, SHADE], ids=lambda one: one.name)
def test_text_has_the_contrast_that_guidelines_ask_for(colour, below) -> None:
    assert contrast(colour.light, below.light) >= 4.5
    assert contrast(colour.dark, below.dark) >= 4.5


def test_no_two_colours_are_the_same() -> None:
    assert len({one.light for one in COLOURS}) == len(COLOURS)
    assert len({one.name for one in COLOURS}) == len(COLOURS)
    assert len(set(MARKERS.values())) == len(OF_GROUP) == 3


def test_every_colour_becomes_a_variable() -> None:
    for one in COLOURS:
        assert with_variables(f'<path style="fill: {one.light}"/>') == (
            f'<path style="fill: var(--{one.name})"/>'
        )
        assert f"--{one.name}: {one.light};" in css_variables(dark=False)
        assert f"--{one.name}: {one.dark};" in css_variables(dark=True)

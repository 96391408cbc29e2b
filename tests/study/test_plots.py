"""Labels are called saved where the accuracies say so; settings matter where test rows can tell."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.builder import language_model, spread, study_results
from tests.study.svg_text import count, texts

from elmo.study.formats import with_weights
from elmo.study.plots import (
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    OF_GROUP,
    PAPER,
    SHADE,
    STATIC,
    Margins,
    Split,
    accuracy_figure,
    confusion_figure,
    css_variables,
    curves,
    draws_figure,
    head,
    history_sentence,
    in_tags,
    language_model_sentence,
    new_figure,
    panels,
    perplexity_figure,
    samples_figure,
    savings,
    savings_sentences,
    spaced,
    sweep_sentence,
    sweeps_figure,
    to_svg,
    weights_figure,
    with_variables,
)
from elmo.study.report import printable_text
from elmo.study.results import SamplePoint, StudyResults, Sweep, SweepPoint

# Curves are drawn from all their points, and named where they end.


def test_every_size_and_row_is_named(results: StudyResults) -> None:
    figure = samples_figure(results)
    written = " ".join(texts(figure))
    for title in ("TF-IDF, linear SVM", "Skip-gram, window 8", "ELMo, trainable λs"):
        assert title in written
    for size in ("40", "10 a class", "20,000", "5,000 a class", "89,847", "all"):
        assert size in written
    assert all(f"{one.test_accuracy.mean:.4f}" in figure.alt for one in results.samples)


def test_a_curve_of_one_point(results: StudyResults) -> None:
    figure = samples_figure(replace(results, samples=results.samples[:1]))
    assert "TF-IDF, linear SVM" in texts(figure)


def test_every_value_is_named_and_methods_have_their_colour(results: StudyResults) -> None:
    method = replace(results.sweeps[0], row="skipgram")
    figure = sweeps_figure(replace(results, sweeps=(method, *results.sweeps[1:])))
    written = " ".join(texts(figure))
    for text in ("dim", "Skip-gram", "mix-pull", "learning-rate", "0.0003", "300"):
        assert text in written
    assert count(figure, f"stroke: {STATIC.light}")


def test_perplexity_of_every_epoch() -> None:
    model = language_model()
    figure = perplexity_figure(model)
    assert {"forward", "backward", "both"} <= set(texts(figure))
    assert all(f"epoch {one.epoch:g} {one.perplexity:.2f}" in figure.alt for one in model.history)


# Drawings are whole, alike each time, and hold whatever letters they are given.


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


# Colours can be read on both backgrounds, and groups told apart.


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


# Every row is in the figure of the comparison, with its accuracy, in its group's colour.


def test_every_row_has_its_name_and_accuracy(results: StudyResults) -> None:
    figure = accuracy_figure(results)
    written = texts(figure)
    for row in results.rows:
        assert row.title in written
        assert f"{row.test_accuracy.mean:.4f}" in written
        assert f"{row.test_accuracy.mean:.4f}" in figure.alt
    for colour in OF_GROUP.values():
        assert count(figure, f"stroke: {colour.light}") or count(figure, f"fill: {colour.light}")


def test_a_row_far_below_becomes_an_arrow(results: StudyResults) -> None:
    figure = accuracy_figure(results)
    assert texts(figure).count("◂") == 1
    assert "An arrow" in figure.caption
    near = accuracy_figure(replace(results, rows=results.rows[1:]))
    assert "◂" not in texts(near)
    assert "An arrow" not in near.caption


@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 4), slice(0, 3)])
def test_few_rows_are_drawn_too(results: StudyResults, rows: slice) -> None:
    some = replace(results, rows=results.rows[rows])
    figure = accuracy_figure(some)
    assert {row.title for row in some.rows} <= set(texts(figure))
    assert "Dashed" not in figure.caption  # there is nothing to compare with


RESULTS = study_results()
SIZES = (40, 200, 1000, 4000)


def points(row: str, accuracies: list[float]) -> list[SamplePoint]:
    return [
        SamplePoint(row=row, per_class=rows // 4, train_rows=rows, test_accuracy=spread([accuracy]))
        for rows, accuracy in zip(SIZES, accuracies, strict=False)
    ]


def with_curves(elmo: list[float], tfidf: list[float]) -> StudyResults:
    samples = (*points("trainable", elmo), *points("tfidf", tfidf))
    return replace(RESULTS, samples=samples)


def test_savings_as_they_read() -> None:
    results = with_curves([0.70, 0.80, 0.88, 0.90], [0.50, 0.69, 0.79, 0.88])
    assert savings_sentences(results) == [
        "ELMo (trainable λs) gets at least as many test rows right as TF-IDF (linear SVM) (mean "
        "over seeds) with fewer labels: 10 a class instead of 50 a class, 50 a class instead of "
        "250 a class and 250 a class instead of 1,000 a class."
    ]


def test_no_savings_are_claimed_where_there_are_none() -> None:
    results = with_curves([0.50, 0.69, 0.79, 0.88], [0.50, 0.70, 0.80, 0.89])
    (text,) = savings_sentences(results)
    assert text.startswith("At no size tried")
    assert "fewer labels:" not in text


LISTS = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(LISTS, LISTS)
def test_every_saving_is_true_and_none_is_missing(elmo: list[float], tfidf: list[float]) -> None:
    found = savings(points("trainable", elmo), points("tfidf", tfidf))
    for one in found:
        assert one.few.train_rows < one.many.train_rows
        assert one.few.test_accuracy.mean >= one.many.test_accuracy.mean
    expected = {
        SIZES[more] for more in range(4) if any(elmo[few] >= tfidf[more] for few in range(more))
    }
    assert {one.many.train_rows for one in found} == expected


def test_all_labels_are_named_as_such() -> None:
    results = with_curves([0.9], [0.5, 0.6])
    whole = replace(results.samples[-1], per_class=None, train_rows=89_847)
    (text,) = savings_sentences(replace(results, samples=(*results.samples[:-1], whole)))
    assert "10 a class instead of all 89,847." in text


def test_curves_go_from_few_labels_to_many(results: StudyResults) -> None:
    shuffled = replace(results, samples=results.samples[::-1])
    for found in curves(shuffled).values():
        assert [point.per_class for point in found] == [10, 50, 250, 1000, 5000, None]


def test_without_elmo_there_is_nothing_to_save() -> None:
    assert savings_sentences(replace(RESULTS, samples=tuple(points("tfidf", [0.5, 0.6])))) == []


def sweep(*tests: float) -> Sweep:
    found = tuple(
        SweepPoint(value=float(n), development_accuracy=one - 0.01, test_accuracy=one)
        for n, one in enumerate(tests)
    )
    return Sweep(setting="dim", row="skipgram", train_rows=20_000, points=found)


@pytest.mark.parametrize(("tests", "tells"), [((0.90, 0.905), False), ((0.90, 0.93), True)])
def test_settings_matter_where_test_rows_can_tell(tests: tuple[float, ...], tells: bool) -> None:
    text = sweep_sentence(sweep(*tests), RESULTS)
    assert text.startswith(f"dim of Skip-gram: {len(tests) - 1} was best on the development rows")
    assert ("no difference in test accuracy that 7,600 rows can show" in text) != tells
    assert (f"go from {min(tests):.4f} to {max(tests):.4f}" in text) == tells


def test_one_value_makes_no_difference_to_speak_of() -> None:
    text = sweep_sentence(sweep(0.9), RESULTS)
    assert text.endswith("(0.8900; test 0.9000), the only value there is.")


def test_the_best_value_is_chosen_by_development_rows() -> None:
    first, second = sweep(0.90, 0.93).points
    lucky = replace(first, development_accuracy=0.99)
    text = sweep_sentence(replace(sweep(), points=(lucky, second)), RESULTS)
    assert "dim of Skip-gram: 0 was best on the development rows (0.9900; test 0.9000)" in text


def test_the_language_model_as_it_reads() -> None:
    model = language_model()
    assert language_model_sentence(model) == (
        "The biLM (trained by this study) has 2 LSTM layers of 256 numbers a direction, 11,641,602 "
        "parameters and a vocabulary of 37,122 words. Its perplexity on held-out text is 86.56. Of "
        "the held-out words, it predicts 0.2973 first. Training took 1 h 4 min."
    )
    given_one = replace(model, perplexity=None, accuracy=None, seconds=None)
    assert language_model_sentence(given_one).endswith("37,122 words.")


def test_perplexity_at_its_lowest() -> None:
    model = language_model()
    assert "lowest (86.56) at the end" in history_sentence(model)
    rising = replace(model, history=(*model.history, replace(model.history[0], epoch=5)))
    assert "lowest (86.56) after epoch 4, then rose" in history_sentence(rising)
    assert history_sentence(replace(model, history=model.history[:1])) == ""


# The matrices show the first seed's counts, and mistakes in the colour of the group.


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_count_is_written(results: StudyResults, split: Split) -> None:
    rows = results.rows[3:5]
    figure = confusion_figure(rows, results.about.labels, split)
    metrics = [getattr(row.seeds[0], split) for row in rows]
    expected = [f"{n:,}" for one in metrics for line in one.confusion for n in line]
    written = [text for text in texts(figure) if text.replace(",", "").isdigit()]
    assert sorted(written) == sorted(expected)
    assert count(figure, f"fill: {STATIC.light}; opacity") == 2 * 12  # all but the diagonals
    for row, one in zip(rows, metrics, strict=True):
        right = sum(one.confusion[place][place] for place in range(4))
        assert row.title in texts(figure)
        assert f"{row.title} {right:,} of {one.count:,} right" in figure.alt


def test_many_classes_are_drawn_without_numbers(results: StudyResults) -> None:
    row = results.rows[0]
    matrix = tuple((2,) * 9 for _ in range(9))
    seed = replace(row.seeds[0], test=replace(row.seeds[0].test, confusion=matrix))
    labels = [f"label {number}" for number in range(9)]
    figure = confusion_figure([replace(row, seeds=(seed,))], labels, "test")
    assert not [text for text in texts(figure) if text.isdigit()]
    assert set(labels) <= set(texts(figure))


# Weights and draws are drawn one by one, and told to those who cannot see them.


def test_a_panel_a_row(results: StudyResults) -> None:
    rows = with_weights(results)
    figure = weights_figure(rows)
    written = texts(figure)
    for row in rows:
        assert row.title in written
        for seed in row.seeds:
            assert ", ".join(f"{one:.4f}" for one in seed.layer_weights or ()) in figure.alt
    assert {"layer 0", "layer 1", "layer 2"} <= set(written)


def test_more_rows_than_panels_side_by_side(results: StudyResults) -> None:
    rows = with_weights(results) * 2
    renamed = [replace(row, title=f"row {place}") for place, row in enumerate(rows)]
    assert {row.title for row in renamed} <= set(texts(weights_figure(renamed)))


def test_a_panel_a_layer(results: StudyResults) -> None:
    assert results.draws is not None
    figure = draws_figure(results.draws)
    assert {f"weight of layer {layer}" for layer in range(3)} <= set(texts(figure))
    assert "10,000 rows" in figure.caption
    for draw in results.draws.draws:
        assert f"{draw.test_accuracy:.4f}" in figure.alt

"""Figures are written the same way everywhere, and never rounded into a claim."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.builder import REFERENCE

from elmo.config import to_json
from elmo.study.formats import (
    Details,
    Paragraph,
    around,
    best,
    called,
    columns,
    counted,
    duration,
    group_of,
    in_groups,
    interval,
    learns_weights,
    listed,
    named,
    of_group,
    one_part,
    p_cell,
    p_value,
    reference,
    setting,
    shortened,
    speed,
    spread,
    title,
    with_weights,
    within,
)
from elmo.study.results import Spread, StudyResults

# Blocks become plain data, which is how the PDF gets them.


def test_the_first_columns_hold_text() -> None:
    assert [column.align for column in columns("a", "b", "c", left=2)] == ["left", "left", "right"]
    assert one_part([("x", "1")])[0].lines == (("x", "1"),)


def test_blocks_within_blocks_say_what_they_are() -> None:
    data = json.loads(json.dumps(to_json(Details(title="more", blocks=(Paragraph(text="x"),)))))
    assert data["kind"] == "details"
    assert data["blocks"] == [{"text": "x", "kind": "paragraph"}]


# Rows are found by what they are, and test rows choose none.


def test_the_reference_is_what_the_pairs_say(results: StudyResults) -> None:
    found = reference(results)
    assert found is not None
    assert found.name == REFERENCE
    assert reference(replace(results, rows=(found,))) is None


def test_the_best_is_the_best_on_development_rows(results: StudyResults) -> None:
    rows = list(results.rows[:3])
    lucky = replace(rows[0], test_accuracy=replace(rows[0].test_accuracy, mean=0.999))
    found = best([lucky, *rows[1:]])
    assert found is not None
    assert found.name == "tfidf"
    assert best([]) is None


def test_titles_of_rows_failures_methods_and_strangers(results: StudyResults) -> None:
    names = ("tfidf", "svd-12", "skipgram", "else")
    titles = [title(results, name) for name in names]
    assert titles == ["TF-IDF, linear SVM", "SVD, window 12", "Skip-gram", "else"]
    assert [group_of(results, name) for name in ("layer-1", *names)] == [
        "elmo",
        "control",
        "control",
        "static",
        "control",
    ]


def test_groups_hold_every_row_once(results: StudyResults) -> None:
    assert [row.name for row in in_groups(results)] == [row.name for row in results.rows]
    assert {row.group for row in of_group(results, "static")} == {"static"}


def test_weights_that_are_given_are_not_looked_at(results: StudyResults) -> None:
    rows = with_weights(results)
    assert [row.name for row in rows] == ["frozen", "trainable", "fine-tuned"]
    assert [learns_weights(row) for row in rows] == [False, True, True]
    assert named(results, "average") not in rows


def test_one_layer_has_no_weights_to_speak_of(results: StudyResults) -> None:
    row = results.rows[4]
    seeds = tuple(replace(seed, layer_weights=(1.0,)) for seed in row.seeds)
    assert with_weights(replace(results, rows=(replace(row, seeds=seeds),))) == []


SPREAD = Spread(mean=0.92684, deviation=0.00123, low=0.9208, high=0.93246)


def test_means_have_deviations_only_over_several_seeds() -> None:
    assert spread(SPREAD, 3) == "0.9268 ± 0.0012"
    assert spread(SPREAD, 1) == "0.9268"
    assert interval(SPREAD.low, SPREAD.high) == "0.9208–0.9325"
    assert within(SPREAD) == "0.9268 (0.9208 to 0.9325)"


@pytest.mark.parametrize(
    ("p", "written"),
    [
        (7.3e-6, "7e-6"),
        (2.1e-14, "2e-14"),
        (0.00094, "9e-4"),
        (0.0015, "0.0015"),
        (0.216, "0.22"),
        (1.0, "1"),
        (0.0, "< 1e-300"),
        (0.0496, "0.0496"),
        (0.04999, "0.04999"),
        (0.05, "0.05"),
    ],
)
def test_p_values(p: float, written: str) -> None:
    assert p_cell(p) == written
    sign = "" if "<" in written else "= "
    assert plain(p_value(p)) == f"p {sign}{written}"


@given(st.floats(1e-300, 1))
def test_a_rounded_p_stays_on_its_side(p: float) -> None:
    shown = float(p_cell(p))
    assert (shown < 0.05) == (p < 0.05)
    assert shown == pytest.approx(p, rel=0.5)


def test_a_p_value_is_not_broken_over_lines() -> None:
    assert not re.search(r" |-(?!\N{WORD JOINER})", p_value(3e-9))


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0.0 s"),
        (7.34, "7.3 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (252.4, "4 min 12 s"),
        (3599.7, "1 h 0 min"),
        (3852.0, "1 h 4 min"),
        (86_399.0, "1 d 0 h"),
        (97_200.0, "1 d 3 h"),
    ],
)
def test_durations(seconds: float, written: str) -> None:
    assert duration(seconds) == written


@given(st.floats(0, 1e7))
def test_durations_can_be_read_back(seconds: float) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
    parts = re.findall(r"([\d.]+) (\w+)", duration(seconds))
    total = sum(float(number) * sizes[unit] for number, unit in parts)
    assert total == pytest.approx(seconds, rel=0.05, abs=0.06)
    assert all(float(number) < 60 for number, unit in parts if unit in ("s", "min"))


def test_settings() -> None:
    values = [setting(value) for value in (None, True, False, 3, 0.001, 1e-7, 300.0, "word")]
    assert values == ["none", "yes", "no", "3", "0.001", "1e-07", "300", "word"]


def test_counts_and_lists() -> None:
    assert (counted(1, "row"), counted(7600, "row")) == ("1 row", "7,600 rows")
    assert (listed(["a"]), listed(["a", "b", "c"])) == ("a", "a, b and c")
    assert (speed(18_203.6), speed(1.26)) == ("18,204", "1.3")


def test_titles_lose_their_commas_in_sentences() -> None:
    assert called("Skip-gram, window 8") == "Skip-gram (window 8)"
    assert called("ELMo, layer 0 (the word alone)") == "ELMo (layer 0)"
    assert called("Majority class") == "Majority class"


@given(st.text(), st.integers(1, 50))
def test_shortened_texts_begin_alike(text: str, longest: int) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    assert text.startswith(short.removesuffix("…"))


@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=60), st.data())
def test_around_a_word_are_whole_words(words: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words))
    part = around(" ".join(words), word, 40)
    found = part.removeprefix("… ").removesuffix(" …").split()
    assert word in found
    assert len(" ".join(found)) <= 40
    assert any(words[at : at + len(found)] == found for at in range(len(words)))


def test_around_a_word_that_is_not_there() -> None:
    assert around("one two three four", "five", 9) == "one two …"
    assert around("x" * 50, "five", 9) == "x" * 9 + " …"


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "")

"""Sentences claim a difference where the paired test shows one, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.report.builder import (
    REFERENCE,
    spread,
    study_results,
    with_test,
    without_analyses,
)

from elmo.study.report.analysis import (
    against_controls,
    answer,
    apart,
    comparisons,
    corrections,
    data_sentence,
    gap_sentence,
    headline,
    mixes,
    seeds_sentence,
    tally,
    verdict,
)
from elmo.study.results import RowResult, StudyResults

RESULTS = without_analyses(study_results())
BY_NAME = {row.name: row for row in RESULTS.rows}
OTHER = BY_NAME[REFERENCE]
CLAIM = re.compile(
    r"\b(above|below|better|worse|higher|lower|beats?|outperforms?)\b", re.IGNORECASE
)
SHARES = st.floats(0.3, 1.0)


def compared(accuracy: float, p: float | None, *, more: bool = True) -> StudyResults:
    """The reference, and one ELMo row with that test."""
    return replace(RESULTS, rows=(OTHER, with_test(BY_NAME["trainable"], accuracy, p, more=more)))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "")


@given(SHARES, st.floats(0.05, 1.0), st.booleans())
def test_nothing_is_claimed_where_p_is_large(accuracy: float, p: float, more: bool) -> None:
    results = compared(accuracy, p, more=more)
    for sentence in (headline(results), tally(results), *comparisons(results)):
        assert not CLAIM.search(sentence), sentence
    assert "no difference that 7,600 rows can show" in headline(results)


@given(SHARES, st.floats(0, 0.04999), st.booleans())
def test_a_side_is_claimed_where_both_seeds_and_test_agree(
    accuracy: float, p: float, more: bool
) -> None:
    results = compared(accuracy, p, more=more)
    higher = results.rows[1].test_accuracy.mean > OTHER.test_accuracy.mean
    side = ("above" if more else "below") if higher == more else "unclear"
    assert verdict(results.rows[1], OTHER) == side
    assert set(CLAIM.findall(headline(results))) == {side} - {"unclear"}


def test_the_headline_as_it_reads() -> None:
    text = plain(headline(compared(0.9268, 7e-6)))
    assert text == (
        "ELMo (trainable λs), best of the ELMo rows on the development rows, gets 0.9268 of the "
        "7,600 test rows right (95% interval 0.9208 to 0.9325). The best static embedding, "
        f"Skip-gram (window 8), gets {OTHER.test_accuracy.mean:.4f}: ELMo is above it by more than "
        "chance explains (p = 7e-6)."
    )
    unclear = plain(headline(compared(0.9183, 0.22)))
    assert unclear.endswith("no difference that 7,600 rows can show (p = 0.22).")
    assert plain(headline(compared(0.87, 1e-9, more=False))).endswith(
        "ELMo is below it by more than chance explains (p = 1e-9)."
    )


def test_seeds_that_disagree_show_no_difference() -> None:
    text = plain(headline(compared(0.87, 0.001, more=True)))
    assert "the seeds point to different sides, so no difference" in text
    assert not CLAIM.search(text)


def test_without_a_reference_nothing_is_compared() -> None:
    results = replace(RESULTS, rows=(replace(BY_NAME["trainable"], paired=None),))
    assert "No static embedding was there" in headline(results)
    assert (tally(results), comparisons(results), corrections(results)) == ("", [], "")
    assert answer(replace(RESULTS, rows=())) == ["No row of the comparison could be computed."]


def test_the_tally_adds_up() -> None:
    sides = [(0.93, 1e-6, True), (0.94, 1e-6, True), (0.88, 1e-6, False), (0.92, 0.4, True)]
    rows = [
        replace(with_test(BY_NAME["trainable"], share, p, more=more), name=f"row-{place}")
        for place, (share, p, more) in enumerate(sides)
    ]
    assert tally(replace(RESULTS, rows=(OTHER, *rows))) == (
        "Of 4 ELMo rows, 2 are above it, 1 is below it and 1 shows no difference (each tested for "
        "itself)."
    )


def test_every_compared_row_is_on_one_side(results: StudyResults) -> None:
    found = [plain(sentence) for sentence in comparisons(results)]
    paired = [row for row in results.rows if row.paired]
    assert sum(sentence.count("p = ") + sentence.count("p < ") for sentence in found) == len(paired)
    for row in paired:
        assert row.paired is not None
        (sentence,) = [one for one in found if f"{name(row)}, p" in one]
        claims = sentence.startswith(("Above", "Below"))
        assert claims == (row.paired.p < 0.05)


def test_many_tests_are_owned_up_to(results: StudyResults) -> None:
    text = corrections(results)
    assert text.startswith("These are 16 tests")
    assert "about 0.8 of them" in text
    assert f"{0.05 / 16:.2g}" in text


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [(0.9150, "overlaps that of"), (0.95, "below that of"), (0.80, "above that of")],
)
def test_controls_are_judged_by_intervals(accuracy: float, words: str) -> None:
    control = replace(BY_NAME["tfidf"], test_accuracy=spread([0.915]))
    elmo = replace(BY_NAME["trainable"], test_accuracy=spread([accuracy]))
    assert words in against_controls(replace(RESULTS, rows=(control, elmo)))
    assert against_controls(replace(RESULTS, rows=(elmo,))) == ""


@given(SHARES, SHARES)
def test_mixes_are_told_apart_only_by_intervals(first: float, second: float) -> None:
    low, high = spread([first]), spread([second])
    rows = (
        replace(BY_NAME["frozen"], test_accuracy=low),
        replace(BY_NAME["trainable"], test_accuracy=high),
    )
    text = mixes(replace(RESULTS, rows=rows))
    assert ("do not overlap" in text) == apart(low, high)
    assert not CLAIM.search(text)


def test_one_mix_is_no_comparison() -> None:
    assert mixes(replace(RESULTS, rows=(BY_NAME["frozen"],))) == ""


def test_what_seeds_tell(results: StudyResults) -> None:
    assert seeds_sentence(replace(RESULTS, rows=(BY_NAME["fine-tuned"],))).startswith(
        "Every row has one seed: how much another one would change is not known"
    )
    text = seeds_sentence(results)
    widest = max(row.test_accuracy.deviation for row in results.rows)
    assert f"at most {widest:.4f}" in text
    assert text.endswith(
        "One seed only: Majority class, TF-IDF (linear SVM) and ELMo (fine-tuned)."
    )


def test_the_widest_gap(results: StudyResults) -> None:
    gaps = {r.name: r.train_accuracy.mean - r.test_accuracy.mean for r in results.rows}
    assert name(BY_NAME[max(gaps, key=lambda one: gaps[one])]) in gap_sentence(results)
    row = replace(OTHER, train_accuracy=replace(OTHER.train_accuracy, mean=0.5))
    assert gap_sentence(replace(RESULTS, rows=(row,))) == ""


def test_what_ran_is_said_plainly(results: StudyResults) -> None:
    assert data_sentence(results) == "This study ran on AG News."
    generated = replace(results, about=replace(results.about, data="generated"))
    assert "the generated corpus that comes with elmo" in data_sentence(generated)
    assert "not how embeddings fare on real text" in data_sentence(generated)
    own = replace(results, about=replace(results.about, data="mail.csv"))
    assert data_sentence(own) == "This study ran on mail.csv."


def name(row: RowResult) -> str:
    return row.title.replace(" (the word alone)", "").replace(", ", " (", 1) + ")" * (
        ", " in row.title
    )

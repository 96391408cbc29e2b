"""Senses are told apart where the interval leaves chance behind; mistakes are counted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.study.report.builder import sense, words

from elmo.study.report.word_analysis import (
    confusions_sentence,
    sense_interval,
    senses_sentences,
    word_sentence,
)
from elmo.study.results import StudyResults


@given(st.floats(0, 1), st.integers(1, 5000))
def test_above_chance_only_where_the_interval_is(accuracy: float, occurrences: int) -> None:
    one = sense("ELMo layer 1", accuracy, occurrences)
    (text,) = senses_sentences([one])
    sure = sense_interval(one)
    assert text.startswith("Above chance") == (sure.low > one.chance)
    assert text.startswith("Below chance") == (sure.high < one.chance)
    unclear = sure.low <= one.chance <= sure.high
    assert text.startswith("Not to be told from chance") == unclear


def test_senses_as_they_read(results: StudyResults) -> None:
    assert senses_sentences(results.senses) == [
        "Above chance: ELMo (layer 1) 0.8710 (chance 0.5030); ELMo (layer 2) 0.8830 (chance "
        "0.5030).",
        "Not to be told from chance: Skip-gram (window 8) 0.5120 (chance 0.5030); ELMo (layer 0) "
        "0.5080 (chance 0.5030).",
        "The interval of ELMo (layer 2) lies above those of Skip-gram (window 8) and ELMo (layer "
        "0).",
    ]


def test_no_embedding_is_the_best_where_intervals_overlap() -> None:
    text = senses_sentences([sense("one", 0.80), sense("two", 0.81)])[-1]
    assert text == "The interval of the highest, two, overlaps all others."


def test_the_most_frequent_mistake(results: StudyResults) -> None:
    rows = results.rows[1:]
    first = [row.confusions[0] for row in rows]
    same = sum((one.label, one.predicted) == ("Business", "Sci/Tech") for one in first)
    assert confusions_sentence(rows) == (
        f"The most frequent mistake of {same} of {len(rows)} rows is Business taken for Sci/Tech."
    )
    assert confusions_sentence([replace(rows[0], confusions=())]) == ""


def test_lists_in_context_are_compared_with_the_static_one() -> None:
    bank = words()[0]
    assert word_sentence(bank) == (
        "Of the words near it in context, 0 of 4 and 1 of 4 are in the one static list; 0 words "
        "are in all lists in context."
    )
    twice = replace(bank, contexts=(bank.contexts[1], bank.contexts[1]))
    assert word_sentence(twice).endswith("4 words are in all lists in context.")
    assert word_sentence(replace(bank, contexts=bank.contexts[:1])).endswith("static list.")
    assert word_sentence(replace(bank, static=())) == ""

"""Text is finished as English is written, and marks point at their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.study.news.marked_text import SenseMark, finish
from elmo.text.tokenizers import tokenize_words

WORDS = st.sampled_from(
    ["a", "the", "Rovers'", "3-1", "said.", '"we', 'will,"', "players'", "$5", "can't", "J.", "o'"]
)
MARKS = st.builds(
    "{}<{}/{}>{}".format,
    st.sampled_from(["", '"', "("]),
    st.sampled_from(["bank", "match", "Apple"]),
    st.sampled_from(["money", "game"]),
    st.sampled_from(["", "'s", ",", ".", '."', ";"]),
)


@given(st.lists(WORDS | MARKS, max_size=12))
def test_marks_point_at_their_words(pieces: list[str]) -> None:
    marked = finish(" ".join(pieces))
    tokens = tokenize_words(marked.text)
    wanted = [piece.split("<")[1].split(">")[0].split("/") for piece in pieces if "<" in piece]
    assert [[mark.word, mark.sense] for mark in marked.marks] == wanted
    assert [tokens[mark.place] for mark in marked.marks] == [word for word, _ in wanted]


def test_places_are_counted_in_tokens() -> None:
    marked = finish('it rose 2.5 percent, the <bank/money>\'s chief said. "a <run/series>."')
    assert marked.text == 'It rose 2.5 percent, the bank\'s chief said. "A run."'
    assert marked.marks == (SenseMark(6, "bank", "money"), SenseMark(13, "run", "series"))


@pytest.mark.parametrize(
    ("expanded", "text"),
    [
        ("one. two! three? four", "One. Two! Three? Four"),
        ('"yes." he left. "no," he said.', '"Yes." He left. "No," he said.'),
        ("Ada B. Norroby paid 2.5 crowns.", "Ada B. Norroby paid 2.5 crowns."),
        ("a old <bat/sport>, a <interest/money>", "An old bat, an interest"),
        ("a hour, a house, a unit, a unusual usher", "An hour, a house, a unit, an unusual usher"),
        ("a Uruguayan and a Estonian, a European", "A Uruguayan and an Estonian, a European"),
        ("a usual one-way ride, a one-way road", "A usual one-way ride, a one-way road"),
    ],
)
def test_capitals_and_articles(expanded: str, text: str) -> None:
    assert finish(expanded).text == text

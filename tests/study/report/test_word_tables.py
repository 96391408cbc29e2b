"""Mistakes and neighbours are shown with their texts, or by row number where texts are not."""

from __future__ import annotations

from dataclasses import replace

from tests.study.report.test_tables import lines

from elmo.study.report.word_tables import (
    confusions_table,
    pairs_table,
    senses_table,
    word_table,
)
from elmo.study.results import AmbiguousWord, Confusion, StudyResults


def test_counts_are_those_of_the_first_seed(results: StudyResults) -> None:
    table = pairs_table(results)
    place = {label: number for number, label in enumerate(results.about.labels)}
    for row in results.rows:
        for column, cell in zip(table.columns[1:], lines(table)[row.title], strict=True):
            label, predicted = column.title.split(" → ")
            confusion = row.seeds[0].test.confusion
            assert cell == f"{confusion[place[label]][place[predicted]]:,}"
    assert table.columns[1].title == "Business → Sci/Tech"  # what embeddings confuse most


def test_mistakes_with_their_texts(results: StudyResults) -> None:
    row = results.rows[4]
    table = confusions_table(row, shows_texts=True)
    first = row.confusions[0]
    assert table.parts[0].title == f"{first.label} taken for {first.predicted}: {first.count:,}"
    number, text = table.parts[0].lines[0]
    example = first.examples[0]
    assert number == f"{example.row:,}"
    assert example.text is not None
    assert example.text.startswith(text.removesuffix("…"))


def test_mistakes_by_row_number(results: StudyResults) -> None:
    row = results.rows[4]
    hidden = tuple(_without_texts(one) for one in row.confusions)
    table = confusions_table(replace(row, confusions=hidden), shows_texts=False)
    first = row.confusions[0]
    numbers = ", ".join(f"{one.row:,}" for one in first.examples)
    assert table.parts[0].lines[0] == (first.label, first.predicted, f"{first.count:,}", numbers)


def test_the_static_list_beside_the_others(results: StudyResults) -> None:
    word = results.words[0]
    table = word_table(word, results)
    titles = [column.title for column in table.columns]
    assert titles[1] == "always (Skip-gram, window 8)"
    assert titles[2] == f"in “{word.contexts[0].text}”"
    assert len(table.parts[0].lines) == 5
    assert table.parts[0].lines[0][:2] == ("1", "banks 0.80")
    assert table.parts[0].lines[0][2].startswith("shore 0.86 · officials said on the shore")
    assert table.parts[0].lines[4][2:] == ("", "")  # these lists are shorter


def test_neighbours_by_row_number(results: StudyResults) -> None:
    word = _hidden(results.words[0])
    table = word_table(word, replace(results, words=(word,)))
    assert table.columns[2].title == "in test row 17"
    assert table.parts[0].lines[0][2] == "shore 0.86 · training row 4,000"


def test_senses(results: StudyResults) -> None:
    found = lines(senses_table(results.senses))
    assert found["ELMo, layer 2"] == ("0.8830", "0.8599–0.9033", "0.5030", "840")


def _without_texts(confusion: Confusion) -> Confusion:
    examples = tuple(replace(one, text=None) for one in confusion.examples)
    return replace(confusion, examples=examples)


def _hidden(word: AmbiguousWord) -> AmbiguousWord:
    contexts = tuple(
        replace(
            one, text=None, neighbours=tuple(replace(near, text=None) for near in one.neighbours)
        )
        for one in word.contexts
    )
    return replace(word, contexts=contexts)

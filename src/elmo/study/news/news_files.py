"""Generated news on disk: both parts with labels, and the senses in the test part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from elmo.errors import UserError
from elmo.files import write_json_lines
from elmo.study.news.generate import NewsItem, generate_news
from elmo.text.readers.columns import is_number
from elmo.text.readers.json_lines import read_json_lines
from elmo.text.readers.options import ReadOptions


@dataclass(frozen=True)
class NewsFiles:
    """Where the parts of a generated corpus are."""

    train: Path
    test: Path
    senses: Path
    """Of the test part."""


@dataclass(frozen=True)
class SenseRow:
    """An ambiguous word of a test text, and what it means there."""

    row: int
    """Number of the text in the test part, counted from 0."""
    place: int
    """Number of the word in the text, counted from 0."""
    word: str
    sense: str


def write_news(folder: Path, train: int, test: int, seed: int) -> NewsFiles:
    """Make so many training and test items, and write them as JSON lines."""
    names = NewsFiles(folder / "train.jsonl", folder / "test.jsonl", folder / "senses.jsonl")
    tested = generate_news(test, seed, part="test")
    write_json_lines(names.train, _labelled(generate_news(train, seed)))
    write_json_lines(names.test, _labelled(tested))
    write_json_lines(names.senses, map(asdict, sense_rows(tested)))
    return names


def sense_rows(items: Iterable[NewsItem]) -> list[SenseRow]:
    """The ambiguous words of all items, in order."""
    return [
        SenseRow(row, mark.place, mark.word, mark.sense)
        for row, item in enumerate(items)
        for mark in item.senses
    ]


def read_senses(path: Path) -> list[SenseRow]:
    """Read what `write_news` wrote about senses."""
    lines = read_json_lines(path, ("row", "place", "word", "sense"), ReadOptions())
    return [_sense_row(line, f"'{path}', object {number}") for number, line in enumerate(lines, 1)]


def _sense_row(line: Sequence[str], where: str) -> SenseRow:
    row, place, word, sense = line
    if not (is_number(row) and is_number(place)):
        raise UserError(
            f"{where}: expected row and place counted from 0, got {row!r:.40} and {place!r:.40}; "
            "write the file anew"
        )
    return SenseRow(int(row), int(place), word, sense)


def _labelled(items: Iterable[NewsItem]) -> Iterable[dict[str, str]]:
    return ({"text": item.text, "label": item.label} for item in items)

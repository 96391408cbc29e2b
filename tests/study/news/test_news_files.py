"""What is written is what was generated, and can be read by everything that reads tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elmo.classify.labelled import read_labelled
from elmo.errors import UserError
from elmo.study.news.generate import generate_news
from elmo.study.news.news_files import SenseRow, read_senses, write_news
from elmo.text.tokenizers import tokenize_words


def test_both_parts_are_written(tmp_path: Path) -> None:
    found = write_news(tmp_path / "news", 12, 8, seed=3)
    for path, items in (
        (found.train, generate_news(12, 3)),
        (found.test, generate_news(8, 3, part="test")),
    ):
        read = read_labelled(str(path))
        assert read.texts == [item.text for item in items]
        assert read.labels == [item.label for item in items]
    names = {"train.jsonl", "test.jsonl", "senses.jsonl"}
    assert {path.name for path in (tmp_path / "news").iterdir()} == names


def test_senses_point_into_the_test_part(tmp_path: Path) -> None:
    found = write_news(tmp_path, 0, 40, seed=0)
    lines = found.test.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    senses = read_senses(found.senses)
    assert [one.word for one in senses] == [
        tokenize_words(texts[one.row])[one.place] for one in senses
    ]
    items = generate_news(40, 0, part="test")
    assert [(one.row, one.sense) for one in senses] == [
        (row, mark.sense) for row, item in enumerate(items) for mark in item.senses
    ]


def test_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    one, other = (write_news(tmp_path / name, 20, 10, seed=5) for name in "ab")
    for name in ("train", "test", "senses"):
        assert getattr(one, name).read_bytes() == getattr(other, name).read_bytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"line 2: not valid JSON"),
        ("[1]", r"line 2: expected a JSON object"),
        ('{"row": 1, "place": 2, "word": "bank"}', r"line 2: no column 'sense'"),
        ('{"row": -1, "place": 2, "word": "bank", "sense": "x"}', r"object 2: .*got '-1' and '2'"),
        ('{"row": 1, "place": "b", "word": "bank", "sense": "x"}', r"object 2: .*'1' and 'b'"),
        ('{"row": 1.5, "place": 1, "word": "bank", "sense": "x"}', r"'row': expected a string"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "senses.jsonl"
    good = '{"row": 0, "place": 2, "word": "bank", "sense": "river"}\n'
    path.write_text(good, encoding="utf-8")
    assert read_senses(path) == [SenseRow(0, 2, "bank", "river")]
    path.write_text(good + line + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_senses(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*senses\.jsonl"):
        read_senses(tmp_path / "senses.jsonl")

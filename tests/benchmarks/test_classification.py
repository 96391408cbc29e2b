"""The comparison runs on a small table, and its parts do what they say."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import classification
from classification import Table, compare, load, reuters, sample


def table(rows: int = 40) -> Table:
    words = {"good": "fine great lovely", "bad": "poor awful dull"}
    random = np.random.default_rng(0)
    labels = [str(label) for label in random.choice(["good", "bad"], rows)]
    texts = [f"a {random.choice(words[label].split())} thing it was" for label in labels]
    return Table(texts, labels)


def test_all_three_learn_what_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    vectors = {"fine": 1, "great": 1, "lovely": 1, "poor": -1, "awful": -1, "dull": -1, "thing": 0}
    glove = tmp_path / "glove.txt"
    glove.write_text("".join(f"{word} {value} 1\n" for word, value in vectors.items()))
    found = compare(table(), table(), 0, None, glove)
    assert [found[name] for name in ("tfidf_svm", "glove", "elmo")] == [1.0, 1.0, 1.0]
    assert found["rows"] == found["test_rows"] == 40


def test_a_sample_has_two_rows_of_every_class() -> None:
    whole = Table([str(row) for row in range(100)], ["a"] * 97 + ["b"] * 3)
    part = sample(whole, 10, 0)
    assert len(part.texts) == 10
    assert Counter(part.labels)["b"] >= 2
    assert sample(whole, None, 0) is whole


def test_sets_without_a_test_part_are_split_by_the_seed(tmp_path: Path) -> None:
    folder = tmp_path / "sentence_classification"
    folder.mkdir()
    lines = [f"{row % 2} text {row}\n" for row in range(50)] + ["1\n"]
    (folder / "custrev.all.gz").write_bytes(gzip.compress("".join(lines).encode()))
    train, test = load("cr", 0, tmp_path)
    assert (len(train.texts), len(test.texts)) == (46, 5)
    assert sorted(train.texts + test.texts) == sorted([*(f"text {n}" for n in range(50)), ""])
    assert load("cr", 1, tmp_path)[1] != test


def test_reuters_is_split_by_number(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(row),
            "title": "t",
            "body": f"b{row}",
            "topics": ["x", "y"][: 1 + (row % 10 == 0)],
        }
        for row in range(100)
    ]
    path = tmp_path / "reuters.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    train, test = reuters(path)
    assert (len(train.texts), len(test.texts)) == (63, 27)
    assert max(int(text[3:]) for text in train.texts) < min(int(text[3:]) for text in test.texts)
    assert set(classification.SETS) >= {"mr", "cr", "subj", "trec", "sst2", "newsgroups"}

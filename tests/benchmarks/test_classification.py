"""The comparison runs on a small table, and its parts do what they say."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import classification
from classification import Table, load, measure, read_results, reuters, sample


def table(rows: int = 40) -> Table:
    words = {"good": "fine great lovely", "bad": "poor awful dull"}
    random = np.random.default_rng(0)
    labels = [str(label) for label in random.choice(["good", "bad"], rows)]
    texts = [f"a {random.choice(words[label].split())} thing it was" for label in labels]
    return Table(texts, labels)


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    vectors = {"fine": 1, "great": 1, "lovely": 1, "poor": -1, "awful": -1, "dull": -1, "thing": 0}
    path = tmp_path / "glove.txt"
    path.write_text("".join(f"{word} {value} 1\n" for word, value in vectors.items()))
    return path


def test_all_three_learn_what_is_plain(tmp_path: Path, glove: Path) -> None:
    key = {"set": "plain", "seed": 0, "max_rows": None, "max_test": 30}
    results = tmp_path / "results.jsonl"
    measure(key, lambda: (table(), table()), results, "default", glove)
    found = read_results(results)
    assert {one["method"]: one["accuracy"] for one in found} == {
        "tfidf_svm": 1.0, "glove": 1.0, "elmo": 1.0,
    }  # fmt: skip
    assert {(one["rows"], one["test_rows"]) for one in found} == {(40, 30)}
    lines = classification.table(found, classification.fingerprint("default")).splitlines()
    assert lines[2:] == ["| plain | 40 | 30 | 1.0000 | 1.0000 | 1.0000 | 0 |"]


def test_what_was_measured_before_a_kill_is_not_measured_again(tmp_path: Path, glove: Path) -> None:
    key = {"set": "plain", "seed": 0, "max_rows": None, "max_test": None}
    results = tmp_path / "results.jsonl"
    known = [{**key, "method": name, "accuracy": 0.5} for name in ("tfidf_svm", "glove")]
    known.append({**key, "method": "elmo", "accuracy": 0.5, "model": "another"})
    lines = [*map(json.dumps, known), '{"set": "pla']
    results.write_text("\n".join(lines))
    measure(key, lambda: (table(), table()), results, "default", glove)
    *before, new = read_results(results)
    assert before == known
    assert new["method"] == "elmo"
    assert new["model"] == classification.fingerprint("default")

    def unread() -> tuple[Table, Table]:
        raise AssertionError

    measure(key, unread, results, "default", glove)
    assert len(read_results(results)) == 4
    measure(key, lambda: (table(), table()), results, "default", glove, again=True)
    assert [one["method"] for one in read_results(results)[4:]] == ["elmo"]


def test_a_baseline_without_chance_is_measured_once(tmp_path: Path, glove: Path) -> None:
    results = tmp_path / "results.jsonl"
    key = {"set": "trec", "max_rows": None, "max_test": None}
    for seed in (0, 1):
        measure({**key, "seed": seed}, lambda: (table(), table()), results, "default", glove)
    found = [(one["method"], one["seed"]) for one in read_results(results)]
    assert found == [("tfidf_svm", 0), ("elmo", 0), ("glove", 0), ("elmo", 1)]
    lines = classification.table(read_results(results), classification.fingerprint("default"))
    expected = "| trec | 40 | 40 | 1.0000 | 1.0000 | 1.0000 ± 0.0000 | 0, 1 |"
    assert lines.splitlines()[2:] == [expected]
    drawn = {"set": "mr", "seed": 1, "max_rows": None, "max_test": None}
    measure(drawn, lambda: (table(), table()), results, "default", glove)
    assert [one["seed"] for one in read_results(results)[4:]] == [1, 1, 1]


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


def test_news_as_a_whole_is_all_rows_at_hand(tmp_path: Path) -> None:
    folder = tmp_path / "ag_news"
    folder.mkdir()
    for name, rows in {
        "train_partial": [(1, "War", "in the north"), (2, "Match", "is won")],
        "train_more": [(3, "Oil", "prices fell")],
        "train_more_description_only": [(4, "", "a new phone")],
    }.items():
        lines = "".join(f'"{label}","{title}","{text}"\n' for label, title, text in rows)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "test.csv").write_text('"1","Peace","at last"\n')
    train, test = load("ag_d", 0, tmp_path)
    assert train.texts == ["in the north", "is won", "prices fell", "a new phone"]
    assert train.labels == ["World", "Sports", "Business", "Sci/Tech"]
    assert test == Table(["at last"], ["World"])
    assert load("ag_td", 0, tmp_path)[0].texts == [
        "War in the north",
        "Match is won",
        "Oil prices fell",
    ]
    assert len(load("ag10", 0, tmp_path)[0].texts) == 2

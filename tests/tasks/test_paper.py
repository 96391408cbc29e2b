"""How the paper's tables compare two arms, and which trainings they share."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.classify.toy import WORDS, toy_model
from tests.tasks.toy import toy_tags

from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import PAPER_PRESETS, PaperConfig
from elmo.tasks.paper import (
    MIXES,
    cells_of,
    compare_arms,
    cut,
    load_task,
    mix_cell,
    moments,
    neighbours,
    score_of,
)
from elmo.tasks.tags import span_counts


def cell(totals: Any) -> dict[str, Any]:
    return {"totals": totals.tolist()}


def bits(right: Any) -> dict[str, Any]:
    packed = np.packbits(right).tobytes().hex()
    return {"totals": None, "right": packed, "decisions": len(right)}


def test_moments_sum_to_the_correlation() -> None:
    random = np.random.default_rng(0)
    gold = random.normal(3, 2, 50)
    predicted = gold + random.normal(size=50)
    expected = float(np.corrcoef(predicted, gold)[0, 1])
    assert float(score_of(moments(predicted, gold).sum(0))) == pytest.approx(expected, abs=1e-12)


def test_span_counts_sum_to_f1() -> None:
    gold, predicted = [["B-A", "O", "B-B"], ["O"]], [["B-A", "O", "O"], ["B-A"]]
    # One of two predicted spans is right, one of two true ones is found.
    assert float(score_of(span_counts(gold, predicted).sum(0).astype(float))) == 0.5


def test_accuracies_have_mcnemars_exact_test() -> None:
    random = np.random.default_rng(1)
    first, second = random.random(200) < 0.8, random.random(200) < 0.65
    found = compare_arms([bits(first)], [bits(second)])
    only = int((first & ~second).sum()), int((second & ~first).sum())
    assert found["p"] == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    assert found["difference"] == pytest.approx(first.mean() - second.mean())


def test_swaps_agree_with_scipys_permutation_test() -> None:
    """Correlations of two predictors with the same gold scores, one seed each."""
    random = np.random.default_rng(2)
    gold = random.normal(size=60)
    first, second = (gold + random.normal(scale=scale, size=60) for scale in (0.8, 1.3))
    found = compare_arms([cell(moments(first, gold))], [cell(moments(second, gold))])

    def difference(a: Any, b: Any) -> float:
        return float(np.corrcoef(a, gold)[0, 1] - np.corrcoef(b, gold)[0, 1])

    expected = stats.permutation_test(
        (first, second), difference, permutation_type="samples", vectorized=False,
        n_resamples=2000, rng=np.random.default_rng(3),
    )  # fmt: skip
    assert found["difference"] == pytest.approx(float(expected.statistic))
    assert found["p"] == pytest.approx(float(expected.pvalue), abs=0.04)
    assert found["low"] < found["difference"] < found["high"]


def test_equal_arms_do_not_differ() -> None:
    counts = np.array([[1, 2, 1], [0, 1, 1], [2, 2, 3]])
    found = compare_arms([cell(counts)] * 2, [cell(counts)] * 2)
    assert found == {"difference": 0, "low": 0, "high": 0, "p": 1}


def test_the_seeds_of_a_row_are_not_further_rows() -> None:
    random = np.random.default_rng(4)
    first = random.integers(0, 2, (40, 1)) * [1, 1, 1]
    second = random.integers(0, 2, (40, 1)) * [1, 1, 1]
    one = compare_arms([cell(first)], [cell(second)])
    three = compare_arms([cell(first)] * 3, [cell(second)] * 3)
    assert three["p"] == pytest.approx(one["p"], abs=0.03)


def test_cells_of_two_tables_are_one() -> None:
    config = PaperConfig(tasks=("pos",), seeds=(0,), mix_tasks=("pos",), place_tasks=("pos",))
    names = [name for name, kind, _ in cells_of(config) if kind == "pos"]
    # Baseline and input; two further mixes; output and both; three smaller fractions of each arm.
    assert len(set(names)) == 2 + 2 + 2 + 2 * 3
    assert mix_cell("pos", MIXES["all layers, λ = 0.001"], 0) == "pos-input-0"


def test_cut() -> None:
    data = toy_tags(30, 0)
    some = cut(data, 5)
    assert len(some) == 5
    assert cut(data, None) is cut(data, 99) is data
    assert all(words in data.words for words in some.words)


def test_presets_are_valid() -> None:
    assert [list(preset.problems()) for preset in PAPER_PRESETS.values()] == [[], []]


# Data, and neighbours of ambiguous words.


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def test_stsb_and_sst_are_read_as_they_are_published(tmp_path: Path) -> None:
    pairs = [("4.5", 'A "man" plays', "A man plays ."), ("0.0", "Rain", "A cow, eating")] * 3
    for part in ("train", "dev", "test"):
        rows = [f"main\tx\t2012\t{n}\t{a}\t{b}\t{c}\tlink" for n, (a, b, c) in enumerate(pairs)]
        write(tmp_path / f"stsb/sts-{part}.csv.gz", rows)
        write(tmp_path / f"sst/stsa.fine.{part}.gz", ["4 a fine , warm film", "0 dull"] * 3)
    train, development, test = load_task("stsb", tmp_path, PaperConfig(test_rows=4))
    assert [*zip(train.targets, train.first, train.second, strict=True)] == pairs
    assert (len(development), len(test)) == (6, 4)
    train, development, test = load_task("sst5", tmp_path, PaperConfig(train_rows=2))
    assert (len(train.texts), len(development.texts), len(test.texts)) == (2, 2, 6)
    assert (test.texts[:2], test.labels[:2]) == (["a fine , warm film", "dull"], ["4", "0"])
    write(tmp_path / "stsb/sts-dev.csv.gz", ["main\tx\t2012\t1\t4.5\tA"])
    with pytest.raises(UserError, match="line 1: expected 7 columns, got 6"):
        load_task("stsb", tmp_path, PaperConfig())
    with pytest.raises(UserError, match=r"expected train\.csv or a part of it"):
        load_task("ag_news", tmp_path, PaperConfig())


def test_the_neighbours_of_a_word_are_those_of_a_search(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    sentences = [random.permutation(WORDS)[:7].tolist() for _ in range(12)]
    lines = [f"d\t{n}\t{word}\t\t\t_" for n, words in enumerate(sentences) for word in [*words, ""]]
    lines = [line if line.split("\t")[2] else "" for line in lines]
    write(tmp_path / "semcor/semcor3.0.tsv.gz", lines)
    vectors = StaticVectors(("cat", "dog", "rain"), np.array([[1, 0], [0.9, 0.1], [0, 1]], "f"))
    loaded = toy_model()
    found = neighbours("cat", loaded, tmp_path, vectors, k=2)
    assert found["static"] == ["dog", "rain"]

    embedder = Embedder(loaded)
    tops = embedder.encode(sentences, output="tokens", layer="top")
    with_word = [n for n, words in enumerate(sentences) if "cat" in words]
    asked = with_word[:: len(with_word) // 2][:2]
    assert [row["sentence"] for row in found["contextual"]] == [
        " ".join(sentences[n]) for n in asked
    ]
    for n, row in zip(asked, found["contextual"], strict=True):
        query = tops[n][sentences[n].index("cat")]
        hits = [
            (float(vector @ query / np.linalg.norm(vector) / np.linalg.norm(query)), word, words)
            for other, words in enumerate(sentences)
            if other != n
            for word, vector in zip(words, tops[other], strict=True)
        ]
        best = sorted(hits, key=lambda hit: -hit[0])[:2]
        assert row["nearest"] == [{"word": w, "text": " ".join(words)} for _, w, words in best]

"""The transfer benchmark against scikit-learn, SciPy and data made for it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV

import transfer


@pytest.mark.parametrize("columns", [7, 90])
@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_ridge_is_scikit_learns_with_the_best_strength(columns: int, noise: float):
    random = np.random.default_rng(0)
    features = random.normal(1, 2, (60, columns)).astype(np.float32)
    targets = features[:, :3] + random.normal(0, noise, (60, 3))
    weights, bias = transfer.ridge(features, targets, transfer.STRENGTHS)
    expected = RidgeCV(alphas=transfer.STRENGTHS).fit(features.astype(np.float64), targets)
    np.testing.assert_allclose(weights.T, expected.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(bias, expected.intercept_, rtol=1e-3, atol=1e-4)


def test_spearman_is_scipys():
    random = np.random.default_rng(1)
    first, second = random.integers(0, 9, (2, 50)).astype(np.float64)
    expected = spearmanr(first, second).statistic
    assert transfer.spearman(first.astype(np.float32), second) == pytest.approx(expected)


def test_the_threshold_is_the_best_on_the_training_pairs():
    cosines = np.array([0.1, 0.9, 0.5, 0.7], np.float32)
    gold = np.array([0.0, 1.0, 0.0, 1.0])
    assert transfer.threshold_accuracy(cosines, gold, cosines, gold) == 1.0
    flipped = transfer.threshold_accuracy(cosines, gold, cosines, 1 - gold)
    assert flipped == 0.0


def test_target_words_are_found_in_their_texts(tmp_path: Path):
    path = tmp_path / "wic.tsv"
    first, second = "He doesn't bank on it.", "The bank, again."
    path.write_text(
        "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"
        f"0\tbank\t{first}\t{second}\t{first.index('bank')}\t4\t{first.index('bank') + 4}\t8\t0\n"
    )
    pairs = transfer.read_wic(path)
    assert pairs.texts[0] == ["He", "does", "n't", "bank", "on", "it", "."]
    assert [text[idx] for text, idx in zip(pairs.texts, pairs.positions, strict=True)] == [
        "bank",
        "bank",
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sets in which one word tells the label."""
    random = np.random.default_rng(2)
    words = [f"w{number}" for number in range(20)]

    def rows(labels: tuple[str, ...], count: int) -> bytes:
        lines = [
            f"{labels[row % len(labels)]} {' '.join(random.choice(words, 6))} "
            f"cue{row % len(labels)} {row}"
            for row in range(count)
        ]
        return gzip.compress("\n".join(lines).encode())

    folder = tmp_path / "data"
    for name in ("sentence_classification", "sst", "wic", "scws"):
        (folder / name).mkdir(parents=True)
    for name in ("rt-polarity.all", "custrev.all", "subj.all"):
        (folder / f"sentence_classification/{name}.gz").write_bytes(rows(("0", "1"), 120))
    for name in ("TREC.train", "TREC.test"):
        content = rows(("NUM:date", "LOC:city", "NUM:count"), 120)
        (folder / f"sentence_classification/{name}.gz").write_bytes(content)
    for name in ("train", "test"):
        (folder / f"sst/stsa.binary.{name}.gz").write_bytes(rows(("0", "1"), 120))
    header = "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"
    pairs = [
        f"{row}\tcue0\tcue0 w1\tcue{row % 2} w2\t0\t0\t4\t4\t{1 - row % 2}" for row in range(8)
    ]
    for name in ("train", "validation"):
        (folder / f"wic/{name}.tsv").write_text(header + "\n".join(pairs) + "\n")
    rated = [f"{row}\ta\tn\tb\tn\tw1 <b>w{row}</b> w2\tw3 <b>w3</b>\t{row}.5" for row in range(8)]
    (folder / "scws/ratings.txt.gz").write_bytes(gzip.compress("\n".join(rated).encode()))
    return folder


def test_static_vectors_from_file_to_table(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    random = np.random.default_rng(3)
    names = [*(f"w{number}" for number in range(20)), "cue0", "cue1", "cue2"]
    path = tmp_path / "vectors.txt"
    lines = (f"{name} {' '.join(map(str, random.normal(size=16)))}" for name in names)
    path.write_text("\n".join(lines))
    transfer.main([str(path), "--data", str(data), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert set(result["sentences"]) == {
        "layer 0, mean", "layer 0, mean+max", "layer 0, mean+std",
    }  # fmt: skip
    assert result["sentences"]["layer 0, mean"]["average"] > 0.95
    assert result["words"]["layer 0"]["WiC"] == 1.0
    transfer.main([str(path), "--data", str(data), "--mean-only", "--no-words"])
    assert "| layer 0, mean | " in capsys.readouterr().out


def test_a_biLM_has_all_representations(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from elmo.cli.main import main as elmo

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(f"w{row % 20} cue{row % 3} w{row * 7 % 20}" for row in range(200)))
    flags = [
        "--hidden",
        "8",
        "--word-dim",
        "8",
        "--samples",
        "8",
        "--epochs",
        "1",
        "--min-count",
        "1",
    ]
    command = ["pretrain", str(corpus), "--out", str(tmp_path / "run"), "--cache", str(tmp_path)]
    assert elmo([*command, *flags]) == 0
    capsys.readouterr()
    transfer.main([str(tmp_path / "run"), "--data", str(data), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert set(result["sentences"]) == {
        "layer 0, mean", "layer 1, mean", "layer 2, mean", "average of layers, mean",
        "all layers, mean", "all layers, mean+max", "all layers, mean+std",
    }  # fmt: skip
    assert set(result["words"]) == {"layer 0", "layer 1", "layer 2", "average of layers"}


def test_static_vectors_of_a_model_are_put_before_all_layers():
    random = np.random.default_rng(4)
    pooled, static = random.normal(size=(5, 3, 12)), random.normal(size=(5, 2))
    with_static = transfer.representations(pooled, static, mean_only=False)
    without = transfer.representations(pooled, mean_only=False)
    assert set(with_static) - set(without) == {
        "x and all layers, mean", "x and all layers, mean+max", "x and all layers, mean+std",
    }  # fmt: skip
    features = with_static["x and all layers, mean"]
    np.testing.assert_array_equal(features[:, :2], static)
    np.testing.assert_array_equal(features[:, 2:], pooled[..., :4].reshape(5, 12))
    features = with_static["x and all layers, mean+std"]
    expected = pooled[..., [0, 1, 2, 3, 8, 9, 10, 11]].reshape(5, 24)
    np.testing.assert_array_equal(features[:, 2:], expected)

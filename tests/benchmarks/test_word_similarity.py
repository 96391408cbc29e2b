"""Word similarity against SciPy and ratings made for it; the vectors are those of `elmo static`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.benchmarks.conftest import TINY

import word_similarity
from elmo import StaticVectors, pretrain
from elmo.static.contextual import ContextualConfig
from elmo.static.train import SkipGramConfig, SvdConfig, train_static


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sets that rate two words by how far apart their numbers are."""
    folder = tmp_path / "data/word_similarity"
    folder.mkdir(parents=True)
    pairs = [(first, second) for first in range(8) for second in range(first)]
    for name in word_similarity.SETS.values():
        lines = (f"W{first}\tw{second}\t{10 - (first - second)}" for first, second in pairs)
        (folder / name).write_text("\n".join(lines) + "\nw1\tnowhere\t3\n")
    return tmp_path / "data"


def on_a_circle(count: int, turn: float) -> StaticVectors:
    """Words whose cosines fall with the distance of their numbers."""
    angles = np.arange(count) * turn
    vectors = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    return StaticVectors(tuple(f"w{number}" for number in range(count)), vectors)


def test_cosines_that_follow_the_ratings_are_at_the_top(data: Path):
    pairs = word_similarity.read_pairs(data / "word_similarity/EN-MEN-TR-3k.txt")
    right = on_a_circle(8, 0.3)
    random = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)  # cosines without ties
    noise = StaticVectors(right.words, random / np.linalg.norm(random, axis=1, keepdims=True))
    count, (best, other) = word_similarity.measure([right, noise], pairs, centre=False)
    assert count == 28  # the pair with an unknown word is left out
    assert best is not None
    assert best.spearman > 0.98  # rounding breaks ties of the cosines, ratings have many
    assert best.standard_error < 0.01
    cosine = [float(noise.vector(a.lower()) @ noise.vector(b)) for a, b, _ in pairs[:-1]]
    assert other is not None
    assert other.spearman == pytest.approx(
        spearmanr(cosine, [pair.rating for pair in pairs[:-1]]).statistic
    )
    assert 0.05 < other.standard_error < 0.4


def test_a_direction_that_all_words_share_is_taken_away(data: Path):
    pairs = word_similarity.read_pairs(data / "word_similarity/EN-MEN-TR-3k.txt")
    circle = on_a_circle(8, 0.3)
    shifted = StaticVectors(circle.words, circle.vectors + np.float32(50))
    _, plain = word_similarity.measure([circle, shifted], pairs, centre=True)
    assert plain[0] is not None
    assert plain[1] is not None
    assert plain[1].spearman == pytest.approx(plain[0].spearman, abs=0.02)


def test_the_vectors_of_a_text_are_those_of_elmo_static(
    data: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    model = str(tmp_path / "model")
    pretrain(str(text), model, TINY)
    out = tmp_path / "vectors"
    files = word_similarity.make_vectors(str(text), model, out, dim=4)
    configs = [
        SvdConfig(dim=4),
        SkipGramConfig(dim=4),
        *(ContextualConfig(layer=layer) for layer in (0, 1, 2, "average")),
    ]
    assert [path.stem for path in files][-1] == "contextual-average"
    for path, config in zip(files, configs, strict=True):
        expected = train_static(str(text), config, model=model).vectors
        stored = StaticVectors.load(path)
        assert stored.words == expected.words
        np.testing.assert_allclose(stored.vectors, expected.vectors, atol=1e-5)

    capsys.readouterr()
    word_similarity.main(
        ["--corpus", str(text), "--model", model, "--out", str(out), "--data", str(data), "--json"]
    )
    result = json.loads(capsys.readouterr().out)
    assert result["pairs"]["MEN"] == 28
    assert -1 <= result["vectors"][str(files[0])]["MEN"]["spearman"] <= 1
    word_similarity.main([str(files[0]), "--data", str(data)])
    assert "| MEN (28 of 29) |" in capsys.readouterr().out


def test_nothing_to_measure_is_said(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        word_similarity.main(["--corpus", "text.txt", "--data", "."])
    assert "--corpus SOURCE with --out FOLDER" in capsys.readouterr().err

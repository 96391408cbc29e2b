"""Classifiers and scorers of pairs: attention by hand, learning, saving, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.classify.toy import toy_model
from tests.tasks.test_tagger import stopping_after
from tests.tasks.toy import PAIRS, toy_pairs, write_toy

import elmo
from elmo.errors import UserError
from elmo.files import sha256
from elmo.tasks.config import PairConfig
from elmo.tasks.data import Pairs
from elmo.tasks.pairs import (
    PairClassifier,
    ScoreMetrics,
    align,
    correlation,
    fisher_interval,
    pool,
    spearman,
)


def trained(config: PairConfig, data: Pairs) -> PairClassifier:
    classifier = PairClassifier(config=config)
    classifier.train(toy_model(), data)
    return classifier


def test_alignment_is_that_of_a_loop_over_words() -> None:
    torch.manual_seed(0)
    lengths = [3, 2, 4, 0, 0, 0]  # three pairs; the second side of two of them is empty
    encoded = torch.randn(6, 4, 5).double()
    inside = torch.arange(4) < torch.tensor(lengths)[:, None]
    found = align(encoded, inside)
    for side in range(6):
        other = side + 1 if side % 2 == 0 else side - 1
        for word in range(lengths[side]):
            if not lengths[other]:
                assert not found[side, word].any()
                continue
            words = [encoded[other, idx].numpy() for idx in range(lengths[other])]
            scores = np.array([encoded[side, word].numpy() @ one for one in words])
            weights = np.exp(scores) / np.exp(scores).sum()
            expected = sum(weight * one for weight, one in zip(weights, words, strict=True))
            np.testing.assert_allclose(found[side, word].numpy(), expected, atol=1e-12)
    pooled = pool(encoded, inside)
    np.testing.assert_allclose(pooled[2, :5], encoded[2].mean(0), atol=1e-12)
    np.testing.assert_allclose(pooled[1, 5:], encoded[1, :2].amax(0), atol=1e-12)
    assert not pooled[3].any()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=20))
def test_correlations_are_those_of_scipy(values: list[tuple[int, int]]) -> None:
    first, second = (np.array(side, float) for side in zip(*values, strict=True))
    if first.std() == 0 or second.std() == 0:
        assert correlation(first, second) == 0
        return
    assert correlation(first, second) == pytest.approx(stats.pearsonr(first, second).statistic)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)


def test_interval_of_a_correlation_is_that_of_scipy() -> None:
    random = np.random.default_rng(0)
    first = random.normal(size=50)
    second = first + random.normal(size=50)
    expected = stats.pearsonr(first, second).confidence_interval(0.95)
    found = fisher_interval(correlation(first, second), 50)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("model", ["attention", "esim"])
def test_it_learns_labels(model: str) -> None:
    learning = replace(PAIRS.learning, epochs=10, learning_rate=0.01)
    classifier = trained(replace(PAIRS, model=model, learning=learning), toy_pairs(120))
    assert classifier.config_.target == "label"
    test = toy_pairs(40, seed=1)
    rows = list(zip(test.first, test.second, strict=True))
    assert classifier.score(rows, test.targets) > 0.8
    assert classifier.predict_proba(rows).sum(1) == pytest.approx(np.ones(40), abs=1e-5)


def test_it_learns_scores_and_is_saved(tmp_path: Path) -> None:
    words = replace(PAIRS.words, elmo="both")
    classifier = trained(replace(PAIRS, words=words), toy_pairs(120, scores=True))
    test = toy_pairs(40, seed=1, scores=True)
    metrics = classifier.evaluate(test)
    assert isinstance(metrics, ScoreMetrics)
    assert metrics.pearson.value > 0.5
    assert 0 < classifier.predict([("the cat", "a dog")])[0] < 3
    classifier.save_pretrained(tmp_path / "pairs")
    loaded = elmo.PairClassifier.from_pretrained(tmp_path / "pairs")
    rows = [*zip(test.first, test.second, strict=True), ("", "cat"), ("", "")]
    assert (loaded.predict(rows) == classifier.predict(rows)).all()
    assert np.isfinite(loaded.predict(rows)).all()
    alone = np.array([classifier.predict([row])[0] for row in rows])
    np.testing.assert_allclose(classifier.predict(rows), alone, atol=1e-4)
    with pytest.raises(UserError, match="only a trained classifier of labels"):
        loaded.predict_proba(rows)


def test_bad_pairs() -> None:
    with pytest.raises(UserError, match="pair 1: expected two texts"):
        PairClassifier().fit([("a", "b", "c")], ["x"])  # pyright: ignore
    with pytest.raises(UserError, match="one target per pair"):
        PairClassifier().fit([("a", "b")], [])
    with pytest.raises(UserError, match="'many' at pair 2"):
        PairClassifier(config=PairConfig(target="score")).fit([("a", "b")] * 2, [1, "many"])
    with pytest.raises(UserError, match="several pairs per label"):
        PairClassifier(config=PAIRS).fit([("a", "b")] * 12, list(range(12)))
    with pytest.raises(UserError, match="not trained"):
        PairClassifier().predict([("a", "b")])
    assert "not trained" in repr(PairClassifier())


def test_an_interrupted_training_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toy(tmp_path)
    config = replace(PAIRS, learning=replace(PAIRS.learning, epochs=2))

    def train(out: str) -> Path:
        return PairClassifier(tmp_path / "bilm", config).train_files(
            str(tmp_path / "train.tsv"), tmp_path / out,
            test=str(tmp_path / "test.tsv"), checkpoint_minutes=0,
        ).folder  # fmt: skip

    whole = train("whole")
    with monkeypatch.context() as patch:
        stopping_after(patch, 3)
        with pytest.raises(KeyError):
            train("stopped")
    assert sha256(train("stopped") / "network.safetensors") == sha256(whole / "network.safetensors")

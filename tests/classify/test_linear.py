"""The linear parts agree with scikit-learn, and the weights of parts with a search over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import vstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from tests.classify.toy import toy_model, toy_texts
from torch.nn import functional

from elmo.classify import linear
from elmo.classify.classifier import TextClassifier
from elmo.classify.config import ClassifierConfig, LearningConfig
from elmo.classify.data import Split
from elmo.classify.linear import (
    BIAS_SPREAD,
    NgramSVM,
    PooledRegression,
    _choose,  # pyright: ignore
    _fit_regression,  # pyright: ignore
    cross_validation,
    fit_class_bias,
    fit_ngrams,
    fit_part_weights,
    fit_pooled,
    fit_sum,
    linear_parts,
    linear_tensors,
    ngram_counts,
    tfidf,
)
from elmo.classify.training import train
from elmo.companion import CompanionVectors
from elmo.errors import UserError
from elmo.language_model import LanguageModel

WORDS = st.lists(st.sampled_from(["a", "B", "b", "the", "Übel"]), max_size=8)


def analyzed(words: list[str]) -> list[str]:
    lower = [word.lower() for word in words]
    return lower + [f"{one} {other}" for one, other in pairwise(lower)]


def labelled_texts(rows: int = 120) -> tuple[list[list[str]], np.ndarray]:
    data = toy_texts(rows)
    return [text.split() for text in data.texts], np.array(
        [label == "weather" for label in data.labels or ()], np.int64
    )


def characters_of(words: list[str]) -> list[str]:
    by_scikit: Any = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)).build_analyzer()
    return by_scikit(" ".join(words))


@pytest.mark.parametrize("characters", [False, True])
@given(texts=st.lists(WORDS, min_size=1, max_size=8).filter(any))
def test_tfidf_is_that_of_scikit_learn(characters: bool, texts: list[list[str]]) -> None:
    counts, hashes = ngram_counts(texts, characters=characters)
    in_texts = np.bincount(counts.indices, minlength=len(hashes))
    idf = (np.log((1 + len(texts)) / (1 + in_texts)) + 1).astype(np.float32)
    found = tfidf(counts, idf).toarray()
    analyzer = characters_of if characters else analyzed
    expected = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True).fit_transform(texts).toarray()
    # Columns are in another order: compare the products of all pairs of texts.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    again, _ = ngram_counts(texts, hashes, characters=characters)
    assert (again != counts).nnz == 0
    alone = [ngram_counts([text], hashes, characters=characters)[0] for text in texts]
    np.testing.assert_array_equal(vstack(alone).toarray(), counts.toarray())


@pytest.mark.parametrize("characters", [False, True])
def test_the_svm_decides_as_that_of_scikit_learn(characters: bool) -> None:
    texts, classes = labelled_texts()
    folds = cross_validation(classes, 0)
    svm, held_out = fit_ngrams(texts, classes, 2, folds, False, characters=characters)
    analyzer = characters_of if characters else analyzed
    vectorizer = TfidfVectorizer(analyzer=analyzer, sublinear_tf=True)
    inputs = vectorizer.fit_transform(texts)
    new = [text.split() for text in toy_texts(40, seed=3).texts] + [["never", "seen"], []]
    expected = [
        LinearSVC(C=strength, random_state=0, tol=1e-6)
        .fit(inputs, classes)
        .decision_function(vectorizer.transform(new))
        for strength in (0.3, 1.0, 3.0, 10.0)
    ]
    found = svm.scores(new).numpy()
    np.testing.assert_array_equal(found[:, 0], -found[:, 1])
    assert min(np.abs(found[:, 1] - one).max() for one in expected) < 0.02
    assert held_out.shape == (120, 2)
    assert float((held_out.argmax(1).numpy() == classes).mean()) > 0.9


def test_the_most_frequent_characters_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, classes = labelled_texts()
    monkeypatch.setattr(linear, "MAX_CHARACTERS", 30)
    folds = cross_validation(classes, 0)
    svm, held_out = fit_ngrams(texts, classes, 2, folds, False, characters=True)
    assert svm.weight.shape == (30, 2)
    counts, hashes = ngram_counts(texts, characters=True)
    in_texts = np.bincount(counts.indices, minlength=len(hashes))
    kept = np.isin(hashes, svm.hashes)
    assert in_texts[~kept].max() <= in_texts[kept].min()
    assert float((held_out.argmax(1).numpy() == classes).mean()) > 0.8
    assert len(fit_ngrams(texts, classes, 2, folds, False)[0].hashes) > 30  # of words all


@pytest.mark.parametrize(("count", "used"), [(3000, 5), (3003, 1)])
def test_many_rows_choose_by_their_first_fold(count: int, used: int) -> None:
    classes = np.arange(count) % 2
    folds = cross_validation(classes, 0)
    asked: list[tuple[float, int]] = []

    def held_out(candidate: float, some: Sequence[Split]) -> torch.Tensor:
        asked.append((candidate, len(some)))
        scores = torch.zeros(count, 2)
        for fold in some:
            truth = functional.one_hot(torch.from_numpy(classes[fold.development]), 2)
            right = torch.rand(len(truth), generator=torch.Generator().manual_seed(0)) < candidate
            scores[fold.development] = torch.where(right[:, None], truth, 1 - truth).float()
        return scores

    best, scores = _choose((0.6, 0.9, 0.8, 0.7), held_out, classes, folds)
    assert best == 0.9
    assert asked == [*((one, used) for one in (0.6, 0.9, 0.8, 0.7)), (0.9, len(folds) - used)]
    assert bool((scores.sum(1) == 1).all())  # every row is scored, and once
    assert float((scores.argmax(1).numpy() == classes).mean()) == pytest.approx(0.9, abs=0.03)


def test_the_regression_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    inputs = (random.normal(size=(200, 6)) * [3, 2, 1, 1, 0.5, 0.1]).astype(np.float32)
    targets = (inputs[:, :3].argmax(1)).astype(np.int64)
    variances = torch.from_numpy(inputs.var(0))
    weight, bias = _fit_regression(
        torch.from_numpy(inputs), torch.from_numpy(targets), 3, variances, 1e-3, None
    )
    theirs = LogisticRegression(C=1 / (200 * 1e-3), tol=1e-8, max_iter=5000).fit(inputs, targets)
    found = (torch.from_numpy(inputs) @ weight + bias).softmax(1).numpy()
    np.testing.assert_allclose(found, theirs.predict_proba(inputs), atol=0.01)


def test_pooled_layers_are_learned_from() -> None:
    random = np.random.default_rng(0)
    pooled = random.normal(size=(300, 3, 4, 5)).astype(np.float16)
    classes = (pooled[:, 1, 0, 2] + pooled[:, 2, 3, 1] > 0).astype(np.int64)
    regression, held_out = fit_pooled(pooled, classes, 2, cross_validation(classes, 0), False)
    scores = regression.scores(pooled)
    assert float((held_out.argmax(1).numpy() == classes).mean()) > 0.85
    assert float((scores.argmax(1).numpy() == classes).mean()) > 0.9
    assert regression.scores(pooled[:0]).shape == (0, 2)


@given(st.integers(0, 30))
@settings(max_examples=10, deadline=None)
def test_no_other_weights_predict_better(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 3, (400,), generator=random)
    truth = functional.one_hot(targets, 3)
    scores = [
        scale * (strength * truth + torch.randn(400, 3, generator=random))
        for scale, strength in ((3.0, 1.0), (0.1, 1.5), (1.0, 0.0))
    ]
    weights = fit_part_weights(scores, targets)
    assert min(weights) >= 0

    def loss(some: tuple[float, ...]) -> float:
        summed = sum(w * one for w, one in zip(some, scores, strict=True))
        return float(functional.cross_entropy(torch.as_tensor(summed), targets))

    best = loss(weights)
    for index in range(3):
        for factor in (0.8, 1.25):
            other = [w * factor if n == index else w for n, w in enumerate(weights)]
            assert best <= loss(tuple(other)) + 1e-3


def test_texts_that_leave_no_doubt_do_not_make_weights_infinite() -> None:
    targets = torch.tensor([0, 1] * 8)
    scores = functional.one_hot(targets, 2).float()
    (weight,) = fit_part_weights([scores], targets)
    assert 1 < weight < 50


def test_held_out_texts_that_point_the_wrong_way_do_not_silence_a_part() -> None:
    """Weights of 0 would predict the first class for every text."""
    random = torch.Generator().manual_seed(0)
    targets = torch.tensor([0, 1] * 10)
    truth = functional.one_hot(targets, 2)
    scores = [torch.randn(20, 2, generator=random) - 0.5 * truth for _ in range(2)]
    weights = fit_part_weights([scores[0], 100 * scores[1]], targets)
    assert 0.001 < weights[0] < 1
    assert 0.001 < 100 * weights[1] < 1
    assert all(map(math.isfinite, fit_part_weights([torch.zeros(20, 2)], targets)))


@given(st.integers(0, 30))
@settings(max_examples=10, deadline=None)
def test_no_other_class_bias_predicts_better(seed: int) -> None:
    """Compared with scikit-learn: a regression on which class it is, of fixed scores 0."""
    random = np.random.default_rng(seed)
    targets = torch.from_numpy(random.choice(3, 400, p=[0.6, 0.3, 0.1]))
    found = fit_class_bias(torch.zeros(400, 3), targets)
    theirs = LogisticRegression(C=BIAS_SPREAD**2, fit_intercept=False, tol=1e-8)
    theirs.fit(np.ones((400, 1)), targets)
    np.testing.assert_allclose(found, theirs.coef_[:, 0], atol=1e-3)
    # What the scores already know is not added again.
    assert fit_class_bias(found + torch.zeros(400, 3), targets).abs().max() < 0.2
    assert fit_class_bias(torch.zeros(3, 3), torch.arange(3)).abs().max() < 1e-3


def test_svms_of_classes_as_they_are_get_a_bias() -> None:
    data = toy_texts(60)
    balanced = ClassifierConfig(parts="ngrams", learning=LearningConfig(class_weights="balanced"))
    assert train(toy_model(), data, balanced).classifier.class_bias == 0.0
    bias = train(toy_model(), data, ClassifierConfig(parts="ngrams")).classifier.class_bias
    assert isinstance(bias, torch.Tensor)
    assert bias.shape == (2,)
    # A regression has learned its own.
    assert train(toy_model(), data, ClassifierConfig(parts="elmo")).classifier.class_bias == 0.0


def test_characters_weigh_nothing_where_few_texts_fit_them_by_chance() -> None:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(40) % 4
    right = torch.nn.functional.one_hot(targets, 4).float()
    noise = torch.randn(40, 4, generator=random)
    known = {"words": right + noise}
    chance = {**known, "characters": torch.randn(40, 4, generator=random)}
    weights, bias = fit_sum(chance, targets, balanced=True)
    assert weights == {**fit_sum(known, targets, balanced=True)[0], "characters": 0.0}
    assert bias == 0.0
    weights, _ = fit_sum({**known, "characters": right}, targets, balanced=True)
    assert weights["characters"] > weights["words"]
    many = {part: some.repeat(20, 1) for part, some in chance.items()}
    assert fit_sum(many, targets.repeat(20), balanced=True)[0]["characters"] > 0
    alone = {"characters": noise}
    assert fit_sum(alone, targets, balanced=True)[0]["characters"] > 0


def test_a_regression_of_fewer_poolings_reads_the_first() -> None:
    random = np.random.default_rng(0)
    pooled = random.normal(size=(7, 3, 5, 6)).astype(np.float16)
    weight, bias = torch.randn(3 * 4 * 6, 2), torch.randn(2)
    tensors = {"weights.elmo": torch.tensor(1.0), "elmo.weight": weight, "elmo.bias": bias}
    parts, _, class_bias = linear_parts(tensors, "file", 2, 3 * 6, 0)
    assert class_bias == 0.0  # of a version that had none
    elmo = parts["elmo"]
    assert isinstance(elmo, PooledRegression)
    expected = pooled[:, :, :4].reshape(7, -1).astype(np.float32) @ weight.numpy() + bias.numpy()
    np.testing.assert_allclose(elmo.scores(pooled), expected, atol=1e-4)
    with pytest.raises(UserError, match="expected tensors of shapes"):
        linear_parts({**tensors, "elmo.weight": weight[:-18]}, "file", 2, 3 * 6, 0)


def test_what_is_saved_is_what_was_there() -> None:
    ones = np.ones(3, np.float32)
    svm = NgramSVM(np.array([3, 9]), ones[:2], np.ones((2, 3), np.float32), ones)
    average = PooledRegression(torch.randn(4, 3), torch.randn(3))
    characters = NgramSVM(np.array([4]), ones[:1], np.ones((1, 3), np.float32), ones, True)
    saved = {"ngrams": svm, "characters": characters, "words": average}
    shift = torch.tensor([0.5, 0.0, -1.0])
    tensors = linear_tensors(saved, {"ngrams": 2.0, "characters": 3.0, "words": 0.5}, shift)
    parts, weights, bias = linear_parts(tensors, "file", 3, 10, 4)
    assert shift.equal(torch.as_tensor(bias))
    assert list(parts) == ["ngrams", "characters", "words"]
    ngrams, again, averages = parts.values()
    assert isinstance(ngrams, NgramSVM)
    assert isinstance(again, NgramSVM)
    assert isinstance(averages, PooledRegression)
    assert (ngrams.characters, again.characters) == (False, True)
    assert again.hashes.tolist() == [4]
    assert weights == {"ngrams": 2.0, "characters": 3.0, "words": 0.5}
    assert averages.weight.equal(average.weight)
    assert averages.bias.equal(average.bias)
    with pytest.raises(UserError, match="file: expected tensors of shapes"):
        linear_parts(tensors, "file", 3, 10, 0)  # a biLM without such vectors
    np.testing.assert_array_equal(ngrams.weight, svm.weight)
    with pytest.raises(UserError, match="file: expected tensors of shapes"):
        linear_parts(tensors, "file", 4, 10, 4)
    for missing in ("ngrams.hashes", "characters.idf"):
        damaged = {name: tensor for name, tensor in tensors.items() if name != missing}
        with pytest.raises(UserError, match="file: expected tensors of shapes"):
            linear_parts(damaged, "file", 3, 10, 4)


def test_the_default_parts_learn_are_saved_and_loaded(tmp_path: Path) -> None:
    data = toy_texts(120)
    trained = train(toy_model(), data, ClassifierConfig())
    classifier = trained.classifier
    assert list(classifier.part_weights) == ["ngrams", "characters", "elmo"]
    assert classifier.network is None
    assert trained.held_out.shape == (120, 2)
    assert (trained.held_out.argmax(1) == trained.classes).mean() > 0.9
    assert trained.calibration[1] <= trained.calibration[0] + 0.02
    assert not trained.history
    assert "solved" in trained.stopped
    classifier.save_pretrained(tmp_path / "out")
    again = TextClassifier.from_pretrained(tmp_path / "out")
    texts = [*toy_texts(9, seed=2).texts, "", "unheard of"]
    found, expected = again.predict_proba(texts), classifier.predict_proba(texts)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # n-gram weights in half precision
    assert "parts ngrams+characters+elmo" in repr(again)


def test_word_vectors_that_come_with_a_biLM_are_a_part(tmp_path: Path) -> None:
    toy_model().save_pretrained(tmp_path / "bilm")
    data = toy_texts(120)
    known = sorted({word for text in data.texts for word in str(text).lower().split()})[:-1]
    vectors = np.random.default_rng(0).normal(size=(len(known), 6)).astype(np.float32)
    CompanionVectors.of(known, vectors).save(tmp_path / "bilm")
    loaded = LanguageModel.from_pretrained(tmp_path / "bilm")
    classifier = train(loaded, data, ClassifierConfig()).classifier
    assert list(classifier.part_weights) == ["ngrams", "characters", "words", "elmo"]
    alone = train(loaded, data, ClassifierConfig(parts="words"))
    assert (alone.held_out.argmax(1) == alone.classes).mean() > 0.8
    classifier.save_pretrained(tmp_path / "copy")  # the vectors come along
    classifier.save_pretrained(tmp_path / "reference", bilm=tmp_path / "bilm")
    texts = [*toy_texts(9, seed=2).texts, "", "unheard of"]
    expected = classifier.predict_proba(texts)
    for name in ("copy", "reference"):
        again = TextClassifier.from_pretrained(tmp_path / name)
        np.testing.assert_allclose(again.predict_proba(texts), expected, atol=2e-3)
    # Other vectors are another model.
    CompanionVectors.of(known, vectors[::-1]).save(tmp_path / "bilm")
    with pytest.raises(UserError, match="another checksum"):
        TextClassifier.from_pretrained(tmp_path / "reference")
    with pytest.raises(UserError, match="none come with this biLM"):
        train(toy_model(), data, ClassifierConfig(parts="words"))


@pytest.mark.parametrize("parts", ["ngrams", "characters", "elmo", "ngrams+network"])
def test_any_parts_will_do(parts: str) -> None:
    data = toy_texts(60)
    trained = train(toy_model(), data, ClassifierConfig(parts=parts))
    assert "+".join(trained.classifier.part_weights) == parts
    assert (trained.probabilities.argmax(1) == trained.classes).mean() > 0.85


def test_labels_of_any_kind_and_balanced_classes() -> None:
    data = toy_texts(80)
    rows = [row for row in range(80) if (data.labels or [])[row] == "animals" or row % 4 == 0]
    labels = [(data.labels or [])[row] == "weather" for row in rows]
    texts = [data.texts[row] for row in rows]
    config = ClassifierConfig(learning=LearningConfig(class_weights="balanced"))
    plain, balanced = (TextClassifier(config=one) for one in (None, config))
    for one in (plain, balanced):
        one.fit(texts, labels)
        assert one.predict(["rain", "a cat"]).tolist() == [True, False]

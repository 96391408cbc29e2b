"""Sampled Shapley values against the exact ones, over all subsets."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from elmo.classify.classifier import TextClassifier
from elmo.errors import UserError
from elmo.explore.shapley import contributions

WORDS = ["Oil", "prices", "fell", "before", "the", "match"]


def exact(classifier: TextClassifier, words: list[str], column: int) -> list[float]:
    """Shapley's formula: the weighted mean over all subsets."""
    n = len(words)
    subsets = [subset for size in range(n + 1) for subset in combinations(range(n), size)]
    texts = [[words[i] for i in subset] for subset in subsets]
    logs = np.log(classifier.predict_proba(texts)[:, column].astype(np.float64))
    value = dict(zip(subsets, logs.tolist(), strict=True))
    shares: list[float] = []
    for word in range(n):
        total = 0.0
        for subset in subsets:
            if word not in subset:
                weight = factorial(len(subset)) * factorial(n - len(subset) - 1) / factorial(n)
                total += weight * (value[tuple(sorted((*subset, word)))] - value[subset])
        shares.append(total)
    return shares


def test_against_all_subsets(classifier: TextClassifier) -> None:
    found = contributions(classifier, WORDS, "Business", permutations=64)
    column = classifier.labels.index("Business")
    expected = exact(classifier, WORDS, column)
    for value, truth, error in zip(found.values, expected, found.errors, strict=True):
        assert abs(value - truth) < 4 * error + 0.02
    probability = classifier.predict_proba([WORDS])[0, column]
    assert found.log_probability == pytest.approx(np.log(probability), abs=1e-4)
    assert found.base + sum(found.values) == pytest.approx(found.log_probability, abs=1e-9)


def test_any_sample_sums_to_the_log_probability(classifier: TextClassifier) -> None:
    for seed in range(3):
        found = contributions(classifier, "Shares rose .", permutations=2, seed=seed)
        assert found.base + sum(found.values) == pytest.approx(found.log_probability, abs=1e-9)
        assert found.label == max(found.probabilities, key=lambda name: found.probabilities[name])
    again = contributions(classifier, "Shares rose .", permutations=2, seed=2)
    assert again == found
    assert "Shares" in found._repr_html_()


def test_mistakes(classifier: TextClassifier) -> None:
    for text, settings, message in (
        ("", {}, "1 to 256 words"),
        ("word " * 300, {}, "1 to 256 words to explain, got 300"),
        ("Shares rose .", {"label": "Weather"}, "expected one of World"),
        ("Shares rose .", {"permutations": 3}, "an even number"),
    ):
        with pytest.raises(UserError, match=message):
            contributions(classifier, text, **settings)

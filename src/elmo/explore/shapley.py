"""How much each word contributes to a label: sampled Shapley values.

Written here since the shap package (with numba, about 200 MB) samples one text at a time through a
masker of its own; here all texts of a permutation go through the classifier in batches.

A word's contribution is the change of the label's log-probability when the word is added to some
of the others, averaged over orders in which all words are added. For each order the changes add up
to the log-probability of the whole text minus that of no words, whatever the number of orders.
Orders come in pairs, one the reverse of the other (antithetic sampling): what a word adds as the
first of two that say the same is balanced by what it adds as the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.classify.classifier import TextClassifier
from elmo.errors import UserError
from elmo.explore.html import coloured, table
from elmo.model_folder import Text

MOST_WORDS = 256
PERMUTATIONS = 32
TEXTS_AT_ONCE = 256
SMALLEST = float(np.finfo(np.float32).tiny)
"""A probability that was rounded to 0 counts as this one, so that its logarithm is finite."""
Predict = Callable[[list[list[str]]], NDArray[np.float32]]


@dataclass(frozen=True)
class Contributions:
    """A text, a label, and how much each word speaks for it."""

    words: tuple[str, ...]
    label: str
    probabilities: dict[str, float]
    base: float
    """Log-probability of the label for a text without words."""
    values: tuple[float, ...]
    """What each word adds to it; `base` and all values sum to `log_probability`."""
    errors: tuple[float, ...]
    """Standard errors of the values, from the pairs of orders; 0 for one word."""
    log_probability: float

    def _repr_html_(self) -> str:
        strongest = max((abs(value) for value in self.values), default=0) or 1.0
        spans = (
            coloured(word, value / strongest, f"{value:+.3f}")
            for word, value in zip(self.words, self.values, strict=True)
        )
        rows = [[" ".join(spans)], [f"log-probability {self.log_probability:.3f}"]]
        return table(rows, caption=f"{self.label} ({self.probabilities[self.label]:.3f})")


def contributions(
    classifier: TextClassifier,
    text: Text,
    label: str | None = None,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    predict: Predict | None = None,
) -> Contributions:
    """Explain a label by the words of a text.

    Args:
        classifier: What assigns labels.
        text: A string or a list of at most 256 words.
        label: Default: the most probable one.
        permutations: Orders of the words to sample; an even number, two of them are a pair.
        seed: Of the orders.
        predict: Computes probabilities elsewhere, such as in a server's own thread; default:
            `classifier.predict_proba`.

    Example:
        >>> contributions(TextClassifier.from_pretrained(), "Oil prices fell on Monday .").values
    """
    words = classifier.language_model.words(text)
    if not 1 <= len(words) <= MOST_WORDS:
        raise UserError(
            f"expected a text of 1 to {MOST_WORDS} words to explain, got {len(words):,}; shorten it"
        )
    if permutations < 2 or permutations % 2:
        raise UserError(f"permutations: expected an even number of 2 or more, got {permutations}")
    labels = list(classifier.labels)
    if label is not None and label not in labels:
        raise UserError(f"label: expected one of {', '.join(labels)}; got {label!r:.60}")
    run: Predict = predict or classifier.predict_proba

    chance = np.random.default_rng(seed)
    first = [chance.permutation(len(words)) for _ in range(permutations // 2)]
    orders = [order for forward in first for order in (forward, forward[::-1])]
    # Each set of words once: the empty one, the whole text and the first words recur.
    sets: dict[bytes, int] = {}
    masks: list[NDArray[np.bool_]] = []
    steps = np.zeros((len(orders), len(words) + 1), np.int64)
    for row, order in enumerate(orders):
        mask = np.zeros(len(words), np.bool_)
        for step in range(len(words) + 1):
            if step:
                mask[order[step - 1]] = True
            key = mask.tobytes()
            if key not in sets:
                sets[key] = len(masks)
                masks.append(mask.copy())
            steps[row, step] = sets[key]
    texts = [[words[idx] for idx in np.flatnonzero(mask).tolist()] for mask in masks]
    chunks = [texts[n : n + TEXTS_AT_ONCE] for n in range(0, len(texts), TEXTS_AT_ONCE)]
    probabilities = np.concatenate([run(chunk) for chunk in chunks]).astype(np.float64)

    whole = probabilities[sets[np.ones(len(words), np.bool_).tobytes()]]
    column = labels.index(label) if label is not None else int(whole.argmax())
    logs = np.log(np.maximum(probabilities[:, column], SMALLEST))
    changes = np.zeros((len(orders), len(words)))
    for row, order in enumerate(orders):
        changes[row, order] = np.diff(logs[steps[row]])
    pairs = changes.reshape(-1, 2, len(words)).mean(1)
    spread = pairs.std(0, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.zeros(len(words))
    return Contributions(
        tuple(words),
        labels[column],
        dict(zip(labels, whole.tolist(), strict=True)),
        float(logs[steps[0, 0]]),
        tuple(changes.mean(0).tolist()),
        tuple(spread.tolist()),
        float(logs[steps[0, -1]]),
    )

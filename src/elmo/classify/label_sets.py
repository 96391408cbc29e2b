"""Several labels per text: targets are a matrix, (texts, labels), of 0 and 1.

A label is predicted where its probability is above its threshold. Metrics are plain NumPy, as those
of one label per text; the tests compare with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from elmo.classify.metrics import Estimate, Ints, Metrics, Mistake, Probabilities

Rows = NDArray[np.int64]
Thresholds = NDArray[np.float32] | float
"""One probability per label, (labels,), or one for all."""
SEPARATORS = (";", "|", ",", "\t")
PRIOR_TEXTS = 20
"""Texts of an average label that count with those of each label when its threshold is chosen."""


def strata(targets: Rows) -> Rows:
    """A class for each row by which to spread texts with several labels: its rarest label.

    Rows without a label are a class too; a class of one row, which cannot be spread, joins them.
    """
    none = targets.shape[1]
    rarity: Rows = np.where(targets > 0, targets.sum(0), len(targets) + 1)
    classes = rarity.argmin(1).astype(np.int64)
    classes[~targets.any(1)] = none
    classes[np.bincount(classes, minlength=none + 1)[classes] < 2] = none
    sizes = np.bincount(classes, minlength=none + 1)
    if sizes[none] == 1:
        classes[classes == none] = sizes.argmax()
    return classes


def encode_sets(
    labels: Sequence[Any],
    names: Sequence[str],
    separator: str,
    locations: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Which labels each text has: (texts, labels), 0 or 1.

    Args:
        labels: per text a list of them, or several in one string.

    Raises:
        UserError: if a label is not among the names.
    """
    from elmo.classify.data import encode_labels, split_labels

    sets = [
        tuple(map(str, some)) if is_several(some) else split_labels(str(some), separator)
        for some in labels
    ]
    rows = [row for row, some in enumerate(sets) for _ in some]
    places = [f"row {row}" if locations is None else locations[row] for row in rows]
    columns = encode_labels([label for some in sets for label in some], names, places)
    targets = np.zeros((len(sets), len(names)), np.int64)
    targets[rows, columns] = 1
    return targets


def joined_labels(
    values: Sequence[Any], texts: int
) -> tuple[list[str], dict[str, Any], str | None]:
    """Labels as strings, one per text; the value of each label; what separates several of a text.

    Args:
        values: one per text, or a list, tuple or set per text.
        texts: how many there are.
    """
    if len(values) != texts:
        raise UserError(f"expected one label per text, got {texts} texts and {len(values)} labels")
    for idx, value in enumerate(values):  # what pandas and NumPy put where a label is missing
        if not isinstance(value, str) and str(value) in ("nan", "None", "<NA>", "NaT"):
            raise UserError(f"labels: text {idx} has none ({value}); leave such rows out")
    several = [is_several(value) for value in values].count(True)
    if not several:
        return [str(value) for value in values], {str(value): value for value in values}, None
    if several < len(values):
        raise UserError(
            f"labels: expected one per text, or a list per text; got {several} lists and "
            f"{len(values) - several} others"
        )
    value_of = {str(value): value for some in values for value in some}
    separator = separator_for([value_of])
    return [separator.join(map(str, some)) for some in values], value_of, separator


def is_several(labels: object) -> bool:
    """Whether labels are given as a list, tuple or set, not as one value."""
    return isinstance(labels, list | tuple | set | frozenset)


def separator_for(sets: Iterable[Iterable[str]]) -> str:
    """What can separate these labels in one string: none of them has it."""
    joined = "".join(label for labels in sets for label in labels)
    for separator in SEPARATORS:
        if separator not in joined:
            return separator
    raise UserError(f"labels: expected one of {SEPARATORS} to be in none of them; rename some")


def fit_thresholds(probabilities: Probabilities, gold: Ints) -> NDArray[np.float32]:
    """The probability above which each label is predicted, (labels,): that of its best F1.

    At 0.5, rare labels are hardly ever predicted. But a rare label has few texts to choose by:
    `PRIOR_TEXTS` more, which behave as those of all labels together do, count with them.

    Args:
        probabilities: of texts that the classifier has not learned from, (texts, labels).
        gold: which labels they have, 0 or 1.
    """
    true = gold.astype(np.bool_)
    candidates = np.arange(1, 50) / 50
    found, right = np.empty((2, len(candidates), true.shape[1]))
    for idx, threshold in enumerate(candidates):
        predicted = probabilities > threshold
        found[idx], right[idx] = predicted.sum(0), (predicted & true).sum(0)
    texts = true.sum(0)  # (labels,)
    usual = [PRIOR_TEXTS * some.sum(1, keepdims=True) / max(1, texts.sum())
             for some in (found, right)]  # fmt: skip
    f1 = 2 * (right + usual[1]) / (found + usual[0] + texts + PRIOR_TEXTS)
    # Of equally good ones the middle: between two neighbouring probabilities, all are the same.
    best = [candidates[some] for some in (f1 >= f1.max(0) - 1e-9).T]
    return np.array([some[len(some) // 2] for some in best], np.float32)


def saved_thresholds(tensors: dict[str, Tensor], labels: int, where: str) -> Thresholds:
    """Take the thresholds out of a classifier's tensors; version 0.2.0 had 0.5 for all."""
    saved = tensors.pop("thresholds", None)
    if saved is None:
        return 0.5
    if tuple(saved.shape) != (labels,) or not bool(((saved > 0) & (saved < 1)).all()):
        raise UserError(f"{where}: expected {labels} thresholds between 0 and 1, got {saved}")
    return saved.float().numpy()


def label_array(
    probabilities: Probabilities, names: Sequence[Any], thresholds: Thresholds
) -> NDArray[Any]:
    """The labels of each text as an array of tuples, (texts,)."""
    rows = np.empty(len(probabilities), object)
    rows[:] = label_sets(probabilities, names, thresholds)
    return rows


def label_sets(
    probabilities: Probabilities,
    names: Sequence[Any],
    thresholds: Thresholds = 0.5,
    *,
    several: bool = True,
) -> list[tuple[Any, ...]]:
    """The labels of each text, the most probable one first; one alone unless there are several."""
    rows: list[tuple[Any, ...]] = []
    for row, is_above in zip(probabilities, probabilities > thresholds, strict=True):
        order: list[int] = np.argsort(-row, kind="stable").tolist()
        if not several:
            rows.append((names[order[0]],))
            continue
        rows.append(tuple(names[label] for label in order if is_above[label]))
    return rows


def measure_label_sets(
    probabilities: Probabilities,
    gold: Ints,
    names: Sequence[str],
    thresholds: Thresholds = 0.5,
    *,
    seed: int = 0,
    rows_per_second: float | None = None,
) -> Metrics:
    """As `measure`, for texts with several labels: `gold` is 0 or 1, (rows, labels).

    Calibration is that of the probabilities, whatever the thresholds.
    """
    from elmo.classify.metrics import Metrics, by_class, calibration_error, wilson
    from elmo.evaluate import Averages, averages

    if not len(gold):
        raise UserError("expected labelled rows to measure predictions on, but there are none")
    if probabilities.shape != gold.shape or gold.shape[1] != len(names):
        raise UserError(
            f"expected probabilities of {len(gold)} rows and {len(names)} labels, "
            f"got an array of shape {probabilities.shape}"
        )
    exact = probabilities.astype(np.float64)
    predicted, true = probabilities > thresholds, gold.astype(np.bool_)
    right = predicted & true
    counts = [some.sum(0) for some in (true, predicted, right)]  # each (labels,)
    macro, weighted = averages(*counts)
    total, guessed, correct = (int(some.sum()) for some in counts)
    micro = Averages(
        correct / max(1, guessed), correct / max(1, total), 2 * correct / max(1, total + guessed)
    )
    of_truth = np.clip(np.where(true, exact, 1 - exact), np.finfo(np.float64).eps, 1)
    confidence = np.maximum(exact, 1 - exact)
    return Metrics(
        count=len(gold),
        accuracy=wilson(int((predicted == true).all(1).sum()), len(gold)),
        macro_f1=_bootstrap_rows(right, true, predicted, seed),
        macro=macro,
        weighted=weighted,
        classes=by_class(names, *counts),
        confusion=(),
        calibration_error=calibration_error(confidence.ravel(), ((exact > 0.5) == true).ravel()),
        brier=2 * float(((exact - true) ** 2).mean()),
        log_loss=float(-np.log(of_truth).mean()),
        rows_per_second=rows_per_second,
        micro=micro,
    )


def _bootstrap_rows(
    right: NDArray[np.bool_], true: NDArray[np.bool_], predicted: NDArray[np.bool_], seed: int
) -> Estimate:
    """Macro F1 over labels that occur or are predicted, with its interval over resampled rows."""
    from elmo.classify.metrics import RESAMPLES, mean_f1, percentiles

    random = np.random.default_rng(seed)
    hits, both = right.astype(np.float32), true.astype(np.float32) + predicted
    # Of millions of decisions fewer resamples: the interval is then narrow, whatever its noise.
    resamples = max(100, min(RESAMPLES, 10**9 // right.size))
    scores: list[NDArray[np.float64]] = []
    for first in range(0, resamples, 100):
        size = min(100, resamples - first)
        drawn = random.multinomial(len(right), np.full(len(right), 1 / len(right)), size)
        drawn = drawn.astype(np.float32)
        scores.append(mean_f1(drawn @ hits, drawn @ both))
    value = float(mean_f1(hits.sum(0)[None], both.sum(0)[None])[0])
    return percentiles(value, np.concatenate(scores))


def wrong_label_sets(
    probabilities: Probabilities,
    gold: Ints,
    texts: Sequence[str],
    names: Sequence[str],
    separator: str,
    count: int = 20,
    *,
    thresholds: Thresholds = 0.5,
    locations: Sequence[str] | None = None,
) -> list[Mistake]:
    """As `most_confident_mistakes`, for several labels per text.

    The probability of a mistake is that of the most confident wrong decision.
    """
    from elmo.classify.metrics import Mistake

    predicted, true = probabilities > thresholds, gold.astype(np.bool_)
    sure = np.where(predicted, probabilities, 1 - probabilities)
    confidence = np.where(predicted != true, sure, 0)
    worst = confidence.max(1)
    wrong = int((worst > 0).sum())
    order: list[int] = np.argsort(-worst, kind="stable")[: min(count, wrong)].tolist()

    def joined(row: NDArray[np.bool_]) -> str:
        return separator.join(names[label] for label in np.flatnonzero(row).tolist())

    return [
        Mistake(row, None if locations is None else locations[row], texts[row], joined(true[row]),
                joined(predicted[row]), float(worst[row]), 1 - float(worst[row]))
        for row in order
    ]  # fmt: skip

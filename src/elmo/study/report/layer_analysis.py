"""What the weights of layers show: which weighs most, whether seeds agree, what drawing costs."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, stdev

from elmo.study.report.formats import SIGNIFICANT, called, counted, listed, p_value, score, whole
from elmo.study.report.found_rows import learns_weights
from elmo.study.results import Draws, RowResult

NEARLY_EVEN = 0.05
"""Weights that differ from a plain average by no more than this are called nearly even."""


def heaviest(weights: tuple[float, ...]) -> int:
    """The layer that weighs most."""
    return max(range(len(weights)), key=lambda layer: weights[layer])


def weights_sentence(row: RowResult) -> str:
    """Which layer weighs most in a row, and whether that is so for every seed."""
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    if not weights:
        return ""
    drawn = "" if learns_weights(row) else ", whose weights are drawn"
    start = f"{called(row.title)}{drawn}: "
    if all(_even(one) for one in weights):
        return f"{start}all weights are within {NEARLY_EVEN} of a plain average."
    layers = Counter(heaviest(one) for one in weights)
    if len(layers) == 1:
        return start + _agreed(next(iter(layers)), weights)
    counts = [f"layer {layer} for {counted(n, 'seed')}" for layer, n in sorted(layers.items())]
    return f"{start}which layer weighs most changes with the seed: {listed(counts)}."


def draws_sentences(draws: Draws) -> list[str]:
    """How far draws of frozen weights lie apart, and where learned weights lie among them."""
    reached = [one.test_accuracy for one in draws.draws]
    if not reached:
        return []
    return [_span(reached, draws.train_rows), _learned_among(draws)]


def rank_p(draws: Draws) -> float:
    """How probable it is that one more draw would come out as high as learned weights did."""
    as_high = sum(one.test_accuracy >= draws.trainable_test_accuracy for one in draws.draws)
    return (as_high + 1) / (len(draws.draws) + 1)


def _span(reached: list[float], rows: int) -> str:
    if len(reached) == 1:
        return (
            f"One draw of frozen weights, trained on {whole(rows)} rows, gives a test accuracy of "
            f"{score(reached[0])}."
        )
    return (
        f"{len(reached)} draws of frozen weights, each trained on {whole(rows)} rows, give test "
        f"accuracies from {score(min(reached))} to {score(max(reached))} (mean "
        f"{score(fmean(reached))}, deviation {score(stdev(reached))})."
    )


def _learned_among(draws: Draws) -> str:
    learned, count = draws.trainable_test_accuracy, len(draws.draws)
    lower = sum(one.test_accuracy < learned for one in draws.draws)
    p = rank_p(draws)
    start = f"Learned weights give {score(learned)} on the same rows; "
    rank = f"{lower} of {counted(count, 'draw')} {'gives' if lower == 1 else 'give'} less"
    if p < SIGNIFICANT:
        return f"{start}{rank}, more than chance explains ({p_value(p)})."
    return f"{start}{rank}, which may be chance ({p_value(p)})."


def _agreed(layer: int, weights: list[tuple[float, ...]]) -> str:
    shares = listed([score(one[layer]) for one in weights])
    if len(weights) == 1:
        return f"layer {layer} weighs most ({shares}); one seed does not tell if that is stable."
    return f"layer {layer} weighs most for each of {len(weights)} seeds ({shares})."


def _even(weights: tuple[float, ...]) -> bool:
    return max(abs(one - 1 / len(weights)) for one in weights) <= NEARLY_EVEN

"""Figures of the weights of layers: learned ones seed by seed, drawn ones with what they gave."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from elmo.study.report.blocks import Figure
from elmo.study.report.drawing import head, name_axes, panels, quiet, to_svg
from elmo.study.report.formats import listed, score, whole
from elmo.study.report.palette import ELMO, FAINT, INK, PAPER
from elmo.study.results import Draws, RowResult

_DOT: dict[str, Any] = {
    "marker": "o",
    "linestyle": "none",
    "color": ELMO.light,
    "markersize": 6,
    "mec": PAPER.light,
    "mew": 0.8,
    "zorder": 3,
}
_DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 1}


def weights_figure(rows: Sequence[RowResult]) -> Figure:
    """Weights of layers, a panel a row, a dot a seed."""
    grid = panels(len(rows), 2.1, 4 if len(rows) > 3 else 3, share_y=True)
    for axes, row in zip(grid.axes, rows, strict=True):
        _draw_weights(axes, row)
    grid.axes[0].set_ylim(0, None)
    return Figure(
        name="weights",
        caption="Normalised weights of the layers: a dot a seed, a line through their means. "
        "Dashed: a plain average. Layer 0 is the word alone.",
        alt=f"Weights of layers by seed. {'; '.join(_listed(row) for row in rows)}.",
        svg=to_svg(grid.figure, "weights"),
    )


def draws_figure(draws: Draws) -> Figure:
    """Test accuracy of each draw against the weight it gave to each layer."""
    layers = len(draws.draws[0].layer_weights)
    reached = [one.test_accuracy for one in draws.draws]
    grid = panels(layers, 2.3, share_y=True)
    for layer, axes in enumerate(grid.axes):
        quiet(axes, "both")
        axes.axhline(draws.trainable_test_accuracy, color=INK.light, **_DASHED)
        axes.plot([one.layer_weights[layer] for one in draws.draws], reached, **_DOT)
        axes.margins(0.1)
        axes.set_xlim(0, None)
        name_axes(axes, f"weight of layer {layer}", "" if layer % 3 else "test accuracy")
    return Figure(
        name="draws",
        caption="Each dot is a draw of frozen weights, once in every panel. Dashed: weights "
        f"learned on the same {whole(draws.train_rows)} rows.",
        alt=f"Test accuracy by draw. {listed([score(one) for one in reached])}; learned weights "
        f"{score(draws.trainable_test_accuracy)}.",
        svg=to_svg(grid.figure, "draws"),
    )


def _draw_weights(axes: Any, row: RowResult) -> None:
    quiet(axes, "y")
    head(axes, row.title)
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    layers = range(len(weights[0]))
    axes.axhline(1 / len(layers), color=FAINT.light, **_DASHED)
    means = [fmean(one[layer] for one in weights) for layer in layers]
    axes.plot(layers, means, color=ELMO.light, linewidth=1.2, alpha=0.5)
    for one in weights:
        axes.plot(layers, one, **_DOT)
    axes.set_xticks(layers, [f"layer {layer}" for layer in layers])
    axes.set_xlim(-0.4, len(layers) - 0.6)


def _listed(row: RowResult) -> str:
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    by_seed = (", ".join(score(share) for share in one) for one in weights)
    return f"{row.title} {' and '.join(by_seed)}"

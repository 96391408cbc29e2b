"""Weights and draws are drawn one by one, and told to those who cannot see them."""

from __future__ import annotations

from dataclasses import replace

from tests.study.report.svg_text import texts

from elmo.study.report.found_rows import with_weights
from elmo.study.report.layer_figures import draws_figure, weights_figure
from elmo.study.results import StudyResults


def test_a_panel_a_row(results: StudyResults) -> None:
    rows = with_weights(results)
    figure = weights_figure(rows)
    written = texts(figure)
    for row in rows:
        assert row.title in written
        for seed in row.seeds:
            assert ", ".join(f"{one:.4f}" for one in seed.layer_weights or ()) in figure.alt
    assert {"layer 0", "layer 1", "layer 2"} <= set(written)


def test_more_rows_than_panels_side_by_side(results: StudyResults) -> None:
    rows = with_weights(results) * 2
    renamed = [replace(row, title=f"row {place}") for place, row in enumerate(rows)]
    assert {row.title for row in renamed} <= set(texts(weights_figure(renamed)))


def test_a_panel_a_layer(results: StudyResults) -> None:
    assert results.draws is not None
    figure = draws_figure(results.draws)
    assert {f"weight of layer {layer}" for layer in range(3)} <= set(texts(figure))
    assert "10,000 rows" in figure.caption
    for draw in results.draws.draws:
        assert f"{draw.test_accuracy:.4f}" in figure.alt

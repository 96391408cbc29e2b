"""Curves are drawn from all their points, and named where they end."""

from __future__ import annotations

from dataclasses import replace

from tests.study.report.builder import language_model
from tests.study.report.svg_text import count, texts

from elmo.study.report.curve_figures import perplexity_figure, samples_figure, sweeps_figure
from elmo.study.report.palette import STATIC
from elmo.study.results import StudyResults


def test_every_size_and_row_is_named(results: StudyResults) -> None:
    figure = samples_figure(results)
    written = " ".join(texts(figure))
    for title in ("TF-IDF, linear SVM", "Skip-gram, window 8", "ELMo, trainable λs"):
        assert title in written
    for size in ("40", "10 a class", "20,000", "5,000 a class", "89,847", "all"):
        assert size in written
    assert all(f"{one.test_accuracy.mean:.4f}" in figure.alt for one in results.samples)


def test_a_curve_of_one_point(results: StudyResults) -> None:
    figure = samples_figure(replace(results, samples=results.samples[:1]))
    assert "TF-IDF, linear SVM" in texts(figure)


def test_every_value_is_named_and_methods_have_their_colour(results: StudyResults) -> None:
    method = replace(results.sweeps[0], row="skipgram")
    figure = sweeps_figure(replace(results, sweeps=(method, *results.sweeps[1:])))
    written = " ".join(texts(figure))
    for text in ("dim", "Skip-gram", "mix-pull", "learning-rate", "0.0003", "300"):
        assert text in written
    assert count(figure, f"stroke: {STATIC.light}")


def test_perplexity_of_every_epoch() -> None:
    model = language_model()
    figure = perplexity_figure(model)
    assert {"forward", "backward", "both"} <= set(texts(figure))
    assert all(f"epoch {one.epoch:g} {one.perplexity:.2f}" in figure.alt for one in model.history)

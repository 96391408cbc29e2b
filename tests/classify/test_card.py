"""The card says what the figures say."""

from __future__ import annotations

from tests.classify.toy import toy_config, toy_model, toy_texts

from elmo.classify.card import classifier_card
from elmo.classify.evaluate import evaluate
from elmo.classify.train import train


def test_figures_weights_and_command_are_on_it() -> None:
    trained = train(toy_model(), toy_texts(), toy_config())
    evaluation = evaluate(trained.classifier, toy_texts(30, seed=4))
    card = classifier_card(trained, {"test": evaluation}, "toy.csv", "elmo classify train toy.csv")
    accuracy = evaluation.metrics.accuracy
    assert f"| test | 30 | {accuracy.value:.4f} | {accuracy.low:.4f} to" in card
    weights = trained.classifier.network.mix.weights or ()
    assert "weigh " + ", ".join(f"{weight:.3f}" for weight in weights) in card
    assert "elmo classify train toy.csv" in card
    assert "| biLM | frozen |" in card

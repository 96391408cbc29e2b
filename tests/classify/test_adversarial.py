"""Texts are moved where the loss grows fastest, each by itself, as far as it is long."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts
from torch import Tensor
from torch.nn import functional

from elmo.classify.adversarial import MovableTexts
from elmo.classify.config import FineTuningConfig
from elmo.classify.network import ClassifierNetwork, seeded_network
from elmo.classify.own_words import own_vocabulary
from elmo.classify.text_rows import TextRows
from elmo.classify.train import train

LOADED = toy_model()
MODEL = LOADED.model
TEXTS = TextRows([text.split() for text in toy_texts(12).texts], own_vocabulary([WORDS], 1))
REACH = 0.1
ROWS = st.lists(st.sampled_from(range(len(TEXTS))), min_size=1, max_size=5, unique=True)


def network_of(own_words: int = 4) -> ClassifierNetwork:
    config = replace(toy_config().network, own_words=own_words)
    return seeded_network(config, 1, layers=3, dim=12, classes=2, own_vocabulary=len(TEXTS.own))


def losses(
    movable: MovableTexts, network: ClassifierNetwork, rows: list[int], moves: Tensor
) -> Tensor:
    """Of each text, if its label were its number's."""
    gold = torch.tensor([row % 2 for row in rows])
    return functional.cross_entropy(network(movable.read(moves, None)), gold, reduction="none")


def worst_moves(
    rows: list[int], network: ClassifierNetwork, reach: float = REACH
) -> tuple[MovableTexts, Tensor]:
    movable = MovableTexts(TEXTS, rows, MODEL, network)
    start = movable.unmoved()
    losses(movable, network, rows, start).sum().backward()
    assert start.grad is not None
    return movable, movable.worst(start.grad, reach)


def word_counts(rows: list[int]) -> list[int]:
    """Distinct words a text, and two boundaries: those of a text lie side by side."""
    return [len(set(TEXTS.words[row])) + 2 for row in rows]


def lengths(rows: list[int], moves: Tensor) -> Tensor:
    """How far each text is moved."""
    return torch.stack([one.norm() for one in moves.split(word_counts(rows))])


@given(ROWS, st.sampled_from([0, 4]))
@settings(deadline=None)
def test_unmoved_is_as_it_was(rows: list[int], own_words: int) -> None:
    network = network_of(own_words)
    movable = MovableTexts(TEXTS, rows, MODEL, network)
    moved = network(movable.read(movable.unmoved(), None))
    torch.testing.assert_close(moved, network(TEXTS.read(rows, MODEL)))


@given(ROWS, st.sampled_from([0, 4]))
@settings(deadline=None)
def test_each_text_moves_as_far_as_it_is_long(rows: list[int], own_words: int) -> None:
    network = network_of(own_words)
    _, moves = worst_moves(rows, network)
    vectors = MODEL.token_layer.word_vectors
    assert vectors is not None
    for row, found in zip(rows, lengths(rows, moves), strict=True):
        words = sorted(set(TEXTS.words[row]))
        ids = torch.from_numpy(MODEL.vocabulary.encode([*words, "<S>", "</S>"]))
        expected = vectors.detach()[ids].square().sum()
        if network.own_words is not None:
            own = network.own_words(torch.from_numpy(TEXTS.own.encode(words)))
            expected = expected + own.detach().square().sum()
        assert float(found) == pytest.approx(REACH * float(expected) ** 0.5, rel=1e-4)


@given(ROWS)
@settings(deadline=None)
def test_no_text_is_moved_by_its_batch_mates(rows: list[int]) -> None:
    network = network_of()
    movable, moves = worst_moves(rows, network)
    together = losses(movable, network, rows, moves).detach()
    for place, row in enumerate(rows):
        alone, own_moves = worst_moves([row], network)
        loss = losses(alone, network, [row], own_moves).detach()[0]
        torch.testing.assert_close(together[place], loss, rtol=1e-4, atol=1e-5)


def test_no_other_way_of_that_length_hurts_more() -> None:
    rows, network, reach = [0, 1, 2, 3], network_of(), 1e-3
    movable, worst = worst_moves(rows, network, reach)
    hurt = losses(movable, network, rows, worst).detach()
    random = torch.Generator().manual_seed(0)
    for _ in range(50):
        drawn = torch.randn(worst.shape, generator=random)
        scale = lengths(rows, worst) / lengths(rows, drawn)
        other = drawn * scale.repeat_interleave(torch.tensor(word_counts(rows)))[:, None]
        assert (losses(movable, network, rows, other).detach() <= hurt + 1e-7).all()


def test_training_learns_from_moved_texts() -> None:
    def trained(adversarial: float) -> tuple[dict[str, Tensor], float]:
        tuning = FineTuningConfig(fine_tune_epochs=5, fine_tune_rate=0.01, adversarial=adversarial)
        learning = replace(toy_config().learning, epochs=3, fine_tuning=tuning)
        found = train(toy_model(), toy_texts(), toy_config(learning=learning))
        return found.classifier.network.state_dict(), found.history[-1].development_accuracy

    (plain, _), (moved, accuracy), (again, _) = trained(0.0), trained(0.05), trained(0.05)
    assert any(not torch.equal(plain[name], moved[name]) for name in plain)
    assert all(torch.equal(moved[name], again[name]) for name in moved)
    assert accuracy >= 0.9

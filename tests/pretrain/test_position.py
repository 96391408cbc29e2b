"""Where a run stands, worked out by hand."""

from __future__ import annotations

from elmo.pretrain.config import TrainingConfig
from elmo.pretrain.position import Position


def test_batches_and_epochs_are_counted():
    position = Position().after_batch(10).after_batch(7)
    assert (position.step, position.batch, position.targets) == (2, 2, 17)
    later = position.after_epoch(TrainingConfig(epochs=2)).after_batch(1)
    assert (later.step, later.epoch, later.batch, later.finished) == (3, 1, 1, False)
    assert later.after_epoch(TrainingConfig(epochs=2)).finished


def test_the_best_evaluation_is_remembered():
    position = Position()
    for step, perplexity in enumerate([9.0, 5.0, 6.0, 7.0], start=1):
        position = position.after_batch(1).after_evaluation(perplexity)
        assert position.step == step
    assert (position.best_perplexity, position.best_step) == (5.0, 2)
    assert (position.evaluations, position.worse_evaluations) == (4, 2)
    assert position.has_lost_patience(2)
    assert not position.has_lost_patience(3)
    assert not position.has_lost_patience(None)


def test_what_a_frozen_model_reached_is_remembered():
    position = Position().after_evaluation(9.0).after_evaluation(8.0, ends_freeze=True)
    later = position.after_batch(1).after_evaluation(5.0)
    assert (later.frozen_perplexity, later.best_perplexity, later.evaluations) == (8.0, 5.0, 3)


def test_an_equal_evaluation_is_no_better_one():
    position = Position().after_evaluation(5.0).after_evaluation(5.0)
    assert position.worse_evaluations == 1


def test_patience_ends_the_run_at_the_end_of_the_epoch():
    position = Position().after_evaluation(5.0).after_evaluation(6.0)
    assert position.after_epoch(TrainingConfig(epochs=99, patience=1)).finished

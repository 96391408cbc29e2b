"""A softmax is learned while the biLM stays as it is, then all learns; such runs resume, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.official.golden_elmo import SPECIAL, golden
from tests.training.conftest import stop_after, tiny_config
from tests.training.test_pretrain import final_tensors
from tests.worlds import in_world
from torch import nn

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BatchLoss, BiLM, BiLMState, seeded
from elmo.errors import ConfigError, UserError
from elmo.language_model import open_model
from elmo.model_folder import model_tensors
from elmo.text.batching import MicroBatches, pack_texts
from elmo.text.config import Batching
from elmo.training import loop as module
from elmo.training.checkpoint import optimizer_tensors
from elmo.training.config import PretrainConfig, TrainingConfig
from elmo.training.distributed import World
from elmo.training.loop import (
    EvaluationReport,
    Meter,
    Position,
    Report,
    build_optimizer,
    join_states,
    load,
    restore,
    save,
)
from elmo.training.pretrain import FROZEN_SHARE, pretrain, resume, settings_of

# How far a run is, worked out by hand.


def test_the_best_evaluation_is_remembered():
    position = Position()
    for step, perplexity in enumerate([9.0, 5.0, 6.0, 7.0], start=1):
        position = replace(position, step=step).after_evaluation(perplexity)
    assert (position.best_perplexity, position.best_step) == (5.0, 2)
    assert (position.evaluations, position.worse_evaluations) == (4, 2)
    assert position.has_lost_patience(2)
    assert not position.has_lost_patience(3)
    assert not position.has_lost_patience(None)


def test_what_a_frozen_model_reached_is_remembered():
    position = Position().after_evaluation(9.0).after_evaluation(8.0, ends_freeze=True)
    later = position.after_evaluation(5.0)
    assert (later.frozen_perplexity, later.best_perplexity, later.evaluations) == (8.0, 5.0, 3)


def test_an_equal_evaluation_is_no_better_one():
    position = Position().after_evaluation(5.0).after_evaluation(5.0)
    assert position.worse_evaluations == 1


def test_a_run_is_over_after_its_epochs_or_without_patience():
    position = replace(Position().after_evaluation(5.0).after_evaluation(6.0), epoch=2)
    assert position.is_over(TrainingConfig(epochs=99, patience=1))
    assert not position.is_over(TrainingConfig(epochs=99, patience=2))
    assert not position.is_over(TrainingConfig(epochs=3))
    assert position.is_over(TrainingConfig(epochs=2))


# Optimizers.


@pytest.mark.parametrize("name", ["adamw", "adagrad", "sgd"])
def test_each_optimizer_lowers_a_simple_loss(name):
    model = nn.Linear(3, 1)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name, learning_rate=0.05))
    inputs = torch.eye(3)
    losses: list[float] = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(inputs) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_only_matrices_between_layers_decay_and_frozen_ones_are_left_out():
    model = nn.ModuleDict({"stack": nn.Linear(2, 2), "output": nn.Linear(2, 2)})
    model["stack"].bias.requires_grad_(False)
    decayed, words, kept = build_optimizer(model, TrainingConfig(weight_decay=0.1)).param_groups
    assert words["params"] == []
    assert decayed["weight_decay"] == 0.1
    assert [one is model["stack"].weight for one in decayed["params"]] == [True]
    assert kept["weight_decay"] == 0
    assert len(kept["params"]) == 2


def test_the_word_rate_scales_the_step_of_the_word_vectors_alone(
    corpus_file, around, tmp_path, monkeypatch
):
    """One step with rates of 1, 1/2 and 1/4: words differ by 1/2 and 1/4 of the first."""
    monkeypatch.setattr("elmo.training.pretrain.stop_requested", stop_after(1))
    weights: list[dict[str, torch.Tensor]] = []
    for rate in (1.0, 0.5, 0.25):
        out, config = tmp_path / str(rate), tiny_config(optimizer="sgd", word_rate=rate)
        pretrain([str(corpus_file)], out, config, **around)
        weights.append(dict(load(out / "checkpoints").weights))
    for name, whole in weights[0].items():
        half, quarter = weights[1][name], weights[2][name]
        if name.startswith("token_layer.words"):
            assert (whole - half).abs().max() > 1e-4
            torch.testing.assert_close(whole - half, 2 * (half - quarter), rtol=0, atol=3e-7)
        else:
            assert torch.equal(whole, half)


# Checkpoints: what is saved is what is restored.


def trained(vocabulary, name: str, seed: int):
    """A model and an optimizer after two steps."""
    torch.manual_seed(seed)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name))
    for _ in range(2):
        optimizer.zero_grad()
        model.loss(pack_texts([["the", "cat"], ["a"]], vocabulary, spelled=False)).mean.backward()
        optimizer.step()
    return model, optimizer


def some_state() -> BiLMState:
    layers = [LSTMState(torch.randn(2, 4), torch.randn(2, 4)) for _ in range(4)]
    return BiLMState(tuple(layers[:2]), tuple(layers[2:]))


@pytest.mark.parametrize("name", ["adamw", "adagrad", "sgd"])
def test_what_is_saved_is_what_is_restored(vocabulary, tmp_path, name):
    model, optimizer = trained(vocabulary, name, seed=0)
    state = some_state()
    position = Position(step=7, epoch=1, batch=3, targets=99, best_perplexity=4.5, best_step=5)
    save(tmp_path, model, optimizer, state, position)
    other_model, other_optimizer = trained(vocabulary, name, seed=1)
    checkpoint = load(tmp_path)
    restore(other_model, other_optimizer, checkpoint)
    assert checkpoint.position == position
    for mine, theirs in (
        (model_tensors(model), model_tensors(other_model)),
        (optimizer_tensors(optimizer), optimizer_tensors(other_optimizer)),
    ):
        assert mine.keys() == theirs.keys()
        assert mine
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    for one, other in zip(state, checkpoint.state, strict=True):
        for before, after in zip(one, other, strict=True):
            assert torch.equal(before.output, after.output)
            assert torch.equal(before.cell, after.cell)


# Losses and speed between reports.


def batch_loss(forward: float, backward: float, targets: int) -> BatchLoss:
    state = BiLMState((), ())
    return BatchLoss(torch.tensor(forward), torch.tensor(backward), targets, targets, state)


def test_a_report_averages_over_words_not_over_batches(monkeypatch):
    clock = iter([0.0, 2.0, 2.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    meter = Meter(total_targets=400)
    meter.add(batch_loss(30.0, 60.0, 10))
    meter.add(batch_loss(90.0, 90.0, 90))
    report = meter.take(Position(step=2, targets=100), rate=0.5)
    assert report.loss_forward == pytest.approx(1.2)
    assert report.loss_backward == pytest.approx(1.5)
    assert report.tokens_per_second == pytest.approx(50)
    assert report.done == 0.25
    assert report.seconds_left == pytest.approx(6)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_an_error_that_says_where(loss):
    meter = Meter(10)
    meter.add(batch_loss(1.0, loss, 1))
    with pytest.raises(UserError, match="NaN or infinite at step 3 "):
        meter.check_finite(Position(step=3))


# The carried state: cut among those who read, whole again in a checkpoint.


def whole_state(rows: int) -> BiLMState:
    random = torch.Generator().manual_seed(rows)
    layers = [
        LSTMState(torch.randn(rows, 4, generator=random), torch.randn(rows, 4, generator=random))
        for _ in range(4)
    ]
    return BiLMState(tuple(layers[:2]), tuple(layers[2:]))


def tensors(state: BiLMState) -> list[torch.Tensor]:
    return [one for side in state for layer in side for one in (layer.output, layer.cell)]


def cut_and_join(world: World, vocabulary, rows: int, accumulate: int) -> list[torch.Tensor]:
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    share = MicroBatches.of_process(world.rank, world.size, accumulate)
    states = [whole_state(rows).select(part.indices) for part in share.rows(rows)]
    return tensors(join_states(states, share, rows, model, world))


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_what_is_cut_can_be_joined(vocabulary, rows, accumulate):
    joined = cut_and_join(World(), vocabulary, rows, accumulate)
    for before, after in zip(tensors(whole_state(rows)), joined, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize(("rows", "accumulate"), [(1, 1), (7, 2)])
def test_processes_join_what_each_has(vocabulary, rows, accumulate):
    found = in_world(2, cut_and_join, vocabulary, rows, accumulate)
    for one in found:
        for before, after in zip(tensors(whole_state(rows)), one, strict=True):
            assert torch.equal(before, after)


def test_before_the_first_batch_there_is_no_state(vocabulary):
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    assert join_states([None], MicroBatches(), 0, model, World()) is None


UNTIED = SoftmaxConfig(samples=6, tied=False)
CHARACTERS = BiLMConfig(
    input="characters",
    characters=CharacterConfig(char_dim=4, filters=((1, 4), (3, 6))),
    hidden=12,
    projection=8,
    softmax=UNTIED,
)


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """Official files of a model that has not seen the text."""
    words = golden(cells=12, width=8, filters=((1, 4), (3, 6)), cell_clip=3.0, proj_clip=3.0)
    return words.write(tmp_path / "official")


def settings(folder: Path, **training: object) -> PretrainConfig:
    """What is proposed for a model, with the sizes of these tests."""
    proposed = settings_of(folder)
    tiny = tiny_config()
    chosen = {"epochs": 3, "evaluations_per_epoch": 1, "learning_rate": 0.02, **training}
    return replace(
        proposed,
        vocabulary=tiny.vocabulary,
        batching=Batching(batch_tokens=96, window=32),
        training=replace(proposed.training, **chosen),
    )


def bilm_tensors(model: BiLM) -> dict[str, torch.Tensor]:
    return {n: t.clone() for n, t in model_tensors(model).items() if not n.startswith("output.")}


def test_an_official_model_proposes_a_softmax_to_be_learned_first(official, tmp_path):
    open_model(official).save_pretrained(tmp_path / "converted")
    for folder in (official, tmp_path / "converted"):
        config = settings_of(folder)
        assert config.model == replace(
            open_model(folder).model.config, softmax=SoftmaxConfig(tied=False)
        )
        assert config.training.frozen_share == FROZEN_SHARE
        assert not list(config.problems())


def test_official_weights_are_fine_tuned_and_written_back(official, corpus_file, around, tmp_path):
    reports: list[Report] = []
    config = settings(official)
    result = pretrain(
        [str(corpus_file)], tmp_path / "run", config, init_from=official,
        **around, on_report=reports.append,
    )  # fmt: skip
    evaluations = [one for one in reports if isinstance(one, EvaluationReport)]
    assert [one.ends_freeze for one in evaluations].count(True) == 1
    (thaw,) = [one for one in evaluations if one.ends_freeze]
    before = result.position.frozen_perplexity
    assert before == thaw.evaluation.perplexity
    assert 0.2 <= thaw.position.targets / result.position.targets < 0.3
    assert result.position.best_perplexity < before
    assert f"softmax alone learned: {before:.2f}" in (tmp_path / "run" / "README.md").read_text()
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    logged = [one for one in map(json.loads, lines) if one["kind"] == "evaluation"]
    assert [one["ends_freeze"] for one in logged].count(True) == 1
    assert all(parameter.requires_grad for parameter in result.model.parameters())

    loaded = open_model(tmp_path / "run")
    assert "cat" in loaded.model.vocabulary.words
    changed, start = bilm_tensors(loaded.model), bilm_tensors(open_model(official).model)
    assert changed.keys() == start.keys()
    assert not any(torch.equal(changed[name], start[name]) for name in start if "layers" in name)
    loaded.save_official(tmp_path / "back")
    again = bilm_tensors(open_model(tmp_path / "back").model)
    assert all(torch.equal(again[name], changed[name]) for name in changed)


def test_the_bilm_stays_as_it_is_while_it_is_frozen(official, corpus_file, around, tmp_path):
    config = settings(official, frozen_share=1.0, weight_decay=0.1)
    result = pretrain([str(corpus_file)], tmp_path / "run", config, init_from=official, **around)
    start = bilm_tensors(open_model(official).model)
    for name, tensor in bilm_tensors(result.model).items():
        assert torch.equal(tensor, start[name]), name
    assert result.position.frozen_perplexity == pytest.approx(result.position.best_perplexity)
    with seeded(config.training.seed):
        fresh = BiLM(config.model, result.model.vocabulary)
    assert not torch.equal(result.model.output.weight, fresh.output.weight)


def test_without_settings_those_of_the_model_are_taken(official, corpus_file, around, tmp_path):
    result = pretrain([str(corpus_file)], tmp_path / "run", init_from=official,
                      **around)  # fmt: skip
    assert result.model.config == settings_of(official).model
    # Going on once more, the softmax is there: nothing is frozen unless asked for.
    assert settings_of(tmp_path / "run").training.frozen_share == 0
    assert settings_of(tmp_path / "run").model == result.model.config


def test_how_long_to_train_is_not_taken_from_the_model(corpus_file, around, tmp_path):
    training = TrainingConfig(epochs=1, learning_rate=2e-3, word_rate=0.1, patience=7)
    pretrain([str(corpus_file)], tmp_path / "run", replace(tiny_config(), training=training),
             **around)  # fmt: skip
    expected = TrainingConfig(learning_rate=2e-3, word_rate=0.1)
    assert settings_of(tmp_path / "run").training == expected


def test_a_trained_model_learns_at_half_the_rate(corpus_file, around, tmp_path):
    pretrain([str(corpus_file)], tmp_path / "run", tiny_config(epochs=1), **around)
    assert tiny_config().training.learning_rate is None
    assert settings_of(tmp_path / "run").training.peak_rate == tiny_config().training.peak_rate / 2


@pytest.mark.parametrize("batching", ["documents", "stream"])
@pytest.mark.parametrize("steps", [2, 30])
def test_a_run_stopped_frozen_or_later_ends_with_the_same_bytes(
    corpus_file, around, tmp_path, monkeypatch, batching, steps
):
    config = PretrainConfig(
        vocabulary=tiny_config().vocabulary,
        model=CHARACTERS,
        batching=Batching(batching=batching, batch_tokens=96, window=16),
        training=TrainingConfig(epochs=2, frozen_share=0.2, precision="fp32"),
    )
    whole = pretrain([str(corpus_file)], tmp_path / "whole", config, **around)
    with monkeypatch.context() as patch:
        patch.setattr("elmo.training.pretrain.stop_requested", stop_after(steps))
        half = pretrain([str(corpus_file)], tmp_path / "parts", config, **around)
        assert not half.finished
    is_frozen = half.position.targets < 0.2 * whole.position.targets
    assert is_frozen == (steps == 2) == (half.position.frozen_perplexity is None)
    assert resume(tmp_path / "parts", **around).finished
    assert final_tensors(tmp_path / "whole") == final_tensors(tmp_path / "parts")


def test_words_that_were_frozen_before_stay_frozen(corpus_file, around, tmp_path):
    model = BiLMConfig(word_dim=8, hidden=8, freeze_words=True, softmax=UNTIED)
    config = replace(tiny_config(frozen_share=0.3, epochs=1), model=model)
    result = pretrain([str(corpus_file)], tmp_path / "run", config, **around)
    frozen = {name for name, one in result.model.named_parameters() if not one.requires_grad}
    assert frozen == {"token_layer.words.weight"}
    with seeded(0):
        start = BiLM(model, result.model.vocabulary)
    assert torch.equal(result.model.token_layer.words.weight, start.token_layer.words.weight)
    assert not torch.equal(
        result.model.forward_stack.layers[0].bias, start.forward_stack.layers[0].bias
    )


def test_nothing_is_evaluated_where_nothing_is_held_out(official, corpus_file, around, tmp_path):
    config = settings(official)
    config = replace(config, vocabulary=replace(config.vocabulary, held_out_share=0.0))
    result = pretrain([str(corpus_file)], tmp_path / "run", config, init_from=official, **around)
    assert (result.position.evaluations, result.position.frozen_perplexity) == (0, None)


def test_an_official_model_of_words_keeps_its_words_and_counts_the_new(
    corpus_file, around, tmp_path
):
    theirs = golden(words=[*SPECIAL, "zebra", "cat"], cells=12, width=8)
    folder = theirs.write(tmp_path / "words")
    result = pretrain(
        [str(corpus_file)], tmp_path / "run", settings(folder, epochs=1), init_from=folder,
        **around,
    )  # fmt: skip
    vocabulary = result.model.vocabulary
    assert vocabulary.words[:5] == (*SPECIAL, "zebra", "cat")
    assert set(vocabulary.words[5:]) >= {"the", "dog"}
    counts = dict(zip(vocabulary.words, vocabulary.counts, strict=True))
    assert counts["zebra"] == 0
    assert counts["cat"] > 10


@pytest.mark.parametrize(
    ("training", "softmax", "message"),
    [
        (TrainingConfig(frozen_share=1.5), UNTIED, "frozen_share: expected 0 to 1, got 1.5"),
        (TrainingConfig(frozen_share=0.1), SoftmaxConfig(), "a tied softmax is part of the model"),
    ],
)
def test_settings_that_cannot_be_are_told(corpus_file, tmp_path, training, softmax, message):
    model = BiLMConfig(word_dim=8, hidden=8, softmax=softmax)
    with pytest.raises(ConfigError, match=message):
        pretrain([str(corpus_file)], tmp_path, PretrainConfig(model=model, training=training))

"""One run, any number of processes: the same losses, the same model, one text, one writer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.training.conftest import stop_after, tiny_config, write_corpus
from tests.worlds import in_world

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.errors import UserError
from elmo.model_folder import load_tensors
from elmo.text.config import Batching
from elmo.training import loop as meter
from elmo.training import pretrain as run
from elmo.training.config import PretrainConfig
from elmo.training.distributed import World
from elmo.training.loop import Position
from elmo.training.pretrain import pretrain

NOISE = 2e-5


@dataclass(frozen=True)
class Session:
    """What one process has to tell of its part in a run."""

    position: Position
    prepared: int
    """How many documents it has read to prepare the text."""


def settings(kind: str = "documents", loss: str = "sampled", **training: object) -> PretrainConfig:
    """Batches of so few rows that some processes have nothing to read in some of them."""
    tiny = tiny_config(**{"epochs": 1, "precision": "fp32", **training})
    softmax = SoftmaxConfig(loss=loss, samples=6, cutoffs=(6, 9), tied=loss == "sampled")
    model = BiLMConfig(word_dim=8, hidden=8, dropout=0.2, softmax=softmax)
    return replace(tiny, model=model, batching=Batching(batching=kind, batch_tokens=40, window=16))


def train(world: World, folder: Path, name: str, config: PretrainConfig, stop: int = 0) -> Session:
    """Train or go on; the last process is told to stop after so many steps."""
    meter.SECONDS_BETWEEN_REPORTS = 0.0
    if stop:
        run.stop_requested = stop_after(stop if world.rank == world.size - 1 else 10**9)
    told: list[int] = []
    cache = folder / f"cache {name}"
    result = pretrain(
        [str(folder / "corpus.txt")],
        folder / name,
        config,
        cache=cache,
        world=world,
        on_documents=told.append,
    )
    return Session(result.position, len(told))


def losses(folder: Path) -> list[tuple[int, float, float]]:
    """The loss of every step, as the log has it."""
    entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [
        (entry["step"], entry["loss_forward"], entry["loss_backward"])
        for entry in entries
        if entry["kind"] == "step"
    ]


def assert_same_run(one: Path, other: Path) -> None:
    """Losses of all steps, the best and the last weights: all the same but for rounding."""
    first, second = losses(one), losses(other)
    assert len(first) > 20
    assert [entry[0] for entry in first] == [entry[0] for entry in second]
    for mine, theirs in zip(first, second, strict=True):
        assert mine == pytest.approx(theirs, rel=NOISE)
    for pick in (lambda run: run, lambda run: sorted((run / "checkpoints").glob("step-*"))[-1]):
        mine, theirs = (load_tensors(pick(run) / "model.safetensors") for run in (one, other))
        for name, tensor in mine.items():
            assert (tensor - theirs[name]).abs().max() < 100 * NOISE, name


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a text, and what a single process makes of it."""
    made = tmp_path_factory.mktemp("runs")
    write_corpus(made / "corpus.txt", documents=40)
    for kind, loss in (("documents", "sampled"), ("stream", "adaptive")):
        train(World(), made, f"{kind} alone", settings(kind, loss))
    return made


@pytest.mark.parametrize(
    ("kind", "loss", "size", "accumulate"),
    [
        ("documents", "sampled", 2, 1),
        ("documents", "sampled", 4, 1),
        ("documents", "sampled", 1, 3),
        ("stream", "adaptive", 2, 2),
    ],
)
def test_the_loss_curve_does_not_depend_on_who_computes_it(folder, kind, loss, size, accumulate):
    name = f"{kind} {size} {accumulate}"
    config = settings(kind, loss, accumulate=accumulate)
    if size == 1:
        train(World(), folder, name, config)
    else:
        found = in_world(size, train, folder, name, config)
        assert len({session.position for session in found}) == 1, found
    assert_same_run(folder / f"{kind} alone", folder / name)


def test_a_stopped_run_goes_on_with_another_number_of_processes(folder):
    config = settings("stream", "adaptive")
    parts = [in_world(2, train, folder, "stream parts", config, 5)]
    parts.append(in_world(3, train, folder, "stream parts", config, 6))
    for number, found in enumerate(parts):
        assert len({session.position for session in found}) == 1, found
        assert found[0].position.step == 5 + 6 * number
    assert train(World(), folder, "stream parts", config).position.finished
    assert_same_run(folder / "stream alone", folder / "stream parts")


def test_one_process_prepares_the_text_and_the_others_wait(folder):
    write_corpus(folder / "corpus.txt", documents=1100)
    config = settings(epochs=1, evaluations_per_epoch=1)
    config = replace(config, batching=Batching(batch_tokens=2048, window=64))
    first, second = in_world(2, train, folder, "prepared", config)
    assert (first.prepared, second.prepared) == (1, 0)
    write_corpus(folder / "corpus.txt", documents=40)


def test_mistakes_are_told_by_all_processes(folder):
    nothing = folder / "nothing"
    nothing.mkdir()
    (nothing / "corpus.txt").write_text("\n")
    found = in_world(2, train, nothing, "run", settings())
    assert [type(error) for error in found] == [UserError, UserError]
    assert len({str(error) for error in found}) == 1
    assert not (nothing / "run").exists()

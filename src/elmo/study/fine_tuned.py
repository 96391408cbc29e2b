"""The row whose biLM learns with the classifier."""

from __future__ import annotations

from dataclasses import replace

from elmo.interop.models import open_model
from elmo.study.choices import Choice, row_training
from elmo.study.comparison import ELMO, Row
from elmo.study.jobs import Job
from elmo.study.outcome import Outcome
from elmo.study.progress import OnShare
from elmo.study.training import Training, train_network
from elmo.study.workbench import Workbench

WORK = 36.0
"""A text in fine-tuning takes about so many times as long as in a training on static vectors."""


def fine_tuned_jobs(bench: Workbench, row: Row, choice: Choice | None) -> list[Job]:
    """One job a seed; the classifier's settings are those chosen for trainable λs."""
    seeds = bench.config.seeds[: bench.config.fine_tune_seeds]
    return [_job(bench, row, choice, seed) for seed in seeds]


def _job(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Job:
    training = _training(bench, row, choice, seed)

    def run(on_share: OnShare) -> Outcome:
        # A biLM of its own, since it is changed.
        model = open_model(bench.bilms[ELMO].folder)
        reading = replace(bench.reading(ELMO), fine_tuned=model)
        return train_network(bench.data, reading, training, on_share)

    return Job(
        name=f"row-{row.name}-seed{seed}",
        row=row.name,
        inputs=bench.inputs(ELMO, training),
        kind=Outcome,
        run=run,
        weight=WORK * bench.data.train_count * bench.config.fine_tune_epochs,
        needs_bilm=ELMO,
    )


def _training(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Training:
    training = row_training(bench, row, choice, seed)
    learning = training.config.learning
    tuning = replace(learning.fine_tuning, fine_tune_epochs=bench.config.fine_tune_epochs)
    # The network learns for one epoch alone, so that it does not spoil the biLM at first.
    learning = replace(learning, epochs=1, fine_tuning=tuning)
    return replace(training, config=replace(training.config, learning=learning))

"""Training reports for Weights & Biases, MLflow, or any program that logs numbers by step.

    import wandb
    from elmo import pretrain
    from elmo.integrations.tracking import log_to

    with wandb.init(project="elmo") as run:
        pretrain("corpus.txt", "runs/mine", on_report=log_to(run.log))

    import mlflow

    with mlflow.start_run():
        pretrain("corpus.txt", "runs/mine", on_report=log_to(mlflow.log_metrics))

A run that resumes logs from its last checkpoint on. TensorBoard needs no callback:
`pretrain(…, tensorboard=True)`, `elmo pretrain --tensorboard`, `elmo classify train --tensorboard`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from elmo.runtime import require_extra


class LogsByStep(Protocol):
    """`wandb.Run.log`, `mlflow.log_metrics`, or a function of your own."""

    def __call__(self, values: dict[str, float], /, *, step: int) -> object: ...


def log_to(log: LogsByStep, prefix: str = "") -> Callable[[Any], None]:
    """A function for `on_report` that passes every number of a report on.

    Args:
        log: called with a dictionary of numbers and `step`.
        prefix: comes before the names, such as "bilm/".
    """

    def on_report(report: Any) -> None:
        # Reports within an epoch of a classifier have no number to log them under.
        step = getattr(report, "step", getattr(report, "epoch", None))
        if step is not None:
            values = {f"{prefix}{name}": value for name, value in numbers_of(report).items()}
            log(values, step=int(step))

    return on_report


def log_to_tensorboard(
    folder: Path | str, besides: Callable[[Any], None] | None = None
) -> Callable[[Any], None]:
    """A function for `on_report` that writes TensorBoard logs (extra: track).

    Args:
        folder: made with the first report, since a training refuses a folder that is not empty.
        besides: another function that is to get the reports, too.
    """
    require_extra("tensorboard", "track")
    writers: list[Any] = []

    def log(values: dict[str, float], /, *, step: int) -> None:
        if not writers:
            board: Any = import_module("torch.utils.tensorboard")
            writers.append(board.SummaryWriter(str(folder)))
        for name, value in values.items():
            writers[0].add_scalar(name, value, step)
        writers[0].flush()

    track = log_to(log)

    def on_report(report: Any) -> None:
        track(report)
        if besides is not None:
            besides(report)

    return on_report


def numbers_of(report: Any) -> dict[str, float]:
    """The numbers of a report of pre-training or of a classifier's training, by name."""
    evaluation = getattr(report, "evaluation", None)
    if evaluation is not None:
        return {
            "held_out/perplexity": evaluation.perplexity,
            "held_out/perplexity_forward": evaluation.forward.perplexity,
            "held_out/perplexity_backward": evaluation.backward.perplexity,
        }
    values = {field.name: getattr(report, field.name) for field in fields(report)}
    return {
        f"train/{name}": float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name != "step"
    }

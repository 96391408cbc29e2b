"""The training loop of a classifier's network: on frozen layers, then perhaps with the biLM.

`learn` is the loop. A `Phase` says what learns, from when and how fast; `Checkpoints` saves a
training under way, so that it resumes exactly.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

import elmo
from elmo.bilm.model import Randomness
from elmo.classify.config import ClassifierConfig, LearningConfig, upgraded
from elmo.classify.features import TokenizedTexts, batches_by_length, shuffled_batches
from elmo.classify.linear import accuracy_of, loss_of
from elmo.classify.metrics import standard_error
from elmo.classify.network import TextLayers
from elmo.config import Json, from_json, to_json
from elmo.errors import UserError
from elmo.files import sha256
from elmo.language_model import weights_checksum
from elmo.training import checkpoint
from elmo.training.config import learning_rate
from elmo.training.optim import RowAdam

if TYPE_CHECKING:
    from elmo.bilm.model import BiLM
    from elmo.classify.data import Split
    from elmo.embed.mix import LayerMix
    from elmo.text.batching import Batch

PATIENCE, RATE_FALLS, RATE_FACTOR = 3, 3, 0.3
"""Without a number of epochs: after three without a lower development loss the learning rate falls
to 0.3 of what it was; the third time, training stops."""
LEAST_IMPROVEMENT = 1e-4
PATIENCE_STEPS, WARMUP_STEPS = 50, 100
"""Least patience, in steps, and the length of the warm-up, in steps."""
STILL_IMPROVING = "the development loss was still falling"
NETWORK, FINE_TUNING = "network", "fine-tuning"
Rows = NDArray[np.int64]

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StepReport:
    phase: str
    done: float
    """Fraction of the phase that is done."""
    loss: float
    texts_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    phase: str
    epoch: int
    """Counted from 1, over all phases."""
    train_loss: float
    development_loss: float
    development_accuracy: float
    development_rows: int
    mix_weights: tuple[float, ...] | None
    """The weight of each biLM layer after the epoch; None if layers are not summed."""
    gamma: float | None
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        return self.development_accuracy, -self.development_loss


Listener = Callable[[StepReport | EpochReport], None]


def best_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The most accurate epoch; of equals the one of lower loss, then the first."""
    return max(history, key=lambda report: report.rank, default=None)


def kept_epoch(history: Sequence[EpochReport], *, by_loss: bool = False) -> EpochReport | None:
    """The epoch whose weights are kept: the last one within a standard error of the best.

    Development rows cannot tell such epochs apart, and a later one has had a lower learning rate.
    With `by_loss`, where the learning rate depends on the loss: the one of the lowest loss.
    """
    if by_loss:
        return min(history, key=lambda report: report.development_loss, default=None)
    best = best_epoch(history)
    if best is None:
        return None
    accuracy, rows = best.development_accuracy, best.development_rows
    least = accuracy - standard_error(accuracy, rows)
    return next(report for report in reversed(history) if report.development_accuracy >= least)


def kept_report(history: Sequence[EpochReport], config: LearningConfig) -> EpochReport | None:
    """The epoch whose weights a training has: each phase keeps epochs by a rule of its own."""
    kept = None
    for count, report in enumerate(history, start=1):
        by_loss = report.phase == NETWORK and config.epochs is None
        kept = report if kept_epoch(history[:count], by_loss=by_loss) is report else kept
    return kept


# What learns when.


class Features(Protocol):
    """Word vectors that do not change during training."""

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The vectors of some texts, padded to the longest."""
        ...


class LayerReader(Protocol):
    """A network on top of a biLM's layers: `ClassifierNetwork`, or that of another task."""

    @property
    def mix(self) -> LayerMix: ...
    @property
    def hidden(self) -> nn.Linear | None: ...
    @property
    def scores(self) -> nn.Linear: ...
    @property
    def mixes(self) -> tuple[LayerMix, ...]: ...
    def __call__(self, texts: TextLayers, random: torch.Generator | None = None) -> Tensor: ...
    def penalty(self) -> Tensor: ...
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def children(self) -> Iterator[nn.Module]: ...


class Readable(Protocol):
    """Texts that a biLM which learns reads in every step."""

    def batch(self, rows: Sequence[int], model: BiLM) -> Batch: ...
    def read(
        self, rows: Sequence[int], model: BiLM, random: Randomness | None = None
    ) -> TextLayers: ...


class Part(NamedTuple):
    """Modules that learn together."""

    modules: tuple[nn.Module, ...]
    rate_factor: float = 1.0
    """Multiplies the learning rate of the settings."""
    from_epoch: float = 0.0
    """When, in epochs of the phase, the part starts to learn."""

    def parameters(self) -> Iterator[tuple[nn.Parameter, bool, bool]]:
        """Each parameter, whether weight decay applies, and whether its gradient is sparse."""
        for module in self.modules:
            tables = {id(m.weight): m for m in module.modules() if isinstance(m, nn.Embedding)}
            norms = {id(m.weight) for m in module.modules() if isinstance(m, nn.LayerNorm)}
            for parameter in module.parameters():
                table = tables.get(id(parameter))
                is_matrix = parameter.dim() > 1 and table is None and id(parameter) not in norms
                yield parameter, is_matrix, table is not None and table.sparse


class Phase(NamedTuple):
    """A part of the training in which the same modules learn from the same kind of input."""

    name: str
    epochs: int | None
    """None: until the development loss stops falling."""
    parts: tuple[Part, ...]
    read: Callable[[Sequence[int], Randomness | None], tuple[TextLayers, Tensor | None]]
    """The layers of some texts, and what reading them adds to the loss."""


def network_phase(network: LayerReader, features: Features | None, config: LearningConfig) -> Phase:
    """The network learns from layers that were computed once; None: it has learned before."""
    parts = _network_parts(network, config)

    def read(rows: Sequence[int], random: Randomness | None) -> tuple[TextLayers, Tensor | None]:
        assert features is not None
        return features.read(rows), None

    return Phase(NETWORK, config.epochs, parts, read)


def fine_tuning_phase(
    network: LayerReader, texts: Readable, model: BiLM, config: LearningConfig
) -> Phase:
    """The biLM learns with the network: its top layer first, lower ones later and more slowly."""
    settings = config.fine_tuning

    def read(rows: Sequence[int], random: Randomness | None) -> tuple[TextLayers, Tensor | None]:
        layers = texts.read(rows, model, random)
        if random is None or not settings.language_weight:
            return layers, None
        loss = model.loss(texts.batch(rows, model).to(model.device), random=random)
        return layers, settings.language_weight * loss.mean

    # Both directions of each layer, from the top; the token layer last.
    pairs = zip(*(list(stack.layers) for stack in model.directions), strict=True)
    layers: list[tuple[nn.Module, ...]] = [*reversed([*pairs]), (model.token_layer,)]
    top_factor = settings.fine_tune_rate / config.learning_rate
    parts = [
        Part(modules, top_factor * settings.rate_decay**depth, depth * settings.unfreeze_epochs)
        for depth, modules in enumerate(layers)
    ]
    every_part = (*_network_parts(network, config), *parts)
    return Phase(FINE_TUNING, settings.fine_tune_epochs, every_part, read)


def _network_parts(network: LayerReader, config: LearningConfig) -> tuple[Part, ...]:
    """The layer that reads the pooled text, and a learned mixing function, have their own rates."""
    reader = network.scores if network.hidden is None else network.hidden
    function = () if network.mix.function is None else network.mixes
    rest = [module for module in network.children() if module not in (reader, *function)]
    parts = (Part(tuple(rest)), Part((reader,), config.text_rate))
    return (*parts, Part(function, config.function_rate)) if function else parts


def build_optimizers(phase: Phase, config: LearningConfig) -> list[Optimizer]:
    """AdamW over all parts, with weight decay for matrices only.

    Task embeddings have sparse gradients and an optimizer that touches only the words of a batch:
    going over all of them in each step would take longer than everything else.
    """
    dense: list[dict[str, object]] = []
    sparse: list[dict[str, object]] = []
    for part in phase.parts:
        parameters = list(part.parameters())
        for decays in (True, False):
            chosen = [
                parameter
                for parameter, decayed, by_row in parameters
                if decayed is decays and not by_row
            ]
            decay = config.weight_decay if decays else 0.0
            dense.append({"params": chosen, "weight_decay": decay, "factor": part.rate_factor})
        if rows := [parameter for parameter, _, by_row in parameters if by_row]:
            sparse.append({"params": rows, "factor": part.rate_factor})
    rate = config.learning_rate
    optimizers: list[Optimizer] = [AdamW(dense, lr=rate, betas=(0.9, 0.99), fused=True)]
    if sparse:
        optimizers.append(RowAdam(sparse, lr=rate, decay=0.99))
    return optimizers


def set_rates(
    phase: Phase, optimizers: Sequence[Optimizer], rate: float, epochs_done: float
) -> None:
    """Set the learning rate of each part; parts whose time has not come stay frozen."""
    for part in phase.parts:
        for parameter, _, _ in part.parameters():
            parameter.requires_grad_(part.from_epoch <= epochs_done)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> None:
    """Like torch's clip_grad_norm_, but sparse gradients count too."""
    gradients: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # A word that is in a batch twice has one gradient, the sum.
            parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values())
        else:
            gradients.append(parameter.grad)
    if gradients:
        flat = [gradient.flatten() for gradient in gradients]
        squares = torch.stack([gradient.dot(gradient) for gradient in flat])
        scale = min(1.0, max_norm / (float(squares.sum()) ** 0.5 + 1e-6))
        for gradient in gradients:
            gradient.mul_(scale)


# The training loop, and its state in checkpoints.


class EpochProgress(NamedTuple):
    """How far the current epoch is."""

    batches: int = 0
    summed: float = 0.0
    """The losses of their texts."""
    seconds: float = 0.0
    """Time they have taken, earlier sessions included."""


@dataclass
class PhaseState:
    """A phase under way; changes with every step."""

    phase: str
    modules: Sequence[nn.Module]
    optimizers: Sequence[Optimizer]
    history: list[EpochReport]
    """All epochs before, those of earlier phases too."""
    kept: list[dict[str, Tensor]] = field(init=False)
    """The weights of the modules after the epoch that is kept so far."""
    epoch: EpochProgress = field(default_factory=EpochProgress)

    def __post_init__(self) -> None:
        self.keep_weights()

    def keep_weights(self) -> None:
        self.kept = [
            {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
            for module in self.modules
        ]

    def restore_kept_weights(self) -> None:
        for module, tensors in zip(self.modules, self.kept, strict=True):
            module.load_state_dict(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, kept weights and optimizer states, as `<part>.<index>/<name>`."""
        groups: dict[str, Sequence[Mapping[str, Tensor]]] = {
            "now": [module.state_dict() for module in self.modules],
            "kept": self.kept,
            "memory": [checkpoint.optimizer_tensors(optimizer) for optimizer in self.optimizers],
        }
        return {
            f"{part}.{idx}/{name}": tensor
            for part, group in groups.items()
            for idx, tensors in enumerate(group)
            for name, tensor in tensors.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Set everything from what `tensors` returned."""
        groups: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            part, _, name = key.partition("/")
            groups.setdefault(part, {})[name] = tensor
        for idx, module in enumerate(self.modules):
            self.kept[idx] = groups.get(f"kept.{idx}", {})
            module.load_state_dict(groups.get(f"now.{idx}", {}))
        for idx, optimizer in enumerate(self.optimizers):
            checkpoint.restore_optimizer(optimizer, groups.get(f"memory.{idx}", {}))


class Checkpoints:
    """Saves the state of a training every few minutes and when it is asked to stop."""

    def __init__(
        self,
        folder: Path,
        job: Json,
        minutes: float,
        config_type: type[object] = ClassifierConfig,
    ) -> None:
        self._folder, self._job, self._interval = folder, job, 60 * minutes
        self._started = self._saved_at = time.monotonic()
        self._seconds_before = 0.0
        self._stop: Callable[[], bool] = lambda: False
        self._tensors: Mapping[str, Tensor] = {}
        self._epoch = EpochProgress()
        self.phase: str | None = None
        """The phase to resume in; None: start."""
        self.history: list[EpochReport] = []
        """The epochs of earlier sessions."""

        def read(progress: Json) -> Json:
            # Through the dataclasses: settings that were added since have their defaults.
            before = cast("Json", progress.get("origin", {}))
            config = from_json(config_type, upgraded(before.get("config")), "config")
            before["config"] = to_json(config)
            history = cast("list[object]", progress.get("history", []))
            progress["history"] = [from_json(EpochReport, one, "history") for one in history]
            return progress

        if (newest := checkpoint.newest_checkpoint(folder, read)) is not None:
            progress, tensors = newest
            version = {"version": job.get("version")}  # another version of elmo may resume
            checkpoint.check_same_job(folder, {**cast("Json", progress["origin"]), **version}, job)
            self._seconds_before = cast("float", progress["seconds"])
            epoch = cast("dict[str, float]", progress["epoch"])
            self._tensors = tensors["tensors"]
            self._epoch = EpochProgress(int(epoch["batches"]), epoch["summed"], epoch["seconds"])
            self.phase = cast("str", progress["phase"])
            self.history = cast("list[EpochReport]", progress["history"])
            log.info("resuming in epoch %d (%s)", len(self.history) + 1, self.phase)

    @property
    def seconds(self) -> float:
        """Time the training has taken so far, earlier sessions included."""
        return self._seconds_before + time.monotonic() - self._started

    @contextmanager
    def watched(self) -> Generator[None]:
        """Within this block, Ctrl-C and SIGTERM wait for the end of a step, which is saved."""
        with checkpoint.stop_requested() as self._stop:
            yield

    def restore(self, state: PhaseState) -> None:
        """Restore the state of the phase that was interrupted; others are left alone."""
        if self._tensors and state.phase == self.phase:
            state.restore(self._tensors)
            state.epoch, self._tensors = self._epoch, {}

    def after_step(self, state: PhaseState) -> None:
        """Save if it is time to; if a stop was requested, save and raise KeyboardInterrupt."""
        stops = self._stop()
        if stops or time.monotonic() - self._saved_at >= self._interval:
            steps = [int(path.name[5:]) for path in self._folder.glob("step-" + "[0-9]" * 9)]
            progress: Json = {
                "origin": self._job,
                "phase": state.phase,
                "history": [asdict(report) for report in state.history],
                "epoch": state.epoch._asdict(),
                "seconds": self.seconds,
            }
            checkpoint.save_checkpoint(
                self._folder, 1 + max(steps, default=0), progress, {"tensors": state.tensors()},
                keep=1,
            )  # fmt: skip
            self._saved_at = time.monotonic()
        if stops:
            raise KeyboardInterrupt(
                f"stopped in epoch {len(state.history) + 1} ({state.phase}); the same command "
                f"resumes from the checkpoint in {self._folder}"
            )


class Objective(Protocol):
    """What a network learns: from which rows, by which loss, and how good it is on the others."""

    @property
    def split(self) -> Split: ...
    @property
    def lengths(self) -> Rows: ...
    def loss(self, outputs: Tensor, rows: Rows, config: LearningConfig) -> Tensor: ...
    def development(self, network: LayerReader, phase: Phase) -> tuple[float, float, int]:
        """Loss and accuracy on the development rows, and how many decisions that counts."""
        ...


class Task(NamedTuple):
    """Texts to learn from, their classes, and which of them choose the epoch."""

    texts: TokenizedTexts
    classes: Rows
    split: Split
    class_weights: Tensor | None = None

    @property
    def lengths(self) -> Rows:
        return self.texts.lengths

    def loss(self, outputs: Tensor, rows: Rows, config: LearningConfig) -> Tensor:
        """Cross entropy of scores, (rows, classes)."""
        targets = torch.from_numpy(self.classes[rows]).to(outputs.device)
        return loss_of(outputs, targets, self.class_weights, config.label_smoothing)

    def development(self, network: LayerReader, phase: Phase) -> tuple[float, float, int]:
        """Cross entropy without smoothing, and accuracy or, of several labels, micro F1."""
        rows = self.split.development
        scores = scores_of(network, phase, rows, self.lengths)
        gold = torch.from_numpy(self.classes[rows]).to(scores.device)
        return float(loss_of(scores, gold)), accuracy_of(scores, gold), len(rows)


class LossIsNaNError(UserError):
    """The loss became NaN or infinite; the modules have the weights of the epoch kept before."""


def learn(
    network: LayerReader,
    phase: Phase,
    task: Objective,
    config: LearningConfig,
    on_report: Listener,
    history: list[EpochReport],
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train through one phase; the modules end with the weights of the epoch that is kept.

    A report per epoch is appended to `history`. With checkpoints, an interrupted phase resumes
    exactly: its weights equal those of an uninterrupted one.

    Raises:
        LossIsNaNError: the loss became NaN or infinite.
    """
    device = next(network.parameters()).device
    modules = [module for part in phase.parts for module in part.modules]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizers = build_optimizers(phase, config)
    state = PhaseState(phase.name, modules, optimizers, history)
    if checkpoints is not None:
        checkpoints.restore(state)
    train, lengths = task.split.train, task.lengths
    texts_read, started = 0, time.monotonic()
    total = (phase.epochs or config.epochs_for(len(train))) * len(train)

    while stop_reason(phase, history, len(train), config) is None:
        epoch, epoch_started = len(history), time.monotonic() - state.epoch.seconds
        batches = shuffled_batches(train, lengths, config.batch_texts, config.seed, epoch)
        done = sum(report.phase == phase.name for report in history) * len(train)
        done += sum(map(len, batches[: state.epoch.batches]))
        falls, _ = rate_falls(phase, history, len(train), config)
        for rows in batches[state.epoch.batches :]:
            if phase.epochs is None:
                warm = min(1.0, (done / config.batch_texts + 1) / WARMUP_STEPS)
                rate = config.learning_rate * warm * RATE_FACTOR**falls
            else:
                rate = learning_rate(config, done / total)
            set_rates(phase, optimizers, rate, done / len(train))
            random = Randomness.of(config.seed, epoch * len(train) + done % len(train), device)
            layers, language_loss = phase.read(rows.tolist(), random)
            loss = task.loss(network(layers, random.forward), rows, config) + network.penalty()
            if language_loss is not None:
                loss = loss + language_loss
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            if config.clip:
                clip_gradients(parameters, config.clip)
            for optimizer in optimizers:
                optimizer.step()

            value = float(loss.detach())
            done, texts_read = done + len(rows), texts_read + len(rows)
            if not math.isfinite(value):
                state.restore_kept_weights()
                last = kept_report(history, config)
                kept = "no epoch was finished" if last is None else f"epoch {last.epoch} is kept"
                raise LossIsNaNError(
                    f"the loss became NaN or infinite in epoch {epoch + 1} ({phase.name}), after "
                    f"{done:,} texts; {kept}. Use a smaller --learning-rate, --fine-tune-rate or "
                    "--clip"
                )
            state.epoch = EpochProgress(
                batches=state.epoch.batches + 1,
                summed=state.epoch.summed + value * len(rows),
                seconds=time.monotonic() - epoch_started,
            )
            speed = texts_read / (time.monotonic() - started)
            on_report(
                StepReport(
                    phase=phase.name, done=done / total, loss=value, texts_per_second=speed,
                    seconds_left=(total - done) / speed,
                )
            )  # fmt: skip
            if checkpoints is not None:
                checkpoints.after_step(state)

        development_loss, accuracy, decisions = task.development(network, phase)
        report = EpochReport(
            phase=phase.name, epoch=epoch + 1, train_loss=state.epoch.summed / len(train),
            development_loss=development_loss, development_accuracy=accuracy,
            development_rows=decisions, mix_weights=network.mix.weights, gamma=network.mix.gamma,
            seconds=time.monotonic() - epoch_started,
        )  # fmt: skip
        history.append(report)
        on_report(report)
        state.epoch = EpochProgress()
        if kept_epoch(history, by_loss=phase.epochs is None) is report:
            state.keep_weights()
        elif rate_falls(phase, history, len(train), config)[0] > falls:
            state.restore_kept_weights()  # smaller steps, from the best point so far
        if checkpoints is not None:
            checkpoints.after_step(state)
    state.restore_kept_weights()


class Fitted(NamedTuple):
    history: list[EpochReport]
    stopped: str
    """Why each phase ended."""
    trouble: str | None
    """Why the training ended early, if the loss became NaN after a good epoch."""
    phase: Phase
    """The last one, whose `read` gives the features as they are now."""


def fit(
    network: LayerReader,
    objective: Objective,
    texts: Readable,
    features: Features | None,
    model: BiLM | None,
    config: LearningConfig,
    *,
    on_report: Listener = lambda report: None,
    checkpoints: Checkpoints | None = None,
) -> Fitted:
    """Train on frozen features (None: that was completed before), then perhaps with the biLM."""
    history = [] if checkpoints is None else checkpoints.history
    phases = [network_phase(network, features, config)]
    if model is not None and config.fine_tuning.fine_tune_epochs:
        phases.append(fine_tuning_phase(network, texts, model, config))
    phase, reasons = phases[0], list[str]()
    trouble: str | None = None
    rows = len(objective.split.train)
    for stack in () if model is None else model.directions:
        stack.dropout = config.fine_tuning.bilm_dropout
    try:
        for phase in phases:
            if features is not None or phase.name == FINE_TUNING:
                with nullcontext() if checkpoints is None else checkpoints.watched():
                    learn(network, phase, objective, config, on_report, history, checkpoints)
            done = history
            if phase.name != FINE_TUNING:  # a resumed job has reports of both phases
                done = [report for report in history if report.phase == phase.name]
            reason = stop_reason(phase, done, rows, config)
            reasons.append(f"{phase.name} stopped after epoch {len(done)}: {reason}")
    except LossIsNaNError as error:
        if not history:
            raise
        trouble = str(error)
    finally:
        if model is not None:
            model.requires_grad_(False)
            for stack in model.directions:
                stack.dropout = model.config.dropout
    return Fitted(history, "; ".join(reasons), trouble, phase)


def needs_features(checkpoints: Checkpoints | None) -> bool:
    """Whether the first phase is still to be done, which reads frozen features."""
    return checkpoints is None or checkpoints.phase != FINE_TUNING


def rate_falls(
    phase: Phase, history: Sequence[EpochReport], texts: int, config: LearningConfig
) -> tuple[int, int]:
    """How often the learning rate of a phase has fallen, and its epochs since the best one.

    A function of the history alone, so that a resumed training has the same rates.
    """
    patience = config.patience or PATIENCE
    patience = max(patience, -(-PATIENCE_STEPS // -(-texts // config.batch_texts)))
    falls, waited, since_best, lowest = 0, 0, 0, math.inf
    for report in history:
        if phase.epochs is not None or report.phase != phase.name:
            continue
        if report.development_loss < lowest - LEAST_IMPROVEMENT:
            waited, since_best, lowest = 0, 0, report.development_loss
        else:
            waited, since_best = waited + 1, since_best + 1
        if waited == patience:
            falls, waited = falls + 1, 0
    return falls, since_best


def stop_reason(
    phase: Phase, history: Sequence[EpochReport], texts: int, config: LearningConfig
) -> str | None:
    """Why a phase is over; None: it is not."""
    epochs = sum(report.phase == phase.name for report in history)
    if phase.epochs is None:
        falls, since_best = rate_falls(phase, history, texts, config)
        if falls >= RATE_FALLS:
            return f"the development loss has not fallen for {since_best} epochs"
        limit = config.epochs_for(texts)
        return f"{STILL_IMPROVING} after {limit} epochs" if epochs >= limit else None
    if epochs >= phase.epochs:
        losses = [report.development_loss for report in history if report.phase == phase.name]
        falls = epochs > 1 and losses[-1] < 0.98 * min(losses[:-1])  # by 2% in one epoch
        return f"all of its {phase.epochs} epochs are done" + f", but {STILL_IMPROVING}" * falls
    best = best_epoch(history)
    if not epochs or best is None or config.patience is None:
        return None
    waited = min(epochs, history[-1].epoch - best.epoch)  # in this phase
    return f"no better epoch for {waited} epochs" if waited >= config.patience else None


@torch.no_grad()
def scores_of(network: LayerReader, phase: Phase, rows: Rows, lengths: Rows) -> Tensor:
    """The scores of some texts, in the order of `rows`, (rows, classes)."""
    batches = batches_by_length(np.arange(len(rows)), lengths[rows], 128)
    scores = torch.cat([network(phase.read(rows[batch].tolist(), None)[0]) for batch in batches])
    return scores[torch.from_numpy(np.argsort(np.concatenate(batches))).to(scores.device)]


# What identifies a training.


def job_of(config: object, digests: Json) -> Json:
    """The identity of a training: its settings and the checksums of its inputs."""
    settings = to_json(config)
    # Where layers are stored changes nothing: a smaller machine may resume.
    settings["learning"]["feature_memory"] = None
    return {"config": settings, **digests, "version": elmo.__version__}


def input_digests(bilm: Path, word_vectors: Path | str | None) -> Json:
    vectors = None if word_vectors is None else sha256(Path(word_vectors))
    return {"bilm": weights_checksum(bilm), "word_vectors": vectors}

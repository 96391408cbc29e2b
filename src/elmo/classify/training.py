"""Training a classifier: first its network on frozen biLM layers, then, if wanted, the biLM too.

`train` works in memory, `train_classifier` from files to a folder; `learn` is the training loop.
"""

from __future__ import annotations

import logging
import math
import platform
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW, Optimizer

import elmo
from elmo.bilm.model import BiLM, Randomness
from elmo.classify.classifier import TextClassifier, can_draw, weights_file, write_evaluation
from elmo.classify.config import ClassifierConfig, LearningConfig
from elmo.classify.data import (
    LabelledTexts,
    Split,
    check_test_rows,
    development_split,
    encode_labels,
    label_names,
    printable,
    read_labelled,
)
from elmo.classify.features import (
    MAX_WORD_VECTORS,
    FrozenFeatures,
    TokenizedTexts,
    batches_by_length,
    build_task_vocabulary,
    check_vector_size,
    init_from_word_vectors,
    shuffled_batches,
    tokenize_texts,
    with_pretrained_words,
)
from elmo.classify.metrics import Evaluation, measure, most_confident_mistakes, standard_error
from elmo.classify.network import ClassifierNetwork, TextLayers, seeded_network
from elmo.config import Json, check, from_json, to_json
from elmo.embed.embedder import Listener as TextListener
from elmo.embed.embedder import Pace
from elmo.errors import UserError
from elmo.files import (
    atomic_folder,
    remove_folder,
    remove_leftovers,
    sha256,
    write_json_lines,
    write_text,
)
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import CARD, Precision
from elmo.static.vectors import StaticVectors
from elmo.text.config import ReadOptions
from elmo.training.checkpoint import (
    check_same_job,
    locked,
    newest_checkpoint,
    save_checkpoint,
    stop_requested,
)
from elmo.training.optim import RowAdam, learning_rate, optimizer_tensors, restore_optimizer

NETWORK, FINE_TUNING = "network", "fine-tuning"
TRAIN, DEVELOPMENT, TEST = "train", "development", "test"
Rows = NDArray[np.int64]

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Progress within a phase."""

    phase: str
    done: float
    """Fraction of the phase that is done."""
    loss: float
    texts_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """The result of an epoch."""

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
        """The better of two epochs has the higher one."""
        return self.development_accuracy, -self.development_loss


Listener = Callable[[StepReport | EpochReport], None]


def best_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The most accurate epoch; of equals the one of lower loss, then the first."""
    return max(history, key=lambda report: report.rank, default=None)


def kept_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The epoch whose weights are kept: the last one within a standard error of the best.

    Development rows cannot tell such epochs apart, and a later one has had a lower learning rate.
    """
    best = best_epoch(history)
    if best is None:
        return None
    accuracy, rows = best.development_accuracy, best.development_rows
    least = accuracy - standard_error(accuracy, rows)
    return next(report for report in reversed(history) if report.development_accuracy >= least)


# What learns when.


class Features(Protocol):
    """Word vectors that do not change during training."""

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The vectors of some texts, padded to the longest."""
        ...


@dataclass(frozen=True)
class Part:
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


@dataclass(frozen=True)
class Phase:
    """A part of the training in which the same modules learn from the same kind of input."""

    name: str
    epochs: int
    parts: tuple[Part, ...]
    read: Callable[[Sequence[int], Randomness | None], tuple[TextLayers, Tensor | None]]
    """The layers of some texts, and what reading them adds to the loss."""


def phases(
    network: ClassifierNetwork,
    features: Features | None,
    texts: TokenizedTexts,
    model: BiLM | None,
    config: LearningConfig,
    epochs: int,
) -> Iterator[Phase]:
    """The network alone for some epochs, then, if the settings say so, with the biLM.

    Without features, the first phase was completed before.
    """
    if features is not None:
        yield network_phase(network, features, config, epochs)
    if model is not None and config.fine_tuning.fine_tune_epochs:
        for stack in model.directions:
            stack.dropout = config.fine_tuning.bilm_dropout
        yield fine_tuning_phase(network, texts, model, config)


def network_phase(
    network: ClassifierNetwork, features: Features, config: LearningConfig, epochs: int
) -> Phase:
    """The network learns from layers that were computed once."""
    parts = _network_parts(network, config)
    return Phase(NETWORK, epochs, parts, lambda rows, random: (features.read(rows), None))


def fine_tuning_phase(
    network: ClassifierNetwork, texts: TokenizedTexts, model: BiLM, config: LearningConfig
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


def _network_parts(network: ClassifierNetwork, config: LearningConfig) -> tuple[Part, ...]:
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
                one for one, decayed, by_row in parameters if decayed is decays and not by_row
            ]
            decay = config.weight_decay if decays else 0.0
            dense.append({"params": chosen, "weight_decay": decay, "factor": part.rate_factor})
        if rows := [one for one, _, by_row in parameters if by_row]:
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
        squares = torch.stack([one.flatten().dot(one.flatten()) for one in gradients])
        scale = min(1.0, max_norm / (float(squares.sum()) ** 0.5 + 1e-6))
        for gradient in gradients:
            gradient.mul_(scale)


# The training loop, and its state in checkpoints.


@dataclass(frozen=True, kw_only=True)
class EpochProgress:
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
        """Keep a copy of the current weights."""
        self.kept = [
            {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
            for module in self.modules
        ]

    def restore_kept_weights(self) -> None:
        """Set the modules to the weights that were kept."""
        for module, tensors in zip(self.modules, self.kept, strict=True):
            module.load_state_dict(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, kept weights and optimizer states, as `<part>.<index>/<name>`."""
        groups: dict[str, Sequence[Mapping[str, Tensor]]] = {
            "now": [module.state_dict() for module in self.modules],
            "kept": self.kept,
            "memory": [optimizer_tensors(optimizer) for optimizer in self.optimizers],
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
            restore_optimizer(optimizer, groups.get(f"memory.{idx}", {}))


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """What progress.json of a checkpoint holds, besides the job's identity."""

    phase: str
    history: tuple[EpochReport, ...]
    epoch: EpochProgress
    seconds: float
    """Time the whole training has taken so far."""


class Checkpoints:
    """Saves the state of a training every few minutes and when it is asked to stop."""

    def __init__(self, folder: Path, job: Json, minutes: float) -> None:
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

        def read(progress: Json) -> tuple[Json, _Progress]:
            before = cast("Json", progress.pop("origin", {}))
            # Through the dataclass: settings that were added since have their defaults.
            config = from_json(ClassifierConfig, before.get("config"), "config")
            return {**before, "config": to_json(config)}, from_json(_Progress, progress, "progress")

        if (newest := newest_checkpoint(folder, read)) is not None:
            (before, progress), tensors = newest
            version = {"version": job.get("version")}  # another version of elmo may resume
            check_same_job(folder, {**before, **version}, job)
            self._seconds_before = progress.seconds
            self._tensors, self._epoch = tensors["tensors"], progress.epoch
            self.phase, self.history = progress.phase, list(progress.history)
            log.info("resuming in epoch %d (%s)", len(self.history) + 1, self.phase)

    @property
    def seconds(self) -> float:
        """Time the training has taken so far, earlier sessions included."""
        return self._seconds_before + time.monotonic() - self._started

    @contextmanager
    def watched(self) -> Generator[None]:
        """Within this block, Ctrl-C and SIGTERM wait for the end of a step, which is saved."""
        with stop_requested() as self._stop:
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
            progress = _Progress(
                phase=state.phase,
                history=tuple(state.history),
                epoch=state.epoch,
                seconds=self.seconds,
            )
            save_checkpoint(
                self._folder,
                1 + max(steps, default=0),
                {"origin": self._job, **to_json(progress)},
                {"tensors": state.tensors()},
                keep=1,
            )
            self._saved_at = time.monotonic()
        if stops:
            raise KeyboardInterrupt(
                f"stopped in epoch {len(state.history) + 1} ({state.phase}); the same command "
                f"resumes from the checkpoint in {self._folder}"
            )


@dataclass(frozen=True)
class Task:
    """Texts to learn from, their classes, and which of them choose the epoch."""

    texts: TokenizedTexts
    classes: Rows
    split: Split
    class_weights: Tensor | None = None


class LossIsNaNError(UserError):
    """The loss became NaN or infinite; the modules have the weights of the epoch kept before."""


def learn(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
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
    train, lengths = task.split.train, task.texts.lengths
    total, texts_read, started = phase.epochs * len(train), 0, time.monotonic()

    while not _is_over(phase, history, config.patience):
        epoch, epoch_started = len(history), time.monotonic() - state.epoch.seconds
        batches = shuffled_batches(train, lengths, config.batch_texts, config.seed, epoch)
        done = sum(report.phase == phase.name for report in history) * len(train)
        done += sum(map(len, batches[: state.epoch.batches]))
        for rows in batches[state.epoch.batches :]:
            set_rates(phase, optimizers, learning_rate(config, done / total), done / len(train))
            random = Randomness.of(config.seed, epoch * len(train) + done % len(train), device)
            layers, language_loss = phase.read(rows.tolist(), random)
            loss = functional.cross_entropy(
                network(layers, random.forward),  # (texts, classes)
                torch.from_numpy(task.classes[rows]).to(device),
                weight=task.class_weights,
                label_smoothing=config.label_smoothing,
            )
            loss = loss + network.penalty()
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
                last = kept_epoch(history)
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
                    phase=phase.name,
                    done=done / total,
                    loss=value,
                    texts_per_second=speed,
                    seconds_left=(total - done) / speed,
                )
            )
            if checkpoints is not None:
                checkpoints.after_step(state)

        development = task.split.development
        scores = scores_of(network, phase, development, lengths)
        gold = torch.from_numpy(task.classes[development]).to(device)
        report = EpochReport(
            phase=phase.name,
            epoch=epoch + 1,
            train_loss=state.epoch.summed / len(train),
            development_loss=float(functional.cross_entropy(scores, gold)),
            development_accuracy=float((scores.argmax(1) == gold).double().mean()),
            development_rows=len(development),
            mix_weights=network.mix.weights,
            gamma=network.mix.gamma,
            seconds=time.monotonic() - epoch_started,
        )
        history.append(report)
        on_report(report)
        state.epoch = EpochProgress()
        if kept_epoch(history) is report:
            state.keep_weights()
        if checkpoints is not None:
            checkpoints.after_step(state)
    state.restore_kept_weights()


def _is_over(phase: Phase, history: Sequence[EpochReport], patience: int | None) -> bool:
    """Whether a phase has had all its epochs, or too many without a better one."""
    epochs, best = sum(report.phase == phase.name for report in history), best_epoch(history)
    if not epochs or best is None or patience is None:
        return epochs >= phase.epochs
    return epochs >= phase.epochs or history[-1].epoch - best.epoch >= patience


@torch.no_grad()
def scores_of(network: ClassifierNetwork, phase: Phase, rows: Rows, lengths: Rows) -> Tensor:
    """The scores of some texts, in the order of `rows`, (rows, classes)."""
    batches = batches_by_length(np.arange(len(rows)), lengths[rows], 128)
    scores = torch.cat([network(phase.read(rows[batch].tolist(), None)[0]) for batch in batches])
    return scores[torch.from_numpy(np.argsort(np.concatenate(batches))).to(scores.device)]


# From labelled texts and a biLM to a classifier, in memory.


@dataclass(frozen=True)
class Trained:
    """A classifier, and how it was trained."""

    classifier: TextClassifier
    history: list[EpochReport]
    split: Split
    probabilities: NDArray[np.float32]
    """Of all texts, (texts, classes), the development texts included."""
    classes: NDArray[np.int64]
    """The correct class of each text."""
    seconds: float
    trouble: str | None
    """Why the training ended early, if the loss became NaN after a good epoch."""


def train(
    loaded: LanguageModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    *,
    word_vectors: StaticVectors | None = None,
    features: FrozenFeatures | None = None,
    scratch: Path = Path(),
    on_report: Listener = lambda report: None,
    on_texts: TextListener = lambda progress: None,
    checkpoints: Checkpoints | None = None,
) -> Trained:
    """Train a classifier on texts and their labels; fine-tuning changes the biLM in place.

    Args:
        loaded: the biLM.
        data: texts with labels.
        config: all settings.
        word_vectors: task embeddings are initialised from these.
        features: the biLM's layers of these texts, if they were computed before.
        scratch: folder for layers that do not fit into memory.
        on_report: called after each step and each epoch.
        on_texts: called while the biLM reads all texts once.
        checkpoints: where to resume from and to save to.
    """
    check(config)
    if word_vectors is not None:
        check_vector_size(word_vectors, config.network.own_words)
        config = replace(config, network=replace(config.network, own_lower_case=True))
    started = time.monotonic()
    model, learning = loaded.model, config.learning
    labels, task = make_task(loaded, data, config, word_vectors)
    vocabulary = task.texts.task_vocabulary
    network = seeded_network(
        config.network,
        learning.seed,
        layers=1 + model.config.layers,
        dim=2 * model.config.width,
        classes=len(labels),
        task_words=len(vocabulary),
    )
    if word_vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(network.task_embedding.weight, vocabulary, word_vectors)
    network = network.to(model.device)
    history = [] if checkpoints is None else checkpoints.history
    model.requires_grad_(False)

    if features is not None:
        features = features.for_texts(task.texts)
    elif checkpoints is None or checkpoints.phase != FINE_TUNING:
        features = FrozenFeatures.compute(
            task.texts,
            model,
            memory=learning.feature_memory,
            folder=scratch,
            on_texts=Pace(on_texts, len(task.texts)).add,
        )
    phase: Phase | None = None
    trouble: str | None = None
    try:
        epochs = learning.epochs_for(len(task.split.train))
        for phase in phases(network, features, task.texts, model, learning, epochs):
            with nullcontext() if checkpoints is None else checkpoints.watched():
                learn(network, phase, task, learning, on_report, history, checkpoints)
    except LossIsNaNError as error:
        if not history:
            raise
        trouble = str(error)
    assert phase is not None
    model.requires_grad_(False)
    scores = scores_of(network, phase, np.arange(len(task.texts)), task.texts.lengths)
    return Trained(
        classifier=TextClassifier.from_parts(loaded, network, vocabulary, labels, config),
        history=history,
        split=task.split,
        probabilities=scores.softmax(dim=1).cpu().numpy(),
        classes=task.classes,
        seconds=time.monotonic() - started if checkpoints is None else checkpoints.seconds,
        trouble=trouble,
    )


def make_task(
    loaded: LanguageModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    word_vectors: StaticVectors | None = None,
) -> tuple[tuple[str, ...], Task]:
    """The names of the classes, and the texts as tokens, split into train and development."""
    if data.labels is None:
        raise UserError("expected labelled texts to learn from, but these have no labels")
    names = label_names(data.labels)
    classes = encode_labels(data.labels, names, data.locations)
    learning = config.learning
    split = development_split(classes, learning.development_share, learning.seed, names)
    words = tokenize_texts(loaded, data.texts, config.network.max_words)
    # From training texts alone: development texts must not say which words are known.
    vocabulary = build_task_vocabulary(
        [words[int(row)] for row in split.train], config.network.own_min_count
    )
    if word_vectors is not None:
        vocabulary = with_pretrained_words(vocabulary, word_vectors)
    weights = None
    if learning.class_weights == "balanced":
        # Mean 1 over the texts, so that the loss stays comparable.
        counts = np.bincount(classes[split.train], minlength=len(names))
        balanced = torch.from_numpy(len(split.train) / (len(names) * counts))
        weights = balanced.float().to(loaded.model.device)
    texts = TokenizedTexts(words, vocabulary, config.network.own_lower_case)
    return names, Task(texts, classes, split, weights)


# From files and a biLM's folder to a classifier's folder.


@dataclass(frozen=True)
class ClassifierRun:
    """A classifier that was written to a folder."""

    folder: Path
    trained: Trained
    evaluations: dict[str, Evaluation]
    """On train, development and, if there are any, test rows."""


def train_classifier(
    sources: Sequence[str] | str,
    model: Path | str,
    out: Path | str,
    config: ClassifierConfig | None = None,
    *,
    test: Sequence[str] | str = (),
    read: ReadOptions | None = None,
    label_column: str | None = None,
    word_vectors: Path | str | None = None,
    reference: bool = False,
    precision: Precision = "fp32",
    fresh: bool = False,
    device: str = "cpu",
    checkpoint_minutes: float = 1.0,
    on_report: Listener = lambda report: None,
    on_texts: TextListener = lambda progress: None,
    command: str = "",
) -> ClassifierRun:
    """Train a classifier on labelled files; the same call resumes an interrupted training.

    Until the folder is complete, checkpoints are kept next to it in `<out>.unfinished`. A resumed
    training ends with the same weights, bit for bit, as one that was never interrupted.

    Args:
        sources: labelled files (.csv, .tsv, .jsonl, .parquet) or "ag_news".
        model: the biLM's folder.
        out: the classifier's folder, which must not exist.
        config: all settings; default: `ClassifierConfig()`.
        test: labelled files to evaluate on at the end.
        read: how to read the files.
        label_column: the column with the labels.
        word_vectors: a file of vectors to initialise task embeddings from.
        reference: name the biLM's folder instead of copying the biLM.
        precision: of the saved weights.
        fresh: start over: delete a classifier and checkpoints that are there.
        device: "cpu", "cuda", "cuda:1", …
        checkpoint_minutes: time between checkpoints.
        on_report: called after each step and each epoch.
        on_texts: called while the biLM reads all texts once.
        command: for the card.

    Raises:
        UserError: the folder exists, or its checkpoints are of another job.
    """
    config, out = config or ClassifierConfig(), Path(out)
    check(config)
    if out.exists() and not (fresh and (out / "classifier.json").is_file()):
        raise UserError(
            f"{out}: already exists; choose another --out, or replace a classifier with --fresh"
        )
    if reference and config.learning.fine_tuning.fine_tune_epochs:
        raise UserError(
            "reference: a fine-tuned biLM differs from the one it came from, so it must be saved; "
            "leave out --reference"
        )
    if checkpoint_minutes < 0:
        raise UserError(f"checkpoint_minutes: cannot be negative, got {checkpoint_minutes}")
    loaded = open_model(model, device)
    data = read_labelled(sources, read, label_column)
    test_data = read_labelled(test, read, label_column) if test else None
    if test_data is not None:
        check_test_rows(data, test_data)
    vectors = None if word_vectors is None else StaticVectors.load(word_vectors, MAX_WORD_VECTORS)
    vectors_sum = None if word_vectors is None else sha256(Path(word_vectors))
    job = job_of(config, data.digest, sha256(weights_file(Path(model))), vectors_sum)
    with unfinished_job(out, job, checkpoint_minutes, fresh) as checkpoints:
        trained = train(
            loaded,
            data,
            config,
            word_vectors=vectors,
            scratch=out.parent,
            on_report=on_report,
            on_texts=on_texts,
            checkpoints=checkpoints,
        )
        evaluations = _evaluations(trained, data, test_data)
        names = [sources] if isinstance(sources, str) else sources
        with atomic_folder(out) as temporary:
            trained.classifier.save_pretrained(
                temporary, bilm=Path(model) if reference else None, precision=precision
            )
            _write_history(trained, temporary)
            for part, evaluation in evaluations.items():
                write_evaluation(evaluation, part, temporary)
            card = classifier_card(trained, evaluations, ", ".join(names), command)
            write_text(temporary / CARD, card)
    return ClassifierRun(out, trained, evaluations)


def job_of(config: ClassifierConfig, texts: str, bilm: str, word_vectors: str | None) -> Json:
    """The identity of a training: its settings and the checksums of its inputs."""
    # Where layers are kept changes nothing: a smaller machine may resume.
    config = replace(config, learning=replace(config.learning, feature_memory=None))
    return {
        "config": to_json(config),
        "texts": texts,
        "bilm": bilm,
        "word_vectors": word_vectors,
        "version": elmo.__version__,
    }


@contextmanager
def unfinished_job(
    out: Path, job: Json, minutes: float, fresh: bool = False
) -> Generator[Checkpoints]:
    """Checkpoints of a training that will become the folder `out`; deleted once it is there."""
    folder = unfinished(out)
    if folder.exists() and not (folder / ".lock").is_file():
        raise UserError(f"{folder}: is in the way and not of elmo; rename it")
    with locked(folder):
        is_done = False
        try:
            remove_leftovers(folder)
            remove_leftovers(out.parent, out.name)
            remove_leftovers(folder.parent, folder.name)
            for path in folder.glob("step-*") if fresh else ():
                remove_folder(path)
            yield Checkpoints(folder, job, minutes)
            is_done = True
        finally:
            if is_done or not any(folder.glob("step-*")):
                remove_folder(folder)


def unfinished(out: Path) -> Path:
    """The folder with the checkpoints of a training."""
    return out.with_name(f"{out.name}.unfinished")


def _evaluations(
    trained: Trained, data: LabelledTexts, test: LabelledTexts | None
) -> dict[str, Evaluation]:
    evaluations: dict[str, Evaluation] = {}
    names = trained.classifier.labels
    for part, rows in ((TRAIN, trained.split.train), (DEVELOPMENT, trained.split.development)):
        some = data.select(rows.tolist())
        probabilities, gold = trained.probabilities[rows], trained.classes[rows]
        mistakes = most_confident_mistakes(
            probabilities, gold, some.texts, names, locations=some.locations
        )
        evaluations[part] = Evaluation(measure(probabilities, gold, names), tuple(mistakes), ())
    if test is not None:
        evaluations[TEST] = trained.classifier.evaluate(
            test.texts, test.labels or (), locations=test.locations
        )
    return evaluations


def _write_history(trained: Trained, folder: Path) -> None:
    write_json_lines(folder / "log.jsonl", map(asdict, trained.history))
    kept = kept_epoch(trained.history)
    if kept is not None and can_draw():
        from elmo.classify.plots import LearningCurves, draw_learning_curve

        curves = LearningCurves(
            [report.train_loss for report in trained.history],
            [report.development_loss for report in trained.history],
            [report.development_accuracy for report in trained.history],
        )
        epochs = [report.epoch for report in trained.history]
        draw_learning_curve(epochs, curves, kept.epoch, folder / "learning_curve.png")


def classifier_card(
    trained: Trained, evaluations: Mapping[str, Evaluation], texts: str, command: str
) -> str:
    """The card as Markdown: what the classifier was made from, and how good it is."""
    classifier = trained.classifier
    network, learning = classifier.config_.network, classifier.config_.learning
    tuned = learning.fine_tuning.fine_tune_epochs
    parameters = sum(parameter.numel() for parameter in classifier.network.parameters())
    mix, weights = classifier.network.mix, ""
    if mix.weights is not None:
        shown = ", ".join(f"{weight:.3f}" for weight in mix.weights)
        weights = f", layers 0 to {len(mix.weights) - 1} weigh {shown}, gamma {mix.gamma:.3f}"
    rows = "\n".join(
        f"| {part} | {one.count:,} | {one.accuracy.value:.4f} | {one.accuracy.low:.4f} to "
        f"{one.accuracy.high:.4f} | {one.macro.precision:.4f} | {one.macro.recall:.4f} | "
        f"{one.macro.f1:.4f} | {one.calibration_error:.4f} |"
        for part, one in ((part, one.metrics) for part, one in evaluations.items())
    )
    return f"""# A text classifier on top of a bidirectional language model (ELMo)

| | |
|---|---|
| labels | {", ".join(map(printable, classifier.labels))} |
| mix of layers | {network.mix.mix}{weights} |
| task embeddings | {network.own_words or "none"} |
| encoder | {network.encoder} |
| pooling | {network.pooling} |
| parameters of the network | {parameters:,} |
| biLM | {f"fine-tuned for {tuned} epochs" if tuned else "frozen"} |
| texts | {texts} |
| rows | {len(trained.split.train):,} to learn from, {len(trained.split.development):,} to choose \
the epoch by |
| seed | {learning.seed} |
| trained in | {trained.seconds:,.0f} s |

## Quality

| part | rows | accuracy | 95% interval | precision | recall | F1 | calibration error |
|---|---|---|---|---|---|---|---|
{rows}

Precision, recall and F1 are means over the classes.

## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""

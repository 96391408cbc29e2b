"""What learns when: first the network alone, then, layer by layer from the top, the biLM too."""

from __future__ import annotations

import logging
import math
import platform
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW, Optimizer

import elmo
from elmo.bilm.model import BiLM, Randomness
from elmo.classify.classifier import (
    TextClassifier,
    can_draw,
    weights_file,
    write_evaluation,
)
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
from elmo.classify.metrics import (
    Evaluation,
    Metrics,
    measure,
    most_confident_mistakes,
    standard_error,
)
from elmo.classify.network import ClassifierNetwork, TextLayers, seeded_network
from elmo.config import check, from_json, to_json
from elmo.embed.embedder import Listener as TextListener
from elmo.embed.embedder import Pace
from elmo.errors import UserError
from elmo.files import (
    folder_written_whole,
    remove_leftovers,
    remove_leftovers_of,
    remove_whole,
    sha256,
    write_json_lines,
    write_text,
)
from elmo.language_model import open_model
from elmo.model_folder import CARD, LoadedModel, Precision
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


@dataclass(frozen=True)
class Read:
    """Texts as a phase reads them, and what reading them adds to the loss."""

    layers: TextLayers
    language_loss: Tensor | None = None


class Features(Protocol):
    """Vectors of words that do not change while the network learns."""

    def read(self, rows: Sequence[int]) -> TextLayers:
        """Those of some texts, side by side."""
        ...


@dataclass(frozen=True)
class Part:
    """Modules that learn together."""

    modules: tuple[nn.Module, ...]
    rate_share: float = 1.0
    """The part learns at so many times the rate of the settings."""
    from_epoch: float = 0.0
    """How many epochs of the phase it waits before it starts to learn."""


@dataclass(frozen=True)
class Phase:
    """A stretch of the training, in which some parts learn and texts are read in one way."""

    name: str
    epochs: int
    parts: tuple[Part, ...]
    read: Callable[[Sequence[int], Randomness | None], Read]


def phases(
    network: ClassifierNetwork,
    features: Features | None,
    texts: TokenizedTexts,
    model: BiLM | None,
    config: LearningConfig,
    epochs: int,
) -> Iterator[Phase]:
    """What is gone through: the network alone for some epochs, then, if wanted, with the biLM.

    Without features the network has learned alone before.
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
    return Phase(
        name=NETWORK,
        epochs=epochs,
        parts=_network_parts(network, config),
        read=lambda rows, random: Read(features.read(rows)),
    )


def fine_tuning_phase(
    network: ClassifierNetwork, texts: TokenizedTexts, model: BiLM, config: LearningConfig
) -> Phase:
    """The biLM learns with the network, its top layer first, lower ones later and more slowly."""
    settings = config.fine_tuning
    top_share = settings.fine_tune_rate / config.learning_rate

    def read(rows: Sequence[int], random: Randomness | None) -> Read:
        layers = texts.read(rows, model, random)
        if random is None or not settings.language_weight:
            return Read(layers)
        loss = model.loss(texts.batch(rows, model).to(model.device), random=random)
        return Read(layers, settings.language_weight * loss.mean)

    parts = [
        Part(modules, top_share * settings.rate_decay**depth, depth * settings.unfreeze_epochs)
        for depth, modules in enumerate(_layers_from_the_top(model))
    ]
    return Phase(
        name=FINE_TUNING,
        epochs=settings.fine_tune_epochs,
        parts=(*_network_parts(network, config), *parts),
        read=read,
    )


def build_optimizers(phase: Phase, config: LearningConfig) -> list[Optimizer]:
    """Optimizers over all parts; only matrices decay, vectors of words and biases do not.

    Own word vectors have one of their own that touches only the words of a batch: to go over all
    of them, step by step, would take longer than all else.
    """
    dense: list[dict[str, object]] = []
    sparse: list[dict[str, object]] = []
    for part in phase.parts:
        parameters = [one for module in part.modules for one in _parameters(module)]
        rows = {id(one) for module in part.modules for one in _row_wise(module)}
        for decays in (True, False):
            chosen = [one for one, is_matrix in parameters if is_matrix is decays]
            kept = [one for one in chosen if id(one) not in rows]
            decay = config.weight_decay if decays else 0.0
            dense.append({"params": kept, "weight_decay": decay, "share": part.rate_share})
        chosen = [one for one, _ in parameters if id(one) in rows]
        if chosen:
            sparse.append({"params": chosen, "share": part.rate_share})
    rate = config.learning_rate
    optimizers: list[Optimizer] = [AdamW(dense, lr=rate, betas=(0.9, 0.99), fused=True)]
    if sparse:
        optimizers.append(RowAdam(sparse, lr=rate, decay=0.99))
    return optimizers


def set_rates(
    phase: Phase, optimizers: Sequence[Optimizer], rate: float, epochs_done: float
) -> None:
    """Use this rate, each part its share of it; parts whose time has not come stand still."""
    for part in phase.parts:
        for module in part.modules:
            for parameter, _ in _parameters(module):
                parameter.requires_grad_(part.from_epoch <= epochs_done)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["share"]


def clip_gradients(parameters: Sequence[nn.Parameter], longest: float) -> None:
    """Shorten all gradients together, those of touched rows too, to this length at most."""
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
        scale = min(1.0, longest / (float(squares.sum()) ** 0.5 + 1e-6))
        for one in gradients:
            one.mul_(scale)


def _network_parts(network: ClassifierNetwork, config: LearningConfig) -> tuple[Part, ...]:
    """The network; what reads a text's vector, and a learned function, are parts of their own."""
    reader = network.scores if network.hidden is None else network.hidden
    function = () if network.mix.function is None else network.mixes
    rest = [one for one in network.children() if one not in (reader, *function)]
    parts = (Part(tuple(rest)), Part((reader,), config.text_rate))
    return (*parts, Part(function, config.function_rate)) if function else parts


def _layers_from_the_top(model: BiLM) -> list[tuple[nn.Module, ...]]:
    """The biLM's layers, both directions of each, and last what turns words into vectors."""
    stacks = [list(stack.layers) for stack in model.directions]
    layers = [tuple(pair) for pair in zip(*stacks, strict=True)]
    return [*reversed(layers), (model.token_layer,)]


def _row_wise(module: nn.Module) -> list[Tensor]:
    """Tables whose gradients name only the rows that were read."""
    return [one.weight for one in module.modules() if isinstance(one, nn.Embedding) and one.sparse]


def _parameters(module: nn.Module) -> list[tuple[nn.Parameter, bool]]:
    """The parameters of a module, and whether each is a matrix between layers."""
    vectors = {
        id(one.weight) for one in module.modules() if isinstance(one, nn.Embedding | nn.LayerNorm)
    }
    return [(one, one.dim() > 1 and id(one) not in vectors) for one in module.parameters()]


# What the training of a classifier tells those who watch it.


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """How far a phase is."""

    phase: str
    done: float
    """Share of the phase that lies behind."""
    loss: float
    texts_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """What an epoch brought."""

    phase: str
    epoch: int
    """Counted from 1, over all phases."""
    train_loss: float
    development_loss: float
    development_accuracy: float
    development_rows: int
    mix_weights: tuple[float, ...] | None
    """The share of each layer after the epoch; none where layers are not summed."""
    gamma: float | None
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        """The better of two epochs has the higher one."""
        return self.development_accuracy, -self.development_loss


Listener = Callable[[StepReport | EpochReport], None]


def best_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The most accurate epoch; of equals that of lower loss, then the first."""
    return max(history, key=lambda report: report.rank, default=None)


def kept_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The epoch whose network is kept: the last that is within a standard error of the best.

    Development rows cannot tell such epochs apart, and the later one has learned at a lower rate.
    """
    best = best_epoch(history)
    if best is None:
        return None
    least = best.development_accuracy - standard_error(
        best.development_accuracy, best.development_rows
    )
    return next(report for report in reversed(history) if report.development_accuracy >= least)


# Where a phase of a training stands: all that it takes to go on, as tensors by name and back.


Weights = list[dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class EpochSoFar:
    """How far the epoch under way is."""

    batches: int = 0
    """So many of its batches lie behind."""
    summed: float = 0.0
    """The losses of their texts."""
    seconds: float = 0.0
    """That they have taken, in earlier sessions too."""

    def after_batch(self, summed: float, seconds: float) -> EpochSoFar:
        """A batch more, with so much loss; the epoch has taken so many seconds."""
        return EpochSoFar(batches=self.batches + 1, summed=self.summed + summed, seconds=seconds)


@dataclass
class Standing:
    """A phase under way; it changes with every step."""

    phase: str
    modules: Sequence[nn.Module]
    optimizers: Sequence[Optimizer]
    history: list[EpochReport]
    """What the epochs before brought, those of earlier phases too."""
    kept: Weights = field(init=False)
    """The weights of the modules after the epoch that is the one to keep so far."""
    epoch: EpochSoFar = field(default_factory=EpochSoFar)

    def __post_init__(self) -> None:
        self.keep()

    def keep(self) -> None:
        """Make the weights of now those to keep."""
        self.kept = [
            {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
            for module in self.modules
        ]

    def go_back(self) -> None:
        """Leave the modules as they were when they were kept."""
        for module, tensors in zip(self.modules, self.kept, strict=True):
            module.load_state_dict(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, kept weights and the optimizers' memories, each by a name of its own."""
        now = [module.state_dict() for module in self.modules]
        parts: dict[str, Mapping[str, Tensor]] = {
            **{f"now.{number}": one for number, one in enumerate(now)},
            **{f"kept.{number}": one for number, one in enumerate(self.kept)},
            **{
                f"memory.{number}": optimizer_tensors(one)
                for number, one in enumerate(self.optimizers)
            },
        }
        return {
            f"{part}/{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Bring modules, kept weights and optimizers to where they were when they were saved."""
        parts: dict[str, dict[str, Tensor]] = {}
        for full, tensor in tensors.items():
            part, _, name = full.partition("/")
            parts.setdefault(part, {})[name] = tensor
        for number, module in enumerate(self.modules):
            self.kept[number] = parts.get(f"kept.{number}", {})
            module.load_state_dict(parts.get(f"now.{number}", {}))
        for number, optimizer in enumerate(self.optimizers):
            restore_optimizer(optimizer, parts.get(f"memory.{number}", {}))


# A training that stops goes on: where it stands is kept beside its folder until that is there.


log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a training began with; one that goes on must be given the same."""

    config: ClassifierConfig
    texts: str
    """Checksum of the texts and their labels."""
    bilm: str
    """Of the biLM's weights."""
    word_vectors: str | None
    """Of the file that own word vectors begin with, if there is one."""
    version: str = elmo.__version__
    """Of elmo: another one may compute otherwise."""


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """What progress.json holds."""

    origin: Origin
    phase: str
    history: tuple[EpochReport, ...]
    epoch: EpochSoFar
    seconds: float
    """That the whole training has taken so far."""


class Checkpoints:
    """Keeps where a training stands, every few minutes and when it is asked to stop."""

    def __init__(self, folder: Path, origin: Origin, minutes: float) -> None:
        self._folder, self._origin, self._between = folder, origin, 60 * minutes
        self._began = self._last = time.monotonic()
        self._stop: Callable[[], bool] = lambda: False
        self._saved = newest_checkpoint(
            folder, lambda progress: from_json(_Progress, progress, "progress.json")
        )
        self._seconds_before = 0.0
        self.phase: str | None = None
        """The phase to go on with; none: begin."""
        self.history: list[EpochReport] = []
        """What earlier sessions have brought."""
        if self._saved is not None:
            progress = self._saved[0]
            same_version = replace(progress.origin, version=origin.version)
            check_same_job(folder, to_json(same_version), to_json(origin))
            self._seconds_before = progress.seconds
            self.phase, self.history = progress.phase, list(progress.history)
            log.info("going on in epoch %d (%s)", len(self.history) + 1, self.phase)

    @property
    def seconds(self) -> float:
        """That the training has taken so far, earlier sessions too."""
        return self._seconds_before + time.monotonic() - self._began

    @contextmanager
    def watched(self) -> Generator[None]:
        """In here Ctrl-C and SIGTERM wait for the end of a step, after which it is saved."""
        with stop_requested() as self._stop:
            yield

    def restore(self, standing: Standing) -> None:
        """Bring a phase to where it was, if it is the one that was stopped."""
        if self._saved is None or standing.phase != self._saved[0].phase:
            return
        progress, tensors = self._saved
        standing.restore(tensors["tensors"])
        standing.epoch = progress.epoch
        self._saved = None

    def look_after(self, standing: Standing) -> None:
        """Save where a training stands, if it is time to; if it is to stop, save and stop."""
        stops = self._stop()
        if stops or time.monotonic() - self._last >= self._between:
            self._save(standing)
        if stops:
            raise KeyboardInterrupt(
                f"stopped in epoch {len(standing.history) + 1} ({standing.phase}); the same "
                f"command goes on from there, with what is kept in {self._folder}"
            )

    def _save(self, standing: Standing) -> None:
        progress = _Progress(
            origin=self._origin,
            phase=standing.phase,
            history=tuple(standing.history),
            epoch=standing.epoch,
            seconds=self.seconds,
        )
        names = [path.name.removeprefix("step-") for path in self._folder.glob("step-*")]
        step = 1 + max((int(name) for name in names if name.isdecimal()), default=0)
        tensors = {"tensors": standing.tensors()}
        save_checkpoint(self._folder, step, to_json(progress), tensors, keep=1)
        self._last = time.monotonic()


@contextmanager
def kept_beside(out: Path, origin: Origin, minutes: float) -> Generator[Checkpoints]:
    """Checkpoints of a training that is to become the folder `out`; once it is, they go."""
    folder = unfinished(out)
    origin = replace(origin, config=_decisive(origin.config))
    with locked(folder):
        is_done = False
        try:
            remove_leftovers(folder)
            remove_leftovers_of(out)
            remove_leftovers_of(folder)
            yield Checkpoints(folder, origin, minutes)
            is_done = True
        finally:
            if is_done or not any(folder.glob("step-*")):
                remove_whole(folder)


def unfinished(out: Path) -> Path:
    """Where the checkpoints of a training are."""
    return out.with_name(f"{out.name}.unfinished")


def _decisive(config: ClassifierConfig) -> ClassifierConfig:
    """Where layers are kept changes nothing, so that a smaller machine may go on."""
    return replace(config, learning=replace(config.learning, feature_memory=None))


# How a classifier learns: the training loop, in one function.


Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """Texts to learn from, their classes, and which of them are for choosing."""

    texts: TokenizedTexts
    classes: Rows
    split: Split
    class_weights: Tensor | None = None


class LossIsNoNumberError(UserError):
    """The training went astray; the modules are as they were after the epoch kept before."""


def learn(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    config: LearningConfig,
    listener: Listener,
    history: list[EpochReport],
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train, append a report an epoch to `history`, and leave the modules as they were after the
    epoch that is kept of this phase and those before it.

    With checkpoints, a phase that was stopped goes on exactly as if it had not been.
    """
    modules = [module for part in phase.parts for module in part.modules]
    optimizers = build_optimizers(phase, config)
    standing = Standing(phase.name, modules, optimizers, history)
    if checkpoints is not None:
        checkpoints.restore(standing)
    train, lengths = task.split.train, task.texts.lengths
    total, read, started = phase.epochs * len(train), 0, time.monotonic()
    while not _is_over(phase, history, config.patience):
        epoch, since = len(history), time.monotonic() - standing.epoch.seconds
        batches = shuffled_batches(train, lengths, config.batch_texts, config.seed, epoch)
        behind = standing.epoch.batches
        done = _epochs(phase, history) * len(train) + sum(map(len, batches[:behind]))
        for rows in batches[behind:]:
            set_rates(phase, optimizers, learning_rate(config, done / total), done / len(train))
            random = Randomness.of(
                config.seed, epoch * len(train) + done % len(train), _device(network)
            )
            loss = _loss(network, phase, task, config, rows, random)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            if config.clip:
                clip_gradients(_loop_parameters(modules), config.clip)
            for optimizer in optimizers:
                optimizer.step()
            value = float(loss.detach())
            done, read = done + len(rows), read + len(rows)
            if not math.isfinite(value):
                standing.go_back()
                raise _astray(phase, history, done)
            seconds = time.monotonic() - since
            standing.epoch = standing.epoch.after_batch(value * len(rows), seconds)
            pace = read / (time.monotonic() - started)
            listener(
                StepReport(
                    phase=phase.name,
                    done=done / total,
                    loss=value,
                    texts_per_second=pace,
                    seconds_left=(total - done) / pace,
                )
            )
            if checkpoints is not None:
                checkpoints.look_after(standing)
        mean = standing.epoch.summed / len(train)
        report = _evaluated(network, phase, task, epoch + 1, mean, since)
        history.append(report)
        listener(report)
        standing.epoch = EpochSoFar()
        if kept_epoch(history) is report:
            standing.keep()
        if checkpoints is not None:
            checkpoints.look_after(standing)
    standing.go_back()


def _loss(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    config: LearningConfig,
    rows: Rows,
    random: Randomness,
) -> Tensor:
    read = phase.read(rows.tolist(), random)
    loss = functional.cross_entropy(
        network(read.layers, random.forward),
        torch.from_numpy(task.classes[rows]).to(_device(network)),
        weight=task.class_weights,
        label_smoothing=config.label_smoothing,
    )
    loss = loss + network.penalty()
    return loss if read.language_loss is None else loss + read.language_loss


@torch.no_grad()
def scores_of(network: ClassifierNetwork, phase: Phase, rows: Rows, lengths: Rows) -> Tensor:
    """The scores of some texts, in the order of `rows`, (rows, classes)."""
    places = np.arange(len(rows))
    parts: list[Tensor] = []
    batches = batches_by_length(places, lengths[rows], 128)
    for batch in batches:
        parts.append(network(phase.read(rows[batch].tolist(), None).layers))
    scores = torch.cat(parts)
    return scores[torch.from_numpy(np.argsort(np.concatenate(batches))).to(scores.device)]


def _evaluated(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    epoch: int,
    train_loss: float,
    since: float,
) -> EpochReport:
    rows = task.split.development
    scores = scores_of(network, phase, rows, task.texts.lengths)
    gold = torch.from_numpy(task.classes[rows]).to(scores.device)
    return EpochReport(
        phase=phase.name,
        epoch=epoch,
        train_loss=train_loss,
        development_loss=float(functional.cross_entropy(scores, gold)),
        development_accuracy=float((scores.argmax(1) == gold).double().mean()),
        development_rows=len(rows),
        mix_weights=network.mix.weights,
        gamma=network.mix.gamma,
        seconds=time.monotonic() - since,
    )


def _is_over(phase: Phase, history: Sequence[EpochReport], patience: int | None) -> bool:
    """Whether a phase has had all its epochs, or some without one that is better."""
    epochs, best = _epochs(phase, history), best_epoch(history)
    if not epochs or best is None or patience is None:
        return epochs >= phase.epochs
    return epochs >= phase.epochs or history[-1].epoch - best.epoch >= patience


def _epochs(phase: Phase, history: Sequence[EpochReport]) -> int:
    return sum(report.phase == phase.name for report in history)


def _astray(phase: Phase, history: Sequence[EpochReport], done: int) -> LossIsNoNumberError:
    last = kept_epoch(history)
    kept = "no epoch was finished before" if last is None else f"epoch {last.epoch} is kept"
    return LossIsNoNumberError(
        f"the loss is no longer a number in epoch {len(history) + 1} ({phase.name}), after "
        f"{done:,} texts; {kept}. Use a smaller --learning-rate or --fine-tune-rate, or a smaller "
        "--clip"
    )


def _loop_parameters(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


# From labelled texts and a biLM to a classifier, all in memory.


@dataclass(frozen=True)
class Surroundings:
    """What a training needs of the machine, and who watches it; none of it changes the result."""

    scratch: Path = Path()
    """Folder for layers that do not fit into memory."""
    on_report: Listener = lambda report: None
    on_texts: TextListener = lambda progress: None
    """Told how far the biLM's one reading of all texts is."""
    features: FrozenFeatures | None = None
    """The layers of just these texts by just this biLM, if they were computed before."""
    checkpoints: Checkpoints | None = None
    """Where to go on from, and to keep how far the training is."""


@dataclass(frozen=True)
class Trained:
    """A classifier, and how it came about."""

    classifier: TextClassifier
    history: list[EpochReport]
    split: Split
    probabilities: NDArray[np.float32]
    """Of all texts given, those for development too."""
    classes: NDArray[np.int64]
    """The right class of each text."""
    seconds: float
    trouble: str | None
    """Why the training ended early, if it went astray after a good epoch."""


def train(
    loaded: LoadedModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    surroundings: Surroundings | None = None,
    word_vectors: StaticVectors | None = None,
) -> Trained:
    """Train a classifier on texts and their labels; fine-tuning changes the biLM given.

    Own word vectors begin as the `word_vectors`, if there are any.
    """
    check(config)
    if word_vectors is not None:
        check_vector_size(word_vectors, config.network.own_words)
        config = replace(config, network=replace(config.network, own_lower_case=True))
    started = time.monotonic()
    around = surroundings or Surroundings()
    labels, task = _task(loaded, data, config, word_vectors)
    bilm = loaded.model.config
    network = seeded_network(
        config.network,
        config.learning.seed,
        layers=1 + bilm.layers,
        dim=2 * bilm.width,
        classes=len(labels),
        task_words=len(task.texts.task_vocabulary),
    )
    if word_vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(
            network.task_embedding.weight, task.texts.task_vocabulary, word_vectors
        )
    network = network.to(loaded.model.device)
    checkpoints = around.checkpoints
    history = [] if checkpoints is None else checkpoints.history
    loaded.model.requires_grad_(False)
    phase, trouble = _learn(network, loaded, task, config, around, history)
    loaded.model.requires_grad_(False)
    every = np.arange(len(task.texts))
    scores = scores_of(network, phase, every, task.texts.lengths)
    return Trained(
        classifier=TextClassifier.from_parts(
            loaded, network, task.texts.task_vocabulary, labels, config
        ),
        history=history,
        split=task.split,
        probabilities=scores.softmax(dim=1).cpu().numpy(),
        classes=task.classes,
        seconds=time.monotonic() - started if checkpoints is None else checkpoints.seconds,
        trouble=trouble,
    )


def _task(
    loaded: LoadedModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    word_vectors: StaticVectors | None,
) -> tuple[tuple[str, ...], Task]:
    if data.labels is None:
        raise UserError("expected labelled texts to learn from, but these have no labels")
    labels = label_names(data.labels)
    classes = encode_labels(data.labels, labels, data.locations)
    learning = config.learning
    split = development_split(classes, learning.development_share, learning.seed, labels)
    words = tokenize_texts(loaded, data.texts, config.network.max_words)
    # Texts for development must not say which words are known.
    own = build_task_vocabulary(
        [words[int(row)] for row in split.train], config.network.own_min_count
    )
    if word_vectors is not None:
        own = with_pretrained_words(own, word_vectors)
    weights = _class_weights(classes[split.train], len(labels), config)
    device = loaded.model.device
    weights = None if weights is None else weights.to(device)
    texts = TokenizedTexts(words, own, config.network.own_lower_case)
    return labels, Task(texts, classes, split, weights)


def _learn(
    network: ClassifierNetwork,
    loaded: LoadedModel,
    task: Task,
    config: ClassifierConfig,
    around: Surroundings,
    history: list[EpochReport],
) -> tuple[Phase, str | None]:
    """Go through the phases; gives the last one, and what went wrong in it, if anything did."""
    learning = config.learning
    checkpoints = around.checkpoints
    has_learned_alone = checkpoints is not None and checkpoints.phase == FINE_TUNING
    features = None if has_learned_alone else _features(loaded, task, learning, around)
    phase: Phase | None = None
    trouble: str | None = None
    try:
        epochs = learning.epochs_for(len(task.split.train))
        for phase in phases(network, features, task.texts, loaded.model, learning, epochs):
            with nullcontext() if checkpoints is None else checkpoints.watched():
                learn(network, phase, task, learning, around.on_report, history, checkpoints)
    except LossIsNoNumberError as error:
        if not history:
            raise
        trouble = str(error)
    assert phase is not None
    return phase, trouble


def _features(
    loaded: LoadedModel, task: Task, learning: LearningConfig, around: Surroundings
) -> FrozenFeatures:
    if around.features is not None:
        return around.features.for_texts(task.texts)
    return FrozenFeatures.compute(
        task.texts,
        loaded.model,
        memory=learning.feature_memory,
        folder=around.scratch,
        on_texts=Pace(around.on_texts, len(task.texts)).add,
    )


def _class_weights(
    classes: NDArray[np.int64], number: int, config: ClassifierConfig
) -> Tensor | None:
    """Weights of mean 1 over the texts, so that the loss stays comparable."""
    if config.learning.class_weights == "none":
        return None
    counts = np.bincount(classes, minlength=number)
    return torch.from_numpy(len(classes) / (number * counts)).float()


# The card of a classifier: what it was made from, how good it is, how to make it again.


def classifier_card(
    trained: Trained, evaluations: Mapping[str, Evaluation], texts: str, command: str
) -> str:
    """The card as Markdown."""
    classifier = trained.classifier
    network = classifier.config_.network
    learning = classifier.config_.learning
    tuned = learning.fine_tuning.fine_tune_epochs
    learned, chosen = len(trained.split.train), len(trained.split.development)
    parameters = sum(one.numel() for one in classifier.network.parameters())
    return f"""# A text classifier on top of a bidirectional language model (ELMo)

| | |
|---|---|
| labels | {", ".join(map(printable, classifier.labels))} |
| mix of layers | {network.mix.mix}{_weights(trained)} |
| task embeddings | {network.own_words or "none"} |
| encoder | {network.encoder} |
| pooling | {network.pooling} |
| parameters of the network | {parameters:,} |
| biLM | {f"fine-tuned for {tuned} epochs" if tuned else "frozen"} |
| texts | {texts} |
| rows | {learned:,} to learn from, {chosen:,} to choose the epoch by |
| seed | {learning.seed} |
| trained in | {trained.seconds:,.0f} s |

## Quality

| part | rows | accuracy | 95% interval | precision | recall | F1 | calibration error |
|---|---|---|---|---|---|---|---|
{_rows(evaluations)}

Precision, recall and F1 are means over the classes.

## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""


def _weights(trained: Trained) -> str:
    mix = trained.classifier.network.mix
    if mix.weights is None:
        return ""
    shares = ", ".join(f"{weight:.3f}" for weight in mix.weights)
    return f", layers 0 to {len(mix.weights) - 1} weigh {shares}, gamma {mix.gamma:.3f}"


def _rows(evaluations: Mapping[str, Evaluation]) -> str:
    return "\n".join(_row(name, one.metrics) for name, one in evaluations.items())


def _row(name: str, metrics: Metrics) -> str:
    accuracy, macro = metrics.accuracy, metrics.macro
    return (
        f"| {name} | {metrics.count:,} | {accuracy.value:.4f} | {accuracy.low:.4f} to "
        f"{accuracy.high:.4f} | {macro.precision:.4f} | {macro.recall:.4f} | {macro.f1:.4f} | "
        f"{metrics.calibration_error:.4f} |"
    )


# From files and a biLM's folder to a classifier's folder, measured on train and test.


TRAIN, DEVELOPMENT, TEST = "train", "development", "test"


@dataclass(frozen=True)
class ClassifierRun:
    """A classifier that was written to a folder."""

    folder: Path
    trained: Trained
    evaluations: dict[str, Evaluation]
    """On the rows it learned from, those its epoch was chosen by and, if there are, test rows."""


def train_classifier(
    sources: Sequence[str] | str,
    model: Path | str,
    out: Path | str,
    config: ClassifierConfig | None = None,
    *,
    test: Sequence[str] | str = (),
    read: ReadOptions | None = None,
    label_column: str | None = None,
    reference: bool = False,
    precision: Precision = "fp32",
    device: str = "cpu",
    command: str = "",
    surroundings: Surroundings | None = None,
    word_vectors: Path | str | None = None,
    checkpoint_minutes: float = 5.0,
) -> ClassifierRun:
    """Train on labelled files and write a folder; `reference` names the biLM, not copies it.

    Own word vectors begin as those of the file `word_vectors`, if there is one. A training that
    was stopped goes on from its last checkpoint when the same call is made again.
    """
    config, out = config or ClassifierConfig(), Path(out)
    check(config)
    _check_folder(out, config, reference)
    if checkpoint_minutes < 0:
        raise UserError(f"checkpoint_minutes: cannot be negative, got {checkpoint_minutes}")
    loaded = open_model(model, device)
    data = read_labelled(sources, read, label_column)
    held = read_labelled(test, read, label_column) if test else None
    if held is not None:
        check_test_rows(data, held)
    given = None if word_vectors is None else StaticVectors.load(word_vectors, MAX_WORD_VECTORS)
    origin = Origin(
        config=config,
        texts=data.digest,
        bilm=sha256(weights_file(Path(model))),
        word_vectors=None if word_vectors is None else sha256(Path(word_vectors)),
    )
    with kept_beside(out, origin, checkpoint_minutes) as checkpoints:
        around = replace(surroundings or Surroundings(), checkpoints=checkpoints)
        trained = train(loaded, data, config, around, given)
        evaluations = _evaluations(trained, data, held)
        names = [sources] if isinstance(sources, str) else sources
        with folder_written_whole(out) as beside:
            trained.classifier.save_pretrained(
                beside, bilm=Path(model) if reference else None, precision=precision
            )
            _write_history(trained, beside)
            for part, evaluation in evaluations.items():
                write_evaluation(evaluation, part, beside)
            card = classifier_card(trained, evaluations, ", ".join(names), command)
            write_text(beside / CARD, card)
    return ClassifierRun(out, trained, evaluations)


def _check_folder(out: Path, config: ClassifierConfig, reference: bool) -> None:
    if out.exists():
        raise UserError(f"{out}: already exists; choose another folder or remove it")
    if reference and config.learning.fine_tuning.fine_tune_epochs:
        raise UserError(
            "a fine-tuned biLM is another one than that it came from, so it cannot be named by "
            "reference; leave out --reference"
        )


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

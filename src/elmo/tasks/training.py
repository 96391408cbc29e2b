"""What taggers and pair classifiers share: words, features, training from files to a folder.

The loop, its checkpoints and its schedule are those of `classify.loop`.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import elmo
from elmo.bilm.model import BiLM, Randomness
from elmo.classify.classifier import BiLMReference
from elmo.classify.config import LearningConfig
from elmo.classify.data import Split
from elmo.classify.features import (
    MAX_WORD_VECTORS,
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    check_vector_size,
    init_from_word_vectors,
    with_pretrained_words,
)
from elmo.classify.loop import (
    FINE_TUNING,
    Checkpoints,
    EpochReport,
    Features,
    LayerReader,
    Listener,
    LossIsNaNError,
    Objective,
    Phase,
    Readable,
    learn,
    phases,
    stop_reason,
    unfinished_job,
)
from elmo.classify.network import TextLayers
from elmo.config import Json, check, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Listener as TextListener
from elmo.embed.embedder import Pace
from elmo.embed.mix import LayerMix, dropped
from elmo.errors import UserError
from elmo.files import atomic_folder, read_json, sha256, write_json, write_json_lines, write_text
from elmo.language_model import LanguageModel, open_model, weights_checksum
from elmo.model_folder import CARD, load_tensors, save_tensors
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import WordsConfig
from elmo.text.batching import Batch
from elmo.text.vocabulary import UNKNOWN, Vocabulary

FORMAT = 1
NETWORK, TASK_WORDS, BILM = "network.safetensors", "task_words.txt", "bilm"
Rows = NDArray[np.int64]
T = TypeVar("T")

log = logging.getLogger(__name__)


class WordNetwork(nn.Module):
    """What task networks start with: [x; ELMo], and ELMo once more after the encoder.

    Args:
        layers: How many layers each word has, layer 0 included.
        dim: Size of a layer, both directions together.
        task_words: Rows of the task embedding x.
    """

    def __init__(self, config: WordsConfig, layers: int, dim: int, task_words: int) -> None:
        super().__init__()
        self.words_config, self._shape = config, (layers, dim)
        self.input_mix = LayerMix(config.mix, layers, dim) if config.at_input else None
        self.output_mix = LayerMix(config.mix, layers, dim) if config.at_output else None
        self.task_embedding: nn.Embedding | None = None
        if config.task_dim:
            self.task_embedding = nn.Embedding(task_words, config.task_dim, sparse=True)
            nn.init.normal_(self.task_embedding.weight, std=0.1)
            with torch.no_grad():
                self.task_embedding.weight[UNKNOWN].zero_()
        self.input_dim = config.task_dim
        self.input_dim += 0 if self.input_mix is None else self.input_mix.output_dim
        self.added_dim = 0 if self.output_mix is None else self.output_mix.output_dim

    @property
    def mixes(self) -> tuple[LayerMix, ...]:
        """The mixes at the input and at the output, where there are such."""
        return tuple(mix for mix in (self.input_mix, self.output_mix) if mix is not None)

    @property
    def mix(self) -> LayerMix:
        """The first mix; without ELMo, an average that nobody reads."""
        average = LayerMix(MixConfig(mix="average"), *self._shape)
        return next(iter(self.mixes), average)

    def penalty(self) -> Tensor:
        """What the mixes add to the loss: the paper's λ|w|²."""
        return torch.stack([torch.zeros(()), *(mix.penalty() for mix in self.mixes)]).sum()

    def at_input(self, texts: TextLayers, dropout: float, random: torch.Generator | None) -> Tensor:
        """What the encoder reads, (batch, words, input_dim)."""
        parts: list[Tensor] = []
        if self.task_embedding is not None:
            parts.append(self.task_embedding(texts.task_ids))
        if self.input_mix is not None:
            parts.append(self.input_mix(texts.layers, random))
        return dropped(torch.cat(parts, dim=2), dropout, random)

    def at_output(
        self, encoded: Tensor, texts: TextLayers, random: torch.Generator | None
    ) -> Tensor:
        """The encoder's output, followed by ELMo if it is asked for."""
        if self.output_mix is None:
            return encoded
        return torch.cat([encoded, self.output_mix(texts.layers, random)], dim=2)


class WordsOnly:
    """Features of a baseline without ELMo: the biLM does not read anything."""

    def __init__(self, texts: TokenizedTexts, device: torch.device) -> None:
        self.texts, self._device = texts, device

    def read(self, rows: Sequence[int]) -> TextLayers:
        """Rows of the task embedding, and no layers."""
        lengths = torch.from_numpy(self.texts.lengths[rows]).to(self._device)
        return TextLayers(torch.empty(0), lengths, self.texts.task_ids(rows).to(self._device))


class BothSides:
    """Texts or features of pairs: row r is text 2r and text 2r + 1, one after the other."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def read(
        self, rows: Sequence[int], model: BiLM | None = None, random: Randomness | None = None
    ) -> TextLayers:
        """First sides and second sides in turn, (2 * rows, words)."""
        sides = both_sides(rows)
        if model is None:
            return self._source.read(sides)
        return self._source.read(sides, model, random)

    def batch(self, rows: Sequence[int], model: BiLM) -> Batch:
        """Both sides as one batch of the biLM."""
        return self._source.batch(both_sides(rows), model)


def both_sides(rows: Sequence[int]) -> list[int]:
    """The texts of pairs."""
    return [text for row in rows for text in (2 * row, 2 * row + 1)]


def read_features(
    texts: TokenizedTexts,
    model: BiLM,
    words: WordsConfig,
    *,
    memory: float | None = None,
    scratch: Path = Path(),
    on_texts: TextListener = lambda progress: None,
) -> FrozenFeatures | WordsOnly:
    """The layers of all texts, read once; none for a baseline without ELMo."""
    if words.elmo == "none":
        return WordsOnly(texts, model.device)
    pace = Pace(on_texts, len(texts)).add
    return FrozenFeatures.compute(texts, model, memory=memory, folder=scratch, on_texts=pace)


def task_words(
    words: Sequence[list[str]], train: Rows, config: WordsConfig, vectors: StaticVectors | None
) -> Vocabulary:
    """The words that get a task embedding: those of training texts, and all that have a vector."""
    if vectors is not None:
        check_vector_size(vectors, config.task_dim)
    vocabulary = build_task_vocabulary([words[int(row)] for row in train], config.task_min_count)
    return vocabulary if vectors is None else with_pretrained_words(vocabulary, vectors)


def seeded(build: Callable[[], T], seed: int) -> T:
    """What `build` returns, with initial weights that the seed alone determines."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def start_from_vectors(
    network: WordNetwork, vocabulary: Vocabulary, vectors: StaticVectors | None
) -> None:
    """Initialise task embeddings from a file of word vectors."""
    if vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(network.task_embedding.weight, vocabulary, vectors)


class Fitted(NamedTuple):
    """How a training went."""

    history: list[EpochReport]
    stopped: str
    trouble: str | None
    """Why it ended early, if the loss became NaN after a good epoch."""
    phase: Phase
    """The last one, whose `read` gives the features as they are now."""


def fit(
    network: LayerReader,
    objective: Objective,
    texts: Readable,
    features: Features | None,
    model: BiLM,
    config: LearningConfig,
    *,
    on_report: Listener = lambda report: None,
    checkpoints: Checkpoints | None = None,
) -> Fitted:
    """Train a network on frozen features and, if the settings say so, with the biLM."""
    history = [] if checkpoints is None else checkpoints.history
    phase: Phase | None = None
    reasons: list[str] = []
    trouble: str | None = None
    rows = len(objective.split.train)
    try:
        for phase in phases(network, features, texts, model, config):
            with nullcontext() if checkpoints is None else checkpoints.watched():
                learn(network, phase, objective, config, on_report, history, checkpoints)
            reason = stop_reason(phase, history, rows, config)
            reasons.append(f"{phase.name} stopped after epoch {len(history)}: {reason}")
    except LossIsNaNError as error:
        if not history:
            raise
        trouble = str(error)
    assert phase is not None
    model.requires_grad_(False)
    return Fitted(history, "; ".join(reasons), trouble, phase)


def needs_features(checkpoints: Checkpoints | None) -> bool:
    """Whether the first phase is still to be done, which reads frozen features."""
    return checkpoints is None or checkpoints.phase != FINE_TUNING


def split_rows(count: int, development: int, config: LearningConfig) -> Split:
    """Rows to learn from, and rows to choose the epoch by.

    Args:
        count: All rows; the last `development` of them were given to choose the epoch by.
        development: 0: a fraction of the rows is drawn.
    """
    rows = np.arange(count)
    if development:
        return Split(rows[: count - development], rows[count - development :])
    order = np.random.default_rng(config.seed).permutation(rows)
    size = max(1, round(config.development_share * count))
    if count < 2:
        raise UserError(f"expected two or more rows, to hold one out, got {count}")
    return Split(np.sort(order[size:]), np.sort(order[:size]))


# Folders.


def load_vectors(path: Path | str | None) -> StaticVectors | None:
    """Pretrained word vectors from a file."""
    return None if path is None else StaticVectors.load(path, MAX_WORD_VECTORS)


@contextmanager
def training_job(
    out: Path,
    config: object,
    digests: Mapping[str, str],
    model: Path,
    word_vectors: Path | str | None,
    *,
    mark: str,
    fresh: bool,
    minutes: float,
) -> Generator[Checkpoints]:
    """Checkpoints of a training that becomes the folder `out`, which may not exist yet.

    `mark` is the file by which a folder of this kind is known, so that --fresh deletes no other.
    """
    check(config)
    if out.exists() and not (fresh and (out / mark).is_file()):
        raise UserError(f"{out}: already exists; choose another --out, or replace it with --fresh")
    if minutes < 0:
        raise UserError(f"checkpoint_minutes: cannot be negative, got {minutes}")
    content = to_json(config)
    content["learning"]["feature_memory"] = None  # where layers are kept changes nothing
    job: Json = {
        "config": content,
        **digests,
        "bilm": weights_checksum(model),
        "word_vectors": None if word_vectors is None else sha256(Path(word_vectors)),
        "version": elmo.__version__,
    }
    with unfinished_job(out, job, minutes, fresh, type(config)) as checkpoints:
        yield checkpoints


def save_task(
    folder: Path,
    name: str,
    description: Json,
    network: nn.Module,
    vocabulary: Vocabulary,
    loaded: LanguageModel,
    bilm: Path | None,
) -> None:
    """Write a new or empty folder: description, weights, task words, and the biLM unless referred.

    Args:
        name: File of the description, such as tagger.json.
        bilm: Refer to the biLM in this folder, by path and checksum, instead of copying it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: expected a new or an empty folder, but it holds files")
    save_tensors(folder / NETWORK, {key: one.detach() for key, one in network.state_dict().items()})
    vocabulary.save(folder / TASK_WORDS)
    if bilm is None:
        loaded.save_pretrained(folder / BILM)
    reference = BiLMReference(
        path=BILM if bilm is None else str(bilm.resolve()),
        sha256=weights_checksum(bilm or folder / BILM),
    )
    write_json(folder / name, {"format": FORMAT, **description, "bilm": to_json(reference)})


def read_description(folder: Path, name: str, command: str) -> Json:
    """The description in a task's folder; says what to do if it is another folder."""
    if not (folder / name).is_file():
        raise UserError(f"{folder}: expected a folder with {name}; make one with {command}")
    content: object = read_json(folder / name)
    if not isinstance(content, dict) or cast("Json", content).get("format") != FORMAT:
        raise UserError(f"{folder / name}: expected format {FORMAT}, which this version reads")
    return {key: value for key, value in cast("Json", content).items() if key != "format"}


def load_bilm(folder: Path, reference: BiLMReference, device: str) -> LanguageModel:
    """The biLM that a task's folder holds or refers to, if its weights are still the same."""
    path = Path(reference.path)
    path = path if path.is_absolute() else folder / BILM
    loaded = open_model(path, device)
    if weights_checksum(path) != reference.sha256:
        raise UserError(
            f"{path}: not the biLM that {folder} was trained on (its weights have another "
            "checksum); put the right one there, or train again"
        )
    loaded.model.requires_grad_(False)
    return loaded


def load_network(network: nn.Module, folder: Path) -> None:
    """Set a network's weights from its folder; sizes are checked before memory is allocated."""
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    tensors = load_tensors(folder / NETWORK, shapes)
    network.load_state_dict({name: one.float() for name, one in tensors.items()}, assign=True)


def write_run(
    out: Path,
    save: Callable[[Path], None],
    fitted: Fitted,
    metrics: Mapping[str, object],
    title: str,
    facts: Mapping[str, object],
    command: str,
) -> None:
    """Write a trained model's folder at once: weights, history, metrics and card."""
    with atomic_folder(out) as temporary:
        save(temporary)
        write_json_lines(temporary / "log.jsonl", [to_json(one) for one in fitted.history])
        for part, one in metrics.items():
            write_json(temporary / f"metrics_{part}.json", to_json(one))
        table = "\n".join(f"| {name} | {fact} |" for name, fact in facts.items())
        card = f"""# {title}

| | |
|---|---|
{table}

## Made with

```
{command}
```

elmo {elmo.__version__}, torch {torch.__version__}, Python {platform.python_version()},
{platform.machine()}, {torch.get_num_threads()} threads.
"""
        write_text(temporary / CARD, card)

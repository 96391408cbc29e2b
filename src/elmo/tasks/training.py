"""What taggers and pair classifiers share: [x; ELMo], training from files to a folder, loading it.

The loop, its checkpoints and its schedule are those of `classify.loop`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo.bilm.model import BiLM, Randomness, seeded
from elmo.classify.classifier import (
    BILM,
    BiLMReference,
    ConfigT,
    Estimator,
    check_run,
    empty_folder,
    load_bilm,
    save_bilm,
    unfinished_job,
)
from elmo.classify.config import LearningConfig
from elmo.classify.data import Split
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    check_vector_size,
    init_from_word_vectors,
    load_word_vectors,
    with_pretrained_words,
)
from elmo.classify.loop import (
    Checkpoints,
    Fitted,
    LayerReader,
    Listener,
    Objective,
    fit,
    input_digests,
    job_of,
    needs_features,
)
from elmo.classify.network import TextLayers, build_task_embedding
from elmo.config import Json, check, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Listener as TextListener
from elmo.embed.embedder import Pace
from elmo.embed.mix import LayerMix, dropped
from elmo.errors import UserError
from elmo.files import atomic_folder, read_json, write_json, write_json_lines, write_text
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import CARD, load_tensors, model_card, save_tensors, without_weights
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import PairConfig, TaggerConfig, WordsConfig
from elmo.tasks.data import Table
from elmo.text.batching import Batch
from elmo.text.config import ReadOptions
from elmo.text.vocabulary import Vocabulary

FORMAT = 1
NETWORK, TASK_WORDS = "network.safetensors", "task_words.txt"
Rows = NDArray[np.int64]


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
        self.task_embedding = build_task_embedding(task_words, config.task_dim)
        self.input_dim = config.task_dim
        self.input_dim += 0 if self.input_mix is None else self.input_mix.output_dim
        self.added_dim = 0 if self.output_mix is None else self.output_mix.output_dim

    @property
    def mixes(self) -> tuple[LayerMix, ...]:
        """The mixes at the input and at the output, where there are such."""
        return tuple(mix for mix in (self.input_mix, self.output_mix) if mix is not None)

    @property
    def mix(self) -> LayerMix:
        """The first mix; without ELMo, an average that is never read."""
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


class TrainOptions(TypedDict, total=False):
    """What a training in memory may be given besides its rows."""

    vectors: StaticVectors | None
    """Task embeddings are initialised from these."""
    features: FrozenFeatures | None
    """Layers of all texts, training rows first, if they were computed before."""
    scratch: Path
    """Folder for layers that do not fit into memory."""
    on_report: Listener
    """Called after each step and each epoch."""
    on_texts: TextListener
    """Called while the biLM reads all texts once."""
    checkpoints: Checkpoints | None
    """Where to resume from and to save to."""


class TaskRun(NamedTuple):
    """A model that was trained and written to a folder."""

    folder: Path
    model: TaskModel[Any, Any, Any]
    fitted: Fitted
    metrics: dict[str, Any]
    """Metrics on development rows and, if there are any, on test rows."""
    seconds: float


NetworkT = TypeVar("NetworkT", bound=WordNetwork)
TableT = TypeVar("TableT", bound=Table)


class TaskModel(Estimator[ConfigT], Generic[ConfigT, NetworkT, TableT]):
    """What `TokenTagger` and `PairClassifier` share: the path from rows, or files, to a folder."""

    file: ClassVar[str]
    """Holds settings and labels in the folder; by it a folder of this kind is known."""
    command: ClassVar[str]
    """Makes such a folder, for messages."""
    title: ClassVar[str]
    """Title of the model card."""
    hub_task: ClassVar[str]
    """What a model hub calls the task."""
    network: NetworkT
    task_vocabulary: Vocabulary
    fitted_: Fitted | None
    """How the training went; None after loading."""

    @abstractmethod
    def train(
        self,
        loaded: LanguageModel,
        data: TableT,
        development: TableT | None = None,
        **options: Unpack[TrainOptions],
    ) -> Fitted:
        """As `fit`, with a biLM in memory; fine-tuning changes it in place."""

    @abstractmethod
    def _read(self, sources: Sequence[str] | str, columns: Any, read: ReadOptions | None) -> TableT:
        """Rows from files."""

    @abstractmethod
    def _measure(self, data: TableT) -> Any:
        """Metrics on some rows, a dataclass."""

    @abstractmethod
    def _facts(self, metrics: Mapping[str, Any]) -> dict[str, object]:
        """What the card says of this kind of model."""

    @abstractmethod
    def _describe(self) -> Json:
        """What the description holds besides settings and biLM."""

    @classmethod
    @abstractmethod
    def _restored(cls, content: Json, where: str) -> tuple[Self, BiLMReference]:
        """Labels and settings from a description, which is checked; and which biLM it needs."""

    @abstractmethod
    def _build(self, layers: int, dim: int, task_words: int) -> NetworkT:
        """The network, with random weights, for `config_` and the labels."""

    def _build_for(self, loaded: LanguageModel, task_words: int) -> NetworkT:
        sizes = loaded.model.config
        return self._build(1 + sizes.layers, 2 * sizes.width, task_words)

    def _learn(
        self,
        loaded: LanguageModel,
        words: list[list[str]],
        train_texts: Rows,
        objective: Callable[[TokenizedTexts, NetworkT], Objective],
        wrap: Callable[[Any], Any] = lambda texts: texts,
        **options: Unpack[TrainOptions],
    ) -> Fitted:
        """Build the network for `config_` and train it.

        Args:
            words: Of all texts.
            train_texts: Texts whose words may get a task embedding.
            objective: What to learn, once the texts have ids.
            wrap: Makes rows of texts, or of their features: pairs have two texts per row.
        """
        config: TaggerConfig | PairConfig = cast("Any", self.config_)
        vectors, checkpoints = options.get("vectors"), options.get("checkpoints")
        if vectors is not None:
            check_vector_size(vectors, config.words.task_dim)
        vocabulary = build_task_vocabulary(
            [words[int(text)] for text in train_texts], config.words.task_min_count
        )
        if vectors is not None:
            vocabulary = with_pretrained_words(vocabulary, vectors)
        texts = TokenizedTexts(words, vocabulary, config.words.task_lower_case)
        model = loaded.model.requires_grad_(False)
        with seeded(config.learning.seed):
            network = self._build_for(loaded, len(vocabulary))
        if vectors is not None and network.task_embedding is not None:
            init_from_word_vectors(network.task_embedding.weight, vocabulary, vectors)
        network = network.to(model.device)
        features: FrozenFeatures | WordsOnly | None = None
        if config.words.elmo == "none":
            features = WordsOnly(texts, model.device)
        elif (computed := options.get("features")) is not None:
            features = computed.for_texts(texts)
        elif needs_features(checkpoints):
            pace = Pace(options.get("on_texts", lambda progress: None), len(texts)).add
            features = FrozenFeatures.compute(
                texts, model, memory=config.learning.feature_memory,
                folder=options.get("scratch", Path()), on_texts=pace,
            )  # fmt: skip
        fitted = fit(
            cast("LayerReader", network), objective(texts, network), wrap(texts),
            None if features is None else wrap(features), model, config.learning,
            on_report=options.get("on_report", lambda report: None), checkpoints=checkpoints,
        )  # fmt: skip
        self.language_model, self.network, self.task_vocabulary = loaded, network, vocabulary
        self.fitted_ = fitted
        return fitted

    def train_files(
        self,
        sources: Sequence[str] | str,
        out: Path | str,
        *,
        development: Sequence[str] | str = (),
        test: Sequence[str] | str = (),
        columns: Any = None,
        read: ReadOptions | None = None,
        reference: bool = False,
        fresh: bool = False,
        checkpoint_minutes: float = 1.0,
        on_report: Listener = lambda report: None,
        on_texts: TextListener = lambda progress: None,
        command: str = "",
    ) -> TaskRun:
        """Train on files and write a folder; the same call resumes an interrupted training exactly.

        Args:
            sources: Files with labels.
            out: The folder, which must not exist.
            development: Files to choose the epoch by; default: a fraction of the others.
            test: Files to measure on at the end.
            columns: Which columns hold what, `ReadTags` or `ReadPairs`.
            reference: Name the biLM's folder instead of copying the biLM.
            fresh: Start over: delete a folder of this kind and checkpoints that are there.
            command: For the card.
        """
        config: Any = self.config or self.config_class()
        out = Path(out)
        check_run(out, config, self.file, fresh, reference, checkpoint_minutes)
        data = self._read(sources, columns, read)
        held_out = self._read(development, columns, read) if development else None
        test_data = self._read(test, columns, read) if test else None
        loaded = open_model(self.model, self.device)
        bilm = loaded.path or Path(self.model)
        digests = {"texts": data.digest, "development": held_out.digest if held_out else ""}
        job = job_of(config, {**digests, **input_digests(bilm, self.word_vectors)})
        with unfinished_job(out, fresh) as folder:
            checkpoints = Checkpoints(folder, job, checkpoint_minutes, self.config_class)
            fitted = self.train(
                loaded, data, held_out, vectors=load_word_vectors(self.word_vectors),
                scratch=out.parent, on_report=on_report, on_texts=on_texts,
                checkpoints=checkpoints,
            )  # fmt: skip
            if held_out is None:
                rows = split_rows(len(data), 0, config.learning).development
                held_out = data.select(rows.tolist())
            metrics = {"development": self._measure(held_out)}
            if test_data is not None:
                metrics["test"] = self._measure(test_data)
            weights = ", ".join(f"{weight:.3f}" for weight in self.network.mix.weights or ())
            facts = {
                "rows": f"{len(data):,} to learn from",
                "ELMo": f"{config.words.elmo}, layers weigh {weights}",
                **self._facts(metrics),
                "stopped": fitted.stopped,
                "seed": config.learning.seed,
                "trained in": f"{checkpoints.seconds:,.0f} s",
            }
            with atomic_folder(out) as temporary:
                self.save_pretrained(temporary, bilm=bilm if reference else None)
                history = [to_json(report) for report in fitted.history]
                write_json_lines(temporary / "log.jsonl", history)
                for part, some in metrics.items():
                    write_json(temporary / f"metrics_{part}.json", to_json(some))
                card = model_card(self.hub_task, self.title, facts, command=command)
                write_text(temporary / CARD, card, "backslashreplace")
            seconds = checkpoints.seconds
        return TaskRun(out, self, fitted, metrics, seconds)

    def save_pretrained(self, folder: Path | str, *, bilm: Path | None = None) -> None:
        """Write a new or empty folder that `from_pretrained` loads.

        Args:
            bilm: Refer to the biLM in this folder, by path and checksum, instead of copying it.
        """
        folder = empty_folder(folder)
        tensors = self.network.state_dict()
        save_tensors(folder / NETWORK, {key: tensor.detach() for key, tensor in tensors.items()})
        self.task_vocabulary.save(folder / TASK_WORDS)
        reference = save_bilm(folder, self.language_model, bilm)
        write_json(
            folder / self.file,
            {
                "format": FORMAT,
                **self._describe(),
                "config": to_json(self.config_),
                "bilm": to_json(reference),
            },
        )

    @classmethod
    def from_pretrained(cls, folder: Path | str, *, device: str = "cpu") -> Self:
        """Load a folder; a damaged one is a `UserError`."""
        folder = Path(folder)
        path = folder / cls.file
        if not path.is_file():
            raise UserError(
                f"{folder}: expected a folder with {cls.file}; make one with {cls.command}"
            )
        content: object = read_json(path)
        if not isinstance(content, dict) or cast("Json", content).pop("format", None) != FORMAT:
            raise UserError(f"{path}: expected format {FORMAT}, which this version reads")
        estimator, reference = cls._restored(cast("Json", content), str(path))
        check(estimator.config_)
        loaded = load_bilm(folder, reference, device)
        vocabulary = Vocabulary.load(folder / TASK_WORDS)
        with without_weights():
            network = estimator._build_for(loaded, len(vocabulary))
        shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        tensors = load_tensors(folder / NETWORK, shapes)
        network.load_state_dict({key: t.float() for key, t in tensors.items()}, assign=True)
        estimator.model, estimator.device = str(loaded.path or folder / BILM), device
        estimator.language_model, estimator.task_vocabulary = loaded, vocabulary
        estimator.network, estimator.fitted_ = network.eval().to(device), None
        return estimator

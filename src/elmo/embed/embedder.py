"""Texts as vectors: the same text always gives the same ones, whatever stands beside it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState, LayerActivations, StackState, read_layers
from elmo.config import BILM, check
from elmo.embed.config import EncodeConfig, Layer, MixConfig, Output, Start
from elmo.embed.mix import LayerMix
from elmo.errors import UserError
from elmo.files import sha256
from elmo.language_model import open_model
from elmo.model_folder import WEIGHTS, LoadedModel, Text, load_tensors, save_tensors
from elmo.official.format import load_official
from elmo.text.batching import (
    Batch,
    Group,
    WordTable,
    lay_end_to_end,
    make_batch,
    plan_shard,
    read_group,
    text_numbers,
    whole_batch,
)
from elmo.text.config import Batching
from elmo.text.corpus import Shard
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS
from elmo.training.optim import compute_precision

# Any number of texts, only some of them in memory at a time.


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenisedText:
    """A text, its number among all, and its words."""

    number: int
    text: Text
    words: list[str]


def tokenised(
    loaded: LoadedModel, texts: Iterable[Text], first: int = 0
) -> Iterator[TokenisedText]:
    """Cut texts into words; what is wrong with one is told with its number, counted from 0."""
    for number, text in enumerate(texts, start=first):
        try:
            yield TokenisedText(number, text, _words(loaded, text))
        except UserError as error:
            raise UserError(f"text {number}: {error}") from None


def _words(loaded: LoadedModel, text: Any) -> list[str]:
    if isinstance(text, str):
        return loaded.words(text)
    if not isinstance(text, Iterable):
        raise UserError(f"expected a string or a list of words, got {type(text).__name__}")
    words = list(cast("Iterable[Any]", text))
    for word in words:
        if not isinstance(word, str):
            raise UserError(f"expected words, got {type(word).__name__}: {word!r:.60}")
    return loaded.words(words)


def portions(
    texts: Iterable[TokenisedText], tokens: int, multiple: int = 1
) -> Iterator[list[TokenisedText]]:
    """Texts of about so many words at a time; how many, but for the last ones, is a multiple."""
    portion: list[TokenisedText] = []
    held = 0
    for text in texts:
        portion.append(text)
        held += 1 + len(text.words)
        if held >= tokens and len(portion) % multiple == 0:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


def tell_empty(texts: Iterable[TokenisedText]) -> None:
    """Log which texts have no words, and so no vectors but zeros."""
    numbers = [str(text.number) for text in texts if not text.words]
    if numbers:
        shown = ", ".join(numbers[:10]) + (", …" if len(numbers) > 10 else "")
        log.warning("without words, so without vectors but zeros: text %s", shown)


# The state texts are read from, if not zeros: computed once, stored with the model if wished.


FILE = "start_state.safetensors"
CONTEXT_WORDS = 32
"""So many of the most frequent words are read to warm up; they say nothing in particular."""
CHECKSUM = "model_sha256"


@torch.no_grad()
def warm_state(model: BiLM, context: Sequence[str] | None = None) -> BiLMState:
    """The state, of one row, after reading a neutral context and the boundary behind it.

    The context is given, or else the model's most frequent words in their order.
    """
    first = len(SPECIAL_WORDS)
    words = model.vocabulary.words[first : first + CONTEXT_WORDS] if context is None else context
    batch = whole_batch([list(words)], model.vocabulary, spelled=model.config.spelled)
    return BiLMState(*(read.states for read in model.read(batch.to(model.device))))


def repeated(state: BiLMState, rows: int) -> BiLMState:
    """A state of one row, for so many texts."""
    return _changed(state, lambda one: one.expand(rows, -1))


def first_rows(state: BiLMState, rows: int) -> BiLMState:
    """The state of the first so many texts."""
    return _changed(state, lambda one: one[:rows])


def save_start_state(folder: Path, state: BiLMState) -> None:
    """Store a state in a model folder, with the checksum of the weights it belongs to."""
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder}: expected a model folder with {WEIGHTS}, but it has none")
    checksum = torch.frombuffer(bytearray.fromhex(sha256(folder / WEIGHTS)), dtype=torch.uint8)
    save_tensors(folder / FILE, {**state_tensors(state), CHECKSUM: checksum})


def load_start_state(folder: Path, model: BiLM) -> BiLMState | None:
    """The state stored in a model folder, if there is one and it belongs to these weights."""
    path = folder / FILE
    if not path.exists():
        return None
    tensors = load_tensors(path)
    checksum = tensors.pop(CHECKSUM, torch.zeros(0, dtype=torch.uint8))
    if checksum.numpy().tobytes().hex() != sha256(folder / WEIGHTS):
        raise UserError(
            f"{path} belongs to other weights than {folder / WEIGHTS}; delete it, or store it anew"
        )
    return state_of_tensors(tensors, model, path)


def state_tensors(state: BiLMState) -> dict[str, Tensor]:
    """A state as named tensors."""
    return {
        f"{direction}.{number}.{part}": tensor
        for direction, layers in zip(BiLMState._fields, state, strict=True)
        for number, layer in enumerate(layers)
        for part, tensor in (("output", layer.output), ("cell", layer.cell))
    }


def state_of_tensors(tensors: dict[str, Tensor], model: BiLM, path: Path) -> BiLMState:
    """What `state_tensors` wrote, on the model's device."""

    def of(direction: str) -> StackState:
        return tuple(
            LSTMState(
                tensors[f"{direction}.{number}.output"].to(model.device),
                tensors[f"{direction}.{number}.cell"].to(model.device),
            )
            for number in range(model.config.layers)
        )

    found = {name: tensor.shape[1:] for name, tensor in tensors.items()}
    sizes = {"output": (model.config.width,), "cell": (model.config.hidden,)}
    expected = {
        f"{direction}.{number}.{part}": size
        for direction in BiLMState._fields
        for number in range(model.config.layers)
        for part, size in sizes.items()
    }
    if found != expected:
        raise UserError(f"{path} is not a state of this model; delete it, or store it anew")
    return BiLMState(of("forward"), of("backward"))


def _changed(state: BiLMState, change: Callable[[Tensor], Tensor]) -> BiLMState:
    def of(layers: StackState) -> StackState:
        return tuple(LSTMState(change(one.output), change(one.cell)) for one in layers)

    return BiLMState(of(state.forward), of(state.backward))


# Which texts are read side by side: those of like length, or each slot's next one.


Words = Sequence[str]
CELLS_A_BATCH = 1 << 22
"""What a layer may hold of a batch; many words at a time take less time, each, than few."""
FEWEST_TOKENS, MOST_TOKENS = 8192, 32768


@dataclass(frozen=True)
class GroupLayers:
    """The layers of some of the texts."""

    texts: list[int]
    """The numbers of the texts, in the order of the rows."""
    activations: LayerActivations


@dataclass(frozen=True)
class _Numbered:
    """Texts as numbers of their words, end to end, ready to be read in windows."""

    shard: Shard
    table: WordTable

    @classmethod
    def of(cls, texts: Sequence[Words], model: BiLM) -> _Numbered:
        return cls(*lay_end_to_end(texts, model.vocabulary, spelled=model.config.spelled))

    def numbers(self, group: Group) -> list[int]:
        return text_numbers(self.shard, group).tolist()

    def windows(self, group: Group, window: int) -> Iterator[Batch]:
        return read_group(self.shard, group, self.table, window)


def usual_batch_tokens(model: BiLM) -> int:
    """How many words are read at a time where nobody says: the more, the smaller the model."""
    return min(max(CELLS_A_BATCH // model.config.hidden, FEWEST_TOKENS), MOST_TOKENS)


def read_alike(
    model: BiLM,
    texts: Sequence[Words],
    batch_tokens: int,
    start: BiLMState | None = None,
    wanted: Sequence[int] | None = None,
) -> Iterator[GroupLayers]:
    """Read texts of like length together, each from the same state (of one row; none: zeros).

    A text longer than a batch is read alone, in windows. Only the `wanted` layers are computed, by
    default all.
    """
    numbered = _Numbered.of(texts, model)
    for group in plan_shard(
        numbered.shard, Batching(window=batch_tokens, batch_tokens=batch_tokens)
    ):
        numbers = numbered.numbers(group)
        lengths = [len(texts[number]) for number in numbers]
        state = None if start is None else repeated(start, len(numbers))
        windows = numbered.windows(group, batch_tokens)
        read = read_layers(model, windows, lengths, batch_tokens, state, wanted=wanted)
        yield GroupLayers(numbers, read)


def read_in_order(
    model: BiLM,
    texts: Sequence[Words],
    batch_tokens: int,
    slots: int,
    state: BiLMState | None = None,
    wanted: Sequence[int] | None = None,
) -> Iterator[GroupLayers]:
    """Read texts in the order given, so many side by side, each slot's state carried on.

    Each direction reads through its last boundary: the states given are those behind it. All
    layers read on, and the `wanted` ones are given, by default all.
    """
    numbered = _Numbered.of(texts, model)
    window = max(2, batch_tokens // slots)
    for first in range(0, len(texts), slots):
        numbers = list(range(first, min(first + slots, len(texts))))
        if state is not None:
            state = first_rows(state, len(numbers))
        windows = numbered.windows(_group(numbered.shard, numbers), window)
        lengths = [len(texts[number]) for number in numbers]
        read = read_layers(model, windows, lengths, window, state)
        state = _behind_boundary(model, read.state, numbered.table, len(numbers))
        layers = read.layers if wanted is None else read.layers[list(wanted)]
        yield GroupLayers(numbers, LayerActivations(layers, read.lengths, state))


def _group(shard: Shard, numbers: Sequence[int]) -> Group:
    places: NDArray[np.int64] = np.array(numbers)
    return Group(0, shard.starts[places], shard.ends[places])


@torch.no_grad()
def _behind_boundary(model: BiLM, state: BiLMState, table: WordTable, rows: int) -> BiLMState:
    """Let each direction read the boundary that it has come to."""
    forward, backward = (np.array([end, end]) for end in (END, BEGIN))
    batch = make_batch([forward] * rows, [backward] * rows, table, starts=False)
    return BiLMState(*(read.states for read in model.read(batch.to(model.device), state)))


# Words become a text; padding never counts, and a text without words gives zeros.


def pool(vectors: Tensor, lengths: Tensor, poolings: Sequence[str]) -> Tensor:
    """Pool (batch, ..., words, dim), each text's words first, into (batch, ..., dim).

    Several poolings, of mean, max, first and last, are put side by side.
    """
    parts = [_pool_one(vectors, lengths, pooling) for pooling in poolings]
    return torch.cat(parts, dim=-1)


def _pool_one(vectors: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    if not vectors.shape[-2]:
        return vectors.sum(dim=-2)
    own = lengths.view(-1, *[1] * (vectors.dim() - 1))  # (batch, 1, ..., 1)
    inside = torch.arange(vectors.shape[-2], device=vectors.device)[:, None] < own
    if pooling == "mean":
        return vectors.where(inside, 0).sum(dim=-2) / own.squeeze(-1).clamp(min=1)
    if pooling == "max":
        highest = vectors.masked_fill(~inside, -torch.inf).amax(dim=-2)
        return highest.where(own.squeeze(-1) > 0, 0)
    place = own.sub(1).clamp(min=0) if pooling == "last" else torch.zeros_like(own)
    picked = vectors.gather(-2, place.expand(*vectors.shape[:-2], 1, vectors.shape[-1]))
    return picked.squeeze(-2).where(own.squeeze(-1) > 0, 0)


# One run over texts: words in, vectors out, the carried state kept in between.


Vectors = NDArray[np.float32]
OnTexts = Callable[[int, int], None]
"""Told how many more texts, and words of them, are done."""


class Encoder:
    """Turns tokenised texts into vectors; with start=carry, each call goes on from the last."""

    def __init__(
        self, model: BiLM, config: EncodeConfig, mix: LayerMix, start: BiLMState | None = None
    ) -> None:
        check(config)
        self.model = model
        self.config = config
        self.state = start
        self.batch_tokens = config.batch_tokens or usual_batch_tokens(model)
        self._wanted = _wanted(config, model)
        self._mix = _mix_for(config, model, mix)

    @property
    def dim(self) -> int:
        """The size of a vector."""
        size = 2 * self.model.config.width if self._mix is None else self._mix.output_dim
        return size * (len(self.config.poolings) if self.config.output == "pooled" else 1)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of what belongs to one text (pooled) or one word (tokens)."""
        return (self.dim,) if self._mix is not None else (1 + self.model.config.layers, self.dim)

    @torch.no_grad()
    def encode(
        self, texts: Sequence[Sequence[str]], on_texts: OnTexts | None = None
    ) -> list[Vectors]:
        """The vectors of each text, in order: (dim,), (words, dim) or, of all layers, one more."""
        found: dict[int, Vectors] = {}
        for group in self._groups(texts):
            found.update(zip(group.texts, self._vectors(group.activations), strict=True))
            if on_texts is not None:
                on_texts(len(group.texts), int(group.activations.lengths.sum()))
        return [found[number] for number in range(len(texts))]

    def _groups(self, texts: Sequence[Sequence[str]]) -> Iterator[GroupLayers]:
        if not texts:
            return
        size = self.batch_tokens
        if self.config.start != "carry":
            yield from read_alike(self.model, texts, size, self.state, self._wanted)
            return
        for group in read_in_order(
            self.model, texts, size, self.config.slots, self.state, self._wanted
        ):
            self.state = group.activations.state
            yield group

    def _vectors(self, read: LayerActivations) -> Iterator[Vectors]:
        """Of each text for itself, so that none keeps the memory of all."""
        mixed = read.layers.transpose(0, 1) if self._mix is None else self._mix(read.layers)
        if self.config.output == "pooled":
            yield from _arrays(pool(mixed, read.lengths, self.config.poolings))
            return
        lengths: list[int] = read.lengths.cpu().numpy().tolist()
        for row, length in zip(_arrays(mixed), lengths, strict=True):
            yield row[..., :length, :].copy()


def _arrays(values: Tensor) -> Vectors:
    return values.float().cpu().numpy()


def _wanted(config: EncodeConfig, model: BiLM) -> tuple[int, ...]:
    """The layers that are needed: where one is asked for, none above it is computed."""
    layer, layers = config.layer, 1 + model.config.layers
    if layer == "top":
        return (layers - 1,)
    if isinstance(layer, str):
        return tuple(range(layers))
    if 0 <= layer < layers:
        return (layer,)
    raise UserError(
        f"layer {layer} was asked for, but this model has layers 0 to {layers - 1}, 0 being "
        "the words alone"
    )


def _mix_for(config: EncodeConfig, model: BiLM, mix: LayerMix) -> LayerMix | None:
    """What is done with the layers that are wanted; nothing where all of them are asked for."""
    if config.layer == "all":
        return None
    if config.layer == "mix":
        return mix
    kind = config.layer if isinstance(config.layer, str) else "top"
    wanted = len(_wanted(config, model))
    return LayerMix(MixConfig(mix=kind), wanted, 2 * model.config.width).to(model.device)


# Texts of different lengths as one array.


class Padded(NamedTuple):
    """Texts side by side, (texts, longest, dim), or (texts, layers, longest, dim) of all layers."""

    vectors: Vectors
    mask: NDArray[np.bool_]
    """True where there is a word, (texts, longest)."""


def padded(found: Sequence[Vectors], row_shape: tuple[int, ...]) -> Padded:
    """Put arrays of (words, dim) or (layers, words, dim) side by side."""
    longest = max((one.shape[-2] for one in found), default=0)
    vectors = np.zeros((len(found), *row_shape[:-1], longest, row_shape[-1]), np.float32)
    mask = np.zeros((len(found), longest), np.bool_)
    for row, one in enumerate(found):
        vectors[row, ..., : one.shape[-2], :] = one
        mask[row, : one.shape[-2]] = True
    return Padded(vectors, mask)


# How far a long job is, and how long it will take.


@dataclass(frozen=True)
class Progress:
    """What is done of a job."""

    texts: int
    total: int | None
    """How many texts there are, where that is known."""
    tokens: int
    tokens_per_second: float
    seconds_left: float | None
    """None where the number of texts is not known."""


Listener = Callable[[Progress], None]


class Pace:
    """Counts texts and words from now on, and tells the listener."""

    def __init__(self, listener: Listener, total: int | None, done: int = 0) -> None:
        self._listener = listener
        self._total = total
        self._before = done
        self._texts = done
        self._tokens = 0
        self._since = time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        """Count what was done since the last call."""
        self._texts += texts
        self._tokens += tokens
        elapsed = max(1e-9, time.monotonic() - self._since)
        speed = (self._texts - self._before) / elapsed
        left = None if self._total is None else (self._total - self._texts) / max(1e-9, speed)
        self._listener(
            Progress(self._texts, self._total, self._tokens, self._tokens / elapsed, left)
        )


# An embedder as a function of batches of rows, for `map` of Hugging Face's datasets.


@dataclass(frozen=True)
class MapFunction:
    """Columns of a batch in, a column of vectors out."""

    embedder: Embedder
    config: EncodeConfig
    column: str
    into: str

    def __post_init__(self) -> None:
        check(self.config)
        if self.config.start == "carry":
            raise UserError("start: batches may come in any order, so no state can be carried")

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The vectors of a batch's texts."""
        if self.column not in rows:
            raise UserError(
                f"the rows have no column {self.column!r}, but {', '.join(sorted(rows))}; name the "
                "one that holds the text: as_map_fn(column=…), and give map batched=True"
            )
        settings = asdict(self.config)
        return {self.into: list(self.embedder.encode_iter(rows[self.column], **settings))}


BATCHES_AT_ONCE = 4
"""Texts are sorted by length within so many batches, which are then in memory together."""

Several = TypeVar("Several", bound=Iterable[Text])


class Embedder:
    """A biLM, and a mix of its layers, that turn texts into vectors."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        mix: LayerMix | MixConfig | None = None,
        start_state: BiLMState | None = None,
    ) -> None:
        """Use a model in memory; the mix is the average of the layers where none is given."""
        self.loaded = loaded
        self.model = loaded.model
        self.mix = _built(mix or MixConfig(mix="average"), 1 + self.layers, self.width)
        self.mix.to(self.model.device)
        self._start_state = start_state

    @classmethod
    def from_pretrained(
        cls,
        path: Path | str = BILM,
        *,
        device: str = "cpu",
        precision: Literal["fp32", "bf16", "auto"] = "fp32",
        mix: LayerMix | MixConfig | None = None,
        custom_tokenizer: Tokenizer | None = None,
    ) -> Embedder:
        """Open a model folder, or official files; by default the news model that comes with elmo.

        Precision auto computes in bf16 where the processor has units for it.
        """
        loaded = open_model(path, device, custom_tokenizer)
        loaded.model.compute_dtype = compute_precision(precision, loaded.model.device)
        return cls(loaded, mix=mix, start_state=load_start_state(Path(path), loaded.model))

    @classmethod
    def from_official(
        cls,
        options: Path | str,
        weights: Path | str,
        *,
        vocabulary: Path | str | None = None,
        token_vectors: Path | str | None = None,
        device: str = "cpu",
        precision: Literal["fp32", "bf16", "auto"] = "fp32",
        mix: LayerMix | MixConfig | None = None,
        custom_tokenizer: Tokenizer | None = None,
    ) -> Embedder:
        """Open the two files of an official model, wherever they are.

        The vocabulary, a word a line, is by default the vocab*.txt beside the options;
        `token_vectors` is an HDF5 file with a vector for each of its words, as `elmo embed --words`
        writes it: these words are looked up, and only others spelled.
        """
        read = load_official(options, weights, vocabulary, token_vectors)
        model = read.model.to(device)
        model.compute_dtype = compute_precision(precision, model.device)
        return cls(replace(read, custom_tokenizer=custom_tokenizer), mix=mix)

    @property
    def layers(self) -> int:
        """How many LSTM layers there are above layer 0, the words alone."""
        return self.model.config.layers

    @property
    def width(self) -> int:
        """The size of a layer's vector: both directions."""
        return 2 * self.model.config.width

    @cached_property
    def warm_state(self) -> BiLMState:
        """The state after a neutral context: the model's stored one, or else computed now."""
        return self._start_state or warm_state(self.model)

    def store_start_state(self, folder: Path | str) -> None:
        """Write the warm state into the model's folder, to be used from then on."""
        save_start_state(Path(folder), self.warm_state)

    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["pooled"] = "pooled", layer: Layer = "mix",
        pooling: str = "mean", pad: Literal[False] = False, start: Start = "zero",
        slots: int = 1, batch_tokens: int | None = None, progress: Listener | None = None,
    ) -> Vectors: ...  # fmt: skip
    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["tokens"], layer: Layer = "mix",
        pad: Literal[False] = False, start: Start = "zero",
        slots: int = 1, batch_tokens: int | None = None, progress: Listener | None = None,
    ) -> list[Vectors]: ...  # fmt: skip
    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["tokens"], layer: Layer = "mix",
        pad: Literal[True], start: Start = "zero",
        slots: int = 1, batch_tokens: int | None = None, progress: Listener | None = None,
    ) -> Padded: ...  # fmt: skip
    def encode(
        self,
        texts: Sequence[Text],
        *,
        output: Output = "pooled",
        pad: bool = False,
        progress: Listener | None = None,
        **settings: Any,
    ) -> Vectors | list[Vectors] | Padded:
        """Turn texts, given as strings or as words, into vectors.

        pooled: an array (texts, dim), or (texts, layers, dim) for layer="all"; a text without
        words gives zeros. tokens: an array a text, (words, dim) or (layers, words, dim); with
        `pad`, one array and its mask.
        """
        config = EncodeConfig(output=output, **settings)
        encoder = self.encoder(config)
        texts = _several(texts)
        if pad and output == "pooled":
            raise UserError("pad: pooled vectors are all of one length; use output='tokens'")
        found = list(self._encode(encoder, texts, progress, len(texts)))
        if output == "pooled":
            shape = (len(found), *encoder.row_shape)
            return np.stack(found) if found else np.zeros(shape, np.float32)
        return padded(found, encoder.row_shape) if pad else found

    def encode_iter(
        self, texts: Iterable[Text], *, progress: Listener | None = None, **settings: Any
    ) -> Iterator[Vectors]:
        """The same for any number of texts, one after the other, a few in memory at a time."""
        encoder = self.encoder(EncodeConfig(**settings))
        return self._encode(encoder, _several(texts), progress, None)

    def as_map_fn(self, column: str = "text", into: str = "vector", **settings: Any) -> MapFunction:
        """A function for Hugging Face's datasets: `rows.map(embedder.as_map_fn(), batched=True)`.

        It adds a column of vectors; settings are those of `encode`.
        """
        return MapFunction(self, EncodeConfig(**settings), column, into)

    def encoder(self, config: EncodeConfig) -> Encoder:
        """What encodes words by these settings."""
        check(config)
        start = self.warm_state if config.start == "warm" else None
        return Encoder(self.model, config, self.mix, start)

    def _encode(
        self,
        encoder: Encoder,
        texts: Iterable[Text],
        progress: Listener | None,
        total: int | None,
    ) -> Iterator[Vectors]:
        pace = None if progress is None else Pace(progress, total)
        size = BATCHES_AT_ONCE * encoder.batch_tokens
        for portion in portions(tokenised(self.loaded, texts), size, encoder.config.slots):
            tell_empty(portion)
            words = [text.words for text in portion]
            yield from encoder.encode(words, None if pace is None else pace.add)


def _built(mix: LayerMix | MixConfig, layers: int, width: int) -> LayerMix:
    built = LayerMix(mix, layers, width) if isinstance(mix, MixConfig) else mix
    if (built.layers, built.dim) != (layers, width):
        raise UserError(
            f"the mix is one of {built.layers} layers of {built.dim} numbers, but the model has "
            f"{layers} of {width}"
        )
    return built


def _several(texts: Several) -> Several:
    if isinstance(texts, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    return texts

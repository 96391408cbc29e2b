"""Texts become vectors: tokenise, read texts of similar length, mix the layers, pool the words.

The same call gives the same vectors, bit by bit; which texts are read together changes them by less
than 1e-6.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState, LayerOutputs
from elmo.config import BILM
from elmo.embed.config import EncodeConfig, Layer, MixConfig, Output, Start
from elmo.embed.mix import LayerMix
from elmo.errors import ConfigError, UserError
from elmo.files import sha256
from elmo.language_model import LanguageModel
from elmo.model_folder import WEIGHTS, Text, load_tensors, save_tensors
from elmo.text.batching import group_by_length, pack_texts
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS
from elmo.training.optim import compute_precision

log = logging.getLogger(__name__)

Vectors = NDArray[np.float32]
OnTexts = Callable[[int, int], None]
"""Called with how many more texts, and words of them, are done."""
Texts = TypeVar("Texts", bound=Iterable[Text])

BATCHES_AT_ONCE = 4
"""Texts are sorted by length within so many batches, which are then in memory together."""
CONTEXT_WORDS = 32
"""The warm state is that after so many of the most frequent words, which say little."""
FILE = "start_state.safetensors"
CHECKSUM = "model_sha256"


class Padded(NamedTuple):
    """One row per text, (texts, longest, dim), or (texts, layers, longest, dim) for all layers."""

    vectors: Vectors
    mask: NDArray[np.bool_]
    """True where there is a word, (texts, longest)."""


class Embedder:
    """A biLM, and a mix of its layers, that turn texts into vectors.

    >>> embedder = Embedder.from_pretrained()
    >>> embedder.encode(["Oil prices fell .", "It rained ."]).shape
    (2, 512)
    """

    def __init__(
        self,
        loaded: LanguageModel,
        *,
        mix: LayerMix | MixConfig | None = None,
        start_state: BiLMState | None = None,
    ) -> None:
        """Use a model in memory; the default mix is the average of its layers."""
        self.loaded = loaded
        self.model = loaded.model
        mix = mix or MixConfig(mix="average")
        if isinstance(mix, MixConfig):
            mix = LayerMix(mix, 1 + self.layers, self.width)
        if (mix.layers, mix.dim) != (1 + self.layers, self.width):
            raise UserError(
                f"the mix is made for {mix.layers} layers of {mix.dim} numbers, but the model has "
                f"{1 + self.layers} of {self.width}"
            )
        self.mix = mix.to(self.model.device)
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
        """Load a model.

        Args:
            path: a model folder, ours or official; default: the news model that comes with elmo.
            device: "cpu", "cuda", "mps", …
            precision: auto computes in bf16 if the processor has units for it.
            mix: how layers become one vector; default: their average.
            custom_tokenizer: for a model that was trained with one.
        """
        loaded = LanguageModel.from_pretrained(path, device, custom_tokenizer)
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
        """Load the two files of an official model, wherever they are.

        Args:
            options: options.json.
            weights: the .hdf5 file.
            vocabulary: one word per line; default: the vocab*.txt in the folder of the options.
            token_vectors: an HDF5 file with one vector per word of the vocabulary, as
                `elmo embed --words` writes it: these are looked up, and only other words spelled.
            device, precision, mix, custom_tokenizer: as in `from_pretrained`.
        """
        loaded = LanguageModel.from_official(
            options,
            weights,
            vocabulary=vocabulary,
            token_vectors=token_vectors,
            device=device,
            custom_tokenizer=custom_tokenizer,
        )
        loaded.model.compute_dtype = compute_precision(precision, loaded.model.device)
        return cls(loaded, mix=mix)

    @property
    def layers(self) -> int:
        """How many LSTM layers there are above layer 0, the words alone."""
        return self.model.config.layers

    @property
    def width(self) -> int:
        """The size of one layer's vector: both directions."""
        return 2 * self.model.config.width

    @cached_property
    def warm_state(self) -> BiLMState:
        """The state after a neutral context: stored with the model, or computed now."""
        return self._start_state or warm_state(self.model)

    def store_start_state(self, folder: Path | str) -> None:
        """Write the warm state into the model's folder, to be used from then on."""
        save_start_state(Path(folder), self.warm_state)

    @overload
    def encode(
        self, texts: str, *, output: Output = "pooled", layer: Layer = "mix", pooling: str = "mean",
        pad: Literal[False] = False, start: Start = "zero",
        slots: int = 1, batch_tokens: int | None = None, progress: Listener | None = None,
    ) -> Vectors: ...  # fmt: skip
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
        texts: str | Sequence[Text],
        *,
        output: Output = "pooled",
        pad: bool = False,
        progress: Listener | None = None,
        **settings: Any,
    ) -> Vectors | list[Vectors] | Padded:
        """Turn texts into vectors.

        Args:
            texts: strings, or lists of words; one string gives the result of that text alone.
            output: "pooled", one vector per text, or "tokens", one vector per word.
            pad: give tokens as one array with a mask.
            progress: called with a `Progress` after every batch.
            settings: layer, pooling, start, slots, batch_tokens: see `EncodeConfig`.

        Returns:
            pooled: an array (texts, dim), or (texts, layers, dim) for layer="all"; a text without
            words gives zeros. tokens: for each text an array (words, dim) or (layers, words, dim);
            with `pad`, one `Padded`.
        """
        if pad and output == "pooled":
            raise UserError("pad: pooled vectors are all of one length; use output='tokens'")
        encoder = self.encoder(EncodeConfig(output=output, **settings))
        if isinstance(texts, str):
            (vectors,) = self._encode(encoder, [texts], progress, 1)
            return vectors
        vectors = list(self._encode(encoder, texts, progress, len(texts)))
        if pad:
            return padded(vectors, encoder.row_shape)
        if output == "tokens":
            return vectors
        return np.stack(vectors) if vectors else np.zeros((0, *encoder.row_shape), np.float32)

    def encode_iter(
        self, texts: Iterable[Text], *, progress: Listener | None = None, **settings: Any
    ) -> Iterator[Vectors]:
        """Yield the vectors of each of any number of texts, a few in memory at a time."""
        if isinstance(texts, str):
            raise UserError("expected several texts, got one string; put it in a list: [text]")
        encoder = self.encoder(EncodeConfig(**settings))
        return self._encode(encoder, texts, progress, None)

    def as_map_fn(self, column: str = "text", into: str = "vector", **settings: Any) -> MapFunction:
        """A function for Hugging Face's datasets: `rows.map(embedder.as_map_fn(), batched=True)`.

        It adds a column of vectors; settings are those of `encode`.
        """
        return MapFunction(self, EncodeConfig(**settings), column, into)

    def encoder(self, config: EncodeConfig) -> Encoder:
        """What encodes tokenised texts with these settings."""
        start = self.warm_state if config.start == "warm" else None
        return Encoder(self.model, config, self.mix, start)

    def _encode(
        self,
        encoder: Encoder,
        texts: Iterable[Text],
        progress: Listener | None,
        total: int | None,
    ) -> Iterator[Vectors]:
        on_texts = None if progress is None else Pace(progress, total).add
        tokens = BATCHES_AT_ONCE * encoder.batch_tokens
        for chunk in portions(tokenised(self.loaded, texts), tokens, encoder.config.slots):
            tell_empty(chunk)
            yield from encoder.encode([text.words for text in chunk], on_texts)


class Encoder:
    """Turns tokenised texts into vectors; with start="carry", a call resumes from the last one."""

    def __init__(
        self, model: BiLM, config: EncodeConfig, mix: LayerMix, start: BiLMState | None = None
    ) -> None:
        if problems := list(config.problems()):
            raise ConfigError(problems)
        self.model = model
        self.config = config
        self.state = start
        self.batch_tokens = config.batch_tokens or usual_batch_tokens(model)
        self._mix = mix
        layer, top = config.layer, model.config.layers
        if isinstance(layer, int) and not 0 <= layer <= top:
            raise UserError(
                f"layer {layer} was asked for, but this model has layers 0 to {top}, 0 being the "
                "words alone"
            )
        several = layer in ("mix", "average", "all")
        self._layers = list(range(1 + top)) if several else [top if layer == "top" else layer]

    @property
    def dim(self) -> int:
        """The size of one vector."""
        mixed = self.config.layer == "mix"
        size = self._mix.output_dim if mixed else 2 * self.model.config.width
        return size * (len(self.config.poolings) if self.config.output == "pooled" else 1)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of the vectors of one text (pooled) or one word (tokens)."""
        return (len(self._layers), self.dim) if self.config.layer == "all" else (self.dim,)

    @torch.no_grad()
    def encode(
        self, texts: Sequence[Sequence[str]], on_texts: OnTexts | None = None
    ) -> list[Vectors]:
        """The vectors of each text: (dim,), (words, dim) or, for all layers, one dimension more."""
        carry, model = self.config.start == "carry", self.model
        if carry:
            slots = self.config.slots
            groups = [range(n, min(n + slots, len(texts))) for n in range(0, len(texts), slots)]
        else:
            groups = groups_of(texts, self.batch_tokens)
        vectors: dict[int, Vectors] = {}
        for group in groups:
            batch = pack_texts(
                [texts[index] for index in group],
                model.vocabulary,
                spelled=model.spelled,
                read_end=carry,
            )
            state = self.state
            if state is not None:  # one state per slot, or the same one for all texts
                state = state.select(
                    slice(len(group)) if carry else torch.zeros_like(batch.layout.last)
                )
            upto = None if carry else self._layers[-1]
            outputs = model.layers(batch.to(model.device), state, upto=upto)
            if carry:
                self.state = outputs.state
            vectors.update(zip(group, self._vectors(outputs), strict=True))
            if on_texts is not None:
                on_texts(len(group), sum(len(texts[index]) for index in group))
        return [vectors[index] for index in range(len(texts))]

    def _vectors(self, outputs: LayerOutputs) -> list[Vectors]:
        layers = outputs.words(self._layers)  # (layers, words, 2 * width)
        if self.config.layer == "mix":
            mixed = self._mix(layers)  # (words, dim)
        elif self.config.layer == "all":
            mixed = layers
        else:
            mixed = layers[0] if len(layers) == 1 else layers.mean(0)
        texts = torch.split(mixed.float(), list(outputs.batch.lengths), dim=-2)
        if self.config.output == "pooled":
            pooled = torch.stack([pool(text, self.config.poolings) for text in texts])
            return list(pooled.cpu().numpy())
        # Copied, so that the vectors of one text do not keep those of all others in memory.
        return [text.cpu().numpy().copy() for text in texts]


def groups_of(texts: Sequence[Sequence[str]], batch_tokens: int) -> list[list[int]]:
    """Indices of texts of similar length together; one longer than a batch is read alone."""
    lengths = np.array(
        [len(words) + 1 for words in texts], np.int64
    )  # with the boundary that is read first
    return [group.tolist() for group in group_by_length(lengths, batch_tokens)]


def usual_batch_tokens(model: BiLM) -> int:
    """The default number of tokens per batch: 8,192 to 32,768, the more, the smaller the model."""
    return min(max((1 << 22) // model.config.hidden, 8192), 32768)


def pool(vectors: Tensor, poolings: Sequence[str]) -> Tensor:
    """Pool the words of one text, (..., words, dim), into (..., poolings * dim); zeros if none."""
    if not vectors.shape[-2]:
        return vectors.new_zeros(*vectors.shape[:-2], len(poolings) * vectors.shape[-1])
    parts: list[Tensor] = []
    for pooling in poolings:
        if pooling == "mean":
            parts.append(vectors.mean(dim=-2))
        elif pooling == "max":
            parts.append(vectors.amax(dim=-2))
        else:
            parts.append(vectors[..., 0 if pooling == "first" else -1, :])
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def padded(vectors: Sequence[Vectors], row_shape: tuple[int, ...]) -> Padded:
    """Put arrays of (words, dim) or (layers, words, dim) side by side."""
    longest = max((text.shape[-2] for text in vectors), default=0)
    array = np.zeros((len(vectors), *row_shape[:-1], longest, row_shape[-1]), np.float32)
    mask = np.zeros((len(vectors), longest), np.bool_)
    for row, text in enumerate(vectors):
        array[row, ..., : text.shape[-2], :] = text
        mask[row, : text.shape[-2]] = True
    return Padded(array, mask)


# Tokenised texts, any number of them.


@dataclass(frozen=True)
class TokenisedText:
    """A text, its index among all, and its words."""

    number: int
    text: Text
    words: list[str]


def tokenised(
    loaded: LanguageModel, texts: Iterable[Text], first: int = 0
) -> Iterator[TokenisedText]:
    """Cut texts into words; an error names the index of the text, counted from `first`."""
    for number, text in enumerate(cast("Iterable[Any]", texts), start=first):
        try:
            if not isinstance(text, str | Iterable):
                raise UserError(f"expected a string or a list of words, got {type(text).__name__}")
            words: Any = text if isinstance(text, str) else list(cast("Iterable[Any]", text))
            wrong = [] if words is text else [one for one in words if not isinstance(one, str)]
            if wrong:
                raise UserError(f"expected words, got {type(wrong[0]).__name__}: {wrong[0]!r:.60}")
            yield TokenisedText(number, cast("Text", text), loaded.words(words))
        except UserError as error:
            raise UserError(f"text {number}: {error}") from None


def portions(
    texts: Iterable[TokenisedText], tokens: int, multiple: int = 1
) -> Iterator[list[TokenisedText]]:
    """Chunks of about so many tokens; how many texts each has, but for the last, is a multiple."""
    chunk: list[TokenisedText] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += 1 + len(text.words)
        if size >= tokens and len(chunk) % multiple == 0:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def tell_empty(texts: Iterable[TokenisedText]) -> None:
    """Log which texts have no words, and so no vectors but zeros."""
    numbers = [str(text.number) for text in texts if not text.words]
    if numbers:
        shown = ", ".join(numbers[:10]) + (", …" if len(numbers) > 10 else "")
        log.warning("texts without words, their vectors are zeros: text %s", shown)


# The state before the first word, if it is not zeros.


@torch.no_grad()
def warm_state(model: BiLM, context: Sequence[str] | None = None) -> BiLMState:
    """The state, of one text, after a neutral context and the boundary after it.

    The default context is the model's most frequent words, most frequent first.
    """
    first = len(SPECIAL_WORDS)
    words = model.vocabulary.words[first : first + CONTEXT_WORDS] if context is None else context
    batch = pack_texts([words], model.vocabulary, spelled=model.spelled, read_end=True)
    return model.layers(batch.to(model.device)).state


def save_start_state(folder: Path, state: BiLMState) -> None:
    """Store a state in a model folder, with the checksum of the weights that it belongs to."""
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder}: expected a model folder with {WEIGHTS}, but it has none")
    checksum = torch.frombuffer(bytearray.fromhex(sha256(folder / WEIGHTS)), dtype=torch.uint8)
    save_tensors(folder / FILE, {**state_tensors(state), CHECKSUM: checksum})


def load_start_state(folder: Path, model: BiLM) -> BiLMState | None:
    """The state stored in a model folder, if there is one; it must belong to these weights."""
    path = folder / FILE
    if not path.exists():
        return None
    tensors = load_tensors(path)
    checksum = tensors.pop(CHECKSUM, torch.zeros(0, dtype=torch.uint8))
    if checksum.numpy().tobytes().hex() != sha256(folder / WEIGHTS):
        raise UserError(
            f"{path} belongs to other weights than {folder / WEIGHTS}; delete it, or store it again"
        )
    return state_of_tensors(tensors, model, path)


def state_tensors(state: BiLMState) -> dict[str, Tensor]:
    """A state as named tensors."""
    return {
        f"{direction}.{number}.{part}": tensor
        for direction, layers in zip(BiLMState._fields, state, strict=True)
        for number, layer in enumerate(layers)
        for part, tensor in zip(LSTMState._fields, layer, strict=True)
    }


def state_of_tensors(tensors: dict[str, Tensor], model: BiLM, path: Path) -> BiLMState:
    """What `state_tensors` returned, on the model's device."""
    sizes = {"output": (model.config.width,), "cell": (model.config.hidden,)}
    expected = {
        f"{direction}.{number}.{part}": size
        for direction in BiLMState._fields
        for number in range(model.config.layers)
        for part, size in sizes.items()
    }
    if {name: tensor.shape[1:] for name, tensor in tensors.items()} != expected:
        raise UserError(f"{path} is not a state of this model; delete it, or store it again")
    stacks = [
        tuple(
            LSTMState(*(tensors[f"{direction}.{number}.{part}"].to(model.device) for part in sizes))
            for number in range(model.config.layers)
        )
        for direction in BiLMState._fields
    ]
    return BiLMState(*stacks)


# Progress, and the function for Hugging Face's datasets.


@dataclass(frozen=True)
class Progress:
    """How much of a job is done."""

    texts: int
    total: int | None
    """How many texts there are, if that is known."""
    tokens: int
    tokens_per_second: float
    seconds_left: float | None
    """None if the number of texts is not known."""


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


@dataclass(frozen=True)
class MapFunction:
    """Columns of a batch in, a column of vectors out."""

    embedder: Embedder
    config: EncodeConfig
    column: str
    into: str

    def __post_init__(self) -> None:
        if problems := list(self.config.problems()):
            raise ConfigError(problems)
        if self.config.start == "carry":
            raise UserError("start: batches may come in any order, so no state can be carried")

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The vectors of a batch's texts."""
        if self.column not in rows:
            raise UserError(
                f"the rows have no column {self.column!r}, but {', '.join(sorted(rows))}; name the "
                "one that holds the text: as_map_fn(column=…), and call map with batched=True"
            )
        settings = asdict(self.config)
        return {self.into: list(self.embedder.encode_iter(rows[self.column], **settings))}

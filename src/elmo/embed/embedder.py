"""Texts to vectors: tokenise, batch texts of similar length, run the biLM, mix layers, pool words.

The same call gives the same vectors, bit by bit; which texts share a batch changes them by less
than 1e-6.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.bilm.lstm import WeightsSnapshot
from elmo.bilm.model import BiLM, BiLMState
from elmo.config import SHIPPED, model_name
from elmo.embed.config import EncodeConfig, Layer, MixConfig, NeighbourConfig, Output, Start
from elmo.embed.mix import LayerMix
from elmo.errors import ConfigError, UserError
from elmo.language_model import LanguageModel, require_loaded
from elmo.model_folder import Text
from elmo.runtime import compute_precision
from elmo.text.batching import group_by_length
from elmo.text.sources import iterated
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from elmo.embed.files import EmbeddedFile
    from elmo.embed.neighbours import Neighbour
    from elmo.text.config import ReadOptions

Vectors = NDArray[np.float32]
Dtype = Literal["float32", "bfloat16", "fp32", "bf16", "auto"] | torch.dtype
OnTexts = Callable[[int, int], None]  # called after each batch with its numbers of texts and words

BATCHES_AT_ONCE = 4  # texts are sorted by length within this many batches, all in memory
CONTEXT_WORDS = 32  # most frequent words, after which the state is warm: a neutral context


class EncodeOptions(TypedDict, total=False):
    """Options that do not change the return type."""

    layer: Layer
    pooling: str
    normalize: bool
    initial_state: Start
    slots: int
    batch_tokens: int | None
    show_progress: bool
    progress: Listener | None


class Embedder:
    """Turns texts into vectors with a biLM and a mix of its layers.

    >>> embedder = Embedder.from_pretrained()
    >>> embedder.encode("Oil prices fell .").shape == (embedder.dim,)
    True
    >>> vectors = embedder.encode(["Oil prices fell .", "It rained ."])
    >>> embedder.similarity(vectors, vectors).shape
    (2, 2)

    A pickled embedder holds the path of its model and its settings, not the weights.
    """

    def __init__(
        self,
        loaded: LanguageModel,
        *,
        mix: LayerMix | MixConfig | None = None,
    ) -> None:
        """Use a model in memory; the default mix is the average of its layers."""
        self.loaded = require_loaded(loaded, "Embedder")
        self.model = loaded.model
        mix = mix or MixConfig(mix="average")
        if isinstance(mix, MixConfig):
            mix = LayerMix(mix, 1 + self.num_layers, self.width)
        if (mix.layers, mix.dim) != (1 + self.num_layers, self.width):
            raise UserError(
                f"expected a mix of {1 + self.num_layers} layers of size {self.width}, as the "
                f"model has, got {mix.layers} layers of size {mix.dim}"
            )
        self.mix = mix.to(self.model.device)
        self._weights = WeightsSnapshot.of(list(self.model.parameters()))
        self._warm: tuple[WeightsSnapshot, BiLMState] | None = None

    @classmethod
    def from_pretrained(
        cls,
        path: Path | str = SHIPPED,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        mix: LayerMix | MixConfig | None = None,
        custom_tokenizer: Tokenizer | str | None = None,
    ) -> Embedder:
        """Load a model.

        Args:
            path: a model folder of any format, an archive of one, a name that `elmo models` lists
                ("manylangs/de"), hf:USER/REPO@REVISION or an https:// address; "default" is the
                model that comes with elmo.
            device: "cpu", "cuda", "mps", …
            dtype: of the matrix products; "auto" is bfloat16 if the processor has units for it.
                Vectors are float32 always.
            mix: how layers become one vector; default: their average.
            custom_tokenizer: for a model that was trained with one; or, for any model, a name:
                "spacy:de", "module:function".
        """
        loaded = LanguageModel.from_pretrained(path, device, custom_tokenizer)
        loaded.model.compute_dtype = _compute_dtype(dtype, loaded.model.device)
        return cls(loaded, mix=mix)

    @classmethod
    def from_official(
        cls,
        options: Path | str,
        weights: Path | str,
        *,
        mix: LayerMix | MixConfig | None = None,
        dtype: Dtype = "float32",
        **settings: Any,
    ) -> Embedder:
        """Load the two files of an official model; see `LanguageModel.from_official`."""
        loaded = LanguageModel.from_official(options, weights, **settings)
        loaded.model.compute_dtype = _compute_dtype(dtype, loaded.model.device)
        return cls(loaded, mix=mix)

    def save_pretrained(self, path: Path | str) -> None:
        """Write the model to a new folder, which `from_pretrained` loads."""
        self.loaded.save_pretrained(path)

    def push_to_hub(self, repo: str, **options: Any) -> str:
        """Upload the model to a model hub; see `LanguageModel.push_to_hub`."""
        return self.loaded.push_to_hub(repo, **options)

    @property
    def num_layers(self) -> int:
        """Number of LSTM layers; layer 0, the words alone, is not counted."""
        return self.model.config.layers

    @property
    def width(self) -> int:
        """Size of one layer's vector, both directions together."""
        return 2 * self.model.config.width

    @property
    def dim(self) -> int:
        """Size of a mixed vector."""
        return self.mix.output_dim

    @property
    def warm_state(self) -> BiLMState:
        """The state after a neutral context, computed once."""
        weights = WeightsSnapshot.of(list(self.model.parameters()))
        if self._warm is None or not self._warm[0].is_still(weights):
            first = len(SPECIAL_WORDS)
            context = self.model.vocabulary.words[first : first + CONTEXT_WORDS]
            with torch.no_grad():
                outputs = self.model.layers(self.model.pack([context], read_end=True))
            self._warm = weights, outputs.state
        return self._warm[1]

    @overload
    def encode(
        self, texts: str, *, output: Output = "pooled", **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    @overload
    def encode(
        self,
        texts: Sequence[Text],
        *,
        output: Literal["pooled"] = "pooled",
        **options: Unpack[EncodeOptions],
    ) -> Vectors: ...
    @overload
    def encode(
        self, texts: Sequence[Text], *, output: Literal["tokens"], **options: Unpack[EncodeOptions]
    ) -> list[Vectors]: ...
    @overload
    def encode(
        self,
        texts: str | Sequence[Text],
        *,
        convert_to: Literal["numpy", "torch"],
        output: Output = "pooled",
        **options: Unpack[EncodeOptions],
    ) -> Any: ...
    def encode(
        self,
        texts: str | Sequence[Text],
        *,
        output: Output = "pooled",
        layer: Layer = "mix",
        pooling: str = "mean",
        normalize: bool = False,
        convert_to: Literal["numpy", "torch"] = "numpy",
        initial_state: Start = "zero",
        slots: int = 1,
        batch_tokens: int | None = None,
        show_progress: bool = False,
        progress: Listener | None = None,
    ) -> Any:
        """Turn texts into vectors.

        Args:
            texts: strings, or lists of words; one string gives the result of that text alone.
            output: "pooled", one vector per text, or "tokens", one vector per word.
            layer: "mix", "top", "average", "all" of them side by side, or a number: 0 is the words
                alone.
            pooling: "mean", "std", "max", "first", "last", or several joined by "+".
            normalize: scale each vector to length 1.
            convert_to: "numpy", or "torch" for tensors on the CPU.
            initial_state: the state each text starts from: "zero"; "warm", after a neutral context;
                or "carry", that after the previous text, as the original ELMo does.
            slots: for "carry": number of texts read side by side.
            batch_tokens: tokens per batch; default: 8,192 for large models to 32,768 for small.
            show_progress: show a progress bar on standard error.
            progress: called with a `Progress` after each batch, with or without a bar.

        Returns:
            For "pooled", (texts, dim), or (texts, layers, dim) with layer="all"; a text without
            words gives zeros. For "tokens", one (words, dim) or (layers, words, dim) per text.
        """
        if convert_to not in ("numpy", "torch"):
            raise UserError(f"convert_to: expected numpy or torch, got {convert_to!r}")
        config = EncodeConfig(
            output=output, layer=layer, pooling=pooling, normalize=normalize,
            initial_state=initial_state, slots=slots, batch_tokens=batch_tokens,
        )  # fmt: skip
        encoder = self.encoder(config)
        single = isinstance(texts, str)
        batch: Sequence[Text] = [texts] if isinstance(texts, str) else texts
        try:
            count = len(batch)
        except TypeError:
            raise UserError(
                f"expected a text or a list of texts, got {type(texts).__name__}; for an iterator "
                "use encode_iter"
            ) from None
        if hasattr(batch, "columns"):
            iterated(batch)  # a table, of which only the names of its columns would be read
        with progress_bar(count) if show_progress else nullcontext() as bar:
            listeners = [listener for listener in (bar, progress) if listener is not None]
            vectors = list(self._encode(encoder, batch, listeners, count))
        result: Any = vectors
        if single:
            result = vectors[0]
        elif output == "pooled":
            empty = np.zeros((0, *encoder.row_shape), np.float32)
            result = np.stack(vectors) if vectors else empty
        return to_tensors(result) if convert_to == "torch" else result

    def encode_iter(
        self, texts: Iterable[Text], *, progress: Listener | None = None, **settings: Any
    ) -> Iterator[Vectors]:
        """Yield the vectors of each text; only a few texts are in memory at a time.

        `settings` are those of `EncodeConfig`.
        """
        texts = iterated(texts)
        listeners = [] if progress is None else [progress]
        return self._encode(self.encoder(EncodeConfig(**settings)), texts, listeners, None)

    def similarity(self, a: Any, b: Any) -> Vectors:
        """Cosine similarity of each vector in `a` with each in `b`, (len(a), len(b)).

        A vector of zeros, that of a text without words, has similarity 0 with all others.
        """
        try:
            left, right = (torch.as_tensor(np.atleast_2d(vectors)).float() for vectors in (a, b))
        except (TypeError, ValueError):
            raise UserError("expected two arrays of vectors, as encode returns them") from None
        if left.shape[1:] != right.shape[1:] or left.ndim != 2:
            sizes = f"{tuple(left.shape)} and {tuple(right.shape)}"
            raise UserError(f"expected vectors of one size, (count, dim), got {sizes}")
        return (functional.normalize(left) @ functional.normalize(right).T).numpy()

    def nearest(
        self, word: str | int, sentence: Text, corpus: Iterable[Text], k: int = 10, **settings: Any
    ) -> tuple[Neighbour, ...]:
        """The words of a corpus that are nearest to a word in its sentence, the nearest first.

        Args:
            word: a word of the sentence, or its index.
            sentence: a string or a list of words; texts that equal it are left out.
            corpus: texts to search.
            k: how many.
            **settings: fields of `NeighbourConfig`, such as `layer="top"` or `same_word=True`.

        >>> corpus = ["The court ruled on Monday .", "They left the tennis court early ."]
        >>> embedder.nearest("court", "She won on the clay court .", corpus, k=1)[0].word
        'court'
        """
        from elmo.embed.neighbours import find_neighbours

        config = NeighbourConfig(count=k, **settings)
        return find_neighbours(self, word, sentence, corpus, config).neighbours

    def encode_files(
        self,
        sources: Sequence[str] | str,
        out: Path | str,
        *,
        read: ReadOptions | None = None,
        fresh: bool = False,
        show_progress: bool = False,
        **settings: Any,
    ) -> EmbeddedFile:
        """Write the vectors of the texts in files to a file; the same call resumes after a kill.

        Memory is bounded, however long the texts are; `load_vectors` reads the file.

        Args:
            sources: files, folders, patterns, addresses, '-' (standard input) or 'ag_news'.
            out: .npz, .parquet, .h5, .hdf5, .npy, .csv or .tsv.
            read: how texts are found in the files, such as `ReadOptions(column="body")`.
            fresh: start over, rather than resume what an earlier call left unfinished.
            show_progress: show a progress bar on standard error.
            **settings: as in `encode`: output, layer, pooling, normalize, …

        >>> embedder.encode_files("texts.txt", "vectors.npz").texts
        1000
        """
        from elmo.embed.files import embed_text

        config = EncodeConfig(**settings)
        with progress_bar(None) if show_progress else nullcontext() as bar:
            return embed_text(self, sources, out, config, read=read, fresh=fresh, progress=bar)

    def encoder(self, config: EncodeConfig) -> Encoder:
        """An `Encoder` of tokenised texts with these settings."""
        initial = self.warm_state if config.initial_state == "warm" else None
        return Encoder(self.model, config, self.mix, initial)

    def _encode(
        self,
        encoder: Encoder,
        texts: Iterable[Text],
        listeners: Sequence[Listener],
        total: int | None,
    ) -> Iterator[Vectors]:
        def tell(progress: Progress) -> None:
            for listener in listeners:
                listener(progress)

        on_texts = Pace(tell, total).add if listeners else None
        tokens = BATCHES_AT_ONCE * encoder.batch_tokens
        for chunk in chunks_of(tokenised(self.loaded, texts), tokens, encoder.config.slots):
            tell_empty(chunk, self.model)
            yield from encoder.encode([text.words for text in chunk], on_texts)

    def __repr__(self) -> str:
        config = self.model.config
        name = "in memory" if self.loaded.path is None else model_name(self.loaded.path)
        return (
            f"Embedder({name!r}, {config.input}, {config.layers} layers of "
            f"{self.width}, mix={self.mix.config.mix}, dim={self.dim}, {self.model.device})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.loaded.path is None or self.loaded.custom_tokenizer is not None:
            raise UserError(
                "expected an embedder that was loaded from a folder and has no custom tokenizer; "
                "save this one with save_pretrained, and pickle what from_pretrained loads"
            )
        if not self._weights.is_still(WeightsSnapshot.of(list(self.model.parameters()))):
            raise UserError(
                "the weights have changed since they were loaded, and a pickle holds only the path "
                "of the model; save it with save_pretrained, and pickle what from_pretrained loads"
            )
        mix = {name: value.cpu().numpy() for name, value in self.mix.state_dict().items()}
        dtype = {torch.bfloat16: "bfloat16"}.get(self.model.compute_dtype, "float32")
        path = model_name(self.loaded.path)
        return _unpickled, (path, str(self.model.device), dtype, self.mix.config, mix)

    def __deepcopy__(self, memo: dict[int, Any]) -> Embedder:
        loaded = replace(self.loaded, model=deepcopy(self.model, memo))
        return Embedder(loaded, mix=deepcopy(self.mix, memo))


def _unpickled(
    path: str, device: str, dtype: Any, config: MixConfig, mix: dict[str, NDArray[Any]]
) -> Embedder:
    embedder = Embedder.from_pretrained(path, device=device, dtype=dtype, mix=config)
    embedder.mix.load_state_dict({name: torch.from_numpy(value) for name, value in mix.items()})
    return embedder


def _compute_dtype(dtype: Dtype, device: torch.device) -> torch.dtype:
    name = str(dtype).removeprefix("torch.")
    return compute_precision({"float32": "fp32", "bfloat16": "bf16"}.get(name, name), device)


def to_tensors(vectors: Any) -> Any:
    """An array or a list of arrays, as tensors that share their memory."""
    if isinstance(vectors, list):
        return [torch.from_numpy(array) for array in cast("list[Vectors]", vectors)]
    return torch.from_numpy(vectors)


@contextmanager
def progress_bar(total: int | None) -> Generator[Listener]:
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task("encoding", total=total)
        yield lambda done: bar.update(
            task, completed=done.texts, description=f"{done.tokens_per_second:,.0f} tokens/s"
        )


class Encoder:
    """Encodes tokenised texts; with initial_state="carry", a call continues from the last state."""

    def __init__(
        self, model: BiLM, config: EncodeConfig, mix: LayerMix, initial: BiLMState | None = None
    ) -> None:
        if problems := list(config.problems()):
            raise ConfigError(problems)
        self.model = model
        self.config = config
        self.state: BiLMState | None = initial
        self.batch_tokens = config.batch_tokens or usual_batch_tokens(model)
        self._mix = mix
        layer, top = config.layer, model.config.layers
        if not isinstance(layer, str) and not 0 <= layer <= top:
            raise UserError(
                f"layer: expected one of layers 0 to {top}, 0 being the words alone, got {layer}"
            )
        several = layer in ("mix", "average", "all")
        self._layers = list(range(1 + top)) if several else [top if layer == "top" else layer]

    @property
    def dim(self) -> int:
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
        carry, model = self.config.initial_state == "carry", self.model
        if carry:
            slots = self.config.slots
            groups = [range(n, min(n + slots, len(texts))) for n in range(0, len(texts), slots)]
        else:
            groups = groups_of(texts, self.batch_tokens)
        vectors: dict[int, Vectors] = {}
        for group in groups:
            batch = model.pack([texts[index] for index in group], read_end=carry)
            state = self.state
            if carry:  # one state per slot; new slots start from zeros
                zeros = model.zero_state(len(group))
                self.state = zeros if state is None else state.followed_by(zeros)
                state = self.state.select(slice(len(group)))
            elif state is not None:  # row 0, the warm state, once per text
                state = state.select(torch.zeros(len(group), dtype=torch.long, device=model.device))
            # Layers above the highest one asked for are computed only if their state is carried.
            outputs = model.layers(batch, state, upto=None if carry else self._layers[-1])
            if carry and self.state is not None:  # slots without a text keep their state
                self.state = outputs.state.followed_by(self.state)
            with torch.autocast(outputs.vectors.device.type, enabled=False):
                layers = outputs.words(self._layers)  # (layers, words, 2 * width)
                if self.config.layer == "mix":
                    mixed = self._mix(layers)  # (words, dim)
                elif self.config.layer == "all":
                    mixed = layers  # (layers, words, dim)
                else:  # one layer, or the average of all
                    mixed = layers[0] if len(layers) == 1 else layers.mean(0)  # (words, dim)
                by_text = self._by_text(mixed.float(), batch.lengths)
            vectors.update(zip(group, by_text, strict=True))
            del outputs, layers, mixed  # not kept in memory while the next group is read
            if on_texts is not None:
                on_texts(len(group), sum(len(texts[index]) for index in group))
        return [vectors[index] for index in range(len(texts))]

    def _by_text(self, words: Tensor, lengths: Sequence[int]) -> list[Vectors]:
        texts = torch.split(words, list(lengths), dim=-2)  # (words, dim) each
        if self.config.output == "pooled":
            texts = torch.stack([pool(text, self.config.poolings) for text in texts])
        if self.config.normalize:
            texts = [functional.normalize(text, dim=-1) for text in texts]
        # Copied, so that the vectors of one text do not keep those of all others in memory.
        return [text.cpu().numpy().copy() for text in texts]


def groups_of(texts: Sequence[Sequence[str]], batch_tokens: int) -> list[list[int]]:
    """Group the indices of texts of similar length; a text longer than a batch is a group."""
    lengths = np.array([1 + len(words) for words in texts], np.int64)  # with the start boundary
    return [group.tolist() for group in group_by_length(lengths, batch_tokens)]


def usual_batch_tokens(model: BiLM) -> int:
    """The default number of tokens per batch: 8,192 for large models to 32,768 for small ones."""
    return min(max((1 << 22) // model.config.hidden, 8192), 32768)


def pool(vectors: Tensor, poolings: Sequence[str]) -> Tensor:
    """Pool the words of one text, (..., words, dim), into (..., poolings * dim); zeros if none."""
    if not vectors.shape[-2]:
        return vectors.new_zeros(*vectors.shape[:-2], len(poolings) * vectors.shape[-1])
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "mean": lambda words: words.mean(dim=-2),
        "std": lambda words: words.std(dim=-2, correction=0),
        "max": lambda words: words.amax(dim=-2),
        "first": lambda words: words[..., 0, :],
        "last": lambda words: words[..., -1, :],
    }
    return torch.cat([functions[pooling](vectors) for pooling in poolings], dim=-1)


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
    """Tokenise texts; an error names the index of the text, counted from `first`."""
    for number, text in enumerate(cast("Iterable[Any]", texts), start=first):
        try:
            yield TokenisedText(number, cast("Text", text), loaded.words(text))
        except UserError as error:
            raise UserError(f"text {number}: {error}") from None


def chunks_of(
    texts: Iterable[TokenisedText], tokens: int, multiple: int = 1
) -> Iterator[list[TokenisedText]]:
    """Chunks of about `tokens` tokens; all but the last have a multiple of `multiple` texts."""
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


def tell_empty(texts: Sequence[TokenisedText], model: BiLM) -> None:
    """Warn about texts without words, and about those of which a word model knows none."""

    def tell(what: str, numbers: Sequence[int]) -> None:
        if numbers:
            shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            log.warning("%s: text %s", what, shown)

    empty = [text.number for text in texts if not text.words]
    tell("texts without words, their vectors are zeros", empty)
    if not model.spelled:
        ids = model.vocabulary.ids
        strange = [t.number for t in texts if t.words and not any(word in ids for word in t.words)]
        tell("texts of which the model knows no word, their vectors say nothing", strange)


# Progress.


@dataclass(frozen=True)
class Progress:
    texts: int
    total: int | None  # number of texts, if known
    tokens: int
    tokens_per_second: float
    seconds_left: float | None  # None if the number of texts is unknown


Listener = Callable[[Progress], None]


class Pace:
    """Counts texts and words, and reports speed and time left to a listener."""

    def __init__(self, listener: Listener, total: int | None, done: int = 0) -> None:
        self._listener, self._total = listener, total
        self._before = self._texts = done
        self._tokens, self._since = 0, time.monotonic()

    def add(self, texts: int, tokens: int) -> None:
        self._texts += texts
        self._tokens += tokens
        elapsed = max(1e-9, time.monotonic() - self._since)
        speed = (self._texts - self._before) / elapsed
        left = None if self._total is None else (self._total - self._texts) / max(1e-9, speed)
        self._listener(
            Progress(self._texts, self._total, self._tokens, self._tokens / elapsed, left)
        )

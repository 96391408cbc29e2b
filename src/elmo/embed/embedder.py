"""Texts as vectors: the same text always gives the same ones, whatever stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np

from elmo.bilm.model import BiLMState
from elmo.checkpoint import LoadedModel, Text
from elmo.config import check
from elmo.contextual.encode_config import EncodeConfig, Layer, Output, Start
from elmo.contextual.encoder import Encoder, Vectors
from elmo.contextual.map_function import MapFunction
from elmo.contextual.mix import LayerMix
from elmo.contextual.mix_config import MixConfig
from elmo.contextual.padding import Padded, padded
from elmo.contextual.portions import portions, tell_empty, tokenised
from elmo.contextual.progress import Listener, Pace
from elmo.contextual.start_state import load_start_state, save_start_state, warm_state
from elmo.errors import UserError
from elmo.interop.models import open_model
from elmo.interop.official import load_official
from elmo.pretrain.optimizer import compute_precision
from elmo.shipped import BILM
from elmo.text.tokenizers import Tokenizer

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

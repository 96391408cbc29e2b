"""The network of a classifier: layers of words in, a score for each class out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.classify.config import NetworkConfig
from elmo.embed.mix import LayerMix, PackedLayers, dropped
from elmo.text.vocabulary import UNKNOWN

# What reads a text's vectors in order before they are pooled: an LSTM, or attention.


HEADS = 4


class LSTMEncoder(nn.Module):
    """An LSTM in both directions; what is read ends with the text, not with its padding."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, units, bidirectional=True, batch_first=True)
        self.output_dim = 2 * units

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Encode (batch, words, inputs)."""
        # A text without words is read as one of zeros; pooling does not count it.
        packed = pack_padded_sequence(
            vectors, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, _ = self.lstm(packed)
        return pad_packed_sequence(encoded, batch_first=True, total_length=vectors.shape[1])[0]


class AttentionEncoder(nn.Module):
    """Each word attends to all words of its text, and adds what it finds to itself."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, units)
        self.block = nn.TransformerEncoderLayer(
            units, HEADS, 2 * units, dropout=0.0, batch_first=True, norm_first=True
        )
        self.output_dim = units

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Encode (batch, words, inputs)."""
        places = torch.arange(vectors.shape[1], device=vectors.device)
        # A text without words attends to its padding: no word at all would give no number.
        padding = places[None] >= lengths.clamp(min=1)[:, None]
        return self.block(self.project(vectors), src_key_padding_mask=padding)


def build_encoder(config: NetworkConfig, inputs: int) -> LSTMEncoder | AttentionEncoder | None:
    """The encoder that the settings ask for."""
    if config.encoder == "none":
        return None
    kind = LSTMEncoder if config.encoder == "lstm" else AttentionEncoder
    return kind(inputs, config.encoder_dim)


# What can be pooled: vectors of words, or a sum of layers, pooled layer by layer and then summed.
#
# The sum of layers that do not learn has few weights that do. To pool first makes all gradients as
# small as the pooled vectors; else each had the size of all words.


class Poolable(Protocol):
    """A part of the vectors of words; what stands behind the end of a text never counts."""

    @property
    def values(self) -> Tensor:
        """What is pooled, (batch, words, size)."""
        ...

    @property
    def dim(self) -> int:
        """How many numbers it adds to a word's vector."""
        ...

    def scores(self, weight: Tensor) -> Tensor:
        """Each word's vector times the weight, (batch, words)."""
        ...

    def summed(self, weights: Tensor) -> Tensor:
        """Sums of the words, each with a weight, (batch, sums, words): (batch, sums, dim)."""
        ...

    def highest(self, lengths: Tensor) -> Tensor:
        """The highest value of each number, (batch, dim); 0 for a text without words."""
        ...


@dataclass(frozen=True)
class Vectors:
    """Vectors as they are."""

    values: Tensor  # (batch, words, dim)

    @property
    def dim(self) -> int:
        """How many numbers a vector has."""
        return self.values.shape[2]

    def scores(self, weight: Tensor) -> Tensor:
        """One product."""
        return self.values @ weight

    def summed(self, weights: Tensor) -> Tensor:
        """One product."""
        return weights.bmm(self.values)

    def highest(self, lengths: Tensor) -> Tensor:
        """Of words before the end of the shortest text and of those behind it, each for itself."""
        shortest = int(lengths.min())
        # Only what lies behind the end of the shortest text need be looked at for padding.
        whole, rest = self.values[:, :shortest], self.values[:, shortest:]
        found = [_highest(whole)] if shortest else []
        if rest.shape[1]:
            found.append(_highest(rest.masked_fill(_outside(rest, lengths, shortest), -torch.inf)))
        highest = torch.maximum(*found) if len(found) == 2 else found[0]
        return highest if shortest else highest.where(lengths[:, None] > 0, 0)


@dataclass(frozen=True)
class SumOfLayers:
    """Layers that do not learn, each times a factor that does."""

    layers: PackedLayers
    values: Tensor  # (batch, words, size): the layers in single precision
    factors: Tensor  # (1 + layers,)

    @classmethod
    def of(cls, layers: PackedLayers, factors: Tensor) -> SumOfLayers:
        """The sum is never written out but to find its highest values."""
        return cls(layers, layers.exact, factors)

    @property
    def dim(self) -> int:
        """As many numbers as a layer has."""
        return 2 * self.layers.width

    def scores(self, weight: Tensor) -> Tensor:
        """One product with the weights of all layers side by side."""
        return self.values @ self.layers.folded((self.factors[:, None] * weight).flatten())

    def summed(self, weights: Tensor) -> Tensor:
        """The sums of each layer, then the sum of the layers."""
        return self._mixed(self.layers.spread(weights.bmm(self.values)))

    def highest(self, lengths: Tensor) -> Tensor:
        """What the layers have where their sum is highest, and the sum of that."""
        with torch.no_grad():
            written = self.layers.summed(self.factors)
            if not self.factors.requires_grad:
                return Vectors(written).highest(lengths)
            shortest = int(lengths.min())
            rest = written[:, shortest:]
            rest.masked_fill_(_outside(rest, lengths, shortest), -torch.inf)
            layers = self.layers.at(written.max(dim=1).indices)
        return self._mixed(layers)

    def _mixed(self, layers: Tensor) -> Tensor:
        return torch.einsum("l,...ld->...d", self.factors, layers)


def _outside(rest: Tensor, lengths: Tensor, first: int) -> Tensor:
    """Which of the words from a place on are padding, (batch, words, 1)."""
    places = torch.arange(first, first + rest.shape[1], device=lengths.device)
    return (places >= lengths[:, None])[:, :, None]


def _highest(vectors: Tensor) -> Tensor:
    """The maximum over the words; for a gradient, one that remembers where it was."""
    return vectors.max(dim=1).values if vectors.requires_grad else vectors.amax(dim=1)


# Encoded words become a text: fixed poolings, and one that learns which words matter.


class TextPooling(nn.Module):
    """Pools words, (batch, words, dim), into texts, (batch, output_dim); padding never counts.

    A word's vector may come in parts, which count as if they lay side by side. To join them would
    copy them all, and would make a gradient for those that do not learn.

    All but the maximum are sums of the words, each with a weight, and are computed together.
    """

    def __init__(self, dim: int, poolings: Sequence[str]) -> None:
        super().__init__()
        self.poolings = tuple(poolings)
        self.output_dim = dim * len(self.poolings)
        attends = "attention" in self.poolings
        self.attention = nn.Linear(dim, 1) if attends else None
        if self.attention is not None:
            # All words alike at first, so that attention starts as the mean.
            nn.init.zeros_(self.attention.weight)
            nn.init.zeros_(self.attention.bias)

    def forward(self, parts: Sequence[Poolable], lengths: Tensor) -> Tensor:
        """Pool; a text without words gives zeros."""
        texts, words, _ = parts[0].values.shape
        if not words:
            return parts[0].values.new_zeros(texts, self.output_dim)
        places = torch.arange(words, device=lengths.device)
        pooled: dict[str, list[Tensor]] = {}
        sums = [name for name in self.poolings if name != "max"]
        if sums:
            weights = torch.stack(
                [self._weights(name, parts, places, lengths[:, None]) for name in sums], dim=1
            )
            summed = [part.summed(weights).unbind(1) for part in parts]
            pooled = {name: list(some) for name, *some in zip(sums, *summed, strict=True)}
        if "max" in self.poolings:
            pooled["max"] = [part.highest(lengths) for part in parts]
        return torch.cat([part for name in self.poolings for part in pooled[name]], dim=1)

    def _weights(
        self, name: str, parts: Sequence[Poolable], places: Tensor, lengths: Tensor
    ) -> Tensor:
        """The weight of each word, (batch, words): nothing behind the end of a text."""
        inside, dtype = places < lengths, parts[0].values.dtype
        if name == "first":
            return ((places == 0) & inside).to(dtype)
        if name == "last":
            return (places == lengths - 1).to(dtype)
        if self.attention is None or name == "mean":
            return inside.to(dtype) / lengths.clamp(min=1)
        scores = _scores(self.attention, parts).masked_fill(~inside, -torch.inf)
        # Of a text without words all scores are -inf, whose softmax is no number.
        return scores.softmax(dim=1).masked_fill(~inside, 0)


def _scores(attention: nn.Linear, parts: Sequence[Poolable]) -> Tensor:
    """How much each word matters, (batch, words)."""
    weights = torch.split(attention.weight[0], [part.dim for part in parts])
    scores = [part.scores(weight) for part, weight in zip(parts, weights, strict=True)]
    return torch.stack(scores).sum(0) + attention.bias


class TextLayers(NamedTuple):
    """What a biLM knows of the words of some texts, zeros behind the end of each."""

    layers: Tensor | PackedLayers  # (1 + layers, batch, words, dim)
    lengths: Tensor  # (batch,)
    words: Tensor  # (batch, words): numbers of words that have a vector of their own


class ClassifierNetwork(nn.Module):
    """Mixes the layers, adds own word vectors, encodes, pools and scores."""

    def __init__(
        self, config: NetworkConfig, layers: int, dim: int, classes: int, own_vocabulary: int
    ) -> None:
        super().__init__()
        self.config = config
        self.mix = LayerMix(config.mix, layers, dim)
        self.own_words = _own_words(config, own_vocabulary)
        inputs = self.mix.output_dim + config.own_words
        self.encoder = build_encoder(config, inputs)
        encoded = inputs if self.encoder is None else self.encoder.output_dim
        self.output_mix = LayerMix(config.mix, layers, dim) if config.elmo_at_output else None
        if self.output_mix is not None:
            encoded += self.output_mix.output_dim
        self.pooling = TextPooling(encoded, config.poolings)
        self.norm = nn.LayerNorm(self.pooling.output_dim)
        self.hidden = nn.Linear(self.pooling.output_dim, config.hidden) if config.hidden else None
        self.scores = nn.Linear(config.hidden or self.pooling.output_dim, classes)

    @property
    def mixes(self) -> tuple[LayerMix, ...]:
        """The mix at the input and, where there is one, that at the output."""
        return (self.mix,) if self.output_mix is None else (self.mix, self.output_mix)

    def forward(self, texts: TextLayers, random: torch.Generator | None = None) -> Tensor:
        """Score the classes, (batch, classes); `random` draws the dropout, else none is dropped."""
        share = self.config.dropout
        text = self.norm(self.pooling(self._parts(texts, random), texts.lengths))
        text = dropped(text, share, random)
        if self.hidden is not None:
            text = dropped(self.hidden(text).relu(), share, random)
        return self.scores(text)

    def penalty(self) -> Tensor:
        """What the pull of the mixes adds to the loss."""
        return torch.stack([mix.penalty() for mix in self.mixes]).sum()

    def _parts(self, texts: TextLayers, random: torch.Generator | None) -> list[Poolable]:
        """What is pooled of the words: as they are, or as an encoder has read them."""
        factors, layers = self.mix.learned_factors, texts.layers
        if factors is not None and isinstance(layers, PackedLayers) and self._takes_words_as_given:
            return [SumOfLayers.of(layers, factors), *map(Vectors, self._own(texts, random))]
        parts = [self.mix(layers, random), *self._own(texts, random)]
        if random is not None and self.config.word_dropout:
            drawn = torch.rand(texts.words.shape, generator=random, device=texts.words.device)
            kept = (drawn >= self.config.word_dropout)[:, :, None]
            parts = [part * kept for part in parts]
        if self.encoder is not None:
            parts = [_encoded(self.encoder, torch.cat(parts, dim=2), texts.lengths)]
        if self.output_mix is not None:
            parts.append(self.output_mix(layers, random))
        return [Vectors(part) for part in parts]

    @property
    def _takes_words_as_given(self) -> bool:
        return self.encoder is None and not self.config.word_dropout

    def _own(self, texts: TextLayers, random: torch.Generator | None) -> list[Tensor]:
        """Own vectors of the words, where there are any."""
        if self.own_words is None:
            return []
        return [dropped(self.own_words(texts.words), self.config.dropout, random)]


def seeded_network(
    config: NetworkConfig, seed: int, *, layers: int, dim: int, classes: int, own_vocabulary: int
) -> ClassifierNetwork:
    """A network whose first weights follow from the seed alone."""
    # They are drawn from torch's one source of chance: set it, then put it back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ClassifierNetwork(config, layers, dim, classes, own_vocabulary)


def _own_words(config: NetworkConfig, vocabulary: int) -> nn.Embedding | None:
    if not config.own_words:
        return None
    own = nn.Embedding(vocabulary, config.own_words, sparse=True)
    # Small, so that at first the biLM has the say; words without a vector of their own stay silent.
    nn.init.normal_(own.weight, std=0.1)
    with torch.no_grad():
        own.weight[UNKNOWN].zero_()
    return own


def _encoded(encoder: LSTMEncoder | AttentionEncoder, vectors: Tensor, lengths: Tensor) -> Tensor:
    if not vectors.shape[1]:
        return vectors.new_zeros(len(vectors), 0, encoder.output_dim)
    return encoder(vectors, lengths)

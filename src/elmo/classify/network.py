"""The network of a classifier: layers of words in, a score for each class out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.classify.config import NetworkConfig
from elmo.classify.encoders import AttentionEncoder, LSTMEncoder, build_encoder
from elmo.classify.poolable import Poolable, SumOfLayers, Vectors
from elmo.classify.text_pooling import TextPooling
from elmo.contextual.dropout import dropped
from elmo.contextual.mix import LayerMix
from elmo.contextual.packed import PackedLayers
from elmo.text.vocabulary import UNKNOWN


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

"""The model as a layer of people's own networks, with a mix that learns with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.embed.config import MixConfig
from elmo.embed.embedder import tokenised
from elmo.embed.mix import LayerMix
from elmo.errors import UserError
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import Text
from elmo.text.batching import pack_texts


class Embedded(NamedTuple):
    """The vectors of a batch of texts, zeros after the end of each."""

    vectors: Tensor  # (batch, words, output_dim)
    mask: Tensor  # (batch, words), True where there is a word


class TextLayers(NamedTuple):
    """All layers of a batch of texts, zeros after the end of each."""

    layers: Tensor  # (1 + layers, batch, words, 2 * width)
    mask: Tensor  # (batch, words), True where there is a word


class ElmoEmbedding(nn.Module):
    """Words in context as vectors: a biLM, frozen unless told otherwise, under a mix.

    For a second mix of the same layers, as at the output of a network, give `layers` of a batch to
    a LayerMix of your own. Add `mix.penalty()` to your loss if the mix has a pull.
    """

    def __init__(
        self, loaded: LanguageModel, mix: MixConfig | None = None, *, freeze: bool = True
    ) -> None:
        super().__init__()
        self._loaded = loaded
        self.bilm = loaded.model
        self.frozen = freeze
        self.mix = LayerMix(
            mix or MixConfig(), 1 + self.bilm.config.layers, 2 * self.bilm.config.width
        ).to(self.bilm.device)
        self._random: torch.Generator | None = None
        if freeze:
            self.bilm.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls, path: Path | str, mix: MixConfig | None = None, *, freeze: bool = True
    ) -> ElmoEmbedding:
        """Open a model folder, or official files."""
        return cls(open_model(path), mix, freeze=freeze)

    @property
    def output_dim(self) -> int:
        """The size of a word's vector."""
        return self.mix.output_dim

    def forward(self, texts: Sequence[Text]) -> Embedded:
        """The vectors of texts, given as strings or as words; dropout falls in training only."""
        layers, mask = self.layers(texts)
        mixed = self.mix(layers, self._generator() if self.training else None)
        return Embedded(mixed * mask[:, :, None], mask)

    def layers(self, texts: Sequence[Text]) -> TextLayers:
        """All layers of texts, for mixes; gradients flow to the biLM unless it is frozen."""
        if isinstance(texts, str) or not len(texts):
            raise UserError("expected a list of texts, each a string or a list of words")
        words = [text.words for text in tokenised(self._loaded, texts)]
        batch = pack_texts(words, self.bilm.vocabulary, spelled=self.bilm.spelled)
        with torch.no_grad() if self.frozen else nullcontext():
            return TextLayers(*self.bilm.layers(batch.to(self.bilm.device)).padded())

    def _generator(self) -> torch.Generator:
        """The source of dropout, seeded by the mix's settings."""
        device = self.bilm.device
        if self._random is None or self._random.device != device:
            self._random = torch.Generator(device).manual_seed(self.mix.config.mix_seed)
        return self._random

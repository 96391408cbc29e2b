"""ELMo as an nn.Module: a biLM under a trainable mix, inside a network of your own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.config import SHIPPED
from elmo.embed.config import MixConfig, MixKind
from elmo.embed.embedder import tokenised
from elmo.embed.mix import LayerMix
from elmo.errors import UserError
from elmo.language_model import LanguageModel, require_loaded
from elmo.model_folder import Text


class Embedded(NamedTuple):
    """The vectors of a batch of texts, zeros after the end of each."""

    vectors: Tensor  # (batch, words, output_dim)
    mask: Tensor  # (batch, words), True where there is a word


class TextLayers(NamedTuple):
    """All layers of a batch of texts, zeros after the end of each."""

    layers: Tensor  # (1 + layers, batch, words, 2 * width)
    mask: Tensor  # (batch, words), True where there is a word


class ElmoLayer(nn.Module):
    """Contextual word vectors: a biLM, by default frozen, and a mix of its layers that learns.

    >>> elmo = ElmoLayer.from_pretrained(mix="trainable")
    >>> vectors, mask = elmo(["Oil prices fell .", "It rained ."])
    >>> vectors.shape, mask.sum(1).tolist()
    (torch.Size([2, 4, 512]), [4, 3])

    For a second mix of the same layers, as at the output of a network, call `layers` and pass them
    to a `LayerMix` of your own. If the mix is regularised, add `mix.penalty()` to the loss.
    """

    def __init__(
        self,
        loaded: LanguageModel,
        mix: MixConfig | MixKind = "trainable",
        *,
        freeze: bool = True,
    ) -> None:
        super().__init__()
        self._loaded = require_loaded(loaded, "ElmoLayer")
        self.bilm = loaded.model
        self.frozen = freeze
        config = mix if isinstance(mix, MixConfig) else MixConfig(mix=mix)
        layers, width = 1 + self.bilm.config.layers, 2 * self.bilm.config.width
        self.mix = LayerMix(config, layers, width).to(self.bilm.device)
        self._random: torch.Generator | None = None
        if freeze:
            self.bilm.requires_grad_(False)

    @classmethod
    def from_pretrained(
        cls,
        path: Path | str = SHIPPED,
        mix: MixConfig | MixKind = "trainable",
        *,
        freeze: bool = True,
        device: str = "cpu",
    ) -> ElmoLayer:
        """Load a model.

        Args:
            path: a model folder, a name, …, as in `Embedder.from_pretrained`; "default" is the
                model that comes with elmo.
            mix: "trainable", "frozen", "function", "average", …, or a `MixConfig`.
            freeze: train the mix alone; otherwise the biLM learns too.
            device: "cpu", "cuda", …; `.to(device)` moves the layer later, too.
        """
        return cls(LanguageModel.from_pretrained(path, device), mix, freeze=freeze)

    @property
    def output_dim(self) -> int:
        """Size of a word vector."""
        return self.mix.output_dim

    def forward(self, texts: Sequence[Text]) -> Embedded:
        """The vectors of texts, each a string or a list of words; dropout in training mode only."""
        layers, mask = self.layers(texts)
        mixed = self.mix(layers, self._generator() if self.training else None)
        return Embedded(mixed * mask[:, :, None], mask)

    def layers(self, texts: Sequence[Text]) -> TextLayers:
        """All layers of texts; gradients flow to the biLM unless it is frozen."""
        if isinstance(texts, str) or not len(texts):
            raise UserError("expected a list of texts, each a string or a list of words")
        words = [text.words for text in tokenised(self._loaded, texts)]
        with torch.no_grad() if self.frozen else nullcontext():
            return TextLayers(*self.bilm.layers(self.bilm.pack(words)).padded())

    def _generator(self) -> torch.Generator:
        device = self.bilm.device
        if self._random is None or self._random.device != device:
            self._random = torch.Generator(device).manual_seed(self.mix.config.mix_seed)
        return self._random

"""Texts moved to where they hurt most, to be learned from a second time (Miyato et al. 2017).

The gradient of a loss tells where a small step of the words' vectors does most harm. Who is right
there as well has learned more than the training texts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.bilm.model import BiLM, Randomness
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.classify.text_rows import TextRows
from elmo.text.apart import words_apart

TINY = 1e-30


class MovableTexts:
    """Some texts, the vectors of whose words can be moved, in each text for itself.

    Moves are (words, width + own): what is added to a word's vector in the biLM, and to its own.
    """

    def __init__(
        self, texts: TextRows, rows: Sequence[int], model: BiLM, network: ClassifierNetwork
    ) -> None:
        apart = words_apart(texts.batch(rows, model))
        self._batch = apart.batch.to(model.device)
        self._text = apart.text.to(model.device)
        # Behind a boundary the forward direction reads the words in their order.
        self._places = self._batch.forward.inputs[1:].t()  # (batch, words)
        self._texts, self._rows = texts, rows
        self._model, self._own = model, network.own_words

    def unmoved(self) -> Tensor:
        """No moves, but with a gradient that tells where to."""
        own = 0 if self._own is None else self._own.embedding_dim
        shape = (len(self._text), self._model.config.width + own)
        return torch.zeros(shape, device=self._model.device, requires_grad=True)

    def read(self, moves: Tensor, random: Randomness | None) -> TextLayers:
        """Read the texts where these moves have taken them."""
        width = self._model.config.width
        read = self._texts.read_batch(
            self._batch, self._rows, self._model, random, moves[:, :width]
        )
        if self._own is None:
            return read
        return read._replace(own_shift=moves[:, width:][self._places])

    @torch.no_grad()
    def worst(self, gradient: Tensor, reach: float) -> Tensor:
        """The moves that raise the loss most, as long in each text as `reach` times all vectors of
        its words."""
        lengths, slopes = self._squares(self._vectors()), self._squares(gradient)
        scale = reach * (lengths / slopes.clamp(min=TINY)).sqrt()
        return gradient * scale[self._text][:, None]

    def _vectors(self) -> Tensor:
        """What moves are added to; boundaries have no vector of their own."""
        vectors = self._model.token_layer(self._batch.words)
        if self._own is None:
            return vectors
        numbers = self._texts.own_numbers(self._rows).to(self._model.device)
        own = vectors.new_zeros(len(vectors), self._own.embedding_dim)
        inside = numbers.new_tensor(self._texts.lengths_of(self._rows))[:, None]
        inside = torch.arange(numbers.shape[1], device=numbers.device) < inside
        own[self._places[inside]] = self._own(numbers[inside])
        return torch.cat([vectors, own], dim=1)

    def _squares(self, vectors: Tensor) -> Tensor:
        """The squared length of each text's vectors, all words together, (batch,)."""
        found = vectors.new_zeros(len(self._rows))
        return found.index_add_(0, self._text, vectors.square().sum(1))

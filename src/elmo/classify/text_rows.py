"""Texts cut into words once, and read by the biLM as often as need be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM, LayerActivations, Randomness
from elmo.checkpoint import LoadedModel, Text
from elmo.classify.network import TextLayers
from elmo.classify.own_words import own_numbers
from elmo.contextual.groups import read_alike, usual_batch_tokens
from elmo.contextual.portions import tokenised
from elmo.contextual.reading import read_layers
from elmo.text.batches import Batch, sentence_batch
from elmo.text.vocabulary import UNKNOWN, Vocabulary

log = logging.getLogger(__name__)

Rows = NDArray[np.int64]
OnTexts = Callable[[int, int], None]
"""Told how many more texts, and words of them, are done."""
TOKENS_AT_ONCE = 1 << 17
"""Of many texts, so many words are sorted by length and read together."""


@dataclass(frozen=True)
class TextRows:
    """The words of each text."""

    words: list[list[str]]
    own: Vocabulary
    """The words that have vectors of their own."""
    lower_case: bool = False
    """Whether words without one take that of their lower-case form."""
    _numbers: dict[int, NDArray[np.int32]] = field(
        default_factory=dict[int, NDArray[np.int32]], init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def lengths(self) -> Rows:
        """How many words each text has."""
        return self.lengths_of(range(len(self.words)))

    def lengths_of(self, rows: Sequence[int]) -> Rows:
        """How many words some of the texts have."""
        return np.array([len(self.words[row]) for row in rows], np.int64)

    def own_numbers(self, rows: Sequence[int]) -> torch.Tensor:
        """The numbers of the words of some texts, (texts, words), unknown behind each end."""
        texts = [self._numbers_of(row) for row in rows]
        numbers = np.full((len(rows), max(map(len, texts))), UNKNOWN, np.int64)
        for place, text in enumerate(texts):
            numbers[place, : len(text)] = text
        return torch.from_numpy(numbers)

    def _numbers_of(self, row: int) -> NDArray[np.int32]:
        """Looked up when a text is read for the first time, not in every epoch."""
        found = self._numbers.get(row)
        if found is None:
            found = own_numbers(self.own, self.words[row], self.lower_case)
            self._numbers[row] = found
        return found

    def batch(self, rows: Sequence[int], model: BiLM) -> Batch:
        """Some texts side by side, as the biLM reads them."""
        texts = [self.words[row] for row in rows]
        return sentence_batch(texts, model.vocabulary, spelled=model.config.spelled)

    def read(
        self, rows: Sequence[int], model: BiLM, random: Randomness | None = None
    ) -> TextLayers:
        """Read some texts side by side; gradients flow to the biLM if they are on."""
        lengths: list[int] = self.lengths_of(rows).tolist()
        batch = self.batch(rows, model)
        read = read_layers(model, [batch], lengths, window=max(lengths) + 2, random=random)
        return TextLayers(read.layers, read.lengths, self.own_numbers(rows).to(model.device))

    @torch.no_grad()
    def read_all(self, model: BiLM) -> Iterator[tuple[list[int], LayerActivations]]:
        """Read every text once, those of like length side by side; gives the rows read as well."""
        for first, some in _portions(self.words):
            for group in read_alike(model, some, usual_batch_tokens(model)):
                yield [first + number for number in group.texts], group.activations


def cut_into_words(loaded: LoadedModel, texts: Iterable[Text], max_words: int) -> list[list[str]]:
    """Cut texts as the biLM's training text was cut, and no longer than so many words."""
    cut = [text.words for text in tokenised(loaded, texts)]
    long = sum(len(words) > max_words for words in cut)
    if long:
        log.warning("texts cut to their first %d words: %d of %d", max_words, long, len(cut))
    return [words[:max_words] for words in cut]


def _portions(texts: Sequence[list[str]]) -> Iterator[tuple[int, Sequence[list[str]]]]:
    """Texts of about so many words at a time, with the number of the first."""
    ends = np.cumsum([1 + len(words) for words in texts])
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, before + TOKENS_AT_ONCE)) + 1
        yield first, texts[first:last]
        first = last

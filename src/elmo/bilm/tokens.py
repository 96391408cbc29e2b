"""The token layer: each distinct word, by id, by spelling or both, becomes one vector."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.blocks import by_length, in_blocks, needed_lengths
from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.bilm.word_cache import WordCache
from elmo.text.batches import Words
from elmo.text.characters import CHARACTER_IDS

WORD_SPREAD = 0.3
"""Of the first word vectors: smaller ones say too little to the LSTM, larger ones too much to a
tied softmax."""


class FewRowsLinear(nn.Linear):
    """A linear layer with the weight as the left factor, which halves the time of a few rows."""

    def forward(self, input: Tensor) -> Tensor:
        """Turn (rows, inputs) into (rows, outputs)."""
        return torch.addmm(self.bias[:, None], self.weight, input.t()).t()


class Highway(nn.Module):
    """g relu(x T + t) + (1 - g) x, where the gate g = sigmoid(x C + c)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = FewRowsLinear(size, size)
        self.transform = FewRowsLinear(size, size)
        for linear in (self.gate, self.transform):
            nn.init.normal_(linear.weight, std=size**-0.5)
        nn.init.constant_(self.gate.bias, -2.0)
        nn.init.zeros_(self.transform.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Mix each feature with a transformed one, (words, size)."""
        gate = self.gate(features).sigmoid()
        return gate * self.transform(features).relu() + (1 - gate) * features


class CharacterCNN(nn.Module):
    """Convolutions of several widths over a word's characters, maximum, highways."""

    def __init__(self, config: CharacterConfig) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTER_IDS, config.char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_dim, number, width) for width, number in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.features) for _ in range(config.highways))
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        nn.init.uniform_(self.characters.weight, -1, 1)
        nn.init.zeros_(self.characters.weight[0])

    @property
    def reach(self) -> int:
        """How many characters the widest filter sees at a time."""
        return max(filters.kernel_size[0] for filters in self._filters)

    @property
    def _filters(self) -> list[nn.Conv1d]:
        return [cast("nn.Conv1d", filters) for filters in self.convolutions]

    def forward(self, spellings: Tensor) -> Tensor:
        """Turn (words, 50) character ids into (words, features)."""
        longest = int(needed_lengths(spellings, self.reach).max()) if len(spellings) else self.reach
        return self.transform(self.convolve(spellings[:, :longest]))

    def convolve(self, spellings: Tensor) -> Tensor:
        """Each filter's maximum over a word's characters, (words, features)."""
        characters = self.characters(spellings)  # (words, characters, char_dim)
        return torch.cat(
            [
                self.activation(filtered(characters, filters).amax(dim=1))
                for filters in self._filters
            ],
            dim=1,
        )

    def transform(self, features: Tensor) -> Tensor:
        """Send (words, features) through the highways."""
        for highway in self.highways:
            features = highway(features)
        return features


def filtered(characters: Tensor, filters: nn.Conv1d) -> Tensor:
    """The filters at each place, (words, places, filters), as one product of all windows.

    It is what `filters(characters.transpose(1, 2))` gives, in less time: a word is so short that a
    convolution has nothing to gain from being one.
    """
    windows = characters.unfold(1, filters.kernel_size[0], 1)  # (words, places, char_dim, width)
    return functional.linear(windows.flatten(2), filters.weight.flatten(1), filters.bias)


class TokenLayer(nn.Module):
    """Word vector, character features or both, projected to the width of the model."""

    def __init__(self, config: BiLMConfig, vocabulary: int) -> None:
        super().__init__()
        self.words = (
            None if config.input == "characters" else nn.Embedding(vocabulary, config.word_dim)
        )
        self.characters = CharacterCNN(config.characters) if config.spelled else None
        parts = (config.word_dim if self.words is not None else 0) + (
            config.characters.features if self.characters is not None else 0
        )
        needs_projection = config.spelled or parts != config.width
        self.projection = FewRowsLinear(parts, config.width) if needs_projection else None
        self.cache = WordCache()
        if self.words is not None:
            nn.init.normal_(self.words.weight, std=WORD_SPREAD)
            self.words.weight.requires_grad_(not config.freeze_words)

    @property
    def word_vectors(self) -> nn.Parameter | None:
        """The vectors of the vocabulary, where the model has them."""
        return None if self.words is None else cast("nn.Parameter", self.words.weight)

    def forward(self, words: Words) -> Tensor:
        """Return (words, width); what is computed without gradients is remembered."""
        if not self._remembers(words):
            return self.compute(words)
        return self.cache.look_up(words, list(self.parameters()), self._compute_each)

    def compute(self, words: Words) -> Tensor:
        """Return (words, width), all of it computed now."""
        spelled = None
        if self.characters is not None:
            spelled = self.characters(cast("Tensor", words.spellings))
        return self._joined(words.ids, spelled)

    def _compute_each(self, words: Words) -> Tensor:
        """The same, each word as if it were alone: its bits do not depend on the others."""
        characters = cast("CharacterCNN", self.characters)
        spellings = cast("Tensor", words.spellings)

        def rest(ids: Tensor, features: Tensor) -> Tensor:
            return self._joined(ids, characters.transform(features))

        features = by_length(characters.convolve, spellings, characters.reach)
        return in_blocks(rest, words.ids, features)

    def _joined(self, ids: Tensor, spelled: Tensor | None) -> Tensor:
        """Put what is known of words by id and by spelling together."""
        parts = [] if self.words is None else [self.words(ids)]
        parts += [] if spelled is None else [spelled]
        features = torch.cat(parts, dim=1)
        return features if self.projection is None else self.projection(features)

    def _remembers(self, words: Words) -> bool:
        """Whether vectors are worth keeping: no gradient is wanted, and changes can be seen."""
        if self.characters is None or not len(words.ids):
            return False
        weights = list(self.parameters())
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return False
        has_versions = not any(weight.is_inference() for weight in weights)
        return has_versions and not torch.is_autocast_enabled(words.ids.device.type)


def look_up(vectors: Tensor, places: Tensor) -> Tensor:
    """Spread the vectors of distinct words over a reading: (time, batch, width)."""
    return functional.embedding(places, vectors)

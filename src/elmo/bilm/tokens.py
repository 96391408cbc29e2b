"""The token layer: each distinct word, by id, by spelling or both, becomes one vector."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.bilm.lstm import WeightsSnapshot
from elmo.text.batching import Words
from elmo.text.vocabulary import CHARACTER_IDS, PADDING, ROW_LENGTH, SHIFT

# Words computed in blocks of fixed shapes, so that the vector of none depends on the others.
#
# A matrix product of another size may round in another way. Where the same word must give the same
# bits whatever is computed beside it, as many rows as a block has are computed each time.


ROWS = 16
"""Words in a block."""
SPELLED_ROWS = 8
"""The same of spellings, of which there are blocks of several lengths, and so more to fill up."""
LENGTHS = (16, 24, ROW_LENGTH)
"""Characters to which spellings are cut."""


def in_blocks(function: Callable[..., Tensor], *tensors: Tensor, rows: int = ROWS) -> Tensor:
    """A function of rows, so many at a time; the last block is filled up with rows once more."""
    number = len(tensors[0])
    padded = -(-number // rows) * rows
    places = torch.arange(padded, device=tensors[0].device) % number
    blocks = [function(*(one[block] for one in tensors)) for block in places.view(-1, rows)]
    return torch.cat(blocks)[:number]


def by_length(function: Callable[[Tensor], Tensor], spellings: Tensor, reach: int) -> Tensor:
    """A function of spellings, (rows, 50), each cut to a length that follows from it alone."""
    needed = needed_lengths(spellings, reach)
    limits = torch.tensor(LENGTHS, device=needed.device)
    kinds = torch.searchsorted(limits, needed)
    found: list[Tensor] = []
    order: list[Tensor] = []
    for kind, length in enumerate(LENGTHS):
        places = (kinds == kind).nonzero()[:, 0]
        if len(places):
            found.append(in_blocks(function, spellings[places, :length], rows=SPELLED_ROWS))
            order.append(places)
    return torch.cat(found)[torch.cat(order).argsort()]


def needed_lengths(spellings: Tensor, reach: int) -> Tensor:
    """How much of each spelling a filter of this reach must see.

    Behind the word and one window of padding, all windows are like that one: none is a new maximum.
    """
    return ((spellings != PADDING + SHIFT).sum(dim=1) + reach).clamp(max=ROW_LENGTH)


# Vectors of words seen before: while the weights stay as they are, each is computed once.


MOST_WORDS = 1 << 16
"""Words kept; each takes about 0.5 kB and its vector. Those not used for longest are forgotten."""

Compute = Callable[[Words], Tensor]


class WordCache:
    """Keeps so many vectors, and forgets them all when a weight they came from changes.

    What cannot be seen is a write to single numbers of `weight.data`: call `clear` then.
    """

    def __init__(self, most_words: int = MOST_WORDS) -> None:
        self.most_words = most_words
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._vectors: Tensor | None = None
        self._weights: WeightsSnapshot | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[WordCache], tuple[int]]:
        """A copy of a model starts with an empty cache of its own."""
        return WordCache, (self.most_words,)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._clear()

    def look_up(self, words: Words, weights: Sequence[Tensor], compute: Compute) -> Tensor:
        """The vectors of words, (words, width), those not known made of the weights now.

        What `compute` makes of a word must not depend on the others it is given.
        """
        keys = _keys(words)
        with self._lock:
            self._forget_if_changed(weights)
            if len(keys) > self.most_words:
                return compute(words)
            new = {key: place for place, key in enumerate(keys) if key not in self._rows}
            for key in keys:
                if key in self._rows:
                    self._rows.move_to_end(key)
            if new:
                self._add(list(new), compute(_select(words, list(new.values()))))
            assert self._vectors is not None
            rows = torch.tensor([self._rows[key] for key in keys], device=self._vectors.device)
            return self._vectors[rows]

    def _forget_if_changed(self, weights: Sequence[Tensor]) -> None:
        now = WeightsSnapshot.of(weights)
        if self._weights is None or not self._weights.is_still(now):
            self._clear()
            self._weights = now

    def _clear(self) -> None:
        self._rows.clear()
        self._vectors = None
        self._weights = None

    def _add(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Take free rows, then those of the words that were not used for longest."""
        table = self._table(len(self._rows) + len(keys), vectors)
        rows: list[int] = []
        for key in keys:
            is_full = len(self._rows) == self.most_words
            row = self._rows.popitem(last=False)[1] if is_full else len(self._rows)
            self._rows[key] = row
            rows.append(row)
        table[torch.tensor(rows, device=table.device)] = vectors

    def _table(self, words: int, like: Tensor) -> Tensor:
        """Room for so many words, or for as many as are kept at most."""
        old = self._vectors
        if old is None or len(old) < min(words, self.most_words):
            # Even if gradients are switched off for good here, they may not be so next time.
            with torch.inference_mode(False):
                size = min(self.most_words, max(1024, 2 * words))
                self._vectors = like.new_empty(size, like.shape[1])
            if old is not None:
                self._vectors[: len(old)] = old
        assert self._vectors is not None
        return self._vectors


def _select(words: Words, places: list[int]) -> Words:
    spellings = None if words.spellings is None else words.spellings[places]
    return Words(words.ids[places], spellings)


def _keys(words: Words) -> list[bytes]:
    """What tells words apart: id and spelling."""
    parts = [words.ids[:, None]] + ([] if words.spellings is None else [words.spellings])
    table = torch.cat(parts, dim=1).int().cpu().numpy()
    return [row.tobytes() for row in table]


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

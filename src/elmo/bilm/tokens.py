"""The token layer: each distinct word, by id, by spelling or both, becomes one vector."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import RLock
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.bilm.lstm import WeightsSnapshot
from elmo.text.batching import Words
from elmo.text.vocabulary import CHARACTER_IDS, PADDING, ROW_LENGTH, SHIFT, Vocabulary

# Words are computed in blocks of fixed shapes: a matrix product of another size may round in
# another way, and the vector of a word must not depend, even in its last bits, on other words.
ROWS = 16  # words per block
SPELLED_ROWS = 8  # spellings per block; fewer, since there are blocks for each of several lengths
LENGTHS = (16, 24, ROW_LENGTH)  # numbers of characters to which longer rows are cut


def in_blocks(function: Callable[..., Tensor], *tensors: Tensor, rows: int = ROWS) -> Tensor:
    """Apply a function of rows to blocks of `rows` rows; repeated rows fill the last block."""
    count = len(tensors[0])
    indices = torch.arange(-(-count // rows) * rows, device=tensors[0].device) % count
    blocks = [function(*(tensor[block] for tensor in tensors)) for block in indices.view(-1, rows)]
    return torch.cat(blocks)[:count]


def by_length(
    function: Callable[[Tensor], Tensor],
    spellings: Tensor,
    reach: int,
    padding: int = PADDING + SHIFT,
) -> Tensor:
    """Apply a function to spellings, (rows, 50), each cut to a length that depends on it alone."""
    lengths = needed_lengths(spellings, reach, padding)
    cuts = (*(length for length in LENGTHS if length < spellings.shape[1]), spellings.shape[1])
    buckets = torch.searchsorted(torch.tensor(cuts, device=lengths.device), lengths)
    results: list[Tensor] = []
    order: list[Tensor] = []
    for bucket, length in enumerate(cuts):
        indices = (buckets == bucket).nonzero()[:, 0]
        if len(indices):
            results.append(in_blocks(function, spellings[indices, :length], rows=SPELLED_ROWS))
            order.append(indices)
    return torch.cat(results)[torch.cat(order).argsort()]


def needed_lengths(spellings: Tensor, reach: int, padding: int = PADDING + SHIFT) -> Tensor:
    """How many characters of each spelling a filter of this width must see.

    After the word and one window of padding, all windows equal that one: none is a new maximum.
    """
    return ((spellings != padding).sum(dim=1) + reach).clamp(max=spellings.shape[1])


TRAINED_ROWS = 256
"""Words of similar length that a training step spells at once, cut to the longest of them, not to
the longest of the batch: less than half the time (docs/experiments.md)."""

MOST_WORDS = 1 << 16
"""Size of the cache; a word takes about 0.5 kB plus its vector. The least recently used goes."""

Compute = Callable[[Words], Tensor]


class WordCache:
    """Vectors of words seen before; cleared when a weight that they were computed from changes.

    It cannot see a write to single elements of `weight.data`: call `clear` then.
    """

    def __init__(self, most_words: int = MOST_WORDS) -> None:
        self.most_words = most_words
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._vectors: Tensor | None = None
        self._weights: WeightsSnapshot | None = None
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[WordCache], tuple[int]]:
        """A copy of a model starts with an empty cache of its own."""
        return WordCache, (self.most_words,)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._vectors = None
            self._weights = None

    def look_up(self, words: Words, weights: Sequence[Tensor], compute: Compute) -> Tensor:
        """The vectors of words, (words, width); those not in the cache are computed.

        The result of `compute` for a word must not depend on the other words.
        """
        keys = _keys(words)
        with self._lock:
            now = WeightsSnapshot.of(weights)
            if self._weights is None or not self._weights.is_still(now):
                self.clear()
                self._weights = now
            if len(keys) > self.most_words:
                return compute(words)
            new = {key: index for index, key in enumerate(keys) if key not in self._rows}
            for key in keys:
                if key in self._rows:
                    self._rows.move_to_end(key)
            if new:
                indices = list(new.values())
                spellings = None if words.spellings is None else words.spellings[indices]
                self._add(list(new), compute(Words(words.ids[indices], spellings)))
            assert self._vectors is not None
            rows = torch.tensor([self._rows[key] for key in keys], device=self._vectors.device)
            return self._vectors[rows]

    def _add(self, keys: Sequence[bytes], vectors: Tensor) -> None:
        """Use free rows, then those of the least recently used words."""
        needed, old = min(len(self._rows) + len(keys), self.most_words), self._vectors
        if old is None or len(old) < needed:
            # Inference tensors could not be written to outside of inference mode later.
            with torch.inference_mode(False):
                size = min(self.most_words, max(1024, 2 * needed))
                self._vectors = vectors.new_empty(size, vectors.shape[1])
                if old is not None:
                    self._vectors[: len(old)] = old
        assert self._vectors is not None
        used = len(self._rows)
        rows = list(range(used, needed))
        try:
            rows += [self._rows.popitem(last=False)[1] for _ in range(used + len(keys) - needed)]
            self._vectors[torch.tensor(rows, device=vectors.device)] = vectors
            self._rows.update(zip(keys, rows, strict=True))
        except BaseException:  # Ctrl-C must not leave words with the vectors of others
            self.clear()
            raise


def _keys(words: Words) -> list[bytes]:
    parts = [words.ids[:, None]] + ([] if words.spellings is None else [words.spellings])
    table = torch.cat(parts, dim=1).int().cpu().numpy()
    return [row.tobytes() for row in table]


WORD_SPREAD = 0.3
"""Standard deviation of the initial word vectors: smaller ones hardly reach the LSTM, larger ones
saturate a tied softmax."""


class FewRowsLinear(nn.Linear):
    """A linear layer with the weight as the left factor: half the time for a few rows."""

    def forward(self, input: Tensor) -> Tensor:
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
        gate = self.gate(features).sigmoid()
        return gate * self.transform(features).relu() + (1 - gate) * features


class CharacterCNN(nn.Module):
    """Convolutions of several widths over the characters of a word, max pooling, highways."""

    def __init__(
        self, config: CharacterConfig, ids: int = CHARACTER_IDS, padding: int = PADDING + SHIFT
    ) -> None:
        super().__init__()
        self.padding = padding  # the character after a word: filters see it like any other
        self.characters = nn.Embedding(ids, config.char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.char_dim, number, width) for width, number in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.features) for _ in range(config.highways))
        self.activation = torch.relu if config.activation == "relu" else torch.tanh
        nn.init.uniform_(self.characters.weight, -1, 1)
        nn.init.zeros_(self.characters.weight[0])

    @property
    def reach(self) -> int:
        """Width of the widest filter, in characters."""
        return max(filters.kernel_size[0] for filters in self._filters)

    @property
    def _filters(self) -> list[nn.Conv1d]:
        return [cast("nn.Conv1d", filters) for filters in self.convolutions]

    def forward(self, spellings: Tensor) -> Tensor:
        """Map (words, 50) character ids to (words, features)."""
        lengths = needed_lengths(spellings, self.reach, self.padding)
        order = lengths.argsort(stable=True)
        features: list[Tensor] = []
        blocks = cast(tuple[Tensor, ...], order.split(TRAINED_ROWS))  # untyped in torch
        for block in blocks:
            longest = int(lengths[block[-1]]) if len(block) else self.reach
            features.append(self.convolve(spellings[block, :longest]))
        return self.transform(torch.cat(features)[order.argsort()])

    def convolve(self, spellings: Tensor) -> Tensor:
        """The maximum of each filter over the characters of a word, (words, features)."""
        characters = self.characters(spellings)  # (words, characters, char_dim)
        # `max`, which keeps the indices, rather than `amax`, whose gradient compares all again.
        maxima = (filtered(characters, filters).max(dim=1).values for filters in self._filters)
        return torch.cat([self.activation(maximum) for maximum in maxima], dim=1)

    def transform(self, features: Tensor) -> Tensor:
        for highway in self.highways:
            features = highway(features)
        return features


def filtered(characters: Tensor, filters: nn.Conv1d) -> Tensor:
    """The filters at each position, (words, positions, filters), as one product of all windows.

    Equal to `filters(characters.transpose(1, 2))`, but faster: words are too short for the
    convolution kernels of torch to pay.
    """
    windows = characters.unfold(1, filters.kernel_size[0], 1)  # (words, positions, char_dim, width)
    return functional.linear(windows.flatten(2), filters.weight.flatten(1), filters.bias)


class TokenLayer(nn.Module):
    """Word vector, character features or both, projected to the width of the model."""

    def __init__(self, config: BiLMConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.words = (
            None if config.input == "characters" else nn.Embedding(len(vocabulary), config.word_dim)
        )
        self.characters = None
        if config.spelled:
            ids, padding = vocabulary.character_ids, vocabulary.padding
            self.characters = CharacterCNN(config.characters, ids, padding)
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
        """Return (words, width); without gradients, vectors come from the cache."""
        with torch.autocast(words.ids.device.type, enabled=False):  # `compute_dtype` is the switch
            if not self._can_cache(words):
                return self.compute(words)
            return self.cache.look_up(words, list(self.parameters()), self._compute_each)

    def compute(self, words: Words) -> Tensor:
        """Return (words, width), computed without the cache."""
        spelled = None
        if self.characters is not None:
            spelled = self.characters(cast("Tensor", words.spellings))
        return self._joined(words.ids, spelled)

    def _compute_each(self, words: Words) -> Tensor:
        """The same, bitwise independent of the other words."""
        characters = cast("CharacterCNN", self.characters)
        spellings = cast("Tensor", words.spellings)

        def rest(ids: Tensor, features: Tensor) -> Tensor:
            return self._joined(ids, characters.transform(features))

        features = by_length(characters.convolve, spellings, characters.reach, characters.padding)
        return in_blocks(rest, words.ids, features)

    def _joined(self, ids: Tensor, spelled: Tensor | None) -> Tensor:
        parts = [] if self.words is None else [self.words(ids)]
        parts += [] if spelled is None else [spelled]
        features = torch.cat(parts, dim=1)
        return features if self.projection is None else self.projection(features)

    def _can_cache(self, words: Words) -> bool:
        """Whether caching pays (characters), and a change of the weights would be noticed."""
        if self.characters is None or not len(words.ids):
            return False
        weights = list(self.parameters())
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
            return False
        return not any(weight.is_inference() for weight in weights)

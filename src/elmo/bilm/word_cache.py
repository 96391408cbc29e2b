"""Vectors of words seen before: while the weights stay as they are, each is computed once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

import torch
from torch import Tensor

from elmo.bilm.weights_seen import WeightsSeen
from elmo.text.batches import Words

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
        self._weights: WeightsSeen | None = None
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
        now = WeightsSeen.of(weights)
        if self._weights is None or not self._weights.are_still(now):
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

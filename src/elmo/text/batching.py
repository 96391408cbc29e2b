"""What the model reads: the distinct words of a batch, and each direction's path through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.text.config import Batching
from elmo.text.corpus import Shard, Shards
from elmo.text.vocabulary import BEGIN, END, Vocabulary, spell_all

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """Each distinct word of a batch once: its vocabulary id and, if wanted, its spelling."""

    ids: Tensor  # (words,)
    spellings: Tensor | None  # (words, 50)

    def to(self, device: torch.device) -> Words:
        """The same words on another device."""
        spellings = None if self.spellings is None else self.spellings.to(device)
        return Words(self.ids.to(device), spellings)


@dataclass(frozen=True)
class Rows:
    """Which rows of a larger batch these are: every `step`-th from `first` on."""

    first: int
    step: int
    total: int
    """How many rows the larger batch has."""

    @property
    def places(self) -> slice:
        """The rows themselves."""
        return slice(self.first, self.total, self.step)

    def __len__(self) -> int:
        return len(range(self.total)[self.places])


@dataclass(frozen=True)
class Reading:
    """What one direction reads, in its own reading order, and what it must predict on the way.

    A backward reading is simply the text from its end: the model itself reverses nothing.
    """

    inputs: Tensor  # (time, batch), places in Words
    lengths: Tensor  # (batch,), steps before the padding
    asked: Tensor  # (targets,), the steps, counted through (time, batch), that have a target
    targets: Tensor  # (targets,), the vocabulary ids to be predicted there
    rows: Rows | None = None
    """Where its rows stand, if they are a part of a larger batch."""

    def to(self, device: torch.device) -> Reading:
        """The same reading on another device."""
        return Reading(
            self.inputs.to(device),
            self.lengths.to(device),
            self.asked.to(device),
            self.targets.to(device),
            self.rows,
        )


@dataclass(frozen=True)
class Batch:
    """Two readings of the same texts. `starts` is false where they go on from the last batch."""

    words: Words
    forward: Reading
    backward: Reading
    starts: bool = True

    @property
    def readings(self) -> tuple[Reading, Reading]:
        """The forward and the backward reading."""
        return self.forward, self.backward

    @property
    def targets(self) -> int:
        """How many words the forward direction is asked for."""
        return len(self.forward.targets)

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        readings = (self.forward.to(device), self.backward.to(device))
        return Batch(self.words.to(device), *readings, self.starts)


@dataclass(frozen=True)
class WordTable:
    """How the words of a corpus appear to a model: by vocabulary id and by spelling."""

    words: Sequence[str]
    ids: Ids  # (lexicon,), the vocabulary id of each word of the corpus
    spelled: bool

    @classmethod
    def of(cls, words: Sequence[str], vocabulary: Vocabulary, *, spelled: bool) -> WordTable:
        """See the words of a corpus through a vocabulary."""
        return cls(words, vocabulary.encode(words), spelled)

    def select(self, places: Ids) -> Words:
        """The distinct words at these places."""
        spellings = None
        if self.spelled:
            chosen: list[int] = places.tolist()
            spellings = torch.from_numpy(spell_all([self.words[place] for place in chosen]))
        return Words(torch.from_numpy(self.ids[places]), spellings)


def make_batch(
    forward: Sequence[Ids],
    backward: Sequence[Ids],
    table: WordTable,
    *,
    starts: bool,
    rows: Rows | None = None,
) -> Batch:
    """Put the two readings of some texts side by side.

    Each item holds what a direction reads and, last, the one word it must still predict. `rows`
    tells where they stand, if they are a part of a larger batch.
    """
    forward_ids, forward_lengths = _padded(forward)
    backward_ids, backward_lengths = _padded(backward)
    places, inverse = np.unique(
        np.concatenate([forward_ids.ravel(), backward_ids.ravel()]), return_inverse=True
    )
    split = forward_ids.size
    words = table.select(places)
    ahead, behind = inverse[:split], inverse[split:]
    return Batch(
        words,
        _reading(ahead.reshape(forward_ids.shape), forward_lengths, words.ids, BEGIN, rows),
        _reading(behind.reshape(backward_ids.shape), backward_lengths, words.ids, END, rows),
        starts,
    )


def sentence_batch(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> Batch:
    """Make a batch of tokenised sentences, boundaries added."""
    rows, table = number_words(sentences, vocabulary, spelled=spelled)
    return make_batch(rows, [row[::-1] for row in rows], table, starts=True)


def whole_batch(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> Batch:
    """The same, but each direction reads on through the boundary at its end.

    For embedding: nothing is left to be predicted then, so what is asked for has no meaning.
    """
    rows, table = number_words(sentences, vocabulary, spelled=spelled)
    forward = [np.append(row, END) for row in rows]
    backward = [np.append(row[::-1], BEGIN) for row in rows]
    return make_batch(forward, backward, table, starts=True)


def number_words(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> tuple[list[Ids], WordTable]:
    """Turn tokenised sentences into rows of places in a table of their words, boundaries added."""
    places = {"<S>": BEGIN, "</S>": END}
    rows = [
        np.array(
            [BEGIN, *(places.setdefault(word, len(places)) for word in sentence), END], np.int64
        )
        for sentence in sentences
    ]
    return rows, WordTable.of(list(places), vocabulary, spelled=spelled)


def _padded(rows: Sequence[Ids]) -> tuple[Ids, Ids]:
    """Stack rows time-major, (time, batch), padded by a word that no target asks for."""
    lengths = np.array([len(row) for row in rows], np.int64)
    stacked = np.full((int(lengths.max()), len(rows)), BEGIN, np.int64)
    for column, row in enumerate(rows):
        stacked[: len(row), column] = row
    return stacked, lengths


def _reading(places: Ids, lengths: Ids, ids: Tensor, never: int, rows: Rows | None) -> Reading:
    """Inputs are all but the last word; targets the same, one step later.

    The boundary a direction starts from (`never`) is not predicted: in running text it would
    follow the other boundary with certainty, and flatter the perplexity.
    """
    index = torch.from_numpy(np.ascontiguousarray(places))
    steps = torch.from_numpy(lengths) - 1
    following = ids[index[1:]]
    wanted = (torch.arange(len(following))[:, None] < steps) & (following != never)
    asked = wanted.flatten().nonzero()[:, 0]
    return Reading(index[:-1], steps, asked, following.flatten()[asked], rows)


# Two ways to go through a corpus: documents of like length together, or one running stream.
#
# Both are the same machinery. A group is a set of spans read side by side, a window at a time; the
# forward direction takes its windows from the left, the backward one from the right, and each goes
# on from the state in which it left the window before. A short document is a span of one window, a
# 50,000-word one a span of many, and a stream a span that does not end with the document.


@dataclass(frozen=True)
class Group:
    """Spans of one shard that are read side by side."""

    shard: int
    starts: Ids
    ends: Ids

    def windows(self, window: int) -> int:
        """How many steps it takes to read the longest span."""
        longest = int((self.ends - self.starts).max()) - 1
        return max(1, -(-longest // window))

    def part(self, rows: Rows) -> Group:
        """Some of the spans."""
        return Group(self.shard, self.starts[rows.places], self.ends[rows.places])


@dataclass(frozen=True)
class Window:
    """What each direction reads of each span in one step and, last, what it must still predict."""

    forward: list[Ids]
    backward: list[Ids]


def plan(shards: Shards, batching: Batching, seed: tuple[int, ...] | None) -> Iterator[Group]:
    """Divide shards into groups, each text in exactly one; shuffled unless there is no seed."""
    random = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(shards)) if random is None else random.permutation(len(shards))
    for place in order.tolist():
        yield from plan_shard(shards[place], batching, random, place)


def plan_shard(
    shard: Shard,
    batching: Batching,
    random: np.random.Generator | None = None,
    place: int = 0,
) -> list[Group]:
    """Divide one shard into groups; `place` is its place among others."""
    if batching.batching == "stream":
        return [_lanes(place, shard, batching)]
    return _buckets(place, shard, batching, random)


def count_batches(shards: Shards, batching: Batching, seed: tuple[int, ...] | None) -> int:
    """How many batches `read` will give."""
    return sum(group.windows(batching.window) for group in plan(shards, batching, seed))


def read(
    shards: Shards,
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
) -> Iterator[Batch]:
    """Read all texts once, from batch number `skip` on."""
    for group in plan(shards, batching, seed):
        windows = group.windows(batching.window)
        if skip >= windows:
            skip -= windows
            continue
        yield from read_group(shards[group.shard], group, table, batching.window, skip)
        skip = 0


def read_group(
    shard: Shard, group: Group, table: WordTable, window: int, skip: int = 0
) -> Iterator[Batch]:
    """Read the spans of a group side by side, from window number `skip` on."""
    for step in range(skip, group.windows(window)):
        pieces = window_of(shard, group, window, step)
        yield make_batch(pieces.forward, pieces.backward, table, starts=step == 0)


def _buckets(
    place: int, shard: Shard, batching: Batching, random: np.random.Generator | None
) -> list[Group]:
    """Documents of like length together, as many as the token budget allows."""
    starts, ends, lengths = shard.starts, np.asarray(shard.ends), shard.lengths
    order = np.arange(len(ends)) if random is None else random.permutation(len(ends))
    order = order[np.argsort(lengths[order], kind="stable")]
    cuts = _cuts(np.minimum(lengths[order] - 1, batching.window), batching.batch_tokens)
    groups = [Group(place, starts[part], ends[part]) for part in np.split(order, cuts)]
    if random is None:
        return groups
    return [groups[number] for number in random.permutation(len(groups))]


def _cuts(steps: Ids, budget: int) -> list[int]:
    """Where to cut ascending lengths so that (longest x number) stays within the budget."""
    cuts: list[int] = []
    first = 0
    for place, longest in enumerate(steps.tolist()):
        if place > first and longest * (place - first + 1) > budget:
            cuts.append(place)
            first = place
    return cuts


def _lanes(place: int, shard: Shard, batching: Batching) -> Group:
    """A shard cut into lanes of equal length. A lane's last word is the next one's first."""
    lanes = max(1, min(batching.batch_tokens // batching.window, len(shard.ids) // 2))
    edges = np.linspace(0, len(shard.ids) - 1, lanes + 1).round().astype(np.int64)
    return Group(place, edges[:-1], edges[1:] + 1)


def window_of(shard: Shard, group: Group, window: int, step: int) -> Window:
    """Window number `step`, forwards from the starts of the spans, backwards from their ends."""
    spans = list(zip(group.starts.tolist(), group.ends.tolist(), strict=True))
    forward = [
        _piece(shard, start + step * window, min(end, start + (step + 1) * window + 1), end - 1)
        for start, end in spans
    ]
    backward = [
        _piece(shard, max(start, end - (step + 1) * window - 1), end - step * window, start)[::-1]
        for start, end in spans
    ]
    return Window(forward, backward)


def _piece(shard: Shard, first: int, last: int, rest: int) -> Ids:
    """The ids from `first` to `last`; of a span read to its end one word, with nothing to read."""
    piece = shard.ids[first:last] if last - first > 1 else shard.ids[rest : rest + 1]
    return np.asarray(piece, np.int64)


# Tokenised texts in memory, read in the same groups and windows as a corpus on disk.


TOKENS_AT_ONCE = 1 << 18
"""Of a long row of texts, so many tokens are kept in memory."""


@dataclass(frozen=True)
class TextGroup:
    """Some of the texts, read side by side, a batch a window."""

    texts: NDArray[np.int64]
    """The numbers of the texts, in the order of the batches' columns."""
    batches: Iterator[Batch]


def group_texts(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, batching: Batching, *, spelled: bool
) -> Iterator[TextGroup]:
    """Put texts of like length together; each is in exactly one group."""
    if not texts:
        return
    shard, table = lay_end_to_end(texts, vocabulary, spelled=spelled)
    for group in plan_shard(shard, batching):
        yield TextGroup(
            text_numbers(shard, group), read_group(shard, group, table, batching.window)
        )


def read_texts(
    texts: Iterable[Sequence[str]], vocabulary: Vocabulary, batching: Batching, *, spelled: bool
) -> Iterator[Batch]:
    """Read any number of texts once, only some of them in memory at a time."""
    for some in _portions(texts, TOKENS_AT_ONCE):
        shard, table = lay_end_to_end(some, vocabulary, spelled=spelled)
        for group in plan_shard(shard, batching):
            yield from read_group(shard, group, table, batching.window)


def lay_end_to_end(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> tuple[Shard, WordTable]:
    """Texts in memory as a shard, and the table of their words."""
    rows, table = number_words(texts, vocabulary, spelled=spelled)
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    return Shard(np.concatenate(rows).astype(np.uint32), ends), table


def text_numbers(shard: Shard, group: Group) -> NDArray[np.int64]:
    """Which texts of a shard a group reads."""
    return np.searchsorted(shard.starts, group.starts)


def _portions(texts: Iterable[Sequence[str]], tokens: int) -> Iterator[list[Sequence[str]]]:
    portion: list[Sequence[str]] = []
    held = 0
    for text in texts:
        portion.append(text)
        held += len(text)
        if held >= tokens:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


# A batch cut by its rows into parts that are read apart: by several processes, or in turn.
#
# Row i belongs to part i modulo the number of parts, in every window of a group, so that the state
# carried from window to window stays where it is. What a batch holds does not depend on how it is
# cut: a run can go on with another number of processes.


@dataclass(frozen=True)
class Share:
    """Which parts of each batch are read here: all of it, unless the work is shared."""

    first: int = 0
    parts: int = 1
    """How many, one after the other."""
    of: int = 1
    """Into how many parts each batch is cut."""

    @classmethod
    def of_process(cls, rank: int, size: int, accumulate: int) -> Share:
        """The share of one of `size` processes, each reading its rows in so many parts."""
        return cls(rank * accumulate, accumulate, size * accumulate)

    def rows(self, total: int) -> list[Rows]:
        """The rows of each part that is read here; a part may have none."""
        return [Rows(self.first + number, self.of, total) for number in range(self.parts)]


@dataclass(frozen=True)
class Step:
    """One batch: those of its parts that are read here, and what all of them hold together."""

    parts: tuple[Batch | None, ...]
    """None where a part has nothing to read."""
    rows: int
    forward_targets: int
    backward_targets: int


def read_steps(
    shards: Shards,
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
    share: Share | None = None,
) -> Iterator[Step]:
    """Read a share of all batches, from number `skip` on; without a share, all of each."""
    for group in plan(shards, batching, seed):
        windows = group.windows(batching.window)
        if skip < windows:
            divided = _DividedGroup(shards[group.shard], group, batching.window, share or Share())
            for number in range(skip, windows):
                yield divided.step(table, number)
        skip = max(0, skip - windows)


@dataclass(frozen=True)
class _DividedGroup:
    shard: Shard
    group: Group
    window: int
    share: Share

    def step(self, table: WordTable, number: int) -> Step:
        rows = len(self.group.starts)
        parts = tuple(self._part(one, table, number) for one in self.share.rows(rows))
        if self.share.parts == self.share.of:
            forward = sum(len(part.forward.targets) for part in parts if part is not None)
            backward = sum(len(part.backward.targets) for part in parts if part is not None)
        else:
            whole = window_of(self.shard, self.group, self.window, number)
            forward, backward = _asked(whole.forward, BEGIN), _asked(whole.backward, END)
        return Step(parts, rows, forward, backward)

    def _part(self, rows: Rows, table: WordTable, number: int) -> Batch | None:
        if not len(rows):
            return None
        pieces = window_of(self.shard, self.group.part(rows), self.window, number)
        if all(len(piece) < 2 for piece in pieces.forward):
            return None  # its spans have come to their ends, others' have not
        return make_batch(
            pieces.forward,
            pieces.backward,
            table,
            starts=number == 0,
            rows=rows if self.share.of > 1 else None,
        )


def _asked(pieces: Sequence[Ids], never: int) -> int:
    """How many words are to be predicted: all but the first ones and one kind of boundary."""
    return int((np.concatenate([piece[1:] for piece in pieces]) != never).sum())

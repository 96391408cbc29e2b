"""Batches: texts of different lengths packed without padding, each distinct word held once.

The layout is that of `torch.nn.utils.rnn.PackedSequence`: the first tokens of all texts, longest
text first, then their second tokens, and so on. Three texts A, B, C of 2, 4 and 1 tokens are

    B0 A0 C0 | B1 A1 | B2 | B3        batch_sizes = [3, 2, 1, 1], sorted_indices = [1, 0, 2]

Padded, 55% of training steps and 10% of embedding steps were padding; packed, fine-tuning is 1.8
times as fast (docs/experiments.md).
Step t of a layer is one contiguous block, the first batch_sizes[t] rows of the block before.

Both directions of a batch have the same layout, since both read the same number of tokens of each
text: the forward direction from its start, the backward direction from its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.text.config import Batching
from elmo.text.vocabulary import (
    END,
    SPECIAL_WORDS,
    START,
    Shard,
    Spelling,
    Vocabulary,
    chunked,
    spell_all,
)

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class OnDevice:
    """A dataclass whose tensors, those of its parts included, are on one device."""

    def to(self, device: torch.device) -> Self:
        """The same on another device; lists and numbers stay on the host."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        held = {name: part for name, part in parts.items() if isinstance(part, Tensor | OnDevice)}
        return replace(self, **{name: part.to(device) for name, part in held.items()})


@dataclass(frozen=True)
class Words(OnDevice):
    """The distinct words of a batch: ids and, for a model that reads characters, spellings."""

    ids: Tensor  # (words,)
    spellings: Tensor | None  # (words, row length), character ids


@dataclass(frozen=True)
class Layout(OnDevice):
    """Which token of a packed batch belongs to which text."""

    texts: int
    batch_sizes: list[int]  # texts that have a token at each step: never more than before
    sorted_indices: Tensor  # (texts,): the texts, longest first
    unsorted_indices: Tensor  # (texts,): the rank of each text in that order
    text: Tensor  # (tokens,): the text that each token belongs to …
    step: Tensor  # (tokens,): … and its index there
    first: Tensor  # (steps,): the first token of each step
    last: Tensor  # (texts,), longest first: the last token of each text; no meaning without tokens

    @classmethod
    def of(cls, lengths: Ids) -> Layout:
        """The layout of texts with these numbers of tokens; at least one must not be empty."""
        order = np.argsort(-lengths, kind="stable")
        longest = lengths[order]
        steps = np.arange(int(longest[0]))
        batch_sizes: Ids = len(lengths) - np.searchsorted(longest[::-1], steps, side="right")
        first = np.cumsum(batch_sizes) - batch_sizes  # the first token of each step
        step = np.repeat(steps, batch_sizes)
        rank = np.arange(len(step)) - first[step]
        ranks = np.arange(len(lengths))
        unsorted = np.empty_like(order)
        unsorted[order] = ranks
        arrays = (order, unsorted, order[rank], step, first, first[longest - 1] + ranks)
        tensors = (torch.from_numpy(array) for array in arrays)
        return cls(len(lengths), batch_sizes.tolist(), *tensors)

    def chunks(self, tokens: int | None) -> Iterator[tuple[slice, list[int], slice]]:
        """Split the steps into chunks of at most `tokens` tokens (at least one step); None: one.

        Yields the slice of a chunk's tokens, the batch sizes of its steps, and the slice of texts,
        longest first, that end in it.
        """
        start, first = 0, 0
        while first < len(self.batch_sizes):
            stop, end = start + self.batch_sizes[first], first + 1
            while end < len(self.batch_sizes) and (
                tokens is None or stop + self.batch_sizes[end] - start <= tokens
            ):
                stop += self.batch_sizes[end]
                end += 1
            unfinished = self.batch_sizes[end] if end < len(self.batch_sizes) else 0
            sizes = self.batch_sizes[first:end]
            yield slice(start, stop), sizes, slice(unfinished, sizes[0])
            start, first = stop, end


@dataclass(frozen=True)
class Targets(OnDevice):
    """What one direction has to predict, ordered by step, then by text."""

    tokens: Tensor  # (targets,): the token of the packed batch before each target
    ids: Tensor  # (targets,): the vocabulary id of each target


@dataclass(frozen=True)
class Rows:
    """Which rows of the whole batch a micro-batch holds: first, first + step, ..."""

    first: int
    step: int
    total: int  # number of rows of the larger batch

    @property
    def indices(self) -> slice:
        return slice(self.first, self.total, self.step)

    def __len__(self) -> int:
        return len(range(self.total)[self.indices])


@dataclass(frozen=True)
class Batch(OnDevice):
    """Texts, or windows of them, as both directions read them."""

    words: Words
    inputs: Tensor  # (2, tokens): what each direction reads, as indices into the distinct words
    layout: Layout
    forward: Targets
    backward: Targets
    is_first_window: bool = True  # if not, the texts continue those of the batch before
    rows: Rows | None = None  # the rows that these are, if they are part of a larger batch
    lengths: Sequence[int] = ()  # words per text, for a batch of whole texts
    word_tokens: Tensor | None = None  # (2, words): the token at which a direction reads a word

    @property
    def targets(self) -> int:
        """Number of words that the forward direction has to predict."""
        return len(self.forward.ids)


@dataclass(frozen=True)
class WordTable:
    """The distinct words of a corpus as a model reads them: by vocabulary id and by spelling."""

    words: Sequence[str]
    ids: Ids  # (words,): the vocabulary id of each
    spelled: bool
    spelling: Spelling | None = None

    @classmethod
    def of(cls, words: Sequence[str], vocabulary: Vocabulary, *, spelled: bool) -> WordTable:
        """Look up the words of a corpus in a vocabulary."""
        special = len(SPECIAL_WORDS)
        # Every corpus uses these names; a model may use others.
        if tuple(words[:special]) == SPECIAL_WORDS:
            words = [*vocabulary.words[:special], *words[special:]]
        return cls(words, vocabulary.encode(words), spelled, vocabulary.spelling)

    def select(self, indices: Ids) -> Words:
        spellings = None
        if self.spelled:
            chosen: list[int] = indices.tolist()
            rows = spell_all([self.words[index] for index in chosen], self.spelling)
            spellings = torch.from_numpy(rows)
        return Words(torch.from_numpy(self.ids[indices]), spellings)


def pack_texts(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool, read_end: bool = False
) -> Batch:
    """Pack whole texts, each a list of words or none, with their boundaries.

    With `read_end` each direction reads through the boundary at its end, so that its state can be
    carried to the next text. Then there is nothing left to predict.
    """
    shard, table = in_memory(texts, vocabulary, spelled=spelled)
    starts, last = np.append(0, shard.ends[:-1]), shard.ends - 1  # of the boundaries
    lengths = last - starts - 1
    layout = Layout.of(lengths + (2 if read_end else 1))
    tokens, following = _read(shard, starts, last, layout, predict=not read_end)
    text = np.repeat(np.arange(len(lengths)), lengths)
    index = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    # Step 0 is a boundary. The forward direction then reads the first word, the backward the last.
    steps = np.stack([index + 1, lengths[text] - index])
    word_tokens = layout.first.numpy()[steps] + layout.unsorted_indices.numpy()[text]
    return Batch(
        table.select(np.arange(len(table.ids))),
        torch.from_numpy(tokens),
        layout,
        *_targets(following, table, layout),
        lengths=lengths.tolist(),
        word_tokens=torch.from_numpy(word_tokens),
    )


def in_memory(
    texts: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> tuple[Shard, WordTable]:
    """Texts as a shard of indices into the table of their distinct words, boundaries added."""
    index = {vocabulary.words[START]: START, vocabulary.words[END]: END}
    ids: list[int] = []
    ends: list[int] = []
    for words in texts:
        ids.append(START)
        ids += [index.setdefault(word, len(index)) for word in words]
        ids.append(END)
        ends.append(len(ids))
    table = WordTable.of(list(index), vocabulary, spelled=spelled)
    return Shard(np.array(ids, np.uint32), np.array(ends, np.int64)), table


def pack_window(
    shard: Shard,
    group: Group,
    table: WordTable,
    window: int,
    step: int,
    rows: Rows | None = None,
) -> Batch | None:
    """Pack window `step` of a group; None if all its spans end earlier."""
    forward, backward, lengths = group.window(window, step)
    if not lengths.any():
        return None
    layout = Layout.of(lengths)
    tokens, following = _read(shard, forward, backward, layout, predict=True)
    # The token layer runs once per distinct word: about half of the tokens of a batch of 2,048.
    distinct, inputs = np.unique(tokens.ravel(), return_inverse=True)
    return Batch(
        table.select(distinct),
        torch.from_numpy(inputs.reshape(tokens.shape)),
        layout,
        *_targets(following, table, layout),
        is_first_window=step == 0,
        rows=rows,
    )


def _read(
    shard: Shard, forward: Ids, backward: Ids, layout: Layout, *, predict: bool
) -> tuple[Ids, Ids]:
    """The ids of the tokens, (2, tokens), and those that follow them in reading order.

    The directions start at these positions of the shard, one per text.
    """
    text, step = layout.text.numpy(), layout.step.numpy()
    positions = np.stack([forward[text] + step, backward[text] - step])
    tokens = np.asarray(shard.ids[positions], np.int64)
    if not predict:  # Nothing is predicted: fill in boundaries, which `_targets` drops.
        return tokens, np.full_like(tokens, [[START], [END]])
    return tokens, np.asarray(shard.ids[positions + np.array([[1], [-1]])], np.int64)


def _targets(following: Ids, table: WordTable, layout: Layout) -> tuple[Targets, Targets]:
    """The targets of each direction.

    The boundary that a direction starts from is not predicted: in running text it follows the other
    boundary with certainty, which would lower the perplexity for nothing.
    """
    # In the order of the texts, not of the packing: what is drawn for each target must not depend
    # on which texts are longer.
    order = (layout.step * layout.texts + layout.text).argsort().numpy()

    def targets(ids: Ids, boundary: int) -> Targets:
        tokens = order[ids[order] != boundary]
        return Targets(torch.from_numpy(tokens), torch.from_numpy(table.ids[ids[tokens]]))

    return targets(following[0], START), targets(following[1], END)


# Which texts are read together: documents of similar length, or lanes of one running stream.
#
# A group is a set of spans of one shard. Spans longer than a window are read in several batches:
# the forward direction takes its windows from the left, the backward direction from the right, and
# each carries its state from window to window. A short document is a span of one window, a document
# of 50,000 words a span of many, and the spans of a stream cross the ends of documents.


@dataclass(frozen=True)
class Group:
    """Spans of one shard that are read side by side."""

    shard: int
    starts: Ids
    ends: Ids

    def windows(self, window: int) -> int:
        """Number of batches that read the longest span."""
        longest = int((self.ends - self.starts).max()) - 1
        return max(1, -(-longest // window))

    def window(self, window: int, step: int) -> tuple[Ids, Ids, Ids]:
        """Where both directions start in window `step`, and how many tokens each span has there.

        The last token of a span is predicted, but not read.
        """
        done = step * window
        lengths = np.clip(self.ends - self.starts - 1 - done, 0, window)
        return self.starts + done, self.ends - 1 - done, lengths

    def part(self, rows: Rows) -> Group:
        return Group(self.shard, self.starts[rows.indices], self.ends[rows.indices])


def plan(
    shards: Sequence[Shard], batching: Batching, seed: tuple[int, ...] | None
) -> Iterator[Group]:
    """Divide shards into groups, each text into exactly one; shuffled if there is a seed."""
    random = None if seed is None else np.random.default_rng(seed)
    order = np.arange(len(shards)) if random is None else random.permutation(len(shards))
    for index in order.tolist():
        shard = shards[index]
        if batching.batching == "stream":
            # Lanes of equal length. The last word of a lane is the first one of the next.
            lanes = max(1, min(batching.batch_tokens // batching.window, len(shard.ids) // 2))
            edges = np.linspace(0, len(shard.ids) - 1, lanes + 1).round().astype(np.int64)
            yield Group(index, edges[:-1], edges[1:] + 1)
            continue
        starts, ends = shard.starts, np.asarray(shard.ends)
        groups = group_by_length(
            ends - starts - 1, batching.batch_tokens, window=batching.window, random=random
        )
        for number in range(len(groups)) if random is None else random.permutation(len(groups)):
            yield Group(index, starts[groups[number]], ends[groups[number]])


def group_by_length(
    lengths: Ids,
    batch_tokens: int,
    *,
    window: int | None = None,
    random: np.random.Generator | None = None,
) -> list[Ids]:
    """Group the indices of texts of similar length, as many as the token budget allows.

    A group counts as its longest text, at most `window`, times its number of texts, as if it were
    padded. Texts of equal length stay in order, or are shuffled by `random`.
    """
    order = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]
    steps = lengths[order] if window is None else np.minimum(lengths[order], window)
    cuts: list[int] = []
    first = 0
    for index, longest in enumerate(steps.tolist()):
        if index > first and longest * (index - first + 1) > batch_tokens:
            cuts.append(index)
            first = index
    return np.split(order, cuts) if len(order) else []


def count_batches(shards: Sequence[Shard], batching: Batching, seed: tuple[int, ...] | None) -> int:
    """Number of batches that `read` will yield."""
    return sum(group.windows(batching.window) for group in plan(shards, batching, seed))


def read(
    shards: Sequence[Shard],
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
) -> Iterator[Batch]:
    """Read all texts once, from batch `skip` on."""
    for step in read_steps(shards, table, batching, seed, skip):
        yield from filter(None, step.micro_batches)


TOKENS_AT_ONCE = 1 << 18  # `read_texts` sorts the texts of this many tokens by length at a time


def read_texts(
    texts: Iterable[Sequence[str]], vocabulary: Vocabulary, batching: Batching, *, spelled: bool
) -> Iterator[Batch]:
    """Read any number of texts once; only a chunk of them is in memory at a time."""
    for chunk in chunked(texts, len, TOKENS_AT_ONCE):
        shard, table = in_memory(chunk, vocabulary, spelled=spelled)
        yield from read([shard], table, batching)


# A batch is split by its rows into micro-batches, for several processes or gradient accumulation.
# Row i belongs to micro-batch i modulo their number, in every window of a group, so that the state
# carried from window to window stays in its process. What a batch contains does not depend on how
# it is split: a run can resume with another number of processes.


@dataclass(frozen=True)
class MicroBatches:
    """The micro-batches of each batch that this process reads; by default the whole batch."""

    first: int = 0
    count: int = 1  # number of micro-batches of this process, read one after the other
    of: int = 1  # number of micro-batches into which each batch is split, those of all processes

    @classmethod
    def of_process(cls, rank: int, size: int, accumulate: int) -> MicroBatches:
        """Those of process `rank` of `size`, which accumulates the gradients of `accumulate`."""
        return cls(rank * accumulate, accumulate, size * accumulate)

    def rows(self, total: int) -> list[Rows]:
        """The rows of each micro-batch of this process; one may have none."""
        return [Rows(self.first + number, self.of, total) for number in range(self.count)]


@dataclass(frozen=True)
class Step:
    """One batch: the micro-batches that this process reads, and the totals of all of them."""

    micro_batches: tuple[Batch | None, ...]  # None for one without rows
    rows: int
    forward_targets: int
    backward_targets: int


def read_steps(
    shards: Sequence[Shard],
    table: WordTable,
    batching: Batching,
    seed: tuple[int, ...] | None = None,
    skip: int = 0,
    mine: MicroBatches | None = None,
) -> Iterator[Step]:
    """Read this process's micro-batches, by default whole batches, from batch `skip` on."""
    mine, window = mine or MicroBatches(), batching.window
    for group in plan(shards, batching, seed):
        windows = group.windows(window)
        if skip >= windows:
            skip -= windows
            continue
        shard, total = shards[group.shard], len(group.starts)
        for number in range(skip, windows):
            micro_batches: list[Batch | None] = []
            for rows in mine.rows(total):
                batch = None
                if len(rows):
                    whole = rows if mine.of > 1 else None
                    batch = pack_window(shard, group.part(rows), table, window, number, whole)
                micro_batches.append(batch)
            if mine.count == mine.of:
                present = [batch for batch in micro_batches if batch is not None]
                forward = sum(len(batch.forward.ids) for batch in present)
                backward = sum(len(batch.backward.ids) for batch in present)
            else:
                starts, ends, lengths = group.window(window, number)
                _, following = _read(shard, starts, ends, Layout.of(lengths), predict=True)
                forward = int((following[0] != START).sum())
                backward = int((following[1] != END).sum())
            yield Step(tuple(micro_batches), total, forward, backward)
        skip = 0

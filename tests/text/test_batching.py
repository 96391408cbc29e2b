"""Over an epoch each word is predicted exactly once a direction, however the text is cut.

The texts are made of words that occur nowhere else, so that one can tell from two ids alone whether
a word really follows the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.config import check
from elmo.errors import ConfigError
from elmo.text.batching import (
    Batch,
    Group,
    MicroBatches,
    Targets,
    WordTable,
    count_batches,
    in_memory,
    pack_texts,
    pack_window,
    read,
    read_steps,
    read_texts,
)
from elmo.text.config import Batching
from elmo.text.corpus import Shards, ShardWriter
from elmo.text.vocabulary import END, SPECIAL_WORDS, START, UNKNOWN, Shard, Vocabulary, spell

# Texts in memory give the batches that the same texts on disk would give.


WORDS = ("<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(400)))
VOCABULARY = Vocabulary(WORDS, (1,) * len(WORDS))
LENGTHS = st.lists(st.integers(1, 25), min_size=1, max_size=12)


def unique_texts(lengths: list[int]) -> list[list[str]]:
    """Texts of so many words, each word a new one."""
    words = iter(WORDS[3:])
    return [[next(words) for _ in range(length)] for length in lengths]


def texts_of(batch: Batch, direction: int) -> list[list[int]]:
    """The vocabulary ids that each text of a batch has a direction read."""
    ids = batch.words.ids[batch.inputs[direction]]
    return [ids[batch.layout.text == text].tolist() for text in range(batch.layout.texts)]


def padded_size(batch: Batch) -> int:
    """How many tokens the batch would have with padding."""
    return batch.layout.texts * len(batch.layout.batch_sizes)


@given(LENGTHS, st.integers(2, 9), st.integers(0, 60))
def test_each_text_is_read_once_in_both_directions(
    lengths: list[int], window: int, room: int
) -> None:
    texts = unique_texts(lengths)
    batching = Batching(window=window, batch_tokens=window + room)
    shard, table = in_memory(texts, VOCABULARY, spelled=False)
    ahead: list[list[int]] = []
    behind: list[list[int]] = []
    for batch in read([shard], table, batching):
        found = [texts_of(batch, 0), texts_of(batch, 1)]
        if batch.is_first_window:
            ahead += found[0]
            behind += found[1]
        else:
            for so_far, rest in zip((ahead, behind), found, strict=True):
                for text, more in zip(so_far[-len(rest) :], rest, strict=True):
                    text += more
        assert padded_size(batch) <= batching.batch_tokens
    ids = [VOCABULARY.encode(text).tolist() for text in texts]
    assert sorted(ahead) == sorted([START, *one] for one in ids)
    assert sorted(behind) == sorted([END, *reversed(one)] for one in ids)


@given(LENGTHS, st.sampled_from(["documents", "stream"]))
def test_any_number_of_texts_is_read_without_keeping_them(lengths: list[int], kind: str) -> None:
    texts = unique_texts(lengths)
    batching = Batching(batching=kind, window=5, batch_tokens=20)  # pyright: ignore
    batches = list(read_texts(iter(texts), VOCABULARY, batching, spelled=False))
    asked = sorted(word for batch in batches for word in batch.forward.ids.tolist())
    words = [word for text in texts for word in text]
    expected = sorted([*VOCABULARY.encode(words).tolist(), *[END] * len(texts)])
    assert asked == expected


def test_no_texts_give_no_batches() -> None:
    assert list(read_texts([], VOCABULARY, Batching(), spelled=True)) == []


# A batch holds each direction's path through its texts, and what comes next on it.


WORDS_batches = st.sampled_from(["the", "cat", "sat", "naïve", "雨", "unheard", "of"])
SENTENCES = st.lists(st.lists(WORDS_batches, max_size=7), min_size=1, max_size=5)


def questions(batch: Batch, targets: Targets) -> dict[tuple[int, int], int]:
    """What is to be predicted at each (step, text), in that order."""
    steps, texts = batch.layout.step[targets.tokens], batch.layout.text[targets.tokens]
    places = list(zip(steps.tolist(), texts.tolist(), strict=True))
    assert places == sorted(set(places))
    return dict(zip(places, targets.ids.tolist(), strict=True))


def expected_questions(texts: list[list[int]]) -> dict[tuple[int, int], int]:
    return {
        (step, column): text[step + 1]
        for column, text in enumerate(texts)
        for step in range(len(text) - 1)
    }


@given(SENTENCES)
def test_sentences_are_read_in_both_directions(sentences: list[list[str]]) -> None:
    vocabulary = tiny()
    batch = pack_texts(sentences, vocabulary, spelled=False)
    ahead = [[START, *(vocabulary.id(word) for word in one), END] for one in sentences]
    behind = [text[::-1] for text in ahead]
    assert texts_of(batch, 0) == [text[:-1] for text in ahead]
    assert texts_of(batch, 1) == [text[:-1] for text in behind]
    assert questions(batch, batch.forward) == expected_questions(ahead)
    assert questions(batch, batch.backward) == expected_questions(behind)
    assert batch.is_first_window
    assert batch.targets == sum(len(one) + 1 for one in sentences)


@given(SENTENCES)
def test_each_distinct_word_is_there_once_with_its_spelling(sentences: list[list[str]]) -> None:
    batch = pack_texts(sentences, tiny(), spelled=True)
    spellings = batch.words.spellings
    assert spellings is not None
    expected = {tuple(spell(word)) for one in sentences for word in ["<S>", "</S>", *one]}
    found = list(map(tuple, spellings.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == expected
    for text, sentence in enumerate(sentences):
        read_here = batch.inputs[0][batch.layout.text == text].tolist()
        for place, word in zip(read_here, ["<S>", *sentence], strict=True):
            assert spellings[place].tolist() == spell(word).tolist()


@given(SENTENCES, st.booleans())
def test_words_are_found_at_their_tokens(sentences: list[list[str]], read_end: bool) -> None:
    batch = pack_texts(sentences, tiny(), spelled=True, read_end=read_end)
    assert batch.word_tokens is not None
    assert batch.words.spellings is not None
    expected = [spell(word).tolist() for sentence in sentences for word in sentence]
    for inputs, tokens in zip(batch.inputs, batch.word_tokens, strict=True):
        assert batch.words.spellings[inputs[tokens]].tolist() == expected
    assert list(batch.lengths) == [len(sentence) for sentence in sentences]
    steps = [len(sentence) + (2 if read_end else 1) for sentence in sentences]
    assert torch.bincount(batch.layout.text, minlength=len(steps)).tolist() == steps
    if read_end:
        assert texts_of(batch, 0) == texts_with_end(sentences)
        assert batch.targets == 0


def texts_with_end(sentences: list[list[str]]) -> list[list[int]]:
    return [[START, *(tiny().id(word) for word in one), END] for one in sentences]


def test_unknown_words_differ_in_spelling_only() -> None:
    batch = pack_texts([["unheard", "of"]], tiny(), spelled=True)
    assert texts_of(batch, 0) == [[START, UNKNOWN, UNKNOWN]]
    assert len(batch.words.ids) == 4
    assert pack_texts([["a"]], tiny(), spelled=False).words.spellings is None


def pack(spans: list[list[int]], window: int, step: int = 0) -> Batch | None:
    ids = [word for span in spans for word in span]
    ends = np.cumsum([len(span) for span in spans])
    starts = ends - [len(span) for span in spans]
    table = WordTable.of(tiny().words, tiny(), spelled=False)
    shard = Shard(np.array(ids, np.uint32), ends)
    return pack_window(shard, Group(0, starts, ends), table, window, step)


def test_the_boundary_a_direction_starts_from_is_not_asked_for() -> None:
    # Running text: the end of a document, and all of the next one.
    batch = pack([[5, END, START, 4, END]], window=8)
    assert batch is not None
    assert questions(batch, batch.forward) == {(0, 0): END, (2, 0): 4, (3, 0): END}
    assert questions(batch, batch.backward) == {(0, 0): 4, (1, 0): START, (3, 0): 5}


def test_a_text_already_read_has_no_tokens() -> None:
    batch = pack([[START, 4, END], [START, 4, 5, 6, END]], window=2, step=1)
    assert batch is not None
    assert not batch.is_first_window
    assert texts_of(batch, 0) == [[], [5, 6]]
    assert texts_of(batch, 1) == [[], [5, 4]]
    assert questions(batch, batch.forward) == {(0, 1): 6, (1, 1): END}
    assert pack([[START, 4, END]], window=2, step=1) is None


def test_words_of_a_corpus_are_seen_through_a_vocabulary() -> None:
    table = WordTable.of(["<S>", "</S>", "<UNK>", "sat", "elsewhere"], tiny(), spelled=True)
    words = table.select(np.array([4, 3]))
    assert words.ids.tolist() == [UNKNOWN, tiny().id("sat")]
    assert words.spellings is not None
    assert words.spellings.tolist() == [spell("elsewhere").tolist(), spell("sat").tolist()]


def test_a_batch_moves_whole() -> None:
    batch = pack_texts([["the", "cat"]], tiny(), spelled=True).to(torch.device("meta"))
    assert batch.words.spellings is not None
    tensors = [batch.words.ids, batch.words.spellings, batch.inputs, *vars(batch.forward).values()]
    layout = {name: value for name, value in vars(batch.layout).items() if torch.is_tensor(value)}
    assert len(layout) == 6
    tensors += [*vars(batch.backward).values(), *layout.values(), batch.word_tokens]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def tiny() -> Vocabulary:
    words = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "naïve", "雨")
    return Vocabulary(words, tuple(range(len(words))))


@dataclass(frozen=True)
class Text:
    documents: list[list[int]]
    shards: Shards
    table: WordTable

    @property
    def words(self) -> list[int]:
        return [word for document in self.documents for word in document[1:-1]]

    def pairs(self, *, backward: bool) -> set[tuple[int, int]]:
        """All pairs of a word and the one a direction meets next."""
        running = [document[::-1] if backward else document for document in self.documents]
        return {pair for document in running for pair in pairwise(document)}


@contextmanager
def unique_text(lengths: list[int], tokens_per_shard: int = 10**6) -> Iterator[Text]:
    """Documents of so many words, each word a new one."""
    first = np.cumsum([3, *lengths])
    documents = [
        [START, *range(start, start + length), END]
        for start, length in zip(first.tolist(), lengths, strict=False)
    ]
    total = int(first[-1])
    table = WordTable([str(number) for number in range(total)], np.arange(total), spelled=False)
    with TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder), tokens_per_shard)
        for document in documents:
            writer.add(document)
        writer.close()
        yield Text(documents, Shards(Path(folder)), table)


@st.composite
def batchings(draw: st.DrawFn) -> Batching:
    window = draw(st.integers(2, 20))
    return Batching(
        batching=draw(st.sampled_from(["documents", "stream"])),
        window=window,
        batch_tokens=draw(st.integers(window, 5 * window)),
    )


LENGTHS_batching = st.lists(st.integers(1, 45), min_size=1, max_size=15)
SHARD_SIZES = st.integers(5, 200)
SEEDS = st.none() | st.tuples(st.integers(0, 9))


def questions_batching(batch: Batch, direction: int) -> list[tuple[int, int]]:
    """Each word at which something is asked, with the answer."""
    targets = (batch.forward, batch.backward)[direction]
    inputs = batch.words.ids[batch.inputs[direction][targets.tokens]]
    return list(zip(inputs.tolist(), targets.ids.tolist(), strict=True))


def tensors(batch: Batch) -> list[torch.Tensor]:
    targets = [*vars(batch.forward).values(), *vars(batch.backward).values()]
    layout = [batch.layout.text, batch.layout.step]
    return [batch.words.ids, torch.tensor(batch.is_first_window), batch.inputs, *targets, *layout]


def same(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(one, other)
        for left, right in zip(first, second, strict=True)
        for one, other in zip(tensors(left), tensors(right), strict=True)
    )


@given(LENGTHS_batching, SHARD_SIZES, batchings(), SEEDS)
def test_each_word_is_predicted_once_from_its_neighbour(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        batches = list(read(text.shards, text.table, batching, seed))
        ahead = [pair for batch in batches for pair in questions_batching(batch, 0)]
        behind = [pair for batch in batches for pair in questions_batching(batch, 1)]
        once = Counter(text.words)
        assert Counter(target for _, target in ahead) == once + Counter({END: len(lengths)})
        assert Counter(target for _, target in behind) == once + Counter({START: len(lengths)})
        assert set(ahead) == text.pairs(backward=False)
        assert set(behind) == text.pairs(backward=True)
        assert len(ahead) == len(behind) == text.shards.targets


@given(LENGTHS_batching, SHARD_SIZES, batchings(), SEEDS)
def test_the_budget_and_the_window_are_kept(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        batches = list(read(text.shards, text.table, batching, seed))
        assert len(batches) == count_batches(text.shards, batching, seed)
        for batch in batches:
            assert padded_size(batch) <= batching.batch_tokens
            assert len(batch.layout.batch_sizes) <= batching.window


@given(LENGTHS_batching, SHARD_SIZES, batchings(), SEEDS)
def test_each_window_goes_on_where_the_one_before_ended(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None
) -> None:
    with unique_text(lengths, shard_size) as text:
        following = dict(text.pairs(backward=False)) | {END: START}
        preceding = dict(text.pairs(backward=True)) | {START: END}
        firsts = {document[1] for document in text.documents}
        lasts = {document[-2] for document in text.documents}
        before: Batch | None = None
        for batch in read(text.shards, text.table, batching, seed):
            assert batch.is_first_window or before is not None
            if not batch.is_first_window and before is not None:
                _goes_on(texts_of(before, 0), texts_of(batch, 0), following, firsts)
                _goes_on(texts_of(before, 1), texts_of(batch, 1), preceding, lasts)
            before = batch


def _goes_on(
    before: list[list[int]], after: list[list[int]], next_of: dict[int, int], any_of: set[int]
) -> None:
    for old, new in zip(before, after, strict=True):
        if not new:
            continue
        # Behind a boundary several words may follow: any that opens (or closes) a document.
        expected = any_of if old[-1] in (START, END) and new[0] > END else {next_of[old[-1]]}
        assert new[0] in expected


@given(LENGTHS_batching, SHARD_SIZES, batchings(), SEEDS, st.integers(0, 12))
def test_skipping_is_dropping_batches(
    lengths: list[int], shard_size: int, batching: Batching, seed: tuple[int] | None, skip: int
) -> None:
    with unique_text(lengths, shard_size) as text:
        everything = list(read(text.shards, text.table, batching, seed))
        rest = list(read(text.shards, text.table, batching, seed, skip))
        assert same(rest, everything[skip:])


@pytest.mark.parametrize("kind", ["documents", "stream"])
def test_the_seed_decides_the_order(kind: str) -> None:
    batching = Batching(batching=kind, window=8, batch_tokens=16)  # pyright: ignore
    with unique_text(list(range(1, 31)), tokens_per_shard=60) as text:
        first, again, other = (
            list(read(text.shards, text.table, batching, seed)) for seed in [(1, 0), (1, 0), (1, 1)]
        )
        assert same(first, again)
        assert not same(first, other)


@pytest.mark.parametrize(
    ("budget", "expected"), [(30, [3, 3, 3, 1]), (29, [2] * 5), (10, [1] * 10)]
)
def test_a_batch_holds_as_many_documents_as_the_budget_allows(
    budget: int, expected: list[int]
) -> None:
    batching = Batching(window=10, batch_tokens=budget)
    with unique_text([9] * 10) as text:
        batches = list(read(text.shards, text.table, batching))
        assert [batch.layout.batch_sizes for batch in batches] == [[n] * 10 for n in expected]


def test_documents_of_like_length_are_read_together() -> None:
    batching = Batching(window=100, batch_tokens=200)
    lengths = [40, 3, 41, 4, 39, 3] * 5
    with unique_text(lengths) as text:
        batches = list(read(text.shards, text.table, batching, seed=(0,)))
        read_steps = sum(padded_size(batch) for batch in batches)
        assert read_steps < 1.1 * text.shards.targets


def test_other_documents_meet_in_another_epoch() -> None:
    batching = Batching(window=10, batch_tokens=20)
    with unique_text([5] * 30) as text:
        groups = [
            {frozenset(batch.forward.ids.tolist()) for batch in read(*given, seed)}
            for given in [(text.shards, text.table, batching)]
            for seed in [(0,), (1,)]
        ]
        assert groups[0] != groups[1]


@pytest.mark.parametrize("kind", ["documents", "stream"])
def test_a_long_document_is_read_whole_with_its_state_carried(kind: str) -> None:
    batching = Batching(batching=kind, window=64, batch_tokens=64)  # pyright: ignore
    with unique_text([5000]) as text:
        batches = list(read(text.shards, text.table, batching))
        assert [batch.is_first_window for batch in batches] == [True] + [False] * 78
        whole = text.documents[0]
        ahead = [word for batch in batches for word in texts_of(batch, 0)[0]]
        behind = [word for batch in batches for word in texts_of(batch, 1)[0]]
        assert ahead == whole[:-1]
        assert behind == whole[:0:-1]


def test_a_stream_is_cut_into_lanes_that_leave_nothing_out() -> None:
    batching = Batching(batching="stream", window=10, batch_tokens=40)
    with unique_text([7] * 20) as text:
        batches = list(read(text.shards, text.table, batching))
        assert {batch.layout.texts for batch in batches} == {4}
        lanes = [
            [word for batch in batches for word in texts_of(batch, 0)[lane]] for lane in range(4)
        ]
        running = [word for document in text.documents for word in document]
        assert [word for lane in lanes for word in lane] == running[:-1]
        assert max(map(len, lanes)) - min(map(len, lanes)) <= 1


def test_contradictory_settings_are_named() -> None:
    check(Batching())
    with pytest.raises(ConfigError) as error:
        check(Batching(window=1, batch_tokens=0))
    assert sorted(problem.partition(":")[0] for problem in error.value.problems) == [
        "batch_tokens",
        "window",
    ]


# Batches cut into parts: nothing is lost, nothing is read twice, rows stay where they are.


WORDS_steps = (*SPECIAL_WORDS, *(f"w{number}" for number in range(20)))
TABLE = WordTable.of(WORDS_steps, VOCABULARY, spelled=False)


def shards_of(folder: Path, lengths: list[int]) -> Shards:
    """Documents of so many words, in shards of about 60 ids."""
    random = np.random.default_rng(1)
    writer = ShardWriter(folder, tokens_per_shard=60)
    for length in lengths:
        writer.add([START, *random.integers(3, len(WORDS_steps), length).tolist(), END])
    writer.close()
    return Shards(folder)


def predictions(batch: Batch) -> list[dict[int, list[int]]]:
    """Of each direction, the words that each row of a batch is asked for."""
    found: list[dict[int, list[int]]] = []
    for targets in (batch.forward, batch.backward):
        rows: dict[int, list[int]] = {}
        texts = batch.layout.text[targets.tokens].tolist()
        for text, target in zip(texts, targets.ids.tolist(), strict=True):
            rows.setdefault(text, []).append(target)
        found.append(rows)
    return found


documents = st.lists(st.integers(1, 40), min_size=1, max_size=12)
kinds = st.sampled_from(["documents", "stream"])


@given(lengths=documents, kind=kinds, size=st.integers(1, 4), accumulate=st.integers(1, 3))
def test_the_parts_hold_the_batch(tmp_path_factory, lengths, kind, size, accumulate):
    shards = shards_of(tmp_path_factory.mktemp("shards"), lengths)
    batching = Batching(batching=kind, batch_tokens=24, window=6)
    shares = [MicroBatches.of_process(rank, size, accumulate) for rank in range(size)]
    divided = [list(read_steps(shards, TABLE, batching, (3,), mine=one)) for one in shares]
    whole = list(read(shards, TABLE, batching, (3,)))
    assert {len(steps) for steps in divided} == {len(whole)}
    for batch, *steps in zip(whole, *divided, strict=True):
        expected = predictions(batch)
        found: list[dict[int, list[int]]] = [{}, {}]
        for step in steps:
            assert step.rows == batch.layout.texts
            assert step.forward_targets == len(batch.forward.ids)
            assert step.backward_targets == len(batch.backward.ids)
            for part in filter(None, step.micro_batches):
                assert part.is_first_window == batch.is_first_window
                for direction, rows in enumerate(predictions(part)):
                    for row, words in rows.items():
                        places = part.rows
                        original = row if places is None else range(step.rows)[places.indices][row]
                        assert original not in found[direction], "a row is read twice"
                        found[direction][original] = words
        assert found == expected


@given(lengths=documents, kind=kinds, skip=st.integers(0, 12))
def test_reading_can_start_anywhere(tmp_path_factory, lengths, kind, skip):
    shards = shards_of(tmp_path_factory.mktemp("shards"), lengths)
    batching = Batching(batching=kind, batch_tokens=24, window=6)
    share = MicroBatches.of_process(1, 2, 1)
    whole = list(read_steps(shards, TABLE, batching, (3,), mine=share))
    rest = list(read_steps(shards, TABLE, batching, (3,), skip, share))
    assert len(rest) == max(0, len(whole) - skip)
    for one, other in zip(whole[skip:], rest, strict=True):
        assert (one.rows, one.forward_targets) == (other.rows, other.forward_targets)
        for mine, theirs in zip(one.micro_batches, other.micro_batches, strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                assert torch.equal(mine.forward.ids, theirs.forward.ids)


def test_an_undivided_batch_is_the_batch(tmp_path):
    shards = shards_of(tmp_path, [3, 9, 9, 20])
    batching = Batching(batch_tokens=24, window=6)
    for step, batch in zip(
        read_steps(shards, TABLE, batching, (0,)), read(shards, TABLE, batching, (0,)), strict=True
    ):
        (part,) = step.micro_batches
        assert part.rows is None
        assert same([part], [batch])


@pytest.mark.parametrize(("size", "accumulate"), [(1, 1), (3, 1), (2, 4)])
def test_every_part_belongs_to_one_process(size, accumulate):
    shares = [MicroBatches.of_process(rank, size, accumulate) for rank in range(size)]
    rows = [row for one in shares for part in one.rows(11) for row in range(11)[part.indices]]
    assert sorted(rows) == list(range(11))
    assert len([part for one in shares for part in one.rows(11)]) == size * accumulate

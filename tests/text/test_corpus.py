"""A prepared corpus is the text in numbers: nothing lost, counted rightly, made only once."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
import tracemalloc
import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text import corpus as corpus_module
from elmo.text.batching import WordTable, read
from elmo.text.config import Batching, ReadOptions
from elmo.text.corpus import (
    Corpus,
    CorpusRequest,
    Shards,
    ShardWriter,
    is_held_out,
    load_corpus,
    prepare,
    representative_phrase,
)
from elmo.text.sources import resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

# Held out is a stable property of a text, with the share asked for and copies together.


WORDS = [f"word{number}" for number in range(2000)]
MASK = 2**64 - 1
ODD = 0x9E3779B97F4A7C15


def texts(number: int, length: int, seed: int = 0) -> list[list[str]]:
    source = random.Random(seed)
    return [source.choices(WORDS, k=length) for _ in range(number)]


def mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def side(tokens: list[str]) -> float:
    """Where a text lies between 0 and 1: the rule written with plain whole numbers."""
    hashes = [zlib.crc32(token.lower().encode()) for token in tokens]
    phrases = [hashes[first : first + 5] for first in range(max(1, len(hashes) - 4))]
    numbers: list[int] = []
    for phrase in phrases:
        number = 0
        for value in phrase:
            number = (number * ODD + value) & MASK
        numbers.append(number)
    return mixed((min(numbers, key=mixed) + ODD) & MASK) / 2**64


@pytest.mark.parametrize("length", [1, 2, 4, 5, 6, 40])
def test_the_rule(length: int) -> None:
    for text in texts(100, length, seed=length):
        for share in (0.02, 0.3, 0.9):
            assert is_held_out(text, share) == (side(text) < share)


# Capital sigma becomes another letter at the end of a word, which apostrophes do not end.
@given(st.lists(st.text("aΣ'’.İß雨🙂\u0301", min_size=1, max_size=4), min_size=1, max_size=9))
def test_the_rule_in_any_script(text: list[str]) -> None:
    assert representative_phrase(text) / 2**64 == side(text)


def test_the_rule_never_changes() -> None:
    # Fixed for ever: another answer would let old models see what new ones hold out.
    found = [is_held_out(f"This is sentence number {n} .".split(), 0.25) for n in range(24)]
    assert "".join("x" if one else "." for one in found) == ".......xxx.x..x.xxx..xx."


@pytest.mark.parametrize("length", [1, 3, 12, 60])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_share_is_kept(length: int, share: float) -> None:
    # Distinct texts: copies fall together, so they would not be independent draws.
    drawn = sorted(set(map(tuple, texts(2000, length, seed=1))))
    held_out = sum(is_held_out(list(text), share) for text in drawn)
    deviation = (len(drawn) * share * (1 - share)) ** 0.5
    assert abs(held_out - len(drawn) * share) < 4 * deviation


def test_the_ends_of_the_scale() -> None:
    assert not any(is_held_out(text, 0.0) for text in texts(50, 8))
    assert all(is_held_out(text, 1.0) for text in texts(50, 8))


def test_a_larger_share_holds_what_a_smaller_one_held() -> None:
    for text in texts(300, 20):
        assert is_held_out(text, 0.3) or not is_held_out(text, 0.1)


def test_copies_fall_on_the_same_side_whatever_their_case() -> None:
    for text in texts(200, 15):
        assert is_held_out([word.upper() for word in text], 0.5) == is_held_out(text, 0.5)


def test_near_copies_mostly_fall_on_the_same_side() -> None:
    source = random.Random(3)
    together = 0
    for text in texts(400, 60):
        copy = list(text)
        copy[source.randrange(60)] = "changed"
        together += is_held_out(copy, 0.5) == is_held_out(text, 0.5)
    # Of 61 phrases at least 51 are common; strangers would agree half of the time.
    assert together / 400 > 0.88


def test_strangers_fall_independently() -> None:
    first, second = texts(1000, 30, seed=4), texts(1000, 30, seed=5)
    together = sum(
        is_held_out(one, 0.5) == is_held_out(other, 0.5)
        for one, other in zip(first, second, strict=True)
    )
    assert 430 < together < 570


# Documents come back from disk as they went in, and damage is told.


FULL = Path("/dev/full")
DOCUMENTS = st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=12), max_size=12)


def write(folder: Path, documents: list[list[int]], tokens_per_shard: int) -> Shards:
    writer = ShardWriter(folder, tokens_per_shard)
    for document in documents:
        writer.add(document)
    writer.close()
    return Shards(folder)


def contents(shards: Shards) -> list[list[int]]:
    return [
        shard.ids[start:end].tolist()
        for shard in shards
        for start, end in zip(shard.starts, shard.ends, strict=True)
    ]


@given(DOCUMENTS, st.integers(1, 30))
def test_any_documents_come_back(documents: list[list[int]], tokens_per_shard: int) -> None:
    with TemporaryDirectory() as folder:
        shards = write(Path(folder), documents, tokens_per_shard)
        assert contents(shards) == documents
        assert shards.documents == len(documents)
        assert shards.positions == sum(map(len, documents))
        assert shards.targets == sum(len(document) - 1 for document in documents)
        for shard in shards:
            assert len(shard.ids) <= tokens_per_shard or len(shard.ends) == 1


def test_shards_are_mapped_rather_than_read(tmp_path: Path) -> None:
    shards = write(tmp_path, [[1, 2, 3]] * 4, 6)
    assert len(shards) == 2
    assert isinstance(shards[0].ids, np.memmap)


def test_shards_keep_their_order_beyond_ten(tmp_path: Path) -> None:
    shards = write(tmp_path, [[number] for number in range(120)], 1)
    assert [shard.ids[0] for shard in shards] == list(range(120))


@given(DOCUMENTS.map(lambda found: [[n % 50 for n in one] for one in found]), st.randoms())
def test_renumbering(documents: list[list[int]], random: object) -> None:
    new_ids = list(range(100, 150))
    random.shuffle(new_ids)  # pyright: ignore
    with TemporaryDirectory() as folder:
        shards = write(Path(folder), documents, 10)
        shards.renumber(np.array(new_ids, np.uint32))
        assert contents(shards) == [[new_ids[n] for n in one] for one in documents]


def test_no_documents_give_no_shards(tmp_path: Path) -> None:
    assert len(write(tmp_path, [], 10)) == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "other kind", "other length"])
def test_damage_is_told(tmp_path: Path, damage: str) -> None:
    shards = write(tmp_path / "train", [list(range(50))], 100)
    ids, ends = tmp_path / "train" / "00000.ids.npy", tmp_path / "train" / "00000.ends.npy"
    match damage:
        case "cut":
            ids.write_bytes(ids.read_bytes()[:-40])
        case "empty":
            ids.write_bytes(b"")
        case "missing":
            ends.unlink()
        case "other kind":
            np.save(ids, np.arange(50, dtype=np.float32))
        case _:
            np.save(ends, np.array([49], np.int64))
    with pytest.raises(UserError, match=f"delete {tmp_path}"):
        shards[0]


@pytest.mark.skipif(not FULL.exists(), reason="needs the device /dev/full")
@pytest.mark.parametrize("file", ["00000.ids.npy", "00000.ends.npy"])
@pytest.mark.parametrize("words", [3, 100_000])
def test_a_full_disk_is_noticed(tmp_path: Path, file: str, words: int) -> None:
    (tmp_path / file).symlink_to(FULL)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, [list(range(words))], words)


AT_SPACES = TokenizerConfig(tokenizer="whitespace")
SHARE = 0.3


def documents(number: int, seed: int = 0) -> list[list[str]]:
    source = random.Random(seed)
    words = [f"w{rank}" for rank in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    return [source.choices(words, weights, k=source.randint(1, 25)) for _ in range(number)]


def write_corpus(path: Path, texts: list[list[str]]) -> Path:
    path.write_text("".join(" ".join(text) + "\n" for text in texts), encoding="utf-8")
    return path


def request(path: Path, **settings: object) -> CorpusRequest:
    given = {"tokenizer": AT_SPACES, "held_out_share": SHARE, **settings}
    return CorpusRequest(sources=resolve([str(path)]), **given)  # pyright: ignore


def decoded(corpus: Corpus, shards: Shards) -> list[list[str]]:
    return [
        [corpus.words[place] for place in shard.ids[start:end]]
        for shard in shards
        for start, end in zip(shard.starts, shard.ends, strict=True)
    ]


def bounded(texts: list[list[str]]) -> list[list[str]]:
    return [["<S>", *text, "</S>"] for text in texts]


def moments(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "ShardWriter", partial(ShardWriter, tokens_per_shard=500))


@pytest.mark.usefixtures("small_shards")
def test_ids_decode_to_the_words_of_each_part(tmp_path: Path) -> None:
    texts = documents(200)
    corpus = prepare(request(write_corpus(tmp_path / "a.txt", texts)), cache=tmp_path / "cache")
    train = [text for text in texts if not is_held_out(text, SHARE)]
    held_out = [text for text in texts if is_held_out(text, SHARE)]
    assert len(corpus.train) > 1
    assert decoded(corpus, corpus.train) == bounded(train)
    assert decoded(corpus, corpus.held_out) == bounded(held_out)
    assert corpus.tokens == sum(map(len, train))


@pytest.mark.usefixtures("small_shards")
def test_counts_are_those_of_the_training_part_most_frequent_first(tmp_path: Path) -> None:
    texts = [*documents(200), ["only", "once"]]
    path = write_corpus(tmp_path / "a.txt", texts)
    unseen = write_corpus(tmp_path / "b.txt", [["unseen", "w0"]])
    asked = request(path, held_out_sources=resolve([str(unseen)]))
    corpus = prepare(asked, cache=tmp_path / "cache")
    expected = Counter(word for text in texts for word in text)
    found = dict(zip(corpus.words, corpus.counts.tolist(), strict=True))
    assert corpus.words[:3] == SPECIAL_WORDS
    assert found.pop("<S>") == found.pop("</S>") == len(texts)
    assert found.pop("<UNK>") == 0
    assert found.pop("unseen") == 0
    assert found == expected
    ranked = corpus.counts[3:].tolist()
    assert ranked == sorted(ranked, reverse=True)


def test_a_given_held_out_part_is_the_only_one(tmp_path: Path) -> None:
    texts, other = documents(50), documents(10, seed=1)
    asked = request(
        write_corpus(tmp_path / "a.txt", texts),
        held_out_sources=resolve([str(write_corpus(tmp_path / "b.txt", other))]),
    )
    corpus = prepare(asked, cache=tmp_path / "cache")
    assert decoded(corpus, corpus.train) == bounded(texts)
    assert decoded(corpus, corpus.held_out) == bounded(other)


@pytest.mark.parametrize("tokenizer", ["whitespace", "regex", "regex-2", "characters"])
def test_an_unchanged_corpus_is_used_again(tmp_path: Path, tokenizer: str) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(20)), tmp_path / "cache"
    asked = request(path, tokenizer=TokenizerConfig(tokenizer=tokenizer))
    first = prepare(asked, cache=cache)
    before = moments(cache)
    again = prepare(asked, cache=cache)
    assert moments(cache) == before
    assert again.folder == first.folder
    assert load_corpus(first.folder).words == first.words


def test_a_changed_file_is_prepared_anew(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", [["old"] * 3]), tmp_path / "cache"
    everything = partial(request, held_out_share=0.0)
    old = prepare(everything(path), cache=cache)
    write_corpus(path, [["new"] * 3])
    # As a text editor on a coarse file system might leave it: the same size, another moment.
    os.utime(path, ns=(0, 123_456_789))
    new = prepare(everything(path), cache=cache)
    assert (old.words[3:], new.words[3:]) == (("old",), ("new",))


@pytest.mark.parametrize(
    "changed",
    [
        {"held_out_share": 0.1},
        {"tokenizer": TokenizerConfig(tokenizer="whitespace", lowercase=True)},
        {"tokenizer": TokenizerConfig()},
        {"read": ReadOptions(errors="replace")},
    ],
)
def test_changed_settings_are_prepared_anew(tmp_path: Path, changed: dict[str, object]) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(20)), tmp_path / "cache"
    first = prepare(request(path), cache=cache)
    second = prepare(request(path, **changed), cache=cache)
    assert second.folder != first.folder


def test_a_function_of_the_user_is_never_taken_from_the_cache(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", [["ab", "cd"]]), tmp_path / "cache"
    asked = request(path, tokenizer=TokenizerConfig(tokenizer="custom"), held_out_share=0.0)
    whole = prepare(asked, cache=cache, custom_tokenizer=str.split)
    assert whole.words[3:] == ("ab", "cd")
    letters = prepare(asked, cache=cache, custom_tokenizer=lambda text: [*text.replace(" ", "")])
    assert letters.words[3:] == ("a", "b", "c", "d")


def test_an_interrupted_corpus_leaves_nothing(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(1000)), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        prepare(request(path), cache=cache, progress=interrupt)
    assert not list((cache / "corpora").iterdir())
    assert prepare(request(path), cache=cache).tokens > 0


def interrupt(documents_read: int) -> None:
    raise KeyboardInterrupt(documents_read)


def test_text_without_training_words_is_told(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "a.txt", documents(3))
    with pytest.raises(UserError, match="no training text"):
        prepare(request(path, held_out_share=1.0), cache=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "corpora").iterdir())


def test_words_beyond_the_largest_lexicon_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "LARGEST_LEXICON", 5)
    path = write_corpus(tmp_path / "a.txt", [["a", "b"], ["c", "a"]])
    corpus = prepare(request(path, held_out_share=0.0), cache=tmp_path / "cache")
    assert decoded(corpus, corpus.train) == bounded([["a", "b"], ["<UNK>", "a"]])
    assert corpus.counts[2] == 1


def peak(path: Path, cache: Path) -> int:
    """The most memory that preparing and reading a text ever took."""
    tracemalloc.start()
    corpus = prepare(request(path), cache=cache)
    vocabulary = Vocabulary(corpus.words, tuple(corpus.counts.tolist()))
    table = WordTable.of(corpus.words, vocabulary, spelled=False)
    for batching in (Batching(batch_tokens=512), Batching(batching="stream")):
        for _ in read(corpus.train, table, batching, seed=(0,)):
            pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_ten_times_the_text_takes_the_same_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "ShardWriter", partial(ShardWriter, tokens_per_shard=3000))
    texts = documents(600)
    small = write_corpus(tmp_path / "small.txt", texts)
    large = write_corpus(tmp_path / "large.txt", [*texts, *documents(5400, seed=1)])
    peak(small, tmp_path / "warm")
    least, most = peak(small, tmp_path / "cache"), peak(large, tmp_path / "cache")
    assert most < 1.15 * least
    # No formality: to keep nothing but the ids of the larger text would show.
    assert least + 4 * sum(map(len, documents(5400, seed=1))) > 1.15 * least


def test_other_content_of_the_same_size_and_time_is_prepared_anew(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", [["old"] * 3]), tmp_path / "cache"
    status = path.stat()
    asked = request(path, held_out_share=0.0)
    assert prepare(asked, cache=cache).words[3:] == ("old",)
    write_corpus(path, [["new"] * 3])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert prepare(asked, cache=cache).words[3:] == ("new",)


@pytest.mark.parametrize("name", ["train/00000.ids.npy", "train/00000.ends.npy", "lexicon.txt"])
def test_a_changed_cache_is_noticed_and_prepared_again(tmp_path: Path, name: str) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(30)), tmp_path / "cache"
    corpus = prepare(request(path), cache=cache)
    content = (corpus.folder / name).read_bytes()
    (corpus.folder / name).write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(UserError, match="not what was written there"):
        load_corpus(corpus.folder)
    again = prepare(request(path), cache=cache)
    assert again.digest == corpus.digest
    assert (corpus.folder / name).read_bytes() == content
    manifest = corpus.folder / "corpus.json"
    manifest.write_text(manifest.read_text().replace(corpus.digest, "0" * 64))
    with pytest.raises(UserError, match="damaged"):
        load_corpus(corpus.folder)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(1500)), tmp_path / "cache"

    def grow(_: int) -> None:
        with path.open("a") as file:
            file.write("more\n")

    with pytest.raises(UserError, match="changed while it was read"):
        prepare(request(path), cache=cache, progress=grow)
    assert not list((cache / "corpora").iterdir())


def prepare_slowly(path: Path, cache: Path) -> None:
    prepare(request(path), cache=cache, progress=lambda _: time.sleep(0.1))


def test_processes_that_prepare_one_text_at_once_make_one_right_corpus(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(3000)), tmp_path / "cache"
    alone = prepare(request(path), cache=tmp_path / "alone")
    context = multiprocessing.get_context("fork")
    together = [context.Process(target=prepare_slowly, args=(path, cache)) for _ in range(3)]
    for process in together:
        process.start()
    for process in together:
        process.join()
    assert [process.exitcode for process in together] == [0, 0, 0]
    assert prepare(request(path), cache=cache).digest == alone.digest
    assert len(list((cache / "corpora").iterdir())) == 1


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", documents(3000)), tmp_path / "cache"
    context = multiprocessing.get_context("fork")
    process = context.Process(target=prepare_slowly, args=(path, cache))
    process.start()
    while not list((cache / "corpora").glob(".*.partial/train")):
        time.sleep(0.01)
    process.kill()
    process.join()
    corpus = prepare(request(path), cache=cache)
    assert [path.name for path in (cache / "corpora").iterdir()] == [corpus.fingerprint]


def test_functions_of_the_user_do_not_share_a_corpus(tmp_path: Path) -> None:
    path, cache = write_corpus(tmp_path / "a.txt", [["ab", "cd"]]), tmp_path / "cache"
    asked = request(path, tokenizer=TokenizerConfig(tokenizer="custom"), held_out_share=0.0)
    upper = prepare(asked, cache=cache, custom_tokenizer=lambda text: text.upper().split())
    title = prepare(asked, cache=cache, custom_tokenizer=lambda text: text.title().split())
    assert upper.folder != title.folder
    assert load_corpus(upper.folder).words[3:] == ("AB", "CD")

"""A prepared corpus is the text in numbers: nothing lost, counted rightly, made only once."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.text import corpus as corpus_module
from elmo.text.batches import WordTable
from elmo.text.batching import read
from elmo.text.batching_config import Batching
from elmo.text.corpus import Corpus, CorpusRequest, load_corpus, prepare
from elmo.text.held_out import is_held_out
from elmo.text.shards import Shards, ShardWriter
from elmo.text.sources import ReadOptions, resolve
from elmo.text.tokenizers import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

AT_SPACES = TokenizerConfig(tokenizer="whitespace")
SHARE = 0.3


def documents(number: int, seed: int = 0) -> list[list[str]]:
    source = random.Random(seed)
    words = [f"w{rank}" for rank in range(60)]
    weights = [1 / (rank + 1) for rank in range(60)]
    return [source.choices(words, weights, k=source.randint(1, 25)) for _ in range(number)]


def write(path: Path, texts: list[list[str]]) -> Path:
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
    corpus = prepare(request(write(tmp_path / "a.txt", texts)), cache=tmp_path / "cache")
    train = [text for text in texts if not is_held_out(text, SHARE)]
    held_out = [text for text in texts if is_held_out(text, SHARE)]
    assert len(corpus.train) > 1
    assert decoded(corpus, corpus.train) == bounded(train)
    assert decoded(corpus, corpus.held_out) == bounded(held_out)
    assert corpus.tokens == sum(map(len, train))


@pytest.mark.usefixtures("small_shards")
def test_counts_are_those_of_the_training_part_most_frequent_first(tmp_path: Path) -> None:
    texts = [*documents(200), ["only", "once"]]
    path = write(tmp_path / "a.txt", texts)
    unseen = write(tmp_path / "b.txt", [["unseen", "w0"]])
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
        write(tmp_path / "a.txt", texts),
        held_out_sources=resolve([str(write(tmp_path / "b.txt", other))]),
    )
    corpus = prepare(asked, cache=tmp_path / "cache")
    assert decoded(corpus, corpus.train) == bounded(texts)
    assert decoded(corpus, corpus.held_out) == bounded(other)


def test_an_unchanged_corpus_is_used_again(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.txt", documents(20)), tmp_path / "cache"
    first = prepare(request(path), cache=cache)
    before = moments(cache)
    again = prepare(request(path), cache=cache)
    assert moments(cache) == before
    assert again.folder == first.folder
    assert load_corpus(first.folder).words == first.words


def test_a_changed_file_is_prepared_anew(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.txt", [["old"] * 3]), tmp_path / "cache"
    everything = partial(request, held_out_share=0.0)
    old = prepare(everything(path), cache=cache)
    write(path, [["new"] * 3])
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
    path, cache = write(tmp_path / "a.txt", documents(20)), tmp_path / "cache"
    first = prepare(request(path), cache=cache)
    second = prepare(request(path, **changed), cache=cache)
    assert second.folder != first.folder


def test_a_function_of_the_user_is_never_taken_from_the_cache(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.txt", [["ab", "cd"]]), tmp_path / "cache"
    asked = request(path, tokenizer=TokenizerConfig(tokenizer="custom"), held_out_share=0.0)
    whole = prepare(asked, cache=cache, custom_tokenizer=str.split)
    assert whole.words[3:] == ("ab", "cd")
    letters = prepare(asked, cache=cache, custom_tokenizer=lambda text: [*text.replace(" ", "")])
    assert letters.words[3:] == ("a", "b", "c", "d")


def test_an_interrupted_corpus_leaves_nothing(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.txt", documents(1000)), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        prepare(request(path), cache=cache, progress=interrupt)
    assert not list((cache / "corpora").iterdir())
    assert prepare(request(path), cache=cache).tokens > 0


def interrupt(documents_read: int) -> None:
    raise KeyboardInterrupt(documents_read)


def test_text_without_training_words_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", documents(3))
    with pytest.raises(UserError, match="no training text"):
        prepare(request(path, held_out_share=1.0), cache=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "corpora").iterdir())


def test_words_beyond_the_largest_lexicon_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "LARGEST_LEXICON", 5)
    path = write(tmp_path / "a.txt", [["a", "b"], ["c", "a"]])
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
    small = write(tmp_path / "small.txt", texts)
    large = write(tmp_path / "large.txt", [*texts, *documents(5400, seed=1)])
    peak(small, tmp_path / "warm")
    least, most = peak(small, tmp_path / "cache"), peak(large, tmp_path / "cache")
    assert most < 1.15 * least
    # No formality: to keep nothing but the ids of the larger text would show.
    assert least + 4 * sum(map(len, documents(5400, seed=1))) > 1.15 * least

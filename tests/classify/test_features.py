"""Layers that were kept are those that reading anew gives, in memory and on disk alike."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import given as given_examples
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.classify.toy import WORDS, toy_model, toy_texts

from elmo.classify import features as text_rows
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    batches_by_length,
    build_task_vocabulary,
    check_vector_size,
    cut_texts,
    init_from_word_vectors,
    limit_cache,
    shuffled_batches,
    task_ids,
    tokenize_texts,
    with_pretrained_words,
    word_size,
)
from elmo.classify.linear import pooled_layers
from elmo.classify.network import TextLayers
from elmo.embed.embedder import Embedder
from elmo.embed.mix import PackedLayers
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import UNKNOWN

# Own vectors are for words that occur often enough, in an order that texts do not decide, and for
# those that vectors are given for.


def test_frequent_words_first_then_by_alphabet() -> None:
    texts = [["b", "a", "c"], ["a", "b"], ["a", "d", "d"]]
    own = build_task_vocabulary(texts, min_count=2)
    assert own.words[3:] == ("a", "b", "d")
    assert own.counts[3:] == (3, 2, 2)
    assert own == build_task_vocabulary(texts[::-1], min_count=2)
    assert own.id("c") == 2


def pretrained(rows: dict[str, list[float]]) -> StaticVectors:
    return StaticVectors(tuple(rows), np.array(list(rows.values()), np.float32))


@settings(max_examples=50)
@given_examples(st.lists(st.sampled_from(["Cat", "cat", "CAT", "Dog", "yak"])), st.booleans())
def test_a_word_without_a_row_takes_that_of_its_lower_case_form(
    words: list[str], lower_case: bool
) -> None:
    own = build_task_vocabulary([["Cat", "cat", "dog"]], 1)
    rows = {"Cat": own.id("Cat"), "cat": own.id("cat"), "CAT": own.id("cat"), "Dog": own.id("dog")}
    known = rows if lower_case else {word: rows[word] for word in ("Cat", "cat")}
    expected = [known.get(word, UNKNOWN) for word in words]
    assert task_ids(own, words, lower_case).tolist() == expected


def test_given_words_come_behind_and_begin_as_given() -> None:
    own = build_task_vocabulary([["Cat", "Cat", "sat", "the"]], 1)
    vectors = pretrained(
        {"the": [1, 2], "cat": [3, 4], "yak": [5, 6], "two words": [7, 8], "<unk>": [9, 9]}
    )
    grown = with_pretrained_words(own, vectors)
    assert grown.words == (*own.words, "cat", "yak", "<unk>")
    torch.manual_seed(0)
    table = torch.randn(len(grown), 3)
    drawn = table.clone()
    init_from_word_vectors(table, grown, vectors)
    rows = {word: row.tolist() for word, row in zip(grown.words, table, strict=True)}
    first = {word: row.tolist() for word, row in zip(grown.words, drawn, strict=True)}
    assert rows["the"] == [1, 2, first["the"][2]]
    assert rows["Cat"] == [3, 4, first["Cat"][2]]
    assert rows["cat"] == [3, 4, 0]
    assert rows["yak"] == [5, 6, 0]
    untouched = ("<S>", "</S>", "<UNK>", "sat")
    assert {word: rows[word] for word in untouched} == {word: first[word] for word in untouched}


def test_vectors_longer_than_own_ones_are_refused() -> None:
    check_vector_size(pretrained({"cat": [1, 2, 3]}), 3)
    with pytest.raises(UserError, match="--task-dim 4 or more"):
        check_vector_size(pretrained({"cat": [1, 2, 3, 4]}), 3)


def test_vectors_of_other_words_are_refused() -> None:
    vectors = pretrained({"yak": [1, 2]})
    own = with_pretrained_words(build_task_vocabulary([["cat"]], 1), vectors)
    with pytest.raises(UserError, match="the file has none of these words"):
        init_from_word_vectors(torch.zeros(len(own), 3), own, vectors)


# Texts are cut once, and read in any grouping they give the same layers.


def test_long_texts_are_cut_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        cut = cut_texts(tokenize_texts(toy_model(), ["the cat sat on", "rain", ["a", "b", "c"]]), 2)
    assert cut == [["the", "cat"], ["rain"], ["a", "b"]]
    assert "first 2 words: 2 of 3" in caplog.text


def test_all_texts_are_read_once_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "TOKENS_AT_ONCE", 20)
    loaded = toy_model()
    words = [*cut_texts(tokenize_texts(loaded, toy_texts(30).texts), 5), []]
    rows = TokenizedTexts(words, build_task_vocabulary([WORDS], 1))
    seen: list[int] = []
    for numbers, read in rows.read_all(loaded.model):
        seen += numbers
        for place, row in enumerate(numbers):
            with torch.no_grad():
                alone = rows.read([row], loaded.model)
            length = len(words[row])
            assert int(read.lengths[place]) == length
            assert alone.task_ids[0].tolist() == rows.task_vocabulary.encode(words[row]).tolist()
            assert isinstance(alone.layers, torch.Tensor)
            torch.testing.assert_close(
                read.layers[:, place, :length], alone.layers[:, 0], rtol=0, atol=1e-6
            )
    assert sorted(seen) == list(range(31))


def test_gradients_flow_when_they_are_on() -> None:
    loaded = toy_model()
    rows = TokenizedTexts([["the", "cat"]], build_task_vocabulary([WORDS], 1))
    rows.read([0], loaded.model).layers.sum().backward()
    assert all(p.grad is not None for p in loaded.model.forward_stack.parameters())


TEXTS = [["the", "cat", "was", "on"], ["rain"], [], ["sun", "wind", "unheard"]]
HALF = 2.0**-11
"""What half precision rounds by, at most, of a number."""


def rows() -> TokenizedTexts:
    return TokenizedTexts(TEXTS, build_task_vocabulary([WORDS], 1))


@pytest.mark.parametrize("memory", [1.0, 0.0])
def test_kept_layers_are_those_read_anew(tmp_path: Path, memory: float) -> None:
    model, texts = toy_model().model, rows()
    features = FrozenFeatures.compute(texts, model, memory=memory, folder=tmp_path)
    for chosen in ([0, 1, 2, 3], [3, 0], [1], [2]):
        kept = features.read(chosen)
        with torch.no_grad():
            anew = texts.read(chosen, model)
        assert isinstance(kept.layers, PackedLayers)
        torch.testing.assert_close(kept.layers.unpacked(), anew.layers, rtol=HALF, atol=1e-6)
        assert torch.equal(kept.lengths, anew.lengths)
        assert torch.equal(kept.task_ids, anew.task_ids)


def test_disk_and_memory_give_the_same_and_no_file_is_left(tmp_path: Path) -> None:
    model, texts = toy_model().model, rows()
    kept = [
        FrozenFeatures.compute(texts, model, memory=memory, folder=tmp_path).read([0, 1, 2, 3])
        for memory in (1.0, 0.0)
    ]
    first, second = (one.layers for one in kept)
    assert isinstance(first, PackedLayers)
    assert isinstance(second, PackedLayers)
    assert torch.equal(first.values, second.values)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes_read_from_disk_without_disturbing_each_other(tmp_path: Path) -> None:
    texts, model = rows(), toy_model().model
    features = FrozenFeatures.compute(texts, model, memory=0.0, folder=tmp_path)
    storage = features._storage  # pyright: ignore[reportPrivateUsage]
    words = np.empty((2, 4, storage.size), np.float16)
    storage.get(0, words[0])
    storage.get(4, words[1])

    def read_often(index: int) -> bool:
        out = np.empty_like(words[index])
        for _ in range(2000):
            storage.get(4 * index, out)
            if not np.array_equal(out, words[index]):
                return False
        return True

    child = os.fork()
    if child == 0:
        os._exit(0 if read_often(1) else 1)
    assert read_often(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(("machine", "kind"), [(10**6, "_Memory"), (100, "_Disk")])
def test_unless_told_half_of_the_memory_may_be_used(
    machine: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo.classify.features.machine_memory", lambda: machine)
    kept = FrozenFeatures.compute(rows(), toy_model().model, memory=None, folder=tmp_path)
    assert type(kept._storage).__name__ == kind  # pyright: ignore[reportPrivateUsage]


def test_layer_0_is_kept_once() -> None:
    assert word_size(toy_model().model) == 6 + 2 * 12


def test_progress_counts_every_text_and_word(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    FrozenFeatures.compute(
        rows(), toy_model().model, memory=1, folder=tmp_path,
        on_texts=lambda texts, words: seen.append((texts, words)),
    )  # fmt: skip
    assert [sum(column) for column in zip(*seen, strict=True)] == [4, 8]


def test_texts_without_words_are_counted_and_have_no_layers(tmp_path: Path) -> None:
    counted: list[tuple[int, int]] = []
    texts = TokenizedTexts([[], []], build_task_vocabulary([WORDS], 1))
    features = FrozenFeatures.compute(
        texts, toy_model().model, memory=1.0, folder=tmp_path, on_texts=lambda *n: counted.append(n)
    )
    assert counted == [(2, 0)]
    assert features.read([0, 1]).lengths.tolist() == [0, 0]


def test_values_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    model = toy_model().model
    with torch.no_grad():
        assert model.token_layer.word_vectors is not None
        model.token_layer.word_vectors.mul_(1e6)
    with pytest.raises(UserError, match="half precision"):
        FrozenFeatures.compute(rows(), model, memory=1, folder=tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file"):
        FrozenFeatures.compute(
            rows(), toy_model().model, memory=0, folder=tmp_path / "file" / "below"
        )


def test_after_a_kill_the_layers_of_finished_blocks_are_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network, tagger and pairs started over with the first text."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setattr("elmo.classify.features.TOKENS_AT_ONCE", 20)
    words = [text.split() for text in toy_texts(12).texts]
    texts, model = TokenizedTexts(words, build_task_vocabulary(words, 1)), toy_model().model
    reads: list[int] = []
    real = TokenizedTexts.read

    def counted(self: TokenizedTexts, rows: list[int], *args: Any) -> TextLayers:
        if dies and len(reads) >= 3:
            raise KeyboardInterrupt
        reads.extend(rows)
        return real(self, rows, *args)

    def layers(memory: float = 1.0) -> NDArray[np.float16]:
        kept = FrozenFeatures.compute(texts, model, memory=memory, folder=tmp_path / "scratch")
        return cast("PackedLayers", kept.read(range(len(words))).layers).values.numpy()

    dies = False
    with monkeypatch.context() as patch:
        patch.setenv("ELMO_CACHE", str(tmp_path / "other"))
        whole = layers()
    monkeypatch.setattr(TokenizedTexts, "read", counted)
    dies = True
    with pytest.raises(KeyboardInterrupt):
        layers()
    dies, before = False, len(reads)
    assert 0 < before < len(words)
    np.testing.assert_array_equal(layers(), whole)
    assert len(reads) == len(words), "a text was read twice, or not at all"
    np.testing.assert_array_equal(layers(memory=0.0), whole)
    assert len(reads) == len(words)
    damaged = next(iter((tmp_path / "features").rglob("*.npy")))
    content = bytearray(damaged.read_bytes())
    content[200] ^= 1  # one bit of one number
    damaged.write_bytes(content)
    np.testing.assert_array_equal(layers(), whole)
    assert len(reads) > len(words), "a damaged file was believed"


# Every row is learned from once an epoch, in an order that follows from seed and epoch.


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 5), st.integers(0, 5))
def test_each_row_once_and_the_same_for_the_same_seed(
    number: int, batch: int, seed: int, epoch: int
) -> None:
    lengths = np.random.default_rng(7).integers(0, 30, number + 10)
    rows = np.arange(5, number + 5)
    batches = shuffled_batches(rows, lengths, batch, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == rows.tolist()
    assert max(map(len, batches)) <= batch
    again = shuffled_batches(rows, lengths, batch, seed, epoch)
    assert all(map(np.array_equal, batches, again))


def test_epochs_differ_and_like_lengths_stand_together() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    rows = np.arange(1000)
    one, other = (shuffled_batches(rows, lengths, 20, 0, epoch) for epoch in (0, 1))
    assert not np.array_equal(np.concatenate(one), np.concatenate(other))
    spread = np.mean([np.ptp(lengths[batch]) for batch in one])
    assert spread < 10


def test_by_length_the_shortest_come_first() -> None:
    lengths = np.array([5, 1, 3, 1])
    found = batches_by_length(np.arange(4), lengths, 3)
    assert [batch.tolist() for batch in found] == [[1, 3, 2], [0]]


# Layers pooled over whole texts.


def test_pooled_layers_are_those_of_the_embedder() -> None:
    loaded = toy_model()
    texts = [*toy_texts(20).texts, ""]
    words = [text.split() for text in texts]
    found = pooled_layers(words, loaded.model)
    expected = Embedder(loaded).encode(words, layer="all", pooling="mean+max+first+last")
    np.testing.assert_allclose(found[:, :, :4].reshape(expected.shape), expected, atol=2e-3)
    assert pooled_layers([], loaded.model).shape == (0, 3, 5, 12)
    # The fifth: an average in which frequent words count less, those that are unknown fully.
    vocabulary = loaded.model.vocabulary
    counts = dict(zip(vocabulary.words, vocabulary.counts, strict=True))
    total = sum(counts.values())
    for row, text in enumerate(words):
        if text:
            weights = [0.001 / (0.001 + counts.get(word, 0) / total) for word in text]
            vectors = Embedder(loaded).encode([text], output="tokens", layer="all")[0]
            mean = np.average(vectors, axis=1, weights=weights)  # (layers, words, dim)
            np.testing.assert_allclose(found[row, :, 4], mean, atol=2e-3)


def test_long_texts_are_read_in_chunks_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_model().model
    words = [["cat", "the", "rain", "on", "sun", "dog", "a"], ["wind", "was"], ["the"] * 5]
    whole = pooled_layers(words, model).astype(np.float32)
    monkeypatch.setattr("elmo.classify.linear.CHUNK_WORDS", 3)
    chunked = pooled_layers(words, model).astype(np.float32)
    np.testing.assert_allclose(chunked[1], whole[1], atol=2e-3)  # fits into one chunk
    # The words alone do not depend on chunks.
    np.testing.assert_allclose(chunked[:, 0], whole[:, 0], atol=2e-3)
    # In the last chunk the forward direction knows the first: read alone, it would be another.
    alone = pooled_layers([words[0][6:]], model).astype(np.float32)
    assert np.abs(chunked[0, 1:, 3, :6] - alone[0, 1:, 3, :6]).max() > 1e-3


def test_cached_layers_are_read_again_and_only_for_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setattr("elmo.classify.features.TOKENS_AT_ONCE", 20)
    words = [text.split() for text in toy_texts(12).texts]
    model = toy_model().model
    first = pooled_layers(words, model, cached=True)
    files = sorted(tmp_path.rglob("*.npy"))
    assert len(files) > 1
    files[0].write_bytes(b"half written")  # and what is damaged is computed again
    monkeypatch.setattr(model, "layers", None)  # the model is asked for nothing else …
    with pytest.raises(TypeError):
        pooled_layers(words, model, cached=True)
    monkeypatch.undo()
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setattr("elmo.classify.features.TOKENS_AT_ONCE", 20)
    np.testing.assert_array_equal(pooled_layers(words, model, cached=True), first)
    monkeypatch.setattr(model, "layers", None)  # … and of what is whole for nothing at all
    np.testing.assert_array_equal(pooled_layers(words, model, cached=True), first)
    assert sorted(tmp_path.rglob("*.npy")) == files
    other = pooled_layers(words, toy_model(seed=1).model, cached=True)
    assert not np.array_equal(other, first)
    monkeypatch.setattr("elmo.classify.features.CACHE_BYTES", 0)
    pooled_layers(words, toy_model(seed=1).model, cached=True)
    assert not list(tmp_path.rglob("*.npy"))


def test_files_that_another_process_deletes_meanwhile_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to nothing is what a deleted file is: a name that `stat` does not find."""
    monkeypatch.setattr("elmo.classify.features.CACHE_BYTES", 5)
    (tmp_path / "model").mkdir()
    for name in (".a.npy.elmo-0123abcd.partial", "a.npy", "b.npy"):
        (tmp_path / "model" / name).symlink_to(tmp_path / "deleted")
    for age, name in enumerate(("new.npy", "old.npy")):
        (tmp_path / "model" / name).write_bytes(b"1234")
        os.utime(tmp_path / "model" / name, (1000 - age, 1000 - age))
    limit_cache(tmp_path)
    assert (tmp_path / "model" / "new.npy").exists()
    assert not (tmp_path / "model" / "old.npy").exists()

"""The two official files become an Embedder, wherever they are and whatever comes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.official.golden_elmo import Golden, golden

from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.errors import UserError

WORDS = ["the", "cat", "naïve", "雨", "unheard", "x" * 60, "of"]
SENTENCES = [["the", "cat", "sat"], ["naïve", "雨", "x" * 60], ["one"]]
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 5e-6}


@pytest.fixture(scope="module")
def theirs() -> Golden:
    made = golden()
    made.vocabulary = ["cat", "雨", "<S>", "</S>"]
    return made


@pytest.fixture
def files(theirs: Golden, tmp_path: Path) -> tuple[Path, Path]:
    """Options and weights in folders of their own, under other names, the vocabulary beside."""
    folder = theirs.write(tmp_path / "model")
    options, weights = tmp_path / "a" / "small_options.json", tmp_path / "b" / "elmo.h5"
    for path in (options, weights):
        path.parent.mkdir()
    (folder / "options.json").rename(options)
    (folder / "weights.hdf5").rename(weights)
    return options, weights


@pytest.fixture(scope="module")
def invariant(theirs: Golden, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """One model, and one memory of words, for all examples."""
    return Embedder.from_pretrained(theirs.write(tmp_path_factory.mktemp("one") / "model"))


@pytest.mark.parametrize("as_text", [str, Path])
def test_all_layers_from_two_paths(theirs: Golden, files: tuple[Path, Path], as_text: Any) -> None:
    embedder = Embedder.from_official(*map(as_text, files))
    found = embedder.encode(SENTENCES, output="tokens", layer="all")
    for text, layers in zip(SENTENCES, found, strict=True):
        np.testing.assert_allclose(layers, theirs.read(text)[0], **CLOSE)
    assert embedder.model.vocabulary.words == ("<S>", "</S>", "<UNK>")


def test_stored_vectors_stand_for_their_words(
    theirs: Golden, files: tuple[Path, Path], tmp_path: Path
) -> None:
    words, stored = tmp_path / "model" / "vocab.txt", tmp_path / "tokens.hdf5"
    table = np.arange(16, dtype=np.float32).reshape(4, 4)
    with h5py.File(stored, "w") as file:
        file["embedding"] = table
    embedder = Embedder.from_official(*files, vocabulary=words, token_vectors=stored)
    (found,) = embedder.encode([["cat", "sat"]], output="tokens", layer=0)
    np.testing.assert_array_equal(found[0], np.tile(table[0], 2))
    np.testing.assert_allclose(found[1, :4], theirs.token("sat"), **CLOSE)
    with pytest.raises(UserError, match="need the vocabulary of their rows"):
        Embedder.from_official(*files, token_vectors=stored)


def test_settings_are_those_of_any_other_model(files: tuple[Path, Path], tmp_path: Path) -> None:
    def reversed_words(text: str) -> list[str]:
        return text.split()[::-1]

    mix = MixConfig(mix="top")
    plain = Embedder.from_official(*files, mix=mix)
    half = Embedder.from_official(*files, mix=mix, dtype="bfloat16")
    np.testing.assert_array_equal(plain.encode(SENTENCES), plain.encode(SENTENCES, layer="top"))
    assert half.encode(SENTENCES).dtype == np.float32
    gap = np.abs(half.encode(SENTENCES) - plain.encode(SENTENCES)).max()
    assert 0 < gap < 0.1
    other = Embedder.from_official(*files, custom_tokenizer=reversed_words)
    assert other.loaded.custom_tokenizer is reversed_words
    with pytest.raises(UserError, match=r"nowhere\.hdf5: no such file"):
        Embedder.from_official(files[0], tmp_path / "nowhere.hdf5")


def test_a_fresh_start_is_the_carried_one_in_the_first_batch_alone(
    files: tuple[Path, Path],
) -> None:
    embedder = Embedder.from_official(*files)
    texts = [*SENTENCES, *SENTENCES]
    options: Any = {"output": "tokens", "layer": "all"}
    carried = embedder.encode(texts, initial_state="carry", slots=3, **options)
    fresh = embedder.encode(texts, **options)
    for number, (one, other) in enumerate(zip(carried, fresh, strict=True)):
        gap = np.abs(one - other).max()
        assert gap <= 2e-6 if number < 3 else gap > 1e-3


@given(
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=6
    ),
    batch_tokens=st.sampled_from([2, 9, 4096]),
    random=st.randoms(use_true_random=False),
)
def test_batch_order_and_padding_change_nothing(
    invariant: Embedder, texts: list[list[str]], batch_tokens: int, random: Any
) -> None:
    options: Any = {"output": "tokens", "layer": "all"}
    alone = [invariant.encode([text], **options)[0] for text in texts]
    order = list(range(len(texts)))
    random.shuffle(order)
    chosen = [texts[number] for number in order]
    for number, found in zip(
        order, invariant.encode(chosen, batch_tokens=batch_tokens, **options), strict=True
    ):
        np.testing.assert_allclose(found, alone[number], rtol=0, atol=2e-6)
        np.testing.assert_array_equal(found[0], alone[number][0])  # the words, to the last bit


def test_history_changes_nothing(files: tuple[Path, Path]) -> None:
    embedder = Embedder.from_official(*files)
    first = embedder.encode(SENTENCES, output="tokens", layer="all")
    embedder.encode([["other", "words", "the"], ["雨", "雨"]])
    again = embedder.encode(SENTENCES, output="tokens", layer="all")
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)

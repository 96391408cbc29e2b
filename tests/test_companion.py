"""Static word vectors next to a biLM: what comes out is what went in, to eight bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.tiny_models import make_model

from elmo.companion import RARE, ZIPF, CompanionVectors
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import COMPANIONS, save_tensors

WORDS = ["the", "cat", "naïve", "雨"]
NUMBERS = st.floats(-100, 100, width=32)


@given(arrays(np.float32, (4, 3), elements=NUMBERS))
def test_numbers_are_rounded_by_half_a_step_at_most(vectors: np.ndarray) -> None:
    table = CompanionVectors.of(WORDS, vectors)
    step = np.abs(vectors).max(1, keepdims=True) / 127
    assert (np.abs(table.vectors(WORDS) - vectors) <= 0.501 * step + 1e-6).all()


def test_words_of_any_case_are_found_and_others_are_zeros() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    table = CompanionVectors.of(WORDS, vectors)
    found = table.vectors(["Cat", "dog", "CAT"])
    np.testing.assert_allclose(found[0], vectors[1], atol=0.03)
    assert found[1].tolist() == [0, 0, 0]
    assert found[2].tolist() == found[0].tolist()
    assert (len(table), table.dim) == (4, 3)


@given(st.lists(st.lists(st.sampled_from([*WORDS, "The", "dog"]), max_size=5), max_size=4))
def test_averages_are_weighted_by_rareness(texts: list[list[str]]) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    table = CompanionVectors.of(WORDS, vectors)
    averages = table.averages(texts)
    assert averages.shape == (len(texts), 3)
    for average, text in zip(averages, texts, strict=True):
        known = [word for word in text if word.lower() in WORDS]
        weights = [RARE / (RARE + ZIPF / (1 + WORDS.index(word.lower()))) for word in known]
        total = sum(
            (
                weight * table.vectors([word])[0]
                for word, weight in zip(known, weights, strict=True)
            ),
            start=np.zeros(3),
        )
        np.testing.assert_allclose(average, total / max(sum(weights), 1e-30), atol=1e-5)


def test_they_come_along_with_a_model(tmp_path: Path) -> None:
    make_model().save_pretrained(tmp_path / "plain")
    assert LanguageModel.from_pretrained(tmp_path / "plain").word_vectors is None
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    table = CompanionVectors.of(WORDS, vectors)
    table.save(tmp_path / "plain")
    LanguageModel.from_pretrained(tmp_path / "plain").save_pretrained(tmp_path / "copy")
    copied = LanguageModel.from_pretrained(tmp_path / "copy").word_vectors
    assert copied is not None
    assert copied.words == tuple(WORDS)
    np.testing.assert_array_equal(copied.vectors(WORDS), table.vectors(WORDS))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / COMPANIONS[1]).write_text("the\ncat\n", encoding="utf-8"),
        lambda folder: (folder / COMPANIONS[1]).write_text("the\n" * 4, encoding="utf-8"),
        lambda folder: (folder / COMPANIONS[1]).write_bytes(b"\xff\n" * 4),
        lambda folder: (folder / COMPANIONS[1]).unlink(),
        lambda folder: (folder / COMPANIONS[0]).write_bytes(b"nothing"),
        lambda folder: save_tensors(folder / COMPANIONS[0], {"table": torch.zeros(4, 3)}),
        lambda folder: save_tensors(
            folder / COMPANIONS[0],
            {"table": torch.zeros(4, 3, dtype=torch.uint8), "scales": torch.full((4,), torch.nan)},
        ),
    ],
)
def test_damaged_files_are_clear_errors(tmp_path: Path, damage) -> None:
    make_model().save_pretrained(tmp_path / "model")
    CompanionVectors.of(WORDS, np.ones((4, 3), np.float32)).save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(UserError, match="word_vectors"):
        _ = LanguageModel.from_pretrained(tmp_path / "model").word_vectors


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    make_model().save_pretrained(tmp_path / "model")
    CompanionVectors.of(WORDS, np.ones((4, 3), np.float32)).save(tmp_path)
    for name in COMPANIONS:
        (tmp_path / "model" / name).symlink_to(tmp_path / name)
    with pytest.raises(UserError, match="leads out of the model folder"):
        _ = LanguageModel.from_pretrained(tmp_path / "model").word_vectors

"""Layers that were kept are those that reading anew gives, in memory and on disk alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.classify.toy import WORDS, toy_model

from elmo.classify.features import FrozenFeatures, word_size
from elmo.classify.own_words import own_vocabulary
from elmo.classify.text_rows import TextRows
from elmo.contextual.packed import PackedLayers
from elmo.errors import UserError

TEXTS = [["the", "cat", "was", "on"], ["rain"], [], ["sun", "wind", "unheard"]]
HALF = 2.0**-11
"""What half precision rounds by, at most, of a number."""


def rows() -> TextRows:
    return TextRows(TEXTS, own_vocabulary([WORDS], 1))


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
        assert torch.equal(kept.words, anew.words)


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

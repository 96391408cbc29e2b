"""Texts are cut once, and read in any grouping they give the same layers."""

from __future__ import annotations

import logging

import pytest
import torch
from tests.classify.toy import WORDS, toy_model, toy_texts

from elmo.classify import text_rows
from elmo.classify.own_words import own_vocabulary
from elmo.classify.text_rows import TextRows, cut_into_words


def test_long_texts_are_cut_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        cut = cut_into_words(toy_model(), ["the cat sat on", "rain", ["a", "b", "c"]], 2)
    assert cut == [["the", "cat"], ["rain"], ["a", "b"]]
    assert "first 2 words: 2 of 3" in caplog.text


def test_all_texts_are_read_once_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "TOKENS_AT_ONCE", 20)
    loaded = toy_model()
    words = [*cut_into_words(loaded, toy_texts(30).texts, 5), []]
    rows = TextRows(words, own_vocabulary([WORDS], 1))
    seen: list[int] = []
    for numbers, read in rows.read_all(loaded.model):
        seen += numbers
        for place, row in enumerate(numbers):
            with torch.no_grad():
                alone = rows.read([row], loaded.model)
            length = len(words[row])
            assert int(read.lengths[place]) == length
            assert alone.words[0].tolist() == rows.own.encode(words[row]).tolist()
            assert isinstance(alone.layers, torch.Tensor)
            torch.testing.assert_close(
                read.layers[:, place, :length], alone.layers[:, 0], rtol=0, atol=1e-6
            )
    assert sorted(seen) == list(range(31))


def test_gradients_flow_when_they_are_on() -> None:
    loaded = toy_model()
    rows = TextRows([["the", "cat"]], own_vocabulary([WORDS], 1))
    rows.read([0], loaded.model).layers.sum().backward()
    assert all(p.grad is not None for p in loaded.model.forward_stack.parameters())

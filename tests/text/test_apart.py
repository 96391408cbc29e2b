"""A batch whose words are apart reads the same, and no word of it is in two texts."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.classify.toy import WORDS, toy_model

from elmo.text.apart import words_apart
from elmo.text.batches import sentence_batch

MODEL = toy_model().model
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=5), min_size=1, max_size=4)


@given(SENTENCES, st.booleans())
def test_words_are_apart_and_the_same(sentences: list[list[str]], spelled: bool) -> None:
    batch = sentence_batch(sentences, MODEL.vocabulary, spelled=spelled)
    apart = words_apart(batch)
    for before, after in zip(batch.readings, apart.batch.readings, strict=True):
        assert torch.equal(batch.words.ids[before.inputs], apart.batch.words.ids[after.inputs])
        columns = torch.arange(len(sentences)).expand_as(after.inputs)
        assert torch.equal(apart.text[after.inputs], columns)
        assert torch.equal(before.targets, after.targets)
        if batch.words.spellings is not None:
            assert apart.batch.words.spellings is not None
            spelled_before = batch.words.spellings[before.inputs]
            assert torch.equal(spelled_before, apart.batch.words.spellings[after.inputs])
    assert len(apart.text) == len(apart.batch.words.ids)

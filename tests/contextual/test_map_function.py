"""An embedder in Hugging Face's datasets: the same vectors, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel
from elmo.contextual.embedder import Embedder
from elmo.errors import UserError
from elmo.text.tokenizers import TokenizerConfig

TEXTS = ["the cat sat", "a dog", "naïve 雨", "the mat on the mat", "cat"]


@pytest.fixture(scope="module")
def embedder(vocabulary) -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    return Embedder(LoadedModel(model, TokenizerConfig()))


@pytest.mark.filterwarnings("ignore")
def test_map_adds_a_column_of_vectors(embedder):
    datasets = pytest.importorskip("datasets", reason="needs the extra `datasets`")
    rows = datasets.Dataset.from_dict({"text": TEXTS, "label": range(5)})
    mapped = rows.map(embedder.as_map_fn(layer="top"), batched=True, batch_size=2)
    assert mapped["label"][:] == list(range(5))
    expected = embedder.encode(TEXTS, layer="top")
    np.testing.assert_allclose(np.array(mapped["vector"][:]), expected, rtol=1e-5, atol=1e-6)


def test_columns_and_settings_can_be_chosen(embedder):
    function = embedder.as_map_fn(column="body", into="words", output="tokens", layer=1)
    found = function({"body": TEXTS, "other": TEXTS})["words"]
    expected = embedder.encode(TEXTS, output="tokens", layer=1)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_is_told(embedder):
    with pytest.raises(UserError, match="no column 'text', but body"):
        embedder.as_map_fn()({"body": TEXTS})
    with pytest.raises(UserError, match="any order"):
        embedder.as_map_fn(start="carry")
    with pytest.raises(UserError, match="pooling"):
        embedder.as_map_fn(pooling="median")

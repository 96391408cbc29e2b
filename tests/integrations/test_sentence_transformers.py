"""The module for sentence-transformers, against the real package; it takes long to import."""

from __future__ import annotations

import os

import numpy as np
import pytest

import elmo
from elmo.cli.main import main

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.skipif("ELMO_SOAK" not in os.environ, reason="set ELMO_SOAK=1: a slow import"),
]
TEXTS = ["Oil prices fell .", "", "It rained on the bank of the river ."]


def test_encode_save_and_load(tmp_path, capsys) -> None:
    package = pytest.importorskip("sentence_transformers", reason="it is not installed")
    from elmo.integrations.sentence_transformers import ElmoModule

    model = package.SentenceTransformer(modules=[ElmoModule(pooling="mean+max", normalize=True)])
    expected = elmo.Embedder.from_pretrained().encode(TEXTS, pooling="mean+max", normalize=True)
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS[0]), expected[0], atol=1e-5)
    assert model.get_embedding_dimension() == 1024  # mean and maximum of 512
    assert float(model.similarity(model.encode(TEXTS[:1]), model.encode(TEXTS[:1]))) > 0.999
    model.save_pretrained(str(tmp_path / "saved"))
    again = package.SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)

    target = str(tmp_path / "converted")
    source = str(elmo.Embedder.from_pretrained().loaded.path)
    assert main(["convert", source, target, "--to", "sentence-transformers"]) == 0
    converted = package.SentenceTransformer(target, trust_remote_code=True)
    plain = elmo.Embedder.from_pretrained().encode(TEXTS)
    np.testing.assert_allclose(converted.encode(TEXTS), plain, atol=1e-5)

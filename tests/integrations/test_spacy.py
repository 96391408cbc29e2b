"""The component of spaCy, against the real package."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from elmo import Embedder
from elmo.errors import UserError
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer

spacy = pytest.importorskip("spacy", reason="spaCy is not installed", exc_type=ImportError)


def test_tokens_spans_and_docs_have_vectors(tmp_path) -> None:
    import elmo.integrations.spacy  # noqa: F401  an installed elmo has an entry point instead

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"layer": 1})
    doc = nlp("The bank  raised its rates.")
    words = [token.text for token in doc if not token.is_space]
    expected = Embedder.from_pretrained().encode([words], output="tokens", layer=1)[0]
    rows = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(doc.tensor[rows], expected, atol=1e-6)
    space = next(token for token in doc if token.is_space)
    assert not space.vector.any()
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(0), atol=1e-6)
    np.testing.assert_allclose(doc[0:2].vector, doc.tensor[:2].mean(0), atol=1e-6)
    assert doc[1].similarity(doc[1]) == pytest.approx(1)
    docs = list(nlp.pipe(["Oil fell .", "", "It rained ."], batch_size=2))
    assert [one.tensor.shape for one in docs] == [(3, 512), (0, 512), (3, 512)]
    assert docs[1].vector.shape == (512,)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")("The bank  raised its rates.")
    np.testing.assert_array_equal(again.tensor, doc.tensor)


def test_tokenizers_by_name() -> None:
    tokenize = build_tokenizer(TokenizerConfig(tokenizer="spacy:de", lowercase=True))
    expected = [token.text.lower() for token in spacy.blank("de")("Das ist z.B. gut.")]
    assert tokenize("Das ist z.B. gut.") == expected
    assert pickle.loads(pickle.dumps(tokenize))("Das ist z.B. gut.") == expected
    with pytest.raises(UserError, match="spacy:nothing"):
        build_tokenizer(TokenizerConfig(tokenizer="spacy:nothing"))

"""Words for themselves have the vectors of layer 0, in any portion."""

from __future__ import annotations

import numpy as np
import pytest
from tests.bilm import numpy_bilm
from tests.language.tiny_models import make_model

from elmo.bilm import token_vectors as module
from elmo.bilm.token_vectors import token_vectors


@pytest.mark.parametrize("kind", ["words", "characters", "both"])
@pytest.mark.parametrize("portion", [1, 3, 1024])
def test_portions(kind: str, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORDS_AT_ONCE", portion)
    model = make_model(kind).model
    words = ["the", "雨", "unheard", "x" * 60, "<UNK>"]
    found = list(token_vectors(model, words))
    assert [len(one) for one in found][:-1] == [portion] * (len(found) - 1)
    wanted = numpy_bilm.tokens(model, words)
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=0, atol=2e-6)
    assert list(token_vectors(model, [])) == []

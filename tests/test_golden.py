"""Model folders written by the first version stay readable and give the same outputs.

The folders and the expected outputs in `golden/` were written by elmo 0.1.0 (`golden/make.py`).
Only public names are used here, and the tolerance leaves room for other processors.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elmo
from elmo.config import CLASSIFIER

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
TEXTS, BLANKS, NEWS = EXPECTED["texts"], EXPECTED["blanks"], EXPECTED["news"]
TOLERANCE = 1e-5
STARTS = ("zero", "warm", "carry")
LAYERS = (0, 1, 2, "mix", "top", "average", "all")
BILMS = ("words", "characters")


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "expected.npz", allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


@pytest.fixture(scope="module", params=BILMS)
def folder(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / request.param


@pytest.fixture(scope="module")
def embedder(folder: Path) -> elmo.Embedder:
    return elmo.Embedder.from_pretrained(folder)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("layer", LAYERS)
def test_pooled_vectors(embedder, folder, arrays, layer, start) -> None:
    found = embedder.encode(TEXTS, layer=layer, initial_state=start)
    assert_close(found, arrays[f"{folder.name} {layer} {start} pooled"])


@pytest.mark.parametrize("start", STARTS)
def test_word_vectors_of_every_layer(embedder, folder, arrays, start) -> None:
    expected = arrays[f"{folder.name} all {start} tokens"]  # (layers, words of all texts, dim)
    found = embedder.encode(TEXTS, output="tokens", layer="all", initial_state=start)
    assert_close(np.concatenate(found, axis=1), expected)
    for number in (0, 1, 2):
        found = embedder.encode(TEXTS, output="tokens", layer=number, initial_state=start)
        assert_close(np.concatenate(found), expected[number])


def test_poolings(embedder, folder, arrays) -> None:
    pooling = "mean+max+first+last"
    assert_close(embedder.encode(TEXTS, pooling=pooling), arrays[f"{folder.name} {pooling}"])


def test_scores(folder) -> None:
    found = elmo.LanguageModel.from_pretrained(folder).score([text for text in TEXTS if text])
    expected = EXPECTED["score"][folder.name]
    assert_same([asdict(score) for score in found], expected)


def test_predictions(folder) -> None:
    found = elmo.LanguageModel.from_pretrained(folder).fill(BLANKS, 3)
    assert_same([asdict(one) for one in found], EXPECTED["predict"][folder.name])


@pytest.mark.parametrize("name", ["classifier", "fine_tuned"])
def test_classifiers(arrays, name) -> None:
    found = elmo.TextClassifier.from_pretrained(GOLDEN / name).predict_proba(TEXTS)
    assert_close(found, arrays[f"{name} probabilities"])


def test_the_bilm_that_the_first_version_shipped(arrays) -> None:
    embedder = elmo.Embedder.from_pretrained(CLASSIFIER / "bilm")
    assert_close(embedder.encode(NEWS, layer="all"), arrays["shipped all zero pooled"])
    assert_close(embedder.encode(NEWS, initial_state="warm"), arrays["shipped mix warm pooled"])
    words = embedder.encode(NEWS[1:], output="tokens", layer="all")
    assert_close(np.concatenate(words, axis=1), arrays["shipped all zero tokens"])


def test_the_shipped_classifier(arrays) -> None:
    classifier = elmo.TextClassifier.from_pretrained()
    assert_close(classifier.predict_proba(NEWS), arrays["shipped probabilities"])


def assert_same(found: Any, expected: Any, key: str = "") -> None:
    """Compare nested results: numbers to the tolerance, everything else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), key
        for name in expected:
            assert_same(found[name], expected[name], f"{key}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), key
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{key}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE), key
    else:
        assert found == expected, key

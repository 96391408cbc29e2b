"""Similarities and surprisal against plain numpy, and against the language model's own scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.tiny_models import make_model

from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.explore.sentences import similarities, surprisal

LEFT, RIGHT = "The bank raised its rates .", "We sat on the bank of the river ."


def test_similarities(embedder: Embedder) -> None:
    found = similarities(embedder, LEFT, RIGHT)
    a, b = embedder.encode([LEFT.split(), RIGHT.split()], output="tokens", layer="all")
    assert found.left == tuple(LEFT.split())
    assert found.centre == "sentences"
    for name in ("0", "1", "2", "mix"):
        left, right = (v.mean(0) if name == "mix" else v[int(name)] for v in (a, b))
        raw = left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)
        assert np.abs(found.raw[name] - raw).max() < 1e-5
        mean = np.concatenate([left, right]).mean(0)
        left, right = left - mean, right - mean
        lengths = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)
        assert np.abs(found.centred[name] - left @ right.T / lengths).max() < 1e-5
    means = {name: np.full(512, 0.1, np.float32) for name in ("0", "1", "2", "mix")}
    shifted = similarities(embedder, LEFT, RIGHT, means)
    assert shifted.centre == "corpus"
    left, right = a[2] - 0.1, b[2] - 0.1
    expected = left[1] @ right[4] / np.linalg.norm(left[1]) / np.linalg.norm(right[4])
    assert abs(shifted.centred["2"][1, 4] - expected) < 1e-5
    assert "<table>" in found._repr_html_()
    with pytest.raises(UserError, match="one of them has none"):
        similarities(embedder, LEFT, " ")


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_surprisal(kind: str) -> None:
    model = make_model(kind)
    words = ["the", "cat", "unheard", "on", "a", "mat"]
    found = surprisal(model, words, alternatives=3)
    scored = model.score([words])[0]
    for word, score in zip(found.words, scored.words, strict=True):
        assert word.known == score.known == (word.word != "unheard")
        assert word.forward == pytest.approx(-score.forward / math.log(2), abs=1e-4)
        assert word.backward == pytest.approx(-score.backward / math.log(2), abs=1e-4)
    for position in (0, 3, 5):
        blanked = [*words[:position], "___", *words[position + 1 :]]
        blank = model.fill([blanked], 20)[0].blanks[0]
        word = found.words[position]
        by_word = {one.word: one.probability for one in blank.combined}
        assert 2**-word.both == pytest.approx(by_word[word.word], rel=1e-3)
        for ours, theirs in (
            (word.forward_best, blank.forward),
            (word.backward_best, blank.backward),
            (word.both_best, blank.combined),
        ):
            assert [one.word for one in ours] == [one.word for one in theirs[:3]]
            for one, two in zip(ours, theirs, strict=False):
                assert one.probability == pytest.approx(two.probability, rel=1e-3)


def test_surprisal_as_a_table() -> None:
    found = surprisal(make_model(), "the cat <b>", alternatives=0)
    lines = found.tsv("backward").splitlines()
    assert lines[0] == "sentence_id\ttoken_id\ttoken\tsurprisal"
    assert lines[1] == f"1\t1\tthe\t{found.words[0].backward:.4f}"
    html = found._repr_html_()
    assert "&lt;" in html
    assert "<b>" not in html
    with pytest.raises(UserError, match="it has none"):
        surprisal(make_model(), "")

"""Metrics are those that scikit-learn finds for predictions made by reading every prefix anew."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from tests.bilm import numpy_bilm
from tests.tiny_models import make_model

from elmo.errors import UserError
from elmo.evaluate import Averages, DirectionMetrics, Evaluation, averaged, evaluate
from elmo.language_model import LanguageModel
from elmo.text.batching import pack_texts
from elmo.text.config import Batching, ReadOptions
from elmo.text.tokenizer import TokenizerConfig

TEXTS = [
    ["the", "cat", "sat", "on", "a", "mat"],
    ["a", "dog", "sat"],
    ["the", "unheard", "cat", "naïve", "雨"],
    ["on", "the", "mat", "the", "cat", "sat", "on", "the", "dog"],
]


@dataclass(frozen=True)
class Stored:
    """What one direction was asked and answered, word by word."""

    true: list[int]
    logits: list[numpy_bilm.Array]


def brute_force(loaded: LanguageModel, *, backward: bool) -> Stored:
    model = loaded.model
    known = {word: place for place, word in enumerate(model.vocabulary.words)}
    stack = model.backward_stack if backward else model.forward_stack
    stored = Stored([], [])
    for text in TEXTS:
        path = ["</S>", *text[::-1], "<S>"] if backward else ["<S>", *text, "</S>"]
        for end in range(1, len(path)):
            stored.true.append(known.get(path[end], 2))
            stored.logits.append(numpy_bilm.next_word(model, stack, path[:end]))
    return stored


def check(found: DirectionMetrics, stored: Stored) -> None:
    true = np.array(stored.true)
    order = np.argsort(-np.array(stored.logits), axis=1)
    loss = -np.mean([row[word] for row, word in zip(stored.logits, true, strict=True)])
    assert found.targets == len(true)
    assert found.loss == pytest.approx(loss)
    assert found.perplexity == pytest.approx(math.exp(loss))
    assert found.accuracy == pytest.approx(accuracy_score(true, order[:, 0]))
    assert found.top5_accuracy == pytest.approx((order[:, :5] == true[:, None]).any(1).mean())
    for averages, kind in ((found.macro, "macro"), (found.weighted, "weighted")):
        expected: Any = precision_recall_fscore_support(
            true, order[:, 0], average=kind, zero_division=0.0
        )
        assert (averages.precision, averages.recall, averages.f1) == pytest.approx(expected[:3])


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("seed", [0, 1])
def test_metrics_are_those_of_stored_predictions(kind: str, seed: int) -> None:
    loaded = make_model(kind, seed=seed)
    batch = pack_texts(TEXTS, loaded.model.vocabulary, spelled=loaded.model.config.spelled)
    found = evaluate(loaded.model, [batch])
    check(found.forward, brute_force(loaded, backward=False))
    check(found.backward, brute_force(loaded, backward=True))
    both = math.sqrt(found.forward.perplexity * found.backward.perplexity)
    assert found.perplexity == pytest.approx(both)


def test_confusions_are_those_of_stored_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = make_model("words", seed=1)
    words = loaded.model.vocabulary.words
    counts: Counter[tuple[str, str]] = Counter()
    for backward in (False, True):
        stored = brute_force(loaded, backward=backward)
        for true, logits in zip(stored.true, stored.logits, strict=True):
            if (predicted := int(np.argmax(logits))) != true:
                counts[words[predicted], words[true]] += 1
    batch = pack_texts(TEXTS, loaded.model.vocabulary, spelled=False)
    found = evaluate(loaded.model, [batch], confusions=1000).confusions
    assert {(pair.predicted, pair.true): pair.count for pair in found} == counts
    assert [pair.count for pair in found] == sorted(counts.values(), reverse=True)
    assert evaluate(loaded.model, [batch], confusions=2).confusions == found[:2]
    assert evaluate(loaded.model, [batch]).confusions == ()
    monkeypatch.setattr("elmo.evaluate.MOST_PAIRS", 1)  # only those seen again are remembered
    often = evaluate(loaded.model, [batch], confusions=1000).confusions
    assert {pair.count for pair in often} >= {found[0].count}
    assert len(often) < len(found)


def values(found: Evaluation) -> list[float]:
    numbers = [found.perplexity, found.unknown_rate]
    for one in (found.forward, found.backward):
        numbers += [one.targets, one.loss, one.accuracy, one.top5_accuracy, one.macro.f1]
        numbers += [one.weighted.precision, one.weighted.recall, one.weighted.f1]
    return numbers


@pytest.mark.parametrize("at_once", [1, 10, 1 << 18])
def test_files_are_evaluated_as_their_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("elmo.text.batching.TOKENS_AT_ONCE", at_once)
    loaded = make_model("both", "adaptive")
    (tmp_path / "a.txt").write_text("\n".join(" ".join(text) for text in TEXTS[:2]) + "\n\n")
    lines = [f"{number}\t{' '.join(text)}\n" for number, text in enumerate(TEXTS[2:])]
    (tmp_path / "b.tsv").write_text("".join(lines))
    batch = pack_texts(TEXTS, loaded.model.vocabulary, spelled=True)
    expected = values(evaluate(loaded.model, [batch]))
    windows = Batching(window=3, batch_tokens=9)
    found = loaded.evaluate([tmp_path], windows, read=ReadOptions(column="1", header="no"))
    np.testing.assert_allclose(values(found), expected)


def test_text_is_read_as_in_training_unless_told_otherwise(tmp_path: Path) -> None:
    loaded = make_model()
    path = tmp_path / "a.txt"
    path.write_text("\n".join(" ".join(text) for text in TEXTS))
    stream = Batching(batching="stream", window=4, batch_tokens=4)
    settings = {"batching": "stream", "window": 4, "batch_tokens": 4}
    trained = replace(loaded, config={"batching": settings})
    as_stream = loaded.evaluate(path, stream)
    assert trained.evaluate(path) == as_stream
    assert loaded.evaluate(path).perplexity != as_stream.perplexity


def test_a_text_of_known_words_has_none_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\n")
    assert make_model().evaluate(tmp_path).unknown_rate == 0


def test_the_average_is_the_mean_of_both_directions() -> None:
    one = DirectionMetrics(4, 1.0, math.e, 0.2, 0.4, Averages(0.1, 0.2, 0.3), Averages(0, 0, 0))
    other = DirectionMetrics(
        4, 3.0, math.e**3, 0.4, 0.8, Averages(0.3, 0.4, 0.5), Averages(1, 1, 1)
    )
    found = averaged(Evaluation(one, other, math.e**2, 0.0))
    assert found.targets == 4
    assert found.perplexity == pytest.approx(math.e**2)
    assert (found.accuracy, found.top5_accuracy) == pytest.approx((0.3, 0.6))
    assert found.macro.f1 == pytest.approx(0.4)
    assert found.weighted == Averages(0.5, 0.5, 0.5)


def test_a_custom_tokenizer_must_be_given(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\n")
    loaded = replace(make_model(), tokenizer=TokenizerConfig(tokenizer="custom"))
    with pytest.raises(UserError, match="tokenizer function"):
        loaded.evaluate(tmp_path)

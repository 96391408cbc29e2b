"""The n-gram baseline against a slow textbook computation, and against what has to hold."""

from __future__ import annotations

import gzip
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ngram_baseline as kneser_ney
from elmo.cli.main import main

BOS, EOS, SIZE = 0, 1, 6
WORDS = range(2, SIZE)

Gram = tuple[int, ...]
Text = list[int]

texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=12)
orders = st.integers(1, 5)


class Textbook:
    """Chen & Goodman's equations, one dictionary look-up at a time."""

    def __init__(self, corpus: list[Text], order: int) -> None:
        self.order = order
        occurrences: Counter[Gram] = Counter()
        left_words: defaultdict[Gram, set[int]] = defaultdict(set)
        for text in corpus:
            marked = [BOS, *text, EOS]
            for end in range(2, len(marked) + 1):
                for start in range(max(0, end - order), end):
                    gram = tuple(marked[start:end])
                    occurrences[gram] += 1
                    if start > 0:
                        left_words[gram].add(marked[start - 1])
        self.counts = {
            gram: count if len(gram) == order or gram[0] == BOS else len(left_words[gram])
            for gram, count in occurrences.items()
        }
        self.discounts = {length: self.estimate(length) for length in range(1, order + 1)}

    def estimate(self, length: int) -> list[float]:
        having = Counter(count for gram, count in self.counts.items() if len(gram) == length)
        n1, n2, n3, n4 = (having[count] for count in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return [0, 0.5, 1.0, 1.5]
        y = n1 / (n1 + 2 * n2)
        closed_form = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
        return closed_form if min(closed_form[1:]) >= 1e-3 else [0, 0.5, 1.0, 1.5]

    def probability(self, word: int, history: Gram) -> float:
        history = history[max(0, len(history) - self.order + 1) :]
        lower = self.probability(word, history[1:]) if history else 1 / (SIZE - 1)
        discount = self.discounts[len(history) + 1]
        following = {w: self.counts.get((*history, w), 0) for w in range(SIZE)}
        total = sum(following.values())
        if total == 0:
            return lower
        freed = sum(discount[min(count, 3)] for count in following.values())
        kept = following[word] - discount[min(following[word], 3)]
        return (kept + freed * lower) / total

    def log_probabilities(self, text: Text) -> list[float]:
        marked = (BOS, *text, EOS)
        ends = range(1, len(marked))
        return [math.log(self.probability(marked[end], marked[:end])) for end in ends]


def as_arrays(corpus: list[Text]) -> list[np.ndarray]:
    return [np.array(text, dtype=np.int64) for text in corpus]


def fit(corpus: list[Text], order: int) -> kneser_ney.KneserNey:
    return kneser_ney.fit(as_arrays(corpus), order=order, vocabulary_size=SIZE, bos=BOS, eos=EOS)


def skewed_corpus(seed: int, documents: int) -> list[Text]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 15, documents)
    return [rng.choice(list(WORDS), n, p=[0.6, 0.25, 0.1, 0.05]).tolist() for n in lengths]


@given(texts, texts, orders)
@settings(deadline=None)
def test_equals_the_textbook_on_any_corpus(training: list[Text], test: list[Text], order: int):
    fast = fit(training, order).log_probabilities(as_arrays(test))
    slow = Textbook(training, order)
    assert [len(document) for document in fast] == [len(text) + 1 for text in test]
    for document, text in zip(fast, test, strict=True):
        np.testing.assert_allclose(document, slow.log_probabilities(text), rtol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_equals_the_textbook_where_discounts_are_estimated(order: int):
    training, test = skewed_corpus(0, 120), skewed_corpus(1, 20)
    slow, model = Textbook(training, order), fit(training, order)
    if order > 2:  # else there are too few n-grams of four words for all counts of counts
        assert not np.array_equal(model.discounts[-1], kneser_ney.FALLBACK_DISCOUNTS)
    for length in range(1, order + 1):
        np.testing.assert_allclose(model.discounts[length - 1], slow.discounts[length][1:])
    for document, text in zip(model.log_probabilities(as_arrays(test)), test, strict=True):
        np.testing.assert_allclose(document, slow.log_probabilities(text), rtol=1e-10)


@given(texts, st.lists(st.sampled_from(WORDS), max_size=6), orders)
@settings(deadline=None)
def test_probabilities_sum_to_one_after_any_history(
    training: list[Text], history: Text, order: int
):
    model = fit(training, order)
    continued = as_arrays([[*history, word] for word in (*WORDS, EOS)])
    words = [document[len(history)] for document in model.log_probabilities(continued)]
    assert np.exp(words).sum() == pytest.approx(1, abs=1e-12)


def test_tuned_probabilities_sum_to_one_and_do_not_fit_worse():
    training, test = skewed_corpus(0, 200), as_arrays(skewed_corpus(1, 100))
    marks = {"vocabulary_size": SIZE, "bos": BOS, "eos": EOS}
    tuned = kneser_ney.fit_tuned(as_arrays(training), orders=(1, 3, 5), **marks)
    words = tuned.log_probabilities(as_arrays([[2, 3, word] for word in (*WORDS, EOS)]))
    assert sum(math.exp(document[2]) for document in words) == pytest.approx(1, abs=1e-12)
    untuned = fit(training, 5).log_probabilities(test)
    assert kneser_ney.perplexity(tuned.log_probabilities(test)) < kneser_ney.perplexity(untuned)


def test_noise_is_predicted_no_better_than_its_entropy():
    rng = np.random.default_rng(0)
    size, length = 22, 50
    noise = [rng.integers(2, size, length) for _ in range(2000)]
    marks = {"vocabulary_size": size, "bos": BOS, "eos": EOS}
    model = kneser_ney.fit_tuned(noise[:1800], orders=(1, 2, 3), **marks)
    words = [document[:-1] for document in model.log_probabilities(noise[1800:])]
    # At each position the end has a share of 1 / (length + 1), for a model that cannot count to 50.
    expected = (size - 2) * (length + 1) / length
    assert expected * 0.995 < kneser_ney.perplexity(words) < expected * 1.02


def test_an_empty_document_is_the_end_after_the_begin():
    (document,) = fit([[], []], order=3).log_probabilities([np.array([], dtype=np.int64)])
    # Twice </S> after <S>: 2 - 1 kept, 1 freed for the single words, of which </S> was seen once:
    # 1 - 0.5 kept, 0.5 freed for five words.
    assert math.exp(document[0]) == pytest.approx((1 + (0.5 + 0.5 / 5)) / 2)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [([], "at least one document"), ([[2, SIZE]], "ids go up to 5"), ([[2, BOS]], "begin mark")],
)
def test_bad_documents_are_refused(corpus: list[Text], message: str):
    with pytest.raises(ValueError, match=message):
        fit(corpus, order=2)


def test_held_out_texts_given_as_a_file_have_the_same_perplexities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(list("abcdefgh"), 9)) for _ in range(300)]
    held_out = tmp_path / "held_out.txt.gz"
    held_out.write_bytes(gzip.compress("\n".join(lines[:40]).encode()))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(lines[40:]))
    small = "--hidden=8 --word-dim=8 --samples=6 --epochs=1 --batch-tokens=512 --min-count=1"
    run = ["--held-out", str(held_out), "--out", str(tmp_path / "run"), "--threads", "1"]
    assert main(["pretrain", str(corpus), *run, *small.split()]) == 0
    whole, *parts = kneser_ney.compare(tmp_path / "run")
    given, *_ = kneser_ney.compare(tmp_path / "run", held_out)
    assert given == pytest.approx(whole)
    assert whole["texts"] == 40
    assert parts[-1]["texts"] > 0  # phrases of eight letters hardly repeat
    # Letters drawn at random, and an end after nine of them: neither model can count to nine.
    assert whole["ngram"] == pytest.approx(8 * 10 / 9, rel=0.1)

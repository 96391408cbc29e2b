"""Static vectors against NumPy, formulas and loops; the same seed gives the same vectors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.static.topics import COLOURS, TOPICS, topical_texts

from elmo.config import check, from_json, to_json
from elmo.errors import ConfigError, UserError
from elmo.static import train
from elmo.static.train import (
    CorpusDocuments,
    SkipGramConfig,
    SvdConfig,
    count_pairs,
    factorise,
    ppmi,
    skip_gram_vectors,
    static_vectors,
    svd_vectors,
    train_static,
)
from elmo.static.vectors import StaticVectors
from elmo.text.corpus import Corpus, CorpusRequest, is_held_out, prepare
from elmo.text.sources import resolve
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary


def encode_texts(texts: Iterable[Sequence[str]], vocabulary: Vocabulary) -> list[Any]:
    return [vocabulary.encode(text) for text in texts]


# The factorisation against NumPy's exact one, and words of like company.


RANK = 4


@pytest.fixture(scope="module")
def matrix() -> Any:
    """Sparse, symmetric, with well-parted singular values: only then are vectors unique."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    return (basis * 2.0 ** -np.arange(30)) @ basis.T


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_vectors_are_those_of_numpy(matrix: Any, power: float) -> None:
    config = SvdConfig(dim=RANK, eigenvalue_power=power, iterations=7)
    found = factorise(csr_array(matrix), config)
    left, values, _ = np.linalg.svd(matrix)
    wanted = left[:, :RANK] * values[:RANK] ** power
    wanted *= np.sign((wanted * found).sum(axis=0))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_sign_is_fixed_whatever_the_seed(matrix: Any) -> None:
    first, second = (
        factorise(csr_array(matrix), SvdConfig(dim=RANK, iterations=7, seed=seed))
        for seed in (0, 1)
    )
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_words_of_a_topic_are_near_each_other() -> None:
    vocabulary, texts = topical_texts()
    told: list[tuple[str, int, int | None]] = []

    def on_report(*report: Any) -> None:
        told.append(report)

    documents = encode_texts(texts, vocabulary)
    vectors = svd_vectors(
        documents, vocabulary, SvdConfig(dim=4, shift=1), lambda *report: told.append(report)
    )
    assert vectors.words == vocabulary.words[3:]
    for topic in TOPICS:
        for word in topic:
            assert {near.word for near in vectors.nearest(word, 4)} < set(topic)
    assert [stage.split()[0] for stage, _, _ in told] == ["counting", "factorising"]


def test_the_same_seed_gives_the_same_vectors() -> None:
    vocabulary, texts = topical_texts()
    documents = encode_texts(texts, vocabulary)
    first, second = (
        svd_vectors(documents, vocabulary, SvdConfig(dim=3, shift=1)) for _ in range(2)
    )
    assert np.array_equal(first.vectors, second.vectors)


def test_more_numbers_than_words_are_refused() -> None:
    vocabulary, texts = topical_texts()
    with pytest.raises(UserError, match="use --dim 10 or less"):
        svd_vectors(encode_texts(texts, vocabulary), vocabulary, SvdConfig(dim=11))


def test_a_text_without_pairs_is_refused() -> None:
    vocabulary, _ = topical_texts()
    documents = encode_texts([[COLOURS[0]], []], vocabulary)
    with pytest.raises(UserError, match="no two words"):
        svd_vectors(documents, vocabulary, SvdConfig(dim=2, shift=1))


# Progress is reported stage by stage.


def test_the_stages_come_in_order(tmp_path: Path) -> None:
    texts = [" ".join(text) for text in topical_texts(1000)[1]]
    (tmp_path / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    told: list[tuple[str, int, int | None]] = []

    def on_report(*report: Any) -> None:
        told.append(report)

    train_static(
        str(tmp_path / "text.txt"),
        SvdConfig(dim=2, shift=1),
        held_out_share=0,
        cache=tmp_path,
        progress=on_report,
    )
    assert told[:2] == [
        ("preparing the text", 1000, None),
        ("counting pairs of words", 0, 1000),
    ]
    assert [stage.split()[0] for stage, _, _ in told[2:]] == ["factorising"]


# From a file to vectors: the same as from its words, and only from those to train on.


SVD = SvdConfig(dim=3, shift=1)
SKIP_GRAM = SkipGramConfig(dim=3, epochs=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(text) for text in topical_texts()[1]), encoding="utf-8")
    return path


@pytest.mark.parametrize("config", [SVD, SKIP_GRAM], ids=["svd", "skip-gram"])
def test_a_file_gives_what_its_training_words_give(
    source: Path, config: SvdConfig | SkipGramConfig
) -> None:
    trained = train_static(str(source), config, held_out_share=0.2, cache=source.with_name("cache"))
    texts = [text for text in topical_texts()[1] if not is_held_out(text, 0.2)]
    assert 0 < trained.documents == len(texts) < 200
    assert trained.tokens == 8 * len(texts)

    # The vocabulary by hand: the most frequent word first, else as they appear in the file.
    words = [word for text in texts for word in text]
    listed = sorted(_in_order_of_appearance(), key=lambda word: -words.count(word))
    counts = tuple(words.count(word) for word in listed)
    vocabulary = Vocabulary((*SPECIAL_WORDS, *listed), (len(texts),) * 2 + (0, *counts))
    wanted = static_vectors(encode_texts(texts, vocabulary), vocabulary, config)
    assert trained.vectors.words == wanted.words == tuple(listed)
    assert np.array_equal(trained.vectors.vectors, wanted.vectors)


def _in_order_of_appearance() -> list[str]:
    return list(dict.fromkeys(word for text in topical_texts()[1] for word in text))


def test_mistakes_are_told_before_any_work(source: Path) -> None:
    cache = source.with_name("cache")
    with pytest.raises(ConfigError, match="window"):
        train_static(str(source), SvdConfig(window=0), cache=cache)
    with pytest.raises(UserError, match="held_out_share"):
        train_static(str(source), SVD, held_out_share=1, cache=cache)
    assert not cache.exists()


# Mutual information against the formula, written out for whole matrices.


SIZE = 5
counts = st.lists(st.integers(0, 9), min_size=SIZE**2, max_size=SIZE**2)


def dense(table: Any, shift: float, smoothing: float) -> Any:
    joint = table / table.sum()
    word = table.sum(axis=1) / table.sum()
    context = table.sum(axis=0) ** smoothing
    context = context / context.sum()
    found = np.zeros_like(table)
    for row, column in zip(*table.nonzero(), strict=True):
        information = np.log(joint[row, column] / (word[row] * context[column]))
        found[row, column] = max(0.0, information - np.log(shift))
    return found


@given(counts, st.sampled_from([1.0, 1.5, 5.0]), st.sampled_from([0.0, 0.75, 1.0]))
def test_it_is_the_formula(values: list[int], shift: float, smoothing: float) -> None:
    table = np.array(values, float).reshape(SIZE, SIZE)
    table = table + table.T
    table[0, 0] += 1  # never all zeros: the formula would divide by them
    found = ppmi(csr_array(table), shift=shift, context_smoothing=smoothing)
    np.testing.assert_allclose(found.toarray(), dense(table, shift, smoothing), atol=1e-5)
    assert (found.data > 0).all()


def test_words_that_are_together_by_chance_have_none() -> None:
    frequencies = np.array([1.0, 2.0, 4.0])
    assert ppmi(csr_array(np.outer(frequencies, frequencies)), context_smoothing=1).sum() < 1e-6


def test_no_pairs_give_nothing() -> None:
    assert ppmi(csr_array((3, 3), dtype=float)).nnz == 0


@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_two_words_always_together(shift: float) -> None:
    table = csr_array(np.array([[0, 3], [3, 0]], float))
    found = ppmi(table, shift=shift, context_smoothing=1).toarray()
    np.testing.assert_allclose(found, np.log(2 / shift) * np.array([[0, 1], [1, 0]]), atol=1e-6)


# Counts against a plain double loop, whatever texts, window and portions are.


WORDS = 7
"""Three special ones and four others."""
texts = st.lists(st.lists(st.integers(0, WORDS - 1), max_size=9), max_size=6)


def by_loops(documents: list[list[int]], window: int, weighted: bool) -> Any:
    counts = np.zeros((WORDS, WORDS))
    for document in documents:
        for here, word in enumerate(document):
            for there, context in enumerate(document):
                distance = abs(here - there)
                if 0 < distance <= window and word > 2 and context > 2:
                    counts[word, context] += 1 / distance if weighted else 1
    return counts


def as_ids(documents: list[list[int]]) -> list[Any]:
    return [np.array(document, np.int64) for document in documents]


@given(texts, st.integers(1, 12), st.booleans(), st.integers(1, 20))
def test_counts_are_those_of_a_double_loop(
    documents: list[list[int]], window: int, weighted: bool, at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "TOKENS_AT_ONCE", at_once)
        counts = count_pairs(as_ids(documents), WORDS, window=window, distance_weighting=weighted)
    found = counts.toarray()
    np.testing.assert_allclose(found, by_loops(documents, window, weighted), rtol=1e-12)
    assert np.array_equal(found, found.T)


def test_a_pair_across_two_texts_is_none() -> None:
    counts = count_pairs(as_ids([[3], [4, 5], [], [6]]), WORDS, window=5)
    assert counts.toarray().nonzero()[0].tolist() == [4, 5]


def test_an_unknown_word_takes_up_its_place() -> None:
    counts = count_pairs(as_ids([[3, 2, 4]]), WORDS, window=1)
    assert counts.nnz == 0


CONFIG = SkipGramConfig(dim=8, epochs=20, subsample=0)


def trained(config: SkipGramConfig = CONFIG) -> StaticVectors:
    vocabulary, texts = topical_texts()
    return skip_gram_vectors(encode_texts(texts, vocabulary), vocabulary, config)


def digest() -> str:
    """A name for the vectors, which another Python process can tell."""
    return hashlib.sha256(trained().vectors.tobytes()).hexdigest()


def test_words_of_a_topic_are_near_each_other_skip_gram() -> None:
    vectors = trained()
    assert vectors.words == TOPICS[0] + TOPICS[1]
    assert vectors.dim == 8
    for topic in TOPICS:
        for word in topic:
            assert {near.word for near in vectors.nearest(word, 4)} < set(topic)


def test_another_python_gives_the_same_vectors() -> None:
    """Python hashes words differently each time it starts, unless told how."""
    code = "from tests.static.test_train import digest; print(digest())"
    other = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.strip() == digest()


def test_another_seed_gives_others() -> None:
    assert not np.allclose(trained().vectors, trained(replace(CONFIG, seed=1)).vectors)


def test_unknown_words_are_as_if_they_were_not_there() -> None:
    vocabulary, texts = topical_texts()
    mixed = [[piece for word in text for piece in (word, "unheard")] for text in texts]
    found = skip_gram_vectors(encode_texts(mixed, vocabulary), vocabulary, CONFIG)
    assert np.array_equal(found.vectors, trained().vectors)


def test_no_word_of_a_long_text_is_passed_over() -> None:
    vocabulary, texts = topical_texts()
    sentences = train.Sentences(
        encode_texts([[word for text in texts for word in text] * 14, [], texts[0]], vocabulary),
        vocabulary.words,
        1,
        lambda *_: None,
    )
    lengths = [len(sentence) for sentence in sentences]
    assert lengths == [10_000, 10_000, 2_400, 8]


def test_progress_counts_texts_of_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "REPORT_EVERY", 100)
    vocabulary, texts = topical_texts()
    told: list[tuple[str, int, int | None]] = []

    def on_report(*report: Any) -> None:
        told.append(report)

    config = replace(CONFIG, epochs=2)
    skip_gram_vectors(
        encode_texts(texts, vocabulary),
        vocabulary,
        config,
        lambda *report: told.append(report),
    )
    assert [report[1:] for report in told] == [(n, 400) for n in (100, 200, 300, 400)]


def test_wrong_settings_are_told() -> None:
    with pytest.raises(ConfigError, match="epochs"):
        trained(replace(CONFIG, epochs=0))


# A corpus gives the ids that its texts have by hand, without what is held out.


TEXTS = ["a b a c", "b a", "a", "rare b"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path, held_out = tmp_path / "text.txt", tmp_path / "held_out.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    held_out.write_text("a c c c c\n", encoding="utf-8")
    request = CorpusRequest(sources=resolve([str(path)]), held_out_sources=resolve([str(held_out)]))
    return prepare(request, cache=tmp_path / "cache")


def test_a_corpus_gives_its_training_texts_as_often_as_asked(corpus: Corpus) -> None:
    vocabulary = corpus.vocabulary(2, None)
    assert vocabulary.words == (*SPECIAL_WORDS, "a", "b")
    documents = CorpusDocuments(corpus, vocabulary)
    wanted = [[3, 4, 3, 2], [4, 3], [3], [2, 4]]
    assert len(documents) == len(TEXTS)
    assert [document.tolist() for document in documents] == wanted
    assert [document.tolist() for document in documents] == wanted
    given = encode_texts([text.split() for text in TEXTS], vocabulary)
    assert [document.tolist() for document in given] == wanted


def test_the_vocabulary_has_at_most_so_many_words(corpus: Corpus) -> None:
    vocabulary = corpus.vocabulary(1, 4)
    assert vocabulary.words == (*SPECIAL_WORDS, "a")


def test_too_little_text_is_told(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="no word occurs 9 times; lower --min-count"):
        corpus.vocabulary(9, None)


# Settings say everything that is wrong with them at once.


@pytest.mark.parametrize("config", [SvdConfig(), SkipGramConfig()])
def test_defaults_are_sound_and_survive_json(config: SvdConfig | SkipGramConfig) -> None:
    check(config)
    assert from_json(type(config), to_json(config), "here") == config


def test_every_problem_of_counting_is_told() -> None:
    wrong = SvdConfig(
        window=0,
        dim=0,
        min_count=0,
        max_vocabulary=3,
        seed=-1,
        shift=0.5,
        context_smoothing=1.5,
        eigenvalue_power=-0.1,
        iterations=-1,
    )
    with pytest.raises(ConfigError) as caught:
        check(wrong)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "window",
        "dim",
        "min_count",
        "max_vocabulary",
        "seed",
        "shift",
        "context_smoothing",
        "eigenvalue_power",
        "iterations",
    ]


def test_every_problem_of_skip_gram_is_told() -> None:
    wrong = SkipGramConfig(
        seed=2**32, negatives=0, epochs=0, threads=0, learning_rate=0, subsample=1
    )
    with pytest.raises(ConfigError) as caught:
        check(wrong)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "seed",
        "negatives",
        "epochs",
        "learning_rate",
        "subsample",
        "threads",
    ]

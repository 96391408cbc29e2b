"""Static embeddings as features of a linear classifier of AG News, and TF-IDF as a control.

    python benchmarks/static_agnews.py [--windows 2 5 8] [--methods svd skipgram tfidf] [--json]

Vectors are made of the descriptions of the training rows, without labels. A text is the mean and
the maximum of its words' vectors; logistic regression is fitted to that, its strength chosen on
the tenth of the training rows that `elmo.text.held_out` draws, where near copies of a text stay
together. With that strength it is fitted to all training rows and asked the test rows, once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from elmo.static.config import SkipGramConfig, StaticConfig, SvdConfig
from elmo.static.train import train_static
from elmo.study.rows import words_and_pairs
from elmo.text.config import ReadOptions
from elmo.text.corpus import is_held_out
from elmo.text.sources import read_columns, resolve
from elmo.text.tokenizer import tokenize_words

DEVELOPMENT_SHARE = 0.1
STRENGTHS = (0.003, 0.03, 0.3)
TFIDF_STRENGTHS = (0.1, 0.3, 1.0)
Labels = NDArray[np.str_]
Classifier = Callable[[float], Any]


@dataclass(frozen=True)
class Rows:
    """Texts, cut into words, and their labels."""

    words: list[list[str]]
    labels: Labels


@dataclass(frozen=True)
class Result:
    """How well one kind of features does."""

    features: str
    window: int | None
    c: float
    development: float
    test: float


def main() -> None:
    """Read, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--windows", type=int, nargs="+", default=[2, 5, 8])
    names = ["svd", "skipgram", "tfidf"]
    parser.add_argument("--methods", nargs="+", choices=names, default=names)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of skip-gram")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    train, test = read("ag_news:train"), read("ag_news:test")
    if not given.json:
        print(f"{len(train.words):,} training rows, {len(test.words):,} test rows")
        print(f"{'features':<10}{'window':>7}{'C':>8}{'development':>13}{'test':>9}")
    for result in results(given, train, test):
        if given.json:
            print(json.dumps(asdict(result)), flush=True)
        else:
            window = result.window or ""
            print(
                f"{result.features:<10}{window:>7}{result.c:>8g}"
                f"{result.development:>13.4f}{result.test:>9.4f}",
                flush=True,
            )


def read(name: str) -> Rows:
    """The descriptions of a part of AG News, cut as a biLM's text is, and their labels."""
    (source,) = resolve([name])
    rows = list(read_columns(source, ("label", "description"), ReadOptions()))
    return Rows([tokenize_words(text) for _, text in rows], np.array([label for label, _ in rows]))


def results(given: argparse.Namespace, train: Rows, test: Rows) -> Iterator[Result]:
    """One result a method and window."""
    for method in given.methods:
        if method == "tfidf":
            yield tfidf(train, test, given.seed)
            continue
        for window in given.windows:
            config = settings(method, window, given)
            vectors = train_static("ag_news:train", config, held_out_share=0).vectors
            features = [vectors.pooled(rows.words, "mean+max") for rows in (train, test)]
            chosen = fitted(*features, train, test, logistic, STRENGTHS)
            yield Result(method, window, *chosen)


def settings(method: str, window: int, given: argparse.Namespace) -> StaticConfig:
    """The defaults, but for the window, the seed and the threads."""
    if method == "svd":
        return SvdConfig(window=window, seed=given.seed)
    return SkipGramConfig(window=window, seed=given.seed, threads=given.threads)


def tfidf(train: Rows, test: Rows, seed: int) -> Result:
    """The control: weighted words and pairs of words, and a linear support vector machine."""
    vectorizer = TfidfVectorizer(
        analyzer=words_and_pairs, sublinear_tf=True, min_df=2, dtype=np.float32
    )
    features = vectorizer.fit_transform(train.words), vectorizer.transform(test.words)
    chosen = fitted(
        *features, train, test, lambda c: LinearSVC(C=c, random_state=seed), TFIDF_STRENGTHS
    )
    return Result("tfidf", None, *chosen)


def logistic(c: float) -> Pipeline:
    """Logistic regression of features brought to one scale."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=300, tol=1e-3))


def fitted(
    features: Any,
    test_features: Any,
    train: Rows,
    test: Rows,
    classifier: Classifier,
    strengths: Sequence[float],
) -> tuple[float, float, float]:
    """The strength that does best on the development rows, its accuracy there and on the test."""
    development = np.array([is_held_out(words, DEVELOPMENT_SHARE) for words in train.words])
    kept = np.flatnonzero(~development)
    asked = np.flatnonzero(development)
    accuracies = {
        c: classifier(c)
        .fit(features[kept], train.labels[kept])
        .score(features[asked], train.labels[asked])
        for c in strengths
    }
    best = max(accuracies, key=lambda c: accuracies[c])
    whole = classifier(best).fit(features, train.labels)
    return best, float(accuracies[best]), float(whole.score(test_features, test.labels))


if __name__ == "__main__":
    main()

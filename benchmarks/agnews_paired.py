"""Compare classifiers of AG News with TF-IDF bigrams and a linear SVM, on the same test rows.

    python benchmarks/agnews_paired.py runs/mixes/trainable-0 runs/mixes/frozen-0 …

The SVM's strength is chosen on the development rows that a classifier of seed 0 has; then it is
fitted to all training rows. The paired test is McNemar's. Of several classifiers, such as seeds of
one, it also tells the mean and what they give together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from elmo.classify.classifier import TextClassifier
from elmo.classify.config import LearningConfig
from elmo.classify.data import development_split, encode_labels, label_names, read_labelled
from elmo.classify.metrics import compare
from elmo.study.results import spread
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import tokenize_words

STRENGTHS = (0.1, 0.2, 0.5, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("classifiers", nargs="+", type=Path)
    parser.add_argument("--text", choices=["description", "both"], default="description")
    given = parser.parse_args()
    read = ReadOptions(ag_news_text=given.text)
    train, test = (read_labelled(name, read) for name in ("ag_news", "ag_news:test"))
    labels = label_names(train.labels or ())
    gold = encode_labels(test.labels or (), labels)
    classes = encode_labels(train.labels or (), labels)
    control = tfidf(train.texts, classes).predict(test.texts) == gold
    print(f"TF-IDF bigrams + linear SVM: {control.mean():.4f} of {len(gold):,}\n")
    print("| classifier | test accuracy | only it is right | only TF-IDF is right | p |")
    print("|---|---|---|---|---|")
    found: list[NDArray[np.float32]] = []
    for path in given.classifiers:
        found.append(TextClassifier.from_pretrained(path).predict_proba(test.texts))
        right = found[-1].argmax(1) == gold
        paired = compare(right, control)
        counts = f"{(right & ~control).sum()} | {(control & ~right).sum()}"
        print(f"| {path.name} | {right.mean():.4f} | {counts} | {paired.p:.2g} |")
    if len(found) > 1:
        print(f"\n{all_of_them(found, gold)}")


def all_of_them(found: list[NDArray[np.float32]], gold: NDArray[np.int64]) -> str:
    """Mean and deviation of some classifiers, and what they give together."""
    accuracies = spread([float((one.argmax(1) == gold).mean()) for one in found], len(gold))
    averaged = np.mean(found, axis=0).argmax(1) == gold
    return (
        f"Mean and deviation: {accuracies['mean']:.4f} ± {accuracies['deviation']:.4f}. Their "
        f"probabilities averaged: {averaged.mean():.4f}. "
        f"{together([one.argmax(1) for one in found], gold)}"
    )


def together(predictions: list[NDArray[np.int64]], gold: NDArray[np.int64]) -> str:
    """A vote of several runs, of which the first decides where there is a tie."""
    counts = [np.bincount(some, minlength=gold.max() + 1) for some in np.transpose(predictions)]
    votes = 2 * np.stack(counts)
    votes[np.arange(len(gold)), predictions[0]] += 1
    accuracy = (votes.argmax(1) == gold).mean()
    wrong = np.all([some != gold for some in predictions], axis=0)
    return (
        f"A vote of these {len(predictions)} runs: {accuracy:.4f}; wrong in all of them: "
        f"{wrong.mean():.4f} of the test rows."
    )


def tfidf(texts: list[str], classes: np.ndarray) -> Pipeline:
    """The control, its strength chosen on development rows, fitted to all rows."""
    config = LearningConfig()
    split = development_split(classes, config.development_share, config.seed)
    chosen = [[texts[row] for row in rows] for rows in split]
    scores = {
        strength: build(strength).fit(chosen[0], classes[split.train])
        .score(chosen[1], classes[split.development])
        for strength in STRENGTHS
    }  # fmt: skip
    return build(max(scores, key=lambda strength: scores[strength])).fit(texts, classes)


def build(strength: float) -> Pipeline:
    """TF-IDF of words and pairs of words, over the same tokens as the biLM's, in lower case."""
    features = TfidfVectorizer(
        tokenizer=tokenize_words,
        token_pattern=None,
        ngram_range=(1, 2),
        sublinear_tf=True,
        min_df=2,
    )
    return make_pipeline(features, LinearSVC(C=strength))


if __name__ == "__main__":
    main()

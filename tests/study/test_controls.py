"""The controls are what counting and scikit-learn say they are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
from tests.study.toys import toy_data

from elmo.study.controls import majority, tfidf, words_and_pairs

DATA = toy_data()


def test_the_majority_class_is_the_most_frequent_one() -> None:
    counts = np.bincount(DATA.classes[: DATA.train_count])
    found = majority(DATA)
    assert set(found.predictions) == {counts.argmax()}
    share = (DATA.classes[DATA.train_count :] == counts.argmax()).mean()
    assert found.test.accuracy.value == pytest.approx(share)


def test_tfidf_is_a_linear_machine_over_words_and_pairs() -> None:
    def analysed(text: str) -> list[str]:
        words = text.lower().split()
        return words + [" ".join(words[place : place + 2]) for place in range(len(words) - 1)]

    vectorizer = TfidfVectorizer(analyzer=analysed, sublinear_tf=True)
    train = vectorizer.fit_transform(DATA.texts[: DATA.train_count])
    machine = LinearSVC(C=0.5, random_state=0).fit(train, DATA.classes[: DATA.train_count])
    expected = machine.predict(vectorizer.transform(DATA.texts[DATA.train_count :]))
    found = tfidf(DATA, 0.5)
    assert found.predictions == tuple(expected)
    assert found.test.accuracy.value > 0.9
    assert found.parameters == machine.coef_.size + 1


def test_words_and_pairs_are_in_lower_case() -> None:
    assert words_and_pairs(["The", "Old", "bank"]) == ["the", "old", "bank", "the old", "old bank"]
    assert words_and_pairs([]) == []


def test_few_labels_are_drawn_by_the_seed() -> None:
    found = [tfidf(DATA, 0.5, per_class=4, seed=seed) for seed in (0, 0, 1)]
    assert found[0].predictions == found[1].predictions
    assert found[0].predictions != found[2].predictions

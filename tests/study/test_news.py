"""Generated news: the same for a seed, disjoint by part, varied, and not too easy."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from elmo.errors import UserError
from elmo.study.news import generate
from elmo.study.news.generate import NewsItem, generate_news
from elmo.study.news.grammar import parse_grammar
from elmo.study.news.senses import SENSES
from elmo.text.ag_news import LABELS
from elmo.text.tokenizers import tokenize_words

SEEDS = st.integers(-(2**40), 2**40)
SMALL = parse_grammar(
    line
    for rule in ("world", "sports", "business", "science")
    for line in (f"{rule}:", f"  {rule} b c d e f g h i j k l m n {{n}}{{n}}{{n}}")
)
SMALL |= parse_grammar(["n:", "  1 | 2 | 3 | 4 | 5"])
PROGRAM = """
from elmo.study.news.generate import generate_news
print(generate_news(12, 7), generate_news(12, 7, part="test"))
"""


def words(item: NewsItem) -> list[str]:
    return tokenize_words(item.text)


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_shorter_list_begins_a_longer_one(seed: int) -> None:
    assert generate_news(5, seed) == generate_news(9, seed)[:5]


def test_seeds_and_parts_differ() -> None:
    assert generate_news(8, 1) != generate_news(8, 2)
    assert generate_news(8, 1) != generate_news(8, 1, part="test")


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_every_process_makes_the_same(hash_seed: str) -> None:
    around = os.environ | {"PYTHONHASHSEED": hash_seed}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=around, capture_output=True, text=True, check=True
    )
    here = f"{generate_news(12, 7)} {generate_news(12, 7, part='test')}\n"
    assert found.stdout == here


@given(SEEDS, SEEDS)
@settings(max_examples=25, deadline=None)
def test_train_and_test_share_no_text(one: int, other: int) -> None:
    # Most of some 60 texts a class are drawn: by chance alone, many would be in both parts.
    with patch.object(generate, "news_grammar", lambda: SMALL):
        train = [item.text for item in generate_news(120, one)]
        test = [item.text for item in generate_news(24, other, part="test")]
    assert not set(train) & set(test)
    assert len(set(train)) == 120
    assert len(set(test)) == 24


def test_the_classes_are_of_equal_size(train_news: list[NewsItem]) -> None:
    assert Counter(item.label for item in train_news) == dict.fromkeys(LABELS, 1500)
    assert Counter(item.label for item in generate_news(6, 3)).most_common()[0][1] == 2


def test_lengths(train_news: list[NewsItem]) -> None:
    assert {15, 45} <= {len(item.text.split()) for item in train_news} <= set(range(15, 46))
    # A sentence ends with a full stop, but not after the initial of a name.
    ends = [len(re.findall(r'(?<![A-Z])\.(?:"|$| )', item.text)) for item in train_news]
    assert set(ends) == {1, 2, 3}
    assert all(item.text.endswith((".", '."')) for item in train_news)


def test_no_notation_is_left(train_news: list[NewsItem]) -> None:
    for item in train_news:
        assert not re.search(r"[{}()\[\]|<>/]|  | [,.]|\.\.|,,|\b(\w+) \1\b", item.text), item.text


def test_marks_are_all_the_ambiguous_words(train_news: list[NewsItem]) -> None:
    for item in train_news:
        tokens = words(item)
        wanted = [(place, word) for place, word in enumerate(tokens) if word in SENSES]
        assert [(mark.place, mark.word) for mark in item.senses] == wanted
        assert all(mark.sense in SENSES[mark.word] for mark in item.senses)
        # With a capital, a word would be another word.
        assert not {token.lower() for token in tokens if token[0].isupper()} & set(SENSES)


def test_vocabulary(train_news: list[NewsItem]) -> None:
    found = {word for item in train_news for word in words(item)}
    assert sum(word.isalpha() and word.islower() for word in found) >= 2500


def test_no_template_dominates(train_news: list[NewsItem]) -> None:
    phrases = Counter(
        phrase
        for item in train_news
        for tokens in [words(item)]
        for phrase in {tuple(tokens[start : start + 5]) for start in range(len(tokens) - 4)}
    )
    assert max(phrases.values()) < 0.03 * len(train_news)


def test_every_sense_occurs_in_every_class(train_news: list[NewsItem]) -> None:
    found = Counter(
        (mark.word, mark.sense, item.label) for item in train_news for mark in item.senses
    )
    wanted = {(w, s, label) for w, senses in SENSES.items() for s in senses for label in LABELS}
    assert set(found) == wanted
    assert sum(found.values()) > len(train_news)


def test_the_class_does_not_tell_the_sense(train_news: list[NewsItem]) -> None:
    by_class: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in train_news:
        for mark in item.senses:
            by_class[mark.word, item.label][mark.sense] += 1
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for (word, _), senses in by_class.items():
        right[word] += max(senses.values())
        total[word] += senses.total()
    assert right.total() / total.total() < 0.72
    assert max(right[word] / total[word] for word in total) < 0.9


def test_words_alone_tell_most_classes_but_not_all(
    train_news: list[NewsItem], test_news: list[NewsItem]
) -> None:
    machine: Any = make_pipeline(TfidfVectorizer(), LinearSVC(C=0.5))
    machine.fit([item.text for item in train_news[:5000]], [x.label for x in train_news[:5000]])
    found = machine.predict([item.text for item in test_news])
    assert 0.88 < np.mean(found == np.array([item.label for item in test_news])) < 0.97


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="not negative, got -1"):
        generate_news(-1, 0)
    with pytest.raises(UserError, match="'train' or 'test', got 'dev'"):
        generate_news(1, 0, part="dev")  # pyright: ignore[reportArgumentType]
    assert generate_news(0, 0) == []

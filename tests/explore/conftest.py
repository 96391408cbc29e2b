"""The shipped model, and an index of a few generated news that all tests of this folder read."""

from __future__ import annotations

import pytest

from elmo.classify.classifier import TextClassifier
from elmo.embed.embedder import Embedder
from elmo.explore.index import CorpusIndex, CorpusText, build_index
from elmo.study.news import read_news
from elmo.text.tokenizer import tokenize_words


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    return Embedder.from_pretrained()


@pytest.fixture(scope="session")
def classifier() -> TextClassifier:
    return TextClassifier.from_pretrained()


@pytest.fixture(scope="session")
def news() -> list[CorpusText]:
    return [
        CorpusText(
            tokenize_words(item.text), item.label, {mark.place: mark.sense for mark in item.senses}
        )
        for item in read_news("train")[:160]
    ]


@pytest.fixture(scope="session")
def index(
    embedder: Embedder, news: list[CorpusText], tmp_path_factory: pytest.TempPathFactory
) -> CorpusIndex:
    return build_index(embedder, news, tmp_path_factory.mktemp("explore") / "news.index")

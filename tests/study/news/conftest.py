"""A generated corpus, made once for all tests that look at what news is like as a whole."""

from __future__ import annotations

import pytest

from elmo.study.news.generate import NewsItem, generate_news


@pytest.fixture(scope="session")
def train_news() -> list[NewsItem]:
    return generate_news(6000, seed=0)


@pytest.fixture(scope="session")
def test_news() -> list[NewsItem]:
    return generate_news(1000, seed=0, part="test")

"""One report for all tests: drawing it takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study.builder import study_results

from elmo.study.news import NewsItem, generate_news
from elmo.study.report import write_report
from elmo.study.results import StudyResults


@pytest.fixture(scope="session")
def results() -> StudyResults:
    """What a study might find."""
    return study_results()


@pytest.fixture(scope="session")
def written(results: StudyResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files of a report."""
    folder = tmp_path_factory.mktemp("study")
    write_report(results, folder)
    return folder


# A generated corpus, made once for all tests that look at what news is like as a whole.


@pytest.fixture(scope="session")
def train_news() -> list[NewsItem]:
    return generate_news(6000, seed=0)


@pytest.fixture(scope="session")
def test_news() -> list[NewsItem]:
    return generate_news(1000, seed=0, part="test")

"""One report for all tests: drawing it takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study.report.builder import study_results

from elmo.study.report.write import write_report
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

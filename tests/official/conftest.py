"""The fixtures of the originals lie where ELMO_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def originals() -> Path:
    """Two tiny models with activations that the original programs computed."""
    data = os.environ.get("ELMO_DATA")
    if data is None:
        pytest.skip("set ELMO_DATA to a folder with elmo_fixtures to compare with the originals")
    folder = Path(data) / "elmo_fixtures"
    assert folder.is_dir(), f"ELMO_DATA is set, but {folder} is not there"
    return folder

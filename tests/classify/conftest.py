"""The layers that these tests compute are cached in a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Not the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "ELMO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield

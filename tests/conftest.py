"""What all tests share: how Hypothesis searches, and a vocabulary small enough to see through."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

# The same examples on every machine and every day: a test that fails must fail again.
settings.register_profile(
    "elmo",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("elmo")

TINY_WORDS = ("the", "cat", "sat", "on", "a", "mat", "dog", "naïve", "雨", "x" * 60)


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Layers, corpora and downloads are cached in a folder of the tests, not in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "ELMO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Three special words and ten others, the most frequent first."""
    counts = (9, 9, 4, *range(30, 30 - 2 * len(TINY_WORDS), -2))
    return Vocabulary((*SPECIAL_WORDS, *TINY_WORDS), counts)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The models of these tests are so small that threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

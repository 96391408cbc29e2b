"""Both ways to add up gradients still run against the model as it is."""

from __future__ import annotations

from argparse import Namespace

import pytest

import scaling


@pytest.mark.parametrize(("processes", "engine"), [(1, "buckets"), (2, "ddp")])
def test_a_case_runs(processes: int, engine: str) -> None:
    sizes = Namespace(words=200, hidden=8, samples=16, batch_tokens=256, steps=2)
    measured = scaling.launched(sizes, processes, engine)
    assert measured["tokens_per_second"] > 0
    assert (measured["sent"] > 0) is (processes > 1), "one process has nothing to send"

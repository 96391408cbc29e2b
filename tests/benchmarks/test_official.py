"""What speed is measured against computes what the specification says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.official.golden_elmo import golden

from official import StepByStep

SENTENCES = [["the", "naïve", "cat"], ["雨"], ["x" * 60, "sat", "<S>", "on", "it"]]


@pytest.mark.parametrize("skip", [True, False])
def test_every_layer_is_that_of_the_specification(tmp_path: Path, skip: bool) -> None:
    theirs = golden(skip=skip, layers=3)
    model = StepByStep(theirs.write(tmp_path / "model"))
    for text, layers in zip(SENTENCES, model.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(layers, theirs.read(text)[0], rtol=0, atol=5e-6)


def test_bf16_is_coarser(tmp_path: Path) -> None:
    folder = golden().write(tmp_path / "model")
    exact, coarse = (
        np.concatenate(StepByStep(folder, kind).encode(SENTENCES), axis=1)
        for kind in (torch.float32, torch.bfloat16)
    )
    assert 1e-4 < np.abs(exact - coarse).max() < 0.3

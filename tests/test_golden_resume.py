"""A run that the first version started and did not finish is resumed by this one.

`golden/unfinished_run` was written by elmo 0.1.0: stopped after 7 of 27 steps, in the middle of a
stream, whose LSTM states it carries. `finished.safetensors` is what 0.1.0 itself ended with.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from elmo.model_folder import load_tensors
from elmo.training.pretrain import pretrain, read_run, resume

FOLDER = Path(__file__).parent / "golden" / "unfinished_run"


@pytest.mark.parametrize("by_folder", [False, True])
def test_a_run_of_the_first_version_ends_as_it_would_have(tmp_path, monkeypatch, by_folder):
    shutil.copytree(FOLDER, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    cache = tmp_path / "cache"
    if by_folder:
        result = resume("run", cache=cache)
    else:
        result = pretrain("corpus.txt", "run", read_run(Path("run"))[1], cache=cache)
    assert (result.finished, result.position.step, result.position.epoch) == (True, 27, 3)
    assert result.position.best_perplexity == pytest.approx(8.607057452332796, rel=1e-4)
    last = sorted(Path("run/checkpoints").glob("step-*"))[-1]
    found, expected = (
        load_tensors(p) for p in (last / "model.safetensors", FOLDER / "finished.safetensors")
    )
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-5)

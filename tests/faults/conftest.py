"""What the tests of failures share: how long they may take, and processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from tests.training.conftest import tiny_config

from elmo.training.config import PretrainConfig
from elmo.training.pretrain import pretrain

SOAK = bool(os.environ.get("ELMO_SOAK"))
"""Whether there is time for the long versions: make soak."""

SETTINGS = tiny_config(epochs=3, checkpoint_minutes=0.0)
"""A checkpoint after every step: most of the time is spent where a death hurts most."""


def train(folder: Path, config: PretrainConfig = SETTINGS) -> None:
    """Train on the folder's text, or resume."""
    torch.set_num_threads(1)
    source = str(folder / "corpus.txt")
    pretrain(source, folder / "run", config, cache=folder / "cache")


def started(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A process that does this work; it is there at once, since all imports are done before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["elmo.training.pretrain", "tests.faults.conftest"])
    process = context.Process(target=work, args=arguments)
    process.start()
    return process


def final_bytes(run: Path) -> list[bytes]:
    """The best model and the last checkpoint, byte for byte."""
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    files = [run / "model.safetensors", last / "model.safetensors", last / "training.safetensors"]
    return [path.read_bytes() for path in files]

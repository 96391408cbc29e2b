"""Programs that compute official ELMo models: ours, the plain one, and simple_elmo in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.tokens import WordCache
from elmo.embed.embedder import Embedder
from step_by_step import StepByStep

PACKAGES = ("simple_elmo", "tensorflow", "tf_keras")

Words = list[str]
Layers = list[NDArray[np.float32]]


@dataclass
class Program:
    """One way to compute the layers."""

    name: str
    encode: Callable[[Sequence[Words]], float]
    """Read some sentences in one batch or several; the seconds it took."""
    layers: Callable[[Sequence[Words]], Layers]
    pid: int | None = None
    """Of the process that does it, if it is another."""


def environment(folder: Path) -> Path:
    """The Python of an environment with simple_elmo, made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (folder / "ready").touch()
    return python


def ours(
    name: str, folder: Path, batch: int, precision: Any, most_words: int | None = None
) -> Program:
    """This package, as people call it."""
    embedder = Embedder.from_pretrained(folder, precision=precision)
    if most_words is not None:
        embedder.model.token_layer.cache = WordCache(most_words)

    def layers(sentences: Sequence[Words]) -> Layers:
        found: Layers = []
        for first in range(0, len(sentences), batch):
            part = sentences[first : first + batch]
            found += embedder.encode(part, output="tokens", layer="all", batch_tokens=64 * batch)
        return found

    def encode(sentences: Sequence[Words]) -> float:
        embedder.model.token_layer.cache.clear()
        return timed(lambda: layers(sentences))

    return Program(name, encode, layers)


def plain(name: str, folder: Path, batch: int, kind: torch.dtype) -> Program:
    """The step-by-step implementation."""
    model = StepByStep(folder, kind)

    def layers(sentences: Sequence[Words]) -> Layers:
        starts = range(0, len(sentences), batch)
        return [one for first in starts for one in model.encode(sentences[first : first + batch])]

    return Program(name, lambda sentences: timed(lambda: layers(sentences)), layers)


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Worker:
    """simple_elmo in a process of its own, which times itself."""

    def __init__(self, python: Path, folder: Path, batch: int) -> None:
        self._file = folder / "simple_elmo.npy"
        script = Path(__file__).with_name("simple_elmo_worker.py")
        self._process = subprocess.Popen(
            [python, script, folder, str(batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.pid = self._process.pid
        self._answer()

    def encode(self, sentences: Sequence[Words]) -> float:
        """The seconds it says it took."""
        return self._ask(sentences, None)

    def layers(self, sentences: Sequence[Words]) -> Layers:
        """What it computes, from a state of zeros."""
        self._ask(sentences, str(self._file))
        found = np.load(self._file)
        self._file.unlink()
        return [found[row, :, : len(words)] for row, words in enumerate(sentences)]

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _ask(self, sentences: Sequence[Words], path: str | None) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(sentences), path]) + "\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"simple_elmo ended with {self._process.wait()}; run {__file__} without it?")
        return json.loads(line)

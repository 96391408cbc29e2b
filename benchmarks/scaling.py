"""Training speed with one and with two processes, and two ways to add up their gradients.

    python benchmarks/scaling.py                          # the default model, 30,000 words
    python benchmarks/scaling.py --hidden 512 --words 100000

The text is random, its words as frequent as Zipf's law says. The global batch is the same whatever
the number of processes. "buckets" is what elmo pretrain does; "ddp" is torch's
DistributedDataParallel. One process has nothing to add up. Each case is measured
several times in turn, since a machine's speed drifts; the medians are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BatchLoss, BiLM, Randomness
from elmo.runtime import cpu_cores
from elmo.text.batching import MicroBatches, Step, WordTable, read_steps
from elmo.text.config import Batching
from elmo.text.corpus import Shards, ShardWriter
from elmo.text.vocabulary import END, SPECIAL_WORDS, START
from elmo.training.config import TrainingConfig
from elmo.training.distributed import World, joined, sum_gradients
from elmo.training.loop import build_optimizer
from harness import vocabulary, zipf

CASES = ((1, "buckets"), (2, "buckets"), (2, "ddp"))
LENGTH = 40
WARM_UP = 3


def main() -> None:
    """Start the cases one after the other, several times, and print a table."""
    given = arguments()
    if given.engine:
        measure(given)
        return
    found: dict[tuple[int, str], list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(given.repeats):
        for case in CASES:
            found[case].append(launched(given, *case))
    print("| processes | gradients | threads each | tokens/s | sent a step, MB |")
    print("|---|---|---|---|---|")
    for (processes, engine), runs in found.items():
        speed = statistics.median(run["tokens_per_second"] for run in runs)
        print(
            f"| {processes} | {engine} | {runs[0]['threads']} | {speed:,.0f} | "
            f"{runs[0]['sent'] / 1e6:,.1f} |"
        )


def arguments() -> argparse.Namespace:
    """The flags, which each process gets too."""
    parser = argparse.ArgumentParser(description="Training speed with one and two processes.")
    parser.add_argument("--words", type=int, default=30_000)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--engine", choices=("buckets", "ddp"), help=argparse.SUPPRESS)
    return parser.parse_args()


def launched(given: argparse.Namespace, processes: int, engine: str) -> dict[str, float]:
    """What one case measures, in processes of its own."""
    sizes = ("words", "hidden", "samples", "batch_tokens", "steps")
    flags = [f"--{name.replace('_', '-')}={getattr(given, name)}" for name in sizes]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [sys.executable, *launcher, __file__, *flags, f"--engine={engine}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(given: argparse.Namespace) -> None:
    """Train for some steps, and let the first process print what it saw."""
    with joined() as world, tempfile.TemporaryDirectory() as folder:
        threads = max(1, cpu_cores() // world.size)
        torch.set_num_threads(threads)
        steps = batches(given, world, Path(folder))
        train = trainer(given, world)
        for _ in range(WARM_UP):  # the first ones pay for what is made only once
            train(next(steps))
        start, tokens, sent = time.perf_counter(), 0, 0
        for step in (next(steps) for _ in range(given.steps)):
            sent += train(step)
            tokens += step.forward_targets
        seconds = time.perf_counter() - start
        if world.is_first:
            figures = {"tokens_per_second": tokens / seconds, "sent": sent / given.steps}
            print(json.dumps({**figures, "threads": threads}))


def batches(given: argparse.Namespace, world: World, folder: Path) -> Iterator[Step]:
    """This process's share of a random text, which is the same for all."""
    random = np.random.default_rng(0)
    chances = zipf(given.words)
    writer = ShardWriter(folder)
    for _ in range((WARM_UP + given.steps) * (given.batch_tokens // LENGTH)):
        words = random.choice(given.words, LENGTH - 1, p=chances) + len(SPECIAL_WORDS)
        writer.add([START, *words.tolist(), END])
    writer.close()
    words = vocabulary(given.words)
    table = WordTable.of(words.words, words, spelled=False)
    batching = Batching(batch_tokens=given.batch_tokens)
    share = MicroBatches.of_process(world.rank, world.size, 1)
    return read_steps(Shards(folder), table, batching, (0,), mine=share)


class Loss(nn.Module):
    """The loss as a `forward`, which is what DistributedDataParallel calls."""

    def __init__(self, model: BiLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, *arguments: Any) -> BatchLoss:
        return self.model.loss(*arguments)


def trainer(given: argparse.Namespace, world: World) -> Callable[[Step], int]:
    """A function that trains on a batch and tells the bytes it has sent."""
    torch.manual_seed(0)
    config = BiLMConfig(
        word_dim=given.hidden, hidden=given.hidden, softmax=SoftmaxConfig(samples=given.samples)
    )
    model = BiLM(config, vocabulary(given.words))
    settings = TrainingConfig()
    optimizer = build_optimizer(model, settings)
    with_ddp = given.engine == "ddp"
    compute_loss: Any = DistributedDataParallel(Loss(model)) if with_ddp else model.loss

    def train(step: Step) -> int:
        optimizer.zero_grad(set_to_none=True)
        (batch,) = step.micro_batches
        loss = compute_loss(batch, None, Randomness.of(0, 0, model.device))
        mean = loss.mean_over(step.forward_targets, step.backward_targets)
        # DDP takes the mean over processes where the sum is wanted.
        (mean * world.size if with_ddp else mean).backward()
        parameters = list(model.parameters())
        if not with_ddp:
            sum_gradients(world, parameters)
        clip_grad_norm_(parameters, settings.clip)
        optimizer.step()
        size = sum(one.numel() * one.element_size() for one in parameters)
        return size if world.size > 1 else 0

    return train


if __name__ == "__main__":
    main()

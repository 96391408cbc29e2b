"""Several processes that train one model together; the only file that knows process groups.

A single process takes the same path as many: it is a world of size 1, and every exchange returns
at once.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from elmo.errors import UserError

T = TypeVar("T")

STEP_TIMEOUT = timedelta(minutes=10)  # after which another process is taken for dead
WORK_TIMEOUT = timedelta(days=7)  # for work of one for all, such as preparing the text
BUCKET_ELEMENTS = 6 << 20  # gradients summed at a time (25 MB), as in DistributedDataParallel


@dataclass(frozen=True)
class World:
    """All processes of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    slow_group: Any = None  # the process group for exchanges that may wait as long as WORK_TIMEOUT

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes files and reports for all."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor, largest: bool = False) -> None:
        """Replace a tensor by its sum, or its largest values, over all processes."""
        if self.size > 1:
            with _lost_process_explained():
                dist.all_reduce(tensor, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether any process has set it."""
        common = torch.tensor(flags, dtype=torch.uint8)
        self.all_reduce(common, largest=True)
        return tuple(bool(flag) for flag in common)

    def sums(self, *values: float) -> tuple[float, ...]:
        total = torch.tensor(values, dtype=torch.float64)
        self.all_reduce(total)
        return tuple(float(value) for value in total)

    def broadcast(self, text: str) -> str:
        """The text of the first process, known to all."""
        if self.size == 1:
            return text
        content = np.frombuffer(text.encode(), np.uint8).copy()
        length = torch.tensor([len(content)])
        with _lost_process_explained():
            dist.broadcast(length, 0, group=self.slow_group)
            if not self.is_first:
                content = np.empty(int(length), np.uint8)
            if len(content):
                dist.broadcast(torch.from_numpy(content), 0, group=self.slow_group)
        return content.tobytes().decode()

    def on_first(self, work: Callable[[], T]) -> T | None:
        """Do something in the first process only; the others get None.

        If it fails, all fail: the others with a UserError that says what the first one raised.
        """
        if not self.is_first:
            if problem := self.broadcast(""):
                raise UserError(problem)
            return None
        try:
            result = work()
        except Exception as error:  # any: the others would wait for days
            name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            self.broadcast(f"{name}{error}" or "the first process failed")
            raise
        self.broadcast("")
        return result

    def all_same(self, text: str) -> bool:
        (differs,) = self.any(text != self.broadcast(text))
        return not differs


@contextmanager
def joined(device: str = "cpu") -> Generator[World]:
    """Join the processes that torchrun started; without torchrun, a world of one."""
    names = ("RANK", "WORLD_SIZE", "MASTER_PORT")
    told = [os.environ.get(name, default) for name, default in zip(names, "010", strict=True)]
    is_number = all(text.isascii() and text.isdigit() for text in told)
    rank, size, _ = map(int, told) if is_number else (0, 0, 0)
    if rank >= size or (size > 1 and not {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()):
        raise UserError(
            f"RANK {told[0]!r:.40}, WORLD_SIZE {told[1]!r:.40}, MASTER_ADDR, MASTER_PORT: expected "
            "what torchrun sets; start the command with torchrun, or unset these variables"
        )
    if size == 1:
        yield World()
        return
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    with _lost_process_explained():
        store = _unused_store(rank, size)
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=STEP_TIMEOUT
        )
        slow_group = dist.new_group(backend="gloo", timeout=WORK_TIMEOUT)
    try:
        yield World(rank, size, slow_group)
    finally:
        dist.destroy_process_group()


def own_device(device: str) -> str:
    """The device of this process: with torchrun, "cuda" is the GPU of the local rank."""
    if device == "cuda" and "TORCHELASTIC_RUN_ID" in os.environ:
        return f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
    return device


def sum_gradients(world: World, parameters: Sequence[Tensor]) -> None:
    """Replace the gradient of each trained parameter by its sum over all processes.

    Not DistributedDataParallel: a process may have no rows of a batch, `--accumulate` calls the
    model several times per step, and a parameter that no process used must keep no gradient (to
    an optimizer, None is not zero). Speed: docs/scaling.md.
    """
    if world.size == 1:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    used = world.any(*(parameter.grad is not None for parameter in trained))
    bucket: list[Tensor] = []
    for parameter, is_used in zip(trained, used, strict=True):
        if is_used:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
        if sum(gradient.numel() for gradient in bucket) >= BUCKET_ELEMENTS:
            _sum_bucket(world, bucket)
            bucket = []
    if bucket:
        _sum_bucket(world, bucket)


def _sum_bucket(world: World, gradients: Sequence[Tensor]) -> None:
    flat = parameters_to_vector(gradients)
    world.all_reduce(flat)
    vector_to_parameters(flat, gradients)


def _unused_store(rank: int, size: int) -> Any:
    """A part of the processes' common store that holds nothing of processes that died.

    torchrun may keep one store over its restarts. A process that starts faster than the new rank 0
    would read, and call, the address of the dead one. So rank 0 draws a name never used before and
    tells it to each process in answer to a question that was never asked before.
    """
    torch_distributed: Any = dist
    store: Any = next(torch_distributed.rendezvous("env://", rank, size, timeout=STEP_TIMEOUT))[0]
    name = secrets.token_hex(8)
    if rank > 0:
        question = name
        store.set(f"elmo/question/{rank}", question)
        name = store.get(f"elmo/answer/{question}").decode()
        store.set(f"elmo/seen/{name}/{rank}", "")
    waiting = list(range(1, size)) if rank == 0 else []
    end = time.monotonic() + STEP_TIMEOUT.total_seconds()
    while waiting:
        for other in waiting:
            if store.check([f"elmo/question/{other}"]):  # perhaps a dead process's: no harm
                question = store.get(f"elmo/question/{other}").decode()
                store.set(f"elmo/answer/{question}", name)
        waiting = [rank for rank in waiting if not store.check([f"elmo/seen/{name}/{rank}"])]
        if time.monotonic() > end:
            raise RuntimeError(f"processes {waiting} did not come")
        time.sleep(0.01)
    return torch_distributed.PrefixStore(f"elmo/{name}", store)


@contextmanager
def _lost_process_explained() -> Generator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            "another process of this run is gone; torchrun --max-restarts resumes from the last "
            f"checkpoint by itself, otherwise run the same command again ({reason})"
        ) from None

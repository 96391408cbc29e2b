"""Processes that train one model together: who they are, what they agree on, how they add up.

The only place that knows of process groups. A single process takes the same path: it is a world of
one, which has nobody to ask.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from elmo.errors import UserError

T = TypeVar("T")

STEP_PATIENCE = timedelta(minutes=10)
"""How long a step of another process may take before it is taken for dead."""
WORK_PATIENCE = timedelta(days=7)
"""How long the others wait for what one process does for all, such as preparing the text."""


@dataclass(frozen=True)
class World:
    """All processes of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    patient: Any = None
    """The process group in which others may take long."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.rank == 0

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Of each flag, whether some process has set it."""
        if self.size == 1:
            return flags
        common = torch.tensor(flags, dtype=torch.uint8)
        self.largest(common)
        return tuple(bool(flag) for flag in common)

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.size == 1:
            return
        for tensor in tensors:
            with _watched():
                dist.all_reduce(tensor)

    def largest(self, tensor: Tensor) -> None:
        """Replace each number by the largest of all processes."""
        if self.size > 1:
            with _watched():
                dist.all_reduce(tensor, dist.ReduceOp.MAX)

    def sums(self, *values: float) -> tuple[float, ...]:
        """The sum of each number over all processes."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        self.sum(total)
        return tuple(float(one) for one in total)

    def tell(self, text: str) -> str:
        """What the first process says, known to all."""
        if self.size == 1:
            return text
        content = np.frombuffer(text.encode(), np.uint8).copy()
        length = torch.tensor([len(content)])
        with _watched():
            dist.broadcast(length, 0, group=self.patient)
            if not self.is_first:
                content = np.empty(int(length), np.uint8)
            if len(content):
                dist.broadcast(torch.from_numpy(content), 0, group=self.patient)
        return content.tobytes().decode()

    def first(self, work: Callable[[], T]) -> T | None:
        """Let the first process do something, only there with a result; if it fails, all fail."""
        result, problem = None, ""
        if self.is_first:
            try:
                result = work()
            except UserError as error:
                if self.size == 1:
                    raise
                problem = str(error)
        if problem := self.tell(problem):
            raise UserError(problem)
        return result

    def all_same(self, what: str) -> bool:
        """Whether all processes say the same."""
        (differs,) = self.any(what != self.tell(what))
        return not differs


@contextmanager
def joined(device: str = "cpu") -> Generator[World]:
    """Join the processes that torchrun has started, or be alone."""
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if size == 1:
        yield World()
        return
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    with _watched():
        store = _fresh_store(rank, size)
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=STEP_PATIENCE
        )
        patient = dist.new_group(backend="gloo", timeout=WORK_PATIENCE)
    try:
        yield World(rank, size, patient)
    finally:
        dist.destroy_process_group()


def own_device(device: str) -> str:
    """The device of this process: of several on one machine each takes its own GPU."""
    return f"cuda:{_number('LOCAL_RANK', 0)}" if device == "cuda" and is_launched() else device


def processes_here() -> int:
    """How many processes of the run share this machine."""
    return _number("LOCAL_WORLD_SIZE", 1)


def is_launched() -> bool:
    """Whether torchrun started this process, and may start it again."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _fresh_store(rank: int, size: int) -> Any:
    """A part of the processes' common store in which nothing is left of those that died.

    torchrun may keep one store for all its restarts, and a process that is faster than the new
    first one would find, and call, the address of the dead one. So the first process makes up a
    name that was never used, and tells it in answer to a question that was never asked before.
    """
    torch_distributed: Any = dist
    store: Any = next(torch_distributed.rendezvous("env://", rank, size, timeout=STEP_PATIENCE))[0]
    name = secrets.token_hex(8)
    if rank == 0:
        _answer(store, size, name)
    else:
        question = name
        store.set(f"elmo/question/{rank}", question)
        name = store.get(f"elmo/answer/{question}").decode()
        store.set(f"elmo/heard/{name}/{rank}", "")
    return torch_distributed.PrefixStore(f"elmo/{name}", store)


def _answer(store: Any, size: int, name: str) -> None:
    """Tell the name to whoever asks, until all have heard it; dead ones' questions do no harm."""
    end = time.monotonic() + STEP_PATIENCE.total_seconds()
    deaf = list(range(1, size))
    while deaf:
        for rank in deaf:
            if store.check([f"elmo/question/{rank}"]):
                question = store.get(f"elmo/question/{rank}").decode()
                store.set(f"elmo/answer/{question}", name)
        deaf = [rank for rank in deaf if not store.check([f"elmo/heard/{name}/{rank}"])]
        if time.monotonic() > end:
            raise RuntimeError(f"processes {deaf} did not come")
        time.sleep(0.01)


@contextmanager
def _watched() -> Generator[None]:
    """Say what it means when another process does not answer."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            "another process of this run is gone; torchrun --max-restarts goes on from the last "
            f"checkpoint by itself, else give the command again ({reason})"
        ) from None


def _number(variable: str, default: int) -> int:
    return int(os.environ.get(variable, default))


# Gradients of several processes added up; of the words, only the rows that have one.
#
# A step touches the words of its batch and of its sample, some thousands of a vocabulary that may
# have a million. Summing their matrices whole would send hundreds of times as much.


BUCKET_NUMBERS = 6 << 20
"""Gradients are added up in pieces of about so many numbers (25 MB), as DDP does."""
DENSE_SHARE = 0.5
"""Where more of a matrix's rows have a gradient, all of them are sent: no index is needed then."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that a process hands over to be added up in a step."""

    sent: int
    dense: int
    """What it would be if every gradient were sent whole."""


def make_whole(parameters: Sequence[Tensor]) -> None:
    """Turn gradients that name only some rows into matrices, once a step."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


def sum_gradients(
    world: World, parameters: Sequence[Tensor], by_row: Sequence[Tensor] = ()
) -> Traffic:
    """Replace the gradient of each parameter by its sum over all processes.

    Of parameters `by_row` only those rows are sent that have a gradient in some process.
    """
    trained = [one for one in parameters if one.requires_grad]
    dense = sum(one.numel() * one.element_size() for one in trained)
    if world.size == 1:
        return Traffic(0, dense)
    seldom = [one for one in by_row if one.requires_grad]
    exist, rows = _touched(world, trained, seldom)
    pieces: list[_Piece] = []
    for parameter, is_there in zip(trained, exist, strict=True):
        # A parameter that nobody used keeps no gradient: to an optimizer that is not a zero.
        if is_there:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            pieces.append(_Piece(parameter.grad, rows.get(id(parameter))))
    for bucket in _buckets(pieces):
        _sum_bucket(world, bucket)
    flags = len(trained) + sum(len(one) for one in seldom)
    return Traffic(flags + sum(piece.bytes for piece in pieces), dense)


@dataclass(frozen=True)
class _Piece:
    """A gradient, or some of its rows."""

    gradient: Tensor
    rows: Tensor | None

    @property
    def numbers(self) -> int:
        rows = len(self.gradient) if self.rows is None else len(self.rows)
        return rows * self.gradient[0].numel()

    @property
    def bytes(self) -> int:
        return self.numbers * self.gradient.element_size()

    def values(self) -> Tensor:
        chosen = self.gradient if self.rows is None else self.gradient[self.rows]
        return chosen.reshape(-1)

    def replace(self, values: Tensor) -> None:
        if self.rows is None:
            self.gradient.copy_(values.view_as(self.gradient))
        else:
            self.gradient[self.rows] = values.view(len(self.rows), *self.gradient.shape[1:])


def _touched(
    world: World, trained: Sequence[Tensor], seldom: Sequence[Tensor]
) -> tuple[list[bool], dict[int, Tensor]]:
    """Which parameters, and which rows of some, have a gradient in any process."""
    exist = torch.tensor([one.grad is not None for one in trained], dtype=torch.uint8)
    masks = [_row_mask(one).to(torch.uint8).cpu() for one in seldom]
    common = torch.cat([exist, *masks])
    world.largest(common)
    sizes = [len(exist), *map(len, masks)]
    exist, *masks = cast("tuple[Tensor, ...]", common.split(sizes))
    rows = {
        id(one): mask.nonzero()[:, 0].to(one.device)
        for one, mask in zip(seldom, masks, strict=True)
        if int(mask.sum()) <= DENSE_SHARE * len(mask)
    }
    return [bool(one) for one in exist], rows


def _row_mask(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return torch.zeros(len(parameter), dtype=torch.bool)
    return parameter.grad.reshape(len(parameter), -1).any(dim=1)


def _buckets(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    bucket: list[_Piece] = []
    held = 0
    for piece in pieces:
        bucket.append(piece)
        held += piece.numbers
        if held >= BUCKET_NUMBERS:
            yield bucket
            bucket, held = [], 0
    if bucket:
        yield bucket


def _sum_bucket(world: World, bucket: Sequence[_Piece]) -> None:
    flat = torch.cat([piece.values() for piece in bucket])
    world.sum(flat)
    sizes = [piece.numbers for piece in bucket]
    for piece, values in zip(bucket, cast("tuple[Tensor, ...]", flat.split(sizes)), strict=True):
        piece.replace(values)

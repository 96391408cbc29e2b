"""Several real processes that have joined, for tests."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import socket
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import TCPStore

from elmo.training.distributed import joined

SECONDS = 300


def in_world(
    size: int, work: Callable[..., Any], *arguments: Any, store: TCPStore | None = None
) -> list[Any]:
    """Call `work(world, *arguments)` in so many processes; what each returned or raised.

    With a `store`, they meet there, as if torchrun had started them; the first one comes last.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["elmo.training.pretrain"])
    answers = context.Queue()
    common = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port() if store is None else store.port),
        "TORCHELASTIC_USE_AGENT_STORE": str(store is not None),
    }
    processes = [
        context.Process(target=_process, args=(rank, common, answers, work, arguments))
        for rank in range(size)
    ]
    for process in reversed(processes):
        process.start()
        if store is not None:
            time.sleep(0.5)
    try:
        found = dict(_answers(processes, answers))
    finally:
        for process in processes:
            process.join(5)
            process.kill()
    return [found.get(rank) for rank in range(size)]


def _answers(processes: list[Any], answers: Any) -> list[tuple[int, Any]]:
    """What the processes have to say, until each has spoken or died."""
    found: list[tuple[int, Any]] = []
    for _ in range(2 * SECONDS):
        try:
            rank, answer = answers.get(timeout=0.5)
            found.append((rank, pickle.loads(answer)))
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                break
        if len(found) == len(processes):
            break
    return found


def _process(
    rank: int, common: dict[str, str], answers: Any, work: Callable[..., Any], arguments: Any
) -> None:
    os.environ |= {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    try:
        with joined() as world:
            answer = work(world, *arguments)
    except Exception as error:
        answer = error
    # As bytes: a tensor put into a queue would be gone with the process that made it.
    answers.put((rank, pickle.dumps(answer)))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

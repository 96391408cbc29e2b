"""The thread that owns torch, and its queue of requests.

Requests that want the same (same model, layer and pooling) are computed together. A vector does not
depend on its batch mates by more than 1e-6, so batching changes speed only. Everything else runs
one call at a time, in the order of arrival; the corpus of the explorer is indexed while nothing
else is waiting.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmo.errors import UserError

log = logging.getLogger(__name__)
Words = list[str]
Batch = Callable[[list[Words]], Sequence[Any]]
"""Computes one result per text."""


class TooBusyError(Exception):
    """The queue is full."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the server is busy; try again in {seconds} s")
        self.seconds = seconds


class Key(NamedTuple):
    """What requests must have in common to be computed together."""

    name: Hashable
    run: Batch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(eq=False)
class Job:
    """A request in the queue."""

    texts: list[Words]
    cost: int
    """Words, what the queue is measured in."""
    deadline: float
    """By time.monotonic; nothing is computed for it after that."""
    future: Future[Any]
    key: Key | None = None
    call: Callable[[], Any] | None = None
    background: bool = False


class Engine:
    """A queue and the thread that processes it.

    Args:
        batch_words: Words computed together.
        batch_wait: Seconds that the oldest request waits for others.
        queue_words: Words that may wait.
        observe: Called with requests, words and seconds of each batch.
    """

    def __init__(
        self,
        *,
        batch_words: int,
        batch_wait: float,
        queue_words: int,
        observe: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.batch_words, self.batch_wait, self.queue_words = batch_words, batch_wait, queue_words
        self.arriving = 0
        """Requests whose body is being read: they are worth waiting for."""
        self.observe = observe
        self._waiting: deque[Job] = deque()
        self._background: deque[Job] = deque()
        self._words = 0
        self._last_batch = 0
        self._speed = 20_000.0  # words per second, measured as the server runs
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="elmo-torch", daemon=True)

    @property
    def waiting_words(self) -> int:
        """Words in the queue."""
        return self._words

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current batch; waiting requests are cancelled."""
        with self._changed:
            self._stopped = True
            jobs = [*self._waiting, *self._background]
            self._waiting.clear()
            self._background.clear()
            self._words = 0
            self._changed.notify_all()
        for job in jobs:
            job.future.cancel()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def submit(
        self,
        work: Key | Callable[[], Any],
        texts: list[Words],
        *,
        seconds: float,
        cost: int | None = None,
        background: bool = False,
    ) -> Future[Any]:
        """Queue texts for a batch, or a call; raise `TooBusyError` if the queue is full."""
        words = sum(map(len, texts)) + len(texts) if cost is None else cost
        job = Job(texts, words, time.monotonic() + seconds, Future(), background=background)
        if isinstance(work, Key):
            job.key = work
        else:
            job.call = work
        with self._changed:
            if self._stopped:
                job.future.cancel()
                return job.future
            if not background and self._words + words > self.queue_words:
                # Cancelled requests do not count against new ones.
                self._waiting = deque(one for one in self._waiting if not one.future.cancelled())
                self._words = sum(one.cost for one in self._waiting)
            if not background and self._words and self._words + words > self.queue_words:
                raise TooBusyError(max(1, math.ceil(self._words / self._speed)))
            (self._background if background else self._waiting).append(job)
            if not background:
                self._words += words
            self._changed.notify_all()
        return job.future

    def call(
        self,
        work: Key | Callable[[], Any],
        texts: list[Words],
        *,
        seconds: float,
        background: bool = True,
    ) -> Any:
        """Submit from another thread, and wait for the result."""
        return self.submit(work, texts, seconds=seconds, background=background).result()

    def _work(self) -> None:
        while True:
            jobs = self._take()
            if jobs is None:
                return
            started = time.monotonic()
            live = self._still_wanted(jobs)
            if not live:
                continue
            self._run(live)
            seconds, words = time.monotonic() - started, sum(job.cost for job in live)
            if words and seconds > 0:
                self._speed += 0.2 * (words / seconds - self._speed)
            if self.observe is not None:
                self.observe(len(live), words, seconds)

    def _take(self) -> list[Job] | None:
        """The next jobs, of one key, after a short wait for more; None when stopped."""
        with self._changed:
            while not self._stopped and not self._waiting and not self._background:
                self._changed.wait()
            if self._stopped:
                return None
            if not self._waiting:
                return [self._background.popleft()]
            first = self._waiting[0]
            give_up = time.monotonic() + self.batch_wait
            while first.key is not None and not self._stopped:
                mates = [job for job in self._waiting if job.key == first.key]
                enough = sum(job.cost for job in mates) >= self.batch_words
                left = give_up - time.monotonic()
                # A lone request waits for nobody; the clients of a larger batch ask again together.
                alone = not self.arriving and self._last_batch <= 1
                if enough or left <= 0 or alone:
                    break
                self._changed.wait(left)
            if self._stopped or not self._waiting:
                return [] if not self._stopped else None
            first = self._waiting[0]
            taken, size = list[Job](), 0
            for job in list(self._waiting):
                same = job is first or (first.key is not None and job.key == first.key)
                if same and (not taken or size + job.cost <= self.batch_words):
                    taken.append(job)
                    size += job.cost
            chosen = {id(job) for job in taken}
            self._waiting = deque(job for job in self._waiting if id(job) not in chosen)
            self._words -= size
            self._last_batch = len(taken)
        return taken

    def _still_wanted(self, jobs: list[Job]) -> list[Job]:
        """Jobs whose deadline has not passed and whose client is still connected."""
        now = time.monotonic()
        for job in jobs:
            if job.deadline < now:
                job.future.cancel()
        return [job for job in jobs if job.future.set_running_or_notify_cancel()]

    def _run(self, live: list[Job]) -> None:
        try:
            first = live[0]
            if first.call is not None:
                first.future.set_result(first.call())
                return
            assert first.key is not None
            texts = [text for job in live for text in job.texts]
            results = first.key.run(texts)
            start = 0
            for job in live:
                job.future.set_result(results[start : start + len(job.texts)])
                start += len(job.texts)
        except BaseException as error:
            if len(live) == 1:
                if not isinstance(error, UserError | CancelledError):
                    log.exception("a request failed")
                live[0].future.set_exception(error)
                return
            # One request must not spoil the others: compute each by itself.
            for job in live:
                self._run_alone(job)

    def _run_alone(self, job: Job) -> None:
        assert job.key is not None
        try:
            job.future.set_result(job.key.run(job.texts))
        except BaseException as error:
            if not isinstance(error, UserError):
                log.exception("a request failed")
            job.future.set_exception(error)

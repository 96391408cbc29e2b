"""The queue: what is computed together, what is dropped, and in which order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from tests.serve.conftest import wait_until

from elmo.errors import UserError
from elmo.serve.engine import Engine, Key, TooBusyError

Words = list[str]


class Recorder:
    """A batch function that remembers its calls and can be held up."""

    def __init__(self) -> None:
        self.calls: list[list[Words]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, texts: list[Words]) -> list[str]:
        self.gate.wait(10)
        self.calls.append(texts)
        if ["poison"] in texts:
            raise UserError("poison")
        return [" ".join(text) for text in texts]


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(batch_words=100, batch_wait=0.002, queue_words=200)
    engine.start()
    yield engine
    engine.stop()


def held(engine: Engine) -> tuple[threading.Event, Future[Any]]:
    """Keep the thread busy until the event is set."""
    started, release = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(10)

    future = engine.submit(work, [], seconds=10, cost=0)
    assert started.wait(10)
    return release, future


def test_requests_of_one_key_are_computed_together(engine: Engine) -> None:
    run, other = Recorder(), Recorder()
    release, _ = held(engine)
    futures = [engine.submit(Key("a", run), [[f"text{n}"]], seconds=10) for n in range(5)]
    apart = engine.submit(Key("b", other), [["x"], ["y"]], seconds=10)
    late = engine.submit(Key("a", run), [["p"], ["q"]], seconds=10)
    release.set()
    assert [future.result(10) for future in futures] == [[f"text{n}"] for n in range(5)]
    assert (late.result(10), apart.result(10)) == (["p", "q"], ["x", "y"])
    assert len(run.calls) == len(other.calls) == 1


def test_batches_are_bounded(engine: Engine) -> None:
    run = Recorder()
    release, _ = held(engine)
    futures = [engine.submit(Key("a", run), [["w"] * 39], seconds=10) for _ in range(5)]
    release.set()
    for future in futures:
        future.result(10)
    assert [len(call) for call in run.calls] == [2, 2, 1]


def test_one_bad_request_does_not_spoil_its_batch(engine: Engine) -> None:
    run = Recorder()
    release, _ = held(engine)
    good = engine.submit(Key("a", run), [["good"]], seconds=10)
    bad = engine.submit(Key("a", run), [["poison"]], seconds=10)
    release.set()
    assert good.result(10) == ["good"]
    with pytest.raises(UserError, match="poison"):
        bad.result(10)


def test_what_is_late_or_given_up_is_not_computed(engine: Engine) -> None:
    run = Recorder()
    release, _ = held(engine)
    late = engine.submit(Key("a", run), [["late"]], seconds=0.01)
    gone = engine.submit(Key("a", run), [["gone"]], seconds=10)
    wanted = engine.submit(Key("a", run), [["wanted"]], seconds=10)
    assert gone.cancel()
    time.sleep(0.03)
    release.set()
    assert wanted.result(10) == ["wanted"]
    assert run.calls == [[["wanted"]]]
    with pytest.raises(CancelledError):
        late.result(10)
    assert engine.waiting_words == 0


def test_a_full_queue_refuses(engine: Engine) -> None:
    run = Recorder()
    release, _ = held(engine)
    futures = [engine.submit(Key("a", run), [["w"] * 99], seconds=10) for _ in range(2)]
    assert engine.waiting_words == 200
    with pytest.raises(TooBusyError) as refused:
        engine.submit(Key("a", run), [["one"]], seconds=10)
    assert refused.value.seconds >= 1
    release.set()
    for future in futures:
        future.result(10)
    # A request larger than the queue is taken when nothing else waits.
    assert engine.submit(Key("a", run), [["w"] * 500], seconds=10).result(10)


def test_background_work_comes_last(engine: Engine) -> None:
    order: list[str] = []
    release, _ = held(engine)
    slow = engine.submit(lambda: order.append("slow"), [], seconds=10, cost=1, background=True)
    quick = engine.submit(lambda: order.append("quick"), [], seconds=10, cost=1)
    release.set()
    slow.result(10)
    quick.result(10)
    assert order == ["quick", "slow"]


def test_waits_for_those_that_are_arriving() -> None:
    engine = Engine(batch_words=100, batch_wait=5, queue_words=200)
    engine.start()
    run = Recorder()
    try:
        start = time.monotonic()
        engine.submit(Key("a", run), [["alone"]], seconds=10).result(10)
        assert time.monotonic() - start < 2  # nobody else is arriving
        engine.arriving = 1
        first = engine.submit(Key("a", run), [["first"]], seconds=10)
        time.sleep(0.05)
        assert not first.done()
        engine.arriving = 0
        second = engine.submit(Key("a", run), [["second"]], seconds=10)
        assert (first.result(10), second.result(10)) == (["first"], ["second"])
        assert run.calls[1:] == [[["first"], ["second"]]]
    finally:
        engine.stop()


def test_stop_cancels_what_waits() -> None:
    engine = Engine(batch_words=100, batch_wait=0, queue_words=200)
    engine.start()
    release, _ = held(engine)
    waiting = engine.submit(Key("a", Recorder()), [["x"]], seconds=10)
    stopping = threading.Thread(target=engine.stop)
    stopping.start()
    wait_until(waiting.cancelled)
    release.set()
    stopping.join(10)
    assert engine.submit(Key("a", Recorder()), [["x"]], seconds=10).cancelled()

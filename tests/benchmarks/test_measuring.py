"""Cases are measured in turn, alone, and not on a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import measuring
from bench_files import Figure, read_bench
from machine_load import ALLOWED, Usage
from measuring import (
    Case,
    Outcome,
    calmly,
    in_own_process,
    in_turn,
    one_core_taken,
    refuse_busy,
    write_found,
)

BUSY = ALLOWED + 1


@pytest.mark.usefixtures("at_once")
def test_cases_are_measured_in_turn():
    calls: list[str] = []

    def work(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    cases = [Case(name=name, unit="s", work=work, arguments=(name,), at=7) for name in "AB"]
    first, second = in_turn(cases, 3, anyway=True)
    assert "".join(calls) == "ABABAB"
    assert (first.values, second.values) == ((1, 3, 5), (2, 4, 6))
    assert (first.median, first.lowest, first.highest, first.at) == (3, 1, 5, 7)


def test_a_process_of_its_own_tells_its_own_memory():
    large = in_own_process(eval, "len(b'x' * 300_000_000)")
    small = in_own_process(eval, "1 + 1")
    assert (large.value, small.value) == (300_000_000, 2)
    assert small.peak_megabytes < 300 < large.peak_megabytes


def test_a_killed_benchmark_leaves_nobody_behind(tmp_path: Path):
    told = tmp_path / "number"
    measured = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(99)"
    program = tmp_path / "benchmark.py"
    program.write_text(
        "from measuring import in_own_process\n"
        f"if __name__ == '__main__': in_own_process(exec, {measured!r})\n"
    )
    paths = {**os.environ, "PYTHONPATH": str(Path(measuring.__file__).parent)}
    with subprocess.Popen([sys.executable, str(program)], env=paths) as benchmark:
        until(lambda: told.exists() and told.read_text() != "")
        benchmark.kill()
    until(lambda: not Path("/proc", told.read_text()).exists())


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measuring, "cores_busy", lambda: BUSY)
    with pytest.raises(SystemExit, match=r"others keep 1\.15 cores busy .* --anyway"):
        refuse_busy(anyway=False)
    assert refuse_busy(anyway=True) == BUSY


@pytest.mark.parametrize(
    ("loads", "anyway", "kept"), [([BUSY, 0.0], False, 1), ([BUSY, 0.0], True, 0)]
)
def test_what_was_disturbed_is_measured_again(monkeypatch, loads, anyway, kept):
    outcomes = iter(Outcome(number, 0.0, load) for number, load in enumerate(loads))
    monkeypatch.setattr(measuring, "_measured", lambda case: next(outcomes))
    looks = iter([BUSY, BUSY, 0.0])
    monkeypatch.setattr(measuring, "cores_busy", lambda: next(looks))
    assert calmly(Case(name="A", unit="s", work=float), anyway=anyway).value == kept
    # Before the second try it was waited until nobody was busy.
    assert len(list(looks)) == (3 if anyway else 0)


def test_in_the_end_it_gives_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measuring, "_measured", lambda case: Outcome(0.0, 0.0, BUSY))
    monkeypatch.setattr(measuring, "cores_busy", lambda: BUSY)
    with pytest.raises(SystemExit, match="A: others were busy 5 times in a row"):
        calmly(Case(name="A", unit="s", work=float), anyway=False)


def test_the_process_that_takes_a_core_works_until_it_ends():
    start, deadline = Usage.now(), time.monotonic() + 60
    with one_core_taken() as other:
        while Usage.now([other.pid]).ours - start.ours < 0.2 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert other.returncode == -signal.SIGKILL
    assert Usage.now().ours - start.ours > 0.15


@pytest.mark.usefixtures("at_once")
def test_a_case_is_measured_beside_it(monkeypatch: pytest.MonkeyPatch):
    beside: list[str] = []

    @contextmanager
    def taken() -> Iterator[None]:
        beside.append("begin")
        yield
        beside.append("end")

    monkeypatch.setattr(measuring, "one_core_taken", taken)
    for one in (True, False):
        case = Case(name="A", unit="s", work=beside.append, arguments=("work",), one_core_taken=one)
        calmly(case, anyway=True)
    assert beside == ["begin", "work", "end", "work"]


@pytest.mark.parametrize(
    ("before", "during", "busy"), [(0, 0, False), (BUSY, 0, True), (0, 1, True)]
)
def test_results_of_a_busy_machine_are_marked(tmp_path: Path, before, during, busy):
    figure = Figure.of("A", "s", [1.0], cores_of_others=float(during))
    write_found("name", tmp_path, float(before), [figure])
    found = read_bench(tmp_path / "name.json")
    assert (found.busy, found.figures) == (busy, (figure,))

"""Cases are measured in turn, alone, and not on a busy machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import harness
from elmo.errors import UserError
from elmo.text.corpus import load_corpus
from harness import (
    ALLOWED,
    BenchFile,
    Case,
    Curve,
    Figure,
    Machine,
    Outcome,
    Usage,
    calmly,
    command_line,
    commit,
    cores_busy,
    in_own_process,
    in_turn,
    now,
    one_core_taken,
    read_bench,
    refuse_busy,
    shown,
    write_bench,
    write_found,
    write_zipf_corpus,
    zipf,
)

# Other work on the machine is seen, our own is not taken for it.


LOOP = "while True: pass"


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_what_others_do_is_the_rest() -> None:
    before, later = Usage(10.0, 100.0, 50.0), Usage(14.0, 107.0, 53.0)
    assert before.cores_of_others(later) == 1.0
    assert before.cores_of_others(Usage(14.0, 102.0, 53.0)) == 0.0


def test_our_own_work_is_counted_as_ours() -> None:
    before = Usage.now()
    work(0.3)
    assert Usage.now().ours > before.ours


def test_a_process_that_works_for_us_is_ours_and_any_other_is_not() -> None:
    other = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        before = Usage.now([other.pid])
        time.sleep(0.5)
        assert Usage.now([other.pid]).ours > before.ours
        assert cores_busy(0.5) > 0
    finally:
        other.kill()
        other.wait()


def test_a_process_that_has_ended_was_ours() -> None:
    before = Usage.now()
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert Usage.now().ours - before.ours > 0.25


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
        "from harness import in_own_process\n"
        f"if __name__ == '__main__': in_own_process(exec, {measured!r})\n"
    )
    paths = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(harness.__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
    }
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
    monkeypatch.setattr(harness, "cores_busy", lambda: BUSY)
    with pytest.raises(SystemExit, match=r"others keep 1\.15 cores busy .* --anyway"):
        refuse_busy(anyway=False)
    assert refuse_busy(anyway=True) == BUSY


@pytest.mark.parametrize(
    ("loads", "anyway", "kept"), [([BUSY, 0.0], False, 1), ([BUSY, 0.0], True, 0)]
)
def test_what_was_disturbed_is_measured_again(monkeypatch, loads, anyway, kept):
    outcomes = iter(Outcome(number, 0.0, load) for number, load in enumerate(loads))
    monkeypatch.setattr(harness, "_measured", lambda case: next(outcomes))
    looks = iter([BUSY, BUSY, 0.0])
    monkeypatch.setattr(harness, "cores_busy", lambda: next(looks))
    assert calmly(Case(name="A", unit="s", work=float), anyway=anyway).value == kept
    # Before the second try it was waited until nobody was busy.
    assert len(list(looks)) == (3 if anyway else 0)


def test_in_the_end_it_gives_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness, "_measured", lambda case: Outcome(0.0, 0.0, BUSY))
    monkeypatch.setattr(harness, "cores_busy", lambda: BUSY)
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

    monkeypatch.setattr(harness, "one_core_taken", taken)
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


# Results come back as they were written, and say where they are from.


def bench(**changes: object) -> BenchFile:
    curve = Curve(name="plain", seconds=(1.0,), tokens=(2,), perplexity=(3.0,), predicted=4)
    figures = [Figure.of("size", "s", [4.0, 1.0, 2.0], at=at) for at in (20.0, 10.0)]
    found = {
        "name": "some",
        "command": "python benchmarks/some.py",
        "commit": commit(),
        "finished": now(),
        "machine": Machine.this(),
        "cores_of_others_before": 0.0,
        "busy": False,
        "figures": (Figure.of("alone", "s", [1.0]), *figures),
        "curves": (curve,),
    }
    return BenchFile(**(found | changes))  # type: ignore[arg-type]


def test_what_is_written_is_read(tmp_path: Path):
    found = bench()
    path = write_bench(tmp_path, found)
    assert path.name == "some.json"
    assert read_bench(path) == found


def test_a_file_of_something_else_is_refused(tmp_path: Path):
    path = write_bench(tmp_path, bench())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"speed": 1}))
    with pytest.raises(UserError, match="unknown key 'speed'"):
        read_bench(path)


def test_a_figure_sums_up_its_repeats():
    found = Figure.of("A", "s", [5.0, 1.0, 2.0])
    assert (found.median, found.lowest, found.highest) == (2, 1, 5)


def test_figures_are_found_by_name_and_place():
    found = bench()
    assert found.figure("alone") is found.figures[0]
    assert found.figure("size") is None
    assert [one.at for one in found.scale("size")] == [10, 20]


def test_the_command_does_not_tell_where_we_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["/home/me/benchmarks/some.py", "--source", "my text"])
    assert command_line() == "python benchmarks/some.py --source 'my text'"


def test_the_commit_is_named():
    assert re.fullmatch(r"unknown|[0-9a-f]{7,40}(-dirty)?", commit())


@pytest.mark.parametrize(
    ("value", "wanted"), [(12345.6, "12,346"), (99.94, "99.9"), (0.12345, "0.123"), (41.0, "41")]
)
def test_numbers_are_short(value: float, wanted: str):
    assert shown(value) == wanted


# Random text has the words, lengths and frequencies asked for.


def test_it_is_a_corpus(tmp_path: Path):
    corpus = load_corpus(write_zipf_corpus(tmp_path / "a", words=50, length=7, tokens=7000))
    (shard,) = corpus.train
    assert (len(corpus.words), corpus.tokens, corpus.held_out.documents) == (50, 7000, 0)
    assert set(np.diff(shard.ends, prepend=0).tolist()) == {9}
    assert list(corpus.counts[3:]) == sorted(corpus.counts[3:], reverse=True)


def test_the_second_word_is_half_as_frequent(tmp_path: Path):
    corpus = load_corpus(write_zipf_corpus(tmp_path, words=50, length=10, tokens=50_000))
    (shard,) = corpus.train
    counts = np.bincount(shard.ids, minlength=50)
    np.testing.assert_allclose(counts[3:] / 50_000, zipf(50)[:47], atol=0.01)
    assert 1.8 < counts[3] / counts[4] < 2.2

"""Results come back as they were written, and say where they are from."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from bench_files import (
    BenchFile,
    Curve,
    Figure,
    Machine,
    command_line,
    commit,
    now,
    read_bench,
    shown,
    write_bench,
)
from elmo.errors import UserError


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

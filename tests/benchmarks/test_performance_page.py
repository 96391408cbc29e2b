"""The page shows what was measured, says what was not, and warns of what is worth little."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.benchmarks.test_bench_files import bench

import performance_page
from bench_files import Figure, read_bench, shown, write_bench
from performance_targets import TARGETS


def written(folder: Path, out: Path) -> str:
    performance_page.main(["--folder", str(folder), "--out", str(out)])
    return out.read_text(encoding="utf-8")


def test_every_target_and_every_figure_is_there(results: Path, tmp_path: Path):
    page = written(results, tmp_path / "performance.md")
    assert all(f"| {one.what} | {one.bound} |" in page for one in TARGETS)
    for name in ("training", "time_to_quality", "growth", "using"):
        assert read_bench(results / f"{name}.json").command in page
    median = read_bench(results / "training.json").figure("plain").median
    assert f"| plain | {shown(median)} (" in page
    for picture in re.findall(r"\]\((.+?)\)", page):
        assert (tmp_path / picture).exists()


def test_what_is_missing_is_not_measured(results: Path, tmp_path: Path):
    (tmp_path / "bench").mkdir()
    shutil.copy(results / "growth.json", tmp_path / "bench")
    page = written(tmp_path / "bench", tmp_path / "performance.md")
    for one in TARGETS:
        assert f"| {one.what} | {one.bound} | not measured | |" in page
    for name in ("training", "time_to_quality", "using"):
        assert f"- {name}: not measured" in page
    assert [path.name for path in (tmp_path / "performance").iterdir()] == ["growth.svg"]


def test_targets_are_judged_by_the_median(tmp_path: Path):
    figures = (
        Figure.of("import elmo", "s", [0.1, 0.2, 0.9]),
        Figure.of("prediction of a sentence", "ms", [15.0, 16.0, 14.0]),
    )
    write_bench(tmp_path, bench(name="using", figures=figures))
    page = written(tmp_path, tmp_path / "performance.md")
    assert "| `import elmo` | < 0.3 s | 0.2 s (0.1 to 0.9) | reached |" in page
    assert "| prediction of a sentence | < 15 ms | 15 ms (14 to 16) | **not reached** |" in page


@pytest.mark.parametrize("busy", [True, False])
def test_a_busy_machine_is_told_and_reaches_nothing(tmp_path: Path, busy: bool):
    figures = (Figure.of("import elmo", "s", [0.2]),)
    write_bench(tmp_path, bench(name="using", busy=busy, figures=figures))
    page = written(tmp_path, tmp_path / "performance.md")
    assert ("`using` was measured while others were busy" in page) == busy
    assert ("| 0.2 s | others were busy: does not count |" in page) == busy
    assert ("| 0.2 s | reached |" in page) != busy


def test_make_bench_runs_what_the_page_shows():
    makefile = Path(__file__).parents[2] / "Makefile"
    (names,) = re.findall(r"^BENCHMARKS := (.+)$", makefile.read_text(), re.MULTILINE)
    assert tuple(names.split()) == performance_page.NAMES


def test_without_results_there_is_no_page(tmp_path: Path):
    with pytest.raises(SystemExit) as ended:
        written(tmp_path, tmp_path / "performance.md")
    assert ended.value.code == 2
    assert not (tmp_path / "performance.md").exists()

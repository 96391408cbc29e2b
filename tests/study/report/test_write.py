"""All files are written; the page opens in a browser, in any light and on any width."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.study.report.builder import without_analyses

from elmo.errors import UserError
from elmo.study.report.palette import INK, PAPER
from elmo.study.report.results_file import read_results
from elmo.study.report.write import write_report
from elmo.study.results import StudyResults

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # No sandbox: it does not work for root, and the page is our own.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Any, written: Path, width: int = 1200, **options: Any) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    page.problems = []
    page.requests = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto((written / "report.html").as_uri())
    return page


def test_all_files_are_there(written: Path, results: StudyResults) -> None:
    names = sorted(path.name for path in written.iterdir())
    assert names == ["report.html", "report.pdf", "results.json"]
    assert read_results(written) == results


def test_a_report_can_be_drawn_again_and_is_the_same(results: StudyResults, tmp_path: Path) -> None:
    few = without_analyses(results)
    few = replace(few, rows=few.rows[:2])
    write_report(few, tmp_path / "first")
    write_report(read_results(tmp_path / "first"), tmp_path / "second")
    for name in ("results.json", "report.html", "report.pdf"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_figures_are_not_lost_where_an_extra_is_missing(
    results: StudyResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str, extra: str) -> None:
        raise UserError(f"{module} is missing: pip install 'elmo[{extra}]'")

    monkeypatch.setattr("elmo.study.report.drawing.require_extra", missing)
    with pytest.raises(UserError, match=r"elmo\[study\]"):
        write_report(results, tmp_path)
    assert read_results(tmp_path) == results


def test_a_browser_opens_it_without_complaint(browser: Any, written: Path) -> None:
    page = opened(browser, written)
    assert page.problems == []
    assert page.requests == [(written / "report.html").as_uri()]
    assert page.locator("main > section").count() == 13
    page.close()


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_width_makes_the_page_scroll_sideways(browser: Any, written: Path, width: int) -> None:
    page = opened(browser, written, width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_follow_light_and_dark(browser: Any, written: Path, scheme: str) -> None:
    page = opened(browser, written, color_scheme=scheme)
    ground = page.locator("body").evaluate("(one) => getComputedStyle(one).backgroundColor")
    label = page.locator("#figure-accuracy svg text", has_text="SVD, window 2")
    letters = label.evaluate("(one) => getComputedStyle(one).fill")
    assert (ground, letters) == tuple(rgb(getattr(one, scheme)) for one in (PAPER, INK))
    page.close()


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not on this machine")
def test_what_is_closed_on_the_screen_is_printed(
    browser: Any, written: Path, tmp_path: Path
) -> None:
    page = opened(browser, written)
    page.pdf(path=tmp_path / "print.pdf", prefer_css_page_size=True)
    page.close()
    command = ["pdftotext", str(tmp_path / "print.pdf"), "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "learning_rate 0.003, dropout 0.3" in text  # of the candidates, in a closed part


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"

"""The PDF holds the main table, has numbered pages, and takes no text for markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.report.test_html import a_report

from elmo.study.report.pdf import render_pdf
from elmo.study.report.printable import printable_text
from elmo.study.results import StudyResults

needs_pdftotext = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext (poppler) is not on this machine"
)


def read(file: Path) -> str:
    command = ["pdftotext", "-layout", str(file), "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@needs_pdftotext
def test_the_main_table_is_that_of_the_results(written: Path, results: StudyResults) -> None:
    lines = [" ".join(line.split()) for line in read(written / "report.pdf").splitlines()]
    for row in results.rows:
        found = [line for line in lines if line.startswith(f"{row.title} ")]
        test = row.test_accuracy
        share = f"{test.mean:.4f}"
        share += f" ± {test.deviation:.4f}" if len(row.seeds) > 1 else ""
        first = f"{row.title} {share} {test.low:.4f}–{test.high:.4f} {row.test_macro_f1.mean:.4f}"
        assert [line for line in found if line.startswith(first)], first


@needs_pdftotext
def test_every_page_is_numbered(written: Path) -> None:
    pages = read(written / "report.pdf").split("\f")[:-1]
    numbers = [re.search(r"(\d+) / (\d+)\s*$", page) for page in pages]
    assert [number and number.groups() for number in numbers] == [
        (str(place), str(len(pages))) for place in range(1, len(pages) + 1)
    ]


def test_it_is_a_pdf_on_a4(written: Path) -> None:
    content = (written / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    if shutil.which("pdfinfo"):
        command = ["pdfinfo", str(written / "report.pdf")]
        facts = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "(A4)" in facts
        assert "ELMo and static embeddings, compared on AG News" in facts


MARKUP = st.sampled_from(
    ["#", "$", "*", "_", "`", "@x", "<x>", "[", "]", "\\", "//", "/*", '"', "#panic(1)", "= "]
)


@settings(max_examples=8)
@given(st.lists(MARKUP | st.text(max_size=5), min_size=1).map("".join))
def test_any_text_can_be_set(words: str) -> None:
    assert render_pdf(a_report(printable_text(words))).startswith(b"%PDF-")


@needs_pdftotext
def test_no_text_is_taken_for_markup(tmp_path: Path) -> None:
    words = '#panic("x") *b* _i_ $x$ @ref <label> [c] \\ // `raw` = h'
    file = tmp_path / "it.pdf"
    file.write_bytes(render_pdf(a_report(words)))
    assert read(file).count(words) >= 5

"""The files of a report: all figures as JSON, a page to read, a PDF to print."""

from __future__ import annotations

from pathlib import Path

from elmo.files import write_text, written_whole
from elmo.study.report.html import render_html
from elmo.study.report.pdf import render_pdf
from elmo.study.report.results_file import write_results
from elmo.study.report.sections import make_report
from elmo.study.results import StudyResults

PAGE = "report.html"
PAPER = "report.pdf"


def write_report(results: StudyResults, folder: Path) -> None:
    """Write results.json, report.html and report.pdf."""
    # The figures first: whatever happens to the drawings, these are not lost.
    write_results(results, folder)
    report = make_report(results)
    write_text(folder / PAGE, render_html(report))
    with written_whole(folder / PAPER) as beside:
        beside.write_bytes(render_pdf(report))

"""The report as a PDF on A4, which typst sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elmo.config import to_json
from elmo.errors import require_extra
from elmo.study.report.blocks import Report
from elmo.study.report.palette import COLOURS

TEMPLATE = Path(__file__).parent / "templates" / "report.typ"


def render_pdf(report: Report) -> bytes:
    """Set the report; it is handed over as data, so nothing in it can be taken for markup."""
    typst: Any = require_extra("typst", "study")
    matplotlib: Any = require_extra("matplotlib", "study")
    colours = {colour.name: colour.light for colour in COLOURS}
    inputs = {"report": json.dumps(to_json(report)), "colours": json.dumps(colours)}
    # The letters of the figures, wherever this runs.
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return typst.compile(TEMPLATE, sys_inputs=inputs, font_paths=[fonts])

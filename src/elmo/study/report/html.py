"""The report as one page of HTML that needs nothing but itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from elmo.errors import require_extra
from elmo.study.report.blocks import Figure, Report
from elmo.study.report.drawing import in_tags
from elmo.study.report.palette import css_variables, with_variables

TEMPLATES = Path(__file__).parent / "templates"
_NAMESPACES = re.compile(r' (?:xmlns(?::xlink)?|version|width|height)="[^"]*"')


def render_html(report: Report) -> str:
    """Fill the template; whatever texts hold stays text."""
    jinja: Any = require_extra("jinja2", "study")
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja").render(
        report=report,
        light=css_variables(dark=False),
        dark=css_variables(dark=True),
        inline=inline,
    )


def inline(figure: Figure) -> Any:
    """The drawing as part of a page: as wide as its place, in the colours of its surroundings."""
    markup: Any = require_extra("markupsafe", "study")
    tag, rest = figure.svg.split(">", 1)
    # An <svg> in a page needs no addresses of namespaces.
    tag = _NAMESPACES.sub("", tag)
    return markup.Markup(f'{tag} aria-hidden="true">{in_tags(rest, with_variables)}')

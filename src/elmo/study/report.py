"""The report of a study: results.json as one page of HTML and as a PDF.

templates/report.jinja says what the report says. `make_report` runs it over results.json and
records plain blocks (texts, tables, figures), which report.html.jinja and report.typ lay out.
Nothing in a block is markup: jinja escapes it, typst receives it as data.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from elmo.config import Json
from elmo.errors import require_extra
from elmo.files import atomic_write, write_text
from elmo.study import plots, tables

TEMPLATES = Path(__file__).parent / "templates"
METHODS = {
    "svd": ("SVD", "static"),
    "skipgram": ("Skip-gram", "static"),
    "trainable": ("ELMo, trainable λs", "elmo"),
    "function": ("ELMo, learned function", "elmo"),
}
"""Title and group of what a sweep varies."""
Caller = Callable[[], str]


def write_report(results: Json, folder: Path) -> None:
    """Write report.html and report.pdf into a folder."""
    report = make_report(results)
    write_text(folder / "report.html", render_html(report))
    with atomic_write(folder / "report.pdf") as temporary:
        temporary.write_bytes(render_pdf(report))


def render_html(report: Json) -> str:
    """Lay the report out as a page that needs no other file."""
    markup: Any = require_extra("markupsafe", "study")

    def inline(svg: str) -> Any:
        return markup.Markup(plots.inline(svg))

    return _template("report.html.jinja", autoescape=True).render(
        report=report,
        light=plots.css_variables(dark=False),
        dark=plots.css_variables(dark=True),
        inline=inline,
    )


def render_pdf(report: Json) -> bytes:
    """Set the report on A4."""
    typst: Any = require_extra("typst", "study")
    matplotlib: Any = require_extra("matplotlib", "study")
    inputs = {"report": json.dumps(report), "colours": json.dumps(plots.LIGHT)}
    # The font of the figures, wherever this runs.
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return typst.compile(TEMPLATES / "report.typ", sys_inputs=inputs, font_paths=[fonts])


def _template(name: str, *, autoescape: bool) -> Any:
    jinja: Any = require_extra("jinja2", "study")
    return jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


def make_report(results: Json) -> Json:
    """What the page and the PDF show: title, question, answer, notes, sections of blocks."""
    results = printable(results)
    every: list[Json] = results["rows"]
    rows, beside = tables.column(every, "alone"), tables.column(every, "beside")
    rows = rows or beside
    report: Json = {"answer": [], "notes": results["about"]["notes"], "sections": [], "first": []}
    blocks: list[list[Json]] = []  # of the section and the details that are open

    # The template calls these. A block's text is what stands between {% call %} and {% endcall %}.

    def part(name: str, caller: Caller) -> str:
        report[name] = _on_one_line(caller())
        return ""

    def answer(caller: Caller) -> str:
        report["answer"].append(_on_one_line(caller()))
        return ""

    def first(caller: Caller) -> str:
        """Blocks of the first page."""
        report["first"] = _inside(caller)
        return ""

    def section(name: str, title: str, content: object = True, *, caller: Caller) -> str:
        if content:
            report["sections"].append({"name": name, "title": title, "blocks": _inside(caller)})
        return ""

    def details(title: str, *, open: bool = False, caller: Caller) -> str:
        """Closed on a page, open on paper."""
        return add({"kind": "details", "title": title, "blocks": _inside(caller), "open": open})

    def _inside(caller: Caller) -> list[Json]:
        blocks.append([])
        caller()
        return blocks.pop()

    def add(block: Json) -> str:
        blocks[-1].append(block)
        return ""

    def text(caller: Caller) -> str:
        return add({"kind": "text", "text": _on_one_line(caller())})

    def code(caller: Caller) -> str:
        return add({"kind": "code", "text": caller()})

    def table(name: str, content: Json, caller: Caller) -> str:
        caption = _on_one_line(caller())
        return add({"kind": "table", "name": name, "caption": caption, **content})

    def figure(
        name: str,
        svg: str,
        alt: str = "The table below has the numbers.",
        *,
        floats: bool = False,
        caller: Caller,
    ) -> str:
        caption = _on_one_line(caller())
        block = {"kind": "figure", "name": name, "caption": caption, "alt": f"{caption} {alt}"}
        return add(block | {"svg": svg, "floats": floats})

    def best(group: str | None = None, some: list[Json] = rows) -> Json | None:
        """The best on development rows: test rows must not choose."""
        frozen = [row for row in some if row["name"] != "fine-tuned"]  # embeddings are not tuned
        members = [row for row in frozen if group in (None, row["group"])]
        return max(members, key=lambda row: row["development_accuracy"]["mean"], default=None)

    def p(value: float) -> str:
        written = tables.p_value(value)
        return f"p {written}" if written.startswith("<") else f"p = {written}"

    def right(row: Json, split: str) -> str:
        matrix: list[list[int]] = row["seeds"][0][split]["confusion"]
        trace = sum(line[idx] for idx, line in enumerate(matrix))
        return f"{row['title']} {trace:,} of {sum(map(sum, matrix)):,} right"

    bilm = results["language_model"]
    failed = {row["name"]: (row["title"], "control") for row in results["failed"]}
    sweeps: dict[str, list[Json]] = {}
    for curve in results["sweeps"]:
        sweeps.setdefault(curve["setting"], []).append(curve)
    _template("report.jinja", autoescape=False).render(
        results=results,
        about=results["about"],
        every=every,
        rows=rows,
        beside=beside,
        failed=results["failed"],
        reference=tables.reference(rows),
        sweeps=sweeps,
        # Rows that sum layers with weights that were learned or drawn; a static row is one layer.
        mixed=[
            row
            for row in rows
            if len(row["seeds"][0]["layer_weights"] or ()) > 1
            and row["name"].split("-")[0] not in ("average", "layer")
        ],
        names=METHODS | failed | {row["name"]: (row["title"], row["group"]) for row in every},
        settings={setting["name"]: setting["value"] for setting in results["about"]["settings"]},
        alt={
            "accuracy": "; ".join(
                f"{row['title']} {tables.score(row['test_accuracy']['mean'])}" for row in rows
            ),
            "confusion": {
                split: "; ".join(right(row, split) for row in rows) for split in ("train", "test")
            },
            "perplexity": bilm
            and "; ".join(
                f"epoch {point['epoch']:g} {point['perplexity']:,.2f}" for point in bilm["history"]
            ),
        },
        verdicts=[
            tables.verdict(row["compared"])
            for row in rows
            if row["group"] == "elmo" and row["compared"] and row["name"] != "fine-tuned"
        ],
        significant=tables.SIGNIFICANT,
        **{function.__name__: function for function in (
            part, answer, first, section, details, text, code, table, figure, best, p,
            tables.score, tables.number, tables.mean, tables.duration, tables.verdict,
            tables.difference,
        )},
        plots=plots,
        tables=tables,
    )  # fmt: skip
    return report


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def printable(value: Any) -> Any:
    """The same values, with each character that XML or UTF-8 cannot hold replaced."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_printable, value))
    if isinstance(value, dict):
        return {key: printable(item) for key, item in cast("Json", value).items()}
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in cast("list[Any]", value)]
    return value


def _printable(character: str) -> str:
    if character in "\t\n\r":
        return " "
    lost = unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return "\N{REPLACEMENT CHARACTER}" if lost else character

"""The report of a study: results.json as one page of HTML and as a PDF.

templates/report.jinja says what the report says. `make_report` runs it over results.json and
records plain blocks (texts, tables, figures), which report.html.jinja and report.typ lay out.
Nothing in a block is markup: jinja escapes it, typst receives it as data.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, cast

from elmo.classify.metrics import wilson
from elmo.config import Json
from elmo.files import atomic_write, write_text
from elmo.runtime import require_extra
from elmo.study import plots

TEMPLATES = Path(__file__).parent / "templates"
SIGNIFICANT = 0.05
MOST_PAIRS, LONGEST_TEXT = 6, 125
METHODS = {
    "svd": ("SVD", "static"),
    "skipgram": ("Skip-gram", "static"),
    "trainable": ("ELMo, trainable λs", "elmo"),
    "function": ("ELMo, learned function", "elmo"),
}
"""Title and group of what a sweep varies."""
COLUMNS = ("alone", "beside")
Caller = Callable[[], str]
Names = Mapping[str, tuple[str, str]]
"""Title and group by the name of a row."""


def write_report(results: Json, folder: Path) -> None:
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
    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"score": score, "verdict": verdict}
    return environment.get_template(name)


def make_report(results: Json) -> Json:
    """What the page and the PDF show: title, question, answer, notes, sections of blocks."""
    results = printable(results)
    every: list[Json] = results["rows"]
    # The rows that have a column, its values beside those of the row.
    alone, beside = ([row | row[name] for row in every if row[name]] for name in COLUMNS)
    rows = alone or beside
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

    def table(
        name: str,
        columns: Sequence[str],
        left: Sequence[int] = (0,),
        *,
        dense: bool = False,
        caller: Caller,
    ) -> str:
        """The caller records its lines. `left`: columns of text; the others hold numbers."""
        heads = [
            {"title": title, "align": "left" if idx in left else "right"}
            for idx, title in enumerate(columns)
        ]
        block: Json = {"kind": "table", "name": name, "columns": heads, "parts": [], "over": []}
        add(block | {"dense": dense})
        block = blocks[-1][-1]
        block["caption"] = _on_one_line(caller())
        return "" if block["parts"] else heading("")

    def head(title: str) -> str:
        """One more column of text."""
        blocks[-1][-1]["columns"].append({"title": title, "align": "left"})
        return ""

    def over(title: str, width: int) -> str:
        """A title above several columns."""
        blocks[-1][-1]["over"].append({"title": title, "width": width})
        return ""

    def heading(title: str, group: str | None = None) -> str:
        """Above the lines that follow."""
        blocks[-1][-1]["parts"].append({"title": title, "group": group, "lines": []})
        return ""

    def line(*cells: object) -> str:
        parts = blocks[-1][-1]["parts"]
        if not parts:
            heading("")
        parts[-1]["lines"].append([str(cell) for cell in cells])
        return ""

    def cell(*cells: object) -> str:
        """More cells of the last line."""
        blocks[-1][-1]["parts"][-1]["lines"][-1].extend(map(str, cells))
        return ""

    def by_group(some: Sequence[Json]) -> Iterator[Json]:
        """The rows, with a heading for each group."""
        for group, title in plots.GROUPS.items():
            members = [row for row in some if row["group"] == group]
            if members:
                heading(title, group)
            yield from members

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

    def best(group: str = "", some: list[Json] = rows, start: str = "") -> Json | None:
        """The best on development rows: test rows must not choose."""
        frozen = [row for row in some if row["name"] != "fine-tuned"]  # embeddings are not tuned
        members = [r for r in frozen if group in ("", r["group"]) and r["name"].startswith(start)]
        return max(members, key=lambda row: row["development_accuracy"]["mean"], default=None)

    def numbered(what: str, count: int) -> list[str]:
        return [f"{what} {idx}" for idx in range(count)]

    def p(chance: float) -> str:
        written = p_value(chance)
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
    counts = {(point["train_rows"], point["per_class"] or 0) for point in results["samples"]}
    sizes = {f"{few:,} per class" if few else "all": rows for rows, few in sorted(counts)}
    _template("report.jinja", autoescape=False).render(
        results=results,
        about=results["about"],
        every=every,
        rows=rows,
        beside=beside,
        failed=results["failed"],
        reference=reference(rows),
        references={"alone": reference(alone), "beside": reference(beside)},
        sizes=sizes,
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
                f"{row['title']} {score(row['test_accuracy']['mean'])}" for row in rows
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
            verdict(row["compared"])
            for row in rows
            if row["group"] == "elmo" and row["compared"] and row["name"] != "fine-tuned"
        ],
        significant=SIGNIFICANT,
        **{function.__name__: function for function in (
            part, answer, first, section, details, text, code, table, head, over, heading, line,
            cell, by_group, figure, best, p, around, difference, duration, fmean,
            frequent_mistakes, mean, number, numbered, over_seeds, p_value, percent, points, score,
            set_to, shortened, sweep_sentence, value, verdict, wilson, zip_longest,
        )},
        plots=plots,
    )  # fmt: skip
    return report


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def reference(rows: Sequence[Json]) -> Json | None:
    """The row that the others of a column are compared with."""
    names = {row["compared"]["against"] for row in rows if row["compared"]}
    return next((row for row in rows if row["name"] in names), None)


def verdict(compared: Json | None) -> Literal["above", "below", "unclear"]:
    """Whether a difference is more than chance: after correction, and over rows and seeds."""
    if compared is None or compared["holm"] >= SIGNIFICANT:
        return "unclear"
    return "above" if compared["low"] > 0 else "below" if compared["high"] < 0 else "unclear"


def frequent_mistakes(rows: Sequence[Json], labels: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The mistakes that are most frequent over all embeddings: label and prediction by heading."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in [row for row in rows if row["group"] != "control"] or rows:
        for label, line in enumerate(row["seeds"][0]["test"]["confusion"]):
            counts.update({(label, other): n for other, n in enumerate(line) if other != label})
    most = [pair for pair, count in counts.most_common(MOST_PAIRS) if count]
    return {f"{labels[label]} → {labels[other]}": (label, other) for label, other in most}


def sweep_sentence(curves: Sequence[Json], names: Names, test_rows: int) -> str:
    """What the numbers of one setting carry: the best value, and whether the range is noise."""
    sentences: list[str] = []
    for curve in curves:
        points, (title, _) = curve["points"], names[curve["row"]]
        if len(points) < 2:
            continue
        best = max(points, key=lambda point: point["development_accuracy"])
        tests = [point["test_accuracy"] for point in points]
        low, high = min(tests), max(tests)
        # Two accuracies on the same rows, as if they were independent: a cautious bound.
        noise = 1.96 * (2 * high * (1 - high) / test_rows) ** 0.5
        judged = "more than" if high - low > noise else "no more than"
        sentences.append(
            f"{title}: {value(best['value'])} is best on development rows; test accuracy goes from "
            f"{score(low)} to {score(high)}, {judged} chance explains (± {score(noise)})."
        )
    return " ".join(sentences)


# How values are written: the same everywhere.


def score(accuracy: float) -> str:
    """An accuracy, an F1 or a weight."""
    return f"{accuracy:.4f}"


def number(count: int) -> str:
    return f"{count:,}"


def over_seeds(spread: Json, seeds: int) -> str:
    """The mean of {"mean", "deviation", …}, with the deviation if there are several seeds."""
    return score(spread["mean"]) + (f" ± {score(spread['deviation'])}" if seeds > 1 else "")


def mean(values: Sequence[float], digits: int = 4) -> str:
    """The mean, with the deviation if there are several values."""
    text = f"{fmean(values):.{digits}f}"
    return text + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def difference(compared: Json) -> str:
    """A difference of accuracies and its interval, with signs."""
    values = (compared["difference"], compared["low"], compared["high"])
    middle, low, high = (f"{number:+.4f}".replace("-", "−") for number in values)
    return f"{middle} ({low} to {high})"


def percent(rate: float) -> str:
    return f"{100 * rate:.1f}%"


def points(compared: Json) -> str:
    """A difference of accuracies in percentage points, for sentences."""
    values = (100 * compared[name] for name in ("difference", "low", "high"))
    middle, low, high = (f"{number:+.1f}".replace("-", "−") for number in values)
    return f"{middle} points (95% interval {low} to {high})"


def p_value(p: float) -> str:
    """A p-value, never rounded across the line between significant and not."""
    if p < 1e-300:
        return "< 1e-300"
    if p < 0.001:
        digit, exponent = f"{p:.0e}".split("e")
        return f"{digit}e{int(exponent)}"
    texts = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in texts if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT))


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days: the two largest units that matter."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if (rounded := round(seconds)) < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    if (minutes := round(seconds / 60)) < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def around(text: str, word: str, longest: int = LONGEST_TEXT) -> str:
    """Whole words of a text, at most `longest` characters, with `word` if the text has it."""
    if len(text) <= longest:
        return text
    position = max(0, f" {text} ".find(f" {word} "))
    first = max(0, min(position - (longest - len(word)) // 2, len(text) - longest))
    cut = text[first : first + longest]
    if first and text[first - 1] != " ":
        cut = cut.partition(" ")[2] or cut
    if first + longest < len(text) and text[first + longest] != " ":
        cut = cut.rpartition(" ")[0] or cut
    return f"{'… ' * (first > 0)}{cut.strip()}{' …' * (first + longest < len(text))}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def set_to(named: Sequence[Json]) -> str:
    return ", ".join(f"{setting['name']} {value(setting['value'])}" for setting in named)


def value(setting: Any) -> str:
    if setting is None or isinstance(setting, bool):
        return {None: "none", True: "yes", False: "no"}[setting]
    return f"{setting:g}" if isinstance(setting, float) else str(setting)


def printable(content: Any) -> Any:
    """The same values, with each character that XML or UTF-8 cannot hold replaced."""
    if isinstance(content, str):
        return content if content.isprintable() else "".join(map(_printable, content))
    if isinstance(content, dict):
        return {key: printable(item) for key, item in cast("Json", content).items()}
    if isinstance(content, (list, tuple)):
        return [printable(item) for item in cast("list[Any]", content)]
    return content


def _printable(character: str) -> str:
    if character in "\t\n\r":
        return " "
    lost = unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return "\N{REPLACEMENT CHARACTER}" if lost else character

"""How figures are written: the same way wherever the report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elmo.study.results import METHODS, Group, RowResult, Setting, Spread, StudyResults

SIGNIFICANT = 0.05
"""Below this p a difference is called one."""
SMALLEST_P = 1e-300
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def score(value: float) -> str:
    """An accuracy, an F1 or a weight."""
    return f"{value:.4f}"


def spread(figures: Spread, seeds: int) -> str:
    """A mean, with its deviation if there are several seeds."""
    return score(figures.mean) + (f" ± {figures.deviation:.4f}" if seeds > 1 else "")


def interval(low: float, high: float) -> str:
    """An interval for a cell."""
    return f"{score(low)}–{score(high)}"


def within(figures: Spread) -> str:
    """A mean and its interval for a sentence."""
    return f"{score(figures.mean)} ({score(figures.low)} to {score(figures.high)})"


def whole(number: int) -> str:
    """A count, in thousands."""
    return f"{number:,}"


def counted(number: int, what: str) -> str:
    """A count of things that take an s."""
    return f"{whole(number)} {what}{'' if number == 1 else 's'}"


def speed(per_second: float) -> str:
    """Things a second."""
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def p_cell(p: float) -> str:
    """A p-value, rounded to neither side of where a difference begins."""
    if p < SMALLEST_P:
        return f"< {_without_zeros(SMALLEST_P)}"
    if p < 0.001:
        return _without_zeros(p)
    return next(
        text
        for digits in range(2, 18)
        if (float(text := f"{p:.{digits}g}") < SIGNIFICANT) == (p < SIGNIFICANT)
    )


def p_value(p: float) -> str:
    """The same for a sentence, whose lines it does not break."""
    cell = p_cell(p)
    text = f"p {cell}" if cell.startswith("<") else f"p = {cell}"
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace("-", "-\N{WORD JOINER}")


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days: the two largest that matter."""
    rounded = round(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if rounded < _MINUTE:
        return f"{rounded} s"
    if rounded < _HOUR:
        return f"{rounded // _MINUTE} min {rounded % _MINUTE} s"
    minutes = round(seconds / _MINUTE)
    if minutes * _MINUTE < _DAY:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / _HOUR)
    return f"{hours // 24} d {hours % 24} h"


def setting(value: Setting) -> str:
    """A setting or a fact."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def called(title: str) -> str:
    """A title for a sentence, where its comma would be taken for one of the sentence's."""
    name, _, rest = title.partition(", ")
    return f"{name} ({rest.partition(' (')[0]})" if rest else name


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def shortened(text: str, longest: int) -> str:
    """A text that is no longer than that."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def around(text: str, word: str, longest: int) -> str:
    """A part of a text that is no longer than that, with the word in it if the text has it."""
    if len(text) <= longest:
        return text
    place = max(0, f" {text} ".find(f" {word} "))
    first = max(0, min(place - (longest - len(word)) // 2, len(text) - longest))
    part = text[first : first + longest]
    # No words cut in half, but for one that is longer than that.
    if first and text[first - 1] != " ":
        part = part.partition(" ")[2] or part
    if first + longest < len(text) and text[first + longest] != " ":
        part = part.rpartition(" ")[0] or part
    return f"{'… ' * (first > 0)}{part.strip()}{' …' * (first + longest < len(text))}"


def _without_zeros(p: float) -> str:
    digit, exponent = f"{p:.0e}".split("e")
    return f"{digit}e{int(exponent)}"


# Rows of a comparison by what they are: the best of a group, or what others are compared with.


GROUPS: dict[Group, str] = {
    "control": "Controls",
    "static": "Static embeddings",
    "elmo": "ELMo",
}
DRAWN = "frozen"
GIVEN = ("average", "layer")
"""Rows whose weights are the same for every seed."""


def named(results: StudyResults, name: str) -> RowResult | None:
    """The row of that name, unless it failed or was left out."""
    return next((row for row in results.rows if row.name == name), None)


def title(results: StudyResults, name: str) -> str:
    """What a row is called in tables, or a method of which there are several rows."""
    titles = METHODS | {one.name: one.title for one in (*results.failed, *results.rows)}
    return titles.get(name, name)


def group_of(results: StudyResults, name: str) -> Group:
    """The group of a row or of a method; of one that is not there, the plainest."""
    row = named(results, name)
    return row.group if row else "static" if name in METHODS else "control"


def of_group(results: StudyResults, group: Group) -> list[RowResult]:
    """The rows of a group, in order."""
    return [row for row in results.rows if row.group == group]


def in_groups(results: StudyResults) -> list[RowResult]:
    """All rows, group by group."""
    return [row for group in GROUPS for row in of_group(results, group)]


def best(rows: Sequence[RowResult]) -> RowResult | None:
    """The best on the development rows: the test rows must not choose."""
    return max(rows, key=lambda row: row.development_accuracy.mean, default=None)


def reference(results: StudyResults) -> RowResult | None:
    """The row that the others are compared with."""
    pairs = [row.paired for row in results.rows if row.paired]
    return named(results, pairs[0].against) if pairs else None


def with_weights(results: StudyResults) -> list[RowResult]:
    """The rows that sum layers with weights which were learned or drawn."""
    return [
        row
        for row in results.rows
        # A static embedding is one layer: there is nothing to weigh.
        if len(row.seeds[0].layer_weights or ()) > 1 and not _is_given(row)
    ]


def learns_weights(row: RowResult) -> bool:
    """Whether the weights of layers were learned, not drawn."""
    return row.name != DRAWN


def _is_given(row: RowResult) -> bool:
    return row.name.split("-")[0] in GIVEN


# What a report is made of, whatever it becomes: sections of paragraphs, tables and figures.


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Sentences."""

    text: str
    kind: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, kw_only=True)
class Code:
    """Something to type."""

    text: str
    kind: Literal["code"] = "code"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table."""

    title: str
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True, kw_only=True)
class Span:
    """A title above those of several columns."""

    title: str
    width: int


@dataclass(frozen=True, kw_only=True)
class Part:
    """Lines of a table that belong together."""

    lines: tuple[tuple[str, ...], ...]
    """A cell a column; the first names the line."""
    title: str = ""
    group: Group | None = None
    """Gives the part its colour."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, with a caption that says what is in it."""

    name: str
    """Unique in a report."""
    caption: str
    columns: tuple[Column, ...]
    parts: tuple[Part, ...]
    over: tuple[Span, ...] = ()
    """As wide as all columns together, or none at all."""
    dense: bool = False
    """Whether it has so many columns that they must be small on paper."""
    kind: Literal["table"] = "table"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing."""

    name: str
    """Unique in a report."""
    caption: str
    alt: str
    """What it shows, for those who cannot see it."""
    svg: str
    """In the colours of paper."""
    floats: bool = False
    """Whether text that follows may fill the space before it on paper."""
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, kw_only=True)
class Details:
    """What most readers will skip: closed on a page, open on paper."""

    title: str
    blocks: tuple[Block, ...]
    open: bool = False
    """Whether it is open on a page too."""
    kind: Literal["details"] = "details"


Block = Paragraph | Code | Table | Figure | Details


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section under a title."""

    name: str
    """Unique in a report."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole report."""

    title: str
    data: str
    """One sentence on what ran."""
    answer: tuple[str, ...]
    """A few sentences that hold what was found."""
    facts: str
    """Rows, seeds and date, in one line."""
    sections: tuple[Section, ...]


def columns(*titles: str, left: int = 1) -> tuple[Column, ...]:
    """Columns by their titles, the first few of them of text, the others of figures."""
    return tuple(
        Column(title=title, align="left" if place < left else "right")
        for place, title in enumerate(titles)
    )


def one_part(lines: list[tuple[str, ...]]) -> tuple[Part, ...]:
    """Lines that are not divided."""
    return (Part(lines=tuple(lines)),)

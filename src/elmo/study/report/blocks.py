"""What a report is made of, whatever it becomes: sections of paragraphs, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmo.study.results import Group


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

"""Rows of a comparison by what they are: the best of a group, or what others are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.study.comparison import METHODS
from elmo.study.results import Group, RowResult, StudyResults

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

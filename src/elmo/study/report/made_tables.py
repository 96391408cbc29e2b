"""Tables of how a study was done: settings tried and chosen, fingerprints, versions."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.study.report.blocks import Part, Table, columns, one_part
from elmo.study.report.formats import score, setting, whole
from elmo.study.results import Named, RowResult, StudyResults


def chosen_table(rows: Sequence[RowResult]) -> Table:
    """What was best on the development rows, row by row."""
    lines = [
        (
            row.title,
            described(row.chosen),
            whole(len(row.candidates)),
            score(row.development_accuracy.mean),
        )
        for row in rows
    ]
    return Table(
        name="chosen",
        caption="Settings chosen by the development rows, how many were tried, and development "
        "accuracy with them, mean over seeds.",
        columns=columns("", "chosen", "tried", "development", left=2),
        parts=one_part(lines),
    )


def candidates_table(rows: Sequence[RowResult]) -> Table:
    """Everything that was tried."""
    return Table(
        name="candidates",
        caption="All settings that were tried on the development rows.",
        columns=columns("settings", "development accuracy", "chosen"),
        parts=tuple(_candidates(row) for row in rows if row.candidates),
    )


def facts_table(name: str, caption: str, facts: Sequence[Named]) -> Table:
    """Names and values."""
    return Table(
        name=name,
        caption=caption,
        columns=columns("name", "value", left=2),
        parts=one_part([(one.name, setting(one.value)) for one in facts]),
    )


def machine_table(results: StudyResults, seconds: str) -> Table:
    """Where, when and for how long."""
    about = results.about
    facts = {
        "preset": about.preset,
        "seeds": ", ".join(map(str, about.seeds)),
        "machine": about.machine,
        "finished": f"{about.finished} UTC",
        "work in all": seconds,
    }
    named = [Named(name=name, value=value) for name, value in facts.items()]
    return facts_table("machine", "Where, when and for how long.", named)


def described(settings: Sequence[Named]) -> str:
    """Settings in a line."""
    return ", ".join(f"{one.name} {setting(one.value)}" for one in settings) or "none to choose"


def _candidates(row: RowResult) -> Part:
    return Part(
        title=row.title,
        group=row.group,
        lines=tuple(
            (
                described(one.settings),
                score(one.development_accuracy),
                "chosen" if one.settings == row.chosen else "",
            )
            for one in row.candidates
        ),
    )

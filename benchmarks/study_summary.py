"""The comparison of a study for a README: its figure as a file, its table as Markdown.

    python benchmarks/study_summary.py docs/results --figure docs/results/accuracy.svg

The table is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from elmo.config import Json
from elmo.files import write_text
from elmo.study import plots
from elmo.study.report import over_seeds, p_value, score
from elmo.study.results import read_results

HEAD = "| | test accuracy | 95% interval | macro F1 | train accuracy | paired p |"
WHITE = '<rect width="100%" height="100%" fill="#ffffff"/>'


def main() -> None:
    """Write the figure, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path, help="results.json, or the folder it is in")
    parser.add_argument("--figure", type=Path, help="an .svg file")
    given = parser.parse_args()
    results = read_results(given.results)
    if given.figure is not None:
        write_text(given.figure, on_white(plots.accuracy(results)))
    print("\n".join(table(results)))


def table(results: Json) -> Iterator[str]:
    """The lines of the table."""
    yield HEAD
    yield "|---" * (HEAD.count("|") - 1) + "|"
    yield from (_line(row) for row in results["rows"])


def on_white(svg: str) -> str:
    """A drawing with a ground of its own, since a reader's may be dark."""
    opening, rest = svg.split(">", 1)
    return f"{opening}>{WHITE}{rest}\n"


def _line(row: Json) -> str:
    test = row["test_accuracy"]
    cells = (
        row["title"],
        over_seeds(test, len(row["seeds"])),
        f"{score(test['low'])}–{score(test['high'])}",
        score(row["test_macro_f1"]["mean"]),
        score(row["train_accuracy"]["mean"]),
        p_value(row["paired"]["p"]) if row["paired"] else "",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

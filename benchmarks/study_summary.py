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
from elmo.study.report import difference, over_seeds, p_value
from elmo.study.results import read_results

HEAD = "| | alone | difference (95% interval) | p, Holm | beside task embeddings |"


def main() -> None:
    """Write the figure, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path, help="results.json, or the folder it is in")
    parser.add_argument("--figure", type=Path, help="an .svg file")
    given = parser.parse_args()
    results = read_results(given.results)
    if given.figure is not None:
        write_text(given.figure, plots.on_white(plots.accuracy(results["rows"])))
    print("\n".join(table(results)))


def table(results: Json) -> Iterator[str]:
    """The lines of the table."""
    yield HEAD
    yield "|---" * (HEAD.count("|") - 1) + "|"
    yield from (_line(row) for row in results["rows"])


def _line(row: Json) -> str:
    alone, beside = row["alone"], row["beside"]
    compared = alone and alone["compared"]
    cells = (
        row["title"],
        over_seeds(alone["test_accuracy"], len(alone["seeds"])) if alone else "",
        difference(compared) if compared else "",
        p_value(compared["holm"]) if compared else "",
        over_seeds(beside["test_accuracy"], len(beside["seeds"])) if beside else "",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

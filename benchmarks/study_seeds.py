"""Every seed of a study's rows against a control, on the same test rows, as Markdown.

    python benchmarks/study_seeds.py runs/study --source ag_news:test [--rows trainable frozen]

The study's report compares the first seeds with the best static row; here each seed is compared
with the control that is named. The paired test is McNemar's. Below the table: what all these runs
but the control would give together, by a vote, and how many test rows each of them has wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.classify.data import encode_labels, label_names, read_labelled
from elmo.classify.metrics import mcnemar
from elmo.config import Json, from_json
from elmo.files import read_json
from elmo.study.results import spread
from elmo.study.rows import Outcome

HEAD = "| row | seed | train | development | test (95% interval) | macro F1 | p | layers weigh |"
STEP = re.compile(r"row-(?P<row>.+?)(?:-seed(?P<seed>\d+))?")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("study", type=Path, help="the study's folder")
    parser.add_argument("--source", required=True, help="the test rows of the study")
    parser.add_argument("--rows", nargs="+", help="these only, in this order")
    parser.add_argument("--control", default="tfidf", help="the row that others are compared with")
    given = parser.parse_args()
    test = read_labelled(given.source)
    gold = encode_labels(test.labels or (), label_names(test.labels or ()))
    steps = outcomes(given.study / "cells")
    if unknown := {given.control, *(given.rows or ())} - steps.keys():
        sys.exit(f"{given.study} has no row {sorted(unknown)[0]!r}; it has {', '.join(steps)}")
    control = right(next(iter(steps[given.control].values())), gold)
    print(HEAD)
    print("|---" * (HEAD.count("|") - 1) + "|")
    for row in given.rows or steps:
        seeds = steps[row]
        for seed, one in seeds.items():
            print(line(row, str(seed), one, mcnemar(right(one, gold), control).p))
        if len(seeds) > 1:
            accuracies = [one.test.accuracy.value for one in seeds.values()]
            print(summary(spread(accuracies, len(gold))))
    runs = [
        one for row in given.rows or steps if row != given.control for one in steps[row].values()
    ]
    if len(runs) > 1:
        print(f"\n{together([np.array(one.predictions) for one in runs], gold)}")


def outcomes(folder: Path) -> dict[str, dict[int, Outcome]]:
    """What the cells of each row gave, by seed."""
    found: dict[str, dict[int, Outcome]] = {}
    for path in sorted(folder.glob("row-*.json")):
        name = STEP.fullmatch(path.stem)
        assert name is not None
        seeds = found.setdefault(name["row"], {})
        seeds[int(name["seed"] or 0)] = from_json(Outcome, read_json(path)["result"], path.name)
    return found


def right(outcome: Outcome, gold: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which test rows it got right."""
    predictions = np.array(outcome.predictions)
    accuracy = outcome.test.accuracy.value
    if len(predictions) != len(gold) or not np.isclose((predictions == gold).mean(), accuracy):
        sys.exit("these are not the test rows of the study; name them with --source")
    return predictions == gold


def together(predictions: list[NDArray[np.int64]], gold: NDArray[np.int64]) -> str:
    """A vote of several runs, of which the first decides where there is a tie."""
    counts = [np.bincount(some, minlength=gold.max() + 1) for some in np.transpose(predictions)]
    votes = 2 * np.stack(counts)
    votes[np.arange(len(gold)), predictions[0]] += 1
    accuracy = (votes.argmax(1) == gold).mean()
    wrong = np.all([some != gold for some in predictions], axis=0)
    return (
        f"A vote of these {len(predictions)} runs: {accuracy:.4f}; wrong in all of them: "
        f"{wrong.mean():.4f} of the test rows."
    )


def line(row: str, seed: str, outcome: Outcome, p: float) -> str:
    """One seed."""
    test = outcome.test.accuracy
    train = "" if outcome.train is None else f"{outcome.train.accuracy.value:.4f}"
    weights = ", ".join(f"{one:.3f}" for one in outcome.layer_weights or ())
    cells = (
        row,
        seed,
        train,
        f"{outcome.development_accuracy:.4f}",
        f"{test.value:.4f} ({test.low:.4f} to {test.high:.4f})",
        f"{outcome.test.macro_f1.value:.4f}",
        f"{p:.2g}",
        weights,
    )
    return f"| {' | '.join(cells)} |"


def summary(found: Json) -> str:
    """Mean and deviation over seeds."""
    return f"| | **mean** | | | **{found['mean']:.4f} ± {found['deviation']:.4f}** | | | |"


if __name__ == "__main__":
    main()

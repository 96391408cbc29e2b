"""results.json: every figure of a study, written whole and read back strictly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from elmo.config import from_json, to_json
from elmo.errors import ConfigError, UserError
from elmo.files import read_json, write_json
from elmo.study.results import RowResult, StudyResults

NAME = "results.json"
_PROBLEMS_SHOWN = 3


def write_results(results: StudyResults, folder: Path) -> None:
    """Write results.json into a folder."""
    write_json(folder / NAME, to_json(results))


def read_results(path: Path) -> StudyResults:
    """Read results.json, by its own path or by that of the folder of a study."""
    file = path / NAME if path.is_dir() else path
    data = read_json(file)
    try:
        results = from_json(StudyResults, data, "results")
    except ConfigError as error:
        raise _refused(file, error.problems) from None
    problems = list(_contradictions(results))
    if problems:
        raise _refused(file, problems)
    return results


def _refused(file: Path, problems: Iterable[str]) -> UserError:
    every = list(problems)
    shown = "\n".join(f"  - {problem}" for problem in every[:_PROBLEMS_SHOWN])
    more = len(every) - _PROBLEMS_SHOWN
    rest = f"\n  - and {more} more" if more > 0 else ""
    return UserError(
        f"{file}: expected the results of a study, as this version of elmo writes them:\n"
        f"{shown}{rest}\nrun the study again, or use the version that wrote the file"
    )


def _contradictions(results: StudyResults) -> Iterable[str]:
    """What no study writes, but an edited file may hold."""
    names = [row.name for row in results.rows]
    if len(set(names)) != len(names):
        yield "results.rows: expected each name once"
    for place, row in enumerate(results.rows):
        for problem in _row_problems(row, results.about.labels):
            yield f"results.rows[{place}] ({row.name}): {problem}"
    if results.draws and len({len(draw.layer_weights) for draw in results.draws.draws}) > 1:
        yield "results.draws: expected as many weights in every draw"


def _row_problems(row: RowResult, labels: tuple[str, ...]) -> Iterable[str]:
    if not row.seeds:
        yield "expected one seed or more"
    if len({len(seed.layer_weights or ()) for seed in row.seeds}) > 1:
        yield "expected as many layer weights for every seed"
    for seed in row.seeds:
        for split, metrics in (("train", seed.train), ("test", seed.test)):
            sides = {len(metrics.classes), len(metrics.confusion), *map(len, metrics.confusion)}
            if sides != {len(labels)}:
                yield f"seed {seed.seed}, {split}: expected figures of {len(labels)} labels"

"""Whether a file of weights is the one its options describe, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from elmo.errors import UserError
from elmo.interop.hdf5 import Datasets, require_readable, shape_and_type
from elmo.interop.official_names import Row

MOST_SHOWN = 6
_CAUSES = (
    ("embedding", "the vocabulary is not that of the weights, or the options lack 'char_cnn'"),
    ("char_embed", "'char_cnn' in the options is not that of the weights"),
    ("CNN/", "char_cnn.filters in the options are not those of the weights"),
    ("CNN_high_", "char_cnn.n_highway in the options is not that of the weights"),
    ("CNN_proj/", "char_cnn.filters or lstm.projection_dim is not that of the weights"),
    ("RNN_", "lstm.n_layers, dim or projection_dim in the options is not that of the weights"),
)


def require_official(path: Path, datasets: Datasets) -> None:
    """Make sure that a file holds anything of an official model at all."""
    starts = tuple(start for start, _ in _CAUSES)
    if not any(name.startswith(starts) for name in datasets):
        raise UserError(
            f"{path}: an HDF5 file, but not of an official ELMo model: it holds "
            f"{_listed(datasets)}, and nothing whose name starts with {' or '.join(starts)}"
        )


def require_fit(path: Path, options: Path, datasets: Datasets, rows: Sequence[Row]) -> None:
    """Make sure that a file holds exactly these datasets, all problems told at once."""
    expected = {row.dataset: row for row in rows}
    problems = dict(_problems(datasets, expected))
    if problems:
        shown = [f"{name} {problem}" for name, problem in problems.items()][:MOST_SHOWN]
        more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
        raise UserError(
            f"{path} does not fit {options}: {'; '.join(shown)}{more}. "
            f"Likely cause: {_cause(problems)}"
        )
    require_readable(path, datasets)


def _problems(datasets: Datasets, expected: dict[str, Row]) -> Iterable[tuple[str, str]]:
    for name, row in expected.items():
        if name not in datasets:
            yield name, f"{row.shape} is missing"
            continue
        shape, kind = shape_and_type(datasets[name])
        if shape != row.shape:
            yield name, f"is {shape}, expected {row.shape}"
        if kind != "float32":
            yield name, f"holds {kind}, expected float32"
    for name in datasets:
        if name not in expected:
            yield name, f"{shape_and_type(datasets[name])[0]} is not expected"


def _cause(problems: dict[str, str]) -> str:
    if any("softmax" in name for name in problems):
        return "the softmax was written too, which no official file holds; take it out"
    if all("expected float32" in problem for problem in problems.values()):
        return "the weights were converted to another type; convert them to float32"
    if problems.get("char_embed", "").startswith("is (262,"):
        return "a row for padding was written too; official files hold 261 characters"
    first = next(iter(problems))
    return next((cause for start, cause in _CAUSES if first.startswith(start)), "another model")


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = ", …" if len(shown) > 3 else ""
    return (", ".join(shown[:3]) + more) if shown else "nothing"

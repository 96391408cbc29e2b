"""Sweeps: one setting varied while all others stay, on a part of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from elmo.config import nearest
from elmo.contextual.mix_config import MixConfig
from elmo.errors import UserError
from elmo.study.choices import NetworkSettings
from elmo.study.comparison import ELMO, METHODS
from elmo.study.jobs import Job
from elmo.study.outcome import Outcome
from elmo.study.results import Sweep, SweepPoint
from elmo.study.workbench import Workbench

Setting = Literal["window", "dim", "hidden", "mix-pull", "learning-rate"]
WHOLE = ("window", "dim", "hidden")
SETTINGS = (*WHOLE, "mix-pull", "learning-rate")
DEFAULT_WINDOW = 5


@dataclass(frozen=True)
class AskedSweep:
    """A setting, and the values to try."""

    setting: Setting
    values: tuple[float, ...]


@dataclass(frozen=True)
class Try:
    """One value of one setting for one row."""

    setting: Setting
    row: str
    value: float
    embedding: str

    @property
    def name(self) -> str:
        """The step's name."""
        return f"sweep-{self.setting}-{self.row}-{self.value:g}"


def parse_sweeps(given: tuple[str, ...]) -> tuple[AskedSweep, ...]:
    """Read setting=value,value,…; every mistake is named."""
    return tuple(_parse(one) for one in given)


def tries_of(sweep: AskedSweep, static_dim: int) -> list[Try]:
    """Which rows a sweep is tried for: the static ones, or ELMo with trainable λs."""
    return list(_tries(sweep, static_dim))


def sweep_job(bench: Workbench, one: Try) -> Job:
    """A training with one value."""
    mix = MixConfig(mix_pull=one.value if one.setting == "mix-pull" else 0.0)
    settings = NetworkSettings()
    if one.setting == "learning-rate":
        settings = NetworkSettings(learning_rate=one.value)
    training = bench.training(
        settings.on(bench.classifier(mix, bench.config.seeds[0])),
        rows=bench.config.sweep_rows,
        measures_train=False,
    )
    work = min(bench.config.sweep_rows, bench.data.train_count) * bench.config.epochs
    return bench.job(one.name, "sweeps", one.embedding, training, work=work)


def sweeps_found(
    bench: Workbench,
    tries: Mapping[AskedSweep, list[Try]],
    results: Mapping[str, Any],
    notes: Mapping[str, str],
) -> tuple[Sweep, ...]:
    """What each sweep gave, a curve a row; `notes` say more of an embedding."""
    found: list[Sweep] = []
    rows = min(bench.config.sweep_rows, len(bench.data.split.train))
    for sweep, all_tries in tries.items():
        for row in dict.fromkeys(one.row for one in all_tries):
            points = tuple(
                SweepPoint(
                    value=one.value,
                    development_accuracy=outcome.development_accuracy,
                    test_accuracy=outcome.test.accuracy.value,
                    note=notes.get(one.embedding),
                )
                for one in all_tries
                if one.row == row and isinstance(outcome := results.get(one.name), Outcome)
            )
            if points:
                found.append(Sweep(setting=sweep.setting, row=row, train_rows=rows, points=points))
    return tuple(found)


def static_name(method: str, window: int, dim: int, usual_dim: int) -> str:
    """The name of static vectors; those of the usual size are named as their row is."""
    return f"{method}-{window}" if dim == usual_dim else f"{method}-{window}-dim{dim}"


def static_settings(name: str, usual_dim: int) -> tuple[str, int, int]:
    """Method, window and size of static vectors, by their name."""
    method, window, *rest = name.split("-")
    return method, int(window), int(rest[0].removeprefix("dim")) if rest else usual_dim


def bilm_name(hidden: int) -> str:
    """The name of a biLM of another size, as an embedding."""
    return f"{ELMO}-hidden{hidden}"


def _tries(sweep: AskedSweep, usual_dim: int) -> Iterator[Try]:
    setting = sweep.setting
    for value in sweep.values:
        if setting == "window":
            for method in METHODS:
                name = static_name(method, int(value), usual_dim, usual_dim)
                yield Try(setting, method, value, name)
        elif setting == "dim":
            for method in METHODS:
                name = static_name(method, DEFAULT_WINDOW, int(value), usual_dim)
                yield Try(setting, method, value, name)
        elif setting == "hidden":
            yield Try(setting, "trainable", value, bilm_name(int(value)))
        else:
            yield Try(setting, "trainable", value, ELMO)


def _parse(given: str) -> AskedSweep:
    setting, equals, values = given.partition("=")
    if not equals or setting not in SETTINGS:
        raise UserError(
            f"--sweeps: expected setting=value,value,… with a setting out of "
            f"{', '.join(SETTINGS)}; got {given!r}{nearest(setting, SETTINGS)}"
        )
    numbers = tuple(_number(setting, value, given) for value in values.split(","))
    return AskedSweep(setting, numbers)


def _number(setting: str, value: str, given: str) -> float:
    try:
        number = int(value) if setting in WHOLE else float(value)
    except ValueError:
        kind = "whole numbers" if setting in WHOLE else "numbers"
        raise UserError(
            f"--sweeps: expected {kind} behind {setting}=, got {value!r} in {given!r}"
        ) from None
    least = 0 if setting == "mix-pull" else None
    if number < 0 or (least is None and number == 0) or number != number or number > 1e9:
        raise UserError(f"--sweeps: {setting} cannot be {value} (in {given!r})")
    return number

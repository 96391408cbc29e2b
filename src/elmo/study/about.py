"""What the report says of how its figures came about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, cast

from elmo.contextual.mix_config import MixConfig
from elmo.study.comparison import ELMO
from elmo.study.request import StudyRequest
from elmo.study.results import About, Named, Setting
from elmo.study.surroundings import machine, versions
from elmo.study.workbench import Workbench, shared_classifier


def about(request: StudyRequest, bench: Workbench, seconds: float) -> About:
    """Data, settings, fingerprints, versions, machine and time."""
    data = bench.data
    return About(
        command=request.command,
        data=data.name,
        train_rows=data.train_count,
        development_rows=len(data.split.development),
        test_rows=len(data.test),
        labels=data.labels,
        preset=request.preset,
        seeds=request.config.seeds,
        settings=tuple(_settings(request)),
        fingerprints=tuple(_fingerprints(bench)),
        versions=versions(),
        machine=machine(),
        finished=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        seconds=seconds,
        shows_texts=request.shows_texts,
    )


def _settings(request: StudyRequest) -> Iterator[Named]:
    yield from _flat("", request.config)
    shared = shared_classifier(request.config, MixConfig(), request.config.seeds[0])
    yield from _flat("classifier.", shared)
    if request.model is None:
        yield from _flat("pretraining.", request.pretraining)


def _flat(prefix: str, settings: Any) -> Iterator[Named]:
    """The settings of all parts, by their full names."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from _flat(f"{prefix}{one.name}.", value)
        else:
            yield Named(name=prefix + one.name, value=_shown(value))


def _shown(value: Any) -> Setting:
    """Lists as their values, one behind the other."""
    if not isinstance(value, tuple):
        return value
    return " ".join(str(one) for one in cast("tuple[object, ...]", value))


def _fingerprints(bench: Workbench) -> Iterator[Named]:
    yield Named(name="texts, labels and parts", value=bench.data.fingerprint)
    for name, key in bench.embedding_keys.items():
        if name in bench.bilms:
            what = "biLM" if name == ELMO else f"biLM {name}"
            yield Named(name=f"weights of the {what}", value=key)

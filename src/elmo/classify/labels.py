"""The labels a classifier knows, in an order that does not depend on the order of the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.config import nearest
from elmo.errors import UserError
from elmo.text import ag_news

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_SHOWN = 20


@dataclass(frozen=True)
class Labels:
    """Label names; a class is its place among them."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, labels: Iterable[str]) -> Labels:
        """The distinct labels: numbers by size, AG News as it has them, others by alphabet."""
        distinct = set(labels)
        if len(distinct) < 2:
            raise UserError(
                f"expected at least two labels, but there is only {_listing(sorted(distinct))}; "
                "add texts with other labels, or say with --label-column which column holds them"
            )
        return cls(_ordered(distinct))

    def __len__(self) -> int:
        """How many classes there are."""
        return len(self.names)

    def encode(self, labels: Sequence[str], places: Sequence[str]) -> NDArray[np.int64]:
        """The class of each label; one that was not there in training is named with its place."""
        classes = {name: place for place, name in enumerate(self.names)}
        unknown: dict[str, str] = {}
        for label, place in zip(labels, places, strict=True):
            if label not in classes:
                unknown.setdefault(label, place)
        if unknown:
            raise self._unknown(unknown)
        return np.array([classes[label] for label in labels], np.int64)

    def _unknown(self, places: dict[str, str]) -> UserError:
        found = [
            f"{label!r:.80}, first at {place}{nearest(label, self.names)}"
            for label, place in list(places.items())[:_SHOWN]
        ]
        more = f"; and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
        return UserError(
            f"labels that were not there in training: {'; '.join(found)}{more}; the known ones "
            f"are {_listing(self.names)}; mend these rows or leave them out, or train on them too"
        )


def _ordered(distinct: set[str]) -> tuple[str, ...]:
    if distinct <= set(ag_news.LABELS):
        return tuple(name for name in ag_news.LABELS if name in distinct)
    if all(_NUMBER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (float(name), name)))
    return tuple(sorted(distinct))


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name!r:.80}" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else shown

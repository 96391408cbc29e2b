"""Settings as frozen dataclasses: read strictly from JSON, every problem reported at once."""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from pathlib import Path
from typing import (
    Any,
    Literal,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from elmo.errors import ConfigError

T = TypeVar("T")
Json = dict[str, Any]
LARGEST_WHOLE = 1 << 1000


class Checked(Protocol):
    """Settings that can say what is wrong with them."""

    def problems(self) -> Iterable[str]:
        """Yield one sentence a contradiction."""
        ...


def check(*settings: Checked) -> None:
    """Raise one error that holds every problem of all the settings given."""
    problems = [problem for one in settings for problem in one.problems()]
    if problems:
        raise ConfigError(problems)


def to_json(settings: object) -> Json:
    """Turn a settings dataclass into plain JSON values."""
    return asdict(cast("Any", settings))


def from_json(cls: type[T], data: object, where: str) -> T:
    """Build settings from JSON; unknown keys, missing keys and wrong types fail together."""
    problems: list[str] = []
    value = _convert(cls, data, where, problems)
    if problems:
        raise ConfigError(problems)
    return cast("T", value)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean …?)' for a mistyped name, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def _convert(kind: Any, data: object, where: str, problems: list[str]) -> object:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _convert_dataclass(cast("type[object]", kind), data, where, problems)
    if origin is Literal:
        return _convert_literal(get_args(kind), data, where, problems)
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(kind), data, where, problems)
    if origin is tuple:
        return _convert_tuple(get_args(kind), data, where, problems)
    return _convert_scalar(kind, data, where, problems)


def _convert_dataclass(
    cls: type[object], data: object, where: str, problems: list[str]
) -> object | None:
    if not isinstance(data, Mapping):
        problems.append(f"{where}: expected an object, got {type(data).__name__}")
        return None
    entries = cast("Mapping[str, object]", data)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cast("Any", cls))}
    before = len(problems)
    for key in entries:
        if key not in known:
            problems.append(f"{where}: unknown key {key!r}{nearest(key, known)}")
    for name, field in known.items():
        if name not in entries and field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{where}: key {name!r} is missing")
    hints = get_type_hints(cls)
    values = {
        name: _convert(hints[name], entries[name], f"{where}.{name}", problems)
        for name in known
        if name in entries
    }
    return cls(**values) if len(problems) == before else None


def _convert_literal(
    choices: Sequence[object], data: object, where: str, problems: list[str]
) -> object:
    if data not in choices:
        listed = ", ".join(map(str, choices))
        hint = nearest(str(data), map(str, choices))
        problems.append(f"{where}: expected one of {listed}; got {data!r}{hint}")
    return data


def _convert_union(choices: Sequence[Any], data: object, where: str, problems: list[str]) -> object:
    if data is None and types.NoneType in choices:
        return None
    kinds = [choice for choice in choices if choice is not types.NoneType]
    # Of several scalars, the one that JSON says it is.
    fitting = [kind for kind in kinds if kind is type(data)] if len(kinds) > 1 else kinds
    if not fitting:
        listed = ", ".join(kind.__name__ for kind in kinds)
        problems.append(f"{where}: expected one of {listed}; got {data!r}")
        return data
    return _convert(fitting[0], data, where, problems)


def _convert_tuple(kinds: Sequence[Any], data: object, where: str, problems: list[str]) -> object:
    if not isinstance(data, Sequence) or isinstance(data, str):
        problems.append(f"{where}: expected a list, got {type(data).__name__}")
        return ()
    items = cast("Sequence[object]", data)
    if kinds[-1] is Ellipsis:
        if kinds[0] is str and all(type(item) is str for item in items):
            return tuple(items)  # the words of a text may be many
        kinds = [kinds[0]] * len(items)
    if len(kinds) != len(items):
        problems.append(f"{where}: expected {len(kinds)} values, got {len(items)}")
        return ()
    return tuple(
        _convert(kind, item, f"{where}[{place}]", problems)
        for place, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )


def _convert_scalar(kind: Any, data: object, where: str, problems: list[str]) -> object:
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        data = float(data) if abs(data) < LARGEST_WHOLE else math.inf
    right = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    if not right or (isinstance(data, float) and not math.isfinite(data)):
        problems.append(f"{where}: expected {kind.__name__}, got {data!r}")
    return data


# The news model that comes with the package, a biLM and a classifier, used where none is named.


CLASSIFIER = Path(__file__).parent / "news_model"
BILM = CLASSIFIER / "bilm"

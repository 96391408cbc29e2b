"""Settings as frozen dataclasses: read strictly from JSON or text, all problems at once."""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
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
LARGEST_INT = 2**63 - 1  # what torch, NumPy and file formats can hold

# What ships with the package: a general English biLM, and a classifier of news with its own biLM.
BILM = Path(__file__).parent / "models" / "default"
CLASSIFIER = BILM.with_name("ag_news")
SHIPPED = "default"  # what ships with the package, wherever a model or classifier is named


def model_name(path: Path | str, shipped: Path = BILM) -> str:
    """What `model_path` finds again on another machine: "default", or the absolute path."""
    return SHIPPED if Path(path) == shipped else str(Path(path).absolute())


LARGEST = 1e30  # of settings that are multiplied with weights: float32 ends at 3.4e38


class Range(NamedTuple):
    """Bounds of a number, as in `dropout: Annotated[float, Range(0, 1, "[)")] = 0.1`."""

    low: float
    high: float = math.inf
    ends: Literal["[]", "(]", "[)"] = "[]"  # a round bracket excludes the bound itself

    def holds(self, value: float) -> bool:
        excluded = {"[]": math.nan, "(]": self.low, "[)": self.high}[self.ends]
        return self.low <= value <= self.high and value != excluded

    def __str__(self) -> str:
        if self.high >= LARGEST:
            most = "" if self.high == math.inf else f", at most {self.high:g}"
            return f"{'more than' if self.ends == '(]' else 'at least'} {self.low:,}{most}"
        low = f"more than {self.low:,}, up" if self.ends == "(]" else f"{self.low:,}"
        return f"{low} to {'below ' if self.ends == '[)' else ''}{self.high:,}"


Count = Annotated[int, Range(1)]
NotNegative = Annotated[float, Range(0, LARGEST)]
Positive = Annotated[float, Range(0, LARGEST, "(]")]
Fraction = Annotated[float, Range(0, 1)]
DropoutRate = Annotated[float, Range(0, 1, "[)")]
Seed = Annotated[int, Range(0)]


def check(*settings: object) -> None:
    """Raise one `ConfigError` with every problem of all these settings."""
    problems: list[str] = []
    for some in settings:
        problems += _build(type(some), to_json(some), "")[1]
    if problems:
        raise ConfigError(problems)


def to_json(settings: object) -> Json:
    return asdict(cast("Any", settings))


def from_json(cls: type[T], data: object, where: str) -> T:
    """Build settings from JSON; every problem is reported at once.

    Problems are unknown and missing keys, wrong types and numbers outside their `Range`; and, if
    the types are right, what the method `problems()` of the settings yields. Fields are scalars,
    literals, tuples or such dataclasses; `where` names the origin of `data`, such as a file.
    """
    settings, problems = _build(cls, data, where)
    if problems:
        raise ConfigError(problems)
    return cast("T", settings)


def _build(cls: type[object], data: object, where: str) -> tuple[object, list[str]]:
    problems: list[str] = []
    settings = _convert(cls, data, where, problems)
    prefix = f"{where}." if where else ""
    # Contradictions can be looked for only in settings that could be built.
    contradictions = getattr(settings, "problems", list[str])() if not problems else ()
    problems += _out_of_range(cls, data, prefix)
    return settings, problems + [f"{prefix}{problem}" for problem in contradictions]


def _out_of_range(cls: type[object], data: object, prefix: str) -> Iterator[str]:
    if not isinstance(data, Mapping) or not is_dataclass(cls):
        return
    for name, hint in _hints(cls, bounds=True).items():
        value: Any = cast("Mapping[str, object]", data).get(name)
        if is_dataclass(hint):
            yield from _out_of_range(cast("type[object]", hint), value, f"{prefix}{name}.")
        if type(value) not in (int, float) or not math.isfinite(value):
            continue
        for kind in (hint, *get_args(hint)):  # itself, or one of a union
            bounds = get_args(kind)[1] if get_origin(kind) is Annotated else None
            if bounds is not None and not bounds.holds(value):
                yield f"{prefix}{name}: expected {bounds}, got {value:,}"


def merged(defaults: Json, changes: object) -> object:
    """Settings as JSON with some of them changed, section by section."""
    if not isinstance(changes, Mapping):
        return changes  # no section: `from_json` says so
    result: Json = dict(defaults)
    for key, value in cast("Mapping[str, object]", changes).items():
        nested = isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result


def from_text(kind: Any, text: str | Sequence[str]) -> object:
    """Turn what a user typed into the JSON value of a setting.

    `3`, `none`, `true`, `a,b` and `[[1, 32], [2, 64]]` are understood where the type asks for them;
    several words are the items of a tuple, flat if the items are pairs. Text that does not fit is
    returned as it is, for `from_json` to report.
    """
    if not isinstance(text, str) and get_origin(kind) is not tuple:
        kind = next(choice for choice in get_args(kind) if get_origin(choice) is tuple)
    if get_origin(kind) is tuple:
        if isinstance(text, str) and text.startswith("["):
            with suppress(ValueError):
                return json.loads(text)
        words = [word for word in text.split(",") if word] if isinstance(text, str) else text
        item = get_args(kind)[0]
        if get_origin(item) is not tuple:
            return [from_text(item, word) for word in words]
        size = len(get_args(item))  # pairs, written one after the other
        chunks = [words[start : start + size] for start in range(0, len(words), size)]
        return [[from_text(get_args(item)[0], word) for word in chunk] for chunk in chunks]
    text = cast("str", text)
    if get_origin(kind) in (Union, types.UnionType):
        choices = get_args(kind)
        if types.NoneType in choices and text.lower() == "none":
            return None
        for choice in choices:  # the first type that understands the text: int before str
            value = from_text(choice, text)
            problems: list[str] = []
            _convert(choice, value, "", problems)
            if choice is not types.NoneType and not problems:
                return value
    if kind is bool:
        known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        return known.get(text.lower(), text)
    if kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ' (did you mean …?)' for a mistyped name, or an empty string."""
    # The comparison takes time of the order of the length squared.
    matches = difflib.get_close_matches(name, list(known), n=1) if len(name) < 100 else []
    return f" (did you mean {matches[0]!r}?)" if matches else ""


@cache  # evaluating annotations takes far longer than checking the values
def _hints(cls: type[object], bounds: bool = False) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=bounds)


def _convert(kind: Any, data: object, where: str, problems: list[str]) -> object:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _convert_dataclass(cast("type[object]", kind), data, where, problems)
    if origin is Literal:
        choices = get_args(kind)
        if data not in choices:
            listed = ", ".join(map(str, choices))
            hint = nearest(str(data), map(str, choices))
            problems.append(f"{where}: expected one of {listed}; got {data!r:.60}{hint}")
        return data
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(kind), data, where, problems)
    if origin is tuple:
        return _convert_tuple(get_args(kind), data, where, problems)
    if isinstance(data, int) and abs(data) > LARGEST_INT:
        problems.append(f"{where}: expected at most {LARGEST_INT:,}, got more")
        return data
    if kind is float and type(data) is int:
        data = float(data)
    fits = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    if not fits or (isinstance(data, float) and not math.isfinite(data)):
        problems.append(f"{where}: expected {kind.__name__}, got {data!r:.60}")
    return data


def _convert_dataclass(
    cls: type[object], data: object, where: str, problems: list[str]
) -> object | None:
    if not isinstance(data, Mapping):
        problems.append(f"{where}: expected an object, got {type(data).__name__}")
        return None
    entries = cast("Mapping[str, object]", data)
    known = {field.name: field for field in fields(cast("Any", cls))}
    before = len(problems)
    prefix = f"{where}: " if where else ""
    hints = _hints(cls)
    for key in entries:
        if key not in known:
            owners = [n for n, kind in hints.items() if is_dataclass(kind) and key in _hints(kind)]
            hint = f"; it is one of {owners[0]!r}" if owners else nearest(key, known)
            problems.append(f"{prefix}unknown key {key!r:.60}{hint}")
    for name, field in known.items():
        if name not in entries and field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{prefix}key {name!r} is missing")
    values = {
        name: _convert(hints[name], entries[name], f"{where}.{name}" if where else name, problems)
        for name in known
        if name in entries
    }
    return cls(**values) if len(problems) == before else None


def _convert_union(choices: Sequence[Any], data: object, where: str, problems: list[str]) -> object:
    if data is None and types.NoneType in choices:
        return None
    kinds = [choice for choice in choices if choice is not types.NoneType]
    if len(kinds) == 1:
        return _convert(kinds[0], data, where, problems)
    # Several scalars: the type that the JSON value has; then literals.
    for kind in kinds:
        if kind is type(data) or (get_origin(kind) is Literal and data in get_args(kind)):
            return _convert(kind, data, where, problems)
    names = (get_args(kind) if get_origin(kind) is Literal else [kind.__name__] for kind in kinds)
    listed = ", ".join(str(name) for group in names for name in group)
    problems.append(f"{where}: expected one of {listed}; got {data!r:.60}")
    return data


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
        _convert(kind, item, f"{where}[{index}]", problems)
        for index, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )

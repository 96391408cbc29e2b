"""Settings as frozen dataclasses: read strictly from JSON or text, all problems at once."""

from __future__ import annotations

import difflib
import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
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

# The news model that ships with the package: a classifier, and the biLM it is built on.
CLASSIFIER = Path(__file__).parent / "news_model"
BILM = CLASSIFIER / "bilm"


class Checked(Protocol):
    """Settings that can say what is wrong with them."""

    def problems(self) -> Iterable[str]:
        """Yield one sentence per contradiction."""
        ...


def check(*settings: Checked) -> None:
    """Raise one `ConfigError` that lists every problem of all these settings."""
    problems = [problem for checked in settings for problem in checked.problems()]
    if problems:
        raise ConfigError(problems)


def to_json(settings: object) -> Json:
    """Turn a settings dataclass into plain JSON values."""
    return asdict(cast("Any", settings))


def from_json(cls: type[T], data: object, where: str) -> T:
    """Build settings from JSON; unknown keys, missing keys and wrong types fail together.

    Args:
        cls: A dataclass whose fields are scalars, literals, tuples or such dataclasses.
        data: What `json.load` returned.
        where: Names the origin of `data` in error messages, such as a file.
    """
    problems: list[str] = []
    settings = _convert(cls, data, where, problems)
    if problems:
        raise ConfigError(problems)
    return cast("T", settings)


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
            if choice is not types.NoneType and not _problems_of(choice, value):
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
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def _problems_of(kind: Any, value: object) -> list[str]:
    problems: list[str] = []
    _convert(kind, value, "", problems)
    return problems


def _convert(kind: Any, data: object, where: str, problems: list[str]) -> object:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _convert_dataclass(cast("type[object]", kind), data, where, problems)
    if origin is Literal:
        choices = get_args(kind)
        if data not in choices:
            listed = ", ".join(map(str, choices))
            hint = nearest(str(data), map(str, choices))
            problems.append(f"{where}: expected one of {listed}; got {data!r}{hint}")
        return data
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(kind), data, where, problems)
    if origin is tuple:
        return _convert_tuple(get_args(kind), data, where, problems)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        data = float(data) if abs(data) < LARGEST_WHOLE else math.inf
    fits = isinstance(data, kind) and (kind is bool or not isinstance(data, bool))
    if not fits or (isinstance(data, float) and not math.isfinite(data)):
        problems.append(f"{where}: expected {kind.__name__}, got {data!r}")
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
    for key in entries:
        if key not in known:
            problems.append(f"{prefix}unknown key {key!r}{nearest(key, known)}")
    for name, field in known.items():
        if name not in entries and field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{prefix}key {name!r} is missing")
    hints = get_type_hints(cls)
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
    problems.append(f"{where}: expected one of {listed}; got {data!r}")
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

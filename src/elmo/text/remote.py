"""Text that is elsewhere: fsspec addresses, data sets of the Hugging Face hub.

Each becomes a file in the cache, since training reads its text several times and a resumed job must
find the same text again. Nothing is fetched unless an address or a name asks for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from elmo.errors import UserError
from elmo.files import atomic_write, cache_folder
from elmo.runtime import require_extra

HUB = "hf:"
ROWS_AT_ONCE = 1000
Address = str
"""An address that fsspec knows, such as s3://bucket/file.txt."""

log = logging.getLogger(__name__)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_address(name: str) -> bool:
    """Whether a name is an address of fsspec's rather than a local path."""
    return _SCHEME.match(name) is not None


def file_system(address: Address) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    core: Any = import_module("fsspec.core")  # where it is used: it takes a moment to import
    try:
        return core.url_to_fs(address)
    except ImportError as error:
        scheme = address.partition(":")[0].replace("https", "http")
        advice = f"run: pip install 'fsspec[{scheme}]'"
        raise UserError(f"{address}: {error}; {advice}") from None
    except ValueError as error:
        raise UserError(f"{address}: {error}") from None


def find_addresses(address: Address) -> list[Address]:
    """The files that an address, a folder or a pattern stands for, in order."""
    files, path = file_system(address)
    try:
        paths = files.find(path) if files.isdir(path) else files.glob(path)
    except OSError as error:
        raise UserError(f"{address}: cannot be read ({error})") from None
    if not paths:
        raise UserError(f"{address}: no file is there; check the address")
    return [files.unstrip_protocol(path) for path in sorted(paths)]


def fetch(address: Address) -> Path:
    """A copy of the file at an address, in the cache; fetched again when the file changes."""
    files, path = file_system(address)
    try:
        version = hashlib.sha256(f"{address} {files.ukey(path)}".encode()).hexdigest()[:20]
        copy = cache_folder() / "fetched" / version / path.rpartition("/")[2]
        if not copy.exists():
            log.info("fetching %s", address)
            with atomic_write(copy) as temporary:
                files.get_file(path, str(temporary))
    except OSError as error:
        raise UserError(f"{address}: cannot be fetched ({error})") from None
    return copy


def fetch_dataset(name: str) -> Path:
    """A split of a data set of the hub, `hf:NAME[@CONFIG][:SPLIT]`, as JSON Lines in the cache.

    NAME may be a folder with files, too. Columns are strings, whole numbers and class labels, which
    are written by name; others are left out. The default split is train.
    """
    datasets: Any = require_extra("datasets", "datasets")
    where, _, split = name.removeprefix(HUB).partition(":")
    path, _, config = where.partition("@")
    try:
        rows = datasets.load_dataset(path, config or None, split=split or "train")
    except Exception as error:  # it raises errors of the hub, of its parsers, of the network, …
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{name}: cannot be loaded ({reason:.200})") from None
    kinds = {
        column: feature
        for column, feature in rows.features.items()
        if hasattr(feature, "int2str")
        or getattr(feature, "dtype", "") in ("string", "large_string", "int64", "int32", "int8")
    }
    version = hashlib.sha256(f"{name} {rows._fingerprint}".encode()).hexdigest()[:20]
    file = cache_folder() / "datasets" / version / f"{path.replace('/', '-').strip('.-')}.jsonl"
    if not file.exists():
        with atomic_write(file) as temporary, temporary.open("w", encoding="utf-8") as stream:
            for batch in rows.select_columns(list(kinds)).iter(ROWS_AT_ONCE):
                columns = {
                    column: [
                        feature.int2str(value) if value >= 0 else "" for value in batch[column]
                    ]
                    if hasattr(feature, "int2str")
                    else batch[column]
                    for column, feature in kinds.items()
                }
                for values in zip(*columns.values(), strict=True):
                    record = dict(zip(columns, values, strict=True))
                    stream.write(json.dumps(record, ensure_ascii=False) + "\n")
    return file

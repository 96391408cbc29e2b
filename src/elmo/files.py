"""Files that are whole or not there at all: written beside, synced, renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo.errors import UserError


@contextmanager
def written_whole(path: Path) -> Generator[Path]:
    """Give a path beside `path` to write to; it takes the place of `path` when all went well."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        sync(beside)
        beside.replace(path)
        sync(path.parent)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def folder_written_whole(path: Path) -> Generator[Path]:
    """The same for a folder: its files are synced, then the folder takes its name."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        for file in sorted(beside.rglob("*")):
            sync(file)
        sync(beside)
        if path.exists():
            remove_whole(path)
        beside.replace(path)
        sync(path.parent)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def remove_whole(path: Path) -> None:
    """Delete a folder; if the process dies on the way, none of it is left under its name."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}.deleted.partial")
    path.replace(doomed)
    shutil.rmtree(doomed)


def remove_leftovers(folder: Path) -> None:
    """Delete what processes that died left half-written; nobody else may be writing here."""
    for path in sorted(folder.rglob(".*.partial"), reverse=True):
        _remove(path)


def remove_leftovers_of(path: Path) -> None:
    """The same for one file or folder, whose neighbours others may be writing."""
    name = re.compile(rf"\.{re.escape(path.name)}\.\d+(\.deleted)?\.partial")
    for other in path.parent.iterdir():
        if name.fullmatch(other.name):
            _remove(other)


def write_json(path: Path, value: object) -> None:
    """Write a value as readable JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_text(path, text)


def write_json_lines(path: Path, values: Iterable[object]) -> None:
    """Write a value a line, one after the other."""
    with written_whole(path) as beside, beside.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(value) + "\n" for value in values)


def write_text(path: Path, text: str) -> None:
    """Write a text file that is whole or not there."""
    with written_whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def read_json(path: Path, limit: int = 64 << 20) -> Any:
    """Read a JSON file of at most `limit` bytes, or say what is wrong with it."""
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected JSON; {error}") from None


def read_text(path: Path, limit: int) -> str:
    """Read a UTF-8 file of at most `limit` bytes, or say what is wrong with it."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise UserError(f"{path}: {size:,} bytes, more than the {limit:,} such a file may have")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text; {error}") from None
    except OSError as error:
        raise explained(error, path) from error


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make sure that a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def explained(error: OSError, path: Path) -> UserError:
    """Turn a failed read or write into a sentence that says what to do."""
    advice = {
        errno.ENOSPC: "the disk is full; free some space and run the same command again",
        errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
        errno.EACCES: "no permission; choose another place or change its permissions",
        errno.EPERM: "no permission; choose another place or change its permissions",
        errno.EROFS: "the file system is read-only; choose another place",
        errno.EEXIST: "a part of this path is a file, not a folder",
        errno.ENOTDIR: "a part of this path is a file, not a folder",
        errno.EISDIR: "this is a folder, a file was expected",
        errno.ENOENT: "there is no such file or folder",
    }
    return UserError(f"{path}: {advice.get(error.errno or 0, str(error))}")

"""Files and folders that appear complete or not at all, locks, and bounded reading.

Everything is written to a temporary path next to its target, synced to disk and renamed.
Temporary paths carry a mark of ours, so that leftovers of a killed process can be told from a
user's files and removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from elmo.errors import UserError

log = logging.getLogger(__name__)

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.elmo-[0-9a-f]{8}\.partial")


def cache_folder() -> Path:
    """Where prepared corpora and downloads live: $ELMO_CACHE, or ~/.cache/elmo."""
    cache = os.environ.get("ELMO_CACHE")
    return Path(cache) if cache else Path.home() / ".cache" / "elmo"


def temporary_path(path: Path) -> Path:
    """A path next to `path` that nobody else uses.

    Random rather than the process id: containers that share a folder have equal process ids.
    """
    return path.with_name(f".{path.name}.elmo-{secrets.token_hex(4)}.partial")


@contextmanager
def atomic_write(path: Path) -> Generator[Path]:
    """Yield a temporary path to write a file to; it replaces `path` if no exception is raised."""
    temporary = temporary_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_folder(path: Path) -> Generator[Path]:
    """Yield an empty temporary folder; it replaces `path` if no exception is raised."""
    temporary = temporary_path(path)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in sorted(temporary.rglob("*")):
            sync(file)
        sync(temporary)
        if path.exists():
            remove_folder(path)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder. If the process dies meanwhile, nothing is left under its name."""
    doomed = temporary_path(path)
    path.replace(doomed)
    shutil.rmtree(doomed)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete what killed processes left half-written in a folder and below it.

    With `name`, only what was to become the file or folder of that name in `folder`: others may be
    writing its neighbours. Call it with the lock held that keeps other writers away.
    """
    for path in sorted(folder.rglob(".*.partial") if name is None else folder.glob(".*.partial")):
        found = _LEFTOVER.fullmatch(path.name)
        if found and name in (None, found["name"]):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, busy: str, *, wait: bool = False) -> Generator[None]:
    """Hold the lock file `path`; it is released when the process ends, however it ends.

    Args:
        path: The lock file, created if need be, never followed as a link nor truncated.
        busy: What to tell the user if another process holds the lock.
        wait: Log `busy` and wait for the other process, rather than raise it as a `UserError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UserError(
                f"{path}: expected a lock file, but this is a link or device; delete it"
            )
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise UserError(busy) from None
            log.info(busy)
            lock.acquire()
    except OSError as error:
        raise explained(error, path) from error
    try:
        yield
    finally:
        lock.release()


def reserve_space(file: BinaryIO, size: int) -> None:
    """Make an open file `size` bytes long, so that a full disk shows before the long work."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:  # macOS and Windows: the length is set, the space may still run out later
        file.truncate(size)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    if sys.platform == "win32":
        if path.is_dir():  # Windows cannot open folders
            return
        flags = os.O_RDWR  # it syncs only what may be written
    else:
        flags = os.O_RDONLY
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_regular(path: Path) -> os.stat_result:
    """The status of a regular file. Opening a pipe or a device could block for ever."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise explained(error, path) from error
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path}: this is a folder, a file was expected")
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: expected a regular file, but this is a pipe, socket or device")
    return status


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_json_lines(path: Path, values: Iterable[object]) -> None:
    """Write one value per line."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(value) + "\n" for value in values)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, with the line ends of `text` on every system."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def read_json(path: Path, limit: int = 64 << 20) -> Any:
    """Read a JSON file of at most `limit` bytes."""
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: expected JSON; {error}") from None


def read_text(path: Path, limit: int) -> str:
    """Read a regular UTF-8 file of at most `limit` bytes."""
    size = require_regular(path).st_size
    if size > limit:
        raise UserError(f"{path}: {size:,} bytes, more than the {limit:,} such a file may have")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text; {error}") from None
    except OSError as error:
        raise explained(error, path) from error


def sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal, read in chunks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def explained(error: OSError, path: Path) -> UserError:
    """Turn a failed read or write into a message that says what to do."""
    advice = {
        errno.ENOSPC: "the disk is full; free some space and run the same command again",
        errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
        errno.EACCES: "no permission; choose another path or change its permissions",
        errno.EPERM: "no permission; choose another path or change its permissions",
        errno.EROFS: "the file system is read-only; choose another path",
        errno.EEXIST: "a part of this path is a file, not a folder",
        errno.ENOTDIR: "a part of this path is a file, not a folder",
        errno.EISDIR: "this is a folder, a file was expected",
        errno.ENOENT: "there is no such file or folder",
    }
    return UserError(f"{path}: {advice.get(error.errno or 0, str(error))}")


# The old names, until every package has been moved to the new ones.
written_whole, folder_written_whole, remove_whole = atomic_write, atomic_folder, remove_folder


def remove_leftovers_of(path: Path) -> None:
    """The same as `remove_leftovers(path.parent, path.name)`."""
    remove_leftovers(path.parent, path.name)

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
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from elmo.errors import UserError

log = logging.getLogger(__name__)

MARK = ".elmo"  # a file that makes a folder ours: elmo may replace and delete what it wrote there

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.elmo-[0-9a-f]{8}\.partial")


def cache_folder() -> Path:
    """Where prepared corpora and downloads live: $ELMO_CACHE, or elmo in the system's cache."""
    if cache := os.environ.get("ELMO_CACHE"):
        return Path(cache)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "elmo"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "elmo" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo"


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


def expanded(name: Path | str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~nobody
        raise UserError(f"'{name}': there is no user of this name; check the path") from None


def remove_folder(path: Path) -> None:
    """Delete a folder. If the process dies meanwhile, nothing is left under its name."""
    doomed = temporary_path(path)
    path.replace(doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # another process may be removing it as a leftover


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Delete what killed processes left half-written in a folder and below it.

    With `name`, only what was to become the file or folder of that name in `folder`: others may be
    writing its neighbours. Call it with the lock held that keeps other writers away.
    """
    for path in sorted(folder.rglob(".*.partial") if name is None else folder.glob(".*.partial")):
        leftover = _LEFTOVER.fullmatch(path.name)
        if leftover and name in (None, leftover["name"]):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def claim_folder(folder: Path, *, ours: bool = False) -> None:
    """Make a folder and mark it as ours; one that holds files of the user is refused.

    `ours`: it is known to be ours from before there were marks, by what is in it.
    """
    mark = folder / MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in folder.iterdir())
        for path in map(folder.joinpath, names):
            # A folder that was downloaded could make us write to any file of the user.
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                raise UserError(f"{path}: a link that leads out of the folder; delete it")
        if mark.is_file():
            return
        if names and not ours:
            raise UserError(
                f"{folder}: holds files that elmo did not write ({names[0]}, …); choose a new or "
                "empty folder"
            )
        # Not written atomically: the name says all, and a leftover would be in the way.
        with suppress(FileExistsError), mark.open("x", encoding="utf-8") as stream:
            stream.write("This folder belongs to elmo, which may replace what it wrote here.\n")
    except OSError as error:
        raise explained(error, folder) from error


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Keep other processes from writing the file `path`, and delete what killed ones left of it."""
    lock = path.with_name(f".{path.name}.elmo-lock")
    with locked(lock, f"{path}: another process is writing this file; choose another name"):
        remove_leftovers(path.parent, path.name)
        try:
            yield
        finally:
            with suppress(OSError):  # Windows cannot delete it while it is held
                lock.unlink()


@contextmanager
def locked(path: Path, busy: str, *, wait: bool = False) -> Generator[None]:
    """Hold the lock file `path`; it is released when the process ends, however it ends.

    If another process holds it, `busy` is raised as a `UserError` or, with `wait`, logged.
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


def locked_folder(folder: Path, *, ours: bool = False) -> AbstractContextManager[None]:
    """Claim a job's folder (see `claim_folder`) and keep other processes out of it."""
    claim_folder(folder, ours=ours)
    busy = f"{folder}: another process is working here; wait for it, or choose another --out"
    return locked(folder / ".lock", busy)


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
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if any("\ud800" <= sign <= "\udfff" for sign in text):  # a path that is not UTF-8
        text = json.dumps(value, indent=2)
    write_text(path, text + "\n")


def write_json_lines(path: Path, values: Iterable[object]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(value) + "\n" for value in values)


def write_text(path: Path, text: str, errors: str = "strict") -> None:
    """Write a UTF-8 file, with the line ends of `text` on every system."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors))


def read_json(path: Path, limit: int = 64 << 20) -> Any:
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
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def explained(error: OSError, path: Path) -> UserError:
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
        errno.ENAMETOOLONG: "this name is too long; choose a shorter one",
        errno.ELOOP: "this is a link; it would lead out of the folder, so delete it",
    }
    return UserError(f"{path}: {advice.get(error.errno or 0, str(error))}")

"""Files to embed wherever they are: on this machine, or at any address that fsspec knows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import UserError, require_extra
from elmo.text.sources import ReadOptions, Source, read_documents, resolve


@dataclass(frozen=True)
class SourceFile:
    """A file that any process can read: a local one, or one at an address."""

    local: Source | None = None
    address: str = ""

    def documents(self, options: ReadOptions) -> Iterator[str]:
        """Its texts in order; a file at an address is fetched first."""
        if self.local is not None:
            yield from read_documents([self.local], options)
            return
        with tempfile.TemporaryDirectory() as folder:
            yield from _fetched(self.address, Path(folder), options)


def find_files(sources: Sequence[str]) -> list[SourceFile]:
    """The files behind local names, folders and patterns, and behind addresses like s3://…"""
    found: list[SourceFile] = []
    for source in sources:
        if is_address(source):
            found += [SourceFile(address=one) for one in _files_at(source)]
        else:
            found += [SourceFile(local=one) for one in resolve([source])]
    return found


def is_address(name: str) -> bool:
    """Whether a name is an address of fsspec's rather than a local path."""
    return "://" in name


def refuse_taken(out: str) -> None:
    """Make sure, before the work begins, that nothing is there."""
    there = _exists(out) if is_address(out) else Path(out).exists()
    if there:
        raise UserError(f"{out} is there already; delete it, or choose another name")


def _exists(address: str) -> bool:
    files, path = _file_system(address)
    return files.exists(path)


def _files_at(address: str) -> list[str]:
    files, path = _file_system(address)
    try:
        paths = files.find(path) if files.isdir(path) else files.glob(path)
    except OSError as error:
        raise UserError(f"{address}: cannot be read ({error})") from None
    if not paths:
        raise UserError(f"{address}: no file is there; check the address")
    return [files.unstrip_protocol(one) for one in sorted(paths)]


def _fetched(address: str, folder: Path, options: ReadOptions) -> Iterator[str]:
    files, path = _file_system(address)
    copy = folder / path.rpartition("/")[2]
    try:
        files.get_file(path, str(copy))
        yield from read_documents(resolve([str(copy)]), options)
    except OSError as error:
        raise UserError(f"{address}: cannot be fetched ({error})") from None
    except UserError as error:
        raise UserError(str(error).replace(str(copy), address)) from None


def _file_system(address: str) -> tuple[Any, str]:
    core: Any = require_extra("fsspec.core", "ray")
    try:
        return core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UserError(f"{address}: {error}") from None

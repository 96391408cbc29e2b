"""Bytes to lines of text: plain or gzip files, UTF-8 only, with errors that name file and line."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from elmo.errors import UserError
from elmo.text.readers.options import ReadOptions

_BOM = b"\xef\xbb\xbf"


def is_gzip(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix.lower() == ".gz"


def content_suffix(path: Path) -> str:
    """Give the suffix that tells the format: in lower case, with a final `.gz` taken off."""
    return Path(path.stem if is_gzip(path) else path.name).suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Generator[BinaryIO, None, None]:
    """Open a file for reading, decompressed if need be; what goes wrong becomes a `UserError`."""
    try:
        with path.open("rb") as file:
            if is_gzip(path):
                with gzip.open(file) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield file
    # BadGzipFile is an OSError too, so it has to come first.
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"'{path}' is not a complete gzip file ({error}); copy or download it again, "
            "or take '.gz' off its name if it is not compressed"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot read '{path}': {error.strerror or error}; check the path and its permissions"
        ) from None


def read_lines(path: Path, options: ReadOptions) -> Iterator[str]:
    """Yield the lines of a text file with their line ends, without a byte order mark."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            raw = line.removeprefix(_BOM) if number == 1 else line
            if b"\0" in raw:
                raise UserError(
                    f"'{path}', line {number}: expected UTF-8 text, but there is a NUL byte, so "
                    "this is a binary file or UTF-16; convert it to UTF-8 text first"
                )
            yield _decode(raw, path, number, options)


@contextmanager
def unpacked_file(path: Path) -> Generator[Path, None, None]:
    """Give a path that holds the decompressed bytes, for formats that must seek."""
    if not is_gzip(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="elmo-") as folder:
        unpacked = Path(folder) / path.stem
        with open_bytes(path) as packed, unpacked.open("wb") as file:
            shutil.copyfileobj(packed, file)
        yield unpacked


def _decode(raw: bytes, path: Path, number: int, options: ReadOptions) -> str:
    try:
        return raw.decode("utf-8", options.errors)
    except UnicodeDecodeError as error:
        raise UserError(
            f"'{path}', line {number}: expected UTF-8, but byte {error.start + 1} of the line is "
            f"0x{raw[error.start]:02x}; convert the file to UTF-8, or use --errors replace"
        ) from None

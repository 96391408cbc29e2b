"""AG News by name: found on disk or downloaded, and freed of the damage its files carry."""

from __future__ import annotations

import html
import logging
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import regex

from elmo.errors import UserError
from elmo.files import atomic_write, cache_folder, sha256
from elmo.text.config import ReadOptions
from elmo.text.readers import TEXT_COLUMN, read_fields

_log = logging.getLogger(__name__)

NAME = "ag_news"
LABELS = ("World", "Sports", "Business", "Sci/Tech")
COLUMNS = ("label", "title", "description", TEXT_COLUMN)

_ADDRESS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_SHA256 = {
    "train": "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
    "test": "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
}
_PARTIAL = "train_partial.csv.gz"
_MORE, _DESCRIPTION_ONLY = "train_more.csv.gz", "train_more_description_only.csv.gz"
_TIMEOUT_SECONDS = 30
_NO_REPLY = (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException)

# The files have a space where every "&" was, so "&#39;" became " #39;" and "&quot;" " quot;".
# Only these names, since words such as "and;" and "part;" are names of HTML characters too.
_BROKEN_ENTITY = regex.compile(
    r"(?:(?:^|[ &])|(?<=\W))"
    r"(\#0*\d{2,5}|quot|amp|lt|gt|nbsp|apos|hellip|[mn]dash|[lr][sd]quo|bull|trade|reg|eacute);"
)
_LINE_BREAK = regex.compile(r"\\(?!\$)")
_BLOCK_TAG = regex.compile(r"</?(?:p|br|img|div|li|ul|tr|td|table)\b[^<>]*>", regex.IGNORECASE)
_INLINE_TAG = regex.compile(
    r"</?(?:a|b|i|u|em|strong|font|cite|nobr|del|span|sup|sub)\b(?!\.)[^<>]*>", regex.IGNORECASE
)


class AgNewsRow(NamedTuple):
    """One piece of news as the file has it; the label is a number from 1 to 4."""

    label: int
    title: str
    description: str


def read_ag_news(
    path: Path, columns: Sequence[str] | None, options: ReadOptions
) -> Iterator[tuple[str, ...]]:
    """Yield cleaned columns of AG News; None asks for the text the options choose.

    Of a partial training file, the further rows next to it are read too; those without a title
    only where descriptions are the text.
    """
    names = (TEXT_COLUMN,) if columns is None else tuple(columns)
    if unknown := set(names).difference(COLUMNS):
        raise UserError(
            f"AG News has no column {sorted(unknown)[0]!r}; choose from {', '.join(COLUMNS)}"
        )
    rows = chain.from_iterable(
        read_rows(file, options)
        for file in files_of(path)
        if file.name != _DESCRIPTION_ONLY or options.ag_news_text == "description"
    )
    for row in rows:
        title, description = clean(row.title), clean(row.description)
        values = {
            "label": LABELS[row.label - 1],
            "title": title,
            "description": description,
            TEXT_COLUMN: {
                "title": title,
                "description": description,
                "both": options.separator.join(part for part in (title, description) if part),
            }[options.ag_news_text],
        }
        yield tuple(values[name] for name in names)


def files_of(path: Path) -> list[Path]:
    """The files that are read for `path`: of a partial training file, also those next to it."""
    more = [path.with_name(name) for name in (_MORE, _DESCRIPTION_ONLY)]
    return [path, *(file for file in more if path.name == _PARTIAL and file.is_file())]


def read_rows(path: Path, options: ReadOptions | None = None) -> Iterator[AgNewsRow]:
    """Yield the rows of a file of class, title and description without header."""
    errors = (options or ReadOptions()).errors
    for line, fields in read_fields(path, ReadOptions(errors=errors), delimiter=","):
        if len(fields) != 3 or fields[0] not in ("1", "2", "3", "4"):
            raise UserError(
                f"'{path}', line {line}: expected class (1 to 4), title and description, "
                f"but there is {fields!r:.80}; download the file again"
            )
        yield AgNewsRow(int(fields[0]), fields[1], fields[2])


def clean(text: str) -> str:
    """Undo what the making of the files did: lost ampersands, HTML, backslashes, wide spaces."""
    text = _LINE_BREAK.sub(" ", text).replace("\\$", "$")
    text = html.unescape(_BROKEN_ENTITY.sub(r"&\1;", text))
    text = _INLINE_TAG.sub("", _BLOCK_TAG.sub(" ", text))
    return " ".join(text.split())


def locate(name: str) -> Path:
    """Find or download the file that `ag_news`, `ag_news:train` or `ag_news:test` names."""
    split = name.partition(":")[2] or "train"
    if split not in _SHA256:
        raise UserError(f"AG News has no part {split!r}; use ag_news:train or ag_news:test")
    cached = cache_folder() / NAME / f"{split}.csv"
    candidates = [cached]
    if data := os.environ.get("ELMO_DATA"):
        names = [cached.name, *([_PARTIAL] if split == "train" else [])]
        candidates = [*(Path(data) / NAME / name for name in names), cached]
    for path in candidates:
        if path.is_file():
            note = ""
            if path.name == _PARTIAL:
                files = " and ".join(str(file.name) for file in files_of(path)[1:])
                note = f"{f' and {files}' if files else ''}: a part of the 120,000 training rows"
            _log.info("AG News (%s) is read from %s%s", split, path, note)
            return path
    _download(split, cached)
    return cached


def _download(split: str, target: Path) -> None:
    address = f"{_ADDRESS}{target.name}"
    _log.info("AG News (%s) is downloaded from %s to %s", split, address, target)
    with atomic_write(target) as temporary:
        try:
            # The address is a constant with https, never anything a user typed.
            with (
                urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as reply,  # noqa: S310
                temporary.open("wb") as file,
            ):
                shutil.copyfileobj(reply, file)
        except _NO_REPLY as error:
            raise UserError(
                f"AG News is not on this machine and could not be downloaded from {address} "
                f"({error}); fetch {target.name} elsewhere and put it at '{target}', "
                "or into the folder ag_news of the folder that ELMO_DATA names"
            ) from None
        checksum = sha256(temporary)
        if checksum != _SHA256[split]:
            raise UserError(
                f"what came from {address} is not AG News: expected SHA-256 {_SHA256[split]}, got "
                f"{checksum}; try again later or fetch the file elsewhere"
            )

"""AG News by name: found on disk or downloaded, and freed of the damage its files carry."""

from __future__ import annotations

import hashlib
import html
import logging
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import regex

from elmo.errors import UserError
from elmo.files import atomic_write, cache_folder
from elmo.text.config import ReadOptions
from elmo.text.readers import TEXT_COLUMN, read_fields

_log = logging.getLogger(__name__)

NAME = "ag_news"
LABELS = ("World", "Sports", "Business", "Sci/Tech")
COLUMNS = ("label", "title", "description", TEXT_COLUMN)

_ADDRESS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_MD5 = {
    "train": "b1a00f826fdfbd249f79597b59e1dc12",
    "test": "d52ea96a97a2d943681189a97654912d",
}
_PARTIAL = "train_partial.csv.gz"
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
    """Yield cleaned columns of an AG News file; None asks for the text the options choose."""
    names = (TEXT_COLUMN,) if columns is None else tuple(columns)
    if unknown := set(names).difference(COLUMNS):
        raise UserError(
            f"AG News has no column {sorted(unknown)[0]!r}; choose from {', '.join(COLUMNS)}"
        )
    for row in read_rows(path, options):
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
    if split not in _MD5:
        raise UserError(f"AG News has no part {split!r}; use ag_news:train or ag_news:test")
    cached = cache_folder() / NAME / f"{split}.csv"
    candidates = [cached]
    if data := os.environ.get("ELMO_DATA"):
        names = [cached.name, *([_PARTIAL] if split == "train" else [])]
        candidates = [*(Path(data) / NAME / name for name in names), cached]
    for path in candidates:
        if path.is_file():
            note = ", which holds only a part of the training rows" if path.name == _PARTIAL else ""
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
        with temporary.open("rb") as file:
            # MD5 is what has been published for these files; it guards against damage, not malice.
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if md5 != _MD5[split]:
            raise UserError(
                f"what came from {address} is not AG News: expected MD5 {_MD5[split]}, got {md5}; "
                "try again later or fetch the file elsewhere"
            )

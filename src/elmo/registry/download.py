"""One file over HTTP: resumed where it broke off, from several mirrors, within limits, checked.

On urllib, after trying what exists. pooch fetches a file that breaks off from its first byte again,
knows one address per file, and either a checksum or none, but no trust on first use.
huggingface_hub resumes, but from its own hosts only. With either, all but the request itself would
still be here, with a dependency more.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import elmo
from elmo.config import Json
from elmo.errors import UserError
from elmo.files import explained, read_json, sha256, sync, write_json

log = logging.getLogger(__name__)

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""
ATTEMPTS = 4
"""How often one address is asked; each time the download resumes."""
PAUSE = 1.0
"""Seconds before the second attempt; twice as many before each later one."""
CHUNK = 1 << 18
TRANSIENT = (408, 425, 429)
"""Status codes that may change a little later; so may all from 500 on."""

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes received so far, and with all that will come if that is known."""


class UnreachableError(Exception):
    """This address will not give the file."""


class BrokenOffError(Exception):
    """This address did not give the whole file; it may next time."""


def download(
    addresses: Sequence[str],
    target: Path,
    *,
    limit: int,
    checksums: Mapping[str, str] | None = None,
    what: str = "",
    advice: str = "",
) -> tuple[str, str]:
    """Download a file to `target` from the first of several mirrors that has it.

    What a killed or failed download has received is kept next to `target` and used again.

    Args:
        addresses: Mirrors, in the order in which they are tried.
        target: The file; its folder exists, and no other process writes it.
        limit: The most bytes that it may have.
        checksums: Expected ones in hexadecimal, by the name that hashlib knows: sha256, md5, …
        what: What is downloaded, for the progress bar and for messages.
        advice: What to do if no address gives the file.

    Returns:
        The address that gave it, and its SHA-256.
    """
    reasons: list[str] = []
    partial, note = (target.with_name(target.name + end) for end in (".part", ".part.json"))
    for address in addresses:
        try:
            with _progress(what or target.name) as on_bytes:
                _from_address(address, partial, note, limit, on_bytes)
            digest = _checked(partial, checksums or {})
        except (UnreachableError, BrokenOffError) as error:
            log.warning("%s: %s", address, error)
            reasons.append(f"{address}: {error}")
            continue
        except OSError as error:
            raise explained(error, target) from error
        sync(partial)
        partial.replace(target)
        note.unlink(missing_ok=True)
        return address, digest
    tried = "\n  ".join(reasons)
    raise UserError(
        f"{what or target.name}: no address gave the file\n  {tried}"
        + (f"\n{advice}" if advice else "")
    )


def _checked(partial: Path, checksums: Mapping[str, str]) -> str:
    """The SHA-256 of a download; one that is not what was expected is deleted."""
    try:
        with partial.open("rb") as stream:
            start = stream.read(512).lstrip().lower()
        if start.startswith((b"<!doctype html", b"<html")):
            raise UnreachableError("answers with a web page, not with the file")
        for algorithm, expected in checksums.items():
            with partial.open("rb") as stream:
                digest = hashlib.file_digest(stream, algorithm).hexdigest()
            if digest != expected.lower():
                raise UnreachableError(
                    f"gives another file: its {algorithm} is {digest}, expected {expected.lower()}"
                )
    except UnreachableError:
        partial.unlink()
        raise
    return sha256(partial)


def _from_address(address: str, partial: Path, note: Path, limit: int, on_bytes: OnBytes) -> None:
    """Ask one address until the file is whole, a few times at most."""
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            return _receive(address, partial, note, limit, on_bytes)
        except BrokenOffError as error:
            log.info("%s: %s", address, error)
            reason = str(error)
    kept = partial.stat().st_size if partial.exists() else 0
    resumes = f"; {kept:,} bytes are kept, and the same command resumes" if kept else ""
    raise BrokenOffError(f"{reason}, {ATTEMPTS} times{resumes}")


def _receive(address: str, partial: Path, note: Path, limit: int, on_bytes: OnBytes) -> None:
    """One request: the rest of what is there already, or all of the file."""
    earlier: Json = {}
    with suppress(UserError):
        earlier = read_json(note, 1 << 16)
    validator, have = earlier.get("validator"), 0
    if earlier.get("address") == address and validator and partial.exists():
        have = partial.stat().st_size
    if have and have == earlier.get("total"):
        return
    headers = {"User-Agent": f"elmo/{elmo.__version__}", "Accept-Encoding": "identity"}
    if have:  # the rest, if it is still the same file; else all of it
        headers |= {"Range": f"bytes={have}-", "If-Range": str(validator)}
    with _request(address, headers) as response:
        length = response.headers.get("Content-Length")
        if response.status == http.HTTPStatus.PARTIAL_CONTENT:
            ranged = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
            if not ranged or int(ranged[1]) != have:
                partial.unlink(missing_ok=True)
                raise BrokenOffError("answered with another part of the file than was asked for")
        else:
            have = 0
        total = have + int(length) if length and length.isdigit() else None
        if (total or 0) > limit:
            raise UnreachableError(f"has {total:,} bytes, more than the {limit:,} allowed for it")
        if (total or 0) - have > (free := shutil.disk_usage(partial.parent).free):
            raise UserError(
                f"{partial.parent}: {total:,} bytes are to come, but the disk has {free:,} left; "
                "free some space, or set ELMO_CACHE to a folder on another disk"
            )
        write_json(note, {"address": address, "validator": _validator(response), "total": total})
        with partial.open("ab" if have else "wb") as stream:
            while True:
                try:
                    chunk = response.read(CHUNK)
                except (OSError, http.client.HTTPException) as error:
                    raise BrokenOffError(
                        f"broke off after {have:,} bytes ({_told(error)})"
                    ) from None
                if not chunk:
                    break
                have += len(chunk)
                if have > limit:
                    partial.unlink()
                    raise UnreachableError(f"gives more than the {limit:,} bytes allowed for it")
                stream.write(chunk)
                on_bytes(have, total)
    if total is not None and have != total:
        raise BrokenOffError(f"broke off after {have:,} of {total:,} bytes")


def _validator(response: Any) -> str | None:
    """What tells this version of a file from another: a strong ETag, or its date."""
    tag = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


@contextmanager
def _request(address: str, headers: Mapping[str, str]) -> Generator[Any]:
    """An open answer; otherwise an error that says in a few words what went wrong."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise UnreachableError("not an http:// or https:// address")
    request = urllib.request.Request(address, headers=dict(headers))  # noqa: S310 - checked above
    try:
        response = _opener().open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            reason = f"HTTP {error.code} {error.reason}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            headers = {key: value for key, value in headers.items() if "Range" not in key}
            with _request(address, headers) as whole:
                yield whole
            return
        if error.code in TRANSIENT or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise BrokenOffError(reason) from None
        raise UnreachableError(reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise BrokenOffError(_told(error)) from None
    except ValueError as error:
        raise UnreachableError(str(error)) from None
    with response:
        yield response


def _told(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(reason) or type(reason).__name__


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the web only, and never from an encrypted address to an open one."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(str(req.full_url)).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise UnreachableError(f"leads to {newurl:.200}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Knows HTTP only: the default one would also open files of this machine."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor, _Redirects,
        urllib.request.UnknownHandler,
    ):  # fmt: skip
        opener.add_handler(cast("Any", handler)())
    return opener


def read_address(address: str, limit: int) -> bytes:
    """The content of a small answer, such as that of an API."""
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            with _request(address, {"User-Agent": f"elmo/{elmo.__version__}"}) as response:
                content = cast("bytes", response.read(limit + 1))
        except (BrokenOffError, OSError, http.client.HTTPException) as error:
            reason = _told(error)
            continue
        except UnreachableError as error:
            raise UserError(f"{address}: {error}") from None
        if len(content) > limit:
            raise UserError(f"{address}: answers with more than {limit:,} bytes")
        return content
    raise UserError(f"{address}: {reason}, {ATTEMPTS} times")


@contextmanager
def _progress(what: str) -> Generator[OnBytes]:
    """A progress bar on a terminal, a line per tenth in a log; nothing with --quiet."""
    if not sys.stderr.isatty() or logging.getLogger("elmo").level > logging.INFO:
        told = -1

        def on_bytes(done: int, total: int | None) -> None:
            nonlocal told
            tenth = 10 * done // total if total else 0
            if tenth > told:
                told = tenth
                of = f" of {total / 1e6:,.1f} MB" if total else ""
                log.info("downloading %s: %.1f MB%s", what, done / 1e6, of)

        yield on_bytes
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

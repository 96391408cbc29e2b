"""Texts in files to Parquet files of vectors, on any number of machines, with Ray Data.

Our own readers read the files, so that each row is what it is on one machine, and its number among
all texts goes with it. Ray moves the blocks, and does again what a lost worker has done.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, tokenised
from elmo.embed.files import stack_rows, vector_table
from elmo.errors import UserError, require_extra
from elmo.files import atomic_folder
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, read_documents, resolve

# Files to embed wherever they are: on this machine, or at any address that fsspec knows.


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


TEXTS_A_BLOCK = 1024
"""What a worker encodes at once, and what is done again when it is lost."""
BOOKED_CPUS = 0.01
"""What a worker books of a core, though it uses one: if all cores were booked for as long as
workers live, nothing could be read or written beside them, and all would wait for ever."""


@dataclass(frozen=True)
class EmbeddedFolder:
    """A folder of Parquet files that was written."""

    path: str
    texts: int
    dim: int


def embed_with_ray(
    embedder: Embedder,
    sources: Sequence[str] | str,
    out: Path | str,
    config: EncodeConfig | None = None,
    *,
    read: ReadOptions | None = None,
    workers: int | None = None,
) -> EmbeddedFolder:
    """Write the vectors of files, or of fsspec addresses, to a folder of Parquet files.

    Columns are those of `embed_text`'s Parquet file; sorted by `id`, so are the rows. `workers` is
    how many processes hold the model; default: one per core of the cluster.
    """
    ray: Any = require_extra("ray", "ray")
    require_extra("ray.data", "ray")
    config, read = config or EncodeConfig(), read or ReadOptions()
    encoder = embedder.encoder(config)
    if config.start == "carry":
        raise UserError("start: a state carried from text to text cannot be divided among workers")
    refuse_taken(str(out))
    files = find_files([sources] if isinstance(sources, str) else list(sources))
    _connect(ray)
    with _users_mistakes_told():
        counts = _count(ray, files, read)
        vectors = _numbered(ray, files, counts, read).map_batches(
            _Worker,
            fn_constructor_args=(ray.put(embedder), config),
            batch_size=TEXTS_A_BLOCK,
            batch_format="pyarrow",
            concurrency=workers or max(1, int(ray.cluster_resources()["CPU"])),
            num_cpus=BOOKED_CPUS,
            scheduling_strategy="SPREAD",
        )
        _write(vectors, str(out))
    return EmbeddedFolder(str(out), sum(counts), encoder.dim)


class _Worker:
    """A process of Ray that has the model, and encodes one block after the other."""

    def __init__(self, embedder: Any, config: EncodeConfig) -> None:
        ray: Any = require_extra("ray", "ray")
        torch.set_num_threads(1)
        self._embedder: Embedder = ray.get(embedder)
        self._config = config

    def __call__(self, rows: Any) -> Any:
        ids: list[int] = rows["id"].to_pylist()
        texts = list(tokenised(self._embedder.loaded, rows["text"].to_pylist(), first=ids[0]))
        pooled = self._config.output == "pooled"
        vectors = self._embedder.encoder(self._config).encode([text.words for text in texts])
        return vector_table(ids, texts, stack_rows(vectors, pooled=pooled), pooled=pooled)


def _count(ray: Any, files: Sequence[SourceFile], read: ReadOptions) -> list[int]:
    """How many texts each file has: only then can the texts of the next one be numbered."""

    def count(row: dict[str, int]) -> dict[str, int]:
        return {**row, "texts": sum(1 for _ in files[row["file"]].documents(read))}

    counted: Any = _one_row_a_file(ray, len(files)).map(count)
    return [row["texts"] for row in sorted(counted.take_all(), key=lambda row: row["file"])]


def _numbered(
    ray: Any, files: Sequence[SourceFile], counts: Sequence[int], read: ReadOptions
) -> Any:
    """A Ray dataset of all texts, each with its number, in blocks for the workers."""
    first = [0, *accumulate(counts)]

    def texts(row: dict[str, int]) -> Iterator[dict[str, Any]]:
        documents = files[row["file"]].documents(read)
        for number, text in enumerate(documents, start=first[row["file"]]):
            yield {"id": number, "text": text}

    found: Any = _one_row_a_file(ray, len(files)).flat_map(texts)
    return found.repartition(target_num_rows_per_block=TEXTS_A_BLOCK)


def _one_row_a_file(ray: Any, number: int) -> Any:
    return ray.data.from_items([{"file": place} for place in range(number)])


def _write(vectors: Any, out: str) -> None:
    if is_address(out):
        vectors.write_parquet(out)
        return
    with atomic_folder(Path(out)) as temporary:
        vectors.write_parquet(str(temporary))


def _connect(ray: Any) -> None:
    """Join the cluster that $RAY_ADDRESS names, or start one on this machine."""
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)


@contextmanager
def _users_mistakes_told() -> Generator[None]:
    """What a task raises comes back as a report with its traceback: a user's mistake is told so."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        found = re.findall(r"^elmo\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
        if not found:
            raise
        raise UserError(found[-1]) from None

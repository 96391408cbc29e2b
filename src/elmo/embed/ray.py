"""Texts in files to Parquet files of vectors, on any number of machines, with Ray Data.

Our own readers read the files, so each row is what it is on one machine, and its index among all
texts goes with it. Ray moves the blocks, and repeats what a lost worker has done.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, tokenised
from elmo.embed.files import stack_rows, vector_table
from elmo.errors import UserError
from elmo.files import atomic_folder
from elmo.runtime import require_extra
from elmo.text.config import ReadOptions
from elmo.text.remote import fetch, file_system, find_addresses, is_address
from elmo.text.sources import Source, read_documents, resolve

TEXTS_PER_BLOCK = 1024  # what a worker encodes at once, and what is repeated when it is lost
BOOKED_CPUS = 0.01
"""What a worker books of a core, though it uses one: if all cores were booked for as long as
workers live, none would be left to read and write, and all would wait for ever."""

File = Source | str  # or an address that fsspec knows, such as s3://…; any process can read either


class EmbeddedFolder(NamedTuple):
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
    config, read, out = config or EncodeConfig(), read or ReadOptions(), str(out)
    encoder = embedder.encoder(config)
    if config.initial_state == "carry":
        raise UserError("initial_state: a carried state cannot be divided among workers")
    refuse_existing(out)
    files = find_files([sources] if isinstance(sources, str) else list(sources))
    if not ray.is_initialized():  # the cluster that $RAY_ADDRESS names, or one on this machine
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)

    def count(row: dict[str, int]) -> dict[str, int]:
        return {**row, "texts": sum(1 for _ in read_file(files[row["file"]], read))}

    def texts(row: dict[str, int]) -> Iterator[dict[str, Any]]:
        documents = read_file(files[row["file"]], read)
        for idx, text in enumerate(documents, start=first[row["file"]]):
            yield {"id": idx, "text": text}

    # The weights themselves: another machine may not have the model's folder.
    parts = ray.put((embedder.loaded, embedder.mix))
    try:
        rows = ray.data.from_items([{"file": idx} for idx in range(len(files))])
        # Only when the texts of a file are counted are the indices of the next ones known.
        counts = sorted(rows.map(count).take_all(), key=lambda row: row["file"])
        first = [0, *accumulate(row["texts"] for row in counts)]
        blocks = rows.flat_map(texts).repartition(target_num_rows_per_block=TEXTS_PER_BLOCK)
        vectors = blocks.map_batches(
            Worker,
            fn_constructor_args=(parts, config),
            batch_size=TEXTS_PER_BLOCK,
            batch_format="pyarrow",
            concurrency=workers or max(1, int(ray.cluster_resources()["CPU"])),
            num_cpus=BOOKED_CPUS,
            scheduling_strategy="SPREAD",
        )
        if is_address(out):
            vectors.write_parquet(out)
        else:
            with atomic_folder(Path(out)) as temporary:
                vectors.write_parquet(str(temporary))
    except UserError:
        raise
    except Exception as error:
        # What a task raises comes back as a report with its traceback in it.
        messages = re.findall(r"^elmo\.errors\.\w+: (.*)$", str(error), re.MULTILINE)
        if not messages:
            raise
        raise UserError(messages[-1]) from None
    return EmbeddedFolder(out, first[-1], encoder.dim)


class Worker:
    """A Ray actor that holds the model and encodes one block after the other."""

    def __init__(self, parts: Any, config: EncodeConfig) -> None:
        ray: Any = require_extra("ray", "ray")
        torch.set_num_threads(1)
        loaded, mix = ray.get(parts)
        self._embedder = Embedder(loaded, mix=mix)
        self._config = config

    def __call__(self, block: Any) -> Any:
        ids, texts = block["id"].to_pylist(), block["text"].to_pylist()
        words = [text.words for text in tokenised(self._embedder.loaded, texts, first=ids[0])]
        pooled = self._config.output == "pooled"
        vectors = self._embedder.encoder(self._config).encode(words)
        rows = stack_rows(vectors, pooled=pooled)
        return vector_table(ids, texts, list(map(json.dumps, words)), rows, pooled=pooled)


# Files wherever they are: on this machine, or at any address that fsspec knows.


def find_files(sources: Sequence[str]) -> list[File]:
    """The files that local names, folders, patterns and addresses stand for."""
    files: list[File] = []
    for source in sources:
        files += find_addresses(source) if is_address(source) else resolve([source])
    return files


def read_file(file: File, options: ReadOptions) -> Iterator[str]:
    """The texts of a file in order; one at an address is fetched to the cache of this machine."""
    if isinstance(file, Source):
        yield from read_documents([file], options)
        return
    copy = str(fetch(file))
    try:
        yield from read_documents(resolve([copy]), options)
    except UserError as error:  # a message names the address, not the copy
        raise UserError(str(error).replace(copy, file)) from None


def refuse_existing(out: str) -> None:
    if is_address(out):
        files, path = file_system(out)
        exists = files.exists(path)
    else:
        exists = Path(out).exists()
    if exists:
        raise UserError(f"{out} exists already; delete it, or choose another name")

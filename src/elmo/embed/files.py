"""Vectors in files: .npz, .parquet, .h5 or .hdf5, of any size, written by jobs that can be resumed.

`embed_text` appends columns to a journal, the folder OUT.unfinished, and makes the file of them at
the end. No format could be written as the job goes: after a kill neither Parquet (its index is at
the end) nor HDF5 (it rewrites B-trees in place) can be appended to, and the head of an .npz file
holds the number of rows and a checksum.

npz      vectors: one row per text (pooled) or per word (tokens), float32; for layer="all" rows are
         (layers, dim); offsets: the words of text i are rows offsets[i] to offsets[i + 1] (tokens);
         lengths: words per text; a pooled text without words has zeros for a vector;
         texts: UTF-8, text i is the bytes text_offsets[i] to text_offsets[i + 1];
         words: the same with word_offsets, the words of each text as a JSON list
parquet  id, text, tokens, vector: one row per text; vectors are lists (of words) (of layers)
npy      the rows of vectors alone, as in npz
csv, tsv text, word (tokens), then a column per number; for other programs, see `embed/tables.py`
h5       "0", "1", …: one dataset per text, (dim,) or (words, dim), for all layers (layers, …);
         "sentences": the texts; "words": the words of each as a JSON list

`embed_words` writes one vector per word: npz with vectors and words, Parquet with word and vector,
HDF5 with "embedding" as the original programs read it and the words in a .txt file next to it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState, token_vectors
from elmo.config import Json, to_json
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import (
    Embedder,
    Listener,
    Pace,
    TokenisedText,
    Vectors,
    chunks_of,
    tell_empty,
    tokenised,
)
from elmo.errors import UserError
from elmo.files import (
    MARK,
    atomic_write,
    claim_folder,
    explained,
    locked,
    read_json,
    remove_folder,
    remove_leftovers,
    sync,
    write_json,
    write_text,
    writing,
)
from elmo.language_model import UnknownWords
from elmo.model_folder import load_tensors, save_tensors
from elmo.official.format import DATASET, read_any_words
from elmo.runtime import require_extra
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.vocabulary import UNKNOWN
from elmo.training.checkpoint import check_same_job

SUFFIXES = (".npz", ".parquet", ".h5", ".hdf5", ".npy", ".csv", ".tsv")
TOKENS_PER_CHUNK = 1 << 16  # what a killed job loses at most, and about what is held in memory
JOURNAL_FORMAT = 4
Columns = Mapping[str, NDArray[Any]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedFile:
    path: Path
    texts: int
    tokens: int
    dim: int
    empty: tuple[int, ...] = ()  # indices, from 0, of the texts without words
    unknown_rate: float | None = None  # of the words; None if the model has no vocabulary


def check_vector_file(path: Path, *, words: bool = False) -> None:
    """Raise a `UserError` if a file of this name cannot be written, of texts or single words."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: expected a name that ends in one of {', '.join(SUFFIXES)}")
    is_h5, names = path.suffix in (".h5", ".hdf5"), path.with_suffix(".txt")
    if path.suffix == ".parquet":
        require_extra("pyarrow", "parquet")
    elif is_h5:
        require_extra("h5py", "official")
    # Of a process that was killed while it removed its journal: the file may be whole by then.
    remove_leftovers(path.parent, f"{path.name}.unfinished")
    if path.exists():
        raise UserError(f"{path} exists already; delete it, or choose another name")
    if words and is_h5 and names.exists():
        raise UserError(
            f"{names}, where the words would go, exists already; delete it, or choose another name"
        )


# Texts.


def embed_text(
    embedder: Embedder,
    sources: Sequence[str] | str,
    out: Path | str,
    config: EncodeConfig | None = None,
    *,
    read: ReadOptions | None = None,
    fresh: bool = False,
    progress: Listener | None = None,
) -> EmbeddedFile:
    """Write the vectors of the texts in files to a vector file; see `Embedder.encode_files`.

    The same call resumes after a kill, and the file has the same bytes as without one. Progress
    does not tell the number of texts, because the sources are read only once.
    """
    out, config, read = Path(out), config or EncodeConfig(), read or ReadOptions()
    folder = Path(f"{out}.unfinished")
    if not folder.exists():
        check_vector_file(out)
    files = resolve(sources)
    encoder, carried = embedder.encoder(config), config.initial_state == "carry"
    warm = embedder.warm_state.tensors() if config.initial_state == "warm" else {}
    job: Json = {
        "journal_format": JOURNAL_FORMAT,
        "tokens_per_chunk": TOKENS_PER_CHUNK,
        "file_format": out.suffix,
        "model": tensor_digest(embedder.model.state_dict(), embedder.model.vocabulary.words),
        "model_settings": to_json(embedder.model.config),
        "mix": tensor_digest(embedder.mix.state_dict()),
        "mix_settings": to_json(embedder.mix.config),
        "start_state": tensor_digest(warm),
        "tokenizer": to_json(embedder.loaded.tokenizer),
        "precision": str(embedder.model.compute_dtype),
        "texts": [file.fingerprint() for file in files],
        "read": to_json(read),
        **to_json(config),
    }
    job = json.loads(json.dumps(job))
    busy = f"{out}: another process is writing this file; wait for it, or choose another name"
    claim_folder(folder)
    with locked(folder / Journal.LOCK, busy):
        claim_folder(folder, ours=True)  # a process that just finished may have deleted it
        remove_leftovers(folder)
        # An existing file was finished by a process that was killed before it removed these.
        for path in folder.iterdir() if fresh or out.exists() else ():
            if path.name not in (Journal.LOCK, MARK):
                path.unlink()
        try:
            check_vector_file(out)
            with closing(Journal(folder, job, encoder.row_shape)) as journal:
                documents = read_documents(files, read)
                journal.skip_texts(documents)
                if carried and journal.state.exists():
                    encoder.state = _load_state(journal.state, encoder.model)
                pace = None if progress is None else Pace(progress, None, journal.texts)
                texts = tokenised(embedder.loaded, documents, first=journal.texts)
                for chunk in chunks_of(texts, TOKENS_PER_CHUNK, config.slots):
                    tell_empty(chunk, embedder.model)
                    vectors = encoder.encode([text.words for text in chunk], pace and pace.add)
                    journal.append(chunk, vectors, encoder.state if carried else None)
                unknown = UnknownWords(embedder.loaded.vocabulary)
                for words in strings(journal.columns(), "word"):
                    unknown.add(json.loads(words))
                unknown.tell()
                if job["texts"] != [file.fingerprint() for file in files]:
                    raise UserError(f"a source of {out} changed while it was read; run it again")
                empty = journal.finish(out)
        except OSError as error:
            raise explained(error, out) from error
        finally:
            if out.exists() or not (folder / Journal.PROGRESS).exists():  # nothing to resume
                try:
                    remove_folder(folder)
                except OSError:  # Windows cannot rename a folder while the lock in it is held
                    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # Windows cannot delete a folder while the lock in it is held
        folder.rmdir()
    counts = journal.texts, journal.tokens, encoder.dim
    return EmbeddedFile(out, *counts, tuple(empty), unknown.rate)


def _load_state(path: Path, model: BiLM) -> BiLMState:
    tensors = {name: tensor.to(model.device) for name, tensor in load_tensors(path).items()}
    sizes = {name: tensor.shape[1:] for name, tensor in model.zero_state(1).tensors().items()}
    if {name: tensor.shape[1:] for name, tensor in tensors.items()} != sizes:
        raise UserError(f"{path} is not a state of this model; use --fresh to start over")
    return BiLMState.from_tensors(tensors)


def tensor_digest(tensors: Mapping[str, Tensor], words: Sequence[str] = ()) -> str:
    """SHA-256 of named tensors, such as the weights of a model, and of words."""
    digest = hashlib.sha256(json.dumps([list(tensors), words]).encode())
    for tensor in tensors.values():
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Journal:
    """Columns on their way to a file, each appended to a file of its own.

    A chunk counts once `progress.json` is replaced; what a killed process wrote after that is cut
    off when the journal is opened again.
    """

    LOCK, PROGRESS, FINISHED = ".lock", "progress.json", "finished"
    COLUMNS = MappingProxyType(
        {"vectors": "<f4", "lengths": "<i8", "texts": "|u1", "text_sizes": "<i8", "words": "|u1",
         "word_sizes": "<i8"}
    )  # fmt: skip

    def __init__(self, folder: Path, job: Json, row_shape: tuple[int, ...]) -> None:
        self.folder, self.job, self.row_shape = folder, job, row_shape
        self.pooled = job["output"] == "pooled"
        self.texts = self.tokens = 0
        sizes = dict.fromkeys(self.COLUMNS, 0)
        damaged = UserError(f"{folder}: damaged; use --fresh, or delete it, to start over")
        if (folder / self.PROGRESS).exists():
            try:
                record = read_json(folder / self.PROGRESS)
                check_same_job(folder, record["job"], job)
                self.texts, self.tokens = int(record["texts"]), int(record["tokens"])
                sizes = {name: int(record["bytes"][name]) for name in self.COLUMNS}
            except (KeyError, TypeError, AttributeError):
                raise damaged from None
            log.info("resuming after %s texts of an earlier run", f"{self.texts:,}")
        paths = {name: folder / name for name in self.COLUMNS}
        if any(size and paths[name].stat().st_size < size for name, size in sizes.items()):
            raise damaged
        self._files = {name: path.open("ab") for name, path in paths.items()}
        for name, file in self._files.items():
            file.truncate(sizes[name])

    def skip_texts(self, documents: Iterator[str]) -> None:
        """Read past the texts that are done, and make sure that they are still the same."""
        for number, text in enumerate(strings(self.columns(), "text")):
            if next(documents, None) != text:
                raise UserError(
                    f"text {number} is not the one that {self.folder} has vectors of; use --fresh, "
                    "or delete the folder, to start over"
                )

    @property
    def state(self) -> Path:
        """Where the state after the last text is, if it is carried."""
        return self.folder / f"state-{self.texts}.safetensors"

    def append(
        self, chunk: Sequence[TokenisedText], vectors: Sequence[Vectors], state: BiLMState | None
    ) -> None:
        """Add texts with their vectors, as `encode` returns them, and the state after them."""
        texts = [_utf8(str(text.text)) for text in chunk]
        words = [_utf8(json.dumps(text.words, ensure_ascii=False)) for text in chunk]
        lengths = [len(text.words) for text in chunk]
        columns = {
            "vectors": stack_rows(vectors, pooled=self.pooled).astype("<f4", copy=False).tobytes(),
            "lengths": np.array(lengths, "<i8").tobytes(),
            "texts": b"".join(texts),
            "text_sizes": np.array([len(text) for text in texts], "<i8").tobytes(),
            "words": b"".join(words),
            "word_sizes": np.array([len(text) for text in words], "<i8").tobytes(),
        }
        for name, file in self._files.items():
            file.write(columns[name])
            file.flush()
            os.fsync(file.fileno())
        outdated = self.state
        self.texts += len(chunk)
        self.tokens += sum(lengths)
        if state is not None:
            save_tensors(self.state, state.tensors())
        sizes = {name: os.fstat(file.fileno()).st_size for name, file in self._files.items()}
        record = {"texts": self.texts, "tokens": self.tokens, "bytes": sizes, "job": self.job}
        write_json(self.folder / self.PROGRESS, record)
        outdated.unlink(missing_ok=True)

    def columns(self) -> dict[str, NDArray[Any]]:
        """What an .npz file holds; read from disk where it is used."""

        def mapped(name: str) -> NDArray[Any]:
            path, dtype = self.folder / name, self.COLUMNS[name]
            return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)

        columns = {"vectors": mapped("vectors").reshape(-1, *self.row_shape)}
        columns["lengths"] = mapped("lengths")
        if not self.pooled:
            columns["offsets"] = _offsets(columns["lengths"])
        for name in ("text", "word"):
            columns |= {f"{name}s": mapped(f"{name}s")}
            columns |= {f"{name}_offsets": _offsets(mapped(f"{name}_sizes"))}
        return columns

    def close(self) -> None:
        """Close the files; what was appended is on disk already."""
        for file in self._files.values():
            with suppress(OSError):  # a full disk, told when the chunk was written
                file.close()

    def finish(self, out: Path) -> list[int]:
        """Write the file `out`, complete or not at all; the indices of the texts without words."""
        columns = self.columns()
        lengths, rows = columns["lengths"], len(columns["vectors"])
        expected = self.texts if self.pooled else int(lengths.sum())
        if (len(lengths), rows) != (self.texts, expected):
            raise UserError(
                f"{self.folder}: expected {self.texts:,} texts and {expected:,} vectors, but there "
                f"are {len(lengths):,} and {rows:,}; use --fresh, or delete it, to start over"
            )
        finished = self.folder / self.FINISHED
        write_columns(finished, out.suffix, columns)
        sync(finished)
        finished.replace(out)
        sync(out.parent)
        return np.flatnonzero(lengths == 0).tolist()


def stack_rows(vectors: Sequence[Vectors], *, pooled: bool) -> Vectors:
    """The vectors of texts as rows: (rows, dim), or (rows, layers, dim) for all layers."""
    if pooled:
        return np.stack(vectors)
    return np.concatenate([text.swapaxes(0, 1) if text.ndim == 3 else text for text in vectors])


def unstack_rows(rows: Vectors, lengths: NDArray[Any]) -> list[Vectors]:
    """The opposite for token vectors: (words, dim) or (layers, words, dim) per text."""
    per_text = np.split(rows, np.cumsum(lengths)[:-1])
    return [text.swapaxes(0, 1) if text.ndim == 3 else text for text in per_text]


# Columns, in memory or on disk: those of an .npz file, which other formats are made of.


def strings(columns: Columns, name: str, start: int = 0, end: int | None = None) -> Iterator[str]:
    """Decode the strings `start` to `end` of a column."""
    data = columns[f"{name}s"]
    for a, b in pairwise(columns[f"{name}_offsets"][start : end and end + 1].tolist()):
        yield data[a:b].tobytes().decode("utf-8", "surrogatepass")


def write_columns(path: Path, suffix: str, columns: Columns) -> None:
    if suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            for name, column in columns.items():
                # ZipInfo's fixed date, which np.savez lacks: the same vectors are the same bytes.
                info = zipfile.ZipInfo(f"{name}.npy")
                with archive.open(info, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asarray(column), allow_pickle=False)
    elif suffix in (".npy", ".csv", ".tsv"):
        from elmo.embed.tables import write_table

        write_table(path, suffix, columns)
    elif suffix == ".parquet":
        parquet: Any = require_extra("pyarrow.parquet", "parquet")
        writer: Any = None
        with path.open("wb") as stream:  # pyarrow opens no path that is not UTF-8
            try:
                for start, texts, words, rows in _chunks(columns):
                    ids, pooled = range(start, start + len(texts)), "offsets" not in columns
                    table = vector_table(ids, texts, words, rows, pooled=pooled)
                    writer = writer or parquet.ParquetWriter(stream, table.schema)
                    writer.write_table(table)
            finally:
                if writer is not None:  # else it would close itself later, after the file
                    writer.close()
    else:
        try:
            _write_h5(path, columns)
        except RuntimeError as error:  # what h5py makes of a full disk when it closes a file
            raise OSError(str(error)) from error


def _write_h5(path: Path, columns: Columns) -> None:
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path, "w") as file:
        if "texts" not in columns:
            file[DATASET] = columns["vectors"]
            return
        pooled, texts = "offsets" not in columns, len(columns["lengths"])
        file.attrs["output"] = "pooled" if pooled else "tokens"
        sentences = file.create_dataset("sentences", texts, dtype=h5py.string_dtype("utf-8"))
        lists = file.create_dataset("words", texts, dtype=h5py.string_dtype("utf-8"))
        for start, texts, words, rows in _chunks(columns):
            lengths = columns["lengths"][start : start + len(texts)]
            vectors = rows if pooled else unstack_rows(rows, lengths)
            for idx, vector in enumerate(vectors, start=start):
                file[str(idx)] = vector
            # HDF5 ends a string at the first zero.
            sentences[start : start + len(texts)] = [text.replace("\0", "\ufffd") for text in texts]
            lists[start : start + len(texts)] = words


def _chunks(columns: Columns) -> Iterator[tuple[int, list[str], list[str], Vectors]]:
    """Index of the first text, texts, words and rows, about TOKENS_PER_CHUNK words at a time."""
    lengths = columns.get("lengths", np.ones(len(columns["vectors"]), np.int64))
    ends, start = np.cumsum(lengths), 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + TOKENS_PER_CHUNK)))
        first, last = (before, int(ends[end - 1])) if "offsets" in columns else (start, end)
        words = list(strings(columns, "word", start, end))
        texts = list(strings(columns, "text", start, end)) if "texts" in columns else []
        yield start, texts, words, np.asarray(columns["vectors"][first:last])
        start = end


def _offsets(sizes: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def vector_table(
    ids: Sequence[int], texts: Sequence[str], words: Sequence[str], rows: Vectors, *, pooled: bool
) -> Any:
    """Texts, their words as JSON and their vectors as an Arrow table; or single words, no texts."""
    pa: Any = require_extra("pyarrow", "parquet")
    vectors = pa.array(rows.ravel(), pa.float32())
    for size in reversed(rows.shape[1:]):
        vectors = pa.FixedSizeListArray.from_arrays(vectors, size)
    if not texts:
        return pa.table({"word": pa.array(words, pa.string()), "vector": vectors})
    tokens: list[list[str]] = [json.loads(text) for text in words]
    if not pooled:
        offsets = pa.array(_offsets([len(text) for text in tokens]), pa.int64())
        vectors = pa.LargeListArray.from_arrays(offsets, vectors)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array(texts, pa.string()),
            "tokens": pa.array(tokens, pa.list_(pa.string())),
            "vector": vectors,
        }
    )


# Single words.


def embed_words(
    embedder: Embedder,
    out: Path | str,
    words: Path | str | Sequence[str] | None = None,
    *,
    progress: Listener | None = None,
) -> EmbeddedFile:
    """Write the token layer's vectors of single words, without context.

    Official programs and `Embedder.from_official` read an `out` of .hdf5 or .h5. `words` are a file
    with one per line, or the words; default: the model's own.
    """
    out, model = Path(out), embedder.model
    check_vector_file(out, words=True)
    if words is None:
        words = model.vocabulary.words
    else:
        words = read_any_words(Path(words)) if isinstance(words, Path | str) else words
        _check_words(words, model)
    pace = None if progress is None else Pace(progress, len(words))
    shape, done = (len(words), model.config.width), 0
    encoded = [_utf8(word) for word in words]
    # The vectors of a large vocabulary take gigabytes: they go to a file until all are there.
    with (
        writing(out),
        atomic_write(out) as temporary,
        tempfile.TemporaryFile(dir=out.parent) as file,
    ):
        vectors = np.memmap(file, "<f4", "w+", shape=shape)
        for chunk in token_vectors(model, words):
            vectors[done : done + len(chunk)] = chunk
            done += len(chunk)
            if pace is not None:
                pace.add(len(chunk), len(chunk))
        columns = {
            "vectors": vectors,
            "words": np.frombuffer(b"".join(encoded), np.uint8),
            "word_offsets": _offsets([len(word) for word in encoded]),
        }
        write_columns(temporary, out.suffix, columns)
        if out.suffix in (".h5", ".hdf5"):
            write_text(out.with_suffix(".txt"), "".join(f"{word}\n" for word in words))
    return EmbeddedFile(out, len(words), len(words), model.config.width)


def _check_words(words: Sequence[str], model: BiLM) -> None:
    if not words:
        raise UserError("expected at least one word whose vector is to be written; got none")
    for word in words:
        if not word or word != word.strip() or "\n" in word or "\t" in word:
            raise UserError(f"expected words without white space around them; got {word!r:.80}")
    if model.config.spelled:
        return
    # A model of words would give all others the vector of the unknown word.
    ids, unknown_word = model.vocabulary.encode(words).tolist(), model.vocabulary.words[UNKNOWN]
    pairs = zip(words, ids, strict=True)
    unknown = [word for word, idx in pairs if idx == UNKNOWN and word != unknown_word]
    if unknown:
        shown = ", ".join(map(repr, unknown[:5]))
        raise UserError(
            f"{len(unknown):,} of {len(words):,} words are unknown to this model, which reads no "
            f"characters: {shown}; leave them out, or use its own vocabulary"
        )


# Reading.


class LoadedVectors(NamedTuple):
    """What a vector file holds, in the order of the texts."""

    texts: list[str]
    words: list[list[str]]
    vectors: Vectors | list[Vectors]
    """Pooled: (texts, dim), or (texts, layers, dim) for all layers. Tokens: one array per text,
    (words, dim) or (layers, words, dim)."""

    def __repr__(self) -> str:
        shape = f"of shape {s}" if (s := getattr(self.vectors, "shape", None)) else "one per text"
        return f"LoadedVectors({len(self.vectors):,} texts; vectors: {shape})"


def load_vectors(path: Path | str) -> LoadedVectors:
    """Read a file that `elmo embed` wrote, or a folder of Parquet files that it wrote with Ray.

    In a file of single words (`elmo embed --words`) every word is a text. A .npy file holds vectors
    alone, so that its texts and words are empty.

    Example:
        >>> texts, words, vectors = load_vectors("vectors.npz")
        >>> vectors.shape
        (3, 512)
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: no such file; expected one that elmo embed wrote")
    try:
        if path.suffix == ".npz":
            return _load_npz(path)
        if path.suffix == ".parquet":
            return _load_parquet(path)
        if path.suffix in (".h5", ".hdf5"):
            return _load_h5(path)
        if path.suffix in (".npy", ".csv", ".tsv"):
            from elmo.embed.tables import read_table

            return LoadedVectors(*read_table(path))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a vector file of elmo embed, or damaged ({error})") from None
    raise UserError(f"{path}: expected a name that ends in one of {', '.join(SUFFIXES)}")


def _load_npz(path: Path) -> LoadedVectors:
    with np.load(path, allow_pickle=False) as file:
        columns: Columns = {name: file[name] for name in file.files}
    words, vectors = list(strings(columns, "word")), columns["vectors"]
    if "texts" not in columns:
        return LoadedVectors(words, [[word] for word in words], vectors)
    if "offsets" in columns:
        vectors = unstack_rows(vectors, columns["lengths"])
    texts = list(strings(columns, "text"))
    return LoadedVectors(texts, [json.loads(text) for text in words], vectors)


def _load_parquet(path: Path) -> LoadedVectors:
    pa: Any = require_extra("pyarrow", "parquet")
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    with path.open("rb") as stream:
        table = parquet.read_table(stream)
    pooled = pa.types.is_fixed_size_list(table.schema.field("vector").type)
    if "word" in table.column_names:
        texts = table["word"].to_pylist()
        words = [[word] for word in texts]
    else:
        table = table.sort_by("id")
        texts, words = table["text"].to_pylist(), table["tokens"].to_pylist()
    values, shape, lengths = table["vector"].combine_chunks(), list[int](), np.zeros(0, np.int64)
    if not pooled:
        lengths, values = np.diff(values.offsets.to_numpy()), values.flatten()
    while pa.types.is_fixed_size_list(values.type):
        shape.append(values.type.list_size)
        values = values.flatten()
    rows = values.to_numpy().reshape(-1, *shape)
    return LoadedVectors(texts, words, rows if pooled else unstack_rows(rows, lengths))


def _load_h5(path: Path) -> LoadedVectors:
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path) as file:
        if DATASET in file:
            names = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
            return LoadedVectors(names, [[word] for word in names], file[DATASET][()])
        texts: list[str] = [text.decode() for text in file["sentences"]]
        words = [json.loads(text) for text in file["words"]]
        vectors: list[Vectors] = [file[str(idx)][()] for idx in range(len(texts))]
        pooled = file.attrs.get("output", "pooled" if vectors[0].ndim == 1 else "tokens")
        return LoadedVectors(texts, words, np.stack(vectors) if pooled == "pooled" else vectors)

"""Vectors in files: .npz, .parquet, .h5 or .hdf5, of any size, written by jobs that can be resumed.

`embed_text` appends to a journal, the folder OUT.unfinished: float32 rows, the texts, and a record
of how many bytes of each are valid. The journal's vectors *are* the .npz file but for its head and
its small columns; Parquet and HDF5 files are encoded from it in one pass, because neither can be
appended to after a kill (a Parquet file has its index at the end, HDF5 rewrites B-trees in place).

npz      vectors: one row per text (pooled) or per word (tokens), float32; for layer="all" rows are
         (layers, dim); offsets: the words of text i are rows offsets[i] to offsets[i + 1] (tokens);
         lengths: words per text; a pooled text without words has zeros for a vector;
         texts: UTF-8, text i is the bytes text_offsets[i] to text_offsets[i + 1];
         words: the same with word_offsets, the words of each text as a JSON list
parquet  id, text, tokens, vector: one row per text; vectors are lists (of words) (of layers)
h5       "0", "1", …: one dataset per text, (dim,) or (words, dim), for all layers (layers, …);
         "sentences": the texts; "words": the words of each as a JSON list

`embed_words` writes one vector per word: npz with vectors and words, Parquet with word and vector,
HDF5 with "embedding" as the original programs read it and the words in a .txt file next to it.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
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
    portions,
    state_of_tensors,
    state_tensors,
    tell_empty,
    tokenised,
)
from elmo.errors import UserError, require_extra
from elmo.files import atomic_write, explained, locked, read_json, sync, write_json, write_text
from elmo.model_folder import load_tensors, save_tensors
from elmo.official.format import DATASET, read_any_words
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.vocabulary import UNKNOWN

Ints = NDArray[np.int64]

SUFFIXES = (".npz", ".parquet", ".h5", ".hdf5")
TOKENS_PER_CHUNK = 1 << 16
"""What a killed job loses at most, and about what is held in memory."""
JOURNAL_FORMAT = 3

log = logging.getLogger(__name__)


def check_vector_file(path: Path) -> None:
    """Raise a `UserError` if a vector file of this name cannot be written."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: expected a name that ends in one of {', '.join(SUFFIXES)}")
    if path.suffix == ".parquet":
        require_extra("pyarrow", "parquet")
    if path.suffix in (".h5", ".hdf5"):
        require_extra("h5py", "official")
    if path.exists():
        raise UserError(f"{path} exists already; delete it, or choose another name")


# Texts.


@dataclass(frozen=True)
class EmbeddedFile:
    """A finished vector file."""

    path: Path
    texts: int
    tokens: int
    dim: int
    empty: tuple[int, ...]
    """Indices, from 0, of the texts without words."""


def embed_text(
    embedder: Embedder,
    sources: Sequence[str] | str,
    out: Path | str,
    config: EncodeConfig | None = None,
    *,
    read: ReadOptions | None = None,
    progress: Listener | None = None,
) -> EmbeddedFile:
    """Write the vectors of the texts in files to a vector file.

    The same call resumes after a kill, and the file has the same bytes as without one.

    Args:
        embedder: The model.
        sources: Files, folders, patterns, '-' (standard input) or 'ag_news'.
        out: The file to write; its suffix chooses the format.
        config: Layer, pooling and so on. Default: pooled vectors of the layer mix.
        read: How to find the text in the files.
        progress: Called with a `Progress` after every batch. The number of texts is not known
            before the end, because the sources are read only once.
    """
    out, config, read = Path(out), config or EncodeConfig(), read or ReadOptions()
    folder = out.with_name(f"{out.name}.unfinished")
    if not folder.exists():
        check_vector_file(out)
    files = resolve([sources] if isinstance(sources, str) else sources)
    encoder = embedder.encoder(config)
    pooled, carried = config.output == "pooled", config.start == "carry"
    warm = state_tensors(embedder.warm_state) if config.start == "warm" else {}
    job: Json = {
        "journal_format": JOURNAL_FORMAT,
        "tokens_per_chunk": TOKENS_PER_CHUNK,
        "file_format": out.suffix,
        "model": _digest(embedder.model.state_dict(), embedder.model.vocabulary.words),
        "model_settings": to_json(embedder.model.config),
        "mix": _digest(embedder.mix.state_dict()),
        "mix_settings": to_json(embedder.mix.config),
        "start_state": _digest(warm),
        "tokenizer": to_json(embedder.loaded.tokenizer),
        "precision": str(embedder.model.compute_dtype),
        "texts": [file.fingerprint() for file in files],
        "read": to_json(read),
        **to_json(config),
    }
    job = json.loads(json.dumps(job))
    busy = f"{out}: another process is writing this file; wait for it, or choose another name"
    with locked(folder / Journal.LOCK, busy):
        for path in folder.iterdir():
            if not Journal.FILES.fullmatch(path.name):
                raise UserError(
                    f"{folder}, where the unfinished vectors would go, holds {path.name!r}, which "
                    "is not part of them; move it away, or choose another name for the vectors"
                )
        if out.exists():  # a process finished it, and was killed before it removed the journal
            shutil.rmtree(folder, ignore_errors=True)
        check_vector_file(out)
        journal = Journal(folder, job, pooled=pooled)
        try:
            documents = read_documents(files, read)
            journal.skip_texts(documents)
            if carried:
                encoder.state = journal.load_state(encoder.model)
            pace = None if progress is None else Pace(progress, None, journal.texts)
            texts = tokenised(embedder.loaded, documents, first=journal.texts)
            for chunk in portions(texts, TOKENS_PER_CHUNK, config.slots):
                tell_empty(chunk)
                vectors = encoder.encode([text.words for text in chunk], pace and pace.add)
                journal.append(chunk, vectors, encoder.state if carried else None)
            if job["texts"] != [file.fingerprint() for file in files]:
                raise UserError(f"a source of {out} changed while it was read; run it again")
            journal.finish(out)
        except OSError as error:
            raise explained(error, out) from error
        finally:
            journal.close()
            if out.exists() or not journal.texts:
                shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # Windows cannot delete a folder while the lock in it is held
        folder.rmdir()
    return EmbeddedFile(out, journal.texts, journal.tokens, encoder.dim, tuple(journal.empty))


def _digest(tensors: Mapping[str, Tensor], words: Sequence[str] = ()) -> str:
    digest = hashlib.sha256(json.dumps([list(tensors), words]).encode())
    for tensor in tensors.values():
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Journal:
    """Vectors and texts on their way to a file; see the top of this file.

    A chunk counts once `progress.json` is replaced; what a killed process wrote after that is cut
    off when the journal is opened again.
    """

    LOCK, PROGRESS, FINISHED = ".lock", "progress.json", "finished"
    VECTORS, TEXTS = "vectors", "texts.jsonl"
    FILES = re.compile(r"\.lock|progress\.json|finished|vectors|texts\.jsonl|state-.*|.*\.partial")

    def __init__(self, folder: Path, job: Json, *, pooled: bool) -> None:
        self.folder, self.pooled, self._job = folder, pooled, job
        self.texts = self.tokens = self.rows = 0
        self.empty: list[int] = []
        self.row_shape: tuple[int, ...] = ()
        self._bytes = [0, 0]  # valid bytes of the vectors and of the texts
        if (folder / self.PROGRESS).exists():
            self._resume(read_json(folder / self.PROGRESS))
        self._files = [(folder / name).open("ab+") for name in (self.VECTORS, self.TEXTS)]
        for file, size in zip(self._files, self._bytes, strict=True):
            file.truncate(size)

    def _resume(self, record: Any) -> None:
        job: Json = record["job"]
        names = sorted(job.keys() | self._job.keys())
        other = [name for name in names if job.get(name) != self._job.get(name)]
        if other:
            raise UserError(
                f"{self.folder} holds {record['texts']:,} texts of another job, with other "
                f"{', '.join(other)}; repeat that command to finish it, or delete the folder"
            )
        self.texts, self.tokens, self.rows = record["texts"], record["tokens"], record["rows"]
        self.empty, self.row_shape = record["empty"], tuple(record["row_shape"])
        self._bytes = record["bytes"]
        for name, size in zip((self.VECTORS, self.TEXTS), self._bytes, strict=True):
            path = self.folder / name
            if not path.is_file() or path.stat().st_size < size:
                raise UserError(f"{path}: damaged; delete {self.folder} and run again")
        log.info("resuming after %s texts of an earlier run", f"{self.texts:,}")

    def skip_texts(self, documents: Iterator[str]) -> None:
        """Read past the texts that are done, and make sure that they are still the same."""
        for done in self.records():
            if next(documents, None) != done.text:
                raise UserError(
                    f"text {done.number} is not the one that {self.folder} has vectors of; "
                    "delete the folder and run again"
                )

    def load_state(self, model: BiLM) -> BiLMState | None:
        """The state that the model had after the last text, if it was saved."""
        path = self._state_path()
        return state_of_tensors(load_tensors(path), model, path) if path.exists() else None

    def _state_path(self) -> Path:
        return self.folder / f"state-{self.texts}.safetensors"

    def append(
        self, chunk: Sequence[TokenisedText], vectors: Sequence[Vectors], state: BiLMState | None
    ) -> None:
        """Add texts with their vectors, as `encode` returns them, and the state after them."""
        rows = stack_rows(vectors, pooled=self.pooled)
        if not self.texts:
            self.row_shape = rows.shape[1:]
            self._files[0].write(bytes(self._head_size()))  # filled in at the end
        self._files[0].write(rows.astype("<f4", copy=False).tobytes())
        for text in chunk:
            self._files[1].write(json.dumps([str(text.text), text.words]).encode() + b"\n")
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
        outdated = self._state_path()
        self.texts += len(chunk)
        self.tokens += sum(len(text.words) for text in chunk)
        self.rows += len(rows)
        self.empty += [text.number for text in chunk if not text.words]
        self._bytes = [file.tell() for file in self._files]
        if state is not None:
            save_tensors(self._state_path(), state_tensors(state))
        numbers = {"texts": self.texts, "tokens": self.tokens, "rows": self.rows}
        record = {"row_shape": list(self.row_shape), "bytes": self._bytes, "empty": self.empty}
        write_json(self.folder / self.PROGRESS, {**numbers, **record, "job": self._job})
        outdated.unlink(missing_ok=True)

    def records(self) -> Iterator[TokenisedText]:
        """The texts so far and their words."""
        with (self.folder / self.TEXTS).open("rb") as lines:
            for number, line in zip(range(self.texts), lines, strict=False):
                yield TokenisedText(number, *json.loads(line))

    def chunks(self) -> Iterator[tuple[list[TokenisedText], Vectors]]:
        """Texts and their rows, about TOKENS_PER_CHUNK words at a time."""
        row_size = int(np.prod(self.row_shape))
        with (self.folder / self.VECTORS).open("rb") as file:
            file.seek(self._head_size())
            for chunk in portions(self.records(), TOKENS_PER_CHUNK):
                rows = len(chunk) if self.pooled else sum(len(text.words) for text in chunk)
                values = np.fromfile(file, "<f4", rows * row_size)
                yield chunk, values.reshape(rows, *self.row_shape)

    def close(self) -> None:
        """Close the files; what was appended is on disk already."""
        for file in self._files:
            with suppress(OSError):  # a full disk, told when the chunk was written
                file.close()

    def finish(self, out: Path) -> None:
        """Turn the journal into the file `out`, which appears complete or not at all."""
        self.close()
        vectors = self.folder / self.VECTORS
        expected = self._head_size() + 4 * self.rows * int(np.prod(self.row_shape))
        records = sum(1 for _ in self.records())
        if (vectors.stat().st_size, records) != (expected, self.texts):
            raise UserError(
                f"{self.folder}: expected {expected:,} bytes of vectors and {self.texts:,} texts, "
                f"but there are {vectors.stat().st_size:,} and {records:,}; delete it and run again"
            )
        finished = vectors if out.suffix == ".npz" else self.folder / self.FINISHED
        if out.suffix == ".npz":
            self._complete_npz(finished)
        elif out.suffix == ".parquet":
            self._write_parquet(finished)
        else:
            self._write_h5(finished)
        sync(finished)
        finished.replace(out)
        sync(out.parent)

    def _head_size(self) -> int:
        """Bytes before the vectors: of a ZIP entry and of NumPy, which pads for any row count."""
        if self._job["file_format"] != ".npz":
            return 0
        info, header = _zip_entry("vectors", (0, *self.row_shape), "<f4")
        return len(info.FileHeader(zip64=True)) + len(header)

    def _complete_npz(self, path: Path) -> None:
        info, header = _zip_entry("vectors", (self.rows, *self.row_shape), "<f4")
        with path.open("r+b") as file:
            # The checksum stands before the data and covers the number of rows, which is known
            # only now. So the vectors are read once more, but never copied.
            file.seek(self._head_size())
            info.CRC = zlib.crc32(header)
            while block := file.read(1 << 20):
                info.CRC = zlib.crc32(block, info.CRC)
            info.file_size = file.tell() - self._head_size() + len(header)
            info.compress_size = info.file_size
            file.seek(0)
            file.write(info.FileHeader(zip64=True) + header)
            file.seek(0, os.SEEK_END)
            with zipfile.ZipFile(file, "w") as archive:  # starts where the file stands
                archive.filelist.append(info)
                archive.NameToInfo[info.filename] = info
                sizes = [
                    (len(text.words), len(_utf8(str(text.text))), len(_utf8(_words_json(text))))
                    for text in self.records()
                ]
                lengths, text_sizes, word_sizes = np.array(sizes, np.int64).T
                _add_array(archive, "lengths", lengths)
                if not self.pooled:
                    _add_array(archive, "offsets", _offsets(lengths))
                texts = (_utf8(str(text.text)) for text in self.records())
                words = (_utf8(_words_json(text)) for text in self.records())
                _add_strings(archive, "text", text_sizes, texts)
                _add_strings(archive, "word", word_sizes, words)

    def _write_parquet(self, path: Path) -> None:
        parquet: Any = require_extra("pyarrow.parquet", "parquet")
        writer: Any = None
        for chunk, rows in self.chunks():
            ids = [text.number for text in chunk]
            table = vector_table(ids, chunk, rows, pooled=self.pooled)
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
        writer.close()

    def _write_h5(self, path: Path) -> None:
        h5py: Any = require_extra("h5py", "official")
        string = h5py.string_dtype("utf-8")
        try:
            with h5py.File(path, "w") as file:
                file.attrs["output"] = "pooled" if self.pooled else "tokens"
                sentences = file.create_dataset("sentences", self.texts, dtype=string)
                words = file.create_dataset("words", self.texts, dtype=string)
                for chunk, rows in self.chunks():
                    lengths = np.array([len(text.words) for text in chunk])
                    vectors = rows if self.pooled else unstack_rows(rows, lengths)
                    for text, vector in zip(chunk, vectors, strict=True):
                        file[str(text.number)] = vector
                    some = slice(chunk[0].number, chunk[-1].number + 1)
                    # HDF5 ends a string at the first zero.
                    sentences[some] = [str(text.text).replace("\0", "\ufffd") for text in chunk]
                    words[some] = [_words_json(text) for text in chunk]
        except RuntimeError as error:  # what h5py makes of a full disk when it closes a file
            raise OSError(str(error)) from error


def stack_rows(vectors: Sequence[Vectors], *, pooled: bool) -> Vectors:
    """The vectors of texts as rows: (rows, dim), or (rows, layers, dim) for all layers."""
    if pooled:
        return np.stack(vectors)
    return np.concatenate([text.swapaxes(0, 1) if text.ndim == 3 else text for text in vectors])


def unstack_rows(rows: Vectors, lengths: NDArray[Any]) -> list[Vectors]:
    """The opposite for token vectors: (words, dim) or (layers, words, dim) per text."""
    per_text = np.split(rows, np.cumsum(lengths)[:-1])
    return [text.swapaxes(0, 1) if text.ndim == 3 else text for text in per_text]


def vector_table(
    ids: Sequence[int], texts: Sequence[TokenisedText], rows: Vectors, *, pooled: bool
) -> Any:
    """Texts and their vectors as an Arrow table, one row per text."""
    pa: Any = require_extra("pyarrow", "parquet")
    nested = pa.array(rows.ravel(), pa.float32())
    for size in reversed(rows.shape[1:]):
        nested = pa.FixedSizeListArray.from_arrays(nested, size)
    if not pooled:
        offsets = _offsets(np.array([len(text.words) for text in texts], np.int64))
        nested = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), nested)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array([str(text.text) for text in texts], pa.string()),
            "tokens": pa.array([text.words for text in texts], pa.list_(pa.string())),
            "vector": nested,
        }
    )


# Arrays and strings in .npz files.


def _zip_entry(name: str, shape: tuple[int, ...], dtype: str) -> tuple[zipfile.ZipInfo, bytes]:
    """An uncompressed entry and NumPy's header. ZipInfo's fixed date: same vectors, same bytes."""
    header = io.BytesIO()
    description = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    info = zipfile.ZipInfo(f"{name}.npy")
    info.CRC = info.compress_size = info.header_offset = 0
    return info, header.getvalue()


def _add_chunks(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: str, data: Iterable[bytes]
) -> None:
    info, header = _zip_entry(name, shape, dtype)
    with archive.open(info, "w", force_zip64=True) as stream:
        stream.write(header)
        for chunk in data:
            stream.write(chunk)


def _add_array(archive: zipfile.ZipFile, name: str, values: Ints) -> None:
    _add_chunks(archive, name, values.shape, "<i8", [values.astype("<i8").tobytes()])


def _add_strings(
    archive: zipfile.ZipFile, name: str, sizes: Ints, strings: Iterable[bytes]
) -> None:
    _add_chunks(archive, f"{name}s", (int(sizes.sum()),), "|u1", strings)
    _add_array(archive, f"{name}_offsets", _offsets(sizes))


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _words_json(text: TokenisedText) -> str:
    return json.dumps(text.words, ensure_ascii=False)


# Single words.


@dataclass(frozen=True)
class EmbeddedWords:
    """A finished file of token vectors."""

    path: Path
    words: int
    dim: int


def check_word_file(path: Path) -> None:
    """Raise a `UserError` if a file of token vectors of this name cannot be written."""
    check_vector_file(path)
    names = path.with_suffix(".txt")
    if path.suffix in (".h5", ".hdf5") and names.exists():
        raise UserError(
            f"{names}, where the words would go, exists already; delete it, or choose another name"
        )


def embed_words(
    embedder: Embedder,
    out: Path | str,
    words: Path | str | Sequence[str] | None = None,
    *,
    progress: Listener | None = None,
) -> EmbeddedWords:
    """Write the token layer's vectors of single words, without context.

    Args:
        embedder: The model.
        out: The file to write; official programs and `Embedder.from_official` read .hdf5 and .h5.
        words: A vocabulary file with one word per line, or the words. Default: the model's own.
        progress: Called with a `Progress` after every batch.
    """
    out, model = Path(out), embedder.model
    check_word_file(out)
    if words is None:
        words = model.vocabulary.words
    else:
        words = read_any_words(Path(words)) if isinstance(words, Path | str) else words
        _check_words(words, model)
    pace = None if progress is None else Pace(progress, len(words))

    def chunks() -> Iterator[Vectors]:
        for chunk in token_vectors(model, words):
            yield chunk
            if pace is not None:
                pace.add(len(chunk), len(chunk))

    with atomic_write(out) as temporary:
        write_words(temporary, out.suffix, words, model.config.width, chunks())
        if out.suffix in (".h5", ".hdf5"):
            write_text(out.with_suffix(".txt"), "".join(f"{word}\n" for word in words))
    return EmbeddedWords(out, len(words), model.config.width)


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


def write_words(
    path: Path, suffix: str, words: Sequence[str], dim: int, chunks: Iterable[Vectors]
) -> None:
    """Write words and chunks of their vectors, in the same order, in the format of `suffix`."""
    if suffix == ".npz":
        encoded = [_utf8(word) for word in words]
        with zipfile.ZipFile(path, "w") as archive:
            data = (chunk.astype("<f4", copy=False).tobytes() for chunk in chunks)
            _add_chunks(archive, "vectors", (len(words), dim), "<f4", data)
            _add_strings(archive, "word", np.array([len(word) for word in encoded]), encoded)
        return
    first = 0
    if suffix == ".parquet":
        pa: Any = require_extra("pyarrow", "parquet")
        parquet: Any = require_extra("pyarrow.parquet", "parquet")
        schema = pa.schema({"word": pa.string(), "vector": pa.list_(pa.float32(), dim)}.items())
        with parquet.ParquetWriter(path, schema) as writer:
            for chunk in chunks:
                numbers = pa.array(chunk.ravel(), pa.float32())
                rows = pa.FixedSizeListArray.from_arrays(numbers, dim)
                some = pa.array(words[first : first + len(chunk)], pa.string())
                writer.write_table(pa.table({"word": some, "vector": rows}, schema=schema))
                first += len(chunk)
        return
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path, "w") as file:
        rows = file.create_dataset(DATASET, (len(words), dim), "float32")
        for chunk in chunks:
            rows[first : first + len(chunk)] = chunk
            first += len(chunk)


# Reading.


class LoadedVectors(NamedTuple):
    """What a vector file holds, in the order of the texts."""

    texts: list[str]
    words: list[list[str]]
    vectors: Vectors | list[Vectors]
    """Pooled: (texts, dim), or (texts, layers, dim) for all layers. Tokens: one array per text,
    (words, dim) or (layers, words, dim)."""


def load_vectors(path: Path | str) -> LoadedVectors:
    """Read a file that `elmo embed` wrote, or a folder of Parquet files that it wrote with Ray.

    In a file of single words (`elmo embed --words`) every word is a text.

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
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a vector file of elmo embed, or damaged ({error})") from None
    raise UserError(f"{path}: expected a name that ends in one of {', '.join(SUFFIXES)}")


def _load_npz(path: Path) -> LoadedVectors:
    with np.load(path, allow_pickle=False) as file:
        strings: list[list[str]] = []
        for name in [name for name in ("text", "word") if f"{name}s" in file]:
            data, cuts = file[f"{name}s"].tobytes(), pairwise(file[f"{name}_offsets"].tolist())
            strings.append([data[a:b].decode("utf-8", "surrogatepass") for a, b in cuts])
        vectors = file["vectors"]
        if len(strings) == 1:
            return LoadedVectors(strings[0], [[word] for word in strings[0]], vectors)
        if "offsets" in file:
            vectors = unstack_rows(vectors, file["lengths"])
        return LoadedVectors(strings[0], [json.loads(words) for words in strings[1]], vectors)


def _load_parquet(path: Path) -> LoadedVectors:
    pa: Any = require_extra("pyarrow", "parquet")
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    table = parquet.read_table(path)
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

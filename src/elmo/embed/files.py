"""From texts in files to a file of vectors, in parts, so that a stopped job goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState, token_vectors
from elmo.config import Json, to_json
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import (
    Embedder,
    Encoder,
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
from elmo.files import read_json, write_json, write_text, written_whole
from elmo.model_folder import load_header, load_tensor, load_tensors, save_tensors
from elmo.official.format import DATASET, read_any_words
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, read_documents, resolve
from elmo.text.vocabulary import UNKNOWN

# Arrays and strings written to an .npz file end to end, so that none is ever whole in memory.


Array = NDArray[Any]


@dataclass(frozen=True)
class Strings:
    """Strings end to end, as UTF-8, in pieces that need not be in memory together."""

    sizes: NDArray[np.int64]
    """Bytes a string."""
    pieces: Iterable[NDArray[np.uint8]]

    @classmethod
    def of(cls, strings: Sequence[str]) -> Strings:
        """All of them in one piece."""
        encoded = [one.encode("utf-8", errors="surrogatepass") for one in strings]
        whole = np.frombuffer(b"".join(encoded), np.uint8)
        return cls(np.array([len(one) for one in encoded], np.int64), [whole])

    def decoded(self) -> list[str]:
        """The strings themselves."""
        whole = b"".join(piece.tobytes() for piece in self.pieces)
        cuts = pairwise(offsets(self.sizes).tolist())
        return [whole[start:end].decode("utf-8", errors="surrogatepass") for start, end in cuts]


def add_pieces(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], kind: str, pieces: Iterable[Array]
) -> None:
    """Write pieces of an array as one."""
    # A fixed date, which is ZipInfo's own: the same vectors give the same file.
    entry = zipfile.ZipInfo(f"{name}.npy")
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    with archive.open(entry, "w", force_zip64=True) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for piece in pieces:
            stream.write(np.ascontiguousarray(piece, np.dtype(kind)).tobytes())


def add_numbers(archive: zipfile.ZipFile, name: str, values: NDArray[np.int64]) -> None:
    """Write whole numbers."""
    add_pieces(archive, name, values.shape, "<i8", [values])


def add_strings(archive: zipfile.ZipFile, name: str, strings: Strings) -> None:
    """Write strings: string i is the bytes {name}_offsets[i] to {name}_offsets[i + 1]."""
    add_pieces(archive, f"{name}s", (int(strings.sizes.sum()),), "|u1", strings.pieces)
    add_numbers(archive, f"{name}_offsets", offsets(strings.sizes))


def offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where things of these sizes begin, laid end to end, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


# Vectors on their way to a file: written in parts, so that a job that was stopped can go on.


SETTINGS = "settings.json"
PARTS_FORMAT = 2
VECTORS, LENGTHS, TEXTS, WORDS = "vectors", "lengths", "texts", "words"
"""Tensors of a part: strings are bytes, with one more tensor for their sizes."""


@dataclass(frozen=True)
class PartTexts:
    """Some texts, in order."""

    texts: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many words each text has."""
        return np.array([len(words) for words in self.words], np.int64)


@dataclass(frozen=True)
class PartsFolder:
    """The parts written so far, in a folder beside the file they are to become.

    Of each part, vectors have a row a text (pooled) or a word (tokens).
    """

    path: Path

    def open(self, settings: Json) -> None:
        """Start, or make sure that the parts here belong to the same job."""
        recorded = self.path / SETTINGS
        if not recorded.exists():
            write_json(recorded, settings)
            return
        found: Json = read_json(recorded)
        names = sorted(found.keys() | settings.keys())
        other = [name for name in names if found.get(name) != settings.get(name)]
        if other:
            raise UserError(
                f"{self.path} holds parts of another job, of other {', '.join(other)}; give the "
                "command of that one to finish it, or delete the folder"
            )

    def __len__(self) -> int:
        number = 0
        while self._file(number).exists():
            number += 1
        return number

    def add(self, texts: PartTexts, vectors: Vectors, state: BiLMState | None) -> None:
        """Write the next part, and the state in which the model was left."""
        lists = [json.dumps(words, ensure_ascii=False) for words in texts.words]
        arrays = {
            VECTORS: vectors,
            LENGTHS: texts.lengths,
            **_string_arrays(TEXTS, texts.texts),
            **_string_arrays(WORDS, lists),
        }
        kept = {} if state is None else state_tensors(state)
        tensors = {name: torch.from_numpy(one) for name, one in arrays.items()}
        save_tensors(self._file(len(self)), {**tensors, **kept})

    def lengths(self) -> NDArray[np.int64]:
        """How many words each text has, of all parts."""
        return np.concatenate([np.zeros(0, np.int64), *self.arrays(LENGTHS)])

    def strings(self, name: str) -> Strings:
        """The texts, or the words of each as a JSON list, of all parts; read when asked for."""
        return Strings(np.concatenate(list(self.arrays(_sizes(name)))), self.arrays(name))

    def texts(self) -> Iterator[PartTexts]:
        """The texts of each part."""
        for number in range(len(self)):
            texts, lists = (self._strings(number, name).decoded() for name in (TEXTS, WORDS))
            yield PartTexts(tuple(texts), tuple(tuple(json.loads(words)) for words in lists))

    def arrays(self, name: str) -> Iterator[NDArray[Any]]:
        """One of the tensors of each part."""
        for number in range(len(self)):
            yield load_tensor(self._file(number), name).numpy()

    def shape(self) -> tuple[int, ...]:
        """The shape that the vectors of all parts have end to end."""
        shapes = [load_header(self._file(number))[VECTORS].shape for number in range(len(self))]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def last_state(self, model: BiLM) -> BiLMState | None:
        """The state in which the model was left, if it was kept."""
        if not len(self):
            return None
        path = self._file(len(self) - 1)
        kept = {name: one for name, one in load_tensors(path).items() if name not in OF_TEXTS}
        return state_of_tensors(kept, model, path) if kept else None

    def _strings(self, number: int, name: str) -> Strings:
        sizes, data = (load_tensor(self._file(number), one).numpy() for one in (_sizes(name), name))
        return Strings(sizes, [data])

    def _file(self, number: int) -> Path:
        return self.path / f"{number:06d}.safetensors"


def _string_arrays(name: str, strings: Sequence[str]) -> dict[str, NDArray[Any]]:
    packed = Strings.of(strings)
    return {name: np.concatenate(list(packed.pieces)), _sizes(name): packed.sizes}


def _sizes(name: str) -> str:
    return f"{name}_sizes"


OF_TEXTS = (VECTORS, LENGTHS, TEXTS, WORDS, _sizes(TEXTS), _sizes(WORDS))
"""All else in a part is the state."""


def end_to_end(found: Sequence[Vectors], *, pooled: bool) -> Vectors:
    """The vectors of texts as rows, (rows, dim) or, of all layers, (rows, layers, dim)."""
    if pooled:
        return np.stack(found)
    words_first = [one.swapaxes(0, 1) if one.ndim == 3 else one for one in found]
    return np.concatenate(words_first)


# Parts become one file, a part in memory at a time: .npz, .parquet, .h5 or .hdf5.
#
# npz      vectors: a row a text (pooled) or a word (tokens); of all layers, (rows, layers, dim);
#          offsets: the words of text i are the rows offsets[i] to offsets[i + 1] (tokens only);
#          lengths: words a text; a pooled text of none has zeros for a vector;
#          texts: UTF-8, text i is the bytes text_offsets[i] to text_offsets[i + 1];
#          words: the same, with word_offsets: the words of a text as a JSON list
# parquet  id, text, tokens, vector: a row a text; vectors are lists (of words) (of layers)
# h5       "0", "1", …: a dataset a text, (dim,) or (words, dim), of all layers (layers, …);
#          "sentences": the texts; "words": the words of each as a JSON list


def check_vector_file(path: Path) -> None:
    """Make sure, before the work begins, that a file of this name can be written."""
    if path.suffix not in _WRITERS:
        endings = ", ".join(_WRITERS)
        raise UserError(f"{path}: expected a name that ends in one of {endings}")
    if path.suffix == ".parquet":
        require_extra("pyarrow", "parquet")
    if path.suffix in (".h5", ".hdf5"):
        require_extra("h5py", "official")
    if path.exists():
        raise UserError(f"{path} is there already; delete it, or choose another name")


def write_vector_file(path: Path, parts: PartsFolder, *, pooled: bool) -> None:
    """Write all parts to a file that is whole or not there."""
    with written_whole(path) as beside:
        _WRITERS[path.suffix](beside, parts, pooled)


def _write_npz(path: Path, parts: PartsFolder, pooled: bool) -> None:
    lengths = parts.lengths()
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "vectors", parts.shape(), "<f4", parts.arrays(VECTORS))
        add_numbers(archive, "lengths", lengths)
        if not pooled:
            add_numbers(archive, "offsets", offsets(lengths))
        add_strings(archive, "text", parts.strings(TEXTS))
        add_strings(archive, "word", parts.strings(WORDS))


def vector_table(ids: Sequence[int], texts: PartTexts, vectors: Vectors, *, pooled: bool) -> Any:
    """Texts and their vectors as an Arrow table, a row a text."""
    pa: Any = require_extra("pyarrow", "parquet")
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": pa.array(texts.texts, pa.string()),
            "tokens": pa.array(texts.words, pa.list_(pa.string())),
            "vector": _nested(pa, vectors, None if pooled else texts.lengths),
        }
    )


def _write_parquet(path: Path, parts: PartsFolder, pooled: bool) -> None:
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    writer: Any = None
    first = 0
    for texts, vectors in zip(parts.texts(), parts.arrays(VECTORS), strict=True):
        last = first + len(texts.texts)
        table = vector_table(range(first, last), texts, vectors, pooled=pooled)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
        first = last
    writer.close()


def _nested(pa: Any, vectors: Vectors, lengths: NDArray[np.int64] | None) -> Any:
    """Vectors as lists of numbers (of layers), grouped by text where there is a row a word."""
    nested = pa.array(vectors.ravel(), pa.float32())
    for size in reversed(vectors.shape[1:]):
        nested = pa.FixedSizeListArray.from_arrays(nested, size)
    if lengths is None:
        return nested
    return pa.LargeListArray.from_arrays(pa.array(offsets(lengths), pa.int64()), nested)


def _write_h5(path: Path, parts: PartsFolder, pooled: bool) -> None:
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path, "w") as file:
        string, number = h5py.string_dtype("utf-8"), len(parts.lengths())
        sentences = file.create_dataset("sentences", number, dtype=string)
        words = file.create_dataset("words", number, dtype=string)
        first = 0
        for texts, vectors in zip(parts.texts(), parts.arrays(VECTORS), strict=True):
            last = first + len(texts.texts)
            for place, one in enumerate(_of_each_text(vectors, texts, pooled=pooled), start=first):
                file[str(place)] = one
            # The format ends a string where it has a zero.
            sentences[first:last] = [one.replace("\0", "\ufffd") for one in texts.texts]
            words[first:last] = [json.dumps(some, ensure_ascii=False) for some in texts.words]
            first = last


def _of_each_text(vectors: Vectors, texts: PartTexts, *, pooled: bool) -> Iterator[Vectors]:
    """What encode gives for each text."""
    if pooled:
        yield from vectors
        return
    for one in np.split(vectors, np.cumsum(texts.lengths)[:-1]):
        yield one.swapaxes(0, 1) if one.ndim == 3 else one


_WRITERS: dict[str, Callable[[Path, PartsFolder, bool], None]] = {
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".h5": _write_h5,
    ".hdf5": _write_h5,
}


TOKENS_A_PART = 1 << 16
"""What a job that is killed loses at most, and about what it holds in memory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedFile:
    """A file of vectors that was written."""

    path: Path
    texts: int
    tokens: int
    dim: int
    empty: tuple[int, ...]
    """The numbers, counted from 0, of the texts without words."""


@dataclass(frozen=True)
class EmbedJob:
    """Which texts become which vectors of which model, in which file."""

    embedder: Embedder
    sources: Sequence[Source]
    out: Path
    config: EncodeConfig
    read: ReadOptions

    @property
    def parts(self) -> PartsFolder:
        """Where the vectors are until the file is whole."""
        return PartsFolder(self.out.with_name(f"{self.out.name}.parts"))

    def identity(self) -> Json:
        """All that decides what the vectors are: parts of another job must not be taken for it."""
        embedder = self.embedder
        warm = state_tensors(embedder.warm_state) if self.config.start == "warm" else {}
        settings: Json = {
            "model": _digest(embedder.model.state_dict(), embedder.model.vocabulary.words),
            "model_settings": to_json(embedder.model.config),
            "mix": _digest(embedder.mix.state_dict()),
            "mix_settings": to_json(embedder.mix.config),
            "start_state": _digest(warm),
            "tokenizer": to_json(embedder.loaded.tokenizer),
            "precision": str(embedder.model.compute_dtype),
            "texts": [source.fingerprint() for source in self.sources],
            "read": to_json(self.read),
            "parts_format": PARTS_FORMAT,
            "tokens_a_part": TOKENS_A_PART,
            **to_json(self.config),
        }
        return json.loads(json.dumps(settings))


def _digest(tensors: Mapping[str, Tensor], words: Sequence[str] = ()) -> str:
    """A name for these tensors and words that no others have."""
    whole = hashlib.sha256(json.dumps([list(tensors), words]).encode())
    for tensor in tensors.values():
        whole.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def embed_text(
    embedder: Embedder,
    sources: Sequence[str] | str,
    out: Path | str,
    config: EncodeConfig | None = None,
    *,
    read: ReadOptions | None = None,
    progress: Listener | None = None,
) -> EmbeddedFile:
    """Write the vectors of files, folders, patterns, '-' or 'ag_news' to .npz, .parquet or .h5.

    Given again after it was stopped, it goes on where it was, and the file is the same.
    """
    check_vector_file(Path(out))
    found = resolve([sources] if isinstance(sources, str) else sources)
    job = EmbedJob(
        embedder,
        found,
        Path(out),
        config or EncodeConfig(),
        read or ReadOptions(),
    )
    encoder = embedder.encoder(job.config)
    job.parts.open(job.identity())
    _encode_rest(job, encoder, progress)
    write_vector_file(job.out, job.parts, pooled=job.config.output == "pooled")
    result = _result(job, encoder.dim)
    shutil.rmtree(job.parts.path)
    return result


def _encode_rest(job: EmbedJob, encoder: Encoder, progress: Listener | None) -> None:
    """Encode and write what is not yet in the parts."""
    done = len(job.parts.lengths())
    if done:
        log.info("going on behind the %s texts of an earlier run", f"{done:,}")
    carried = job.config.start == "carry"
    if carried:
        encoder.state = job.parts.last_state(encoder.model)
    pace = None if progress is None else Pace(progress, _count(job), done)
    for portion in _portions(job, done):
        tell_empty(portion)
        words = [text.words for text in portion]
        vectors = encoder.encode(words, None if pace is None else pace.add)
        rows = end_to_end(vectors, pooled=job.config.output == "pooled")
        texts = PartTexts(tuple(str(one.text) for one in portion), tuple(map(tuple, words)))
        job.parts.add(texts, rows, encoder.state if carried else None)


def _portions(job: EmbedJob, done: int) -> Iterator[list[TokenisedText]]:
    documents = islice(read_documents(job.sources, job.read), done, None)
    texts = tokenised(job.embedder.loaded, documents, first=done)
    return portions(texts, TOKENS_A_PART, job.config.slots)


def _count(job: EmbedJob) -> int:
    return sum(1 for _ in read_documents(job.sources, job.read))


def _result(job: EmbedJob, dim: int) -> EmbeddedFile:
    lengths = job.parts.lengths()
    empty: list[int] = np.flatnonzero(lengths == 0).tolist()
    return EmbeddedFile(job.out, len(lengths), int(lengths.sum()), dim, tuple(empty))


# Token vectors become a file, a portion in memory at a time: .npz, .parquet, .h5 or .hdf5.
#
# npz       vectors: a row a word; words: UTF-8, word i is the bytes word_offsets[i] to
#           word_offsets[i + 1]
# parquet   word, vector: a row a word
# h5, hdf5  "embedding": a row a word, as the original programs store and read them; the words go to
#           a file beside of the same name that ends in .txt, a word a line


@dataclass(frozen=True)
class WordVectors:
    """Words, and portions of their vectors in the same order."""

    words: tuple[str, ...]
    dim: int
    portions: Iterable[Vectors]


def check_word_file(path: Path) -> None:
    """Make sure, before the work begins, that files of this name can be written."""
    check_vector_file(path)
    beside = _beside(path)
    if beside is not None and beside.exists():
        raise UserError(
            f"{beside}, where the words would go, is there already; delete it, or choose another "
            "name"
        )


def write_word_file(path: Path, vectors: WordVectors) -> None:
    """Write a file that is whole or not there."""
    with written_whole(path) as partial:
        _WORD_FILES_WRITERS[path.suffix](partial, vectors)
        beside = _beside(path)
        if beside is not None:
            write_text(beside, "".join(f"{word}\n" for word in vectors.words))


def _beside(path: Path) -> Path | None:
    """Where the words go if the file itself has no place for them."""
    return (
        path.with_suffix(".txt")
        if _WORD_FILES_WRITERS[path.suffix] is _word_files_write_h5
        else None
    )


def _word_files_write_npz(path: Path, vectors: WordVectors) -> None:
    shape = (len(vectors.words), vectors.dim)
    with zipfile.ZipFile(path, "w") as archive:
        add_pieces(archive, "vectors", shape, "<f4", vectors.portions)
        add_strings(archive, "word", Strings.of(vectors.words))


def _word_files_write_parquet(path: Path, vectors: WordVectors) -> None:
    pa: Any = require_extra("pyarrow", "parquet")
    parquet: Any = require_extra("pyarrow.parquet", "parquet")
    schema = pa.schema({"word": pa.string(), "vector": pa.list_(pa.float32(), vectors.dim)}.items())
    first = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for portion in vectors.portions:
            words = pa.array(vectors.words[first : first + len(portion)], pa.string())
            numbers = pa.array(portion.ravel(), pa.float32())
            rows = pa.FixedSizeListArray.from_arrays(numbers, vectors.dim)
            writer.write_table(pa.table({"word": words, "vector": rows}, schema=schema))
            first += len(portion)


def _word_files_write_h5(path: Path, vectors: WordVectors) -> None:
    h5py: Any = require_extra("h5py", "official")
    first = 0
    with h5py.File(path, "w") as file:
        rows = file.create_dataset(DATASET, (len(vectors.words), vectors.dim), "float32")
        for portion in vectors.portions:
            rows[first : first + len(portion)] = portion
            first += len(portion)


_WORD_FILES_WRITERS: dict[str, Callable[[Path, WordVectors], None]] = {
    ".npz": _word_files_write_npz,
    ".parquet": _word_files_write_parquet,
    ".h5": _word_files_write_h5,
    ".hdf5": _word_files_write_h5,
}


# From a vocabulary to a file of its words' vectors, each word for itself.


@dataclass(frozen=True)
class EmbeddedWords:
    """A file of token vectors that was written."""

    path: Path
    words: int
    dim: int


def embed_words(
    embedder: Embedder,
    out: Path | str,
    words: Path | str | Sequence[str] | None = None,
    *,
    progress: Listener | None = None,
) -> EmbeddedWords:
    """Write the token layer's vectors of words to .npz, .parquet, .h5 or .hdf5.

    The words are those of a vocabulary file, a word a line, or those given, or else the model's
    own. Official programs, and `Embedder.from_official`, take them from .hdf5 (or .h5).
    """
    out = Path(out)
    check_word_file(out)
    model = embedder.model
    chosen = _words(words, model)
    portions = _counted(token_vectors(model, chosen), progress, len(chosen))
    write_word_file(out, WordVectors(chosen, model.config.width, portions))
    return EmbeddedWords(out, len(chosen), model.config.width)


def _words(words: Path | str | Sequence[str] | None, model: BiLM) -> tuple[str, ...]:
    if words is None:
        return model.vocabulary.words
    given = read_any_words(Path(words)) if isinstance(words, Path | str) else words
    chosen = tuple(given)
    if not chosen:
        raise UserError("no word was given whose vector could be written")
    for word in chosen:
        if not word or word != word.strip() or "\n" in word or "\t" in word:
            raise UserError(f"expected words, without white space around them; got {word!r:.80}")
    if not model.config.spelled:
        _require_known(chosen, model)
    return chosen


def _require_known(words: Sequence[str], model: BiLM) -> None:
    """A model of words has nothing to say of others, and must not seem to have."""
    unknown = [
        word
        for word, place in zip(words, model.vocabulary.encode(words).tolist(), strict=True)
        if place == UNKNOWN and word != model.vocabulary.words[UNKNOWN]
    ]
    if unknown:
        shown = ", ".join(map(repr, unknown[:5]))
        raise UserError(
            f"{len(unknown):,} of {len(words):,} words are unknown to this model, which reads no "
            f"characters: {shown}; leave them out, or use its own vocabulary"
        )


def _counted(
    portions: Iterator[Vectors], progress: Listener | None, total: int
) -> Iterator[Vectors]:
    pace = None if progress is None else Pace(progress, total)
    for portion in portions:
        yield portion
        if pace is not None:
            pace.add(len(portion), len(portion))

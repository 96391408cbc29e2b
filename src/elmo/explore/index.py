"""All words of a corpus in context: built once, memory-mapped, searched in milliseconds.

A folder. index.json describes it; words.json holds the distinct words; tokens.bin the word id of
each occurrence, in the order of the texts; offsets.bin where each text starts; numbers.bin which
text of the corpus it is; labels.bin and senses.bin what is known about texts and occurrences;
order.bin the occurrences sorted by word; layer_J.f16 the vectors of layer J in half precision,
(occurrences, dim), and norms_J.bin their lengths after the mean of the corpus has been subtracted.

A product of 1,000,000 x 256 half-precision numbers with a vector takes torch 40 ms on one core, so
the search is exact and needs no library for approximate search.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.classify.data import choose_columns
from elmo.config import check, from_json, nearest, to_json
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Listener, Pace, Vectors
from elmo.embed.files import tensor_digest
from elmo.errors import UserError
from elmo.explore.config import Distinct, IndexConfig
from elmo.explore.html import concordance
from elmo.files import (
    MARK,
    claim_folder,
    explained,
    locked,
    read_json,
    remove_folder,
    remove_leftovers,
    reserve_space,
    sync,
    write_json,
    write_text,
)
from elmo.model_folder import Text
from elmo.text.config import ReadOptions
from elmo.text.sources import read_columns, resolve

FORMAT = 1
DESCRIPTION, WORDS, PROGRESS, LOCK = "index.json", "words.json", "progress.json", ".lock"
ARRAYS = {
    "tokens": np.int32,
    "offsets": np.int64,
    "numbers": np.int64,
    "labels": np.int32,
    "senses": np.int32,
    "order": np.int32,
}
CHUNK_WORDS = 8192
"""Words that are encoded and written at a time; what a killed process has to do again."""
ROWS_AT_ONCE = 1 << 16
WORDS_AROUND = 2
"""Words on either side, in a phrase that is shown only once."""
LONGEST_WORDS_FILE = 1 << 30

Rows = NDArray[np.int64]
Encode = Callable[[list[list[str]]], list[Vectors]]
"""Words of texts to vectors of all layers, (layers, words, dim) each."""
log = logging.getLogger(__name__)


class CorpusText(NamedTuple):
    """A text of a corpus and what is known about it."""

    text: Text
    label: str | None = None
    senses: dict[int, str] | None = None
    """What words mean, by position; for texts that are lists of words."""


@dataclass(frozen=True, kw_only=True)
class IndexDescription:
    """What index.json holds."""

    format: int
    model: str
    """SHA-256 of the weights and the vocabulary."""
    content: str
    """SHA-256 of words, labels and senses."""
    layers: tuple[int, ...]
    dim: int
    texts: int
    occurrences: int
    corpus_texts: int
    """Texts of the corpus before sampling."""
    corpus_words: int
    labels: tuple[str, ...]
    senses: tuple[str, ...]
    means: tuple[tuple[float, ...], ...] = ()
    """The mean vector of each layer."""


@dataclass(frozen=True)
class Occurrence:
    """A word of the corpus in its text."""

    row: int
    """Its index among all occurrences."""
    word: str
    words: tuple[str, ...]
    """The whole text."""
    position: int
    text_number: int
    """Index of the text in the corpus."""
    label: str | None
    sense: str | None
    similarity: float | None = None
    """Cosine with the query, if there was one, after the mean of the corpus was subtracted."""


@dataclass(frozen=True)
class Occurrences:
    """Words of a corpus in their texts."""

    query: str
    total: int
    """How many there are; more than are listed if they were sampled."""
    items: tuple[Occurrence, ...]

    def __len__(self) -> int:
        return len(self.items)

    def _repr_html_(self) -> str:
        return concordance(
            ("" if o.similarity is None else f"{o.similarity:.3f}", o.words, o.position)
            for o in self.items[:50]
        )


class CorpusIndex:
    """The words of a corpus in context, on disk.

    >>> index = CorpusIndex.open("runs/mine.index")
    >>> index.occurrences("bank", limit=3)
    >>> vectors = embedder.encode(["The bank raised its rates ."], output="tokens", layer="all")[0]
    >>> index.nearest(vectors[2, 1], layer=2, k=5)
    """

    def __init__(self, path: Path, description: IndexDescription) -> None:
        self.path, self.description = path, description
        self.layers = description.layers
        self.words: list[str] = read_json(path / WORDS, LONGEST_WORDS_FILE)
        self._arrays: dict[str, NDArray[Any]] = {}
        lengths = {"offsets": description.texts + 1}
        per_text = dict.fromkeys(("numbers", "labels"), description.texts)
        for name, dtype in ARRAYS.items():
            size = {**lengths, **per_text}.get(name, description.occurrences)
            self._arrays[name] = self._mapped(name, dtype, (size,))
        self._norms = {
            layer: self._mapped(f"norms_{layer}", np.float32, (description.occurrences,))
            for layer in self.layers
        }
        self._vectors = {
            layer: torch.from_numpy(
                self._mapped(
                    f"layer_{layer}.f16", np.float16, (description.occurrences, description.dim)
                )
            )
            for layer in self.layers
        }
        self.means = np.array(description.means, np.float32)  # (layers, dim)
        sorted_words = self._arrays["tokens"][self._arrays["order"]]
        self._starts: Rows = np.searchsorted(sorted_words, np.arange(len(self.words) + 1))

    @classmethod
    def open(cls, path: Path | str) -> CorpusIndex:
        """Open an index; nothing is read before it is needed."""
        folder = Path(path)
        if not (folder / DESCRIPTION).is_file():
            raise UserError(
                f"{folder}: expected an index, but it has no {DESCRIPTION}; make one: elmo index"
            )
        data = read_json(folder / DESCRIPTION)
        description = from_json(IndexDescription, data, str(folder / DESCRIPTION))
        if description.format != FORMAT:
            raise UserError(
                f"{folder}: format {description.format}, but this version of elmo reads {FORMAT}; "
                "make the index again with elmo index"
            )
        return cls(folder, description)

    def _mapped(self, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
        path = self.path / (name if "." in name else f"{name}.bin")
        expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
        size = path.stat().st_size if path.is_file() else 0
        if size != expected:
            raise UserError(
                f"{path}: expected {expected:,} bytes, found {size:,}; the index is damaged, make "
                "it again with elmo index"
            )
        # Copy on write: torch warns about arrays that it may not write to.
        return np.memmap(path, dtype, "c", shape=shape) if size else np.zeros(shape, dtype)

    def __len__(self) -> int:
        return self.description.occurrences

    def __repr__(self) -> str:
        about = self.description
        return (
            f"CorpusIndex({str(self.path)!r}, {about.texts:,} texts, {about.occurrences:,} words, "
            f"layers {', '.join(map(str, self.layers))} of {about.dim})"
        )

    def check_model(self, embedder: Embedder) -> None:
        """Refuse a model other than the one that made the index."""
        if self.description.model != model_digest(embedder):
            raise UserError(
                f"{self.path}: made with another model; make the index again: elmo index … --model"
            )

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        folded: dict[str, list[int]] = {}
        for word_id, word in enumerate(self.words):
            folded.setdefault(word.casefold(), []).append(word_id)
        return folded

    def rows(self, word: str, *, ignore_case: bool = True) -> Rows:
        """Indices of all occurrences of a word, in the order of the corpus."""
        ids = self._folded.get(word.casefold(), [])
        if not ignore_case:
            ids = [word_id for word_id in ids if self.words[word_id] == word]
        order = self._arrays["order"]
        slices = [order[self._starts[one] : self._starts[one + 1]] for one in ids]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *slices])).astype(np.int64)

    def frequent(self, k: int = 100, *, at_least: int = 2) -> list[tuple[str, int]]:
        """The most frequent words and how often they occur, letters only."""
        counts = np.diff(self._starts)
        best: list[int] = np.argsort(-counts, kind="stable").tolist()
        pairs = ((self.words[one], int(counts[one])) for one in best)
        wanted = (pair for pair in pairs if pair[0].isalpha() and pair[1] >= at_least)
        return [pair for pair, _ in zip(wanted, range(k), strict=False)]

    def ambiguous(self) -> list[tuple[str, int]]:
        """Words whose senses are known, with the number of senses; the most frequent first."""
        marked = np.flatnonzero(self._arrays["senses"] >= 0)
        senses: dict[str, set[int]] = {}
        counts: dict[str, int] = {}
        for row in marked.tolist():
            word = self.words[int(self._arrays["tokens"][row])].casefold()
            senses.setdefault(word, set()).add(int(self._arrays["senses"][row]))
            counts[word] = counts.get(word, 0) + 1
        several = [word for word, found in senses.items() if len(found) > 1]
        return [(word, len(senses[word])) for word in sorted(several, key=lambda w: -counts[w])]

    def at(self, row: int, similarity: float | None = None) -> Occurrence:
        """An occurrence by its index."""
        offsets, about = self._arrays["offsets"], self.description
        text = int(np.searchsorted(offsets, row, side="right")) - 1
        start, end = int(offsets[text]), int(offsets[text + 1])
        ids: list[int] = self._arrays["tokens"][start:end].tolist()
        label, sense = int(self._arrays["labels"][text]), int(self._arrays["senses"][row])
        return Occurrence(
            row,
            self.words[ids[row - start]],
            tuple(self.words[one] for one in ids),
            row - start,
            int(self._arrays["numbers"][text]),
            about.labels[label] if label >= 0 else None,
            about.senses[sense] if sense >= 0 else None,
            similarity,
        )

    def occurrences(
        self, word: str, *, limit: int = 5000, ignore_case: bool = True, seed: int = 0
    ) -> Occurrences:
        """The occurrences of a word, a random sample if there are more than `limit`."""
        rows = self.rows(word, ignore_case=ignore_case)
        if not len(rows):
            hint = nearest(word, [known for known, _ in self.frequent(20_000, at_least=1)])
            raise UserError(f"{word!r:.60} does not occur in the corpus{hint}")
        sample = rows
        if len(rows) > limit:
            drawn = np.random.default_rng(seed).choice(len(rows), limit, replace=False)
            sample = rows[np.sort(drawn)]
        return Occurrences(word, len(rows), tuple(self.at(row) for row in sample.tolist()))

    def vectors(self, rows: Rows | Sequence[int], layer: int) -> Vectors:
        """The vectors of occurrences, (rows, dim)."""
        self._check_layer(layer)
        picked = self._vectors[layer][torch.from_numpy(np.asarray(rows, np.int64))]
        return picked.float().numpy()

    def mean(self, layer: int) -> Vectors:
        """The mean of all vectors of a layer, (dim,)."""
        self._check_layer(layer)
        return self.means[self.layers.index(layer)]

    def _check_layer(self, layer: int) -> None:
        if layer not in self.layers:
            stored = ", ".join(map(str, self.layers))
            raise UserError(f"layer {layer} is not in the index, which holds {stored}")

    @torch.no_grad()
    def nearest(
        self,
        vector: Vectors,
        *,
        layer: int,
        k: int = 10,
        distinct: Distinct = "phrase",
        word: str | None = None,
        exclude: Sequence[str] = (),
    ) -> Occurrences:
        """The occurrences whose vectors are most similar to a vector.

        Args:
            vector: Of that layer, (dim,).
            layer: Which stored layer to compare.
            k: How many occurrences.
            distinct: phrase: only the best of those with the same two words on either side; word:
                only the best of each word; none: all.
            word: Only occurrences of this word.
            exclude: The words of a text whose own occurrences are left out.
        """
        self._check_layer(layer)
        query = torch.from_numpy(np.asarray(vector, np.float32)) - torch.from_numpy(
            self.mean(layer)
        )
        length = float(np.linalg.norm(query.numpy()))
        stored, norms = self._vectors[layer], self._norms[layer]
        rows = None if word is None else self.rows(word)
        if rows is not None:
            stored, norms = stored[torch.from_numpy(rows)], norms[rows]
        # The mean's part is the same constant for all; half precision only picks candidates.
        products = (stored @ query.half()).float().numpy()
        products -= float(torch.from_numpy(self.mean(layer)) @ query)
        scale = np.where(norms > 0, norms * max(length, 1e-30), np.inf)
        cosines: NDArray[np.float32] = (products / scale).astype(np.float32)
        picked: list[Occurrence] = []
        for row in self._ranked(cosines, rows, query, length, layer, distinct, k):
            occurrence = self.at(*row)
            if occurrence.words != tuple(exclude):
                picked.append(occurrence)
                if len(picked) == k:
                    break
        return Occurrences("", len(cosines), tuple(picked))

    def _ranked(
        self,
        cosines: NDArray[np.float32],
        rows: Rows | None,
        query: torch.Tensor,
        length: float,
        layer: int,
        distinct: Distinct,
        k: int,
    ) -> Iterator[tuple[int, float]]:
        """Rows with exact cosines, the best first, each phrase or word once."""
        if distinct == "word" and rows is None:
            # The best occurrence of each word: frequent words would push all others out.
            order = self._arrays["order"]
            by_word = np.maximum.reduceat(cosines[order], self._starts[:-1])
            chosen = np.argsort(-by_word)[: 8 * k + 64]
            spans = [(self._starts[one], self._starts[one + 1]) for one in chosen.tolist()]
            candidates = np.array([order[a:b][cosines[order[a:b]].argmax()] for a, b in spans])
            yield from self._exact(candidates, query, length, layer)
            return
        seen: set[tuple[str, ...]] = set()
        done, wanted = 0, 16 * k + 64
        while done < len(cosines):
            wanted = min(wanted, len(cosines))
            best = np.argpartition(-cosines, wanted - 1)[:wanted]
            best = best[np.argsort(-cosines[best], kind="stable")][done:]
            numbers = best if rows is None else rows[best]
            for row, similarity in self._exact(numbers, query, length, layer):
                occurrence = self.at(row)
                around = {"phrase": WORDS_AROUND, "word": 0}.get(distinct)
                padding = [""] * (around or 0)
                padded = [*padding, *occurrence.words, *padding]
                end = occurrence.position + 2 * (around or 0) + 1
                phrase = tuple(one.casefold() for one in padded[occurrence.position : end])
                if around is None or phrase not in seen:
                    seen.add(phrase)
                    yield row, similarity
            done, wanted = wanted, wanted * 4

    def _exact(
        self, rows: NDArray[Any], query: torch.Tensor, length: float, layer: int
    ) -> list[tuple[int, float]]:
        centred = self.vectors(rows, layer) - self.mean(layer)
        norms = np.linalg.norm(centred, axis=1) * length
        cosines = (centred @ query.numpy()) / np.where(norms > 0, norms, np.inf)
        best: list[int] = np.argsort(-cosines, kind="stable").tolist()
        return [(int(rows[one]), float(cosines[one])) for one in best]


# Building.


def model_digest(embedder: Embedder) -> str:
    """Identifies weights and vocabulary of a model."""
    return tensor_digest(embedder.model.state_dict(), embedder.model.vocabulary.words)


def build_index(
    embedder: Embedder,
    texts: Iterable[Text | CorpusText],
    out: Path | str,
    config: IndexConfig | None = None,
    *,
    encode: Encode | None = None,
    fresh: bool = False,
    progress: Listener | None = None,
) -> CorpusIndex:
    """Write the vectors of all words of a corpus to a new folder.

    The same call resumes after a kill. The folder appears when it is complete.

    Args:
        embedder: What gives the vectors.
        texts: Strings, lists of words, or `CorpusText` with labels and senses.
        out: The folder to write.
        config: Layers, and the most words before the corpus is sampled.
        encode: Computes vectors elsewhere, such as in a server's own thread; default: here.
        fresh: Start over, rather than resume what an earlier call left.
        progress: Called after each chunk.
    """
    out, config = Path(out), config or IndexConfig()
    check(config)
    layers = config.layers or tuple(range(1 + embedder.num_layers))
    wrong = [layer for layer in layers if not 0 <= layer <= embedder.num_layers]
    if wrong:
        raise UserError(f"layers: expected 0 to {embedder.num_layers}, got {wrong[0]}")
    if encode is None:
        encoder = embedder.encoder(EncodeConfig(output="tokens", layer="all"))
        encode = encoder.encode
    busy = f"{out}: another process is writing this index; wait for it, or choose another name"
    folder = out.with_name(f"{out.name}.unfinished")
    lock = out.with_name(f".{out.name}{LOCK}")
    try:
        with locked(lock, busy):
            try:
                # With the lock held, so that a lock file that a kill has left is removed below.
                if out.exists():
                    raise UserError(f"{out}: exists already; delete it, or choose another folder")
                claim_folder(folder)
                remove_leftovers(folder.parent, folder.name)
                if fresh:
                    remove_folder(folder)
                    claim_folder(folder)
                sample = _sample(embedder, texts, config)
                description = _write_words(folder, embedder, sample, layers)
                _write_vectors(folder, description, sample.texts, encode, progress)
                _write_statistics(folder, description)
                for path in sorted(folder.iterdir()):
                    sync(path)
                folder.replace(out)
                sync(out.parent)
            finally:
                if (folder / MARK).is_file() and not (folder / PROGRESS).exists():
                    remove_folder(folder)  # there is nothing to resume
                # Only the holder removes it: another process may be working under it.
                with suppress(OSError):  # Windows cannot delete it while it is held
                    lock.unlink()
    except OSError as error:
        raise explained(error, out) from error
    return CorpusIndex.open(out)


def read_corpus(sources: Sequence[str], options: ReadOptions | None = None) -> Iterator[CorpusText]:
    """Texts of files, with labels where a table has a column for them."""
    for source in resolve(sources):
        labelled = True
        try:
            columns, reading = choose_columns(
                source, options or ReadOptions(), None, labelled=labelled
            )
        except UserError:
            labelled = False
            columns, reading = choose_columns(
                source, options or ReadOptions(), None, labelled=labelled
            )
        for row in read_columns(source, columns, reading):
            text = " ".join(row[0].splitlines())
            if text.strip():
                yield CorpusText(text, row[1].strip() or None if labelled else None)


class Sample(NamedTuple):
    """The texts of an index, and the size of the corpus that they were drawn from."""

    texts: list[tuple[int, list[str], CorpusText]]
    corpus_texts: int
    corpus_words: int


def _sample(embedder: Embedder, texts: Iterable[Text | CorpusText], config: IndexConfig) -> Sample:
    """Draw texts with at most `max_words` words in all; only these are held in memory."""
    if isinstance(texts, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    chance = random.Random(config.seed)
    heap: list[tuple[float, int, list[str], CorpusText]] = []
    held = total = number = 0
    for number, item in enumerate(texts, start=1):
        text = item if isinstance(item, CorpusText) else CorpusText(item)
        try:
            words = embedder.loaded.words(text.text)
        except UserError as error:
            raise UserError(f"text {number - 1}: {error}") from None
        total += len(words)
        if not words:
            continue
        # The texts with the smallest random keys are a fair sample of any size.
        heapq.heappush(heap, (-chance.random(), number - 1, words, text))
        held += len(words)
        while held > config.max_words and len(heap) > 1:
            held -= len(heapq.heappop(heap)[2])
    if not heap:
        raise UserError("expected texts with words to index, but there are none")
    if held < total:
        log.info("indexing a random sample: %s of %s words", f"{held:,}", f"{total:,}")
    chosen = sorted((idx, words, text) for _, idx, words, text in heap)
    return Sample(chosen, number, total)


def _write_words(
    folder: Path, embedder: Embedder, sample: Sample, layers: tuple[int, ...]
) -> IndexDescription:
    """Write all but the vectors, or make sure that an unfinished folder has the same."""
    ids: dict[str, int] = {}
    labels: dict[str, int] = {}
    senses: dict[str, int] = {}
    tokens: list[int] = []
    text_labels: list[int] = []
    meanings: list[int] = []
    lengths = [len(words) for _, words, _ in sample.texts]
    for _, words, text in sample.texts:
        tokens += [ids.setdefault(word, len(ids)) for word in words]
        has_label = text.label is not None
        text_labels.append(labels.setdefault(str(text.label), len(labels)) if has_label else -1)
        known = text.senses or {}
        for position in range(len(words)):
            sense = known.get(position)
            meanings.append(-1 if sense is None else senses.setdefault(sense, len(senses)))
    columns = {
        "tokens": np.array(tokens, np.int32),
        "offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]),
        "numbers": np.array([number for number, _, _ in sample.texts], np.int64),
        "labels": np.array(text_labels, np.int32),
        "senses": np.array(meanings, np.int32),
        "order": np.argsort(np.array(tokens, np.int32), kind="stable").astype(np.int32),
    }
    text = json.dumps(list(ids))
    content = hashlib.sha256(text.encode())
    for column in columns.values():
        content.update(column.tobytes())
    description = IndexDescription(
        format=FORMAT,
        model=model_digest(embedder),
        content=content.hexdigest(),
        layers=layers,
        dim=embedder.width,
        texts=len(lengths),
        occurrences=sum(lengths),
        corpus_texts=sample.corpus_texts,
        corpus_words=sample.corpus_words,
        labels=tuple(labels),
        senses=tuple(senses),
    )
    job = folder / PROGRESS
    if job.exists():
        before = from_json(IndexDescription, read_json(job).get("job"), str(job))
        if before != description:
            raise UserError(
                f"{folder} was started with another corpus, model or settings; use --fresh, or "
                "delete it, to start over"
            )
        return description
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / WORDS, text)
    for name, column in columns.items():
        (folder / f"{name}.bin").write_bytes(column.tobytes())
    for layer in layers:
        with (folder / f"layer_{layer}.f16").open("wb") as file:
            reserve_space(file, description.occurrences * description.dim * 2)
    write_json(job, {"job": to_json(description), "texts": 0})
    return description


def _write_vectors(
    folder: Path,
    about: IndexDescription,
    texts: Sequence[tuple[int, list[str], CorpusText]],
    encode: Encode,
    progress: Listener | None,
) -> None:
    done = int(read_json(folder / PROGRESS)["texts"])
    row = sum(len(words) for _, words, _ in texts[:done])
    if done:
        log.info("resuming after %s of %s texts", f"{done:,}", f"{len(texts):,}")
    pace = None if progress is None else Pace(progress, len(texts), done)
    while done < len(texts):
        chunk: list[list[str]] = []
        size = 0
        for _, words, _ in texts[done:]:
            chunk.append(words)
            size += len(words)
            if size >= CHUNK_WORDS:
                break
        vectors = np.concatenate(encode(chunk), axis=1)  # (layers, words, dim)
        for layer in about.layers:
            with (folder / f"layer_{layer}.f16").open("r+b") as file:
                file.seek(row * about.dim * 2)
                file.write(vectors[layer].astype(np.float16).tobytes())
                file.flush()
                os.fsync(file.fileno())
        done, row = done + len(chunk), row + size
        write_json(folder / PROGRESS, {"job": to_json(about), "texts": done})
        if pace is not None:
            pace.add(len(chunk), size)


def _write_statistics(folder: Path, about: IndexDescription) -> None:
    """The mean of each layer, the length of each vector from there, and index.json."""
    means: list[tuple[float, ...]] = []
    for layer in about.layers:
        path = folder / f"layer_{layer}.f16"
        rows = np.memmap(path, np.float16, "r", shape=(about.occurrences, about.dim))
        spans = [slice(n, n + ROWS_AT_ONCE) for n in range(0, about.occurrences, ROWS_AT_ONCE)]
        total = np.zeros(about.dim)
        for span in spans:
            total += rows[span].astype(np.float64).sum(0)
        mean: Vectors = (total / about.occurrences).astype(np.float32)
        norms = [np.linalg.norm(rows[span].astype(np.float32) - mean, axis=1) for span in spans]
        (folder / f"norms_{layer}.bin").write_bytes(
            np.concatenate(norms).astype(np.float32).tobytes()
        )
        means.append(tuple(mean.tolist()))
    complete = to_json(about) | {"means": [list(mean) for mean in means]}
    write_json(folder / DESCRIPTION, complete)
    (folder / PROGRESS).unlink()

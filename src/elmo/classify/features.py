"""What a classifier reads of texts: the biLM's layers and, of each word, its task embedding.

`TokenizedTexts` holds the words, `FrozenFeatures` the layers of each word, in memory or on disk.
What a biLM made of texts is kept in the cache.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, Randomness
from elmo.classify.network import TextLayers
from elmo.embed.embedder import groups_of, tokenised, usual_batch_tokens
from elmo.embed.mix import PackedLayers
from elmo.errors import UserError
from elmo.files import atomic_write, cache_folder, explained, reserve_space
from elmo.language_model import LanguageModel
from elmo.model_folder import Text
from elmo.runtime import machine_memory
from elmo.static.vectors import StaticVectors
from elmo.text.batching import Batch, pack_texts
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary, build_vocabulary

Rows = NDArray[np.int64]
Half = NDArray[np.float16]
OnTexts = Callable[[int, int], None]
"""Told how many more texts, and words of them, are done."""

MAX_WORD_VECTORS = 400_000
"""Vectors taken of a file; files list the most frequent words first."""
TOKENS_AT_ONCE = 1 << 17
"""Words sorted by length and read together, which bounds the memory for many texts."""
FEATURES_VERSION = 2
"""Version of the files in the cache; raise it with every change of what they hold."""
CACHE_BYTES = 8 << 30
BATCHES_SORTED = 50
"""Texts are sorted by length within this many batches: little padding, and still random order."""

log = logging.getLogger(__name__)


# Task embeddings: word vectors that the classifier learns, the x of the paper's [x; ELMo].


def build_task_vocabulary(texts: Iterable[Sequence[str]], min_count: int) -> Vocabulary:
    """The words that occur at least `min_count` times, most frequent first, then by alphabet."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update(words)
        number += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return build_vocabulary(
        [word for word, _ in ranked], [count for _, count in ranked], boundaries=number,
        min_count=min_count, max_size=None,
    )  # fmt: skip


def with_pretrained_words(vocabulary: Vocabulary, pretrained: StaticVectors) -> Vocabulary:
    """Append all other words of `pretrained`, with count 0: texts to come may hold them."""
    words = [word for word in pretrained.words if word.split() == [word]]
    return vocabulary.grown(words, [0] * len(words))


def load_word_vectors(path: Path | str | None) -> StaticVectors | None:
    return None if path is None else StaticVectors.load(path, MAX_WORD_VECTORS)


def check_vector_size(pretrained: StaticVectors, task_dim: int) -> None:
    if pretrained.dim > task_dim:
        raise UserError(
            f"word_vectors: expected vectors of at most {task_dim} numbers, the size of the task "
            f"embeddings, got {pretrained.dim}; use --task-dim {pretrained.dim} or more"
        )


@torch.no_grad()
def init_from_word_vectors(
    table: Tensor, vocabulary: Vocabulary, pretrained: StaticVectors
) -> None:
    """Set rows of `table`, (words, task_dim), from pretrained vectors of a word or its lower case.

    Shorter vectors fill the first columns. The other columns keep their random start if the word
    is frequent in the training texts, which will train them; for all other words they are zero.
    """
    rows = np.array(
        [
            pretrained.ids.get(word, pretrained.ids.get(word.lower(), -1))
            for word in vocabulary.words
        ]
    )
    rows[: len(SPECIAL_WORDS)] = -1
    has_vector, is_trained = rows >= 0, np.array(vocabulary.counts) > 0
    if not (has_vector & is_trained).any():
        raise UserError(
            "word_vectors: expected vectors for the words of the texts, but the file has none of "
            "these words; check its language and spelling"
        )
    table[torch.from_numpy(has_vector & ~is_trained)] = 0
    vectors = torch.from_numpy(pretrained.vectors[rows[has_vector]])
    table[torch.from_numpy(has_vector), : pretrained.dim] = vectors


def task_ids(vocabulary: Vocabulary, words: Sequence[str], lower_case: bool) -> NDArray[np.int32]:
    """The row of each word's task embedding; with `lower_case` also by its lower-case form."""
    ids = vocabulary.encode(words).astype(np.int32)
    if lower_case:
        for index in np.flatnonzero(ids == UNKNOWN).tolist():
            ids[index] = vocabulary.id(words[index].lower())
    return ids


# Texts as words, read by the biLM as often as needed.


def tokenize_texts(loaded: LanguageModel, texts: Iterable[Text]) -> list[list[str]]:
    """Tokenize as the biLM's training text was."""
    return [text.words for text in tokenised(loaded, texts)]


def cut_texts(words: Sequence[list[str]], max_words: int) -> list[list[str]]:
    """The first `max_words` words of each text; logs how many texts are longer."""
    long = sum(len(text) > max_words for text in words)
    if long:
        log.warning("texts cut to their first %d words: %d of %d", max_words, long, len(words))
    return [text[:max_words] for text in words]


class TokenizedTexts:
    """The words of each text, and the vocabulary of the task embeddings.

    Args:
        words: The words of each text; an empty text has none.
        task_vocabulary: The words that have a task embedding.
        lower_case: Whether a word without one takes that of its lower-case form.
    """

    def __init__(
        self, words: list[list[str]], task_vocabulary: Vocabulary, lower_case: bool = False
    ) -> None:
        self.words = words
        self.task_vocabulary = task_vocabulary
        self.lower_case = lower_case
        self.lengths: Rows = np.array([len(text) for text in words], np.int64)
        self._task_ids: dict[int, NDArray[np.int32]] = {}

    def __len__(self) -> int:
        return len(self.words)

    def task_ids(self, rows: Sequence[int]) -> Tensor:
        """Rows of the task embedding, (texts, words), UNKNOWN at padding."""
        ids = np.full((len(rows), int(self.lengths[rows].max())), UNKNOWN, np.int64)
        for index, row in enumerate(rows):
            # Looked up when a text is first read, not in every epoch.
            if row not in self._task_ids:
                found = task_ids(self.task_vocabulary, self.words[row], self.lower_case)
                self._task_ids[row] = found
            ids[index, : self.lengths[row]] = self._task_ids[row]
        return torch.from_numpy(ids)

    def batch(self, rows: Sequence[int], model: BiLM) -> Batch:
        texts = [self.words[row] for row in rows]
        return pack_texts(texts, model.vocabulary, spelled=model.spelled)

    def read(
        self, rows: Sequence[int], model: BiLM, random: Randomness | None = None
    ) -> TextLayers:
        """Read some texts with the biLM; gradients flow to it if they are enabled."""
        outputs = model.layers(self.batch(rows, model).to(model.device), random=random)
        layers, mask = outputs.padded()  # (1 + layers, texts, longest, 2 * width)
        return TextLayers(layers, mask.sum(1), self.task_ids(rows).to(model.device))

    @torch.no_grad()
    def read_all(
        self, model: BiLM, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[list[int], TextLayers]]:
        """Read each text once, texts of similar length together; yields rows and their layers."""
        for start, end in text_blocks(self.words[first:last]):
            block = self.words[first + start : first + end]
            for group in groups_of(block, usual_batch_tokens(model)):
                rows = [first + start + idx for idx in group]
                yield rows, self.read(rows, model)


# Features of a frozen biLM.


class FrozenFeatures:
    """The layers of all texts, computed once with `compute`.

    Kept in half precision: the values of a layer are small, and rounding them changes no decision.
    Layer 0 is the same for both directions and is kept once.
    """

    def __init__(self, texts: TokenizedTexts, model: BiLM, storage: _Memory | _Disk) -> None:
        self.texts = texts
        self._device = model.device
        self._width = model.config.width
        self._starts = np.cumsum(texts.lengths) - texts.lengths
        self._storage = storage

    @classmethod
    def compute(
        cls,
        texts: TokenizedTexts,
        model: BiLM,
        *,
        memory: float | None,
        folder: Path,
        on_texts: OnTexts | None = None,
    ) -> FrozenFeatures:
        """Read all texts once; what fits there is kept in the cache, and found by a later call.

        Args:
            memory: Gigabytes the layers may take; beyond that they go to an unnamed file in
                `folder`, which disappears with the process. Default: half of the machine's memory.
        """
        shape = (int(texts.lengths.sum()), word_size(model))
        size = 2 * shape[0] * shape[1]
        limit = machine_memory() / 2 if memory is None else memory * 1e9
        storage = _Memory(shape) if size <= limit else _Disk(folder, shape)
        features = cls(texts, model, storage)
        cache = features_cache(model) if size <= CACHE_BYTES else None
        for first, last in text_blocks(texts.words):
            block, lengths = texts.words[first:last], texts.lengths[first:last]
            words = (int(lengths.sum()), shape[1])
            values = cached_block(
                block, cache, words, "words", partial(_read_block, texts, first, last, model)
            )
            storage.put(int(features._starts[first]), values)
            if on_texts is not None:
                on_texts(len(block), words[0])
        if cache is not None:
            limit_cache(cache.parent)
        return features

    def for_texts(self, texts: TokenizedTexts) -> FrozenFeatures:
        """The same layers for the same texts, which may have another task vocabulary."""
        if texts.words != self.texts.words:
            raise UserError("features: expected those of the same texts, got those of other texts")
        same = copy.copy(self)
        same.texts = texts
        return same

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The layers of some texts, zeros at padding."""
        lengths = self.texts.lengths[rows]
        values = np.empty((len(rows), int(lengths.max()), self._storage.size), np.float16)
        for index, row in enumerate(rows):
            self._storage.get(int(self._starts[row]), values[index, : lengths[index]])
            values[index, lengths[index] :] = 0
        layers = PackedLayers(torch.from_numpy(values).to(self._device), self._width)
        ids = self.texts.task_ids(rows).to(self._device)
        return TextLayers(layers, torch.from_numpy(lengths).to(self._device), ids)


def as_halves(values: Tensor) -> Half:
    """In half precision; what it cannot hold is an error."""
    largest = torch.finfo(torch.float16).max
    if not bool((values.abs() <= largest).all()):
        raise UserError(
            "the biLM's layers: expected values that half precision can hold, up to "
            f"{largest:,.0f}; its weights are damaged or its training diverged"
        )
    return values.half().cpu().numpy()


def word_size(model: BiLM) -> int:
    """Numbers kept per word."""
    return model.config.width * (1 + 2 * model.config.layers)


class _Memory:
    def __init__(self, shape: tuple[int, int]) -> None:
        self.size = shape[1]
        self._words: Half = np.empty(shape, np.float16)

    def put(self, start: int, words: Half) -> None:
        self._words[start : start + len(words)] = words

    def get(self, start: int, out: Half) -> None:
        out[:] = self._words[start : start + len(out)]


class _Disk:
    """An unnamed file; read, not mapped, so that resident memory does not grow with it."""

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self.size = shape[1]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            # All at once, so that a full disk is reported before the long work.
            reserve_space(self._file, max(1, 2 * shape[0] * shape[1]))
        except OSError as error:
            raise explained(error, folder) from error

    def put(self, start: int, words: Half) -> None:
        self._file.seek(2 * start * self.size)
        self._file.write(words.tobytes())

    def get(self, start: int, out: Half) -> None:
        offset = 2 * start * self.size
        if hasattr(os, "preadv"):
            # Forked processes share the file's position: seek and read would mix their texts.
            os.preadv(self._file.fileno(), [out.data], offset)
        else:
            self._file.seek(offset)
            self._file.readinto(out.data)

    def __del__(self) -> None:
        with suppress(AttributeError):
            self._file.close()


def _read_block(texts: TokenizedTexts, first: int, last: int, model: BiLM) -> Half:
    """All layers of the words of some texts, one row per word."""
    lengths = texts.lengths[first:last]
    starts = np.cumsum(lengths) - lengths
    values = np.empty((int(lengths.sum()), word_size(model)), np.float16)
    for rows, read in texts.read_all(model, first, last):
        halves = as_halves(PackedLayers.of(cast("Tensor", read.layers), torch.float32).values)
        for row, words in zip(rows, halves, strict=True):
            start, length = starts[row - first], lengths[row - first]
            values[start : start + length] = words[:length]
    return values


# The cache: one file per block of texts, so that a killed job loses the work on one block.


def text_blocks(words: Sequence[list[str]]) -> Iterator[tuple[int, int]]:
    """First and last text of each block, about TOKENS_AT_ONCE words."""
    ends, first = np.cumsum([1 + len(text) for text in words]), 0
    while first < len(words):
        before = ends[first - 1] if first else 0
        last = min(len(words), int(np.searchsorted(ends, before + TOKENS_AT_ONCE)) + 1)
        yield first, last
        first = last


def features_cache(model: BiLM) -> Path:
    return cache_folder() / "features" / model_digest(model)


def model_digest(model: BiLM) -> str:
    """A fingerprint of everything that decides what a biLM makes of words."""
    settings = [FEATURES_VERSION, asdict(model.config), str(model.compute_dtype)]
    digest = hashlib.sha256(json.dumps(settings).encode())
    digest.update("\n".join(model.vocabulary.words).encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def cached_block(
    words: Sequence[list[str]],
    folder: Path | None,
    shape: tuple[int, ...],
    kind: str,
    compute: Callable[[], Half],
) -> Half:
    """What `compute` returns for these texts, from the cache if it is there and undamaged."""
    if folder is None:
        return compute()
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]
    path = folder / f"{digest}-{kind}.npy"
    with suppress(OSError, ValueError, EOFError):
        if path.is_file():  # rather than a pipe
            with path.open("rb") as file:
                values = np.load(file)
                sound = file.read() == hashlib.sha256(values.data).digest()
            if sound and values.shape == shape and values.dtype == np.float16:
                path.touch()  # the files used last are deleted last
                return values
    values = compute()
    try:
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
            file.write(hashlib.sha256(values.data).digest())
    except UserError as error:
        log.warning("the layers of these texts are not cached: %s", error)
    return values


def limit_cache(folder: Path) -> None:
    """Delete the files used longest ago until the rest fits into the limit."""
    for path in folder.glob("*/.*.partial"):  # of killed processes, once they are surely dead
        with suppress(OSError):  # another process may rename or delete any file meanwhile
            if path.stat().st_mtime < time.time() - 3600:
                path.unlink()
    files: list[tuple[float, int, Path]] = []
    for path in folder.glob("*/*.npy"):
        with suppress(OSError):
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > CACHE_BYTES:
            with suppress(OSError):
                path.unlink()


# The order of the texts in training.


def shuffled_batches(rows: Rows, lengths: Rows, size: int, seed: int, epoch: int) -> list[Rows]:
    """Each row once, in batches of texts of similar length; determined by seed and epoch."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(rows)
    batches: list[Rows] = []
    for start in range(0, len(order), BATCHES_SORTED * size):
        chunk = order[start : start + BATCHES_SORTED * size]
        batches += batches_by_length(chunk, lengths, size)
    return [batches[index] for index in random.permutation(len(batches))]


def batches_by_length(rows: Rows, lengths: Rows, size: int) -> list[Rows]:
    """Each row once, the shortest texts first."""
    ordered = rows[np.argsort(lengths[rows], kind="stable")]
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]

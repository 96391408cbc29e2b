"""A prepared corpus: token ids on disk, split into train and held-out, reused while unchanged.

A corpus lives in the cache under a fingerprint of its files and settings. One process prepares it
while others wait; it is used only if the sources still have the content it was made of and every
file of it has the hash of what was written.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from elmo import files
from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, read_documents
from elmo.text.tokenizer import TOKENIZERS, Tokenizer, TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import (
    END,
    SPECIAL_WORDS,
    START,
    UNKNOWN,
    Shard,
    Vocabulary,
    build_vocabulary,
    read_counts,
)

FORMAT = 2
TOKENS_PER_SHARD = 1 << 22
LARGEST_LEXICON = 2_000_000  # distinct words; those that appear later are unknown to every model
MANIFEST, LEXICON = "corpus.json", "lexicon.txt"
Ids = NDArray[np.uint32]

log = logging.getLogger(__name__)

# Shards: written as the documents come, read through memory maps, never whole in memory.


class ShardWriter:
    """Collects documents and writes a shard whenever it has enough tokens.

    `hashes` has the SHA-256 of every file, computed from memory, by its path in the corpus.
    """

    def __init__(self, folder: Path, tokens_per_shard: int = TOKENS_PER_SHARD) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._room = tokens_per_shard
        self._ids = np.empty(tokens_per_shard, np.uint32)
        self._used = 0
        self._ends: list[int] = []
        self._shards = 0
        self.hashes: dict[str, str] = {}

    def add(self, document: list[int]) -> None:
        if self._used and self._used + len(document) > self._room:
            self.close()
        if len(document) > len(self._ids):
            self._ids = np.empty(len(document), np.uint32)
        self._ids[self._used : self._used + len(document)] = document
        self._used += len(document)
        self._ends.append(self._used)

    def close(self) -> None:
        """Write what is still in memory."""
        if not self._ends:
            return
        name = f"{self._shards:05d}"
        self.hashes |= _save(self._folder / f"{name}.ids.npy", self._ids[: self._used])
        self.hashes |= _save(self._folder / f"{name}.ends.npy", np.array(self._ends, np.int64))
        self._shards += 1
        self._used = 0
        self._ends = []


@dataclass(frozen=True)
class Shards(Sequence[Shard]):
    """The shards of a folder, in order; each is opened when it is needed."""

    folder: Path

    def __len__(self) -> int:
        return len(self._names())

    def __getitem__(self, idx: int) -> Shard:  # pyright: ignore[reportIncompatibleMethodOverride]
        path = self.folder / self._names()[idx]
        advice = f"delete {self.folder.parent} and run again"
        try:
            ids, ends = (
                np.load(f"{path}.{kind}.npy", mmap_mode="r", allow_pickle=False)
                for kind in ("ids", "ends")
            )
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{path}: cannot be read ({error}); {advice}") from None
        if ids.dtype != np.uint32 or ends.dtype != np.int64 or ends[-1:].tolist() != [len(ids)]:
            raise UserError(f"{path}: damaged; {advice}")
        return Shard(cast("Ids", ids), cast("NDArray[np.int64]", ends))

    @property
    def documents(self) -> int:
        return sum(len(shard.ends) for shard in self)

    @property
    def positions(self) -> int:
        """How many ids there are, boundaries included."""
        return sum(len(shard.ids) for shard in self)

    @property
    def targets(self) -> int:
        """How many words one direction is asked to predict: each word and one boundary."""
        return self.positions - self.documents

    def renumber(self, new_ids: Ids) -> dict[str, str]:
        """Replace each id by `new_ids[id]`, shard by shard, in place; returns the new hashes."""
        hashes: dict[str, str] = {}
        for name in self._names():
            path = self.folder / f"{name}.ids.npy"
            hashes |= _save(path, new_ids[np.load(path, allow_pickle=False)])
        return hashes

    def _names(self) -> list[str]:
        return sorted(path.name.split(".")[0] for path in self.folder.glob("*.ids.npy"))


def _save(path: Path, values: NDArray[np.generic]) -> dict[str, str]:
    """Write what np.save would, which can cut a file short on a full disk and not say so."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(values))
    digest = hashlib.sha256(header.getvalue())
    digest.update(values.data)
    with path.open("wb") as stream:
        stream.write(header.getvalue())
        stream.write(values.data)
    return {f"{path.parent.name}/{path.name}": digest.hexdigest()}


# Which texts are held out: a stable property of a text, shared by its near copies.
#
# News and web text is full of stories that differ by a few words. Drawn one by one, copies of a
# training text would be held out, and perplexity would measure memory. So a text is represented by
# one of its phrases, the one whose hash is smallest (a one-value MinHash): two texts fall on the
# same side with a probability at least equal to the fraction of phrases they have in common.


PHRASE = 5
Hashes = NDArray[np.uint64]

_ODD = 0x9E3779B97F4A7C15
_WRAP = 2**64 - 1
_POWERS = np.array([_ODD**power & _WRAP for power in reversed(range(PHRASE))], np.uint64)
# The constants of SplitMix64's finaliser, in its order; as arrays they cost less than as scalars.
_SHIFTS = tuple(np.array(shift, np.uint64) for shift in (30, 27, 31))
_FACTORS = tuple(np.array(factor, np.uint64) for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def is_held_out(tokens: Sequence[str], fraction: float) -> bool:
    return fraction > 0 and is_phrase_held_out(representative_phrase(tokens), fraction)


def is_phrase_held_out(phrase: int, fraction: float) -> bool:
    """Whether the texts that this phrase represents are held out."""
    return phrase < fraction * 2**64


def representative_phrase(tokens: Sequence[str]) -> int:
    """A hash of the phrase that represents the text, case ignored, uniform over 64 bits."""
    # One split for all words, none of which holds a line break: faster than a cache of hashes.
    lines = "\n".join(tokens).lower().encode("utf-8", "surrogatepass").split(b"\n")
    words = np.fromiter(map(zlib.crc32, lines), np.uint64, len(lines))
    # A phrase w v … z is the number w ODD^4 + v ODD^3 + … + z, of all phrases at once.
    phrases = np.correlate(words, _POWERS[-len(words) :], "valid")
    # Two different mixtures: the smallest of one set of hashes is anything but uniform.
    chosen = int(phrases[_mixed(phrases).argmin()])
    return int(_mixed(np.array([chosen + _ODD & _WRAP], np.uint64))[0])


def _mixed(values: Hashes) -> Hashes:
    """Spread 64-bit values evenly (the finaliser of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


# The corpus and its cache.


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """All that decides what a prepared corpus holds."""

    sources: Sequence[Source]
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    held_out_sources: Sequence[Source] = ()
    held_out_share: float = 0.02

    def fingerprint(self, custom_tokenizer: Tokenizer | None = None) -> str:
        """A name that changes with the files (path, size, time) and the settings."""
        function = custom_tokenizer
        code = getattr(function, "__code__", None)
        content = {
            "format": FORMAT,
            "sources": [source.fingerprint() for source in self.sources],
            "held_out_sources": [source.fingerprint() for source in self.held_out_sources],
            "held_out_share": self.held_out_share,
            "read": asdict(self.read),
            "tokenizer": asdict(self.tokenizer),
            "function": function and getattr(function, "__qualname__", str(type(function))),
            "code": code and [code.co_code.hex(), str(code.co_names), str(code.co_consts)],
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Corpus:
    """Every distinct word with its training count, most frequent first, and the id shards."""

    folder: Path
    fingerprint: str
    digest: str  # changes whenever the text does, whatever its files are called
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    train: Shards
    held_out: Shards

    @property
    def tokens(self) -> int:
        """Running words of the training part, without boundaries."""
        return self.train.positions - 2 * self.train.documents

    def vocabulary(self, min_count: int, max_size: int | None) -> Vocabulary:
        """The most frequent words, each seen at least `min_count` times; at least one."""
        special = len(SPECIAL_WORDS)
        vocabulary = build_vocabulary(
            self.words[special:],
            self.counts[special:].tolist(),
            boundaries=self.train.documents,
            min_count=min_count,
            max_size=max_size,
        )
        if len(vocabulary) == special:
            raise UserError(
                f"no word occurs {min_count} times; lower --min-count or give more text"
            )
        return vocabulary


def prepare(
    request: CorpusRequest,
    *,
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Tokenise a corpus into memory-mapped shards, or reuse those in the cache.

    With a custom tokenizer a corpus is prepared every time, since nothing on disk tells whether the
    function still does the same. `progress` is called with the number of documents read so far.
    """
    cache = cache or files.cache_folder()
    fingerprint = request.fingerprint(custom_tokenizer)
    folder = cache / "corpora" / fingerprint
    waiting = "another process is preparing the same text; waiting for it"
    with files.locked(cache / "locks" / f"{fingerprint}.lock", waiting, wait=True):
        files.remove_leftovers(folder.parent, fingerprint)
        name = request.tokenizer.tokenizer
        is_known = name in TOKENIZERS or name.startswith("spacy:")
        if is_known and (folder / MANIFEST).exists():
            try:
                corpus = load_corpus(folder)
                if files.read_json(folder / MANIFEST).get("content") == _content(request):
                    log.info("reusing the prepared corpus %s", folder)
                    return corpus
                log.info("the files have other content than when %s was prepared", folder)
            except UserError as error:
                log.warning("preparing the text again, since %s", error)
        tokenize = build_tokenizer(request.tokenizer, custom_tokenizer)
        with files.atomic_folder(folder) as temporary:
            _write_corpus(temporary, request, tokenize, progress)
        return load_corpus(folder)


def load_corpus(folder: Path) -> Corpus:
    """Open a prepared corpus after comparing every file with the hash of what was written."""
    manifest = files.read_json(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise UserError(f"{folder}: prepared by another version; delete it and run again")
    hashes = manifest.get("files", {})
    for name in hashes:
        if not (folder / name).is_file() or files.sha256(folder / name) != hashes[name]:
            raise UserError(
                f"{folder / name}: not what was written there; delete {folder} and run again"
            )
    if manifest.get("digest") != _digest(hashes):
        raise UserError(f"{folder / MANIFEST}: damaged; delete {folder} and run again")
    words, counts = read_counts(folder / LEXICON)
    return Corpus(
        folder=folder,
        fingerprint=folder.name,
        digest=str(manifest["digest"]),
        words=tuple(words),
        counts=np.array(counts, np.int64),
        train=Shards(folder / "train"),
        held_out=Shards(folder / "held_out"),
    )


def write_manifest(folder: Path, hashes: Mapping[str, str], **about: object) -> None:
    """Complete a corpus with a record of its files, by their paths in it, and their hashes."""
    manifest = {"format": FORMAT, "digest": _digest(hashes), **about, "files": dict(hashes)}
    files.write_json(folder / MANIFEST, manifest)


def _digest(hashes: Mapping[str, str]) -> str:
    lines = [f"{name} {hashes[name]}\n" for name in sorted(hashes, key=Path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _content(request: CorpusRequest) -> list[str]:
    sources = [*request.sources, *request.held_out_sources]
    return [source.content_hash or files.sha256(source.path) for source in sources]


def _write_corpus(
    folder: Path,
    request: CorpusRequest,
    tokenize: Tokenizer,
    progress: Callable[[int], None] | None,
) -> None:
    # Ids in the order in which words appear. A boundary written in a text is none, since the model
    # adds its own: it is an unknown word.
    ids: dict[str, int] = dict.fromkeys(SPECIAL_WORDS, UNKNOWN)
    train, held_out = ShardWriter(folder / "train"), ShardWriter(folder / "held_out")
    fraction = 0.0 if request.held_out_sources else request.held_out_share
    before = [source.fingerprint() for source in (*request.sources, *request.held_out_sources)]
    documents = itertools.chain(
        ((text, False) for text in read_documents(request.sources, request.read)),
        ((text, True) for text in read_documents(request.held_out_sources, request.read)),
    )
    for number, (document, is_held_out_source) in enumerate(documents, start=1):
        tokens = tokenize(document)
        if tokens:
            if len(ids) >= LARGEST_LEXICON:
                inner = [ids.get(token, UNKNOWN) for token in tokens]
            else:
                inner = [ids.setdefault(token, len(ids)) for token in tokens]
            writer = held_out if is_held_out_source or is_held_out(tokens, fraction) else train
            writer.add([START, *inner, END])
        if progress and number % 1000 == 0:
            progress(number)
    train.close()
    held_out.close()
    content = _content(request)
    if before != [source.fingerprint() for source in (*request.sources, *request.held_out_sources)]:
        raise UserError("a file changed while it was read; run again when it is complete")
    if not train.hashes:
        raise UserError("the corpus holds no training text; is every line empty or held out?")

    # Give the most frequent training word the smallest id.
    counts = np.zeros(len(ids), np.int64)
    for shard in Shards(folder / "train"):
        counts += np.bincount(shard.ids, minlength=len(counts))
    special = len(SPECIAL_WORDS)
    order = np.argsort(-counts[special:], kind="stable") + special
    order = np.concatenate([np.arange(special), order])
    new_ids = np.empty(len(order), np.uint32)
    new_ids[order] = np.arange(len(order), dtype=np.uint32)
    hashes = {**train.hashes, **held_out.hashes}
    for name in ("train", "held_out"):
        hashes |= Shards(folder / name).renumber(new_ids)
    words = list(ids)
    lexicon = "".join(f"{words[idx]}\t{counts[idx]}\n" for idx in order)
    files.write_text(folder / LEXICON, lexicon)
    hashes[LEXICON] = hashlib.sha256(lexicon.encode()).hexdigest()
    write_manifest(
        folder,
        hashes,
        content=content,
        sources=[source.name for source in request.sources],
        held_out_sources=[source.name for source in request.held_out_sources],
        held_out_share=request.held_out_share,
        read=asdict(request.read),
        tokenizer=asdict(request.tokenizer),
    )

"""A corpus made ready: ids on disk, split into train and held-out, reused if unchanged."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import folder_written_whole, read_json, sha256, write_json, write_text
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, read_documents
from elmo.text.tokenizer import Tokenizer, TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, UNKNOWN, read_counts

# Token ids on disk: written as they come, read through memory maps, never whole in memory.


TOKENS_PER_SHARD = 1 << 22
Ids = NDArray[np.uint32]


@dataclass(frozen=True)
class Shard:
    """Documents end to end, boundaries included, as two memory-mapped arrays."""

    ids: Ids
    ends: NDArray[np.int64]
    """Where each document ends in `ids`."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each document starts in `ids`."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many ids each document has, its two boundaries included."""
        return np.diff(self.ends, prepend=0)


class ShardWriter:
    """Collects documents and writes a shard whenever enough tokens are there."""

    def __init__(self, folder: Path, tokens_per_shard: int = TOKENS_PER_SHARD) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._room = tokens_per_shard
        self._ids = np.empty(tokens_per_shard, np.uint32)
        self._used = 0
        self._ends: list[int] = []
        self._shards = 0

    def add(self, document: list[int]) -> None:
        """Append one document, boundaries included."""
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
        _save(self._folder / f"{name}.ids.npy", self._ids[: self._used])
        _save(self._folder / f"{name}.ends.npy", np.array(self._ends, np.int64))
        self._shards += 1
        self._used = 0
        self._ends = []


@dataclass(frozen=True)
class Shards:
    """The shards of a folder, in order."""

    folder: Path

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Shard]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> Shard:
        name = self._names()[place]
        ids = _mapped(self.folder / f"{name}.ids.npy")
        ends = _mapped(self.folder / f"{name}.ends.npy")
        if ids.dtype != np.uint32 or ends.dtype != np.int64 or ends[-1] != len(ids):
            raise UserError(f"{self.folder / name}: damaged; delete {self.folder.parent} and rerun")
        return Shard(cast("Ids", ids), cast("NDArray[np.int64]", ends))

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return sum(len(shard.ends) for shard in self)

    @property
    def positions(self) -> int:
        """How many ids there are, boundaries included."""
        return sum(len(shard.ids) for shard in self)

    @property
    def targets(self) -> int:
        """How many words one direction is asked to predict: each word and one boundary."""
        return self.positions - self.documents

    def renumber(self, new_ids: Ids) -> None:
        """Replace each id by `new_ids[id]`, shard by shard, in place."""
        for name in self._names():
            path = self.folder / f"{name}.ids.npy"
            _save(path, new_ids[np.load(path, allow_pickle=False)])

    def _names(self) -> list[str]:
        return sorted(path.name.split(".")[0] for path in self.folder.glob("*.ids.npy"))


def _save(path: Path, values: NDArray[np.generic]) -> None:
    """Write what np.save would, which can cut a file short on a full disk and not say so."""
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, np.lib.format.header_data_from_array_1_0(values)
        )
        stream.write(values.data)


def _mapped(path: Path) -> NDArray[np.generic]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); delete {path.parents[1]} and rerun"
        ) from None


# Which texts are held out: a stable property of a text, shared by its near copies.
#
# News and web text is full of stories that differ by a few words. Drawn one by one, copies of a
# training text would be held out, and perplexity would measure memory. So a text is represented by
# one of its phrases, the one whose hash is smallest (a one-value MinHash): two texts fall on the
# same side with a probability at least equal to the share of phrases they have in common.


PHRASE = 5
Hashes = NDArray[np.uint64]

_ODD = 0x9E3779B97F4A7C15
_WRAP = 2**64 - 1
_POWERS = np.array([_ODD**place & _WRAP for place in reversed(range(PHRASE))], np.uint64)
# The constants of SplitMix64's finaliser, in its order; as arrays they cost less than as scalars.
_SHIFTS = tuple(np.array(shift, np.uint64) for shift in (30, 27, 31))
_FACTORS = tuple(np.array(factor, np.uint64) for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def is_held_out(tokens: Sequence[str], share: float) -> bool:
    """Whether a tokenised text belongs to the held-out part."""
    return share > 0 and is_phrase_held_out(representative_phrase(tokens), share)


def is_phrase_held_out(phrase: int, share: float) -> bool:
    """Whether the texts that this phrase stands for belong to the held-out part."""
    return phrase < share * 2**64


def representative_phrase(tokens: Sequence[str]) -> int:
    """A hash of the phrase that stands for the text, uniform over 64 bits."""
    words = _word_hashes(tokens)
    # A phrase w v … z is the number w ODD^4 + v ODD^3 + … + z, of all phrases at once.
    phrases = np.correlate(words, _POWERS[-len(words) :], "valid")
    # Two different mixtures: the smallest of one set of hashes is anything but uniform.
    chosen = int(phrases[_mixed(phrases).argmin()])
    return int(_mixed(np.array([chosen + _ODD & _WRAP], np.uint64))[0])


def _word_hashes(words: Sequence[str]) -> Hashes:
    """A hash of each word, whatever its case."""
    # All words at once, which no line break is part of: faster than even to remember their hashes.
    lines = "\n".join(words).lower().encode("utf-8", "surrogatepass").split(b"\n")
    return np.fromiter(map(zlib.crc32, lines), np.uint64, len(lines))


def _mixed(values: Hashes) -> Hashes:
    """Spread 64-bit values evenly (the finaliser of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


FORMAT = 1
LARGEST_LEXICON = 2_000_000
"""Distinct words kept; what first appears after so many others is unknown to every model."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """All that decides what a prepared corpus holds."""

    sources: Sequence[Source]
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    held_out_sources: Sequence[Source] = ()
    held_out_share: float = 0.02

    def fingerprint(self) -> str:
        """A name that changes whenever the files or the settings do."""
        content = {
            "format": FORMAT,
            "sources": [source.fingerprint() for source in self.sources],
            "held_out_sources": [source.fingerprint() for source in self.held_out_sources],
            "held_out_share": self.held_out_share,
            "read": asdict(self.read),
            "tokenizer": asdict(self.tokenizer),
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Corpus:
    """Every distinct word with its training count, most frequent first, and the id shards."""

    folder: Path
    fingerprint: str
    digest: str
    """Changes whenever the text does, whatever its files are called."""
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    train: Shards
    held_out: Shards

    @property
    def tokens(self) -> int:
        """Running words of the training part, boundaries left out."""
        return self.train.positions - 2 * self.train.documents


def cache_folder() -> Path:
    """Where prepared corpora live: $ELMO_CACHE or the user's cache folder."""
    given = os.environ.get("ELMO_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "elmo"


def prepare(
    request: CorpusRequest,
    *,
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Tokenise a corpus into memory-mapped shards, or find the ones made before.

    `progress` is told the number of documents read so far.
    """
    fingerprint = request.fingerprint()
    folder = (cache or cache_folder()) / "corpora" / fingerprint
    if request.tokenizer.tokenizer == "custom":
        # Nothing on disk can tell whether the user's function has changed.
        shutil.rmtree(folder, ignore_errors=True)
    if (folder / "corpus.json").exists():
        log.info("reusing the prepared corpus %s", folder)
    else:
        tokenize = build_tokenizer(request.tokenizer, custom_tokenizer)
        with folder_written_whole(folder) as beside:
            _write_corpus(beside, request, tokenize, progress)
    return load_corpus(folder)


def load_corpus(folder: Path) -> Corpus:
    """Open a prepared corpus."""
    described = read_json(folder / "corpus.json")
    if described.get("format") != FORMAT:
        raise UserError(f"{folder}: prepared by another version; delete it and run again")
    words, counts = read_counts(folder / "lexicon.txt")
    return Corpus(
        folder=folder,
        fingerprint=folder.name,
        digest=str(described["digest"]),
        words=tuple(words),
        counts=np.array(counts, np.int64),
        train=Shards(folder / "train"),
        held_out=Shards(folder / "held_out"),
    )


class _Lexicon:
    """Word ids in the order in which words appear."""

    def __init__(self) -> None:
        # A boundary written in a text is none: the model adds its own. It is an unknown word.
        self.ids: dict[str, int] = dict.fromkeys(SPECIAL_WORDS, UNKNOWN)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        ids = self.ids
        if len(ids) >= LARGEST_LEXICON:
            inner = [ids.get(token, UNKNOWN) for token in tokens]
        else:
            inner = [ids.setdefault(token, len(ids)) for token in tokens]
        return [BEGIN, *inner, END]


def _write_corpus(
    folder: Path,
    request: CorpusRequest,
    tokenize: Tokenizer,
    progress: Callable[[int], None] | None,
) -> None:
    lexicon = _Lexicon()
    train, held_out = ShardWriter(folder / "train"), ShardWriter(folder / "held_out")
    share = 0.0 if request.held_out_sources else request.held_out_share
    for number, (document, given) in enumerate(_documents(request), start=1):
        tokens = tokenize(document)
        if tokens:
            is_test = given or is_held_out(tokens, share)
            (held_out if is_test else train).add(lexicon.encode(tokens))
        if progress and number % 1000 == 0:
            progress(number)
    train.close()
    held_out.close()
    _sort_lexicon(folder, lexicon)
    digest = _digest(folder)
    write_json(folder / "corpus.json", {"format": FORMAT, "digest": digest, **_described(request)})


def _documents(request: CorpusRequest) -> Iterator[tuple[str, bool]]:
    """All documents, and whether each was given as held out."""
    for document in read_documents(request.sources, request.read):
        yield document, False
    for document in read_documents(request.held_out_sources, request.read):
        yield document, True


def _sort_lexicon(folder: Path, lexicon: _Lexicon) -> None:
    """Give the most frequent training word the smallest id, and write words with counts."""
    train, held_out = Shards(folder / "train"), Shards(folder / "held_out")
    if not len(train):
        raise UserError("the corpus holds no training text; is every line empty or held out?")
    counts = np.zeros(len(lexicon.ids), np.int64)
    for shard in train:
        counts += np.bincount(shard.ids, minlength=len(counts))
    special = len(SPECIAL_WORDS)
    order = np.argsort(-counts[special:], kind="stable") + special
    order = np.concatenate([np.arange(special), order])
    new_ids = np.empty(len(order), np.uint32)
    new_ids[order] = np.arange(len(order), dtype=np.uint32)
    train.renumber(new_ids)
    held_out.renumber(new_ids)
    words = list(lexicon.ids)
    write_text(
        folder / "lexicon.txt", "".join(f"{words[place]}\t{counts[place]}\n" for place in order)
    )


def _digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(f"{path.relative_to(folder)} {sha256(path)}\n".encode())
    return whole.hexdigest()


def _described(request: CorpusRequest) -> dict[str, object]:
    return {
        "sources": [source.name for source in request.sources],
        "held_out_sources": [source.name for source in request.held_out_sources],
        "held_out_share": request.held_out_share,
        "read": asdict(request.read),
        "tokenizer": asdict(request.tokenizer),
    }

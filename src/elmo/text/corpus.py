"""A corpus made ready: ids on disk, split into train and held-out, reused if unchanged."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import folder_written_whole, read_json, sha256, write_json, write_text
from elmo.text.held_out import is_held_out
from elmo.text.shards import Shards, ShardWriter
from elmo.text.sources import ReadOptions, Source, read_documents
from elmo.text.tokenizers import Tokenizer, TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, UNKNOWN, read_counts

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

"""What a report means for training: problems that stop it, then notes, each with what to do."""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

import numpy as np
import regex
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.corpus import LARGEST_LEXICON, is_phrase_held_out, representative_phrase
from elmo.text.readers import read_plain
from elmo.text.sources import Source, read_documents
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS

# What a look through a corpus finds, as plain values that JSON can hold.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the files something is: lines of plain text, else documents, counted from 1."""

    source: str
    unit: Literal["line", "document"]
    number: int

    def __str__(self) -> str:
        return f"'{self.source}', {self.unit} {self.number}"


@dataclass(frozen=True, kw_only=True)
class Sightings:
    """How many documents show something, and the first of them."""

    documents: int
    first: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The size of the training or of the held-out part."""

    documents: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How many tokens documents have: at least so many documents are at most so long."""

    median: int
    percentile_95: int
    percentile_99: int
    longest: int
    longest_at: Place
    window: int
    over_window: Sightings
    """Documents that need more than one window, counting the boundary each starts with."""


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """How many documents would go if only one of each kind were kept."""

    compared: int
    """The first so many documents, as memory allows."""
    exact: int
    near: int
    """An estimate, besides the exact ones: two texts count as copies with a probability equal to
    the share of five-word phrases they have in common."""


@dataclass(frozen=True, kw_only=True)
class VocabularyPoint:
    """One choice of vocabulary and what it leaves unknown."""

    min_count: int
    max_size: int | None
    size: int
    """Words the model can predict, the three special ones included."""
    unknown_rate: float | None
    """Share of the held-out words that are unknown; none if nothing is held out."""


@dataclass(frozen=True, kw_only=True)
class GrowthPoint:
    """How many distinct words so many running words hold."""

    tokens: int
    types: int


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a corpus and what a vocabulary makes of them."""

    types: int
    capped: bool
    """Whether there are more distinct words than can be kept."""
    special: tuple[str, ...]
    """Special words of the model that the text itself holds."""
    chosen: VocabularyPoint
    by_min_count: tuple[VocabularyPoint, ...]
    by_max_size: tuple[VocabularyPoint, ...]
    growth: tuple[GrowthPoint, ...]
    heaps_exponent: float | None
    """The b of Heaps' law, types = a tokens^b; none where there is too little text to tell."""


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """All that a look through a corpus finds."""

    files: int
    unreadable: tuple[str, ...]
    """What is wrong with files that could not be read to their end."""
    blank_lines: int | None
    """Blank lines of plain text; none if there is no plain text."""
    train: Part
    held_out: Part
    lengths: Lengths
    replaced: Sightings
    """Documents with U+FFFD, which stands for bytes that are not UTF-8."""
    not_utf8: tuple[str, ...]
    """The first fault of each file with bytes that are not UTF-8."""
    replaces_errors: bool
    """Whether such bytes are to be replaced, rather than to stop the training."""
    control: Sightings
    """Documents with control characters or invisible ones."""
    html: Sightings
    """Documents with what looks like HTML."""
    duplicates: Duplicates
    words: Words

    @property
    def documents(self) -> int:
        """Documents of both parts."""
        return self.train.documents + self.held_out.documents

    @property
    def tokens(self) -> int:
        """Running words of both parts."""
        return self.train.tokens + self.held_out.tokens


# Copies and near copies among documents, in sixteen bytes a document.


LARGEST_COMPARED = 5_000_000
"""Documents whose hashes are kept: about 80 MB; those after them are not compared."""


class Copies:
    """Remembers of each document a hash of its text and one of the phrase that stands for it."""

    def __init__(self) -> None:
        self._texts = array("Q")
        self._phrases = array("Q")

    def add(self, text: str, phrase: int) -> None:
        """Take in one document and the hash of the phrase that stands for it."""
        if len(self._texts) < LARGEST_COMPARED:
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            self._texts.append(int.from_bytes(digest, "little"))
            self._phrases.append(phrase)

    def count(self) -> Duplicates:
        """How many documents are copies of others."""
        texts = np.frombuffer(self._texts, np.uint64)
        _, firsts = np.unique(texts, return_index=True)
        phrases = np.unique(np.frombuffer(self._phrases, np.uint64)[firsts])
        return Duplicates(
            compared=len(texts), exact=len(texts) - len(firsts), near=len(firsts) - len(phrases)
        )


# How much of a text each choice of vocabulary covers, and how fast new words keep coming.


MIN_COUNTS = (1, 2, 3, 5, 10)
MAX_SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
FIRST_GROWTH_POINT = 1_000
POINTS_FOR_A_LAW = 4


class WordCounts:
    """Counts of all words in the order in which they appear, and of the held-out ones."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._held_out: Counter[str] = Counter()
        self._growth: list[GrowthPoint] = []
        self._tokens = 0
        self._held_out_tokens = 0

    def add(self, tokens: Sequence[str], *, held_out: bool) -> None:
        """Count the words of one document."""
        if len(self._all) >= LARGEST_LEXICON:
            kept = [token for token in tokens if token in self._all]
        else:
            kept = tokens
        self._all.update(kept)
        self._tokens += len(tokens)
        if held_out:
            self._held_out.update(kept)
            self._held_out_tokens += len(tokens)
        if self._tokens >= FIRST_GROWTH_POINT << len(self._growth):
            self._growth.append(GrowthPoint(tokens=self._tokens, types=len(self._all)))

    def describe(self, min_count: int, max_size: int | None) -> Words:
        """What these words make of the vocabulary asked for, and of others."""
        counts, held_out = self._ranked()
        largest = int((counts > 0).sum()) + len(SPECIAL_WORDS)
        points = [
            self._point(counts, held_out, least, most)
            for least, most in (
                (min_count, max_size),
                *((least, None) for least in MIN_COUNTS),
                *((1, most) for most in MAX_SIZES if most < largest),
            )
        ]
        return Words(
            types=len(self._all),
            capped=len(self._all) >= LARGEST_LEXICON,
            special=tuple(word for word in SPECIAL_WORDS if word in self._all),
            chosen=points[0],
            by_min_count=tuple(points[1 : 1 + len(MIN_COUNTS)]),
            by_max_size=tuple(points[1 + len(MIN_COUNTS) :]),
            growth=tuple(self._growth),
            heaps_exponent=_heaps_exponent(self._growth),
        )

    def _ranked(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each word is seen in training, most frequent first, and how often held out."""
        words = [word for word in self._all if word not in SPECIAL_WORDS]
        held_out = np.fromiter((self._held_out[word] for word in words), np.int64)
        counts = np.fromiter((self._all[word] for word in words), np.int64) - held_out
        order = np.argsort(-counts, kind="stable")
        return counts[order], held_out[order]

    def _point(
        self,
        counts: NDArray[np.int64],
        held_out: NDArray[np.int64],
        min_count: int,
        max_size: int | None,
    ) -> VocabularyPoint:
        special = len(SPECIAL_WORDS)
        kept = int((counts >= max(1, min_count)).sum())
        if max_size is not None:
            kept = min(kept, max(0, max_size - special))
        total = self._held_out_tokens
        unknown = total - int(held_out[:kept].sum())
        return VocabularyPoint(
            min_count=min_count,
            max_size=max_size,
            size=kept + special,
            unknown_rate=unknown / total if total else None,
        )


def _heaps_exponent(growth: Sequence[GrowthPoint]) -> float | None:
    """The slope of types against tokens, both as logarithms."""
    if len(growth) < POINTS_FOR_A_LAW:
        return None
    tokens = np.log([point.tokens for point in growth])
    types = np.log([point.types for point in growth])
    return float(np.polyfit(tokens, types, 1)[0])


# What is known of the documents seen so far, in memory that does not grow with them.


PLACES_KEPT = 5

# Besides control characters: soft hyphens, zero-width spaces and byte order marks, unseen as well.
_CONTROL = regex.compile(r"[[\p{Cc}\u00ad\u200b\u2060\ufeff]--\t]", regex.VERSION1)
# Only tags that exist, since corpora hold marks such as <unk>; entities also without their "&".
_HTML = regex.compile(
    r"</?(?:a|b|i|u|p|br|hr|div|span|img|table|tr|td|th|ul|ol|li|em|strong|font|script|style|html"
    r"|body|head|meta|link|pre|code|sup|sub|center|iframe|form|input|h[1-6])(?:\s[^<>]*)?/?>"
    r"|&(?:[a-z]{2,8}|\#\d{2,6}|\#x[0-9a-f]{2,6});|(?:^|\s)(?:\#\d{2,5}|quot|amp|lt|gt|nbsp);",
    regex.IGNORECASE,
)


@dataclass
class _Sighted:
    """Counts documents that show something, and keeps the first places."""

    documents: int = 0
    first: list[Place] = field(default_factory=list[Place])

    def add(self, place: Place) -> None:
        self.documents += 1
        if len(self.first) < PLACES_KEPT:
            self.first.append(place)

    def result(self) -> Sightings:
        return Sightings(documents=self.documents, first=tuple(self.first))


class Survey:
    """Takes in documents one by one."""

    def __init__(self, *, held_out_share: float, window: int) -> None:
        self.words = WordCounts()
        self.copies = Copies()
        self.lines = 0
        self.blank_lines = 0
        self.replaced_in: set[str] = set()
        self._share = held_out_share
        self._window = window
        self._documents: Counter[bool] = Counter()  # by whether they are held out
        self._tokens: Counter[bool] = Counter()
        self._lengths: Counter[int] = Counter()
        self._longest = 0
        self._longest_at: Place | None = None
        self._over_window, self._replaced = _Sighted(), _Sighted()
        self._control, self._html = _Sighted(), _Sighted()

    def add(self, place: Place, text: str, tokens: Sequence[str]) -> None:
        """Take in one document, or a blank line, which has no tokens."""
        self.lines += 1
        if not tokens:
            self.blank_lines += 1
            return
        phrase = representative_phrase(tokens)
        held_out = is_phrase_held_out(phrase, self._share)
        self._documents[held_out] += 1
        self._tokens[held_out] += len(tokens)
        self.words.add(tokens, held_out=held_out)
        self.copies.add(text, phrase)
        self._measure(place, len(tokens))
        self._look(place, text)

    @property
    def is_empty(self) -> bool:
        """Whether there was no document at all."""
        return not self._lengths

    @property
    def train(self) -> Part:
        """The documents to train on."""
        return Part(documents=self._documents[False], tokens=self._tokens[False])

    @property
    def held_out(self) -> Part:
        """The documents to validate on."""
        return Part(documents=self._documents[True], tokens=self._tokens[True])

    @property
    def lengths(self) -> Lengths:
        """How long the documents are."""
        assert self._longest_at is not None
        return Lengths(
            median=self._percentile(0.5),
            percentile_95=self._percentile(0.95),
            percentile_99=self._percentile(0.99),
            longest=self._longest,
            longest_at=self._longest_at,
            window=self._window,
            over_window=self._over_window.result(),
        )

    @property
    def replaced(self) -> Sightings:
        """Documents with U+FFFD."""
        return self._replaced.result()

    @property
    def control(self) -> Sightings:
        """Documents with control characters."""
        return self._control.result()

    @property
    def html(self) -> Sightings:
        """Documents with what looks like HTML."""
        return self._html.result()

    def _measure(self, place: Place, length: int) -> None:
        if length > self._longest:
            self._longest, self._longest_at = length, place
        self._lengths[length] += 1
        # A direction reads the words and the boundary before them.
        if length + 1 > self._window:
            self._over_window.add(place)

    def _look(self, place: Place, text: str) -> None:
        if "\ufffd" in text:
            self._replaced.add(place)
            self.replaced_in.add(place.source)
        if _CONTROL.search(text):
            self._control.add(place)
        if _HTML.search(text):
            self._html.add(place)

    def _percentile(self, share: float) -> int:
        """The shortest length that at least this share of the documents does not exceed."""
        wanted = math.ceil(share * sum(self._lengths.values()))
        so_far = 0
        for length in sorted(self._lengths):
            so_far += self._lengths[length]
            if so_far >= wanted:
                return length
        raise AssertionError("there are no documents")


# A look through a corpus before training on it: one pass, in memory that does not grow with it.


LINES_BETWEEN_REPORTS = 1000


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What to look through, and the settings with which it would be trained on."""

    sources: Sequence[Source]
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    held_out_share: float = 0.02
    window: int = 256
    min_count: int = 3
    max_vocabulary: int | None = 100_000


def inspect(request: CheckRequest, progress: Callable[[int], None] | None = None) -> CorpusReport:
    """Read a corpus once and report on it; `progress` is told the lines or rows read so far.

    Files that cannot be read to their end are part of the report, unless nothing can be read.
    """
    tokenize = build_tokenizer(request.tokenizer)
    survey = Survey(held_out_share=request.held_out_share, window=request.window)
    unreadable: list[str] = []
    for source in request.sources:
        try:
            for place, text in _lenient(source, request.read):
                survey.add(place, text, tokenize(text))
                if progress and survey.lines % LINES_BETWEEN_REPORTS == 0:
                    progress(survey.lines)
        except UserError as error:
            unreadable.append(str(error))
    if survey.is_empty:
        raise UserError("\n".join(unreadable) or "there is not one word in this text")
    suspects = [source for source in request.sources if source.name in survey.replaced_in]
    return CorpusReport(
        files=len(request.sources),
        unreadable=tuple(unreadable),
        blank_lines=survey.blank_lines if _any_plain(request.sources) else None,
        train=survey.train,
        held_out=survey.held_out,
        lengths=survey.lengths,
        replaced=survey.replaced,
        not_utf8=tuple(_faults(suspects, request.read)),
        replaces_errors=request.read.errors == "replace",
        control=survey.control,
        html=survey.html,
        duplicates=survey.copies.count(),
        words=survey.words.describe(request.min_count, request.max_vocabulary),
    )


def _lenient(source: Source, read: ReadOptions) -> Iterator[tuple[Place, str]]:
    """The documents of a source and where they are, whatever their bytes; also blank lines."""
    read = replace(read, errors="replace")
    if source.format == "plain":
        yield from _lines(source, read)
        return
    for number, text in enumerate(read_documents([source], read), start=1):
        yield Place(source=source.name, unit="document", number=number), text


def _lines(source: Source, read: ReadOptions) -> Iterator[tuple[Place, str]]:
    is_blank = True
    for number, (text,) in enumerate(read_plain(source.path, None, read), start=1):
        is_blank = is_blank and not text.strip()
        yield Place(source=source.name, unit="line", number=number), " ".join(text.splitlines())
    if is_blank:
        raise UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


def _faults(suspects: Sequence[Source], read: ReadOptions) -> Iterator[str]:
    """What stops a strict reading; nothing if a file holds U+FFFD itself."""
    for source in suspects:
        try:
            for _ in read_documents([source], replace(read, errors="strict")):
                pass
        except UserError as error:
            yield str(error)


def _any_plain(sources: Sequence[Source]) -> bool:
    return any(source.format == "plain" for source in sources)


MUCH_UNKNOWN = 0.05
MANY_NEAR_COPIES = 0.01
FEW_HELD_OUT_TOKENS = 10_000
LITTLE_TEXT = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something to know before training."""

    kind: Literal["problem", "note"]
    """A problem stops the training; a note does not."""
    what: str
    advice: str


def find(report: CorpusReport) -> tuple[Finding, ...]:
    """All findings, the gravest first."""
    return (*_problems(report), *_damage(report), *_copies(report), *_sizes(report))


def _problems(report: CorpusReport) -> Iterator[Finding]:
    for message in report.unreadable:
        yield Finding(kind="problem", what=message, advice="mend this file or leave it out")
    if not report.replaces_errors:
        for message in report.not_utf8:
            yield Finding(
                kind="problem",
                what=f"{message}; bytes like these are in {_seen(report.replaced, report)}",
                advice="convert the file, or train with --errors replace",
            )
    if not report.train.documents:
        yield Finding(
            kind="problem",
            what="all text is held out, none is left to train on",
            advice="give more text or a smaller --held-out-share",
        )
    elif report.words.chosen.size <= len(SPECIAL_WORDS):
        yield Finding(
            kind="problem",
            what=f"no training word is seen {report.words.chosen.min_count} times",
            advice="lower --min-count or give more text",
        )


def _damage(report: CorpusReport) -> Iterator[Finding]:
    if report.replaced.documents and (report.replaces_errors or not report.not_utf8):
        yield _note(
            f"U+FFFD, for a character that was lost, is in {_seen(report.replaced, report)}",
            "find the files as they were before, if you can",
        )
    if report.words.special:
        yield _note(
            f"the text itself holds {', '.join(report.words.special)}, which mean boundaries and "
            "unknown words to a model",
            "spell them otherwise unless this is what you want",
        )
    if report.html.documents:
        yield _note(
            f"what looks like HTML is in {_seen(report.html, report)}",
            "clean the text if it is no accident",
        )
    if report.control.documents:
        yield _note(
            f"control characters or invisible ones are in {_seen(report.control, report)}",
            "remove them: they make words that look alike different",
        )


def _copies(report: CorpusReport) -> Iterator[Finding]:
    found = report.duplicates
    if found.exact:
        yield _note(
            f"{_share(found.exact, found.compared)} repeat another word for word",
            "keep one of each: a model learns repeated text by heart",
        )
    if found.near > MANY_NEAR_COPIES * found.compared:
        yield _note(
            f"about {_share(found.near, found.compared)} nearly repeat another",
            "nothing: near copies mostly stay on one side of the held-out split",
        )
    if found.compared < report.documents:
        yield _note(
            f"only the first {found.compared:,} documents were compared with each other",
            "nothing: this bounds the memory of the check",
        )


def _sizes(report: CorpusReport) -> Iterator[Finding]:
    words, lengths = report.words, report.lengths
    if (words.chosen.unknown_rate or 0) > MUCH_UNKNOWN:
        yield _note(
            f"{words.chosen.unknown_rate:.1%} of the held-out words are unknown",
            "lower --min-count, raise --max-vocabulary, or let the model see characters",
        )
    if words.capped:
        yield _note(
            f"words beyond the first {words.types:,} distinct ones count as unknown",
            "look whether the text is cut into words as it should be",
        )
    if report.held_out.tokens < FEW_HELD_OUT_TOKENS:
        yield _note(
            f"only {report.held_out.tokens:,} words are held out, so perplexity will be rough",
            "raise --held-out-share or give a held-out text of your own",
        )
    if report.train.tokens < LITTLE_TEXT:
        yield _note(
            f"{report.train.tokens:,} words are little to learn a language from",
            "go on from a model trained on more, with --from",
        )
    if lengths.over_window.documents:
        yield _note(
            f"more than a window of {lengths.window} tokens is in "
            f"{_seen(lengths.over_window, report)}; the longest, {lengths.longest_at}, "
            f"has {lengths.longest:,}",
            "nothing: they are read window by window, and the state is carried over",
        )


def _note(what: str, advice: str) -> Finding:
    return Finding(kind="note", what=what, advice=advice)


def _seen(sightings: Sightings, report: CorpusReport) -> str:
    return (
        f"{sightings.documents:,} of {report.documents:,} documents (first: {sightings.first[0]})"
    )


def _share(number: int, total: int) -> str:
    return f"{number:,} of {total:,} documents ({number / total:.1%})"


# A random sample of things that come one by one, drawn in one pass, the same for the same seed.


T = TypeVar("T")


@dataclass(frozen=True)
class Sample(Generic[T]):
    """Some of the things, in the order in which they came."""

    items: list[T]
    of: int
    """How many there were to draw from."""


def draw(things: Iterable[T], size: int, seed: int) -> Sample[T]:
    """Draw so many, or all if there are no more; only the sample is held in memory."""
    lots = random.Random(seed)
    seen = 0

    def numbered() -> Iterable[tuple[float, int, T]]:
        nonlocal seen
        for thing in things:
            yield lots.random(), seen, thing
            seen += 1

    # Those with the smallest lots are as random as any; lots and numbers decide, never the things.
    drawn = heapq.nsmallest(size, numbered(), key=lambda one: one[:2])
    return Sample([thing for _, _, thing in sorted(drawn, key=lambda one: one[1])], seen)

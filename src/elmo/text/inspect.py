"""What a corpus holds, and what that means for training on it: one pass, in bounded memory."""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import regex

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.corpus import LARGEST_LEXICON, is_phrase_held_out, representative_phrase
from elmo.text.readers import read_plain
from elmo.text.sources import Source, read_documents
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS

LARGEST_COMPARED = 5_000_000
"""Documents whose hashes are kept (80 MB); later ones are not compared with others."""
MIN_COUNTS = (1, 2, 3, 5, 10)
MAX_SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
FIRST_GROWTH_POINT = 1_000
POINTS_FOR_A_LAW = 4
PLACES_KEPT = 5
LINES_BETWEEN_REPORTS = 1000

# Findings beyond these are worth a note.
MUCH_UNKNOWN = 0.05
MANY_NEAR_COPIES = 0.01
FEW_HELD_OUT_TOKENS = 10_000
LITTLE_TEXT = 1_000_000

# Besides control characters: soft hyphens, zero-width spaces and byte order marks, unseen as well.
_CONTROL = regex.compile(r"[[\p{Cc}\u00ad\u200b\u2060\ufeff]--\t]", regex.VERSION1)
# Only tags that exist, since corpora hold marks such as <unk>; entities also without their "&".
_HTML = regex.compile(
    r"</?(?:a|b|i|u|p|br|hr|div|span|img|table|tr|td|th|ul|ol|li|em|strong|font|script|style|html"
    r"|body|head|meta|link|pre|code|sup|sub|center|iframe|form|input|h[1-6])(?:\s[^<>]*)?/?>"
    r"|&(?:[a-z]{2,8}|\#\d{2,6}|\#x[0-9a-f]{2,6});|(?:^|\s)(?:\#\d{2,5}|quot|amp|lt|gt|nbsp);",
    regex.IGNORECASE,
)


# The report, as plain values that JSON can hold.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the files something is: lines of plain text, else documents, counted from 1."""

    source: str
    unit: Literal["line", "document"]
    number: int

    def __str__(self) -> str:
        return f"'{self.source}', {self.unit} {self.number}"


@dataclass(kw_only=True)
class Sightings:
    """How many documents show something, and the first of them."""

    documents: int = 0
    first: list[Place] = field(default_factory=list[Place])

    def add(self, place: Place) -> None:
        """Count a document."""
        self.documents += 1
        if len(self.first) < PLACES_KEPT:
            self.first.append(place)


@dataclass(kw_only=True)
class Part:
    """The size of the training or of the held-out part."""

    documents: int = 0
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens per document. A percentile is the length that so many documents do not exceed."""

    median: int
    percentile_95: int
    percentile_99: int
    longest: int
    longest_at: Place
    window: int
    over_window: Sightings
    """Documents that need more than one window, with the boundary each starts with."""


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """How many documents would go if only one of each kind were kept."""

    compared: int
    """The first so many documents, as memory allows."""
    exact: int
    near: int
    """An estimate, besides the exact ones: two texts count as copies with a probability equal to
    the fraction of five-word phrases they have in common."""


@dataclass(frozen=True, kw_only=True)
class VocabularyPoint:
    """One choice of vocabulary and what it leaves unknown."""

    min_count: int
    max_size: int | None
    size: int
    """Words the model can predict, the three special ones included."""
    unknown_rate: float | None
    """Fraction of the held-out words that are unknown; None if nothing is held out."""


@dataclass(frozen=True, kw_only=True)
class GrowthPoint:
    """Distinct words among the first `tokens` running words."""

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
    """The b of Heaps' law, types = a tokens^b; None where there is too little text to tell."""


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """All that `inspect` finds."""

    files: int
    unreadable: tuple[str, ...]
    """What is wrong with files that could not be read to their end."""
    blank_lines: int | None
    """Blank lines of plain text; None if there is no plain text."""
    train: Part
    held_out: Part
    lengths: Lengths
    replaced: Sightings
    """Documents with U+FFFD, which stands for bytes that are not UTF-8."""
    not_utf8: tuple[str, ...]
    """The first fault of each file with bytes that are not UTF-8."""
    replaces_errors: bool
    """Whether such bytes are replaced, rather than stop the training."""
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


# The pass through the corpus.


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What to inspect, and the settings with which it would be trained on."""

    sources: Sequence[Source]
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    held_out_share: float = 0.02
    window: int = 256
    min_count: int = 3
    max_vocabulary: int | None = 100_000


def inspect(request: CheckRequest, progress: Callable[[int], None] | None = None) -> CorpusReport:
    """Read a corpus once and report on it.

    Files that cannot be read to their end are part of the report, unless nothing can be read.
    `progress` is called with the number of lines or rows read so far.
    """
    sources, read, window = request.sources, request.read, request.window
    tokenize = build_tokenizer(request.tokenizer)
    words = WordCounts()
    parts = (Part(), Part())  # train, held out
    over_window, replaced, control, html = (Sightings() for _ in range(4))
    lengths: Counter[int] = Counter()
    longest, longest_at = 0, None
    hashes, phrases = array("Q"), array("Q")  # sixteen bytes per document
    lines = blank_lines = 0
    suspects: set[str] = set()
    unreadable: list[str] = []
    for source in sources:
        try:
            for place, text in _lenient(source, read):
                lines += 1
                if progress and lines % LINES_BETWEEN_REPORTS == 0:
                    progress(lines)
                tokens = tokenize(text)
                if not tokens:
                    blank_lines += 1
                    continue
                phrase = representative_phrase(tokens)
                held_out = is_phrase_held_out(phrase, request.held_out_share)
                parts[held_out].documents += 1
                parts[held_out].tokens += len(tokens)
                words.add(tokens, held_out=held_out)
                if len(hashes) < LARGEST_COMPARED:
                    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
                    hashes.append(int.from_bytes(digest, "little"))
                    phrases.append(phrase)
                lengths[len(tokens)] += 1
                if len(tokens) > longest:
                    longest, longest_at = len(tokens), place
                if len(tokens) + 1 > window:  # a direction reads the boundary, too
                    over_window.add(place)
                if "\ufffd" in text:
                    replaced.add(place)
                    suspects.add(source.name)
                if _CONTROL.search(text):
                    control.add(place)
                if _HTML.search(text):
                    html.add(place)
        except UserError as error:
            unreadable.append(str(error))
    if longest_at is None:
        raise UserError("\n".join(unreadable) or "there is not one word in this text")

    # U+FFFD: either bytes that are not UTF-8, which a strict reading stops at, or the text's own.
    not_utf8: list[str] = []
    for source in sources:
        if source.name in suspects:
            try:
                for _ in read_documents([source], replace(read, errors="strict")):
                    pass
            except UserError as error:
                not_utf8.append(str(error))
    ordered = sorted(lengths)
    so_far = list(accumulate(lengths[length] for length in ordered))
    median, percentile_95, percentile_99 = (
        ordered[bisect_left(so_far, math.ceil(fraction * so_far[-1]))]
        for fraction in (0.5, 0.95, 0.99)
    )
    _, firsts = np.unique(np.frombuffer(hashes, np.uint64), return_index=True)
    distinct = len(np.unique(np.frombuffer(phrases, np.uint64)[firsts]))
    has_plain = any(source.format == "plain" for source in sources)
    return CorpusReport(
        files=len(sources),
        unreadable=tuple(unreadable),
        blank_lines=blank_lines if has_plain else None,
        train=parts[0],
        held_out=parts[1],
        lengths=Lengths(
            median=median,
            percentile_95=percentile_95,
            percentile_99=percentile_99,
            longest=longest,
            longest_at=longest_at,
            window=window,
            over_window=over_window,
        ),
        replaced=replaced,
        not_utf8=tuple(not_utf8),
        replaces_errors=read.errors == "replace",
        control=control,
        html=html,
        duplicates=Duplicates(
            compared=len(hashes), exact=len(hashes) - len(firsts), near=len(firsts) - distinct
        ),
        words=words.describe(request.min_count, request.max_vocabulary),
    )


def _lenient(source: Source, read: ReadOptions) -> Iterator[tuple[Place, str]]:
    """The documents of a source and where they are, whatever their bytes; also blank lines."""
    read = replace(read, errors="replace")
    if source.format != "plain":
        for number, text in enumerate(read_documents([source], read), start=1):
            yield Place(source=source.name, unit="document", number=number), text
        return
    is_blank = True
    for number, (text,) in enumerate(read_plain(source.path, None, read), start=1):
        is_blank = is_blank and not text.strip()
        yield Place(source=source.name, unit="line", number=number), " ".join(text.splitlines())
    if is_blank:
        raise UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


class WordCounts:
    """Counts of all words and of the held-out ones, and how fast new words come."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._held_out: Counter[str] = Counter()
        self._growth: list[GrowthPoint] = []
        self._tokens = self._held_out_tokens = 0

    def add(self, tokens: Sequence[str], *, held_out: bool) -> None:
        """Count the words of one document."""
        known = tokens
        if len(self._all) >= LARGEST_LEXICON:
            known = [token for token in tokens if token in self._all]
        self._all.update(known)
        self._tokens += len(tokens)
        if held_out:
            self._held_out.update(known)
            self._held_out_tokens += len(tokens)
        if self._tokens >= FIRST_GROWTH_POINT << len(self._growth):
            self._growth.append(GrowthPoint(tokens=self._tokens, types=len(self._all)))

    def describe(self, min_count: int, max_size: int | None) -> Words:
        """What these words make of a vocabulary, and of others of other sizes."""
        words = [word for word in self._all if word not in SPECIAL_WORDS]
        held_out = np.fromiter((self._held_out[word] for word in words), np.int64)
        counts = np.fromiter((self._all[word] for word in words), np.int64) - held_out
        order = np.argsort(-counts, kind="stable")  # most frequent in training first
        counts, held_out = counts[order], held_out[order]
        special, total = len(SPECIAL_WORDS), self._held_out_tokens

        def point(least: int, most: int | None) -> VocabularyPoint:
            size = int((counts >= max(1, least)).sum())
            size = size if most is None else min(size, max(0, most - special))
            unknown = total - int(held_out[:size].sum())
            rate = unknown / total if total else None
            return VocabularyPoint(
                min_count=least, max_size=most, size=size + special, unknown_rate=rate
            )

        exponent = None
        if len(self._growth) >= POINTS_FOR_A_LAW:  # the slope of types over tokens, in logarithms
            logs = np.log([[growth.tokens, growth.types] for growth in self._growth])
            exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        largest = int((counts > 0).sum()) + special
        return Words(
            types=len(self._all),
            capped=len(self._all) >= LARGEST_LEXICON,
            special=tuple(word for word in SPECIAL_WORDS if word in self._all),
            chosen=point(min_count, max_size),
            by_min_count=tuple(point(least, None) for least in MIN_COUNTS),
            by_max_size=tuple(point(1, most) for most in MAX_SIZES if most < largest),
            growth=tuple(self._growth),
            heaps_exponent=exponent,
        )


# What the report means for training.


@dataclass(frozen=True)
class Finding:
    """Something to know before training: a problem stops it, a note does not."""

    kind: Literal["problem", "note"]
    what: str
    advice: str


def find(report: CorpusReport) -> list[Finding]:
    """All findings, problems first."""
    words, lengths, copies = report.words, report.lengths, report.duplicates

    def seen(sightings: Sightings) -> str:
        first = f"(first: {sightings.first[0]})" if sightings.first else ""
        return f"{sightings.documents:,} of {report.documents:,} documents {first}"

    def of_compared(number: int) -> str:
        return f"{number:,} of {copies.compared:,} documents ({number / copies.compared:.1%})"

    problems = [(message, "mend this file or leave it out") for message in report.unreadable]
    if not report.replaces_errors:
        problems += [
            (
                f"{message}; bytes like these are in {seen(report.replaced)}",
                "convert the file, or train with --errors replace",
            )
            for message in report.not_utf8
        ]
    if not report.train.documents:
        what = "all text is held out, none is left to train on"
        problems.append((what, "give more text or a smaller --held-out-share"))
    elif words.chosen.size <= len(SPECIAL_WORDS):
        what = f"no training word is seen {words.chosen.min_count} times"
        problems.append((what, "lower --min-count or give more text"))

    unknown_rate = words.chosen.unknown_rate or 0
    notes = [
        (
            report.replaced.documents and (report.replaces_errors or not report.not_utf8),
            f"U+FFFD, for a character that was lost, is in {seen(report.replaced)}",
            "find the files as they were before, if you can",
        ),
        (
            words.special,
            f"the text itself holds {', '.join(words.special)}, which mean boundaries and "
            "unknown words to a model",
            "spell them otherwise unless this is what you want",
        ),
        (
            report.html.documents,
            f"what looks like HTML is in {seen(report.html)}",
            "clean the text if it is no accident",
        ),
        (
            report.control.documents,
            f"control characters or invisible ones are in {seen(report.control)}",
            "remove them: they make words that look alike different",
        ),
        (
            copies.exact,
            f"{of_compared(copies.exact)} repeat another word for word",
            "keep one of each: a model learns repeated text by heart",
        ),
        (
            copies.near > MANY_NEAR_COPIES * copies.compared,
            f"about {of_compared(copies.near)} nearly repeat another",
            "nothing: near copies mostly stay on one side of the held-out split",
        ),
        (
            copies.compared < report.documents,
            f"only the first {copies.compared:,} documents were compared with each other",
            "nothing: this bounds the memory of the check",
        ),
        (
            unknown_rate > MUCH_UNKNOWN,
            f"{unknown_rate:.1%} of the held-out words are unknown",
            "lower --min-count, raise --max-vocabulary, or let the model see characters",
        ),
        (
            words.capped,
            f"words beyond the first {words.types:,} distinct ones count as unknown",
            "look whether the text is cut into words as it should be",
        ),
        (
            report.held_out.tokens < FEW_HELD_OUT_TOKENS,
            f"only {report.held_out.tokens:,} words are held out, so perplexity will be rough",
            "raise --held-out-share or give a held-out text of your own",
        ),
        (
            report.train.tokens < LITTLE_TEXT,
            f"{report.train.tokens:,} words are little to learn a language from",
            "start from a model trained on more, with --from",
        ),
        (
            lengths.over_window.documents,
            f"more than a window of {lengths.window} tokens is in {seen(lengths.over_window)}; "
            f"the longest, {lengths.longest_at}, has {lengths.longest:,}",
            "nothing: they are read window by window, and the state is carried over",
        ),
    ]
    return [Finding("problem", *problem) for problem in problems] + [
        Finding("note", what, advice) for applies, what, advice in notes if applies
    ]


# A random sample in one pass.

T = TypeVar("T")


class Sample(NamedTuple, Generic[T]):
    """Some of the items, in the order in which they came, and of how many."""

    items: list[T]
    of: int


def draw(things: Iterable[T], size: int, seed: int) -> Sample[T]:
    """Draw `size` items, or all if there are no more; only the sample is held in memory."""
    generator = random.Random(seed)
    count = 0

    def keyed() -> Iterable[tuple[float, int, T]]:
        nonlocal count
        for thing in things:
            yield generator.random(), count, thing
            count += 1

    # The smallest of random keys are a fair sample; keys and positions decide, never the items.
    drawn = heapq.nsmallest(size, keyed(), key=lambda entry: entry[:2])
    return Sample([thing for _, _, thing in sorted(drawn, key=lambda entry: entry[1])], count)

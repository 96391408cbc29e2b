"""What a corpus holds, and what that means for training on it: one pass, in bounded memory."""

from __future__ import annotations

import hashlib
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import regex

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.corpus import LARGEST_LEXICON, is_phrase_held_out, representative_phrase
from elmo.text.readers import read_plain
from elmo.text.sources import Source, read_documents
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS

LARGEST_COMPARED = 5_000_000  # documents that are compared; their hashes take 80 MB
MIN_COUNTS = (1, 2, 3, 5, 10)
MAX_SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
SIGHTINGS_KEPT = 5
LINES_BETWEEN_REPORTS = 1000

# Findings beyond these are worth a note.
MUCH_UNKNOWN = 0.05
MANY_NEAR_COPIES = 0.01
FEW_HELD_OUT_TOKENS = 10_000
LITTLE_TEXT = 1_000_000

# Besides control characters: soft hyphens, zero-width spaces and byte order marks, unseen as well.
_CONTROL = regex.compile(r"[[\p{Cc}\u00ad\u200b\u2060\ufeff]--\t]", regex.VERSION1)
# Longer than any word of theirs: these scripts put no spaces between words.
_UNSPACED = regex.compile(r"[\p{Thai}\p{Khmer}\p{Myanmar}\p{Lao}]{20}")
# Only tags that exist, since corpora hold marks such as <unk>; entities also without their "&".
_HTML = regex.compile(
    r"</?(?:a|b|i|u|p|br|hr|div|span|img|table|tr|td|th|ul|ol|li|em|strong|font|script|style|html"
    r"|body|head|meta|link|pre|code|sup|sub|center|iframe|form|input|h[1-6])(?:\s[^<>]*)?/?>"
    r"|&(?:[a-z]{2,8}|\#\d{2,6}|\#x[0-9a-f]{2,6});|(?:^|\s)(?:\#\d{2,5}|quot|amp|lt|gt|nbsp);",
    regex.IGNORECASE,
)


@dataclass(kw_only=True)
class Sightings:
    """How many documents show something, and where the first of them are."""

    documents: int = 0
    first: list[str] = field(default_factory=list[str])

    def add(self, where: str) -> None:
        self.documents += 1
        if len(self.first) < SIGHTINGS_KEPT:
            self.first.append(where)


@dataclass(frozen=True, kw_only=True)
class VocabularyPoint:
    """One choice of vocabulary and what it leaves unknown."""

    min_count: int
    max_size: int | None
    size: int  # words the model can predict, the three special ones included
    unknown_rate: float | None  # of the held-out words; None if nothing is held out


@dataclass(kw_only=True)
class CorpusReport:
    """All that `inspect` finds, filled in as it reads: plain values that JSON can hold."""

    files: int
    unreadable: list[str] = field(default_factory=list[str])
    """What is wrong with files that could not be read to their end."""
    blank_lines: int | None  # blank lines of plain text; None if there is no plain text
    documents: int = 0
    tokens: int = 0
    held_out_documents: int = 0
    held_out_tokens: int = 0
    median_length: int = 0
    """Tokens per document, as the percentiles are: the length that so many do not exceed."""
    percentile_95: int = 0
    percentile_99: int = 0
    longest: int = 0
    longest_at: str = ""
    window: int
    over_window: Sightings = field(default_factory=Sightings)
    """Documents longer than a window, with the boundary they start with."""
    replaced: Sightings = field(default_factory=Sightings)
    """Documents with U+FFFD, which stands for bytes that are not UTF-8."""
    not_utf8: list[str] = field(default_factory=list[str])
    """The first fault of each file with bytes that are not UTF-8."""
    replaces_errors: bool  # whether such bytes are replaced, rather than stop the training
    control: Sightings = field(default_factory=Sightings)
    """Documents with control characters or invisible ones."""
    html: Sightings = field(default_factory=Sightings)
    """Documents with what looks like HTML."""
    unspaced: Sightings = field(default_factory=Sightings)
    """Documents with Thai, Khmer, Burmese or Lao, one token per phrase."""
    compared: int = 0  # the first this many documents, as memory allows, were compared
    exact_duplicates: int = 0  # documents that would go if only one of each were kept
    near_duplicates: int = 0
    """An estimate, besides the exact ones: two texts count as copies with a probability equal to
    the fraction of five-word phrases they have in common."""
    types: int = 0  # distinct words
    capped: bool = False  # whether there are more distinct words than can be kept
    special: list[str] = field(default_factory=list[str])
    """Special words of the model that the text itself holds."""
    vocabulary: VocabularyPoint = field(init=False)
    by_min_count: list[VocabularyPoint] = field(init=False)
    by_max_size: list[VocabularyPoint] = field(init=False)


def inspect(
    sources: Sequence[Source],
    *,
    read: ReadOptions | None = None,
    tokenizer: TokenizerConfig | None = None,
    held_out_share: float = 0.02,
    window: int = 256,
    min_count: int = 3,
    max_vocabulary: int | None = 100_000,
    progress: Callable[[int], None] | None = None,
) -> CorpusReport:
    """Read a corpus once and report on it, given the settings with which it would be trained on.

    Files that cannot be read to their end are part of the report, unless nothing can be read.
    `progress` is called with the number of lines or rows read so far.
    """
    read, tokenize = read or ReadOptions(), build_tokenizer(tokenizer or TokenizerConfig())
    has_plain = any(source.format == "plain" for source in sources)
    report = CorpusReport(
        files=len(sources), blank_lines=0 if has_plain else None, window=window,
        replaces_errors=read.errors == "replace",
    )  # fmt: skip
    counts, in_held_out, lengths = Counter[str](), Counter[str](), Counter[int]()
    hashes, phrases = array("Q"), array("Q")  # sixteen bytes per document
    lines = 0
    for source in sources:
        replaced_before = report.replaced.documents
        try:
            for where, text in _lenient(source, read):
                lines += 1
                if progress and lines % LINES_BETWEEN_REPORTS == 0:
                    progress(lines)
                tokens = tokenize(text)
                if not tokens:
                    if report.blank_lines is not None:
                        report.blank_lines += 1
                    continue
                phrase = representative_phrase(tokens)
                known = tokens
                if len(counts) >= LARGEST_LEXICON:
                    known = [token for token in tokens if token in counts]
                report.documents += 1
                report.tokens += len(tokens)
                counts.update(known)
                if is_phrase_held_out(phrase, held_out_share):
                    report.held_out_documents += 1
                    report.held_out_tokens += len(tokens)
                    in_held_out.update(known)
                if len(hashes) < LARGEST_COMPARED:
                    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
                    hashes.append(int.from_bytes(digest, "little"))
                    phrases.append(phrase)
                lengths[len(tokens)] += 1
                if len(tokens) > report.longest:
                    report.longest, report.longest_at = len(tokens), where
                if len(tokens) + 1 > window:  # a direction reads the boundary, too
                    report.over_window.add(where)
                if "\ufffd" in text:
                    report.replaced.add(where)
                if _CONTROL.search(text):
                    report.control.add(where)
                if _HTML.search(text):
                    report.html.add(where)
                if not text.isascii() and any(_UNSPACED.search(token) for token in tokens):
                    report.unspaced.add(where)
        except UserError as error:
            report.unreadable.append(str(error))
        if report.replaced.documents > replaced_before:
            # Either bytes that are not UTF-8, which a strict reading stops at, or the text's own.
            try:
                for _ in read_documents([source], replace(read, errors="strict")):
                    pass
            except UserError as error:
                report.not_utf8.append(str(error))
    if not report.longest:
        raise UserError("\n".join(report.unreadable) or "there is not one word in this text")
    ordered = sorted(lengths)
    so_far = list(accumulate(lengths[length] for length in ordered))
    report.median_length, report.percentile_95, report.percentile_99 = (
        ordered[bisect_left(so_far, math.ceil(fraction * so_far[-1]))]
        for fraction in (0.5, 0.95, 0.99)
    )
    _, firsts = np.unique(np.frombuffer(hashes, np.uint64), return_index=True)
    distinct = len(np.unique(np.frombuffer(phrases, np.uint64)[firsts]))
    report.compared, report.exact_duplicates = len(hashes), len(hashes) - len(firsts)
    report.near_duplicates = len(firsts) - distinct
    report.types, report.capped = len(counts), len(counts) >= LARGEST_LEXICON
    report.special = [word for word in SPECIAL_WORDS if word in counts]
    points = _vocabularies(counts, in_held_out, report.held_out_tokens, min_count, max_vocabulary)
    report.vocabulary, points = points[0], points[1:]
    report.by_min_count, report.by_max_size = points[: len(MIN_COUNTS)], points[len(MIN_COUNTS) :]
    return report


def _lenient(source: Source, read: ReadOptions) -> Iterator[tuple[str, str]]:
    """Where each document of a source is, and its text, whatever its bytes; also blank lines."""
    read = replace(read, errors="replace")
    if source.format != "plain":
        for number, text in enumerate(read_documents([source], read), start=1):
            yield f"'{source.name}', document {number}", text
        return
    is_blank = True
    for number, (text,) in enumerate(read_plain(source.path, None, read), start=1):
        is_blank = is_blank and not text.strip()
        yield f"'{source.name}', line {number}", " ".join(text.splitlines())
    if is_blank:
        raise UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


def _vocabularies(
    everywhere: Counter[str],
    in_held_out: Counter[str],
    held_out_tokens: int,
    min_count: int,
    max_size: int | None,
) -> list[VocabularyPoint]:
    words = [word for word in everywhere if word not in SPECIAL_WORDS]
    held_out = np.fromiter((in_held_out[word] for word in words), np.int64)
    counts = np.fromiter((everywhere[word] for word in words), np.int64) - held_out
    order = np.argsort(-counts, kind="stable")  # most frequent in training first
    counts, held_out = counts[order], held_out[order]
    special = len(SPECIAL_WORDS)
    largest = int((counts > 0).sum()) + special

    def point(least: int, most: int | None) -> VocabularyPoint:
        size = int((counts >= max(1, least)).sum())
        size = size if most is None else min(size, max(0, most - special))
        unknown = held_out_tokens - int(held_out[:size].sum())
        return VocabularyPoint(
            min_count=least,
            max_size=most,
            size=size + special,
            unknown_rate=unknown / held_out_tokens if held_out_tokens else None,
        )

    sizes = [most for most in MAX_SIZES if most < largest]
    choices = [(min_count, max_size), *((least, None) for least in MIN_COUNTS)]
    return [point(*choice) for choice in [*choices, *((1, most) for most in sizes)]]


class Finding(NamedTuple):
    """Something to know before training: a problem stops it, a note does not."""

    kind: Literal["problem", "note"]
    what: str
    advice: str


def find(report: CorpusReport) -> list[Finding]:
    """What the report means for training, problems first."""

    def seen(sightings: Sightings) -> str:
        first = f"(first: {sightings.first[0]})" if sightings.first else ""
        return f"{sightings.documents:,} of {report.documents:,} documents {first}"

    def of_compared(number: int) -> str:
        return f"{number:,} of {report.compared:,} documents ({number / report.compared:.1%})"

    chosen, train_tokens = report.vocabulary, report.tokens - report.held_out_tokens
    unknown_rate = chosen.unknown_rate or 0
    problems = [(message, "fix this file or leave it out") for message in report.unreadable]
    if not report.replaces_errors:
        problems += [
            (
                f"{message}; bytes like these are in {seen(report.replaced)}",
                "convert the file, or train with --errors replace",
            )
            for message in report.not_utf8
        ]
    if report.documents == report.held_out_documents:
        what = "all text is held out, none is left to train on"
        problems.append((what, "give more text or a smaller --held-out-share"))
    elif chosen.size <= len(SPECIAL_WORDS):
        what = f"no training word is seen {chosen.min_count} times"
        problems.append((what, "lower --min-count or give more text"))
    notes = [
        (
            report.replaced.documents and (report.replaces_errors or not report.not_utf8),
            f"U+FFFD, for a character that was lost, is in {seen(report.replaced)}",
            "find the files as they were before, if you can",
        ),
        (
            report.special,
            f"the text itself holds {', '.join(report.special)}, which mean boundaries and "
            "unknown words to a model",
            "spell them otherwise unless this is what you want",
        ),
        (
            report.unspaced.documents,
            "Thai, Khmer, Burmese or Lao has no spaces between words, so that whole phrases become "
            f"one token in {seen(report.unspaced)}",
            "use --tokenizer characters, or cut the words yourself and use --tokenizer whitespace",
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
            report.exact_duplicates,
            f"{of_compared(report.exact_duplicates)} repeat another word for word",
            "keep one of each: a model learns repeated text by heart",
        ),
        (
            report.near_duplicates > MANY_NEAR_COPIES * report.compared,
            f"about {of_compared(report.near_duplicates)} nearly repeat another",
            "nothing: near copies mostly stay on one side of the held-out split",
        ),
        (
            report.compared < report.documents,
            f"only the first {report.compared:,} documents were compared with each other",
            "nothing: this bounds the memory of the check",
        ),
        (
            unknown_rate > MUCH_UNKNOWN,
            f"{unknown_rate:.1%} of the held-out words are unknown",
            "lower --min-count, raise --max-vocabulary, or let the model see characters",
        ),
        (
            report.capped,
            f"words beyond the first {report.types:,} distinct ones count as unknown",
            "look whether the text is cut into words as it should be",
        ),
        (
            report.held_out_tokens < FEW_HELD_OUT_TOKENS,
            f"only {report.held_out_tokens:,} words are held out, so perplexity will be rough",
            "raise --held-out-share or give a held-out text of your own",
        ),
        (
            train_tokens < LITTLE_TEXT,
            f"{train_tokens:,} words are little to learn a language from",
            "start from a model trained on more, with --from",
        ),
        (
            report.over_window.documents,
            f"more than a window of {report.window} tokens is in {seen(report.over_window)}; "
            f"the longest, {report.longest_at}, has {report.longest:,}",
            "nothing: they are read window by window, and the state is carried over",
        ),
    ]
    return [Finding("problem", *problem) for problem in problems] + [
        Finding("note", what, advice) for applies, what, advice in notes if applies
    ]

"""What a report means for training: problems that stop it, then notes, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from elmo.text.corpus_report import CorpusReport, Sightings
from elmo.text.vocabulary import SPECIAL_WORDS

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

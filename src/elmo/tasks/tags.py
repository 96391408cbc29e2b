"""Tags and spans: the schemes IOB1, IOB2 and BIOES, tagged sentences, and how good tags are."""

from __future__ import annotations

import html
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.classify.metrics import LEVEL, ClassMetrics, Estimate, wilson
from elmo.errors import UserError
from elmo.tasks.config import Scheme

SCHEMES: tuple[Scheme, ...] = ("iob2", "iob1", "bioes")
NO_TAG = "_"
"""What files have where a tag is missing."""
RESAMPLES = 1000
COLOURS = ("#1c5d99", "#b8500f", "#2f7d4f", "#7a4fa3", "#a33b52", "#66717d")
"""Colours of span labels in HTML, in turn."""
_SPAN_TAG = re.compile(r"[BIESLU](-.+)?")

log = logging.getLogger(__name__)


# Spans, and the three ways to write them as one tag per word.


class Span(NamedTuple):
    """Words from `start` up to, not including, `end`."""

    start: int
    end: int
    label: str


def has_spans(tags: Iterable[str]) -> bool:
    """Whether distinct tags are those of spans: O, B-LOC, I-LOC, …"""
    names = set(tags) - {"O", NO_TAG}
    return bool(names) and all(_SPAN_TAG.fullmatch(name) for name in names)


def find_spans(tags: Sequence[str]) -> list[Span]:
    """The spans that tags of any scheme mean, read as conlleval reads them.

    Whatever is inconsistent still has a meaning: an I- after O, or after another label, starts a
    span. BILOU is read, too: L is E, U is S.

    >>> find_spans(["O", "B-LOC", "I-LOC", "I-PER"])
    [Span(start=1, end=3, label='LOC'), Span(start=3, end=4, label='PER')]
    """
    spans: list[Span] = []
    start, label, before = None, "", "O"
    for idx, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        is_inside = prefix not in ("O", NO_TAG)
        starts = is_inside and (
            prefix in "BSU" or start is None or kind != label or before in ("E", "S", "L", "U")
        )
        if start is not None and (starts or not is_inside):
            spans.append(Span(start, idx, label))
            start = None
        if starts:
            start, label = idx, kind
        before = prefix
    return spans


def write_spans(spans: Sequence[Span], length: int, scheme: Scheme) -> list[str]:
    """Spans that do not overlap, in order, as the tags of `length` words.

    >>> write_spans([Span(1, 3, "LOC"), Span(3, 4, "LOC")], 4, "iob1")
    ['O', 'I-LOC', 'I-LOC', 'B-LOC']
    """
    tags = ["O"] * length
    before = None
    for span in spans:
        rest = f"-{span.label}" if span.label else ""
        tags[span.start : span.end] = [f"I{rest}"] * (span.end - span.start)
        touches = before is not None and before[1:] == (span.start, span.label)
        if scheme != "iob1" or touches:
            tags[span.start] = f"B{rest}"
        if scheme == "bioes":
            is_single = span.end - span.start == 1
            tags[span.end - 1] = f"{'S' if is_single else 'E'}{rest}"
        before = span
    return tags


def convert(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The same spans in another scheme."""
    return write_spans(find_spans(tags), len(tags), scheme)


def detect_scheme(
    sentences: Sequence[Sequence[str]], locations: Sequence[str] | None = None
) -> Scheme:
    """The scheme with the fewest tags that break its rules; those that do are counted and logged.

    `locations` say where sentences are, for the message.
    """
    bilou = {"L": "E", "U": "S"}
    wrong: Counter[Scheme] = Counter()
    first: dict[Scheme, str] = {}
    for row, tags in enumerate(sentences):
        # Only BIOES has E and S; BILOU is the same by other letters.
        plain = [bilou.get(tag[0], tag[0]) + tag[1:] if tag else tag for tag in tags]
        plain = ["O" if tag == NO_TAG else tag for tag in plain]
        spans = find_spans(plain)
        for scheme in SCHEMES:
            differing = [
                idx
                for idx, pair in enumerate(
                    zip(plain, write_spans(spans, len(tags), scheme), strict=True)
                )
                if pair[0] != pair[1]
            ]
            if differing:
                wrong[scheme] += len(differing)
                where = f"sentence {row + 1}" if locations is None else locations[row]
                tag = tags[differing[0]]
                first.setdefault(scheme, f"{tag!r} at word {differing[0] + 1}, {where}")
    scheme = min(SCHEMES, key=lambda name: wrong[name])
    if wrong[scheme]:
        log.warning(
            "inconsistent tags: %d break the rules of %s, which fits best (first: %s); they are "
            "read as conlleval does: a tag that continues no span starts one",
            wrong[scheme], scheme.upper(), first[scheme],
        )  # fmt: skip
    return scheme


# Sentences with their tags, and measures.


@dataclass(frozen=True)
class TaggedText:
    """The words of a sentence and their tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def spans(self) -> list[Span]:
        """The spans that the tags mean; none for tags such as parts of speech."""
        return find_spans(self.tags) if has_spans(self.tags) else []

    def __str__(self) -> str:
        if not has_spans({*self.tags, "O"}) and set(self.tags) != {"O"}:
            return " ".join(
                f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True)
            )
        words = list(self.words)
        for span in self.spans:
            words[span.start] = f"[{words[span.start]}"
            words[span.end - 1] += f"]/{span.label}"
        return " ".join(words)

    def _repr_html_(self) -> str:
        """For notebooks: spans are marked, other tags stand below their words."""
        pieces: list[str] = []
        if self.spans:
            labels = list(dict.fromkeys(span.label for span in self.spans))
            at = 0
            for span in self.spans:
                pieces += [html.escape(word) for word in self.words[at : span.start]]
                colour = COLOURS[labels.index(span.label) % len(COLOURS)]
                inside = html.escape(" ".join(self.words[span.start : span.end]))
                pieces.append(
                    f'<mark style="background:none;border-bottom:2px solid {colour}">{inside}'
                    f'<sub style="color:{colour}">{html.escape(span.label)}</sub></mark>'
                )
                at = span.end
            pieces += [html.escape(word) for word in self.words[at:]]
        else:
            pieces = [
                f'<ruby>{html.escape(word)}<rt style="color:{COLOURS[-1]}">{html.escape(tag)}'
                "</rt></ruby>"
                for word, tag in zip(self.words, self.tags, strict=True)
            ]
        return f"<p>{' '.join(pieces)}</p>"


@dataclass(frozen=True)
class TagMetrics:
    """What a tagger achieved on tagged sentences."""

    sentences: int
    words: int
    accuracy: Estimate
    """Accuracy over words, with Wilson's interval."""
    unknown_word_accuracy: float | None
    """Accuracy over words that the training text does not have."""
    precision: float | None
    """Precision over spans, exact in limits and label, as conlleval counts; None without spans."""
    recall: float | None
    f1: Estimate | None
    """F1 over spans, with a bootstrap interval over sentences."""
    classes: tuple[ClassMetrics, ...]
    """By label of the spans, or by tag."""
    words_per_second: float | None = None

    @property
    def main(self) -> Estimate:
        """F1 of spans or, without spans, accuracy."""
        return self.f1 or self.accuracy


def span_counts(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> NDArray[np.int64]:
    """Per sentence: spans found correctly, spans predicted, spans there are; (sentences, 3)."""
    counts = np.zeros((len(gold), 3), np.int64)
    for row, (true, found) in enumerate(zip(gold, predicted, strict=True)):
        some, others = set(find_spans(true)), set(find_spans(found))
        counts[row] = len(some & others), len(others), len(some)
    return counts


def f1_of(counts: NDArray[np.int64]) -> float:
    """F1 from the numbers of correct, predicted and true spans; 0 if there are none."""
    correct, predicted, true = counts.tolist()
    return 2 * correct / max(1, predicted + true)


def measure_tags(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    is_known: Sequence[Sequence[bool]] | None = None,
    words_per_second: float | None = None,
    seed: int = 0,
) -> TagMetrics:
    """Compare tags with the correct ones; both may be in any scheme of spans."""
    flat_gold = [tag for tags in gold for tag in tags]
    flat_predicted = [tag for tags in predicted for tag in tags]
    pairs = list(zip(flat_gold, flat_predicted, strict=True))
    if not pairs:
        raise UserError("expected tagged words to measure on, but there are none")
    right = [true == found for true, found in pairs]
    unknown = None
    if is_known is not None:
        of_unknown = [
            one
            for one, known in zip(right, (one for row in is_known for one in row), strict=True)
            if not known
        ]
        unknown = sum(of_unknown) / len(of_unknown) if of_unknown else None
    precision = recall = f1 = None
    if has_spans(flat_gold):
        counts = span_counts(gold, predicted)
        correct, found, true = counts.sum(0).tolist()
        precision, recall = correct / max(1, found), correct / max(1, true)
        draws = np.random.default_rng(seed).multinomial(
            len(gold), np.full(len(gold), 1 / len(gold)), RESAMPLES
        )
        sums = draws @ counts  # (resamples, 3)
        scores = 2 * sums[:, 0] / np.maximum(1, sums[:, 1] + sums[:, 2])
        tail = 100 * (1 - LEVEL) / 2
        low, high = np.percentile(scores, [tail, 100 - tail])
        f1 = Estimate(f1_of(counts.sum(0)), float(low), float(high))
        rows = range(len(gold))
        true_labels = Counter(s.label for row in rows for s in find_spans(gold[row]))
        found_labels = Counter(s.label for row in rows for s in find_spans(predicted[row]))
        right_labels = Counter(
            s.label
            for row in rows
            for s in {*find_spans(gold[row])} & {*find_spans(predicted[row])}
        )
    else:
        true_labels, found_labels = Counter(flat_gold), Counter(flat_predicted)
        right_labels = Counter(true for true, found in pairs if true == found)
    return TagMetrics(
        sentences=len(gold),
        words=len(pairs),
        accuracy=wilson(sum(right), len(right)),
        unknown_word_accuracy=unknown,
        precision=precision,
        recall=recall,
        f1=f1,
        classes=tuple(
            ClassMetrics(
                label=label,
                precision=right_labels[label] / max(1, found_labels[label]),
                recall=right_labels[label] / max(1, true_labels[label]),
                f1=2 * right_labels[label] / max(1, true_labels[label] + found_labels[label]),
                support=true_labels[label],
            )
            for label in sorted({*true_labels, *found_labels})
        ),
        words_per_second=words_per_second,
    )

"""What is known of the documents seen so far, in memory that does not grow with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import regex

from elmo.text.copies import Copies
from elmo.text.corpus_report import Lengths, Part, Place, Sightings
from elmo.text.coverage import WordCounts
from elmo.text.held_out import is_phrase_held_out, representative_phrase

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

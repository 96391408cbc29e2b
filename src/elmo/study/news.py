"""The rules that news is made by, read from text files, and their expansion by chance."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import write_json_lines
from elmo.text.ag_news import LABELS
from elmo.text.config import ReadOptions
from elmo.text.readers import is_number, read_json_lines
from elmo.text.tokenizer import tokenize_words

# Expanded templates become finished text, and their marks the places of ambiguous words.


_MARK = re.compile(r"<(\w+)/(\w+)>")
_BEGINNING = re.compile(r'(?:^|(?<=[.!?] )|(?<=[.!?]" ))"?[a-z]')
# "a" before a vowel that is heard: a uniform, a one-way road, but an hour.
_AN = re.compile(r"\b(a) (?=<?(?:(?!one|uni|us[aeiu]|eur|uru)[aeiou]|hour|honest))", re.IGNORECASE)


@dataclass(frozen=True)
class SenseMark:
    """An ambiguous word of a text, and what it means there."""

    place: int
    """Number of the word among those that `tokenize_words` finds, counted from 0."""
    word: str
    """The word as the text has it."""
    sense: str


@dataclass(frozen=True)
class MarkedText:
    """A text, and its ambiguous words in order."""

    text: str
    marks: tuple[SenseMark, ...]


def finish(expanded: str) -> MarkedText:
    """Write sentences as they should be, and take the notation <word/sense> out of them."""
    polished = _AN.sub(r"\1n ", _BEGINNING.sub(lambda found: found[0].upper(), expanded))
    text = _MARK.sub(r"\1", polished)
    places = _places(text)
    marks: list[SenseMark] = []
    removed = 0
    for found in _MARK.finditer(polished):
        marks.append(SenseMark(places[found.start() - removed], found[1], found[2]))
        removed += len(found[0]) - len(found[1])
    return MarkedText(text, tuple(marks))


def _places(text: str) -> dict[int, int]:
    """The number of each word, by where in the text it begins."""
    places: dict[int, int] = {}
    end = 0
    for number, word in enumerate(tokenize_words(text)):
        begin = text.index(word, end)
        places[begin] = number
        end = begin + len(word)
    return places


# How often the nearest occurrence of an ambiguous word, in another text, has the same sense.


Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_TIE = 1e-6
"""Cosines this near to the largest are equal to it: what rounding does to equal vectors is less."""
_CELLS_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class SenseScore:
    """How often the nearest occurrence of the same word in another text has the same sense."""

    accuracy: float
    chance: float
    """What a random occurrence in another text would give."""
    occurrences: int
    """How many occurrences have another one to be compared with."""


def sense_accuracy(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> SenseScore:
    """Compare occurrences by their vectors, (n, dim); several that are equally near share the vote.

    So a vector that is the same in every text, as a static embedding's, scores chance exactly.
    """
    _check(vectors, words, senses, rows)
    _, forms = np.unique(words, return_inverse=True)
    _, meanings = np.unique(senses, return_inverse=True)
    texts = np.asarray(rows)
    totals = np.zeros(3)
    for form in range(forms.max(initial=-1) + 1):
        of_form = np.flatnonzero(forms == form)
        totals += _word_totals(_directions(vectors[of_form]), meanings[of_form], texts[of_form])
    accuracy, chance, occurrences = totals.tolist()
    if not occurrences:
        raise UserError("expected a word that occurs in two texts at least, but there is none")
    return SenseScore(accuracy / occurrences, chance / occurrences, int(occurrences))


def _word_totals(
    directions: Floats, meanings: NDArray[np.int64], texts: NDArray[np.int64]
) -> Floats:
    """Of one word: votes for the right sense, those of chance, and occurrences compared."""
    totals = np.zeros(3)
    step = max(1, _CELLS_AT_A_TIME // len(texts))
    for start in range(0, len(texts), step):
        part = slice(start, start + step)
        others = texts[part, None] != texts
        compared = others.any(1)
        same = (meanings[part, None] == meanings)[compared]
        others = others[compared]
        cosines = np.where(others, (directions[part] @ directions.T)[compared], -np.inf)
        nearest = cosines >= cosines.max(1, keepdims=True) - _TIE
        totals += _share(same, nearest), _share(same, others), compared.sum()
    return totals


def _share(same: Flags, candidates: Flags) -> float:
    """The share of each row's candidates that have the same sense, added up."""
    return float(((same & candidates).sum(1) / candidates.sum(1)).sum())


def _directions(vectors: NDArray[np.floating]) -> Floats:
    """Vectors of length 1, so that products are cosines; zeros stay zeros."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def _check(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> None:
    lengths = (len(vectors), len(words), len(senses), len(rows))
    if vectors.ndim != 2 or len(set(lengths)) > 1:
        raise UserError(
            "expected a vector, a word, a sense and a row for each occurrence, got vectors of "
            f"shape {vectors.shape}, {lengths[1]} words, {lengths[2]} senses and {lengths[3]} rows"
        )
    if not np.isfinite(vectors).all():
        row = int((~np.isfinite(vectors).all(1)).argmax())
        raise UserError(f"expected finite vectors, but vector {row} holds infinity or NaN")


# The ambiguous words of the generated news, and what each of them can mean.


SENSES: dict[str, dict[str, str]] = {
    "bank": {"money": "where money is kept and lent", "river": "the land along a river"},
    "pitch": {
        "field": "where football or cricket is played",
        "proposal": "a talk that is to win somebody over",
        "throw": "a ball thrown to a batter",
    },
    "court": {"law": "where judges decide", "tennis": "where tennis is played"},
    # The fruit stands at the beginning of sentences only, so that its capital gives nothing away.
    "Apple": {"company": "a maker of computers", "fruit": "what grows on trees"},
    "run": {
        "operate": "to lead an enterprise, or to execute a program",
        "score": "a point in baseball or cricket",
        "series": "several things of a kind, one after the other",
    },
    "match": {"game": "two sides against each other", "likeness": "to be equal to, or to suit"},
    "draft": {"selection": "in which teams choose players", "text": "a text before it is final"},
    "strike": {"labour": "a refusal to work", "throw": "a ball that a batter should have hit"},
    "cell": {
        "battery": "a source of electric power",
        "biology": "the smallest part of a living thing",
        "prison": "a prisoner's room",
    },
    "virus": {"disease": "what makes people ill", "software": "what makes computers ill"},
    "chip": {"golf": "a short stroke onto the green", "silicon": "an electronic circuit"},
    "bat": {"animal": "what flies by night", "sport": "what a ball is hit with"},
    "goal": {"aim": "what somebody wants to reach", "sport": "a point in football, or its frame"},
    "crane": {"bird": "a bird with long legs", "machine": "what lifts loads"},
    "mouse": {"animal": "a small rodent", "device": "what moves a pointer on a screen"},
    "plant": {"factory": "where goods or power are made", "vegetation": "what grows in soil"},
    "star": {"celebrity": "somebody famous", "celestial": "a sun far away"},
    "bond": {"debt": "a loan that can be traded", "tie": "what holds people or atoms together"},
    "interest": {"attention": "wanting to know or to have", "money": "the price of a loan"},
    "spring": {
        "coil": "a wire that gives way and returns",
        "season": "the months after winter",
        "water": "where water rises from the ground",
    },
    "note": {"message": "a short piece of writing", "music": "a single tone"},
    "race": {"election": "a contest for votes", "speed": "a contest of who is fastest"},
    "seat": {"chair": "a place to sit", "office": "a place in a parliament, council or board"},
    "wave": {
        "signal": "what radio is carried by",
        "surge": "much of something at a time",
        "water": "what breaks on a shore",
    },
    "trial": {"law": "a case before judges", "test": "an experiment"},
    "port": {"harbour": "where ships land", "socket": "where a cable goes"},
    "drive": {
        "campaign": "an effort of many people",
        "golf": "a long first stroke",
        "storage": "what a computer keeps its files on",
    },
    "charge": {
        "accusation": "what somebody is said to have done",
        "electricity": "what a battery holds",
        "fee": "what a service costs",
    },
    "coach": {"bus": "a bus for long journeys", "trainer": "who trains a team"},
    "suit": {"clothes": "what is worn", "lawsuit": "a case that one party brings"},
    "ring": {"boxing": "where boxers fight", "jewellery": "what a finger wears"},
    "table": {"furniture": "what people sit around", "ranking": "who is ahead of whom"},
}


# The notation of the grammar: {rule}, {rule:name} to be repeated, (one|of|these), [perhaps].


_PIECE = re.compile(r"[{}()\[\]|]|[^{}()\[\]|]+")
_CLOSING = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Slot:
    """A place that a rule fills; what has a name is filled once, then repeated in the item."""

    rule: str
    name: str | None


@dataclass(frozen=True)
class Choice:
    """A place that one of several templates fills, each as probable as the others."""

    options: tuple[Template, ...]


Template = tuple[str | Slot | Choice, ...]


def parse_options(text: str) -> tuple[Template, ...]:
    """Read templates that are separated by bars."""
    reader = _Reader(_PIECE.findall(text))
    options = reader.options("")
    if reader.place < len(reader.pieces):
        raise ValueError(f"{reader.pieces[reader.place]!r} was never opened in {text!r}")
    return options


@dataclass
class _Reader:
    """Reads pieces one by one; brackets inside brackets make it call itself."""

    pieces: list[str]
    place: int = 0

    def options(self, closing: str) -> tuple[Template, ...]:
        """Read up to a closing bracket, which is left for the caller."""
        found = [self._template(closing)]
        while self._next() == "|":
            self.place += 1
            found.append(self._template(closing))
        return tuple(found)

    def _template(self, closing: str) -> Template:
        parts: list[str | Slot | Choice] = []
        while (piece := self._next()) not in ("", "|", ")", "]", closing):
            self.place += 1
            parts.append(self._part(piece))
        return tuple(parts)

    def _part(self, piece: str) -> str | Slot | Choice:
        if piece == "{":
            rule, _, name = self._take().partition(":")
            self._expect("}")
            return Slot(rule, name or None)
        if piece in _CLOSING:
            options = self.options(_CLOSING[piece])
            self._expect(_CLOSING[piece])
            return Choice((*options, ()) if piece == "[" else options)
        return piece

    def _next(self) -> str:
        return self.pieces[self.place] if self.place < len(self.pieces) else ""

    def _take(self) -> str:
        piece = self._next()
        self.place += 1
        return piece

    def _expect(self, closing: str) -> None:
        if (found := self._take()) != closing:
            raise ValueError(
                f"expected {closing!r}, found {found or 'the end'!r} in {''.join(self.pieces)!r}"
            )


_WEIGHT = re.compile(r"\*(\d+) ")
_TRIES = 3


@dataclass
class Rule:
    """What a name may stand for, and how often each template is drawn."""

    templates: list[Template] = field(default_factory=list[Template])
    weights: list[int] = field(default_factory=list[int])


Grammar = dict[str, Rule]


@cache
def news_grammar() -> Grammar:
    """All rules of the package; a name must not be used in two files."""
    folder = files("elmo.study") / "news_rules"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".txt"))
    return parse_grammar(
        line for name in names for line in (folder / name).read_text("utf-8").splitlines()
    )


def parse_grammar(lines: Iterable[str]) -> Grammar:
    """Read rules: a name with a colon, then templates, indented, a line or a bar between them."""
    grammar: Grammar = {}
    rule = Rule()
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.removesuffix(":")
            if name == line or name in grammar:
                raise ValueError(f"expected the name of a new rule and a colon, found {line!r}")
            rule = grammar[name] = Rule()
        else:
            _add(rule, line.strip())
    return grammar


def _add(rule: Rule, line: str) -> None:
    weight = _WEIGHT.match(line)
    options = parse_options(line[weight.end() :] if weight else line)
    for option in options:
        # Spaces around bars are for the eye.
        rule.templates.append(_stripped(option))
        rule.weights.append(int(weight[1]) if weight else 1)


def _stripped(template: Template) -> Template:
    parts = list(template)
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return tuple(parts)


def expand(grammar: Grammar, rule: str, chance: Random) -> str:
    """Fill a rule until only text is left."""
    return _Expansion(grammar, chance).fill(Slot(rule, None))


@dataclass
class _Expansion:
    """One item in the making, with what it has so far."""

    grammar: Grammar
    chance: Random
    named: dict[str, str] = field(default_factory=dict[str, str])
    drawn: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def fill(self, slot: Slot) -> str:
        if slot.name in self.named:
            return self.named[slot.name]
        text = self._fresh(slot.rule)
        if slot.name is not None:
            self.named[slot.name] = text
        return text

    def _fresh(self, rule: str) -> str:
        """What the rule has not given yet, if it can be had: no country plays against itself."""
        text = self._draw(rule)
        for _ in range(_TRIES):
            if text not in self.drawn[rule]:
                break
            text = self._draw(rule)
        self.drawn[rule].add(text)
        return text

    def _draw(self, rule: str) -> str:
        (template,) = self.chance.choices(self.grammar[rule].templates, self.grammar[rule].weights)
        return "".join(self._parts(template))

    def _parts(self, template: Template) -> Iterator[str]:
        for part in template:
            if isinstance(part, Slot):
                yield self.fill(part)
            elif isinstance(part, Choice):
                yield from self._parts(self.chance.choice(part.options))
            else:
                yield part


# News that nobody wrote: items drawn from the grammar, the same for the same seed.


Part = Literal["train", "test"]

FEWEST_WORDS = 15
MOST_WORDS = 45

_RULES: dict[str, str] = dict(zip(LABELS, ("world", "sports", "business", "science"), strict=True))
_TEST_SHARE = 0.25


@dataclass(frozen=True)
class NewsItem:
    """A piece of invented news."""

    text: str
    label: str
    senses: tuple[SenseMark, ...]
    """The ambiguous words of the text, in order."""


def generate_news(count: int, seed: int, *, part: Part = "train") -> list[NewsItem]:
    """Make so many items, no two alike; of different parts none are, whatever their seeds."""
    if count < 0:
        raise UserError(f"expected a number of items that is not negative, got {count}")
    if part not in get_args(Part):
        raise UserError(f"expected the part 'train' or 'test', got {part!r}")
    return list(islice(_items(Random(f"{part} {seed}"), part), count))


def _items(chance: Random, part: Part) -> Iterator[NewsItem]:
    """Items without end: as many of each class, in random order."""
    seen: set[str] = set()
    while True:
        for label in chance.sample(LABELS, len(LABELS)):
            item = _fitting_item(label, chance, part, seen)
            seen.add(item.text)
            yield item


def _fitting_item(label: str, chance: Random, part: Part, seen: set[str]) -> NewsItem:
    """Draw until an item is of the right length, belongs to the part and is new."""
    while True:
        marked = finish(expand(news_grammar(), _RULES[label], chance))
        fits = FEWEST_WORDS <= len(marked.text.split()) <= MOST_WORDS
        if fits and _part_of(marked.text) == part and marked.text not in seen:
            return NewsItem(marked.text, label, marked.marks)


def _part_of(text: str) -> Part:
    """A stable property of a text, so that parts drawn apart cannot overlap."""
    lot = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "test" if lot < _TEST_SHARE * 2**64 else "train"


# Generated news on disk: both parts with labels, and the senses in the test part.


@dataclass(frozen=True)
class NewsFiles:
    """Where the parts of a generated corpus are."""

    train: Path
    test: Path
    senses: Path
    """Of the test part."""


@dataclass(frozen=True)
class SenseRow:
    """An ambiguous word of a test text, and what it means there."""

    row: int
    """Number of the text in the test part, counted from 0."""
    place: int
    """Number of the word in the text, counted from 0."""
    word: str
    sense: str


def write_news(folder: Path, train: int, test: int, seed: int) -> NewsFiles:
    """Make so many training and test items, and write them as JSON lines."""
    names = NewsFiles(folder / "train.jsonl", folder / "test.jsonl", folder / "senses.jsonl")
    tested = generate_news(test, seed, part="test")
    write_json_lines(names.train, _labelled(generate_news(train, seed)))
    write_json_lines(names.test, _labelled(tested))
    write_json_lines(names.senses, map(asdict, sense_rows(tested)))
    return names


def sense_rows(items: Iterable[NewsItem]) -> list[SenseRow]:
    """The ambiguous words of all items, in order."""
    return [
        SenseRow(row, mark.place, mark.word, mark.sense)
        for row, item in enumerate(items)
        for mark in item.senses
    ]


def read_senses(path: Path) -> list[SenseRow]:
    """Read what `write_news` wrote about senses."""
    lines = read_json_lines(path, ("row", "place", "word", "sense"), ReadOptions())
    return [_sense_row(line, f"'{path}', object {number}") for number, line in enumerate(lines, 1)]


def _sense_row(line: Sequence[str], where: str) -> SenseRow:
    row, place, word, sense = line
    if not (is_number(row) and is_number(place)):
        raise UserError(
            f"{where}: expected row and place counted from 0, got {row!r:.40} and {place!r:.40}; "
            "write the file anew"
        )
    return SenseRow(int(row), int(place), word, sense)


def _labelled(items: Iterable[NewsItem]) -> Iterable[dict[str, str]]:
    return ({"text": item.text, "label": item.label} for item in items)

"""News that nobody wrote: the corpus that a study runs on where no texts are named.

Items are drawn from the grammar in news_rules/*.txt, in four classes, the same for the same seed.
Ambiguous words are marked in the rules as <word/sense>, so that their senses are known.

The notation: `name:` starts a rule; indented below it are its templates, one per line or separated
by |; `*3 ` before a template makes it three times as probable. In a template, {rule} is filled by a
rule, {rule:name} is filled once and then repeated in the item, (a|b) is one of several, [a] may be
left out.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from random import Random
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.text.ag_news import LABELS
from elmo.text.tokenizer import tokenize_words

Part = Literal["train", "test"]
FEWEST_WORDS, MOST_WORDS = 15, 45
TEST_FRACTION = 0.25
REDRAWS = 3
RULES = dict(zip(LABELS, ("world", "sports", "business", "science"), strict=True))
_PIECE = re.compile(r"[{}()\[\]|]|[^{}()\[\]|]+")
_MARK = re.compile(r"<(\w+)/(\w+)>")
_SENTENCE_START = re.compile(r'(?:^|(?<=[.!?] )|(?<=[.!?]" ))"?[a-z]')
# "a" before a vowel that is heard: a uniform, a one-way road, but an hour.
_AN = re.compile(r"\b(a) (?=<?(?:(?!one|uni|us[aeiu]|eur|uru)[aeiou]|hour|honest))", re.IGNORECASE)


class Slot(NamedTuple):
    """Filled by a rule; what has a name is filled once, then repeated in the item."""

    rule: str
    name: str | None


Template = tuple["str | Slot | tuple[Template, ...]", ...]
"""Texts, slots, and choices between templates, which are equally probable."""
Grammar = dict[str, tuple[list[Template], list[int]]]
"""Templates and their weights, by rule."""


@dataclass(frozen=True)
class SenseMark:
    """An ambiguous word and what it means; `place` is its index among `tokenize_words`."""

    place: int
    word: str
    sense: str


@dataclass(frozen=True)
class NewsItem:
    """A piece of invented news, and its ambiguous words in order."""

    text: str
    label: str
    senses: tuple[SenseMark, ...]


# The grammar.


@cache
def news_grammar() -> Grammar:
    """All rules of the package; no name is used in two files."""
    folder = files("elmo.study") / "news_rules"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".txt"))
    return parse_grammar(
        line for name in names for line in (folder / name).read_text("utf-8").splitlines()
    )


def parse_grammar(lines: Iterable[str]) -> Grammar:
    grammar: Grammar = {}
    templates, weights = list[Template](), list[int]()
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.removesuffix(":")
            if name == line or name in grammar:
                raise ValueError(f"expected the name of a new rule and a colon, found {line!r}")
            templates, weights = grammar[name] = ([], [])
            continue
        weight = re.match(r"\*(\d+) ", line := line.strip())
        for option in parse_options(line[weight.end() :] if weight else line):
            # Spaces around bars are for the eye.
            parts = list(option)
            if parts and isinstance(parts[0], str):
                parts[0] = parts[0].lstrip()
            if parts and isinstance(parts[-1], str):
                parts[-1] = parts[-1].rstrip()
            templates.append(tuple(parts))
            weights.append(int(weight[1]) if weight else 1)
    return grammar


def parse_options(text: str) -> tuple[Template, ...]:
    pieces = _PIECE.findall(text)[::-1]  # the next one is at the end

    def options(closing: str) -> tuple[Template, ...]:
        templates: list[Template] = [()]
        while (piece := pieces.pop() if pieces else "") != closing:
            if piece == "|":
                templates.append(())
            elif piece == "{":
                rule, _, name = (pieces.pop() if pieces else "").partition(":")
                if not pieces or pieces.pop() != "}":
                    raise ValueError(f"expected '}}' after {rule!r} in {text!r}")
                templates[-1] += (Slot(rule, name or None),)
            elif piece == "(":
                templates[-1] += (options(")"),)
            elif piece == "[":
                templates[-1] += ((*options("]"), ()),)
            elif piece in ("", ")", "]", "}"):
                raise ValueError(f"expected {closing or 'the end'!r}, found {piece!r} in {text!r}")
            else:
                templates[-1] += (piece,)
        return tuple(templates)

    return options("")


def expand(grammar: Grammar, rule: str, chance: Random) -> str:
    """Fill a rule until only text is left."""
    named: dict[str, str] = {}
    drawn: dict[str, set[str]] = defaultdict(set)

    def draw(rule: str) -> str:
        templates, weights = grammar[rule]
        return "".join(parts(chance.choices(templates, weights)[0]))

    def parts(template: Template) -> Iterator[str]:
        for part in template:
            if isinstance(part, str):
                yield part
            elif isinstance(part, Slot):
                yield fill(part)
            else:
                yield from parts(chance.choice(part))

    def fill(slot: Slot) -> str:
        if slot.name in named:
            return named[slot.name]
        # What the rule has not given yet, if it can be had: no country plays against itself.
        text = draw(slot.rule)
        for _ in range(REDRAWS):
            if text not in drawn[slot.rule]:
                break
            text = draw(slot.rule)
        drawn[slot.rule].add(text)
        if slot.name is not None:
            named[slot.name] = text
        return text

    return fill(Slot(rule, None))


def finish(expanded: str) -> tuple[str, tuple[SenseMark, ...]]:
    """Capitals and articles as English has them; the marks <word/sense> become positions."""
    polished = _AN.sub(r"\1n ", _SENTENCE_START.sub(lambda found: found[0].upper(), expanded))
    text = _MARK.sub(r"\1", polished)
    indices: dict[int, int] = {}  # of each word by where it starts
    end = 0
    for idx, word in enumerate(tokenize_words(text)):
        start = text.index(word, end)
        indices[start], end = idx, start + len(word)
    marks: list[SenseMark] = []
    removed = 0
    for match in _MARK.finditer(polished):
        marks.append(SenseMark(indices[match.start() - removed], match[1], match[2]))
        removed += len(match[0]) - len(match[1])
    return text, tuple(marks)


# Items.


def generate_news(count: int, seed: int, *, part: Part = "train") -> list[NewsItem]:
    """Make items, no two alike; those of different parts never are, whatever their seeds."""
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
            while True:
                text, marks = finish(expand(news_grammar(), RULES[label], chance))
                # The part follows from the text, so that parts drawn apart cannot overlap.
                lot = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
                in_part = (lot < TEST_FRACTION * 2**64) == (part == "test")
                fits = FEWEST_WORDS <= len(text.split()) <= MOST_WORDS
                if fits and in_part and text not in seen:
                    break
            seen.add(text)
            yield NewsItem(text, label, marks)


# Senses told apart.


def sense_accuracy(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> dict[str, float]:
    """How often the nearest occurrence of the same word, in another text, has the same sense.

    Occurrences that are equally near share the vote, so that a vector which is the same in every
    text, as a static embedding's, scores chance exactly.

    Args:
        vectors: one per occurrence of an ambiguous word, (n, dim).
        rows: which text each occurrence is in.

    Returns:
        accuracy; chance, what a random occurrence in another text gives; and occurrences, those
        that have another one to be compared with.
    """
    forms = np.unique(words, return_inverse=True)[1]
    meanings = np.unique(senses, return_inverse=True)[1]
    texts = np.asarray(rows)
    right = chance = occurrences = 0.0
    for form in range(forms.max(initial=-1) + 1):
        of_form = np.flatnonzero(forms == form)
        exact = vectors[of_form].astype(np.float64)
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        directions = exact / np.where(norms > 0, norms, 1)
        others = texts[of_form, None] != texts[of_form]  # (occurrences, occurrences)
        compared = others.any(1)
        others = others[compared]
        same = (meanings[of_form, None] == meanings[of_form])[compared]
        cosines = np.where(others, (directions @ directions.T)[compared], -np.inf)
        # Cosines of equal vectors differ by rounding, which is less than 1e-6.
        nearest = cosines >= cosines.max(1, keepdims=True, initial=-np.inf) - 1e-6
        right += float(((same & nearest).sum(1) / nearest.sum(1)).sum())
        chance += float(((same & others).sum(1) / others.sum(1)).sum())
        occurrences += int(compared.sum())
    if not occurrences:
        raise UserError("expected a word that occurs in two texts at least, but there is none")
    return {
        "accuracy": right / occurrences,
        "chance": chance / occurrences,
        "occurrences": int(occurrences),
    }

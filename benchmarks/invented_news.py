"""Invent the news that `elmo study` runs on where no texts are named: src/elmo/study/news.jsonl.xz.

    python benchmarks/invented_news.py

Items are drawn from the grammar in news_rules/*.txt, in four classes, the same for the same seed.
Ambiguous words are marked in the rules as <word/sense>, so that their senses are known.

The notation: `name:` starts a rule; indented below it are its templates, one per line or separated
by |; `*3 ` before a template makes it three times as probable. In a template, {rule} is filled by a
rule, {rule:name} is filled once and then repeated in the item, (a|b) is one of several, [a] may be
left out.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from elmo.study.news import NEWS, NewsItem, SenseMark
from elmo.text.ag_news import LABELS
from elmo.text.tokenizer import tokenize_words

Part = Literal["train", "test"]
ITEMS: dict[Part, int] = {"train": 6_000, "test": 1_500}
FOLDER = Path(__file__).with_name("news_rules")
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


# The grammar.


@cache
def news_grammar() -> Grammar:
    """All rules; no name is used in two files."""
    return parse_grammar(
        line for path in sorted(FOLDER.glob("*.txt")) for line in path.read_text().splitlines()
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


def main() -> None:
    with lzma.open(NEWS, "wt", encoding="utf-8") as stream:
        for part, count in ITEMS.items():
            for item in generate_news(count, 0, part=part):
                entry = {"part": part, **asdict(item)}
                stream.write(json.dumps(entry, ensure_ascii=False) + "\n")
    print(f"{NEWS}: {NEWS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""The rules that news is made by, read from text files, and their expansion by chance."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from random import Random

from elmo.study.news.template import Choice, Slot, Template, parse_options

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
    folder = files("elmo.study.news") / "rules"
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

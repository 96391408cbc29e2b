"""Rules do what their notation says, and those of the package are sound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from elmo.study.news.grammar import expand, news_grammar, parse_grammar
from elmo.study.news.senses import SENSES
from elmo.study.news.template import Choice, Slot, Template
from elmo.text.tokenizers import tokenize_words

CLASSES = ("world", "sports", "business", "science")
MARK = re.compile(r"<(\w+)/(\w+)>")


def expansions(lines: str, count: int = 2000) -> Counter[str]:
    grammar = parse_grammar(lines.splitlines())
    chance = Random(0)
    return Counter(expand(grammar, "start", chance) for _ in range(count))


def test_lines_and_bars_part_templates_and_weights_count() -> None:
    found = expansions("# A comment.\nstart:\n  *6 a {x}\n  b | c\n\nx:\n  1 | 2\n", 4000)
    assert set(found) == {"a 1", "a 2", "b", "c"}
    assert found["a 1"] + found["a 2"] == pytest.approx(3000, abs=150)
    assert found["b"] == pytest.approx(500, abs=100)


def test_optional_parts_come_and_go() -> None:
    found = expansions("start:\n  a[ b]")
    assert found["a"] == pytest.approx(1000, abs=120)
    assert found["a"] + found["a b"] == 2000


def test_what_has_a_name_is_repeated_and_all_else_differs() -> None:
    found = expansions("start:\n  {n:x}{n}{m:x}\n\nn:\n  1 | 2 | 3 | 4 | 5\n\nm:\n  6\n")
    assert all(text[0] == text[2] for text in found)
    # Redrawn three times, a repetition has a chance of 1 in 5^4.
    assert sum(count for text, count in found.items() if text[0] == text[1]) < 20


def test_a_rule_of_one_text_may_repeat_it() -> None:
    assert expansions("start:\n  {n}{n}\n\nn:\n  1\n", 1) == {"11": 1}


@pytest.mark.parametrize("lines", ["name", "a:\n  x\na:\n  y"])
def test_names_are_marked_and_new(lines: str) -> None:
    with pytest.raises(ValueError, match="name of a new rule"):
        parse_grammar(lines.splitlines())


def slots(template: Template) -> Iterator[Slot]:
    for part in template:
        if isinstance(part, Slot):
            yield part
        elif isinstance(part, Choice):
            for option in part.options:
                yield from slots(option)


def texts(template: Template) -> Iterator[str]:
    for part in template:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Choice):
            for option in part.options:
                yield from texts(option)


def all_texts() -> Iterator[str]:
    for rule in news_grammar().values():
        for template in rule.templates:
            yield from texts(template)


def uses(rule: str) -> set[str]:
    return {slot.rule for template in news_grammar()[rule].templates for slot in slots(template)}


def test_every_rule_is_there_and_used() -> None:
    found: set[str] = set()
    waiting = set(CLASSES)
    while waiting:
        rule = waiting.pop()
        found.add(rule)
        waiting |= uses(rule) - found
    assert found == set(news_grammar())


def test_no_rule_lists_the_same_twice() -> None:
    for name, rule in news_grammar().items():
        assert len(set(rule.templates)) == len(rule.templates), name


def test_every_class_has_many_leads() -> None:
    for name in CLASSES:
        leads = [rule for rule in uses(f"{name}_story") if rule.endswith("_lead")]
        assert sum(len(news_grammar()[lead].templates) for lead in leads) >= 40
        assert len(news_grammar()[f"{name}_event"].templates) >= 25


def test_every_sense_has_several_contexts_and_no_mark_is_unknown() -> None:
    found = Counter(mark for text in all_texts() for mark in MARK.findall(text))
    assert set(found) == {(word, sense) for word, senses in SENSES.items() for sense in senses}
    assert min(found.values()) >= 6


def test_no_ambiguous_word_is_left_unmarked() -> None:
    for text in all_texts():
        assert not set(tokenize_words(MARK.sub("", text))) & set(SENSES), text

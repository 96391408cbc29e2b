"""What is written in the notation is read back as it was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.study.news.template import Choice, Slot, Template, parse_options

SLOTS = st.builds(Slot, st.sampled_from(["city", "firm_name"]), st.sampled_from([None, "here"]))
TEXT = st.text("ab ,.<>/*-", min_size=1)


def one_of(templates: st.SearchStrategy[Template]) -> st.SearchStrategy[Choice]:
    return st.builds(Choice, st.lists(templates, min_size=1, max_size=3).map(tuple))


def in_turn(parts: list[str | Slot | Choice]) -> Template:
    """Texts side by side would be read back as one."""
    pairs = zip([None, *parts], parts, strict=False)
    return tuple(
        part for last, part in pairs if not (isinstance(last, str) and isinstance(part, str))
    )


TEMPLATES: st.SearchStrategy[Template] = st.recursive(
    st.lists(TEXT | SLOTS, max_size=3).map(in_turn),
    lambda inner: st.lists(TEXT | SLOTS | one_of(inner), max_size=3).map(in_turn),
)


def written(template: Template) -> str:
    return "".join(map(written_part, template))


def written_part(part: str | Slot | Choice) -> str:
    if isinstance(part, Slot):
        return f"{{{part.rule}:{part.name}}}" if part.name else f"{{{part.rule}}}"
    if isinstance(part, Choice):
        *options, last = map(written, part.options)
        return (
            f"[{'|'.join(options)}]" if options and not last else f"({'|'.join([*options, last])})"
        )
    return part


@given(st.lists(TEMPLATES, min_size=1, max_size=3))
def test_a_round_trip(templates: list[Template]) -> None:
    assert parse_options("|".join(map(written, templates))) == tuple(templates)


def test_all_of_the_notation() -> None:
    (template,) = parse_options("{firm:it} (rose|fell [to {rate}])")
    to_rate = Choice((("to ", Slot("rate", None)), ()))
    assert template == (Slot("firm", "it"), " ", Choice((("rose",), ("fell ", to_rate))))


@pytest.mark.parametrize("text", ["a (b|c", "a [b", "{city", "{city|x}", "a ] b", "a) b", "(a]"])
def test_brackets_that_do_not_fit(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|never opened"):
        parse_options(text)

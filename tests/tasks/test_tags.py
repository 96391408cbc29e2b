"""Spans and their measures, against nervaluate and against a conlleval written from its rules."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nervaluate import Evaluator

from elmo.classify.metrics import wilson
from elmo.errors import UserError
from elmo.tasks.tags import (
    SCHEMES,
    Scheme,
    Span,
    TaggedText,
    convert,
    detect_scheme,
    find_spans,
    has_spans,
    measure_tags,
    write_spans,
)

LABELS = ("PER", "LOC", "ORG-X")


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans that do not overlap, and the length of the sentence."""
    length, at, found = draw(st.integers(0, 12)), 0, list[Span]()
    while at < length:
        at += draw(st.integers(0, 2))
        end = min(length, at + draw(st.integers(1, 3)))
        if at < end:
            found.append(Span(at, end, draw(st.sampled_from(LABELS))))
        at = end
    return found, length


@given(spans(), st.sampled_from(SCHEMES))
def test_what_is_written_is_read(case: tuple[list[Span], int], scheme: Scheme) -> None:
    some, length = case
    tags = write_spans(some, length, scheme)
    assert len(tags) == length
    assert find_spans(tags) == some
    assert convert(tags, scheme) == tags


def test_the_three_schemes() -> None:
    some = [Span(0, 2, "PER"), Span(2, 3, "PER"), Span(4, 5, "LOC")]
    assert write_spans(some, 6, "iob1") == ["I-PER", "I-PER", "B-PER", "O", "I-LOC", "O"]
    assert write_spans(some, 6, "iob2") == ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "O"]
    assert write_spans(some, 6, "bioes") == ["B-PER", "E-PER", "S-PER", "O", "S-LOC", "O"]
    assert find_spans(["B-PER", "L-PER", "U-PER", "O", "U-LOC", "O"]) == some  # BILOU


# conlleval, written anew from the rules in its Perl source.


def conlleval_chunks(tags: list[str]) -> set[tuple[int, int, str]]:
    def starts(before: str, before_type: str, tag: str, kind: str) -> bool:
        if tag in ("B", "S"):
            return True
        if before in ("E", "S") and tag in ("E", "I"):
            return True
        if before == "O" and tag in ("E", "I"):
            return True
        return tag != "O" and before_type != kind

    def ends(before: str, before_type: str, tag: str, kind: str) -> bool:
        if before in ("E", "S"):
            return True
        if before in ("B", "I") and tag in ("B", "S", "O"):
            return True
        return before != "O" and before_type != kind

    chunks: set[tuple[int, int, str]] = set()
    before, before_type, start = "O", "", 0
    for idx, full in enumerate([*tags, "O"]):
        tag, _, kind = full.partition("-")
        if before != "O" and ends(before, before_type, tag, kind):
            chunks.add((start, idx, before_type))
        if starts(before, before_type, tag, kind):
            start = idx
        before, before_type = tag, kind
    return chunks


any_tags = st.lists(
    st.sampled_from(["O", *(f"{p}-{x}" for p in "BIES" for x in LABELS)]), max_size=9
)


@given(any_tags)
def test_inconsistent_tags_are_read_as_conlleval_reads_them(tags: list[str]) -> None:
    assert {tuple(span) for span in find_spans(tags)} == conlleval_chunks(tags)


@given(st.lists(st.tuples(any_tags, st.randoms(use_true_random=False)), min_size=1, max_size=6))
def test_precision_recall_and_f1_are_those_of_conlleval(
    cases: list[tuple[list[str], object]],
) -> None:
    gold = [[*tags, "B-PER"] for tags, _ in cases]
    predicted = [[*random.sample(tags, len(tags)), "B-PER"] for tags, random in cases]  # pyright: ignore
    correct = guessed = true = 0
    for some, others in zip(gold, predicted, strict=True):
        first, second = conlleval_chunks(some), conlleval_chunks(others)
        correct, guessed, true = (
            correct + len(first & second),
            guessed + len(second),
            true + len(first),
        )
    metrics = measure_tags(gold, predicted)
    assert metrics.f1 is not None
    assert metrics.precision == pytest.approx(correct / guessed)
    assert metrics.recall == pytest.approx(correct / true)
    assert metrics.f1.value == pytest.approx(2 * correct / (guessed + true))
    assert metrics.f1.low <= metrics.f1.value <= metrics.f1.high
    assert sum(one.support for one in metrics.classes) == true


@given(st.lists(st.tuples(spans(), spans()), min_size=1, max_size=6))
def test_f1_is_that_of_nervaluate(
    cases: list[tuple[tuple[list[Span], int], tuple[list[Span], int]]],
) -> None:
    gold = [["B-PER", *write_spans(some, length, "iob2")] for (some, length), _ in cases]
    predicted: list[list[str]] = []
    for (_, length), (others, _) in cases:
        fitting = [span for span in others if span.end <= length]
        predicted.append(["B-PER", *write_spans(fitting, length, "iob2")])
    result = Evaluator(gold, predicted, tags=list(LABELS), loader="list").evaluate()
    strict = result["overall"]["strict"]
    metrics = measure_tags(gold, predicted)
    assert metrics.f1 is not None
    assert metrics.precision == pytest.approx(strict.precision)
    assert metrics.recall == pytest.approx(strict.recall)
    assert metrics.f1.value == pytest.approx(strict.f1)


def test_accuracy_of_tags_that_are_no_spans() -> None:
    gold, predicted = [["NOUN", "VERB"], ["X"]], [["NOUN", "NOUN"], ["X"]]
    metrics = measure_tags(gold, predicted, is_known=[[True, False], [True]])
    assert metrics.f1 is None
    assert metrics.accuracy == wilson(2, 3)
    assert metrics.unknown_word_accuracy == 0
    assert {one.label: one.f1 for one in metrics.classes} == {
        "NOUN": pytest.approx(2 / 3), "VERB": 0, "X": 1,
    }  # fmt: skip
    with pytest.raises(UserError, match="none"):
        measure_tags([[]], [[]])


def test_the_scheme_is_found_and_what_breaks_it_is_named(caplog: pytest.LogCaptureFixture) -> None:
    for scheme in SCHEMES:
        tags = write_spans([Span(0, 2, "A"), Span(2, 4, "A"), Span(5, 6, "B")], 7, scheme)
        assert detect_scheme([tags]) == scheme
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        tags = [["B-A", "I-A", "O"], ["B-A", "O", "I-B"]]
        assert detect_scheme(tags, ["'x', line 1", "'x', line 5"]) == "iob2"
    assert "1 break the rules of IOB2" in caplog.text
    assert "'I-B' at word 3, 'x', line 5" in caplog.text


def test_which_tags_are_spans() -> None:
    assert has_spans(["O", "B-LOC", "I-LOC"])
    assert not has_spans(["NOUN", "O"])
    assert not has_spans(["O"])


def test_a_tagged_text_shows_itself() -> None:
    text = TaggedText(("<New>", "York", "rains"), ("B-LOC", "I-LOC", "O"))
    assert str(text) == "[<New> York]/LOC rains"
    assert text.spans == [Span(0, 2, "LOC")]
    page = text._repr_html_()
    assert "&lt;New&gt; York<sub" in page
    assert "rains" in page
    assert str(TaggedText(("It", "rains"), ("PRON", "VERB"))) == "It/PRON rains/VERB"
    assert "<rt" in TaggedText(("It",), ("PRON",))._repr_html_()
    assert str(TaggedText(("It",), ("O",))) == "It"

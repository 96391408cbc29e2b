"""Whatever texts hold, what comes out fits in a page, and ordinary text stays as it is."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.study.report.printable import printable, printable_text
from elmo.study.results import StudyResults


@given(st.text(st.characters(), max_size=40))
def test_the_result_is_xml_and_utf_8(text: str) -> None:
    clean = printable_text(text)
    assert len(clean) == len(text)
    escaped = clean.replace("&", "&amp;").replace("<", "&lt;")
    found = ElementTree.fromstring(f"<a>{escaped}</a>".encode()).text or ""
    assert found == clean


@given(st.text(st.characters(exclude_categories=["C"])))
def test_ordinary_text_stays(text: str) -> None:
    assert printable_text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [("a\nb\tc", "a b c"), ("\x00", "�"), ("\ud800", "�"), ("\ufffe", "�"), ("e\u0301", "e\u0301")],
)
def test_what_is_replaced(text: str, clean: str) -> None:
    assert printable_text(text) == clean


def test_all_of_the_results_are_cleaned_and_nothing_else_changes(results: StudyResults) -> None:
    assert printable(results) == results
    damaged = replace(results, about=replace(results.about, command="elmo\x07 study"))
    assert printable(damaged).about.command == "elmo� study"

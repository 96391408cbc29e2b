"""The page holds the results' figures, needs nothing else, and takes no text for markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.report.page import Page

from elmo.study.report.blocks import (
    Code,
    Details,
    Figure,
    Paragraph,
    Report,
    Section,
    Table,
    columns,
    one_part,
)
from elmo.study.report.html import inline, render_html


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def figures(written: Path) -> Any:
    return json.loads((written / "results.json").read_text(encoding="utf-8"))


def test_the_main_table_is_that_of_the_results(page: Page, figures: Any) -> None:
    for row in figures["rows"]:
        cells = page.line("main", row["title"])
        test = row["test_accuracy"]
        mean, _, deviation = cells[0].partition(" ± ")
        assert mean == f"{test['mean']:.4f}"
        assert deviation == (f"{test['deviation']:.4f}" if len(row["seeds"]) > 1 else "")
        assert cells[1] == f"{test['low']:.4f}–{test['high']:.4f}"
        assert cells[2] == f"{row['test_macro_f1']['mean']:.4f}"
        assert cells[3] == f"{row['train_accuracy']['mean']:.4f}"
        check_p(cells[4], row["paired"])
        check_seconds(cells[5], row["embedding_seconds"])
        trained = [seed["training_seconds"] for seed in row["seeds"]]
        check_seconds(cells[6], sum(trained) / len(trained))
        assert float(cells[7].replace(",", "")) == pytest.approx(row["texts_per_second"], abs=0.51)
        assert cells[8] == f"{row['parameters']:,}"
        below = row["embedding_parameters"]
        assert cells[9] == (f"{below:,}" if below else "")


def check_p(cell: str, paired: Any) -> None:
    if paired is None:
        assert cell == "reference"
    elif "< 1e-300" in cell:
        assert paired["p"] < 1e-300
    else:
        assert float(cell.lstrip("↑↓ ")) == pytest.approx(paired["p"], rel=0.34)


def check_seconds(cell: str, seconds: float | None) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600}
    found = sum(float(n) * sizes[unit] for n, unit in re.findall(r"([\d.]+) (\w+)", cell))
    assert (cell == "") == (seconds is None)
    assert found == pytest.approx(seconds or 0, rel=0.02, abs=0.06)


def test_classes_are_those_of_the_results(page: Page, figures: Any) -> None:
    for row in figures["rows"]:
        for split in ("train", "test"):
            cells = [float(cell) for cell in page.line(f"classes-{split}-0", row["title"])]
            for place in range(4):
                for number, figure in enumerate(("precision", "recall", "f1")):
                    seeds = [seed[split]["classes"][place][figure] for seed in row["seeds"]]
                    expected = sum(seeds) / len(seeds)
                    assert cells[3 + 3 * place + number] == pytest.approx(expected, abs=6e-5)


def test_everything_else_is_there(page: Page, figures: Any) -> None:
    for name in ("failed", "weights-table", "draws-table", "samples-table", "sweeps-table",
                 "pairs", "word-0", "word-1", "senses", "history", "machine", "chosen",
                 "candidates", "settings", "fingerprints", "versions"):  # fmt: skip
        assert len(page.tables[name]) > 1, name
    assert figures["about"]["command"] in page.text
    assert figures["about"]["fingerprints"][0]["value"] in page.text
    assert figures["failed"][0]["message"] in page.text
    assert figures["words"][0]["contexts"][0]["neighbours"][0]["text"] in page.text


def test_nothing_comes_from_elsewhere(page: Page, text: str) -> None:
    assert not re.findall(r"(?:https?:)?//[a-z]", text)
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base")
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            address = attributes.get(name)
            assert address is None or address.startswith("#") or address == "data:,"
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)


def test_everybody_can_read_it(page: Page) -> None:
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == tags.count("table") == len(page.tables)
    assert tags.count("h1") == 1
    images = [found for tag, found in page.tags if tag == "div" and found.get("role") == "img"]
    assert len(images) == tags.count("figure") == tags.count("figcaption") == 8
    assert all(len(found["aria-label"] or "") > 30 for found in images)
    assert all(found.get("aria-hidden") for tag, found in page.tags if tag == "svg")
    assert all(found.get("scope") for tag, found in page.tags if tag == "th")


def test_links_lead_somewhere_and_no_identifier_is_there_twice(page: Page) -> None:
    identifiers = [found["id"] for _, found in page.tags if found.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    links = {found["href"] for tag, found in page.tags if tag == "a"}
    assert links
    assert {f"#{identifier}" for identifier in identifiers} >= links
    described = {found["aria-labelledby"] for _, found in page.tags if "aria-labelledby" in found}
    assert described <= set(identifiers)


def test_figures_have_the_colours_of_the_page(text: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 8
    for drawing in drawings:
        # Black is what matplotlib calls nothing: parts that are not drawn.
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) <= {"#000000"}
        assert "var(--" in drawing
        assert "xmlns" not in drawing


def a_report(words: str) -> Report:
    """The words wherever words can be."""
    table = Table(
        name="it", caption=words, columns=columns("", words), parts=one_part([(words, words)])
    )
    drawing = Figure(name="f", caption=words, alt=words, svg="<svg><path/></svg>")
    blocks = (Paragraph(text=words), Code(text=words), table, drawing)
    section = Section(
        name="s", title=words, blocks=(*blocks, Details(title=words, blocks=(Paragraph(text="x"),)))
    )
    return Report(title=words, data=words, answer=(words,), facts=words, sections=(section,))


TAGS = [tag for tag, _ in Page(render_html(a_report("plain words"))).tags]
MARKUP = st.sampled_from(["<", ">", "&", '"', "'", "<script>", "</td>", "{{", "{%", "-->", "]]>"])


@given(st.lists(MARKUP | st.text(min_size=1, max_size=5), min_size=1).map("".join))
def test_no_text_is_taken_for_markup(words: str) -> None:
    found = Page(render_html(a_report(words)))
    assert [tag for tag, _ in found.tags] == TAGS
    # Browsers read one line end for another, and cut the first one of a <pre>.
    expected = re.sub(r"\r\n?", "\n", words)
    (name, cell) = found.tables["it"][-1]
    assert (normal(name), normal(cell)) == (expected, expected)
    assert next(a["aria-label"] for t, a in found.tags if t == "div" and "aria-label" in a) == words


def normal(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text)


def test_an_inline_drawing_is_as_wide_as_its_place() -> None:
    size = 'width="9pt" height="9pt" viewBox="0 0 9 9"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><g/></svg>'
    drawing = str(inline(Figure(name="f", caption="", alt="", svg=svg)))
    assert drawing == '<svg viewBox="0 0 9 9" aria-hidden="true"><g/></svg>'

"""The page and the PDF hold the figures of results.json, and take no text for markup."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.conftest import full_results
from tests.study.page import Page

from elmo.study.report import (
    answer,
    around,
    duration,
    make_report,
    p_value,
    printable,
    render_html,
    render_pdf,
    verdict,
    write_report,
)

RESULTS = full_results()
ORDER = [
    "comparison", "failed", "classes", "confusion", "weights", "draws", "samples", "sweeps",
    "mistakes", "words", "senses", "pretraining", "how",
]  # fmt: skip
CLAIM = re.compile(r"\b(above|below|better|worse|higher|lower|beats?)\b", re.IGNORECASE)
needs_poppler = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One report for all tests: to draw it takes seconds."""
    folder = tmp_path_factory.mktemp("report")
    write_report(RESULTS, folder)
    return folder


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


# The numbers.


def test_the_main_table_is_that_of_the_results(page: Page) -> None:
    for row in RESULTS["rows"]:
        cells = page.line("main", row["title"])
        test, seeds = row["test_accuracy"], row["seeds"]
        deviation = f" ± {test['deviation']:.4f}" if len(seeds) > 1 else ""
        assert cells[0] == f"{test['mean']:.4f}{deviation}"
        assert cells[1] == f"{test['low']:.4f}–{test['high']:.4f}"
        assert cells[2] == f"{row['test_macro_f1']['mean']:.4f}"
        assert cells[3] == f"{row['train_accuracy']['mean']:.4f}"
        check_p(cells[4], row)
        check_seconds(cells[5], row["embedding_seconds"])
        check_seconds(cells[6], sum(seed["training_seconds"] for seed in seeds) / len(seeds))
        assert float(cells[7].replace(",", "")) == pytest.approx(row["texts_per_second"], abs=0.51)
        assert cells[8] == f"{row['parameters']:,}"
        below = row["embedding_parameters"]
        assert cells[9] == (f"{below:,}" if below else "")


def check_p(cell: str, row: Any) -> None:
    paired = row["paired"]
    if paired is None:
        assert cell == "reference"
        return
    # An arrow where the test shows a difference, to the side that has more rows right alone.
    more = paired["only_this"] > paired["only_other"]
    arrow = ("↑" if more else "↓") if paired["p"] < 0.05 else ""
    assert cell[:1] == arrow or not arrow
    value = cell.lstrip("↑↓ ")
    assert (
        paired["p"] < 1e-300 if "<" in value else float(value) == pytest.approx(paired["p"], 0.34)
    )


def check_seconds(cell: str, seconds: float | None) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600}
    found = sum(float(n) * sizes[unit] for n, unit in re.findall(r"([\d.]+) (\w+)", cell))
    assert (cell == "") == (seconds is None)
    assert found == pytest.approx(seconds or 0, rel=0.02, abs=0.51)


@pytest.mark.parametrize("split", ["train", "test"])
def test_classes_are_means_over_seeds(page: Page, split: str) -> None:
    for row in RESULTS["rows"]:
        confusions = [np.array(seed[split]["confusion"]) for seed in row["seeds"]]
        precision = np.mean([one.diagonal() / np.maximum(1, one.sum(0)) for one in confusions], 0)
        recall = np.mean([one.diagonal() / one.sum(1) for one in confusions], 0)
        cells = [float(cell) for cell in page.line(f"classes-{split}-0", row["title"])]
        assert cells[3::3] == pytest.approx(precision, abs=6e-5)
        assert cells[4::3] == pytest.approx(recall, abs=6e-5)
        assert cells[0] == pytest.approx(precision.mean(), abs=6e-5)


def test_the_numbers_of_the_analyses(page: Page) -> None:
    by_name = {row["name"]: row for row in RESULTS["rows"]}
    weights = [seed["layer_weights"] for seed in by_name["trainable"]["seeds"]]
    mean, deviation = np.mean(weights, 0), np.std(weights, 0, ddof=1)
    cells = page.line("weights-table", by_name["trainable"]["title"])
    assert cells[1:4] == [f"{m:.4f} ± {d:.4f}" for m, d in zip(mean, deviation, strict=True)]
    for draw in RESULTS["draws"]["draws"]:
        numbers = [*draw["layer_weights"], draw["development_accuracy"], draw["test_accuracy"]]
        assert page.line("draws-table", str(draw["seed"])) == [f"{one:.4f}" for one in numbers]
    for point in RESULTS["samples"]:
        cells = page.line("samples-table", by_name[point["row"]]["title"])
        assert any(cell.startswith(f"{point['test_accuracy']['mean']:.4f}") for cell in cells)
    for point in (point for sweep in RESULTS["sweeps"] for point in sweep["points"]):
        cells = page.line("sweeps-table", f"{point['value']:g}")
        assert cells[1] == f"{point['test_accuracy']:.4f}"
    assert page.line("senses", "ELMo layer 1")[::2] == ["0.8710", "0.5030"]
    for epoch in RESULTS["language_model"]["history"]:
        assert page.line("history", f"{epoch['epoch']:g}")[2] == f"{epoch['perplexity']:,.2f}"
    labels = RESULTS["about"]["labels"]
    for heading, cell in zip(page.tables["pairs"][0][1:], page.line("pairs", "ELMo, average"),
                             strict=True):  # fmt: skip
        label, other = (labels.index(name) for name in heading.split(" → "))
        matrix = by_name["average"]["seeds"][0]["test"]["confusion"]
        assert cell == f"{matrix[label][other]:,}"


def test_everything_else_is_there(page: Page) -> None:
    about = RESULTS["about"]
    assert about["command"] in page.text
    assert all(one["value"] in page.text for one in about["fingerprints"])
    assert page.line("failed", "SVD, window 12") == [RESULTS["failed"][0]["message"]]
    near = RESULTS["words"][0]["contexts"][0]["neighbours"][0]
    assert f"{near['word']} {near['similarity']:.2f} · {near['text']}" in page.text
    chosen = RESULTS["rows"][-2]
    assert page.line("chosen", chosen["title"])[2] == (
        f"{chosen['development_accuracy']['mean']:.4f}"
    )
    assert [line[-1] for line in page.tables["candidates"]].count("chosen") - 1 == sum(
        bool(row["candidates"]) for row in RESULTS["rows"]
    )


def test_sections_are_those_that_have_content() -> None:
    report = make_report(RESULTS)
    assert [section["name"] for section in report["sections"]] == ORDER
    nothing = {"samples": [], "sweeps": [], "words": [], "senses": [], "failed": [], "rows": []}
    empty = RESULTS | nothing | {"language_model": None, "draws": None}
    report = make_report(empty)
    assert [section["name"] for section in report["sections"]] == ["how"]
    assert report["answer"] == ["No row of the comparison could be computed."]
    render_html(report)


def test_texts_that_may_not_be_shown_are_not() -> None:
    hidden = full_results()
    for row in hidden["rows"]:
        for confusion in row["confusions"]:
            confusion["examples"] = [example | {"text": None} for example in confusion["examples"]]
    for context in (context for word in hidden["words"] for context in word["contexts"]):
        context["text"] = None
        context["neighbours"] = [near | {"text": None} for near in context["neighbours"]]
    shown = Page(render_html(make_report(hidden))).text
    assert f"in test row {hidden['words'][0]['contexts'][0]['row']:,}" in shown
    assert "interest rates" not in shown


def test_many_classes_take_several_tables() -> None:
    many = full_results()
    labels = [f"label {idx}" for idx in range(11)]
    many["about"]["labels"], many["rows"] = labels, many["rows"][4:5]
    for seed in many["rows"][0]["seeds"]:
        for split in ("train", "test"):
            seed[split]["classes"] = [seed[split]["classes"][0] | {"label": x} for x in labels]
            seed[split]["confusion"] = np.eye(11, dtype=int).tolist()
    tables = Page(render_html(make_report(many))).tables
    spans = [tables[f"classes-test-{first}"][0] for first in (0, 5, 10)]
    assert [name for span in spans for name in span if name] == ["mean of classes", *labels]


# The answer claims a difference where the paired test shows one, and nowhere else.


@given(st.floats(0.3, 1.0), st.floats(0, 1), st.booleans())
def test_what_is_claimed(accuracy: float, p: float, more: bool) -> None:
    rows = {row["name"]: row for row in RESULTS["rows"]}
    other = rows["skipgram-8"]
    paired = {"against": "skipgram-8", "only_this": 300 if more else 200, "only_other": 250, "p": p}
    test = rows["trainable"]["test_accuracy"] | {"mean": accuracy}
    row = rows["trainable"] | {"paired": paired, "test_accuracy": test}
    higher = accuracy > other["test_accuracy"]["mean"]
    agrees = p < 0.05 and higher == more and accuracy != other["test_accuracy"]["mean"]
    side = ("above" if more else "below") if agrees else "unclear"
    assert verdict(row, other) == side
    text = " ".join(answer(RESULTS | {"rows": [other, row]}))
    assert set(CLAIM.findall(text)) == {side} - {"unclear"}
    assert ("no difference that 7,600 rows can show" in text) == (side == "unclear")


def test_the_answer_as_it_reads() -> None:
    rows = {row["name"]: row for row in RESULTS["rows"]}
    elmo, test = rows["average"], rows["average"]["test_accuracy"]
    mean = {name: f"{row['test_accuracy']['mean']:.4f}" for name, row in rows.items()}
    assert answer(RESULTS) == [
        f"ELMo, average, best of the ELMo rows on the development rows, labels {mean['average']} "
        f"of the 7,600 test rows correctly (95% interval {test['low']:.4f} to {test['high']:.4f}).",
        f"Skip-gram, window 8, the best static embedding, reaches {mean['skipgram-8']}: ELMo "
        f"is above it by more than chance explains (p = {p_value(elmo['paired']['p'])}). Of 8 ELMo "
        "rows, 3 are above it, 0 below, 5 not to be told apart.",
        f"Without a pre-trained embedding, Own word vectors alone reaches {mean['own']}.",
    ]
    alone = answer(RESULTS | {"rows": [rows["tfidf"] | {"paired": None}]})
    assert alone[0].startswith("TF-IDF, linear SVM, best of all rows")
    generated = RESULTS | {"about": RESULTS["about"] | {"data": "generated"}}
    assert "not how embeddings fare on real text" in make_report(generated)["data"]


# The page.


def test_nothing_comes_from_elsewhere(page: Page, text: str) -> None:
    assert not re.findall(r"(?:https?:)?//[a-z]", text)
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base")
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            address = attributes.get(name)
            assert address is None or address.startswith("#") or address == "data:,"
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)


def test_everybody_can_read_it(page: Page, text: str) -> None:
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == tags.count("table") == len(page.tables)
    assert tags.count("h1") == 1
    images = [found for tag, found in page.tags if tag == "div" and found.get("role") == "img"]
    assert len(images) == tags.count("figure") == tags.count("figcaption") == 8
    assert all(len(found["aria-label"] or "") > 30 for found in images)
    assert all(found.get("aria-hidden") for tag, found in page.tags if tag == "svg")
    assert all(found.get("scope") for tag, found in page.tags if tag == "th")
    ids = [found["id"] for _, found in page.tags if found.get("id")]
    assert len(set(ids)) == len(ids)
    links = {found["href"] for tag, found in page.tags if tag == "a"}
    assert links
    assert links <= {f"#{one}" for one in ids}
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)
    # Figures follow the page's light and dark colours; black is matplotlib's word for nothing.
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) <= {"#000000"}
        assert "var(--" in drawing
    for scheme in ("light", "dark"):
        assert f"color-scheme: {scheme}" in text


def test_tables_are_as_wide_as_their_head() -> None:
    for block in blocks(make_report(RESULTS)):
        if block["kind"] == "table":
            widths = {len(line) for part in block["parts"] for line in part["lines"]}
            assert widths == {len(block["columns"])}, block["name"]
            spans = sum(span["width"] for span in block["over"])
            assert spans in (0, len(block["columns"]))


def blocks(report: Any) -> list[Any]:
    found = [block for section in report["sections"] for block in section["blocks"]]
    return found + [inner for block in found for inner in block.get("blocks", ())]


def report_of(words: str) -> dict[str, Any]:
    """The words wherever words can be."""
    column = {"title": words, "align": "left"}
    part = {"title": words, "group": None, "lines": [[words, words]]}
    table = {
        "kind": "table", "name": "it", "caption": words, "columns": [column, column],
        "parts": [part], "over": [], "dense": False,
    }  # fmt: skip
    figure = {
        "kind": "figure", "name": "f", "caption": words, "alt": words, "floats": False,
        "svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"><path/></svg>',
    }  # fmt: skip
    text, code = ({"kind": kind, "text": words} for kind in ("text", "code"))
    details = {"kind": "details", "title": words, "blocks": [text], "open": False}
    section = {"name": "s", "title": words, "blocks": [text, code, table, figure, details]}
    return {
        "title": words, "data": words, "answer": [words], "facts": words, "sections": [section],
    }  # fmt: skip


TAGS = [tag for tag, _ in Page(render_html(report_of("plain words"))).tags]
HTML = st.sampled_from(["<", ">", "&", '"', "'", "<script>", "</td>", "{{", "{%", "-->", "]]>"])
TYPST = st.sampled_from(["#", "$", "*", "`", "@x", "<x>", "[", "\\", "/*", "#panic(1)", "= "])


@given(st.lists(HTML | st.text(min_size=1, max_size=5), min_size=1).map("".join))
def test_no_text_is_taken_for_markup(words: str) -> None:
    found = Page(render_html(report_of(words)))
    assert [tag for tag, _ in found.tags] == TAGS
    # Browsers read one line end for another.
    cells = [re.sub(r"\r\n?", "\n", cell) for cell in found.tables["it"][-1]]
    assert cells == [re.sub(r"\r\n?", "\n", words)] * 2
    assert next(a["aria-label"] for t, a in found.tags if t == "div" and "aria-label" in a) == words


# The PDF.


def pdf_text(file: Path) -> str:
    command = ["pdftotext", "-layout", str(file), "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@needs_poppler
def test_the_pdf_has_the_main_table_on_numbered_pages_of_a4(written: Path) -> None:
    text = pdf_text(written / "report.pdf")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for row in RESULTS["rows"]:
        test = row["test_accuracy"]
        deviation = f" ± {test['deviation']:.4f}" if len(row["seeds"]) > 1 else ""
        first = f"{row['title']} {test['mean']:.4f}{deviation} {test['low']:.4f}–{test['high']:.4f}"
        assert [line for line in lines if line.startswith(first)], first
    pages = text.split("\f")[:-1]
    numbers = [re.search(r"(\d+) / (\d+)\s*$", page) for page in pages]
    assert [number and number.groups() for number in numbers] == [
        (str(idx), str(len(pages))) for idx in range(1, len(pages) + 1)
    ]
    command = ["pdfinfo", str(written / "report.pdf")]
    assert "(A4)" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


@settings(max_examples=8)
@given(st.lists(TYPST | st.text(max_size=5), min_size=1).map("".join))
def test_any_text_can_be_set(words: str) -> None:
    assert render_pdf(printable(report_of(words))).startswith(b"%PDF-")


@needs_poppler
def test_no_text_of_the_pdf_is_taken_for_markup(tmp_path: Path) -> None:
    words = '#panic("x") *b* _i_ $x$ @ref <label> [c] \\ // `raw` = h'
    file = tmp_path / "it.pdf"
    file.write_bytes(render_pdf(report_of(words)))
    assert pdf_text(file).count(words) >= 5


# How values are written.


@given(st.floats(1e-300, 1))
def test_a_rounded_p_stays_on_its_side(p: float) -> None:
    shown = float(p_value(p))
    assert (shown < 0.05) == (p < 0.05)
    assert shown == pytest.approx(p, rel=0.5)
    assert p_value(0.0) == "< 1e-300"


@given(st.floats(0, 1e7))
def test_durations_can_be_read_back(seconds: float) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
    parts = re.findall(r"([\d.]+) (\w+)", duration(seconds))
    total = sum(float(number) * sizes[unit] for number, unit in parts)
    assert total == pytest.approx(seconds, rel=0.05, abs=0.06)
    assert all(float(number) < 60 for number, unit in parts if unit in ("s", "min"))


@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=60), st.data())
def test_around_a_word_are_whole_words(words: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words))
    part = around(" ".join(words), word, 40)
    found = part.removeprefix("… ").removesuffix(" …").split()
    assert word in found
    assert len(" ".join(found)) <= 40
    assert any(words[at : at + len(found)] == found for at in range(len(words)))


@given(st.recursive(st.text() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_what_no_page_can_hold_is_replaced(value: Any) -> None:
    def check(new: Any, old: Any) -> None:
        if isinstance(old, dict):
            assert new.keys() == old.keys()
            for key, item in old.items():
                check(new[key], item)
        elif isinstance(old, list):
            for one, other in zip(new, old, strict=True):
                check(one, other)
        elif isinstance(old, str):
            assert len(new) == len(old)
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", new)
            kept = [n for n, o in zip(new, old, strict=True) if n == o]
            assert len(kept) == len(old) or not old.isprintable()
        else:
            assert new is old

    check(printable(value), value)

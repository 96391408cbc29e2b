"""The page and the PDF hold the figures of results.json, and take no text for markup."""

from __future__ import annotations

import copy
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
    around,
    duration,
    make_report,
    p_value,
    printable,
    render_html,
    render_pdf,
    sweep_sentence,
    verdict,
    write_report,
)

RESULTS = full_results()
ORDER = [
    "comparison", "failed", "classes", "confusion", "weights", "draws", "samples", "sweeps",
    "mistakes", "words", "senses", "pretraining", "how",
]  # fmt: skip
NOTHING = {
    "rows": [], "contrasts": [], "failed": [], "draws": None, "samples": [], "sweeps": [],
    "words": [], "senses": [], "language_model": None,
}  # fmt: skip
CLAIMS = {"Yes": "above", "No": "below", "Undecided": "unclear"}
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


def columns(name: str) -> list[tuple[Any, Any]]:
    return [(row, row[name]) for row in RESULTS["rows"] if row[name]]


@pytest.mark.parametrize(("name", "first"), [("alone", 0), ("beside", 3)])
def test_the_main_table_is_that_of_the_results(page: Page, name: str, first: int) -> None:
    for row, column in columns(name):
        cells = page.line("main", row["title"])[first : first + 3]
        test, compared = column["test_accuracy"], column["compared"]
        deviation = f" ± {test['deviation']:.4f}" if len(column["seeds"]) > 1 else ""
        assert cells[0] == f"{test['mean']:.4f}{deviation}"
        if compared is None:
            assert cells[1:] == ["reference", ""]
            continue
        numbers = [float(one.replace("−", "-")) for one in re.findall(r"[+−][\d.]+", cells[1])]
        values = [compared["difference"], compared["low"], compared["high"]]
        assert numbers == pytest.approx(values, abs=6e-5)
        # An arrow where the corrected test and the interval show a difference.
        arrow = ("↑" if compared["low"] > 0 else "↓") if compared["holm"] < 0.05 else ""
        arrow = arrow if compared["low"] > 0 or compared["high"] < 0 else ""
        assert (cells[2][:1] if cells[2][:1] in "↑↓" else "") == arrow
        assert float(cells[2].lstrip("↑↓ ")) == pytest.approx(compared["holm"], rel=0.34)


def test_sizes_and_times(page: Page) -> None:
    for row, column in columns("alone"):
        cells = page.line("sizes", row["title"])
        test, seeds = column["test_accuracy"], column["seeds"]
        assert cells[0] == f"{test['low']:.4f}–{test['high']:.4f}"
        assert cells[1] == f"{column['test_macro_f1']['mean']:.4f}"
        assert cells[2] == f"{column['train_accuracy']['mean']:.4f}"
        assert cells[3] == f"{seeds[0]['train_rows']:,}"
        check_seconds(cells[5], row["embedding_seconds"])
        check_seconds(cells[6], sum(seed["training_seconds"] for seed in seeds) / len(seeds))
        assert float(cells[7].replace(",", "")) == pytest.approx(
            column["texts_per_second"], abs=0.51
        )
        assert cells[8] == f"{column['parameters']:,}"
        below = row["embedding_parameters"]
        assert cells[9] == (f"{below:,}" if below else "")


def check_seconds(cell: str, seconds: float | None) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600}
    found = sum(float(n) * sizes[unit] for n, unit in re.findall(r"([\d.]+) (\w+)", cell))
    assert (cell == "") == (seconds is None)
    assert found == pytest.approx(seconds or 0, rel=0.02, abs=0.51)


@pytest.mark.parametrize("split", ["train", "test"])
def test_classes_are_means_over_seeds(page: Page, split: str) -> None:
    for row, column in columns("alone"):
        confusions = [np.array(seed[split]["confusion"]) for seed in column["seeds"]]
        precision = np.mean([one.diagonal() / np.maximum(1, one.sum(0)) for one in confusions], 0)
        recall = np.mean([one.diagonal() / one.sum(1) for one in confusions], 0)
        cells = [float(cell) for cell in page.line(f"classes-{split}-0", row["title"])]
        assert cells[3::3] == pytest.approx(precision, abs=6e-5)
        assert cells[4::3] == pytest.approx(recall, abs=6e-5)
        assert cells[0] == pytest.approx(precision.mean(), abs=6e-5)


def test_the_numbers_of_the_analyses(page: Page) -> None:
    by_name = {row["name"]: row["alone"] | {"title": row["title"]} for row, _ in columns("alone")}
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
    values = [line for line in page.tables["sweeps-table"] if len(line) == 5][1:]
    points = [point for sweep in RESULTS["sweeps"] for point in sweep["points"]]
    assert [(line[0], line[2]) for line in values] == [
        (f"{point['value']:g}", f"{point['test_accuracy']:.4f}") for point in points
    ]
    assert page.line("senses", "ELMo layer 1")[::2] == ["0.8710", "0.5030"]
    bilm = RESULTS["language_model"]
    for epoch in bilm["history"]:
        assert page.line("history", f"{epoch['epoch']:g}")[2] == f"{epoch['perplexity']:g}"
    assert page.line("language-model", "accuracy")[2] == (
        f"{bilm['metrics']['average']['accuracy']:.4f}"
    )
    pair = bilm["confusions"][0]
    cells = [cell for line in page.tables["confused-words"] for cell in line]
    assert [pair["true"], pair["predicted"], f"{pair['count']:,}"] == cells[6:9]
    labels = RESULTS["about"]["labels"]
    for heading, cell in zip(page.tables["pairs"][0][1:], page.line("pairs", "ELMo, average"),
                             strict=True):  # fmt: skip
        label, other = (labels.index(name) for name in heading.split(" → "))
        matrix = by_name["average"]["seeds"][0]["test"]["confusion"]
        assert cell == f"{matrix[label][other]:,}"


def test_a_sweep_is_summed_up_by_what_its_numbers_carry() -> None:
    def curve(*tests: float) -> Any:
        points = [
            {"value": value, "development_accuracy": -value, "test_accuracy": test}
            for value, test in enumerate(tests)
        ]
        return [{"row": "svd", "points": points}]

    names = {"svd": ("SVD", "static")}
    clear = sweep_sentence(curve(0.9, 0.7), names, 1000)
    assert clear.startswith("SVD: 0 is best on development rows; test accuracy goes from 0.7000 to")
    assert ", more than chance explains" in clear
    assert "no more than chance" in sweep_sentence(curve(0.9, 0.89), names, 1000)


def test_everything_else_is_there(page: Page) -> None:
    about = RESULTS["about"]
    assert about["command"] in page.text
    assert all(one["value"] in page.text for one in about["fingerprints"])
    assert page.line("failed", "SVD, window 12") == [RESULTS["failed"][0]["message"]]
    near = RESULTS["words"][0]["contexts"][0]["neighbours"][0]
    assert f"{near['word']} {near['similarity']:.2f} · {near['text']}" in page.text
    for row, column in columns("alone"):
        mean = f"{column['development_accuracy']['mean']:.4f}"
        assert page.line("chosen", row["title"])[2] == mean
    assert all(note in page.text for note in about["notes"])
    assert f"{100 * about['detectable']:.1f} points" in page.text
    for row in RESULTS["contrasts"]:
        titles = [ROWS[row["row"]]["title"], ROWS[row["against"]]["title"]]
        line = next(line for line in page.tables["contrasts"] if line[:2] == titles)
        assert line[2].startswith(f"{row['difference']:+.4f} (".replace("-", "−"))


def test_sections_are_those_that_have_content() -> None:
    report = make_report(RESULTS)
    assert [section["name"] for section in report["sections"]] == ORDER
    report = make_report(RESULTS | NOTHING)
    assert [section["name"] for section in report["sections"]] == ["how"]
    assert report["answer"] == ["No row of the comparison could be computed."]
    render_html(report)


def test_a_study_of_few_rows_has_a_report() -> None:
    few = {row["name"] for row in RESULTS["rows"]} - {"task", "fine-tuned"}
    keep = [row for row in RESULTS["rows"] if row["name"] in few]
    assert len(keep) < len(RESULTS["rows"])
    assert "<h1" in render_html(make_report({**RESULTS, "rows": keep}))


def test_texts_that_may_not_be_shown_are_not() -> None:
    hidden = full_results()
    for _, column in ((row, row["alone"]) for row in hidden["rows"] if row["alone"]):
        for confusion in column["confusions"]:
            confusion["examples"] = [example | {"text": None} for example in confusion["examples"]]
    for context in (context for word in hidden["words"] for context in word["contexts"]):
        context["text"] = None
        context["neighbours"] = [near | {"text": None} for near in context["neighbours"]]
    shown = Page(render_html(make_report(hidden))).text
    assert f"in test row {hidden['words'][0]['contexts'][0]['row']:,}" in shown
    assert "interest rates" not in shown


@pytest.mark.parametrize("count", [1, 10, 18, 24])
def test_examples_of_mistakes_fit_on_a_page(count: int) -> None:
    some = full_results() | {key: [] for key in ("contrasts", "samples", "sweeps", "words")}
    row = next(row for row in some["rows"] if row["alone"] and row["alone"]["confusions"])
    row["alone"]["confusions"] = row["alone"]["confusions"][:1] * 3
    some["rows"] = [row | {"name": f"svd-{idx}"} for idx in range(count)]
    report = make_report(some)
    section = next(section for section in report["sections"] if section["name"] == "mistakes")
    (table,) = section["blocks"][-1]["blocks"]
    assert len(table["parts"]) == count
    lines = [line for part in table["parts"] for line in part["lines"]]
    assert len(table["parts"]) + len(lines) <= 60
    assert len(lines) == count * {1: 3, 10: 3, 18: 2, 24: 1}[count]


def test_many_classes_take_several_tables() -> None:
    many = RESULTS | NOTHING | copy.deepcopy({key: RESULTS[key] for key in ("about", "rows")})
    labels = [f"label {idx}" for idx in range(11)]
    many["about"]["labels"], many["rows"] = labels, many["rows"][4:5]
    for seed in many["rows"][0]["alone"]["seeds"] + many["rows"][0]["beside"]["seeds"]:
        for split in ("train", "test"):
            seed[split]["classes"] = [seed[split]["classes"][0] | {"label": x} for x in labels]
            seed[split]["confusion"] = np.eye(11, dtype=int).tolist()
    tables = Page(render_html(make_report(many))).tables
    spans = [tables[f"classes-test-{first}"][0] for first in (0, 5, 10)]
    assert [name for span in spans for name in span if name] == ["mean of classes", *labels]


# The answer claims a difference where the paired test shows one, and nowhere else.


ROWS = {row["name"]: row for row in RESULTS["rows"]}
REFERENCE = next(
    name for name, row in ROWS.items() if row["alone"] and not row["alone"]["compared"]
)


@settings(max_examples=6, deadline=None)  # each draws its figures
@given(st.floats(-0.1, 0.1), st.floats(0, 1), st.floats(0.001, 0.2))
def test_what_is_claimed(difference: float, p: float, half: float) -> None:
    compared = {
        "against": REFERENCE, "difference": difference, "low": difference - half,
        "high": difference + half, "p": p / 2, "holm": p, "standard_error": half / 2,
    }  # fmt: skip
    side = "unclear"
    if p < 0.05 and abs(difference) > half:
        side = "above" if difference > 0 else "below"
    assert verdict(compared) == side
    row = ROWS["trainable"] | {"alone": ROWS["trainable"]["alone"] | {"compared": compared}}
    rows = [ROWS[REFERENCE], row | {"beside": None}]
    contrast = compared | {"row": "trainable", "against": "layer-0"}
    changed = {"rows": [*rows, ROWS["layer-0"]], "contrasts": [contrast]}
    report = make_report(RESULTS | NOTHING | changed)
    assert CLAIMS[report["verdict"].split(":")[0]] == side
    sentence = next(text for text in report["answer"] if text.startswith("Does a word’s context"))
    claim = {"above": "Yes.", "below": "No.", "unclear": "Too close to tell."}[side]
    assert sentence.startswith(f"Does a word’s context help? {claim} ")
    low, high = (f"{100 * (difference + half * sign):+.1f}".replace("-", "−") for sign in (-1, 1))
    assert f"(95% interval {low} to {high})" in sentence
    assert verdict(None) == "unclear"


def test_the_first_page_as_it_reads() -> None:
    report = make_report(RESULTS)
    elmo = max(
        (
            row
            for row, _ in columns("alone")
            if row["group"] == "elmo" and row["name"] != "fine-tuned"
        ),
        key=lambda row: row["alone"]["development_accuracy"]["mean"],
    )
    reached = f"{100 * elmo['alone']['test_accuracy']['mean']:.1f}%"
    first, ways, context, beside = report["answer"]
    assert first.startswith(f"With {elmo['title']}, the classifier labels {reached} of the test ")
    assert f"{ROWS[REFERENCE]['title']}, the best static embedding, " in first
    assert ways.startswith("Of 8 ways to read the frozen biLM, ")
    against = {row["row"]: row for row in RESULTS["contrasts"] if row["against"] == "layer-0"}
    assert [*against] == ["layer-1", "layer-2"]
    for row in against.values():
        assert f"{100 * row['difference']:+.1f} points".replace("-", "−") in context
    assert beside.startswith("If the classifier also learns word vectors of its own")
    assert "one permutation test over the 30 test rows and all 2 seeds" in report["sure"]
    assert [block["name"] for block in report["first"]] == ["accuracy"]
    assert report["question"].endswith("?")
    only = [ROWS["tfidf"] | {"alone": ROWS["tfidf"]["alone"] | {"compared": None}}]
    alone = make_report(RESULTS | NOTHING | {"rows": only})
    assert alone["answer"][0].startswith("With TF-IDF, linear SVM, ")
    assert "verdict" not in alone
    assert alone["sure"] == ""
    about = RESULTS["about"] | {"data": "generated", "title": "My own study"}
    generated = make_report(RESULTS | {"about": about})
    assert "not how embeddings fare on real text" in generated["data"]
    assert generated["title"] == "My own study"


def test_published_figures_stand_beside_those_of_ag_news() -> None:
    assert "published" not in Page(render_html(make_report(RESULTS))).tables
    news = RESULTS | {"about": RESULTS["about"] | {"data": "ag_news"}}
    found = Page(render_html(make_report(news)))
    own = found.line("published", "this study, embeddings alone")
    assert own[3] == f"{ROWS['trainable']['alone']['test_accuracy']['mean']:.4f}"
    assert found.line("published", "published static embeddings of two of them")[0] == "0.89"
    titles = RESULTS | {"about": RESULTS["about"] | {"data": "ag_news, both"}}
    page = Page(render_html(make_report(titles)))
    assert "AG News (titles and descriptions)" in page.text
    assert "published" not in page.tables


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
    assert len(images) == tags.count("figure") == tags.count("figcaption") == 16
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
        "title": words, "question": words, "data": words, "notes": [words], "answer": [words],
        "sure": words, "facts": words, "first": [text], "sections": [section],
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
    for row, column in columns("alone"):
        test = column["test_accuracy"]
        deviation = f" ± {test['deviation']:.4f}" if len(column["seeds"]) > 1 else ""
        first = f"{row['title']} {test['mean']:.4f}{deviation}"
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

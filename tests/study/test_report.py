"""The page holds the results' figures, needs nothing else, and takes no text for markup."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study.builder import (
    REFERENCE,
    sense,
    spread,
    study_results,
    with_test,
    without_analyses,
    words,
)
from tests.study.page import Page

from elmo.errors import UserError
from elmo.study.formats import (
    Block,
    Code,
    Details,
    Figure,
    Paragraph,
    Report,
    Section,
    Table,
    columns,
    one_part,
    with_weights,
)
from elmo.study.plots import INK, PAPER
from elmo.study.report import (
    Split,
    against_controls,
    answer,
    apart,
    candidates_table,
    chosen_table,
    class_tables,
    comparisons,
    confusions_sentence,
    confusions_table,
    corrections,
    data_sentence,
    described,
    draws_sentences,
    draws_table,
    facts_table,
    failed_table,
    gap_sentence,
    headline,
    history_table,
    inline,
    machine_table,
    main_table,
    make_report,
    mixes,
    pairs_table,
    printable,
    printable_text,
    rank_p,
    render_html,
    render_pdf,
    samples_table,
    seeds_sentence,
    sense_interval,
    senses_sentences,
    senses_table,
    sweeps_table,
    tally,
    verdict,
    weights_sentence,
    weights_table,
    word_sentence,
    word_table,
    write_report,
)
from elmo.study.results import (
    AmbiguousWord,
    Confusion,
    Draw,
    Draws,
    Named,
    RowResult,
    StudyResults,
    read_results,
)

# Senses are told apart where the interval leaves chance behind; mistakes are counted.


@given(st.floats(0, 1), st.integers(1, 5000))
def test_above_chance_only_where_the_interval_is(accuracy: float, occurrences: int) -> None:
    one = sense("ELMo layer 1", accuracy, occurrences)
    (text,) = senses_sentences([one])
    sure = sense_interval(one)
    assert text.startswith("Above chance") == (sure.low > one.chance)
    assert text.startswith("Below chance") == (sure.high < one.chance)
    unclear = sure.low <= one.chance <= sure.high
    assert text.startswith("Not to be told from chance") == unclear


def test_senses_as_they_read(results: StudyResults) -> None:
    assert senses_sentences(results.senses) == [
        "Above chance: ELMo (layer 1) 0.8710 (chance 0.5030); ELMo (layer 2) 0.8830 (chance "
        "0.5030).",
        "Not to be told from chance: Skip-gram (window 8) 0.5120 (chance 0.5030); ELMo (layer 0) "
        "0.5080 (chance 0.5030).",
        "The interval of ELMo (layer 2) lies above those of Skip-gram (window 8) and ELMo (layer "
        "0).",
    ]


def test_no_embedding_is_the_best_where_intervals_overlap() -> None:
    text = senses_sentences([sense("one", 0.80), sense("two", 0.81)])[-1]
    assert text == "The interval of the highest, two, overlaps all others."


def test_the_most_frequent_mistake(results: StudyResults) -> None:
    rows = results.rows[1:]
    first = [row.confusions[0] for row in rows]
    same = sum((one.label, one.predicted) == ("Business", "Sci/Tech") for one in first)
    assert confusions_sentence(rows) == (
        f"The most frequent mistake of {same} of {len(rows)} rows is Business taken for Sci/Tech."
    )
    assert confusions_sentence([replace(rows[0], confusions=())]) == ""


def test_lists_in_context_are_compared_with_the_static_one() -> None:
    bank = words()[0]
    assert word_sentence(bank) == (
        "Of the words near it in context, 0 of 4 and 1 of 4 are in the one static list; 0 words "
        "are in all lists in context."
    )
    twice = replace(bank, contexts=(bank.contexts[1], bank.contexts[1]))
    assert word_sentence(twice).endswith("4 words are in all lists in context.")
    assert word_sentence(replace(bank, contexts=bank.contexts[:1])).endswith("static list.")
    assert word_sentence(replace(bank, static=())) == ""


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


# The PDF holds the main table, has numbered pages, and takes no text for markup.


needs_pdftotext = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext (poppler) is not on this machine"
)


def read(file: Path) -> str:
    command = ["pdftotext", "-layout", str(file), "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@needs_pdftotext
def test_the_main_table_is_that_of_the_results_pdf(written: Path, results: StudyResults) -> None:
    lines = [" ".join(line.split()) for line in read(written / "report.pdf").splitlines()]
    for row in results.rows:
        found = [line for line in lines if line.startswith(f"{row.title} ")]
        test = row.test_accuracy
        share = f"{test.mean:.4f}"
        share += f" ± {test.deviation:.4f}" if len(row.seeds) > 1 else ""
        first = f"{row.title} {share} {test.low:.4f}–{test.high:.4f} {row.test_macro_f1.mean:.4f}"
        assert [line for line in found if line.startswith(first)], first


@needs_pdftotext
def test_every_page_is_numbered(written: Path) -> None:
    pages = read(written / "report.pdf").split("\f")[:-1]
    numbers = [re.search(r"(\d+) / (\d+)\s*$", page) for page in pages]
    assert [number and number.groups() for number in numbers] == [
        (str(place), str(len(pages))) for place in range(1, len(pages) + 1)
    ]


def test_it_is_a_pdf_on_a4(written: Path) -> None:
    content = (written / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    if shutil.which("pdfinfo"):
        command = ["pdfinfo", str(written / "report.pdf")]
        facts = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert "(A4)" in facts
        assert "ELMo and static embeddings, compared on AG News" in facts


MARKUP_pdf = st.sampled_from(
    ["#", "$", "*", "_", "`", "@x", "<x>", "[", "]", "\\", "//", "/*", '"', "#panic(1)", "= "]
)


@settings(max_examples=8)
@given(st.lists(MARKUP_pdf | st.text(max_size=5), min_size=1).map("".join))
def test_any_text_can_be_set(words: str) -> None:
    assert render_pdf(a_report(printable_text(words))).startswith(b"%PDF-")


@needs_pdftotext
def test_no_text_is_taken_for_markup_pdf(tmp_path: Path) -> None:
    words = '#panic("x") *b* _i_ $x$ @ref <label> [c] \\ // `raw` = h'
    file = tmp_path / "it.pdf"
    file.write_bytes(render_pdf(a_report(words)))
    assert read(file).count(words) >= 5


# The report has a section for everything that was found, and none for what was not.


ORDER = [
    "comparison", "failed", "classes", "confusion", "weights", "draws", "samples", "sweeps",
    "mistakes", "words", "senses", "pretraining", "how",
]  # fmt: skip


def names(report: Report) -> list[str]:
    return [section.name for section in report.sections]


def all_blocks(report: Report) -> list[Block]:
    found: list[Block] = [block for section in report.sections for block in section.blocks]
    for block in found:
        if isinstance(block, Details):
            found.extend(block.blocks)
    return found


def test_all_sections_in_their_order(results: StudyResults) -> None:
    report = make_report(results)
    assert names(report) == ORDER
    assert report.title == "ELMo and static embeddings, compared on AG News"
    assert "94,576 training rows, 4,729 of them" in report.facts
    blocks = all_blocks(report)
    named = [block.name for block in blocks if isinstance(block, (Table, Figure))]
    assert len(set(named)) == len(named)
    for block in blocks:
        if isinstance(block, Table):
            cells = {len(line) for part in block.parts for line in part.lines}
            assert cells == {len(block.columns)}


def test_own_word_vectors_are_told_of_where_there_are_some(results: StudyResults) -> None:
    some = replace(without_analyses(results), rows=())
    own = replace(some.about, settings=(Named(name="own_words", value=128),))
    told = "Beside each embedding, the classifier learns word vectors of its own, 128 numbers each."
    assert Paragraph(text=told) in all_blocks(make_report(replace(some, about=own)))
    assert not [b for b in all_blocks(make_report(some)) if "Beside" in getattr(b, "text", "")]
    begun = (*own.settings, Named(name="word_vectors", value="far/away/glove.txt"))
    told = told.removesuffix(".") + ", which begin as those of the file glove.txt."
    report = make_report(replace(some, about=replace(own, settings=begun)))
    assert Paragraph(text=told) in all_blocks(report)


def test_what_is_empty_is_left_out(results: StudyResults) -> None:
    some = replace(without_analyses(results), rows=results.rows[:2])
    assert names(make_report(some)) == ["comparison", "classes", "confusion", "mistakes", "how"]


def test_a_study_that_failed_altogether_has_a_report_too(results: StudyResults) -> None:
    report = make_report(replace(without_analyses(results), rows=(), failed=results.failed))
    assert names(report) == ["failed", "how"]
    assert report.answer == ("No row of the comparison could be computed.",)


def test_one_epoch_makes_no_curve(results: StudyResults) -> None:
    assert results.language_model is not None
    once = replace(results.language_model, history=results.language_model.history[:1])
    report = make_report(replace(without_analyses(results), rows=(), language_model=once))
    assert names(report) == ["pretraining", "how"]
    assert not [block for block in all_blocks(report) if isinstance(block, Figure)]


def test_sweeps_and_draws_that_gave_nothing_are_left_out(results: StudyResults) -> None:
    assert results.draws is not None
    empty = replace(
        without_analyses(results),
        rows=(),
        sweeps=(replace(results.sweeps[0], points=()),),
        draws=replace(results.draws, draws=()),
    )
    assert names(make_report(empty)) == ["how"]


# Sentences claim a difference where the paired test shows one, and nowhere else.


RESULTS = without_analyses(study_results())
BY_NAME = {row.name: row for row in RESULTS.rows}
OTHER = BY_NAME[REFERENCE]
CLAIM = re.compile(
    r"\b(above|below|better|worse|higher|lower|beats?|outperforms?)\b", re.IGNORECASE
)
SHARES = st.floats(0.3, 1.0)


def compared(accuracy: float, p: float | None, *, more: bool = True) -> StudyResults:
    """The reference, and one ELMo row with that test."""
    return replace(RESULTS, rows=(OTHER, with_test(BY_NAME["trainable"], accuracy, p, more=more)))


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "")


@given(SHARES, st.floats(0.05, 1.0), st.booleans())
def test_nothing_is_claimed_where_p_is_large(accuracy: float, p: float, more: bool) -> None:
    results = compared(accuracy, p, more=more)
    for sentence in (headline(results), tally(results), *comparisons(results)):
        assert not CLAIM.search(sentence), sentence
    assert "no difference that 7,600 rows can show" in headline(results)


@given(SHARES, st.floats(0, 0.04999), st.booleans())
def test_a_side_is_claimed_where_both_seeds_and_test_agree(
    accuracy: float, p: float, more: bool
) -> None:
    results = compared(accuracy, p, more=more)
    higher = results.rows[1].test_accuracy.mean > OTHER.test_accuracy.mean
    side = ("above" if more else "below") if higher == more else "unclear"
    assert verdict(results.rows[1], OTHER) == side
    assert set(CLAIM.findall(headline(results))) == {side} - {"unclear"}


def test_the_headline_as_it_reads() -> None:
    text = plain(headline(compared(0.9268, 7e-6)))
    assert text == (
        "ELMo (trainable λs), best of the ELMo rows on the development rows, gets 0.9268 of the "
        "7,600 test rows right (95% interval 0.9208 to 0.9325). The best static embedding, "
        f"Skip-gram (window 8), gets {OTHER.test_accuracy.mean:.4f}: ELMo is above it by more than "
        "chance explains (p = 7e-6)."
    )
    unclear = plain(headline(compared(0.9183, 0.22)))
    assert unclear.endswith("no difference that 7,600 rows can show (p = 0.22).")
    assert plain(headline(compared(0.87, 1e-9, more=False))).endswith(
        "ELMo is below it by more than chance explains (p = 1e-9)."
    )


def test_seeds_that_disagree_show_no_difference() -> None:
    text = plain(headline(compared(0.87, 0.001, more=True)))
    assert "the seeds point to different sides, so no difference" in text
    assert not CLAIM.search(text)


def test_without_a_reference_nothing_is_compared() -> None:
    results = replace(RESULTS, rows=(replace(BY_NAME["trainable"], paired=None),))
    assert "No static embedding was there" in headline(results)
    assert (tally(results), comparisons(results), corrections(results)) == ("", [], "")
    assert answer(replace(RESULTS, rows=())) == ["No row of the comparison could be computed."]


def test_the_tally_adds_up() -> None:
    sides = [(0.93, 1e-6, True), (0.94, 1e-6, True), (0.88, 1e-6, False), (0.92, 0.4, True)]
    rows = [
        replace(with_test(BY_NAME["trainable"], share, p, more=more), name=f"row-{place}")
        for place, (share, p, more) in enumerate(sides)
    ]
    assert tally(replace(RESULTS, rows=(OTHER, *rows))) == (
        "Of 4 ELMo rows, 2 are above it, 1 is below it and 1 shows no difference (each tested for "
        "itself)."
    )


def test_every_compared_row_is_on_one_side(results: StudyResults) -> None:
    found = [plain(sentence) for sentence in comparisons(results)]
    paired = [row for row in results.rows if row.paired]
    assert sum(sentence.count("p = ") + sentence.count("p < ") for sentence in found) == len(paired)
    for row in paired:
        assert row.paired is not None
        (sentence,) = [one for one in found if f"{name(row)}, p" in one]
        claims = sentence.startswith(("Above", "Below"))
        assert claims == (row.paired.p < 0.05)


def test_many_tests_are_owned_up_to(results: StudyResults) -> None:
    text = corrections(results)
    assert text.startswith("These are 16 tests")
    assert "about 0.8 of them" in text
    assert f"{0.05 / 16:.2g}" in text


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [(0.9150, "overlaps that of"), (0.95, "below that of"), (0.80, "above that of")],
)
def test_controls_are_judged_by_intervals(accuracy: float, words: str) -> None:
    control = replace(BY_NAME["tfidf"], test_accuracy=spread([0.915]))
    elmo = replace(BY_NAME["trainable"], test_accuracy=spread([accuracy]))
    assert words in against_controls(replace(RESULTS, rows=(control, elmo)))
    assert against_controls(replace(RESULTS, rows=(elmo,))) == ""


@given(SHARES, SHARES)
def test_mixes_are_told_apart_only_by_intervals(first: float, second: float) -> None:
    low, high = spread([first]), spread([second])
    rows = (
        replace(BY_NAME["frozen"], test_accuracy=low),
        replace(BY_NAME["trainable"], test_accuracy=high),
    )
    text = mixes(replace(RESULTS, rows=rows))
    assert ("do not overlap" in text) == apart(low, high)
    assert not CLAIM.search(text)


def test_one_mix_is_no_comparison() -> None:
    assert mixes(replace(RESULTS, rows=(BY_NAME["frozen"],))) == ""


def test_what_seeds_tell(results: StudyResults) -> None:
    assert seeds_sentence(replace(RESULTS, rows=(BY_NAME["fine-tuned"],))).startswith(
        "Every row has one seed: how much another one would change is not known"
    )
    text = seeds_sentence(results)
    widest = max(row.test_accuracy.deviation for row in results.rows)
    assert f"at most {widest:.4f}" in text
    assert text.endswith(
        "One seed only: Majority class, TF-IDF (linear SVM) and ELMo (fine-tuned)."
    )


def test_the_widest_gap(results: StudyResults) -> None:
    gaps = {r.name: r.train_accuracy.mean - r.test_accuracy.mean for r in results.rows}
    assert name(BY_NAME[max(gaps, key=lambda one: gaps[one])]) in gap_sentence(results)
    row = replace(OTHER, train_accuracy=replace(OTHER.train_accuracy, mean=0.5))
    assert gap_sentence(replace(RESULTS, rows=(row,))) == ""


def test_what_ran_is_said_plainly(results: StudyResults) -> None:
    assert data_sentence(results) == "This study ran on AG News."
    generated = replace(results, about=replace(results.about, data="generated"))
    assert "the generated corpus that comes with elmo" in data_sentence(generated)
    assert "not how embeddings fare on real text" in data_sentence(generated)
    own = replace(results, about=replace(results.about, data="mail.csv"))
    assert data_sentence(own) == "This study ran on mail.csv."


def name(row: RowResult) -> str:
    return row.title.replace(" (the word alone)", "").replace(", ", " (", 1) + ")" * (
        ", " in row.title
    )


# The main table holds the results' own figures; classes are averaged over seeds.


def lines(table: Table) -> dict[str, tuple[str, ...]]:
    return {line[0]: line[1:] for part in table.parts for line in part.lines}


def test_every_row_has_as_many_cells_as_there_are_columns(results: StudyResults) -> None:
    table = main_table(results)
    assert sum(span.width for span in table.over) == len(table.columns)
    assert len(lines(table)) == len(results.rows)
    assert {len(line) + 1 for line in lines(table).values()} == {len(table.columns)}
    assert [part.group for part in table.parts] == ["control", "static", "elmo"]


def test_arrows_where_the_paired_test_shows_a_side(results: StudyResults) -> None:
    cells = {name: line[4] for name, line in lines(main_table(results)).items()}
    for row in results.rows:
        cell = cells[row.title]
        if row.paired is None:
            assert cell == "reference"
        else:
            assert cell.startswith(("↑", "↓")) == (row.paired.p < 0.05)
    assert cells["ELMo, fine-tuned"].startswith("↑")
    assert cells["SVD, window 2"].startswith("↓")


def test_without_a_reference_there_is_no_p(results: StudyResults) -> None:
    alone = replace(results, rows=(replace(results.rows[1], paired=None),))
    assert lines(main_table(alone))["TF-IDF, linear SVM"][4] == ""
    assert "McNemar" not in main_table(alone).caption


def test_one_seed_has_no_deviation(results: StudyResults) -> None:
    found = lines(main_table(results))
    assert "±" not in found["ELMo, fine-tuned"][0]
    assert "±" in found["ELMo, trainable λs"][0]


@pytest.mark.parametrize("split", ["train", "test"])
def test_classes_are_means_over_seeds(results: StudyResults, split: Split) -> None:
    (table,) = class_tables(results, split)
    for row in results.rows:
        confusions = [np.array(getattr(seed, split).confusion) for seed in row.seeds]
        precision = np.mean([one.diagonal() / np.maximum(1, one.sum(0)) for one in confusions], 0)
        recall = np.mean([one.diagonal() / one.sum(1) for one in confusions], 0)
        cells = lines(table)[row.title]
        assert [float(cell) for cell in cells[3::3]] == pytest.approx(precision, abs=6e-5)
        assert [float(cell) for cell in cells[4::3]] == pytest.approx(recall, abs=6e-5)
        assert float(cells[0]) == pytest.approx(precision.mean(), abs=6e-5)


def test_many_classes_take_several_tables(results: StudyResults) -> None:
    labels = tuple(f"label {number}" for number in range(11))
    row = results.rows[4]
    classes = tuple(replace(row.seeds[0].test.classes[0], label=label) for label in labels)
    seed = replace(row.seeds[0], test=replace(row.seeds[0].test, classes=classes))
    many = replace(
        results, about=replace(results.about, labels=labels), rows=(replace(row, seeds=(seed,)),)
    )
    tables = class_tables(many, "test")
    titles = [span.title for table in tables for span in table.over if span.title]
    assert titles == ["mean of classes", *labels]
    assert len({table.name for table in tables}) == len(tables) == 3


def test_failed_rows_say_why(results: StudyResults) -> None:
    assert lines(failed_table(results.failed)) == {
        "SVD, window 12": (results.failed[0].message,),
    }


# How a study was done: all that was tried, and what was chosen of it.


def test_what_was_chosen(results: StudyResults) -> None:
    found = lines(chosen_table(results.rows))
    row = results.rows[4]
    development = f"{row.development_accuracy.mean:.4f}"
    assert found[row.title] == ("learning_rate 0.001, dropout 0.3", "2", development)
    assert found["Majority class"][0] == "none to choose"


def test_one_candidate_of_each_row_is_the_chosen_one(results: StudyResults) -> None:
    table = candidates_table(results.rows)
    assert [part.title for part in table.parts] == [row.title for row in results.rows[1:]]
    for part in table.parts:
        assert [line[2] for line in part.lines] == ["chosen", ""]
        assert part.lines[1][0] == "learning_rate 0.003, dropout 0.3"


def test_facts_keep_their_names(results: StudyResults) -> None:
    found = lines(facts_table("settings", "All.", results.about.settings))
    assert found["static_dim"] == ("300",)
    assert found["bilm"] == ("none",)
    assert described(()) == "none to choose"


def test_where_and_when(results: StudyResults) -> None:
    found = lines(machine_table(results, "5 h 12 min"))
    assert found["seeds"] == ("0, 1, 2",)
    assert found["finished"] == ("2026-01-31 12:00 UTC",)
    assert found["work in all"] == ("5 h 12 min",)


# Weights are called stable where every seed agrees, and draws outdone where enough were made.


ROWS = {row.name: row for row in study_results().rows}
Weights = tuple[float, ...]


def row_with(*weights: Weights | None, name: str = "trainable") -> RowResult:
    seed = ROWS["trainable"].seeds[0]
    seeds = tuple(
        replace(seed, seed=number, layer_weights=one) for number, one in enumerate(weights)
    )
    return replace(ROWS[name], seeds=seeds)


def test_seeds_that_agree() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3), (0.1, 0.7, 0.2)))
    assert text == (
        "ELMo (trainable λs): layer 1 weighs most for each of 2 seeds (0.5000 and 0.7000)."
    )


def test_seeds_that_do_not() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3), (0.1, 0.2, 0.7), (0.2, 0.6, 0.2)))
    assert text.endswith("changes with the seed: layer 1 for 2 seeds and layer 2 for 1 seed.")


def test_one_seed_is_not_called_stable() -> None:
    text = weights_sentence(row_with((0.2, 0.5, 0.3)))
    assert text.endswith("layer 1 weighs most (0.5000); one seed does not tell if that is stable.")


def test_weights_that_hardly_differ_have_no_heaviest() -> None:
    text = weights_sentence(row_with((0.33, 0.35, 0.32), (0.34, 0.32, 0.34)))
    assert "weighs most" not in text
    assert "within 0.05 of a plain average" in text


def test_drawn_weights_are_not_called_learned() -> None:
    assert "whose weights are drawn" in weights_sentence(row_with((0.7, 0.2, 0.1), name="frozen"))
    assert "drawn" not in weights_sentence(row_with((0.7, 0.2, 0.1)))
    assert weights_sentence(row_with(None)) == ""


def drawn(accuracies: list[float], learned: float) -> Draws:
    draws = tuple(
        Draw(seed=n, layer_weights=(0.5, 0.5), development_accuracy=one, test_accuracy=one)
        for n, one in enumerate(accuracies)
    )
    return Draws(train_rows=10_000, draws=draws, trainable_test_accuracy=learned)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_learning_is_above_drawing_only_beyond_chance(draws: list[float], learned: float) -> None:
    found = drawn(draws, learned)
    text = " ".join(draws_sentences(found))
    below = sum(one < learned for one in draws)
    assert f"{below} of " in text
    assert rank_p(found) == pytest.approx((len(draws) - below + 1) / (len(draws) + 1))
    assert ("more than chance explains" in text) == (rank_p(found) < 0.05)
    assert ("which may be chance" in text) == (rank_p(found) >= 0.05)


def test_draws_as_they_read() -> None:
    first, second = draws_sentences(drawn([0.90, 0.91, 0.92], 0.915))
    assert first == (
        "3 draws of frozen weights, each trained on 10,000 rows, give test accuracies from 0.9000 "
        "to 0.9200 (mean 0.9100, deviation 0.0100)."
    )
    assert second.startswith("Learned weights give 0.9150 on the same rows; 2 of 3 draws give less")
    (alone, _) = draws_sentences(drawn([0.90], 0.915))
    assert alone == (
        "One draw of frozen weights, trained on 10,000 rows, gives a test accuracy of 0.9000."
    )
    assert draws_sentences(drawn([], 0.9)) == []


def test_twenty_draws_are_enough_where_all_are_lower() -> None:
    assert "more than chance explains" in draws_sentences(drawn([0.9] * 20, 0.91))[1]
    assert "which may be chance" in draws_sentences(drawn([0.9] * 19, 0.91))[1].replace(
        "\N{NO-BREAK SPACE}", " "
    )


# The numbers behind figures are those of the results.


def test_weights_over_seeds(results: StudyResults) -> None:
    rows = {row.title: row for row in with_weights(results)}
    found = lines(weights_table(list(rows.values())))
    trainable = rows["ELMo, trainable λs"]
    for layer in range(3):
        values = [one.layer_weights[layer] for one in trainable.seeds if one.layer_weights]
        cell = found["ELMo, trainable λs"][1 + layer]
        assert cell == f"{fmean(values):.4f} ± {stdev(values):.4f}"
    assert found["ELMo, trainable λs"][0] == "3"
    assert found["ELMo, fine-tuned"][-1] == "0.6100"


def test_draws_from_the_best_on(results: StudyResults) -> None:
    assert results.draws is not None
    found = [line for part in draws_table(results.draws).parts for line in part.lines]
    by_seed = {str(one.seed): one for one in results.draws.draws}
    development = [by_seed[line[0]].development_accuracy for line in found]
    assert development == sorted(development, reverse=True)
    for line in found:
        draw = by_seed[line[0]]
        assert [float(cell) for cell in line[1:4]] == [round(w, 4) for w in draw.layer_weights]
        assert line[-1] == f"{draw.test_accuracy:.4f}"


def test_a_column_a_size(results: StudyResults) -> None:
    table = samples_table(results)
    titles = [column.title for column in table.columns[1:]]
    sizes = ["10 a class", "50 a class", "250 a class", "1,000 a class", "5,000 a class", "all"]
    assert titles == sizes
    point = results.samples[0]
    spread = point.test_accuracy
    assert lines(table)["TF-IDF, linear SVM"][0] == f"{spread.mean:.4f} ± {spread.deviation:.4f}"


def test_sweeps_keep_their_notes(results: StudyResults) -> None:
    table = sweeps_table(results.sweeps, results)
    assert [part.title.partition(",")[0] for part in table.parts] == [
        "dim", "mix-pull", "learning-rate",
    ]  # fmt: skip
    assert table.parts[0].lines[0] == ("50", "0.8662", "0.8702", "perplexity 101.7")
    assert table.parts[0].group == "static"


def test_perplexities_by_epoch(results: StudyResults) -> None:
    assert results.language_model is not None
    found = lines(history_table(results.language_model))
    assert found["1"] == ("146.23", "143.33", "144.78")


# All files are written; the page opens in a browser, in any light and on any width.


CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # No sandbox: it does not work for root, and the page is our own.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Any, written: Path, width: int = 1200, **options: Any) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)
    page.problems = []
    page.requests = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto((written / "report.html").as_uri())
    return page


def test_all_files_are_there(written: Path, results: StudyResults) -> None:
    names = sorted(path.name for path in written.iterdir())
    assert names == ["report.html", "report.pdf", "results.json"]
    assert read_results(written) == results


def test_a_report_can_be_drawn_again_and_is_the_same(results: StudyResults, tmp_path: Path) -> None:
    few = without_analyses(results)
    few = replace(few, rows=few.rows[:2])
    write_report(few, tmp_path / "first")
    write_report(read_results(tmp_path / "first"), tmp_path / "second")
    for name in ("results.json", "report.html", "report.pdf"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_figures_are_not_lost_where_an_extra_is_missing(
    results: StudyResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str, extra: str) -> None:
        raise UserError(f"{module} is missing: pip install 'elmo[{extra}]'")

    monkeypatch.setattr("elmo.study.plots.require_extra", missing)
    with pytest.raises(UserError, match=r"elmo\[study\]"):
        write_report(results, tmp_path)
    assert read_results(tmp_path) == results


def test_a_browser_opens_it_without_complaint(browser: Any, written: Path) -> None:
    page = opened(browser, written)
    assert page.problems == []
    assert page.requests == [(written / "report.html").as_uri()]
    assert page.locator("main > section").count() == 13
    page.close()


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_width_makes_the_page_scroll_sideways(browser: Any, written: Path, width: int) -> None:
    page = opened(browser, written, width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_follow_light_and_dark(browser: Any, written: Path, scheme: str) -> None:
    page = opened(browser, written, color_scheme=scheme)
    ground = page.locator("body").evaluate("(one) => getComputedStyle(one).backgroundColor")
    label = page.locator("#figure-accuracy svg text", has_text="SVD, window 2")
    letters = label.evaluate("(one) => getComputedStyle(one).fill")
    assert (ground, letters) == tuple(rgb(getattr(one, scheme)) for one in (PAPER, INK))
    page.close()


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not on this machine")
def test_what_is_closed_on_the_screen_is_printed(
    browser: Any, written: Path, tmp_path: Path
) -> None:
    page = opened(browser, written)
    page.pdf(path=tmp_path / "print.pdf", prefer_css_page_size=True)
    page.close()
    command = ["pdftotext", str(tmp_path / "print.pdf"), "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "learning_rate 0.003, dropout 0.3" in text  # of the candidates, in a closed part


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


# Mistakes and neighbours are shown with their texts, or by row number where texts are not.


def test_counts_are_those_of_the_first_seed(results: StudyResults) -> None:
    table = pairs_table(results)
    place = {label: number for number, label in enumerate(results.about.labels)}
    for row in results.rows:
        for column, cell in zip(table.columns[1:], lines(table)[row.title], strict=True):
            label, predicted = column.title.split(" → ")
            confusion = row.seeds[0].test.confusion
            assert cell == f"{confusion[place[label]][place[predicted]]:,}"
    assert table.columns[1].title == "Business → Sci/Tech"  # what embeddings confuse most


def test_mistakes_with_their_texts(results: StudyResults) -> None:
    row = results.rows[4]
    table = confusions_table(row, shows_texts=True)
    first = row.confusions[0]
    assert table.parts[0].title == f"{first.label} taken for {first.predicted}: {first.count:,}"
    number, text = table.parts[0].lines[0]
    example = first.examples[0]
    assert number == f"{example.row:,}"
    assert example.text is not None
    assert example.text.startswith(text.removesuffix("…"))


def test_mistakes_by_row_number(results: StudyResults) -> None:
    row = results.rows[4]
    hidden = tuple(_without_texts(one) for one in row.confusions)
    table = confusions_table(replace(row, confusions=hidden), shows_texts=False)
    first = row.confusions[0]
    numbers = ", ".join(f"{one.row:,}" for one in first.examples)
    assert table.parts[0].lines[0] == (first.label, first.predicted, f"{first.count:,}", numbers)


def test_the_static_list_beside_the_others(results: StudyResults) -> None:
    word = results.words[0]
    table = word_table(word, results)
    titles = [column.title for column in table.columns]
    assert titles[1] == "always (Skip-gram, window 8)"
    assert titles[2] == f"in “{word.contexts[0].text}”"
    assert len(table.parts[0].lines) == 5
    assert table.parts[0].lines[0][:2] == ("1", "banks 0.80")
    assert table.parts[0].lines[0][2].startswith("shore 0.86 · officials said on the shore")
    assert table.parts[0].lines[4][2:] == ("", "")  # these lists are shorter


def test_neighbours_by_row_number(results: StudyResults) -> None:
    word = _hidden(results.words[0])
    table = word_table(word, replace(results, words=(word,)))
    assert table.columns[2].title == "in test row 17"
    assert table.parts[0].lines[0][2] == "shore 0.86 · training row 4,000"


def test_senses(results: StudyResults) -> None:
    found = lines(senses_table(results.senses))
    assert found["ELMo, layer 2"] == ("0.8830", "0.8599–0.9033", "0.5030", "840")


def _without_texts(confusion: Confusion) -> Confusion:
    examples = tuple(replace(one, text=None) for one in confusion.examples)
    return replace(confusion, examples=examples)


def _hidden(word: AmbiguousWord) -> AmbiguousWord:
    contexts = tuple(
        replace(
            one, text=None, neighbours=tuple(replace(near, text=None) for near in one.neighbours)
        )
        for one in word.contexts
    )
    return replace(word, contexts=contexts)


# Whatever texts hold, what comes out fits in a page, and ordinary text stays as it is.


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

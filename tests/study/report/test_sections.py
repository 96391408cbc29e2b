"""The report has a section for everything that was found, and none for what was not."""

from __future__ import annotations

from dataclasses import replace

from tests.study.report.builder import without_analyses

from elmo.study.report.blocks import Block, Details, Figure, Paragraph, Report, Table
from elmo.study.report.sections import make_report
from elmo.study.results import Named, StudyResults

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

"""The report, section by section; those that have nothing to show are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from elmo.study.report import analysis
from elmo.study.report.accuracy_figure import accuracy_figure
from elmo.study.report.blocks import Block, Code, Details, Paragraph, Report, Section
from elmo.study.report.confusion_figure import confusion_figure
from elmo.study.report.curve_analysis import (
    history_sentence,
    language_model_sentence,
    savings_sentences,
    sweep_sentence,
)
from elmo.study.report.curve_figures import perplexity_figure, samples_figure, sweeps_figure
from elmo.study.report.curve_tables import (
    draws_table,
    history_table,
    samples_table,
    sweeps_table,
    weights_table,
)
from elmo.study.report.formats import counted, duration, setting, whole
from elmo.study.report.found_rows import with_weights
from elmo.study.report.layer_analysis import draws_sentences, weights_sentence
from elmo.study.report.layer_figures import draws_figure, weights_figure
from elmo.study.report.made_tables import (
    candidates_table,
    chosen_table,
    facts_table,
    machine_table,
)
from elmo.study.report.printable import printable
from elmo.study.report.tables import class_tables, failed_table, main_table
from elmo.study.report.word_analysis import confusions_sentence, senses_sentences, word_sentence
from elmo.study.report.word_tables import confusions_table, pairs_table, senses_table, word_table
from elmo.study.results import StudyResults


def make_report(results: StudyResults) -> Report:
    """Turn what was found into what is shown."""
    results = printable(results)
    sections = (
        Section(name=name, title=title, blocks=tuple(blocks))
        for name, title, make in _SECTIONS
        if (blocks := list(make(results)))
    )
    return Report(
        title=f"ELMo and static embeddings, compared on {analysis.data_name(results)}",
        data=analysis.data_sentence(results),
        answer=tuple(analysis.answer(results)),
        facts=_facts(results),
        sections=tuple(sections),
    )


def _facts(results: StudyResults) -> str:
    about = results.about
    return (
        f"{counted(about.train_rows, 'training row')}, {whole(about.development_rows)} of them to "
        f"choose settings and epochs by; {counted(about.test_rows, 'test row')}; "
        f"{counted(len(about.labels), 'label')}; {counted(len(about.seeds), 'seed')}; preset "
        f"{about.preset}; finished {about.finished} UTC after {duration(about.seconds)} of work"
    )


def _comparison(results: StudyResults) -> Iterable[Block]:
    if not results.rows:
        return
    yield main_table(results)
    yield accuracy_figure(results)
    yield from _paragraphs(
        *analysis.comparisons(results),
        analysis.corrections(results),
        analysis.mixes(results),
        analysis.seeds_sentence(results),
        analysis.gap_sentence(results),
    )


def _failed(results: StudyResults) -> Iterable[Block]:
    if results.failed:
        yield failed_table(results.failed)


def _classes(results: StudyResults) -> Iterable[Block]:
    if results.rows:
        test, train = (tuple(class_tables(results, split)) for split in ("test", "train"))
        yield Details(title="Test rows, by class", blocks=test)
        yield Details(title="Training rows, by class", blocks=train)


def _confusion(results: StudyResults) -> Iterable[Block]:
    if results.rows:
        yield confusion_figure(results.rows, results.about.labels, "test")
        train = confusion_figure(results.rows, results.about.labels, "train")
        yield Details(title="The same on training rows", blocks=(train,))


def _weights(results: StudyResults) -> Iterable[Block]:
    rows = with_weights(results)
    if rows:
        yield from _paragraphs(*map(weights_sentence, rows))
        yield weights_figure(rows)
        yield weights_table(rows)


def _draws(results: StudyResults) -> Iterable[Block]:
    if results.draws and results.draws.draws:
        yield from _paragraphs(*draws_sentences(results.draws))
        yield draws_figure(results.draws)
        yield Details(title="Every draw", blocks=(draws_table(results.draws),))


def _samples(results: StudyResults) -> Iterable[Block]:
    if results.samples:
        yield from _paragraphs(*savings_sentences(results))
        yield samples_figure(results)
        yield samples_table(results)


def _sweeps(results: StudyResults) -> Iterable[Block]:
    sweeps = [sweep for sweep in results.sweeps if sweep.points]
    if sweeps:
        yield from _paragraphs(*(sweep_sentence(sweep, results) for sweep in sweeps))
        yield sweeps_figure(results)
        yield Details(title="Every value", blocks=(sweeps_table(sweeps, results),))


def _mistakes(results: StudyResults) -> Iterable[Block]:
    rows = [row for row in results.rows if row.confusions]
    if rows:
        yield from _paragraphs(confusions_sentence(rows))
        yield pairs_table(results)
        shows = results.about.shows_texts
        for row in rows:
            yield Details(title=row.title, blocks=(confusions_table(row, shows),))


def _words(results: StudyResults) -> Iterable[Block]:
    for place, word in enumerate(results.words):
        blocks = (*_paragraphs(word_sentence(word)), word_table(word, results))
        yield Details(title=f"“{word.word}”", blocks=blocks, open=place == 0)


def _senses(results: StudyResults) -> Iterable[Block]:
    if results.senses:
        yield from _paragraphs(*senses_sentences(results.senses))
        yield senses_table(results.senses)


def _pretraining(results: StudyResults) -> Iterable[Block]:
    model = results.language_model
    if model:
        yield from _paragraphs(language_model_sentence(model), history_sentence(model))
        if len(model.history) > 1:
            yield perplexity_figure(model)
            yield Details(title="Every epoch", blocks=(history_table(model),))


def _how(results: StudyResults) -> Iterable[Block]:
    about = results.about
    yield from _paragraphs(_METHOD, _own_words(results))
    yield Code(text=about.command)
    yield machine_table(results, duration(about.seconds))
    if results.rows:
        yield chosen_table(results.rows)
    if any(row.candidates for row in results.rows):
        yield Details(title="All settings tried", blocks=(candidates_table(results.rows),))
    lists = (
        ("settings", "All settings of the study", about.settings),
        ("fingerprints", "Fingerprints (SHA-256) of the data and of the biLM", about.fingerprints),
        ("versions", "Versions", about.versions),
    )
    for name, title, facts in lists:
        if facts:
            yield Details(title=title, blocks=(facts_table(name, f"{title}.", facts),))


def _own_words(results: StudyResults) -> str:
    sizes = {one.name: one.value for one in results.about.settings}
    if not sizes.get("own_words"):
        return ""
    begin = sizes.get("word_vectors")
    return (
        f"Beside each embedding, the classifier learns word vectors of its own, "
        f"{setting(sizes['own_words'])} numbers each"
        + (f", which begin as those of the file {Path(str(begin)).name}." if begin else ".")
    )


def _paragraphs(*sentences: str) -> Iterable[Paragraph]:
    return (Paragraph(text=sentence) for sentence in sentences if sentence)


_METHOD = (
    "Every embedding has the same kind of classifier above it and the same rows to learn from. "
    "Settings and epochs are chosen by development rows, taken from the training rows; the first "
    "settings of a network stay unless others are better by more than a standard error. The test "
    "rows choose nothing. Test rows are counted from 0."
)
_SECTIONS: tuple[tuple[str, str, Callable[[StudyResults], Iterable[Block]]], ...] = (
    ("comparison", "The comparison", _comparison),
    ("failed", "Rows that failed", _failed),
    ("classes", "Precision, recall and F1 by class", _classes),
    ("confusion", "What is taken for what", _confusion),
    ("weights", "The weights of the layers", _weights),
    ("draws", "How much depends on the frozen draw", _draws),
    ("samples", "Fewer labels", _samples),
    ("sweeps", "Settings varied", _sweeps),
    ("mistakes", "Where each embedding errs", _mistakes),
    ("words", "Words of several senses", _words),
    ("senses", "Senses told apart", _senses),
    ("pretraining", "Pre-training", _pretraining),
    ("how", "How it was done", _how),
)

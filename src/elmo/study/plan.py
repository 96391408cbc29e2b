"""How much work a study is, row by row, before it begins: what an estimate of its end rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo.interop.models import describe
from elmo.study.choices import tries
from elmo.study.comparison import ELMO, Row, chosen_rows
from elmo.study.config import StudyConfig
from elmo.study.fine_tuned import WORK as FINE_TUNING_WORK
from elmo.study.request import StudyRequest
from elmo.study.sweeps import static_settings
from elmo.study.vectors import static_config, vectors_work
from elmo.study.workbench import ELMO_WORK, SVM_WORK, elmo_work, sample_work

PRETRAINING_WORK, READING_WORK = 40.0, 11.0
"""A text in one epoch of pre-training, or read by a biLM, against one text of one epoch of a
training on static vectors, of which there are two at a time."""


@dataclass(frozen=True)
class PlannedRow:
    """A row or analysis, and its work in texts read by a training on static vectors."""

    name: str
    title: str
    work: float


def bilm_layers(request: StudyRequest) -> int:
    """How many layers the biLM has above the words."""
    if request.model is None:
        return request.pretraining.model.layers
    return describe(request.model).model.layers


def planned(request: StudyRequest) -> list[PlannedRow]:
    """What is to be done, in the order of the comparison; sweeps are not foreseen."""
    rows = chosen_rows(request.config, bilm_layers(request))
    texts = len(request.parts.train.texts)
    plan: list[PlannedRow] = []
    if any(row.embedding == ELMO for row in rows):
        if request.model is None:
            work = PRETRAINING_WORK * texts * request.pretraining.training.epochs
            plan.append(PlannedRow("biLM", "Pre-training of the biLM", work))
        plan.append(PlannedRow("reading", "Texts read by the biLM", READING_WORK * texts))
    plan += [PlannedRow(row.name, row.title, _row_work(request, row, texts)) for row in rows]
    return [*plan, *_analyses(request, rows, texts)]


def _row_work(request: StudyRequest, row: Row, texts: int) -> float:
    config = request.config
    if row.kind == "majority":
        return 1.0
    if row.kind == "tfidf":
        return SVM_WORK * texts * (1 + len(tries(row)))
    if row.kind == "fine-tuned":
        return FINE_TUNING_WORK * texts * config.fine_tune_epochs * config.fine_tune_seeds
    heavy = elmo_work(row.mix) if row.embedding == ELMO else 1.0
    tuning = min(config.tuning_rows, texts) * len(tries(row)) * config.tuning_epochs
    trainings = heavy * (texts * len(config.seeds) * config.epochs + tuning)
    return trainings + (_vectors_work(config, row) * texts if row.is_static else 0.0)


def _analyses(request: StudyRequest, rows: Sequence[Row], texts: int) -> Iterator[PlannedRow]:
    """Draws and fewer labels; a class too small for a number of labels is not foreseen."""
    config, classes = request.config, len(set(request.parts.train.labels or ()))
    if config.draws and any(row.embedding == ELMO for row in rows):
        draw = ELMO_WORK * min(config.draw_rows, texts) * config.epochs
        yield PlannedRow("draws", "Draws of frozen λs", (1 + config.draws) * draw)
    names = {row.name for row in rows}
    sizes = [classes * number for number in config.samples]
    networks = ELMO_WORK * ("trainable" in names) + any(one.startswith("skipgram") for one in names)
    work = networks * sum(sample_work(config, size) for size in sizes)
    work += SVM_WORK * sum(sizes) * ("tfidf" in names)
    if work:
        yield PlannedRow("samples", "Fewer labels", len(config.seeds) * work)


def _vectors_work(config: StudyConfig, row: Row) -> float:
    return vectors_work(static_config(*static_settings(row.embedding, config.static_dim)))

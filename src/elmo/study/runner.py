"""A study from end to end: embeddings, cells side by side, and what they gave.

Every finished cell is a file in `cells/`. The same command resumes: a cell is computed again only
if what its result depends on has changed.
"""

from __future__ import annotations

import json
import logging
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from elmo.classify.metrics import detectable
from elmo.config import Json, check, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.evaluate import averaged
from elmo.files import locked_folder, read_json, remove_folder, write_json, write_text
from elmo.language_model import describe, open_model, weights_checksum
from elmo.model_folder import CONFIG, parameter_count
from elmo.runtime import require_extra
from elmo.static.vectors import StaticVectors
from elmo.study import analyses
from elmo.study.cells import Study, StudyBiLM
from elmo.study.config import FEW_DEVELOPMENT_ROWS, STANDARD, StudyConfig
from elmo.study.data import GENERATED, LabelledParts, study_data, tokenize
from elmo.study.pool import CellProgress, State, Tell, reading_cell, run_cells
from elmo.study.results import column_result, comparisons, flat_settings, machine, named, versions
from elmo.study.rows import (
    CANDIDATES,
    COLUMNS,
    DISTILLED,
    ELMO,
    Cell,
    Column,
    Outcome,
    Row,
    Settings,
    best_static,
    can_choose,
    choose,
    chosen_rows,
    classifier_config,
    contrasts,
    row_cells,
    tuning_cells,
    vectors_cell,
)
from elmo.training.config import DEFAULT, QUICK, PretrainConfig
from elmo.training.loop import StepReport
from elmo.training.pretrain import pretrain, read_run

PRETRAINING = {
    # The generated texts are few; standard leaves time for the rest within two hours.
    "quick": replace(QUICK, training=replace(QUICK.training, epochs=4)),
    "standard": replace(DEFAULT, training=replace(DEFAULT.training, epochs=3)),
    "full": DEFAULT,
}
SECONDS, FINISHED = "seconds.json", "finished.json"
LITTLE_TEXT = 1_000_000
"""Words of text: a biLM that is trained on fewer has seen too little of a language."""
EVALUATED_TEXTS = 2_000
"""Test texts that measure a biLM, at most."""

Choice = tuple[Settings, list[Json]]
log = logging.getLogger(__name__)


def is_cell(path: Path) -> bool:
    """Whether a file is a cell of a study, rather than a file of the user."""
    content: object = read_json(path) if path.suffix == ".json" else None
    return isinstance(content, dict) and {"name", "key", "result"} <= content.keys()


def run_study(
    parts: LabelledParts,
    out: Path,
    config: StudyConfig = STANDARD,
    *,
    model: Path | str | None = None,
    pretraining: PretrainConfig | None = None,
    preset: str = "standard",
    title: str = "",
    feature_memory: float | None = None,
    shows_texts: bool = True,
    command: str = "",
    fresh: bool = False,
    on_progress: Callable[[CellProgress], None] = lambda progress: None,
) -> Json:
    """Compare embeddings on labelled texts; cells finished by an earlier session are not repeated.

    Args:
        parts: training and test texts, from `read_parts` or `parts_of`.
        out: folder for the cells, the biLM and static vectors.
        model: a pre-trained biLM; default: one is trained on the training texts.
        pretraining: settings of that training; default: those of the preset.
        title: of the report; default: what was compared, and on which texts.
        feature_memory: gigabytes for the biLM's layers of all texts; default: half of the memory.
        fresh: start over, forgetting what is in `out`.

    Returns:
        The content of results.json (see docs/study.md); `write_report` draws it.
    """
    pretraining = pretraining or PRETRAINING.get(preset, DEFAULT)
    check(config, pretraining)
    for package in ("sklearn", "gensim", "jinja2", "matplotlib", "typst"):
        require_extra(package, "study")
    sweeps = analyses.sweep_points(config)
    bilm_layers = (pretraining.model if model is None else describe(model).model).layers
    rows = chosen_rows(config, bilm_layers)
    if config.rows and "elmo" not in {row.group for row in rows}:
        sweeps = [point for point in sweeps if point.cell.bilm is None]
    out.mkdir(parents=True, exist_ok=True)
    cells = list((out / "cells").glob("*"))  # of version 0.1, which left no marks
    with locked_folder(out, ours=bool(cells) and all(map(is_cell, cells))):
        if fresh:
            names = ("cells", "vectors", "bilm", SECONDS, "results.json")
            for name in (*names, *(f"{ELMO}-{setting}*" for setting in analyses.OF_BILM)):
                for path in out.glob(name):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        started = time.monotonic() - _number_in(out / SECONDS)  # earlier sessions count
        study = Study(config, study_data(parts, config), out, feature_memory)
        data = study.data

        def tell(cell: Cell, state: State, fraction: float = 0.0, note: str = "") -> None:
            if state == "done":
                write_json(out / SECONDS, {"seconds": time.monotonic() - started})
            work = cell.work(data.train_count, len(data.labels))
            on_progress(CellProgress(cell.name, cell.row, state, fraction, work, note))

        # All cells are reported as waiting, so that the time left can be estimated from the start.
        # Settings that are yet to be chosen change none of it.
        vectors = _vector_cells(config, rows, sweeps)
        has_elmo = any(row.group == "elmo" for row in rows)
        needs_bilm = has_elmo or any(point.cell.bilm for point in sweeps)
        words_cell = Cell(name="words", row="Words and senses", kind="words")
        curves = analyses.curve_rows(rows)
        plan = [_bilm_cell("bilm", pretraining)] if needs_bilm and model is None else []
        plan += [reading_cell(ELMO), words_cell] if needs_bilm else []
        plan += [*vectors, *(point.cell for point in sweeps)]
        if can_choose(config, len(data.split.development)):
            plan += [cell for column in COLUMNS for cell in tuning_cells(config, rows, column)]
        plan += [cell for row in rows for c in COLUMNS for cell in row_cells(config, row, c)]
        plan += analyses.sample_cells(config, data, curves, {}) + (
            analyses.draw_cells(config) if has_elmo else []
        )
        for cell in plan:
            tell(cell, "waiting")

        # Embeddings. Words are tokenized as the biLM's training text was: the biLM comes first.
        bilm = None
        if needs_bilm and model is not None:
            loaded = open_model(model)
            bilm = StudyBiLM(loaded, loaded.path or Path(model), f"given: {Path(model).name}", None)
        elif needs_bilm:
            bilm = _pretrained(study, parts, "bilm", pretraining, tell)
        data = study.data = replace(data, words=tokenize(data.texts, bilm and bilm.loaded))
        # Before cells are computed in processes of their own, each of which would do it again.
        log.info("the texts have %s different words", f"{len(data.packed.different):,}")
        notes = _notes(study, parts, given=model is not None or not needs_bilm)
        if bilm is not None:
            study.add_bilm(ELMO, bilm, weights_checksum(bilm.folder))
        made = run_cells(study, vectors, tell)
        study.embeddings |= {
            cell.embedding: made[cell.name] for cell in vectors if cell.name in made
        }

        files = [name for name in study.embeddings if name.startswith("file-")]
        study.given = {name: study.load_vectors(name) for name in files}

        table: dict[str, Json] = {
            row.name: {
                "name": row.name,
                "title": row.title,
                "group": row.group,
                "embedding_parameters": study.embeddings[row.embedding].parameters,
                "embedding_seconds": study.embeddings[row.embedding].seconds,
                **dict.fromkeys(COLUMNS),
            }
            for row in rows
            if row.embedding in study.embeddings
        }
        able = [row for row in rows if row.name in table]
        by_seed, chosen = _compare(study, able, tell)
        by_column: dict[Column, dict[str, list[Outcome]]] = {
            column: {name: [*seeds.values()] for name, seeds in some.items()}
            for column, some in by_seed.items()
        }
        static = best_static(rows, by_column["alone"])
        errors: list[float] = []
        for column, outcomes in by_column.items():
            best = best_static(rows, outcomes)
            pairs = [(name, best.name) for name in outcomes if best and name != best.name]
            compared = {some.pop("row"): some for some in comparisons(data, pairs, outcomes)}
            if column == "alone":
                errors = [comparison["standard_error"] for comparison in compared.values()]
            for row in (row for row in able if row.name in outcomes):
                table[row.name][column] = column_result(
                    by_seed[column][row.name],
                    study.embeddings[row.embedding].texts_per_second, data,
                    chosen[column][row.name], compared.get(row.name), shows_texts=shows_texts,
                )  # fmt: skip
        rows_done = [row for row in table.values() if row["alone"] or row["beside"]]

        swept, sweep_notes = _sweep(study, parts, sweeps, pretraining, tell)
        settings_of = {name: settings for name, (settings, _) in chosen["alone"].items()}
        curves = analyses.curve_rows(rows, by_column["alone"])
        cells = analyses.sample_cells(config, data, curves, settings_of)
        if has_elmo:
            cells += analyses.draw_cells(config, settings_of.get("frozen", CANDIDATES[0]))
        analysed = run_cells(study, cells, tell)
        measured = None if bilm is None else language_model(bilm, study)  # a minute, before 100%
        words, senses = _words(study, parts, static, has_elmo, shows_texts, words_cell, tell)
        classifier = classifier_config(config, MixConfig(), config.seeds[0], CANDIDATES[0])
        shown = replace(config, word_vectors=tuple(Path(p).name for p in config.word_vectors))
        settings = [
            *flat_settings("", shown),
            *flat_settings("classifier.", classifier),
            *(flat_settings("pretraining.", pretraining) if model is None and needs_bilm else ()),
        ]
        fingerprints = {"texts, labels and parts": data.fingerprint} | {
            f"weights of the biLM{'' if name == ELMO else f' {name}'}": study.embeddings[name].key
            for name in study.bilms
        }
        return {
            "about": {
                "title": title,
                "command": command,
                "data": parts.name,
                "rows_read": data.train_count + len(data.test),
                "train_rows": data.train_count,
                "development_rows": len(data.split.development),
                "test_rows": len(data.test),
                "labels": list(data.labels),
                "preset": preset,
                "seeds": list(config.seeds),
                "settings": settings,
                "fingerprints": named(fingerprints),
                "versions": versions(),
                "machine": machine(),
                "finished": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
                "seconds": time.monotonic() - started,
                "shows_texts": shows_texts,
                "notes": notes,
                "detectable": detectable(statistics.median(errors), len(errors))
                if errors
                else None,
            },
            "language_model": measured,
            "rows": rows_done,
            "contrasts": comparisons(data, contrasts(by_column["alone"]), by_column["alone"]),
            "failed": [
                {"name": name, "title": row_title, "message": message}
                for (row_title, message), name in study.failures.items()
            ],
            "draws": analyses.gather_draws(config, data, analysed),
            "samples": analyses.gather_samples(config, data, curves, analysed, rows_done),
            "sweeps": analyses.gather_sweeps(config, data, sweeps, swept, sweep_notes),
            "words": words,
            "senses": senses,
        }


def _vector_cells(
    config: StudyConfig, rows: Sequence[Row], sweeps: Sequence[analyses.SweepPoint]
) -> list[Cell]:
    titles = {
        row.embedding: row.title
        for row in rows
        if row.group == "static" or row.embedding == DISTILLED
    }
    for point in sweeps:
        if point.setting in analyses.OF_STATIC:
            titles.setdefault(point.cell.embedding, point.cell.row)
    return [vectors_cell(name, config, title) for name, title in titles.items()]


def _notes(study: Study, parts: LabelledParts, *, given: bool) -> list[str]:
    """What a reader must know before reading any figure; logged at once."""
    notes: list[str] = []
    development = len(study.data.split.development)
    if development < FEW_DEVELOPMENT_ROWS:
        notes.append(
            f"Only {development:,} development rows: they cannot tell settings apart, so that "
            "every row has the default settings, and which static row is the best is uncertain."
        )
    count = sum(len(study.data.words[row]) for row in range(study.data.train_count))
    if not given and count < LITTLE_TEXT and parts.name != GENERATED:
        notes.append(
            f"The biLM is trained on these {count:,} words alone, too few to learn a language "
            "from; one that knows more comes with elmo: --model default."
        )
    if any(parts.copies):
        notes.append(
            "{:,} of the test texts are also training texts and {:,} nearly are: every accuracy "
            "looks better than it is on new texts.".format(*parts.copies)
        )
    for note in notes:
        log.warning("%s", note)
    return notes


def _words(
    study: Study,
    parts: LabelledParts,
    static: Row | None,
    has_elmo: bool,
    shows_texts: bool,
    cell: Cell,
    tell: Tell,
) -> tuple[list[Json], list[Json]]:
    embedder = Embedder(study.bilms[ELMO].loaded) if ELMO in study.bilms else None
    vectors = static and StaticVectors.load(study.vectors_path(static.embedding))
    words: list[Json] = []
    asked = study.config.words
    if static and vectors and embedder and has_elmo:
        shown = analyses.ambiguous_words(
            asked, study.data, embedder, static, vectors, shows_texts=shows_texts
        )
        for idx, word in enumerate(shown):
            tell(cell, "running", idx / len(asked))
            words += [word] if word else []
    senses: list[Json] = []
    if parts.senses:
        tell(cell, "running", 1.0)
        by_title = {static.title: vectors} if static and vectors else {}
        senses = analyses.sense_accuracies(study.data, parts.senses, embedder, by_title)
    if words or senses or embedder is not None:
        tell(cell, "done")
    return words, senses


def _number_in(path: Path) -> float:
    try:
        return float(read_json(path)["seconds"])
    except (UserError, KeyError, TypeError, ValueError):
        return 0.0


def _compare(
    study: Study, rows: Sequence[Row], tell: Tell
) -> tuple[dict[Column, dict[str, dict[int, Outcome]]], dict[Column, dict[str, Choice]]]:
    """Outcomes by column, row and seed, without those that failed; and the settings of rows."""
    config, development = study.config, len(study.data.split.development)
    tuning = [cell for column in COLUMNS for cell in tuning_cells(config, rows, column)]
    tuned = run_cells(study, tuning if can_choose(config, development) else [], tell)
    chosen: dict[Column, dict[str, Choice]] = {}
    cells: dict[tuple[Column, str], list[Cell]] = {}
    for column in COLUMNS:
        chosen[column] = {row.name: choose(row, column, tuned, development) for row in rows}
        if "trainable" in chosen[column] and "fine-tuned" in chosen[column]:
            # To tune the biLM for each candidate would take hours.
            chosen[column]["fine-tuned"] = (chosen[column]["trainable"][0], [])
        for row in rows:
            settings = chosen[column][row.name][0]
            cells[column, row.name] = row_cells(config, row, column, settings)
    trained = run_cells(study, [cell for some in cells.values() for cell in some], tell)
    outcomes: dict[Column, dict[str, dict[int, Outcome]]] = {column: {} for column in COLUMNS}
    for (column, name), some in cells.items():
        if by_seed := {cell.seed: trained[cell.name] for cell in some if cell.name in trained}:
            outcomes[column][name] = by_seed
    return outcomes, chosen


def _sweep(
    study: Study,
    parts: LabelledParts,
    sweeps: Sequence[analyses.SweepPoint],
    pretraining: PretrainConfig,
    tell: Tell,
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Outcomes of all sweeps, and notes on embeddings; each value of a biLM is one of its own."""
    notes: dict[str, str] = {}
    made: dict[PretrainConfig, StudyBiLM] = {}
    order = np.random.default_rng(0).permutation(len(parts.train.texts))
    texts = parts.train.select(np.sort(order[: study.config.bilm_texts]).tolist())
    for sweep in (sweep for sweep in sweeps if sweep.setting in analyses.OF_BILM):
        small = min(QUICK, pretraining, key=lambda settings: settings.model.hidden)
        value = int(sweep.value)
        if sweep.setting == "bilm-epochs":
            small = replace(small, training=replace(small.training, epochs=value))
        else:
            network = replace(small.model, **{sweep.setting: value})
            if network.softmax.tied:  # a tied softmax needs word vectors of the same size
                network = replace(network, word_dim=network.width)
            small = replace(small, model=network)
        name = sweep.cell.embedding
        # The usual value of each setting is the same biLM.
        if small in made:
            tell(_bilm_cell(name, small), "cached")
        else:
            made[small] = _pretrained(study, replace(parts, train=texts), name, small, tell)
        bilm = made[small]
        study.add_bilm(name, bilm, weights_checksum(bilm.folder))
        history = _history(bilm)
        if history:
            notes[name] = f"perplexity {min(point['perplexity'] for point in history):.2f}"
    cells = [sweep.cell for sweep in sweeps if sweep.cell.embedding in study.embeddings]
    return run_cells(study, cells, tell), notes


# The biLM.


def _bilm_cell(name: str, config: PretrainConfig) -> Cell:
    epochs = config.training.epochs
    return Cell(name=name, row="Pre-training of the biLM", kind="bilm", steps=epochs)


def _pretrained(
    study: Study, parts: LabelledParts, name: str, config: PretrainConfig, tell: Tell
) -> StudyBiLM:
    folder, cell = study.folder / name, _bilm_cell(name, config)
    if (folder / CONFIG).exists() and read_run(folder)[1] != config:
        raise UserError(
            f"{folder}: holds a biLM with other settings; use another --out for this study, "
            f"--fresh to start over, or that biLM: --model {folder}"
        )
    # The texts of the last training stay next to it: those of another study may be our test texts.
    text = study.folder / f"{name}.text.jsonl"
    lines = [json.dumps({"text": line}) for line in parts.train.texts]
    known = text.read_text("utf-8", "replace").splitlines() if text.is_file() else []
    if (folder / CONFIG).exists() and known != lines:
        log.warning("%s: was trained on other texts; its training starts over", folder)
        remove_folder(folder)
    state: State = "cached"
    if not (folder / FINISHED).is_file():
        state, started = "done", time.monotonic()
        tell(cell, "running")
        times = [entry["time"] for entry in _log(folder) if "time" in entry]
        before = times[-1] - times[0] if times else 0.0
        write_text(text, "".join(f"{line}\n" for line in lines))

        def report(step: object) -> None:
            if isinstance(step, StepReport):
                tell(cell, "running", step.done)

        cache = study.folder / "cache"
        if not pretrain(str(text), folder, config, cache=cache, on_report=report).finished:
            raise KeyboardInterrupt
        write_json(folder / FINISHED, {"seconds": before + time.monotonic() - started})
    tell(cell, state)
    seconds = _number_in(folder / FINISHED)
    return StudyBiLM(open_model(folder), folder, "trained by this study", seconds)


def _log(folder: Path) -> list[Json]:
    path = folder / "log.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def _history(bilm: StudyBiLM) -> list[Json]:
    per_epoch = int(bilm.loaded.config.get("training", {}).get("evaluations_per_epoch", 1))
    return [
        {
            "epoch": entry["position"]["evaluations"] / per_epoch,
            "perplexity": entry["evaluation"]["perplexity"],
            **{
                f"{direction}_perplexity": entry["evaluation"][direction]["perplexity"]
                for direction in ("forward", "backward")
            },
        }
        for entry in _log(bilm.folder)
        if entry.get("kind") == "evaluation"
    ]


def language_model(bilm: StudyBiLM, study: Study) -> Json:
    """What the report says of a biLM: its size, and how well it predicts the test texts."""
    config, model = bilm.loaded.model.config, bilm.loaded.model
    test = [study.data.words[int(row)] for row in study.data.test[:EVALUATED_TEXTS]]
    metrics: Json | None = None
    confusions: list[Json] = []
    if config.softmax.loss != "none" and any(test):
        evaluation = bilm.loaded.evaluate(test)
        confusions = [to_json(confusion) for confusion in evaluation.confusions]
        metrics = {
            "texts": len(test),
            "unknown_rate": evaluation.unknown_rate,
            "forward": to_json(evaluation.forward),
            "backward": to_json(evaluation.backward),
            "average": to_json(averaged(evaluation)),
        }
    return {
        "source": bilm.source,
        "vocabulary": len(model.vocabulary),
        "parameters": parameter_count(model),
        "layers": config.layers,
        "width": config.width,
        "metrics": metrics,
        "confusions": confusions,
        "seconds": bilm.seconds,
        "history": _history(bilm),
    }

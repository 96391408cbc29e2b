"""A study from end to end: embeddings, cells side by side, and what they gave.

Every finished cell is a file in `cells/`. The same command resumes: a cell is computed again only
if what its result depends on has changed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, cast

from elmo.config import Json, check
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.errors import UserError, require_extra
from elmo.files import read_json, sha256, write_json, write_json_lines
from elmo.language_model import describe, open_model
from elmo.model_folder import CONFIG, WEIGHTS, is_official, parameter_count
from elmo.official.format import official_files
from elmo.runtime import cpu_cores, process_context
from elmo.static.vectors import StaticVectors
from elmo.study.analyses import (
    SweepPoint,
    ambiguous_words,
    curve_rows,
    draw_cells,
    gather_draws,
    gather_samples,
    gather_sweeps,
    sample_cells,
    sense_accuracies,
    sweep_points,
)
from elmo.study.config import STANDARD, StudyConfig
from elmo.study.data import LabelledParts, study_data, tokenize
from elmo.study.results import best_static, flat_settings, machine, paired, row_result, versions
from elmo.study.rows import (
    ELMO,
    NETWORK_CANDIDATES,
    Cell,
    Outcome,
    Row,
    Settings,
    Study,
    StudyBiLM,
    choose,
    chosen_rows,
    classifier_config,
    named,
    row_cells,
    tuning_cells,
    vectors_cell,
    work,
)
from elmo.training.checkpoint import locked
from elmo.training.config import DEFAULT, QUICK, PretrainConfig
from elmo.training.pretrain import pretrain, read_run
from elmo.training.reports import StepReport

PRETRAINING_WORK, READING_WORK = 40.0, 11.0
"""One text of one epoch of pre-training, or read by a biLM; see `rows.work`."""
PRETRAINING = {
    # The generated texts are few; standard leaves time for the rest within two hours.
    "quick": replace(QUICK, training=replace(QUICK.training, epochs=6)),
    "standard": replace(DEFAULT, training=replace(DEFAULT.training, epochs=3)),
    "full": DEFAULT,
}
SECONDS, FINISHED, TEXT = "seconds.json", "finished.json", "training_text.jsonl"
REPORT_EVERY = 0.2
"""Seconds between the reports of a cell."""

State = Literal["waiting", "running", "done", "cached", "failed"]


@dataclass(frozen=True, kw_only=True)
class CellProgress:
    """How far a cell is. All cells of a study are told of as waiting when it starts."""

    name: str
    row: str
    """Title of the row or analysis that the cell belongs to."""
    state: State
    fraction: float = 0.0
    """Of a running cell."""
    work: float = 1.0
    """How long it takes, compared with others."""
    note: str = ""
    """Why it failed."""


OnProgress = Callable[[CellProgress], None]


def run_study(
    parts: LabelledParts,
    out: Path,
    config: StudyConfig = STANDARD,
    *,
    model: Path | None = None,
    pretraining: PretrainConfig | None = None,
    preset: str = "standard",
    feature_memory: float | None = None,
    shows_texts: bool = True,
    command: str = "",
    fresh: bool = False,
    on_progress: OnProgress = lambda progress: None,
) -> Json:
    """Compare embeddings on labelled texts; cells finished by an earlier session are not repeated.

    Args:
        parts: training and test texts, from `read_parts`.
        out: folder for the cells, the biLM and static vectors.
        model: a pre-trained biLM; default: one is trained on the training texts.
        pretraining: settings of that training; default: those of the preset.
        feature_memory: gigabytes for the biLM's layers of all texts; default: half of the memory.
        fresh: start over, forgetting what is in `out`.

    Returns:
        The content of results.json (see docs/study.md); `write_report` draws it.
    """
    pretraining = pretraining or PRETRAINING.get(preset, DEFAULT)
    check(config, pretraining)
    for package in ("sklearn", "gensim", "jinja2", "matplotlib", "typst"):
        require_extra(package, "study")
    sweeps = sweep_points(config)
    bilm_layers = (pretraining.model if model is None else describe(model).model).layers
    rows = chosen_rows(config, bilm_layers)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out), _clock(out, fresh) as (seconds, on_progress_kept):
        on_progress = on_progress_kept(on_progress)
        study = Study(config, study_data(parts, config), out, feature_memory)
        vectors = _vectors_cells(config, rows, sweeps)
        embeddings = {row.embedding for row in rows} | {one.cell.embedding for one in sweeps}
        needs_bilm = any(name.startswith(ELMO) for name in embeddings)
        _announce(study, rows, vectors, sweeps, on_progress, needs_bilm and pretraining, model)

        # Embeddings. Words are cut as the biLM's training text was, so the biLM comes first.
        bilm = None
        if needs_bilm and model is not None:
            bilm = StudyBiLM(open_model(model), model, f"given: {model}", None)
        elif needs_bilm:
            bilm = _pretrained(study, parts, "bilm", pretraining, on_progress)
        study.data = replace(study.data, words=tokenize(study.data.texts, bilm and bilm.loaded))
        if bilm is not None:
            study.add_bilm(ELMO, bilm, _fingerprint(bilm.folder))
        made = run_cells(study, vectors, on_progress)
        study.embeddings |= {
            cell.embedding: made[cell.name] for cell in vectors if cell.name in made
        }

        choices, outcomes = _compare(study, rows, on_progress)
        table = _table(study, rows, choices, outcomes, shows_texts=shows_texts)
        chosen = {name: settings for name, (settings, _) in choices.items()}
        swept, notes = _sweep(study, parts, sweeps, pretraining, on_progress)
        curves = curve_rows(rows, outcomes)
        cells = sample_cells(config, study.data, curves, chosen)
        if any(row.embedding == ELMO for row in rows if row.name in outcomes):
            cells += draw_cells(config, chosen.get("frozen", NETWORK_CANDIDATES[0]))
        analysed = run_cells(study, cells, on_progress)
        words, senses = _words(study, parts, rows, outcomes, on_progress, shows_texts=shows_texts)
        settings = [
            *flat_settings("", config),
            *flat_settings("classifier.", classifier_config(config, MixConfig(), config.seeds[0])),
            *(flat_settings("pretraining.", pretraining) if model is None else ()),
        ]
        return {
            "about": {
                "command": command,
                "data": parts.name,
                "train_rows": study.data.train_count,
                "development_rows": len(study.data.split.development),
                "test_rows": len(study.data.test),
                "labels": list(study.data.labels),
                "preset": preset,
                "seeds": list(config.seeds),
                "settings": settings,
                "fingerprints": named(
                    {"texts, labels and parts": study.data.fingerprint}
                    | {
                        f"weights of the biLM{'' if name == ELMO else f' {name}'}": found.key
                        for name, found in study.embeddings.items()
                        if name in study.bilms
                    }
                ),
                "versions": versions(),
                "machine": machine(),
                "finished": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
                "seconds": seconds(),
                "shows_texts": shows_texts,
            },
            "language_model": None if bilm is None else language_model(bilm),
            "rows": table,
            "failed": _failed(study, rows, choices),
            "draws": gather_draws(config, study.data, analysed),
            "samples": gather_samples(config, study.data, curves, analysed, table),
            "sweeps": gather_sweeps(config, study.data, sweeps, swept, notes),
            "words": words,
            "senses": senses,
        }


def _vectors_cells(
    config: StudyConfig, rows: Sequence[Row], sweeps: Sequence[SweepPoint]
) -> list[Cell]:
    titles = {row.embedding: row.title for row in rows if row.group == "static"}
    for sweep in sweeps:
        if sweep.setting in ("window", "dim"):
            titles.setdefault(sweep.cell.embedding, sweep.cell.row)
    return [vectors_cell(name, config, title) for name, title in titles.items()]


def _announce(
    study: Study,
    rows: Sequence[Row],
    vectors: Sequence[Cell],
    sweeps: Sequence[SweepPoint],
    on_progress: OnProgress,
    pretraining: PretrainConfig | Literal[False],
    model: Path | None,
) -> None:
    """Tell of all cells as waiting, so that the time left can be estimated from the start.

    Settings that are yet to be chosen change none of it.
    """
    config = study.config
    if pretraining and model is None:
        on_progress(_pretraining_progress(study, "bilm", pretraining, "waiting"))
    if pretraining:
        on_progress(_reading_progress(study, ELMO, "waiting"))
    cells = [*vectors, *tuning_cells(config, rows), *(sweep.cell for sweep in sweeps)]
    cells += [cell for row in rows for cell in row_cells(config, row)]
    cells += sample_cells(config, study.data, curve_rows(rows), {})
    if any(row.embedding == ELMO for row in rows):
        cells += draw_cells(config)
    for cell in cells:
        on_progress(_progress(study, cell, "waiting"))


def _compare(
    study: Study, rows: Sequence[Row], on_progress: OnProgress
) -> tuple[dict[str, tuple[Settings, list[Json]]], dict[str, list[Outcome]]]:
    """The settings chosen for each row and the outcomes of its seeds; rows that fail are absent."""
    able = [row for row in rows if row.embedding in study.embeddings]
    tuned = run_cells(study, tuning_cells(study.config, able), on_progress)
    choices: dict[str, tuple[Settings, list[Json]]] = {}
    for row in able:
        choice = choose(row, tuned, len(study.data.split.development))
        if choice is not None:
            choices[row.name] = choice
    cells: dict[str, list[Cell]] = {}
    for row in able:
        # To tune the biLM for each candidate would take hours: it has the settings of trainable λs.
        choice = choices.get("trainable" if row.kind == "fine-tuned" else row.name)
        if choice or not row.candidates:
            cells[row.name] = row_cells(study.config, row, choice and choice[0])
    trained = run_cells(study, [cell for some in cells.values() for cell in some], on_progress)
    outcomes = {
        name: [trained[cell.name] for cell in some if cell.name in trained]
        for name, some in cells.items()
    }
    return choices, {name: some for name, some in outcomes.items() if some}


def _table(
    study: Study,
    rows: Sequence[Row],
    choices: Mapping[str, tuple[Settings, list[Json]]],
    outcomes: Mapping[str, Sequence[Outcome]],
    *,
    shows_texts: bool,
) -> list[Json]:
    other = best_static(rows, outcomes)
    table: list[Json] = []
    for row in rows:
        if row.name not in outcomes:
            continue
        found, against = outcomes[row.name], None
        if other is not None and row != other:
            against = paired(study.data, found, outcomes[other.name], other.name)
        table.append(
            row_result(
                row,
                found,
                study.config.seeds,
                study.embeddings[row.embedding],
                study.data,
                choices.get(row.name),
                against,
                shows_texts=shows_texts,
            )
        )
    return table


def _sweep(
    study: Study,
    parts: LabelledParts,
    sweeps: Sequence[SweepPoint],
    pretraining: PretrainConfig,
    on_progress: OnProgress,
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Outcomes of all sweeps, and notes on embeddings; each hidden size is a biLM of its own."""
    notes: dict[str, str] = {}
    for sweep in sweeps:
        if sweep.setting != "hidden":
            continue
        model = replace(pretraining.model, hidden=int(sweep.value))
        if model.softmax.tied:  # a tied softmax needs word vectors of the same size
            model = replace(model, word_dim=model.width)
        name = sweep.cell.embedding
        sized = replace(pretraining, model=model)
        bilm = _pretrained(study, parts, name, sized, on_progress)
        study.add_bilm(name, bilm, _fingerprint(bilm.folder))
        perplexity = language_model(bilm)["perplexity"]
        if perplexity is not None:
            notes[name] = f"perplexity {perplexity:.2f}"
    cells = [one.cell for one in sweeps if one.cell.embedding in study.embeddings]
    return run_cells(study, cells, on_progress), notes


def _words(
    study: Study,
    parts: LabelledParts,
    rows: Sequence[Row],
    outcomes: Mapping[str, Sequence[Outcome]],
    on_progress: OnProgress,
    *,
    shows_texts: bool,
) -> tuple[list[Json], list[Json]]:
    """Ambiguous words that the texts have, and how well embeddings tell senses apart."""
    static = best_static(rows, outcomes)
    vectors = None if static is None else StaticVectors.load(study.vectors_path(static.embedding))
    has_elmo = any(row.embedding == ELMO for row in rows if row.name in outcomes)
    embedder = Embedder(study.bilms[ELMO].loaded) if ELMO in study.bilms else None

    def report(name: str, title: str, fraction: float) -> None:
        state: State = "done" if fraction == 1 else "running"
        on_progress(CellProgress(name=name, row=title, state=state, fraction=fraction))

    words: list[Json] = []
    asked = study.config.words
    if static is not None and vectors is not None and embedder is not None and has_elmo and asked:
        found = ambiguous_words(
            asked, study.data, embedder, static, vectors, shows_texts=shows_texts
        )
        for idx, word in enumerate(found, 1):
            report("words", "Ambiguous words", idx / len(asked))
            if word is not None:
                words.append(word)
    if parts.senses is None:
        return words, []
    report("senses", "Senses", 0.0)
    named_vectors = None if static is None or vectors is None else (static.title, vectors)
    senses = sense_accuracies(study.data, parts.senses, embedder, named_vectors)
    report("senses", "Senses", 1.0)
    return words, senses


def _failed(study: Study, rows: Sequence[Row], choices: Mapping[str, Any]) -> list[Json]:
    """Rows that failed, with all seeds or some; then other cells."""
    failures = dict(study.failures)
    failed: list[Json] = []
    for row in rows:
        names = [f"vectors-{row.embedding}", *(cell.name for cell in row_cells(study.config, row))]
        tried = [f"tuning-{row.name}-{idx}" for idx in range(len(row.candidates))]
        if row.name not in choices:
            names += tried
        messages = [study.failures[name] for name in names if name in study.failures]
        if messages:
            failed.append({"name": row.name, "title": row.title, "message": messages[0]})
        for name in (*names, *tried):
            failures.pop(name, None)
    return failed + [
        {
            "name": name.removeprefix("vectors-"),
            "title": f"Step {name.removeprefix('vectors-')}",
            "message": message,
        }
        for name, message in failures.items()
    ]


@contextmanager
def _clock(
    out: Path, fresh: bool
) -> Generator[tuple[Callable[[], float], Callable[[OnProgress], OnProgress]]]:
    """All seconds of work over all sessions; they are kept whenever a cell is done, and at the end.

    So the time of a session that is killed counts, up to its last cell.
    """
    if fresh:
        for name in ("cells", "vectors", "bilm", SECONDS, "results.json"):
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for path in out.glob(f"{ELMO}-hidden*"):
            shutil.rmtree(path)
    try:
        before = float(read_json(out / SECONDS)["seconds"])
    except (UserError, KeyError, TypeError, ValueError):
        before = 0.0
    started = time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - started

    def keeping(on_progress: OnProgress) -> OnProgress:
        def report(progress: CellProgress) -> None:
            if progress.state == "done":
                write_json(out / SECONDS, {"seconds": seconds()})
            on_progress(progress)

        return report

    try:
        yield seconds, keeping
    finally:
        write_json(out / SECONDS, {"seconds": seconds()})


# The biLM.


def _fingerprint(folder: Path) -> str:
    return sha256(official_files(folder).weights if is_official(folder) else folder / WEIGHTS)


def _pretrained(
    study: Study, parts: LabelledParts, name: str, config: PretrainConfig, on_progress: OnProgress
) -> StudyBiLM:
    """Train a biLM on the training texts, labels unseen, or resume a training that was stopped."""
    folder, text = study.folder / name, study.folder / TEXT
    done = folder / FINISHED
    if (folder / CONFIG).exists() and read_run(folder)[1] != config:
        raise UserError(
            f"{folder}: holds a biLM with other settings; use another --out for this study, "
            f"--fresh to start over, or that biLM: --model {folder}"
        )
    state: State = "cached"
    if not done.is_file():
        state, started = "done", time.monotonic()
        on_progress(_pretraining_progress(study, name, config, "running"))
        times = [entry["time"] for entry in _log(folder) if "time" in entry]
        before = times[-1] - times[0] if times else 0.0
        write_json_lines(text, ({"text": one} for one in parts.train.texts))
        result = pretrain(
            str(text),
            folder,
            config,
            cache=study.folder / "cache",
            on_report=lambda report: (
                on_progress(_pretraining_progress(study, name, config, "running", report.done))
                if isinstance(report, StepReport)
                else None
            ),
        )
        if not result.finished:
            raise KeyboardInterrupt
        write_json(done, {"seconds": before + time.monotonic() - started})
    on_progress(_pretraining_progress(study, name, config, state))
    return StudyBiLM(
        open_model(folder), folder, "trained by this study", read_json(done)["seconds"]
    )


def language_model(bilm: StudyBiLM) -> Json:
    """What the report says of a biLM; perplexities by epoch where its log is there."""
    config, model = bilm.loaded.model.config, bilm.loaded.model
    per_epoch = int(bilm.loaded.config.get("training", {}).get("evaluations_per_epoch", 1))
    log = [entry for entry in _log(bilm.folder) if entry.get("kind") == "evaluation"]
    best = min((one["evaluation"] for one in log), key=lambda one: one["perplexity"], default=None)
    directions = ("forward", "backward")
    return {
        "source": bilm.source,
        "vocabulary": len(model.vocabulary),
        "parameters": parameter_count(model),
        "layers": config.layers,
        "width": config.width,
        "perplexity": best and best["perplexity"],
        "accuracy": best and sum(best[name]["accuracy"] for name in directions) / 2,
        "seconds": bilm.seconds,
        "history": [
            {
                "epoch": one["position"]["evaluations"] / per_epoch,
                "perplexity": one["evaluation"]["perplexity"],
                **{f"{d}_perplexity": one["evaluation"][d]["perplexity"] for d in directions},
            }
            for one in log
        ],
    }


def _log(folder: Path) -> list[Json]:
    path = folder / "log.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


# Cells side by side.


def run_cells(
    study: Study,
    cells: Iterable[Cell],
    on_progress: OnProgress = lambda progress: None,
    processes: int | None = None,
) -> dict[str, Any]:
    """Results by name of the cells that succeed; messages of the others go to `study.failures`.

    Layers of one biLM at a time are in memory. Cells that need none run beside those of the first
    biLM: the more cells there are to choose from, the less a core waits for another at the end.
    """
    results: dict[str, Any] = {}
    waiting: list[Cell] = []
    for cell in cells:
        result = study.cached(cell)
        if result is None:
            waiting.append(cell)
        else:
            results[cell.name] = result
        on_progress(_progress(study, cell, "waiting" if result is None else "cached"))
    without = [cell for cell in waiting if cell.embedding not in study.bilms]
    names = dict.fromkeys(cell.embedding for cell in waiting if cell.embedding in study.bilms)
    for name in [*names] or [None]:
        some = [cell for cell in waiting if cell.embedding == name]
        if name is not None and name not in study.layers:
            study.read_layers(
                name,
                lambda read, name=name: on_progress(
                    _reading_progress(study, name, "running", read.texts / len(study.data.texts))
                ),
            )
            on_progress(_reading_progress(study, name, "done"))
        _compute(study, [*without, *some], on_progress, processes or cpu_cores(), results)
        without = []
    return results


def _compute(
    study: Study,
    waiting: list[Cell],
    on_progress: OnProgress,
    processes: int,
    results: dict[str, Any],
) -> None:
    """One process and one thread per cell, so that one that dies takes no other with it."""
    rows, classes = study.data.train_count, len(study.data.labels)
    # The longest first, so that at the end no core waits for another.
    waiting = sorted(waiting, key=lambda cell: -work(cell, rows, classes))
    context = process_context()
    running: dict[Connection, tuple[Cell, BaseProcess]] = {}
    messages: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                cell = waiting.pop(0)
                reader, writer = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(study, cell, writer), daemon=True)
                process.start()
                writer.close()  # so that the pipe ends with the process, however that ends
                running[reader] = cell, process
                on_progress(_progress(study, cell, "running"))
            for reader in cast("list[Connection]", wait(list(running))):
                cell, process = running[reader]
                try:
                    told: float | str = reader.recv()
                except EOFError:
                    del running[reader]
                    process.join()
                    result = study.cached(cell) if process.exitcode == 0 else None
                    if result is not None:
                        results[cell.name] = result
                        on_progress(_progress(study, cell, "done", 1.0))
                        continue
                    died = f"its process ended with code {process.exitcode}; out of memory?"
                    study.failures[cell.name] = messages.get(cell.name, died)
                    note = study.failures[cell.name]
                    on_progress(_progress(study, cell, "failed", note=note))
                    continue
                if isinstance(told, str):
                    messages[cell.name] = told
                else:
                    on_progress(_progress(study, cell, "running", told))
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _work(study: Study, cell: Cell, writer: Connection) -> None:
    """What happens in the process of a cell."""
    import torch
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes itself
    end_with_parent()
    torch.set_num_threads(1)
    last = 0.0

    def on_fraction(fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            writer.send(fraction)

    try:
        with threadpool_limits(1):
            study.store(cell, study.compute(cell, on_fraction))
    except UserError as error:
        writer.send(str(error))
        raise SystemExit(1) from None
    except Exception as error:
        traceback.print_exc()
        writer.send(f"unexpected: {type(error).__name__}: {error}")
        raise SystemExit(1) from None


def end_with_parent() -> None:
    """End this process when its parent is killed: it would go on holding the study's lock."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait_and_end(sentinel: int = parent.sentinel) -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


def _progress(
    study: Study, cell: Cell, state: State, fraction: float = 0.0, note: str = ""
) -> CellProgress:
    amount = work(cell, study.data.train_count, len(study.data.labels))
    return CellProgress(
        name=cell.name, row=cell.row, state=state, fraction=fraction, work=amount, note=note
    )


def _pretraining_progress(
    study: Study, name: str, config: PretrainConfig, state: State, fraction: float = 0.0
) -> CellProgress:
    amount = PRETRAINING_WORK * study.data.train_count * config.training.epochs
    title = "Pre-training of the biLM"
    return CellProgress(name=name, row=title, state=state, fraction=fraction, work=amount)


def _reading_progress(study: Study, name: str, state: State, fraction: float = 0.0) -> CellProgress:
    amount = READING_WORK * len(study.data.texts)
    title = "Texts read by the biLM"
    return CellProgress(
        name=f"reading-{name}", row=title, state=state, fraction=fraction, work=amount
    )

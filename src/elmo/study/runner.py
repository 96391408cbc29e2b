"""A study from end to end, in the order in which its parts need each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from elmo.bilm.config import BiLMConfig
from elmo.config import check
from elmo.embed.config import MixConfig
from elmo.errors import UserError, require_extra
from elmo.study.analyses import (
    ambiguous_words,
    curve_rows,
    draw_jobs,
    draws_found,
    sample_jobs,
    samples_found,
    sense_accuracies,
)
from elmo.study.config import STANDARD, StudyConfig
from elmo.study.data import read_parts, study_data
from elmo.study.jobs import (
    Results,
    State,
    StepProgress,
    Steps,
    StudyRequest,
    Watcher,
    failures,
    nobody,
    timed,
)
from elmo.study.news import write_news
from elmo.study.results import (
    ELMO,
    About,
    FailedRow,
    Named,
    Row,
    Setting,
    StudyResults,
    chosen_rows,
    machine,
    versions,
)
from elmo.study.rows import (
    PRETRAINING_WORK,
    AskedSweep,
    Comparison,
    StudyBiLM,
    Try,
    Workbench,
    bilm_layers,
    bilm_name,
    compare,
    described,
    do,
    given_bilm,
    is_trained,
    make_static,
    parse_sweeps,
    shared_classifier,
    sweep_job,
    sweeps_found,
    trained_bilm,
    tries_of,
)
from elmo.text.config import ReadOptions
from elmo.training.checkpoint import locked
from elmo.training.config import DEFAULT, QUICK, PretrainConfig

# From what a user names to a study: own texts, AG News, or the corpus that elmo generates.


GENERATED = "generated"
TRAIN_ITEMS, TEST_ITEMS = 6_000, 1_500
SMALL = replace(QUICK, training=replace(QUICK.training, epochs=6))
"""For few texts, such as the generated ones."""
SHORTER = replace(DEFAULT, training=replace(DEFAULT.training, epochs=3))
"""Leaves time for the rest of a study within two hours."""


def begin_study(
    sources: Sequence[str],
    out: Path,
    config: StudyConfig = STANDARD,
    *,
    test: Sequence[str] = (),
    model: Path | None = None,
    pretraining: PretrainConfig | None = None,
    read: ReadOptions | None = None,
    label_column: str | None = None,
    preset: str = "standard",
    feature_memory: float | None = None,
    shows_texts: bool = True,
    command: str = "",
) -> StudyRequest:
    """Read the texts, or generate some, and settle what is to be studied."""
    if test and not sources:
        raise UserError("--test came without texts to train on; name those first")
    senses = None
    if sources:
        parts = read_parts(sources, test, config, read, label_column)
    else:
        files = write_news(out / "news", TRAIN_ITEMS, TEST_ITEMS, seed=0)
        parts = read_parts([str(files.train)], [str(files.test)], config)
        parts, senses = replace(parts, name=GENERATED), files.senses
    if pretraining is None:
        pretraining = {"quick": SMALL, "standard": SHORTER}.get(preset, DEFAULT)
    return StudyRequest(
        parts=parts,
        out=out,
        config=config,
        model=model,
        pretraining=pretraining,
        feature_memory=feature_memory,
        shows_texts=shows_texts,
        senses=senses,
        preset=preset,
        command=command,
    )


# What the report says of how its figures came about.


def about(request: StudyRequest, bench: Workbench, seconds: float) -> About:
    """Data, settings, fingerprints, versions, machine and time."""
    data = bench.data
    return About(
        command=request.command,
        data=data.name,
        train_rows=data.train_count,
        development_rows=len(data.split.development),
        test_rows=len(data.test),
        labels=data.labels,
        preset=request.preset,
        seeds=request.config.seeds,
        settings=tuple(_settings(request)),
        fingerprints=tuple(_fingerprints(bench)),
        versions=versions(),
        machine=machine(),
        finished=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        seconds=seconds,
        shows_texts=request.shows_texts,
    )


def _settings(request: StudyRequest) -> Iterator[Named]:
    yield from _flat("", request.config)
    shared = shared_classifier(request.config, MixConfig(), request.config.seeds[0])
    yield from _flat("classifier.", shared)
    if request.model is None:
        yield from _flat("pretraining.", request.pretraining)


def _flat(prefix: str, settings: Any) -> Iterator[Named]:
    """The settings of all parts, by their full names."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from _flat(f"{prefix}{one.name}.", value)
        else:
            yield Named(name=prefix + one.name, value=_shown(value))


def _shown(value: Any) -> Setting:
    """Lists as their values, one behind the other."""
    if not isinstance(value, tuple):
        return value
    return " ".join(str(one) for one in cast("tuple[object, ...]", value))


def _fingerprints(bench: Workbench) -> Iterator[Named]:
    yield Named(name="texts, labels and parts", value=bench.data.fingerprint)
    for name, key in bench.embedding_keys.items():
        if name in bench.bilms:
            what = "biLM" if name == ELMO else f"biLM {name}"
            yield Named(name=f"weights of the {what}", value=key)


def run_study(request: StudyRequest, watcher: Watcher = nobody) -> StudyResults:
    """Do every step that an earlier session has not done, and gather what was found."""
    check(request.config, request.pretraining)
    for package in ("sklearn", "gensim", "jinja2", "matplotlib", "typst"):
        require_extra(package, "study")
    sweeps = parse_sweeps(request.config.sweeps)
    rows = chosen_rows(request.config, bilm_layers(request))
    request.out.mkdir(parents=True, exist_ok=True)
    with locked(request.out), timed(request.out, watcher) as (seconds, watcher):
        bench = _workbench(request, rows, sweeps, watcher)
        tries = {sweep: tries_of(sweep, request.config.static_dim) for sweep in sweeps}
        failed = make_static(bench, _static_names(rows, tries), watcher)
        compared = compare(bench, rows, failed, watcher)
        results = _sweep(request, bench, tries, watcher)
        results |= _analyse(bench, compared, watcher)
        beyond = {name: failed[name] for name in failed if name not in compared.failed}
        return _gathered(request, bench, compared, tries, results, beyond, watcher, seconds)


def _workbench(
    request: StudyRequest, rows: Sequence[Row], sweeps: Sequence[AskedSweep], watcher: Watcher
) -> Workbench:
    needed = any(row.embedding == ELMO for row in rows) or any(
        sweep.setting in ("mix-pull", "learning-rate", "hidden") for sweep in sweeps
    )
    bilm = _bilm(request, watcher) if needed else None
    loaded = None if bilm is None else bilm.loaded
    bench = Workbench(
        config=request.config,
        data=study_data(request.parts, loaded, request.config),
        folder=request.out,
        steps=Steps(request.out / "steps"),
        feature_memory=request.feature_memory,
    )
    if bilm is not None:
        bench.add_bilm(ELMO, bilm)
    return bench


def _bilm(request: StudyRequest, watcher: Watcher) -> StudyBiLM:
    if request.model is not None:
        return given_bilm(request.model)
    return _pretrained(request, "bilm", request.pretraining, watcher)


def _pretrained(
    request: StudyRequest, name: str, config: PretrainConfig, watcher: Watcher
) -> StudyBiLM:
    texts = request.parts.train
    weight = PRETRAINING_WORK * len(texts.texts) * config.training.epochs

    def tell(share: float, state: State = "running") -> None:
        watcher(StepProgress(name=name, row="biLM", state=state, share=share, weight=weight))

    ended: State = "kept" if is_trained(request.out / name) else "done"
    tell(0.0)
    bilm = trained_bilm(texts, request.out / name, config, tell)
    tell(1.0, ended)
    return bilm


def _static_names(rows: Sequence[Row], tries: Mapping[AskedSweep, Sequence[Try]]) -> Iterator[str]:
    yield from (row.embedding for row in rows if row.is_static)
    for sweep, some in tries.items():
        if sweep.setting in ("window", "dim"):
            yield from (one.embedding for one in some)


def _sweep(
    request: StudyRequest,
    bench: Workbench,
    tries: Mapping[AskedSweep, list[Try]],
    watcher: Watcher,
) -> Results:
    """Every sweep; those of a biLM's size train one for each value."""
    results: Results = {}
    for sweep, some in tries.items():
        if sweep.setting == "hidden":
            for value in sweep.values:
                name = bilm_name(int(value))
                model = _of_size(request.pretraining.model, int(value))
                config = replace(request.pretraining, model=model)
                bench.add_bilm(name, _pretrained(request, name, config, watcher))
        ready = [one for one in some if one.embedding in bench.embedding_keys]
        results |= do(bench, [sweep_job(bench, one) for one in ready], watcher)
    return results


def _of_size(model: BiLMConfig, hidden: int) -> BiLMConfig:
    """A biLM of another size; a tied softmax wants word vectors of the same size."""
    resized = replace(model, hidden=hidden)
    return replace(resized, word_dim=resized.width) if model.softmax.tied else resized


def _analyse(bench: Workbench, compared: Comparison, watcher: Watcher) -> Results:
    """Few labels, and draws of frozen weights."""
    jobs = sample_jobs(bench, curve_rows(compared), compared.choices)
    if compared.has(ELMO):
        jobs += draw_jobs(bench, compared.choices)
    return do(bench, jobs, watcher)


def _gathered(
    request: StudyRequest,
    bench: Workbench,
    compared: Comparison,
    tries: Mapping[AskedSweep, list[Try]],
    results: Results,
    failed: Mapping[str, str],
    watcher: Watcher,
    seconds: Callable[[], float],
) -> StudyResults:
    rows = compared.table(bench, shows_texts=request.shows_texts)
    bilm = bench.bilms.get(ELMO)
    beyond = {**failed, **failures(results)}
    words = ambiguous_words(bench, compared, watcher, shows_texts=request.shows_texts)
    senses = sense_accuracies(bench, compared, request.senses, watcher)
    return StudyResults(
        about=about(request, bench, seconds()),
        language_model=None if bilm is None else described(bilm),
        rows=rows,
        failed=(*compared.failures(), *(_failed_step(*one) for one in beyond.items())),
        draws=draws_found(bench, results),
        samples=samples_found(bench, curve_rows(compared), results, rows),
        sweeps=sweeps_found(bench, tries, results, _perplexities(bench)),
        words=words,
        senses=senses,
    )


def _perplexities(bench: Workbench) -> dict[str, str]:
    """What is said of the biLMs of a sweep."""
    found = {name: described(bilm).perplexity for name, bilm in bench.bilms.items() if name != ELMO}
    return {name: f"perplexity {one:.2f}" for name, one in found.items() if one is not None}


def _failed_step(name: str, message: str) -> FailedRow:
    return FailedRow(name=name, title=f"Step {name}", message=message)

"""A study from end to end, in the order in which its parts need each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from elmo.bilm.config import BiLMConfig
from elmo.config import check
from elmo.errors import require_extra
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.interruption import locked
from elmo.study.about import about
from elmo.study.analyses import curve_rows, draw_jobs, draws_found, sample_jobs, samples_found
from elmo.study.bilm import StudyBiLM, described, given_bilm, is_trained, trained_bilm
from elmo.study.compare import Comparison, compare
from elmo.study.comparison import ELMO, Row, chosen_rows
from elmo.study.data import study_data
from elmo.study.embeddings import do, make_static
from elmo.study.jobs import Results, failures
from elmo.study.plan import PRETRAINING_WORK, bilm_layers
from elmo.study.progress import State, StepProgress, Watcher, nobody
from elmo.study.request import StudyRequest
from elmo.study.results import FailedRow, StudyResults
from elmo.study.steps import Steps
from elmo.study.sweeps import (
    AskedSweep,
    Try,
    bilm_name,
    parse_sweeps,
    sweep_job,
    sweeps_found,
    tries_of,
)
from elmo.study.timed import timed
from elmo.study.words import ambiguous_words, sense_accuracies
from elmo.study.workbench import Workbench


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

"""The embeddings of a study made ready: static vectors beside each other, layers when needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elmo.checkpoint import parameter_count
from elmo.config import to_json
from elmo.contextual.progress import Progress
from elmo.study.comparison import NOTHING
from elmo.study.jobs import Failure, Job, Results, run_jobs
from elmo.study.plan import READING_WORK
from elmo.study.progress import OnShare, StepProgress, Watcher
from elmo.study.row_results import EmbeddingFacts
from elmo.study.sweeps import static_settings
from elmo.study.vectors import VectorsMade, make_vectors, static_config, vectors_work
from elmo.study.workbench import VERSION, ReadingPace, Workbench


def make_static(bench: Workbench, names: Iterable[str], watcher: Watcher) -> dict[str, str]:
    """Make the static vectors of these names; gives the messages of those that failed."""
    jobs = [_vectors_job(bench, name) for name in dict.fromkeys(names)]
    for job in jobs:
        if not bench.vectors_path(job.row).is_file():
            # Without its file the step counts for nothing.
            bench.steps.path(job.name).unlink(missing_ok=True)
    results = run_jobs(jobs, bench.steps, watcher)
    failed: dict[str, str] = {}
    for job in jobs:
        made = results[job.name]
        if isinstance(made, Failure):
            failed[job.row] = made.message
        else:
            bench.embedding_keys[job.row] = made.sha256
    return failed


def do(bench: Workbench, jobs: Sequence[Job], watcher: Watcher) -> Results:
    """Run jobs side by side; before, a biLM reads the texts if one of them needs its layers.

    Layers of one biLM at a time are in memory. Jobs that need none run beside those of the first:
    the more jobs there are to choose from, the less a core waits for another at the end.
    """
    results: Results = {}
    waiting = [job for job in jobs if job.needs_bilm is None]
    for name in dict.fromkeys(job.needs_bilm for job in jobs if job.needs_bilm is not None):
        some = [job for job in jobs if job.needs_bilm == name]
        if not bench.has_layers(name) and _has_work(bench, some):
            _read_texts(bench, name, watcher)
        results |= run_jobs([*waiting, *some], bench.steps, watcher)
        waiting = []
    return results | run_jobs(waiting, bench.steps, watcher)


def _read_texts(bench: Workbench, name: str, watcher: Watcher) -> None:
    """Have a biLM read all texts, and keep how fast it was."""
    total, step = len(bench.data.texts), f"reading-{name}"

    def tell(progress: Progress) -> None:
        watcher(_reading(step, "running", progress.texts / total, total))

    pace = bench.read_layers(name, tell)
    bench.steps.keep(step, _reading_inputs(bench, name), pace)
    watcher(_reading(step, "done", 1.0, total))


def embedding_facts(bench: Workbench, embedding: str) -> EmbeddingFacts:
    """How large an embedding is, and what it took."""
    if embedding == NOTHING:
        return EmbeddingFacts()
    if embedding in bench.bilms:
        bilm = bench.bilms[embedding]
        inputs = _reading_inputs(bench, embedding)
        pace = bench.steps.known(f"reading-{embedding}", inputs, ReadingPace)
        return EmbeddingFacts(
            parameter_count(bilm.loaded.model),
            bilm.seconds,
            None if pace is None else pace.texts_per_second,
        )
    job = _vectors_job(bench, embedding)
    made = bench.steps.known(job.name, job.inputs, VectorsMade)
    assert made is not None
    return EmbeddingFacts(made.words * made.dim, made.seconds)


def _vectors_job(bench: Workbench, name: str) -> Job:
    method, window, dim = static_settings(name, bench.config.static_dim)
    config = static_config(method, window, dim)
    share = max((bilm.held_out_share for bilm in bench.bilms.values()), default=0.02)
    path = bench.vectors_path(name)

    def run(on_share: OnShare) -> VectorsMade:
        return make_vectors(bench.data, config, share, path, on_share)

    return Job(
        name=f"vectors-{name}",
        row=name,
        inputs={
            "version": VERSION,
            "data": bench.data.fingerprint,
            "config": to_json(config),
            "held_out_share": share,
        },
        kind=VectorsMade,
        run=run,
        weight=vectors_work(config) * bench.data.train_count,
    )


def _has_work(bench: Workbench, jobs: Sequence[Job]) -> bool:
    return any(bench.steps.known(job.name, job.inputs, job.kind) is None for job in jobs)


def _reading_inputs(bench: Workbench, name: str) -> dict[str, object]:
    return {"data": bench.data.fingerprint, "embedding": bench.embedding_keys[name]}


def _reading(step: str, state: str, share: float, texts: int) -> StepProgress:
    return StepProgress(
        name=step,
        row="reading",
        state="done" if state == "done" else "running",
        share=share,
        weight=READING_WORK * texts,
    )

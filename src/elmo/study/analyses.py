"""Beyond the table: frozen draws, accuracy against the number of labels, sweeps of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.embed.config import MixConfig, NeighbourConfig
from elmo.embed.embedder import Embedder
from elmo.embed.neighbours import cosines, find_neighbours
from elmo.static.vectors import StaticVectors
from elmo.study.data import StudyData
from elmo.study.jobs import Job, StepProgress, Watcher
from elmo.study.news import SenseRow, read_senses, sense_accuracy
from elmo.study.results import (
    ELMO,
    AmbiguousWord,
    ContextNeighbour,
    Draw,
    Draws,
    InContext,
    Outcome,
    Row,
    RowResult,
    SamplePoint,
    SenseAccuracy,
    StaticNeighbour,
    spread,
)
from elmo.study.rows import (
    Choice,
    Comparison,
    NetworkSettings,
    SvmSettings,
    Workbench,
    best_static,
    row_training,
    sample_work,
    svm_job,
)


def draw_jobs(bench: Workbench, choices: Mapping[str, Choice]) -> list[Job]:
    """One training a draw, and one of learned weights, on the same rows with the same seed."""
    mixes = {
        f"draws-{seed}": MixConfig(mix="frozen", mix_seed=seed)
        for seed in range(bench.config.draws)
    }
    if mixes:
        mixes["draws-trainable"] = MixConfig(mix="trainable")
    settings = choices["frozen"].best if "frozen" in choices else NetworkSettings()
    assert isinstance(settings, NetworkSettings)
    work = min(bench.config.draw_rows, bench.data.train_count) * bench.config.epochs
    return [
        bench.job(
            name,
            "draws",
            ELMO,
            bench.training(
                settings.on(bench.classifier(mix, bench.config.seeds[0])),
                rows=bench.config.draw_rows,
                measures_train=False,
            ),
            work=work,
        )
        for name, mix in mixes.items()
    ]


def draws_found(bench: Workbench, results: Mapping[str, Any]) -> Draws | None:
    """What the draws gave; those that failed are left out."""
    learned = results.get("draws-trainable")
    draws = [
        Draw(
            seed=seed,
            layer_weights=one.layer_weights,
            development_accuracy=one.development_accuracy,
            test_accuracy=one.test.accuracy.value,
        )
        for seed in range(bench.config.draws)
        if isinstance(one := results.get(f"draws-{seed}"), Outcome) and one.layer_weights
    ]
    if not draws or not isinstance(learned, Outcome):
        return None
    return Draws(
        train_rows=min(bench.config.draw_rows, len(bench.data.split.train)),
        draws=tuple(draws),
        trainable_test_accuracy=learned.test.accuracy.value,
    )


def sample_jobs(bench: Workbench, rows: Sequence[Row], choices: Mapping[str, Choice]) -> list[Job]:
    """Trainings with few labels a class; numbers that the smallest class does not have are out."""
    return [
        _sample_job(bench, row, choices.get(row.name), per_class, seed)
        for row in rows
        for per_class in possible_samples(bench)
        for seed in bench.config.seeds
    ]


def samples_found(
    bench: Workbench, rows: Sequence[Row], results: Mapping[str, Any], full: Sequence[RowResult]
) -> tuple[SamplePoint, ...]:
    """The points of the curve, those of all rows at their end."""
    points: list[SamplePoint] = []
    classes = len(bench.data.labels)
    for row in rows:
        for per_class in possible_samples(bench):
            found = [
                one.test.accuracy.value
                for seed in bench.config.seeds
                if isinstance(one := results.get(_sample_name(row, per_class, seed)), Outcome)
            ]
            if found:
                accuracy = spread(found, len(bench.data.test))
                points.append(
                    SamplePoint(
                        row=row.name,
                        per_class=per_class,
                        train_rows=per_class * classes,
                        test_accuracy=accuracy,
                    )
                )
        for one in full:
            if one.name == row.name and points:
                count = len(bench.data.split.train)
                points.append(
                    SamplePoint(
                        row=row.name,
                        per_class=None,
                        train_rows=count,
                        test_accuracy=one.test_accuracy,
                    )
                )
    return tuple(points)


def possible_samples(bench: Workbench) -> list[int]:
    """The numbers of labels a class that there are."""
    data = bench.data
    smallest = min(
        int((data.classes[data.split.train] == one).sum()) for one in range(len(data.labels))
    )
    return [number for number in bench.config.samples if 2 <= number <= smallest]


def curve_rows(compared: Comparison) -> list[Row]:
    """The rows of the curve: TF-IDF, the best skip-gram on development rows, trainable λs."""
    chosen = {"tfidf", "trainable"}
    skip_grams = [row for row in compared.rows if row.name.startswith("skipgram-")]
    best = best_static(skip_grams, compared.outcomes)
    if best is not None:
        chosen.add(best.name)
    return [row for row in compared.rows if row.name in chosen & set(compared.outcomes)]


def _sample_name(row: Row, per_class: int, seed: int) -> str:
    return f"samples-{row.name}-{per_class}-seed{seed}"


def _sample_job(
    bench: Workbench, row: Row, choice: Choice | None, per_class: int, seed: int
) -> Job:
    name = _sample_name(row, per_class, seed)
    if row.kind == "tfidf":
        best = SvmSettings() if choice is None else choice.best
        assert isinstance(best, SvmSettings)
        return svm_job(bench, name, "samples", best, per_class, seed)
    training = replace(
        row_training(bench, row, choice, seed), per_class=per_class, measures_train=False
    )
    work = sample_work(bench.config, per_class * len(bench.data.labels))
    return bench.job(name, "samples", row.embedding, training, work=work)


# How well embeddings tell the senses of ambiguous words apart, where the senses are known.


def sense_accuracies_of(
    data: StudyData,
    senses: Path,
    embedder: Embedder | None,
    static: tuple[str, StaticVectors] | None,
) -> tuple[SenseAccuracy, ...]:
    """Static vectors first, which cannot do it, then the layers of a biLM."""
    marks = read_senses(senses)
    found: list[SenseAccuracy] = []
    if static is not None:
        title, vectors = static
        found.append(_score(title, vectors.embed([mark.word for mark in marks]), marks))
    if embedder is not None:
        layers = _layers_at(data, embedder, marks)
        found += [
            _score(f"ELMo layer {number}", layer, marks) for number, layer in enumerate(layers)
        ]
    return tuple(found)


def _layers_at(data: StudyData, embedder: Embedder, marks: list[SenseRow]) -> NDArray[np.float32]:
    """The layers of each marked word in its text, (layers, marks, dim)."""
    rows = sorted({mark.row for mark in marks})
    texts = [data.words[data.train_count + row] for row in rows]
    layers = dict(zip(rows, embedder.encode(texts, output="tokens", layer="all"), strict=True))
    return np.stack([layers[mark.row][:, mark.place] for mark in marks], axis=1)


def _score(title: str, vectors: NDArray[np.float32], marks: list[SenseRow]) -> SenseAccuracy:
    score = sense_accuracy(
        vectors,
        [mark.word for mark in marks],
        [mark.sense for mark in marks],
        [mark.row for mark in marks],
    )
    return SenseAccuracy(
        embedding=title,
        accuracy=score.accuracy,
        chance=score.chance,
        occurrences=score.occurrences,
    )


# Ambiguous words: one list of static neighbours against a list a context.


SHOWN = 6
OCCURRENCES = 100
"""Of a word, so many are compared to find two that are far apart."""
LEAST_OCCURRENCES = 4
SEARCHED = 1_500
AROUND = 6
"""Words on either side that are shown of a neighbour's text."""


def ambiguous_word(
    word: str,
    data: StudyData,
    embedder: Embedder,
    static_row: str,
    static: StaticVectors,
    *,
    shows_texts: bool,
) -> AmbiguousWord | None:
    """A word in the two contexts that are farthest apart; none if the texts hardly hold it."""
    rows = [int(row) for row in data.test if word in data.words[int(row)]][:OCCURRENCES]
    if len(rows) < LEAST_OCCURRENCES or word not in static.ids:
        return None
    contexts = [
        _in_context(word, row, data, embedder, shows_texts)
        for row in _farthest(word, rows, data, embedder)
    ]
    neighbours = tuple(
        StaticNeighbour(word=one.word, similarity=one.similarity)
        for one in static.nearest(word, SHOWN)
    )
    return AmbiguousWord(
        word=word, static_row=static_row, static=neighbours, contexts=tuple(contexts)
    )


def _farthest(
    word: str, rows: Sequence[int], data: StudyData, embedder: Embedder
) -> tuple[int, int]:
    """The two texts in which the word's vectors differ most."""
    texts = [data.words[row] for row in rows]
    layers = embedder.encode(texts, output="tokens", layer="top")
    vectors = np.stack(
        [layer[words.index(word)] for layer, words in zip(layers, texts, strict=True)]
    )
    similarities = np.stack([cosines(vectors, one) for one in vectors])
    first, second = np.unravel_index(int(similarities.argmin()), similarities.shape)
    return rows[int(first)], rows[int(second)]


def _in_context(
    word: str, row: int, data: StudyData, embedder: Embedder, shows_texts: bool
) -> InContext:
    searched = np.sort(np.random.default_rng(0).permutation(data.train_count)[:SEARCHED])
    found = find_neighbours(
        embedder,
        data.words[row].index(word),
        data.words[row],
        [data.words[int(one)] for one in searched],
        NeighbourConfig(count=SHOWN, distinct="word", texts=SEARCHED),
    )
    neighbours = tuple(
        ContextNeighbour(
            word=one.word,
            similarity=one.similarity,
            text=_around(one.words, one.position) if shows_texts else None,
            row=int(searched[one.text_number]),
        )
        for one in found.neighbours
    )
    text = " ".join(data.words[row]) if shows_texts else None
    return InContext(text=text, row=row - data.train_count, neighbours=neighbours)


def _around(words: Sequence[str], position: int) -> str:
    first, last = max(0, position - AROUND), position + AROUND + 1
    before, behind = "… " if first else "", " …" if last < len(words) else ""
    return before + " ".join(words[first:last]) + behind


# Words and their senses: neighbours of ambiguous words, and how well layers tell senses apart.


def ambiguous_words(
    bench: Workbench, compared: Comparison, watcher: Watcher, *, shows_texts: bool
) -> tuple[AmbiguousWord, ...]:
    """The ambiguous words that the texts hold, if both kinds of embedding were compared."""
    static = compared.best_static()
    if static is None or not compared.has(ELMO):
        return ()
    vectors = StaticVectors.load(bench.vectors_path(static.embedding))
    embedder = Embedder(bench.bilms[ELMO].loaded)
    found: list[AmbiguousWord] = []
    words = bench.config.words
    for done, word in enumerate(words):
        watcher(_progress("words", done / len(words)))
        one = ambiguous_word(
            word, bench.data, embedder, static.name, vectors, shows_texts=shows_texts
        )
        if one is not None:
            found.append(one)
    watcher(_progress("words", 1.0))
    return tuple(found)


def sense_accuracies(
    bench: Workbench, compared: Comparison, senses: Path | None, watcher: Watcher
) -> tuple[SenseAccuracy, ...]:
    """How well each embedding tells senses apart, where they are known."""
    if senses is None:
        return ()
    watcher(_progress("senses", 0.0))
    static = compared.best_static()
    vectors = None if static is None else StaticVectors.load(bench.vectors_path(static.embedding))
    found = sense_accuracies_of(
        bench.data,
        senses,
        Embedder(bench.bilms[ELMO].loaded) if ELMO in bench.bilms else None,
        None if static is None or vectors is None else (static.title, vectors),
    )
    watcher(_progress("senses", 1.0))
    return found


def _progress(row: str, share: float) -> StepProgress:
    return StepProgress(
        name=row, row=row, state="done" if share >= 1 else "running", share=share, weight=1.0
    )

"""Words and their senses: neighbours of ambiguous words, and how well layers tell senses apart."""

from __future__ import annotations

from pathlib import Path

from elmo.contextual.embedder import Embedder
from elmo.static.vectors import StaticVectors
from elmo.study.ambiguous import ambiguous_word
from elmo.study.compare import Comparison
from elmo.study.comparison import ELMO
from elmo.study.progress import StepProgress, Watcher
from elmo.study.results import AmbiguousWord, SenseAccuracy
from elmo.study.senses import sense_accuracies_of
from elmo.study.workbench import Workbench


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

"""How well embeddings tell the senses of ambiguous words apart, where the senses are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.contextual.embedder import Embedder
from elmo.static.vectors import StaticVectors
from elmo.study.data import StudyData
from elmo.study.news.news_files import SenseRow, read_senses
from elmo.study.news.sense_accuracy import sense_accuracy
from elmo.study.results import SenseAccuracy


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

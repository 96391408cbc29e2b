"""All occurrences of a word as points on a plane, for each layer, with the planes aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.embed.embedder import Vectors
from elmo.errors import UserError
from elmo.explore.html import BLUE, RED
from elmo.explore.index import CorpusIndex, Occurrences

AVERAGE = "average"
MOST_CLUSTERS = 6
CLUSTERED_POINTS = 600
"""A sample of this size decides how many clusters there are."""
SPREAD_DIMENSIONS = 16
"""Principal components that clusters are looked for in."""
_COLOURS = [BLUE, RED, (43, 130, 80), (130, 80, 160), (180, 120, 20), (90, 100, 110)]
Points = NDArray[np.float64]


@dataclass(frozen=True)
class WordMap:
    """Occurrences of a word as points."""

    occurrences: Occurrences
    layers: tuple[str, ...]
    """"0", "1", … and "average", the layers that `points` has."""
    points: Mapping[str, Points]
    """(occurrences, 2) for each layer; the mean is 0 and the mean squared distance from it 1."""
    explained: Mapping[str, float]
    """The fraction of a layer's variance that its plane shows."""
    clusters: NDArray[np.int64]
    """Which cluster each occurrence is in, in the top layer."""

    def groups(self) -> list[str]:
        """The known sense of each occurrence, else its label, else its cluster."""
        items = self.occurrences.items
        if any(item.sense for item in items):
            return [item.sense or "?" for item in items]
        if any(item.label for item in items):
            return [item.label or "?" for item in items]
        return [f"cluster {number + 1}" for number in self.clusters.tolist()]

    def _repr_html_(self, layer: str | None = None, size: int = 360) -> str:
        from html import escape

        groups = self.groups()
        names = sorted(set(groups))
        points = self.points[layer or self.layers[-1]]
        scale = size / 2.2 / max(1e-9, float(np.abs(points).max(initial=0)))
        circles: list[str] = []
        for (x, y), group, item in zip(
            points.tolist(), groups, self.occurrences.items, strict=True
        ):
            colour = "rgb({},{},{})".format(*_COLOURS[names.index(group) % len(_COLOURS)])
            place = f'cx="{size / 2 + x * scale:.1f}" cy="{size / 2 - y * scale:.1f}"'
            title = escape(f"{group}: {' '.join(item.words)}")
            circles.append(
                f'<circle {place} r="3" fill="{colour}" fill-opacity=".6"><title>{title}</title>'
                "</circle>"
            )
        return f'<svg width="{size}" height="{size}">{"".join(circles)}</svg>'


def word_map(
    index: CorpusIndex,
    word: str,
    *,
    limit: int = 5000,
    clusters: int | None = None,
    ignore_case: bool = True,
    seed: int = 0,
) -> WordMap:
    """Project the occurrences of a word to two dimensions, layer by layer.

    Each layer has its own principal components; rotation and reflection bring each plane as close
    to that of the top layer as possible (orthogonal Procrustes), so that a point can be followed
    through the layers.

    Args:
        index: The corpus.
        word: The word to look for.
        limit: More occurrences than this are sampled.
        clusters: How many clusters to form; default: what the silhouette coefficient prefers.
        ignore_case: Whether Bank and bank are one word.
        seed: Of the sample and of the clusters.
    """
    occurrences = index.occurrences(word, limit=limit, ignore_case=ignore_case, seed=seed)
    rows = np.array([item.row for item in occurrences.items])
    vectors = {str(layer): index.vectors(rows, layer) for layer in index.layers}
    top = str(max(index.layers))
    if len(vectors) > 1:
        vectors[AVERAGE] = np.mean([vectors[str(layer)] for layer in index.layers], axis=0)
    points: dict[str, Points] = {}
    explained: dict[str, float] = {}
    reference: Points | None = None
    for name in sorted(vectors, key=lambda name: name != top):  # the top first
        points[name], explained[name] = principal_components(vectors[name])
        if reference is not None:
            points[name] = align(points[name], reference)
        reference = points[top]
    grouped = cluster(vectors[top], clusters, seed)
    return WordMap(occurrences, tuple(vectors), points, explained, grouped)


def principal_components(vectors: Vectors, dimensions: int = 2) -> tuple[Points, float]:
    """Coordinates on the first principal components, and the fraction of variance they show.

    The root mean square of the distances from the mean is scaled to 1; vectors that are all equal
    give zeros.
    """
    centred = vectors.astype(np.float64)
    centred -= centred.mean(0)
    values, axes = np.linalg.eigh(centred.T @ centred)  # ascending
    axes = axes[:, ::-1][:, :dimensions]
    # An axis has two directions: choose the one whose largest entry is positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    coordinates = centred @ axes
    coordinates = np.pad(coordinates, ((0, 0), (0, dimensions - coordinates.shape[1])))
    total, shown = max(0.0, float(values.sum())), float(np.square(coordinates).sum())
    if total <= 1e-9 * max(1.0, float(np.square(vectors).sum())):
        return np.zeros_like(coordinates), 1.0
    return coordinates / np.sqrt(shown / len(vectors)), min(1.0, shown / total)


def align(points: Points, reference: Points) -> Points:
    """Rotate and reflect points onto others (orthogonal Procrustes); shape and size stay."""
    if points.shape != reference.shape:
        raise UserError(f"expected points of one shape, got {points.shape}, {reference.shape}")
    left, _, right = np.linalg.svd(points.T @ reference)
    return points @ (left @ right)


def cluster(vectors: Vectors, count: int | None = None, seed: int = 0) -> NDArray[np.int64]:
    """Group vectors by k-means; without `count`, as many as the silhouette coefficient prefers."""
    kmeans: Any = import_module("sklearn.cluster").KMeans
    silhouette: Any = import_module("sklearn.metrics").silhouette_score
    spread, _ = principal_components(vectors, min(SPREAD_DIMENSIONS, vectors.shape[1]))
    distinct = len(np.unique(spread.round(6), axis=0))
    if count is not None and count < 1:
        raise UserError(f"clusters: expected 1 or more, got {count}")
    if distinct < 3 or count == 1:
        return np.zeros(len(vectors), np.int64)
    if count is None:
        chance = np.random.default_rng(seed)
        size = min(CLUSTERED_POINTS, len(spread))
        sample = spread[chance.choice(len(spread), size, replace=False)]
        most = min(MOST_CLUSTERS, len(np.unique(sample.round(6), axis=0)) - 1)
        scores: dict[int, float] = {}
        for k in range(2, most + 1):
            found: Any = kmeans(k, n_init=2, random_state=seed).fit_predict(sample)
            scores[k] = float(silhouette(sample, found))
        count = max(scores, key=lambda k: scores[k]) if scores else 1
    labels: Any = kmeans(min(count, distinct), n_init=4, random_state=seed).fit_predict(spread)
    return by_size(labels.astype(np.int64).tolist())


def by_size(labels: Sequence[int]) -> NDArray[np.int64]:
    """Number groups by their size, the largest first."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return rank[inverse]

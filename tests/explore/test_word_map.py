"""Projections: principal components against the SVD, alignment against known rotations."""

from __future__ import annotations

import numpy as np
import pytest

from elmo.errors import UserError
from elmo.explore.index import CorpusIndex
from elmo.explore.word_map import align, by_size, cluster, principal_components, word_map

RANDOM = np.random.default_rng(0)


def test_principal_components() -> None:
    vectors = (RANDOM.normal(size=(40, 6)) * [5, 3, 1, 1, 0.5, 0.1]).astype(np.float32)
    points, explained = principal_components(vectors)
    centred = vectors - vectors.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * values[:2]
    expected /= np.sqrt(np.square(expected).sum(1).mean())
    assert np.allclose(np.abs(points), np.abs(expected), atol=1e-4)
    assert explained == pytest.approx((values[:2] ** 2).sum() / (values**2).sum(), rel=1e-4)
    assert not principal_components(np.ones((5, 6), np.float32))[0].any()
    assert principal_components(vectors[:, :1], 3)[0].shape == (40, 3)


@pytest.mark.parametrize("reflected", [False, True])
def test_align_undoes_a_rotation(reflected: bool) -> None:
    points = RANDOM.normal(size=(30, 2))
    angle = 1.1
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = points @ (turn @ np.diag([1.0, -1.0]) if reflected else turn)
    assert np.allclose(align(moved, points), points)
    noisy = moved + RANDOM.normal(size=moved.shape) * 0.1
    aligned = align(noisy, points)
    best = min(
        np.square(noisy @ rotation(a, sign) - points).sum()
        for a in np.linspace(0, 2 * np.pi, 720)
        for sign in (1, -1)
    )
    assert np.square(aligned - points).sum() <= best + 1e-9
    with pytest.raises(UserError, match="of one shape"):
        align(points, points[:3])


def rotation(angle: float, sign: int) -> np.ndarray:
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return turn @ np.diag([1.0, sign])


def test_clusters() -> None:
    centres = np.repeat(np.eye(8)[:3] * 10, [30, 20, 10], axis=0)
    vectors = (centres + RANDOM.normal(size=centres.shape) * 0.1).astype(np.float32)
    assert cluster(vectors).tolist() == [0] * 30 + [1] * 20 + [2] * 10
    assert set(cluster(vectors, 2).tolist()) == {0, 1}
    assert set(cluster(np.ones((4, 8), np.float32)).tolist()) == {0}
    assert by_size([7, 7, 3]).tolist() == [0, 0, 1]


def test_word_map(index: CorpusIndex) -> None:
    word = index.ambiguous()[0][0]
    found = word_map(index, word)
    count = index.occurrences(word).total
    assert found.layers == ("0", "1", "2", "average")
    assert all(found.points[name].shape == (count, 2) for name in found.layers)
    for name in ("1", "2"):
        radius = np.square(found.points[name]).sum(1).mean()
        assert radius == pytest.approx(1)
    # Alignment makes layers agree: no rotation brings layer 1 nearer to layer 2.
    product = found.points["1"].T @ found.points["2"]
    assert np.trace(product) == pytest.approx(np.linalg.svd(product)[1].sum())
    assert found.groups() == [one.sense or "?" for one in found.occurrences.items]
    assert found._repr_html_().count("<circle") == count
    spelled = word_map(index, "the", ignore_case=False, limit=50)
    assert not spelled.points["0"].any()  # one word, one vector

"""The surest mistakes come first, and right predictions never."""

from __future__ import annotations

import numpy as np

from elmo.classify.mistakes import Mistake, most_confident_mistakes

PROBABILITIES = np.array(
    [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.2, 0.0, 0.8], [0.1, 0.9, 0.0], [0.0, 0.2, 0.8]]
)
GOLD = np.array([0, 1, 0, 2, 1])
TEXTS = ["t0", "t1", "t2", "t3", "t4"]


def test_the_surest_come_first() -> None:
    found = most_confident_mistakes(PROBABILITIES, GOLD, TEXTS, ["a", "b", "c"])
    assert [mistake.row for mistake in found] == [3, 2, 4, 1]
    assert found[0] == Mistake(3, None, "t3", "c", "b", 0.9, 0.0)


def test_as_many_as_asked_for_with_their_places() -> None:
    places = [f"row {number}" for number in range(5)]
    found = most_confident_mistakes(PROBABILITIES, GOLD, TEXTS, "abc", 2, places=places)
    assert [mistake.place for mistake in found] == ["row 3", "row 2"]


def test_no_mistake_no_record() -> None:
    assert most_confident_mistakes(np.eye(3), np.arange(3), TEXTS, "abc") == []

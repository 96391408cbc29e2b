"""Several classifiers, one by one and together."""

from __future__ import annotations

import numpy as np

from agnews_paired import all_of_them, together


def test_mean_deviation_average_and_vote() -> None:
    gold = np.array([0, 1, 1, 0])
    found = [
        np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.4, 0.6]], np.float32),
        np.array([[0.4, 0.6], [0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], np.float32),
    ]
    assert all_of_them(found, gold) == (
        "Mean and deviation: 0.3750 ± 0.1768. Their probabilities averaged: 0.5000. "
        "A vote of these 2 runs: 0.5000; wrong in all of them: 0.5000 of the test rows."
    )


def test_a_vote_and_what_all_have_wrong() -> None:
    gold = np.array([0, 1, 2, 2, 1])
    runs = [[0, 1, 2, 0, 0], [0, 1, 0, 1, 1], [0, 0, 1, 1, 1]]  # a tie in the third row
    said = together([np.array(one) for one in runs], gold)
    assert said == (
        "A vote of these 3 runs: 0.8000; wrong in all of them: 0.2000 of the test rows."
    )

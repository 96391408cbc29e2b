"""Rows are found by what they are, and test rows choose none."""

from __future__ import annotations

from dataclasses import replace

from tests.study.report.builder import REFERENCE

from elmo.study.report.found_rows import (
    best,
    group_of,
    in_groups,
    learns_weights,
    named,
    of_group,
    reference,
    title,
    with_weights,
)
from elmo.study.results import StudyResults


def test_the_reference_is_what_the_pairs_say(results: StudyResults) -> None:
    found = reference(results)
    assert found is not None
    assert found.name == REFERENCE
    assert reference(replace(results, rows=(found,))) is None


def test_the_best_is_the_best_on_development_rows(results: StudyResults) -> None:
    rows = list(results.rows[:3])
    lucky = replace(rows[0], test_accuracy=replace(rows[0].test_accuracy, mean=0.999))
    found = best([lucky, *rows[1:]])
    assert found is not None
    assert found.name == "tfidf"
    assert best([]) is None


def test_titles_of_rows_failures_methods_and_strangers(results: StudyResults) -> None:
    names = ("tfidf", "svd-12", "skipgram", "else")
    titles = [title(results, name) for name in names]
    assert titles == ["TF-IDF, linear SVM", "SVD, window 12", "Skip-gram", "else"]
    assert [group_of(results, name) for name in ("layer-1", *names)] == [
        "elmo",
        "control",
        "control",
        "static",
        "control",
    ]


def test_groups_hold_every_row_once(results: StudyResults) -> None:
    assert [row.name for row in in_groups(results)] == [row.name for row in results.rows]
    assert {row.group for row in of_group(results, "static")} == {"static"}


def test_weights_that_are_given_are_not_looked_at(results: StudyResults) -> None:
    rows = with_weights(results)
    assert [row.name for row in rows] == ["frozen", "trainable", "fine-tuned"]
    assert [learns_weights(row) for row in rows] == [False, True, True]
    assert named(results, "average") not in rows


def test_one_layer_has_no_weights_to_speak_of(results: StudyResults) -> None:
    row = results.rows[4]
    seeds = tuple(replace(seed, layer_weights=(1.0,)) for seed in row.seeds)
    assert with_weights(replace(results, rows=(replace(row, seeds=seeds),))) == []

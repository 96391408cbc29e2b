"""Labels are called saved where the accuracies say so; settings matter where test rows can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.report.builder import language_model, spread, study_results

from elmo.study.report.curve_analysis import (
    curves,
    history_sentence,
    language_model_sentence,
    savings,
    savings_sentences,
    sweep_sentence,
)
from elmo.study.results import SamplePoint, StudyResults, Sweep, SweepPoint

RESULTS = study_results()
SIZES = (40, 200, 1000, 4000)


def points(row: str, accuracies: list[float]) -> list[SamplePoint]:
    return [
        SamplePoint(row=row, per_class=rows // 4, train_rows=rows, test_accuracy=spread([accuracy]))
        for rows, accuracy in zip(SIZES, accuracies, strict=False)
    ]


def with_curves(elmo: list[float], tfidf: list[float]) -> StudyResults:
    samples = (*points("trainable", elmo), *points("tfidf", tfidf))
    return replace(RESULTS, samples=samples)


def test_savings_as_they_read() -> None:
    results = with_curves([0.70, 0.80, 0.88, 0.90], [0.50, 0.69, 0.79, 0.88])
    assert savings_sentences(results) == [
        "ELMo (trainable λs) gets at least as many test rows right as TF-IDF (linear SVM) (mean "
        "over seeds) with fewer labels: 10 a class instead of 50 a class, 50 a class instead of "
        "250 a class and 250 a class instead of 1,000 a class."
    ]


def test_no_savings_are_claimed_where_there_are_none() -> None:
    results = with_curves([0.50, 0.69, 0.79, 0.88], [0.50, 0.70, 0.80, 0.89])
    (text,) = savings_sentences(results)
    assert text.startswith("At no size tried")
    assert "fewer labels:" not in text


LISTS = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(LISTS, LISTS)
def test_every_saving_is_true_and_none_is_missing(elmo: list[float], tfidf: list[float]) -> None:
    found = savings(points("trainable", elmo), points("tfidf", tfidf))
    for one in found:
        assert one.few.train_rows < one.many.train_rows
        assert one.few.test_accuracy.mean >= one.many.test_accuracy.mean
    expected = {
        SIZES[more] for more in range(4) if any(elmo[few] >= tfidf[more] for few in range(more))
    }
    assert {one.many.train_rows for one in found} == expected


def test_all_labels_are_named_as_such() -> None:
    results = with_curves([0.9], [0.5, 0.6])
    whole = replace(results.samples[-1], per_class=None, train_rows=89_847)
    (text,) = savings_sentences(replace(results, samples=(*results.samples[:-1], whole)))
    assert "10 a class instead of all 89,847." in text


def test_curves_go_from_few_labels_to_many(results: StudyResults) -> None:
    shuffled = replace(results, samples=results.samples[::-1])
    for found in curves(shuffled).values():
        assert [point.per_class for point in found] == [10, 50, 250, 1000, 5000, None]


def test_without_elmo_there_is_nothing_to_save() -> None:
    assert savings_sentences(replace(RESULTS, samples=tuple(points("tfidf", [0.5, 0.6])))) == []


def sweep(*tests: float) -> Sweep:
    found = tuple(
        SweepPoint(value=float(n), development_accuracy=one - 0.01, test_accuracy=one)
        for n, one in enumerate(tests)
    )
    return Sweep(setting="dim", row="skipgram", train_rows=20_000, points=found)


@pytest.mark.parametrize(("tests", "tells"), [((0.90, 0.905), False), ((0.90, 0.93), True)])
def test_settings_matter_where_test_rows_can_tell(tests: tuple[float, ...], tells: bool) -> None:
    text = sweep_sentence(sweep(*tests), RESULTS)
    assert text.startswith(f"dim of Skip-gram: {len(tests) - 1} was best on the development rows")
    assert ("no difference in test accuracy that 7,600 rows can show" in text) != tells
    assert (f"go from {min(tests):.4f} to {max(tests):.4f}" in text) == tells


def test_one_value_makes_no_difference_to_speak_of() -> None:
    text = sweep_sentence(sweep(0.9), RESULTS)
    assert text.endswith("(0.8900; test 0.9000), the only value there is.")


def test_the_best_value_is_chosen_by_development_rows() -> None:
    first, second = sweep(0.90, 0.93).points
    lucky = replace(first, development_accuracy=0.99)
    text = sweep_sentence(replace(sweep(), points=(lucky, second)), RESULTS)
    assert "dim of Skip-gram: 0 was best on the development rows (0.9900; test 0.9000)" in text


def test_the_language_model_as_it_reads() -> None:
    model = language_model()
    assert language_model_sentence(model) == (
        "The biLM (trained by this study) has 2 LSTM layers of 256 numbers a direction, 11,641,602 "
        "parameters and a vocabulary of 37,122 words. Its perplexity on held-out text is 86.56. Of "
        "the held-out words, it predicts 0.2973 first. Training took 1 h 4 min."
    )
    given_one = replace(model, perplexity=None, accuracy=None, seconds=None)
    assert language_model_sentence(given_one).endswith("37,122 words.")


def test_perplexity_at_its_lowest() -> None:
    model = language_model()
    assert "lowest (86.56) at the end" in history_sentence(model)
    rising = replace(model, history=(*model.history, replace(model.history[0], epoch=5)))
    assert "lowest (86.56) after epoch 4, then rose" in history_sentence(rising)
    assert history_sentence(replace(model, history=model.history[:1])) == ""

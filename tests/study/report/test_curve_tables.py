"""The numbers behind figures are those of the results."""

from __future__ import annotations

from statistics import fmean, stdev

from tests.study.report.test_tables import lines

from elmo.study.report.curve_tables import (
    draws_table,
    history_table,
    samples_table,
    sweeps_table,
    weights_table,
)
from elmo.study.report.found_rows import with_weights
from elmo.study.results import StudyResults


def test_weights_over_seeds(results: StudyResults) -> None:
    rows = {row.title: row for row in with_weights(results)}
    found = lines(weights_table(list(rows.values())))
    trainable = rows["ELMo, trainable λs"]
    for layer in range(3):
        values = [one.layer_weights[layer] for one in trainable.seeds if one.layer_weights]
        cell = found["ELMo, trainable λs"][1 + layer]
        assert cell == f"{fmean(values):.4f} ± {stdev(values):.4f}"
    assert found["ELMo, trainable λs"][0] == "3"
    assert found["ELMo, fine-tuned"][-1] == "0.6100"


def test_draws_from_the_best_on(results: StudyResults) -> None:
    assert results.draws is not None
    found = [line for part in draws_table(results.draws).parts for line in part.lines]
    by_seed = {str(one.seed): one for one in results.draws.draws}
    development = [by_seed[line[0]].development_accuracy for line in found]
    assert development == sorted(development, reverse=True)
    for line in found:
        draw = by_seed[line[0]]
        assert [float(cell) for cell in line[1:4]] == [round(w, 4) for w in draw.layer_weights]
        assert line[-1] == f"{draw.test_accuracy:.4f}"


def test_a_column_a_size(results: StudyResults) -> None:
    table = samples_table(results)
    titles = [column.title for column in table.columns[1:]]
    sizes = ["10 a class", "50 a class", "250 a class", "1,000 a class", "5,000 a class", "all"]
    assert titles == sizes
    point = results.samples[0]
    spread = point.test_accuracy
    assert lines(table)["TF-IDF, linear SVM"][0] == f"{spread.mean:.4f} ± {spread.deviation:.4f}"


def test_sweeps_keep_their_notes(results: StudyResults) -> None:
    table = sweeps_table(results.sweeps, results)
    assert [part.title.partition(",")[0] for part in table.parts] == [
        "dim", "mix-pull", "learning-rate",
    ]  # fmt: skip
    assert table.parts[0].lines[0] == ("50", "0.8662", "0.8702", "perplexity 101.7")
    assert table.parts[0].group == "static"


def test_perplexities_by_epoch(results: StudyResults) -> None:
    assert results.language_model is not None
    found = lines(history_table(results.language_model))
    assert found["1"] == ("146.23", "143.33", "144.78")

"""Figures are those of the predictions, and the files hold them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix
from tests.classify.toy import toy_config, toy_model, toy_texts

from elmo.classify.evaluate import evaluate, write_evaluation
from elmo.classify.labelled import LabelledTexts
from elmo.classify.train import train
from elmo.errors import UserError

CLASSIFIER = train(toy_model(), toy_texts(), toy_config()).classifier


def test_against_predictions_and_scikit_learn(tmp_path: Path) -> None:
    data = toy_texts(40, seed=3)
    evaluation = evaluate(CLASSIFIER, data)
    predicted = [one.label for one in CLASSIFIER.predict(data.texts)]
    assert evaluation.metrics.accuracy.value == accuracy_score(data.labels, predicted)
    wanted = confusion_matrix(data.labels, predicted, labels=list(CLASSIFIER.labels.names))
    np.testing.assert_array_equal(evaluation.metrics.confusion, wanted)
    write_evaluation(evaluation, "test", tmp_path)
    written = json.loads((tmp_path / "metrics_test.json").read_text())
    assert written["confusion"] == wanted.tolist()
    wrong = sum(map(str.__ne__, data.labels or (), predicted))
    assert len(json.loads((tmp_path / "mistakes_test.json").read_text())) == wrong
    assert (tmp_path / "confusion_test.png").read_bytes().startswith(b"\x89PNG")


def test_empty_texts_are_counted_and_unknown_labels_named() -> None:
    data = LabelledTexts(["cat", " "], ["animals", "weather"], ["row 1", "row 2"])
    assert evaluate(CLASSIFIER, data).empty == (1,)
    strange = LabelledTexts(["cat", "dog"], ["animals", "anmals"], ["row 1", "row 2"])
    with pytest.raises(UserError, match=r"'anmals', first at row 2 \(did you mean 'animals'"):
        evaluate(CLASSIFIER, strange)
    with pytest.raises(UserError, match="have no labels"):
        evaluate(CLASSIFIER, LabelledTexts(["cat"], None, ["row 1"]))

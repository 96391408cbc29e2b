"""ElmoVectorizer is a scikit-learn transformer: pipelines, grids, cross-validation, pickles."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from tests.tiny_models import make_model

from elmo import ElmoVectorizer, Embedder
from elmo.errors import UserError

TEXTS = ["the cat sat", "the dog sat", "雨", "雨 雨", "a cat", "雨 on 雨"] * 4
LABELS = [0, 0, 1, 1, 0, 1] * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectorizer") / "model"
    make_model().save_pretrained(folder)
    return folder


def test_vectors_are_those_of_the_embedder(folder: Path) -> None:
    vectorizer = ElmoVectorizer(folder, pooling="mean+max", normalize=True)
    expected = Embedder.from_pretrained(folder).encode(TEXTS, pooling="mean+max", normalize=True)
    np.testing.assert_array_equal(vectorizer.fit_transform(TEXTS), expected)
    assert len(vectorizer.get_feature_names_out()) == expected.shape[1]
    assert ElmoVectorizer(folder, layer="all").transform(TEXTS).shape == (24, 3 * 12)


def test_clone_and_parameters(folder: Path) -> None:
    vectorizer = ElmoVectorizer(folder, layer=1).fit(TEXTS)
    copied = clone(vectorizer)
    assert copied.get_params() == vectorizer.get_params()
    assert not hasattr(copied, "embedder_")
    assert copied.set_params(layer="top").layer == "top"


def test_pipeline_cross_validation_and_grid(folder: Path) -> None:
    pipeline = make_pipeline(ElmoVectorizer(folder), LogisticRegression())
    assert cross_val_score(pipeline, TEXTS, LABELS, cv=3).mean() == 1
    grid = GridSearchCV(pipeline, {"elmovectorizer__layer": [0, "top"]}, cv=2).fit(TEXTS, LABELS)
    assert grid.best_score_ == 1


def test_a_fitted_pipeline_is_pickled(folder: Path) -> None:
    pipeline = make_pipeline(ElmoVectorizer(folder), LogisticRegression()).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), pipeline.predict_proba(TEXTS))


def test_series_and_arrays_of_strings(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    vectorizer = ElmoVectorizer(folder)
    expected = vectorizer.transform(TEXTS)
    np.testing.assert_array_equal(vectorizer.transform(pandas.Series(TEXTS)), expected)
    np.testing.assert_array_equal(vectorizer.transform(np.array(TEXTS)), expected)


def test_one_string_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="put it in a list"):
        ElmoVectorizer(folder).transform("the cat")

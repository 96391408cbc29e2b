"""ElmoVectorizer is a scikit-learn transformer: pipelines, grids, cross-validation, pickles."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from tests.tiny_models import make_model

from elmo import ElmoVectorizer, Embedder
from elmo.companion import CompanionVectors
from elmo.errors import UserError

TEXTS = ["the cat sat", "the dog sat", "雨", "雨 雨", "a cat", "雨 on 雨"] * 4
LABELS = [0, 0, 1, 1, 0, 1] * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectorizer") / "model"
    make_model().save_pretrained(folder)
    return folder


def test_vectors_are_those_of_the_embedder(folder: Path) -> None:
    vectorizer = ElmoVectorizer(folder, layer="mix", pooling="mean+max", normalize=True)
    expected = Embedder.from_pretrained(folder).encode(TEXTS, pooling="mean+max", normalize=True)
    np.testing.assert_array_equal(vectorizer.fit_transform(TEXTS), expected)
    assert len(vectorizer.get_feature_names_out()) == expected.shape[1]
    layers = Embedder.from_pretrained(folder).encode(TEXTS, layer="all", pooling="mean+std")
    np.testing.assert_array_equal(ElmoVectorizer(folder).transform(TEXTS), layers.reshape(24, -1))


def test_static_vectors_of_the_model_go_first(folder: Path, tmp_path: Path) -> None:
    static = {"the": [1.0, 0.0], "cat": [0.0, 3.0], "dog": [0.5, 0.5]}  # from frequent to rare
    shutil.copytree(folder, tmp_path / "both")
    CompanionVectors.of(list(static), np.array(list(static.values()), np.float32)).save(
        tmp_path / "both"
    )
    vectorizer = ElmoVectorizer(tmp_path / "both")
    vectors = vectorizer.fit_transform(["The cat sat", "雨"])
    # Ranks 0 and 1: weights a / (a + p) with a = 0.001 and p = 0.1 / (rank + 1).
    weights = np.array([0.001 / 0.101, 0.001 / 0.051])
    expected = weights @ np.array([[1, 0], [0, 3]]) / weights.sum()
    np.testing.assert_allclose(vectors[:, :2], [expected, [0, 0]], atol=0.02)  # eight bits
    alone = ElmoVectorizer(folder, word_vectors=None).transform(["The cat sat", "雨"])
    np.testing.assert_array_equal(vectors[:, 2:], alone)
    without = ElmoVectorizer(tmp_path / "both", word_vectors=False)
    np.testing.assert_array_equal(without.transform(["The cat sat", "雨"]), alone)
    assert len(vectorizer.get_feature_names_out()) == vectors.shape[1]


def test_static_vectors_that_a_model_does_not_have_are_an_error(folder: Path) -> None:
    with pytest.raises(UserError, match="no static vectors come with it"):
        ElmoVectorizer(folder, word_vectors=True).fit([])


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

"""ELMo as a scikit-learn transformer: pipelines, grid search, cross-validation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.companion import CompanionVectors
from elmo.config import SHIPPED
from elmo.embed.config import EncodeConfig, Layer, Start
from elmo.embed.embedder import Dtype, Embedder, Vectors
from elmo.errors import UserError
from elmo.text.sources import iterated

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, TransformerMixin
else:
    try:
        from sklearn.base import BaseEstimator, TransformerMixin
    except ModuleNotFoundError:  # it still transforms; pipelines need scikit-learn anyway
        BaseEstimator, TransformerMixin = type("Estimator", (), {}), type("Transformer", (), {})


class ElmoVectorizer(TransformerMixin, BaseEstimator):
    """Turns texts into the features [x; ELMo] of a linear model: static and contextual vectors.

    >>> scaled = make_pipeline(ElmoVectorizer(), StandardScaler(), LogisticRegression())
    >>> cross_val_score(scaled, texts, labels)

    Args:
        model: a model folder; "default" is the model that comes with elmo.
        layer, pooling, normalize, initial_state, batch_tokens: as in `Embedder.encode`; layer="all"
            puts the layers side by side.
        word_vectors: whether the average of static vectors (x) goes before the pooled layers;
            default: if such vectors come with the model, as with "default".
        device, dtype: as in `Embedder.from_pretrained`.
    """

    def __init__(
        self,
        model: str | Path = SHIPPED,
        *,
        layer: Layer = "all",
        pooling: str = "mean+std",
        word_vectors: bool | None = None,
        normalize: bool = False,
        initial_state: Start = "zero",
        batch_tokens: int | None = None,
        device: str = "cpu",
        dtype: Dtype = "float32",
    ) -> None:
        self.model = model
        self.layer: Layer = layer
        self.pooling = pooling
        self.word_vectors = word_vectors
        self.normalize = normalize
        self.initial_state: Start = initial_state
        self.batch_tokens = batch_tokens
        self.device = device
        self.dtype: Dtype = dtype

    def fit(self, X: Iterable[str], y: object = None) -> ElmoVectorizer:  # noqa: N803
        """Load the model; nothing is learned from the texts."""
        embedder = Embedder.from_pretrained(self.model, device=self.device, dtype=self.dtype)
        if self.word_vectors and embedder.loaded.word_vectors is None:
            raise UserError(f"{self.model}: no static vectors come with it; use word_vectors=None")
        self.embedder_ = embedder
        config = EncodeConfig(layer=self.layer, pooling=self.pooling)
        self.n_features_out_ = math.prod(embedder.encoder(config).row_shape)
        if (static := self._static_vectors()) is not None:
            self.n_features_out_ += static.dim
        return self

    def _static_vectors(self) -> CompanionVectors | None:
        """Those of the embedder, whose pickle is a path: an attribute would be pickled as well."""
        return None if self.word_vectors is False else self.embedder_.loaded.word_vectors

    def transform(self, X: Iterable[str]) -> Vectors:  # noqa: N803
        """The vectors of texts, (texts, dim): a list, an array or a pandas Series of strings."""
        if not hasattr(self, "embedder_"):
            self.fit([])  # nothing is learned, so an unfitted vectorizer can transform too
        texts = list(iterated(X))
        vectors = self.embedder_.encode(
            texts,
            layer=self.layer,
            pooling=self.pooling,
            normalize=self.normalize,
            initial_state=self.initial_state,
            batch_tokens=self.batch_tokens,
        )
        vectors = vectors.reshape(len(vectors), math.prod(vectors.shape[1:]))
        if (static := self._static_vectors()) is None:
            return vectors
        averages = static.averages(map(self.embedder_.loaded.words, texts))
        return np.concatenate([averages, vectors], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> list[str]:
        """elmo0, elmo1, …"""
        return [f"elmo{index}" for index in range(self.n_features_out_)]

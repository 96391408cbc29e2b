"""A classifier that is ready to be used: texts in, a probability for each label out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.checkpoint import LoadedModel, Text
from elmo.classify.config import ClassifierConfig
from elmo.classify.labels import Labels
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.classify.text_rows import OnTexts, TextRows, cut_into_words
from elmo.errors import UserError
from elmo.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of a text."""

    label: str
    probabilities: dict[str, float]
    empty: bool
    """The text has no words, so the label says nothing of it."""


@dataclass(frozen=True)
class TextClassifier:
    """A biLM, the network on top of it, and the names of the classes."""

    loaded: LoadedModel
    network: ClassifierNetwork
    own: Vocabulary
    """The words for which the network has vectors of its own."""
    labels: Labels
    config: ClassifierConfig

    def rows(self, texts: Sequence[Text]) -> TextRows:
        """Texts cut into words, ready to be read."""
        if isinstance(texts, str):
            raise UserError("expected several texts, got one string; put it in a list: [text]")
        network = self.config.network
        words = cut_into_words(self.loaded, texts, network.max_words)
        return TextRows(words, self.own, network.own_lower_case)

    def probabilities(
        self, texts: Sequence[Text] | TextRows, on_texts: OnTexts | None = None
    ) -> NDArray[np.float32]:
        """The probability of each class, (texts, classes); of a text always the same, whatever
        stands beside it."""
        rows = texts if isinstance(texts, TextRows) else self.rows(texts)
        found = np.zeros((len(rows), len(self.labels)), np.float32)
        for numbers, read in rows.read_all(self.loaded.model):
            own = rows.own_numbers(numbers).to(self.loaded.model.device)
            with torch.no_grad():
                scores = self.network(TextLayers(read.layers, read.lengths, own))
            found[numbers] = scores.softmax(dim=1).float().cpu().numpy()
            if on_texts is not None:
                on_texts(len(numbers), int(read.lengths.sum()))
        return found

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """The most probable label of each text, with all probabilities."""
        rows = self.rows(texts)
        return [
            Prediction(
                label=self.labels.names[int(probabilities.argmax())],
                probabilities=dict(zip(self.labels.names, probabilities.tolist(), strict=True)),
                empty=not words,
            )
            for words, probabilities in zip(rows.words, self.probabilities(rows), strict=True)
        ]

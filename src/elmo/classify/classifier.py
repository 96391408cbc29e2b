"""Classifier folders: self-contained, data only, loaded in one call.

classifier.json          settings, labels, and which biLM it needs
classifier.safetensors   the network
own_words.txt            the words it has vectors of its own for
bilm/                    the biLM, unless the folder names one elsewhere
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.classify.config import ClassifierConfig
from elmo.classify.data import LabelledTexts, Labels
from elmo.classify.features import OnTexts, TextRows, cut_into_words
from elmo.classify.metrics import Metrics, Mistake, measure, most_confident_mistakes
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.config import CLASSIFIER, check, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_json, sha256, write_json
from elmo.language_model import is_official, official_files, open_model
from elmo.model_folder import (
    VOCABULARY,
    WEIGHTS,
    LoadedModel,
    Precision,
    Text,
    load_tensors,
    save_config,
    save_tensors,
    save_weights,
    without_weights,
)
from elmo.text.vocabulary import Vocabulary

# A classifier that is ready to be used: texts in, a probability for each label out.


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


FORMAT = 1
DESCRIPTION, NETWORK, OWN_WORDS, BILM = (
    "classifier.json",
    "classifier.safetensors",
    "own_words.txt",
    "bilm",
)


@dataclass(frozen=True, kw_only=True)
class BiLMReference:
    """Which biLM a classifier was trained on."""

    path: str
    """The folder, from the classifier's own; "bilm" is inside it."""
    sha256: str
    """Of its file of weights."""


@dataclass(frozen=True, kw_only=True)
class ClassifierDescription:
    """What classifier.json holds."""

    format: int
    labels: tuple[str, ...]
    bilm: BiLMReference
    config: ClassifierConfig


def save_classifier(
    classifier: TextClassifier,
    folder: Path,
    *,
    bilm: Path | None = None,
    precision: Precision = "fp32",
) -> None:
    """Write a classifier into an empty folder; with `bilm`, that folder is named, not copied."""
    kind = torch.float32 if precision == "fp32" else torch.bfloat16
    tensors = {name: tensor.to(kind) for name, tensor in _tensors(classifier.network).items()}
    save_tensors(folder / NETWORK, tensors)
    classifier.own.save(folder / OWN_WORDS)
    if bilm is None:
        _save_bilm(classifier.loaded, folder / BILM, precision)
    reference = BiLMReference(
        path=BILM if bilm is None else str(bilm.resolve()),
        sha256=sha256(weights_file(bilm or folder / BILM)),
    )
    description = ClassifierDescription(
        format=FORMAT,
        labels=classifier.labels.names,
        bilm=reference,
        config=classifier.config,
    )
    write_json(folder / DESCRIPTION, to_json(description))


def load_classifier(folder: Path | str = CLASSIFIER, device: str = "cpu") -> TextClassifier:
    """Open a classifier folder, by default the news classifier that comes with elmo.

    Sizes are checked against its settings before memory is taken.
    """
    folder = Path(folder)
    description = describe_classifier(folder)
    loaded = _bilm(folder, description.bilm, device)
    own = Vocabulary.load(_inside(folder, OWN_WORDS))
    network = _network(folder, description, loaded, len(own))
    return TextClassifier(
        loaded, network.to(device), own, Labels(description.labels), description.config
    )


def describe_classifier(folder: Path) -> ClassifierDescription:
    """What a classifier folder says of itself."""
    if not (folder / DESCRIPTION).exists():
        raise UserError(
            f"{folder}: not a classifier folder, it has no {DESCRIPTION}; "
            "make one with elmo classify train"
        )
    path = _inside(folder, DESCRIPTION)
    description = from_json(ClassifierDescription, read_json(path), str(path))
    if description.format != FORMAT:
        raise UserError(
            f"{path}: format {description.format}, but this version of elmo reads {FORMAT}"
        )
    if len(set(description.labels)) != len(description.labels) or len(description.labels) < 2:
        raise UserError(f"{path}: expected two or more different labels")
    check(description.config)
    return description


def weights_file(model: Path) -> Path:
    """The file that holds a model's weights, in a folder of ours or of official files."""
    return official_files(model).weights if is_official(model) else model / WEIGHTS


def _save_bilm(loaded: LoadedModel, folder: Path, precision: Precision) -> None:
    folder.mkdir()
    known = ("format", "model", "tokenizer")
    stages = {name: stage for name, stage in loaded.config.items() if name not in known}
    save_config(folder, loaded.model.config, loaded.tokenizer, stages)
    loaded.model.vocabulary.save(folder / VOCABULARY)
    save_weights(folder / WEIGHTS, loaded.model, precision)


def _bilm(folder: Path, reference: BiLMReference, device: str) -> LoadedModel:
    named = Path(reference.path)
    path = named if named.is_absolute() else _inside(folder, reference.path)
    loaded = open_model(path, device)
    if sha256(weights_file(path)) != reference.sha256:
        raise UserError(
            f"{path}: not the biLM that the classifier in {folder} was trained on (its weights "
            "have another checksum); put the right one there, or train the classifier anew"
        )
    loaded.model.requires_grad_(False)
    return loaded


def _network(
    folder: Path, description: ClassifierDescription, loaded: LoadedModel, own: int
) -> ClassifierNetwork:
    bilm = loaded.model.config
    with without_weights():
        network = ClassifierNetwork(
            description.config.network,
            1 + bilm.layers,
            2 * bilm.width,
            len(description.labels),
            own,
        )
    shapes = {name: tuple(tensor.shape) for name, tensor in _tensors(network).items()}
    tensors = load_tensors(_inside(folder, NETWORK), shapes)
    network.load_state_dict({name: one.float() for name, one in tensors.items()}, assign=True)
    return network.eval()


def _tensors(network: ClassifierNetwork) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder, which may not lead out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path}: leads out of the classifier folder, which holds its own files")
    return path


# How good a classifier is on labelled texts: figures, mistakes and pictures, written to files.


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """What a classifier achieves on some texts."""

    metrics: Metrics
    mistakes: tuple[Mistake, ...]
    """Those it was surest of, the surest first."""
    empty: tuple[int, ...]
    """The rows whose texts have no words."""


def evaluate(
    classifier: TextClassifier, data: LabelledTexts, on_texts: OnTexts | None = None
) -> Evaluation:
    """Classify texts whose labels are known; a label that training did not know is a mistake."""
    if data.labels is None:
        raise UserError("expected labelled texts, but these have no labels")
    gold = classifier.labels.encode(data.labels, data.places)
    started = time.monotonic()
    rows = classifier.rows(data.texts)
    probabilities = classifier.probabilities(rows, on_texts)
    seconds = time.monotonic() - started
    empty = tuple(row for row, words in enumerate(rows.words) if not words)
    return judge(data, gold, probabilities, classifier.labels.names, empty, len(gold) / seconds)


def judge(
    data: LabelledTexts,
    gold: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    names: Sequence[str],
    empty: tuple[int, ...] = (),
    rows_per_second: float | None = None,
) -> Evaluation:
    """Compare probabilities that were computed before with the right classes."""
    metrics = measure(probabilities, gold, names, rows_per_second=rows_per_second)
    mistakes = most_confident_mistakes(probabilities, gold, data.texts, names, places=data.places)
    return Evaluation(metrics, tuple(mistakes), empty)


def write_evaluation(evaluation: Evaluation, part: str, folder: Path) -> None:
    """Write figures and mistakes as JSON and the confusion matrix as a picture."""
    write_json(folder / f"metrics_{part}.json", to_json(evaluation.metrics))
    write_json(folder / f"mistakes_{part}.json", [to_json(one) for one in evaluation.mistakes])
    if can_draw():
        from elmo.classify.plots import draw_confusion

        draw_confusion(evaluation.metrics, part, folder / f"confusion_{part}.png")


def can_draw() -> bool:
    """Whether pictures can be drawn; if not, it is said how they could be."""
    from elmo.errors import require_extra

    try:
        require_extra("matplotlib", "study")
    except UserError as error:
        log.warning("no pictures: %s", error)
        return False
    return True

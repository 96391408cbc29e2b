"""`TextClassifier`: trained on texts and labels, saved to and loaded from a folder.

classifier.json          settings, labels, and which biLM it needs
classifier.safetensors   the network
own_words.txt            the words that have a task embedding
bilm/                    the biLM, unless the folder refers to one elsewhere
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.classify.config import ClassifierConfig
from elmo.classify.data import LabelledTexts, encode_labels
from elmo.classify.features import MAX_WORD_VECTORS, OnTexts, TokenizedTexts, tokenize_texts
from elmo.classify.metrics import (
    MAX_DENSE_LABELS,
    Evaluation,
    measure,
    most_confident_mistakes,
)
from elmo.classify.network import ClassifierNetwork
from elmo.config import BILM as NEWS_BILM
from elmo.config import CLASSIFIER as NEWS_CLASSIFIER
from elmo.config import check, from_json, to_json
from elmo.errors import UserError, require_extra
from elmo.files import read_json, sha256, write_json
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import (
    VOCABULARY,
    WEIGHTS,
    Precision,
    Text,
    is_official,
    load_tensors,
    save_config,
    save_tensors,
    save_weights,
    without_weights,
)
from elmo.official.format import official_files
from elmo.static.vectors import StaticVectors
from elmo.text.vocabulary import Vocabulary

FORMAT = 1
DESCRIPTION, NETWORK, TASK_WORDS, BILM = (
    "classifier.json",
    "classifier.safetensors",
    "own_words.txt",
    "bilm",
)
SAVED_NAMES = {"task_embedding.weight": "own_words.weight"}
"""Tensors whose name in classifier.safetensors is not that of the module."""

log = logging.getLogger(__name__)


class TextClassifier:
    """Assigns one of several labels to each text: a biLM, and a network over its layers.

    Shaped like a scikit-learn classifier. Texts are strings or lists of words.

    Args:
        model: Folder of a biLM, or of official files. Default: the news model that comes with elmo.
        config: Settings of network and training. Default: `ClassifierConfig()`.
        word_vectors: File of word vectors in word2vec's or GloVe's format that initialise the task
            embeddings. Default: none, they start random.
        device: "cpu", "cuda", "cuda:1", …

    Example:
        >>> classifier = TextClassifier().fit(texts, labels)
        >>> classifier.predict(["Oil prices fell on Monday ."])
        array(['Business'], dtype='<U8')
        >>> classifier.save_pretrained("topics")
        >>> classifier = TextClassifier.from_pretrained("topics")
    """

    classes_: NDArray[Any]
    """The labels in the order of the columns of `predict_proba`; set by `fit`."""
    config_: ClassifierConfig
    """The settings it was trained with."""
    language_model: LanguageModel
    network: ClassifierNetwork
    task_vocabulary: Vocabulary
    """The words that have a task embedding."""
    labels: tuple[str, ...]
    """The labels as they are saved."""

    def __init__(
        self,
        model: Path | str = NEWS_BILM,
        config: ClassifierConfig | None = None,
        *,
        word_vectors: Path | str | None = None,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.config = config
        self.word_vectors = word_vectors
        self.device = device

    @classmethod
    def from_parts(
        cls,
        language_model: LanguageModel,
        network: ClassifierNetwork,
        task_vocabulary: Vocabulary,
        labels: Sequence[str],
        config: ClassifierConfig,
    ) -> TextClassifier:
        """A classifier that has been trained already."""
        classifier = cls(config=config, device=str(language_model.model.device))
        classifier.language_model, classifier.network = language_model, network
        classifier.task_vocabulary, classifier.labels = task_vocabulary, tuple(labels)
        classifier.config_, classifier.classes_ = config, np.array(labels)
        return classifier

    @classmethod
    def from_pretrained(
        cls, folder: Path | str = NEWS_CLASSIFIER, *, device: str = "cpu"
    ) -> TextClassifier:
        """Load a classifier folder. Default: the news classifier that comes with elmo.

        Sizes are checked against the settings before memory is allocated. Raises `UserError` for a
        damaged folder, and for one that refers to a biLM whose weights have changed.
        """
        folder = Path(folder)
        description = describe_classifier(folder)
        reference = Path(description.bilm.path)
        bilm = reference if reference.is_absolute() else _inside(folder, description.bilm.path)
        loaded = open_model(bilm, device)
        if sha256(weights_file(bilm)) != description.bilm.sha256:
            raise UserError(
                f"{bilm}: not the biLM that the classifier in {folder} was trained on (its weights "
                "have another checksum); put the right one there, or train the classifier again"
            )
        loaded.model.requires_grad_(False)
        task_vocabulary = Vocabulary.load(_inside(folder, TASK_WORDS))
        sizes = loaded.model.config
        with without_weights():
            network = ClassifierNetwork(
                description.config.network,
                layers=1 + sizes.layers,
                dim=2 * sizes.width,
                classes=len(description.labels),
                task_words=len(task_vocabulary),
            )
        shapes = {name: tuple(tensor.shape) for name, tensor in _saved_tensors(network).items()}
        tensors = load_tensors(_inside(folder, NETWORK), shapes)
        names = {saved: name for name, saved in SAVED_NAMES.items()}
        network.load_state_dict(
            {names.get(name, name): tensor.float() for name, tensor in tensors.items()}, assign=True
        )
        return cls.from_parts(
            loaded,
            network.eval().to(device),
            task_vocabulary,
            description.labels,
            description.config,
        )

    def fit(self, texts: Iterable[Text], labels: Iterable[Any]) -> TextClassifier:
        """Train on texts and their labels, of any type whose `str` tells them apart.

        Returns:
            The classifier itself.
        """
        from elmo.classify.training import train

        rows: list[Any] = _several(texts)
        values = list(labels)
        names = [str(label) for label in values]
        if len(rows) != len(values):
            raise UserError(
                f"expected one label per text, got {len(rows)} texts and {len(values)} labels"
            )
        vectors = None
        if self.word_vectors is not None:
            vectors = StaticVectors.load(self.word_vectors, MAX_WORD_VECTORS)
        trained = train(
            open_model(self.model, self.device),
            LabelledTexts(rows, names, [f"row {row}" for row in range(len(rows))]),
            self.config or ClassifierConfig(),
            word_vectors=vectors,
        ).classifier
        value_of = dict(zip(names, values, strict=True))
        for name in ("language_model", "network", "task_vocabulary", "labels", "config_"):
            setattr(self, name, getattr(trained, name))
        self.classes_ = np.array([value_of[name] for name in self.labels])
        return self

    def predict(self, texts: Sequence[Text] | TokenizedTexts) -> NDArray[Any]:
        """The most probable label of each text, (texts,)."""
        best = self.predict_proba(texts).argmax(1)
        return self.classes_[best]

    @torch.no_grad()
    def predict_proba(
        self, texts: Sequence[Text] | TokenizedTexts, on_texts: OnTexts | None = None
    ) -> NDArray[np.float32]:
        """The probability of each label, (texts, classes), in the order of `classes_`.

        What else is in the call changes a text's probabilities by at most about 1e-6. A text
        without words gets the probabilities of zero vectors.
        """
        tokenized = texts if isinstance(texts, TokenizedTexts) else self.tokenize(texts)
        probabilities = np.zeros((len(tokenized), len(self.classes_)), np.float32)
        model = self.language_model.model
        for rows, read in tokenized.read_all(model):
            scores = self.network(read)
            probabilities[rows] = scores.softmax(dim=1).float().cpu().numpy()
            if on_texts is not None:
                on_texts(len(rows), int(read.lengths.sum()))
        return probabilities

    def score(self, texts: Sequence[Text], labels: Sequence[Any]) -> float:
        """The accuracy of `predict`."""
        gold: NDArray[Any] = np.asarray(labels)
        return float((self.predict(texts) == gold).mean())

    def evaluate(
        self,
        texts: Sequence[Text],
        labels: Sequence[Any],
        *,
        locations: Sequence[str] | None = None,
        on_texts: OnTexts | None = None,
    ) -> Evaluation:
        """Accuracy, precision, recall, F1, confusions, calibration and the worst mistakes.

        Args:
            locations: Where each text was read, for messages and mistakes.
            on_texts: Called with the number of texts and words that are done.

        Raises:
            UserError: If training did not have one of the labels.
        """
        gold = encode_labels([str(label) for label in labels], self.labels, locations)
        started = time.monotonic()
        tokenized = self.tokenize(texts)
        probabilities = self.predict_proba(tokenized, on_texts)
        pace = len(gold) / (time.monotonic() - started)
        shown = [text if isinstance(text, str) else " ".join(text) for text in texts]
        mistakes = most_confident_mistakes(
            probabilities, gold, shown, self.labels, locations=locations
        )
        return Evaluation(
            measure(probabilities, gold, self.labels, rows_per_second=pace),
            tuple(mistakes),
            empty=tuple(np.flatnonzero(tokenized.lengths == 0).tolist()),
        )

    def tokenize(self, texts: Sequence[Text]) -> TokenizedTexts:
        """The texts as `predict_proba` reads them: words, cut to `max_words`."""
        if not hasattr(self, "network"):
            raise UserError("this classifier is not trained yet; call fit, or use from_pretrained")
        network = self.config_.network
        words = tokenize_texts(self.language_model, _several(texts), network.max_words)
        return TokenizedTexts(words, self.task_vocabulary, network.own_lower_case)

    def save_pretrained(
        self,
        folder: Path | str,
        *,
        bilm: Path | None = None,
        precision: Precision = "fp32",
    ) -> None:
        """Write a new or empty folder that `from_pretrained` loads.

        Args:
            bilm: Refer to the biLM in this folder, by path and checksum, instead of copying it.
            precision: Of the saved weights; bf16 halves the size.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder}: expected a new or an empty folder, but it holds files")
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        tensors = {name: tensor.to(dtype) for name, tensor in _saved_tensors(self.network).items()}
        save_tensors(folder / NETWORK, tensors)
        self.task_vocabulary.save(folder / TASK_WORDS)
        if bilm is None:
            loaded, copied = self.language_model, folder / BILM
            copied.mkdir()
            own = ("format", "model", "tokenizer", "metrics")
            stages = {name: stage for name, stage in loaded.config.items() if name not in own}
            save_config(copied, loaded.model.config, loaded.tokenizer, stages)
            loaded.model.vocabulary.save(copied / VOCABULARY)
            save_weights(copied / WEIGHTS, loaded.model, precision)
        description = ClassifierDescription(
            format=FORMAT,
            labels=self.labels,
            bilm=BiLMReference(
                path=BILM if bilm is None else str(bilm.resolve()),
                sha256=sha256(weights_file(bilm or folder / BILM)),
            ),
            config=self.config_,
        )
        write_json(folder / DESCRIPTION, to_json(description))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in ("model", "config", "word_vectors", "device")}

    def set_params(self, **params: Any) -> TextClassifier:
        """Change arguments of the constructor; takes effect with the next `fit`."""
        for name, value in params.items():
            if name not in self.get_params():
                known = ", ".join(self.get_params())
                raise UserError(f"unknown parameter {name!r}; expected one of {known}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so that it stays an optional dependency.
        tags: Any = require_extra("sklearn.utils", "study")
        return tags.Tags(
            estimator_type="classifier",
            target_tags=tags.TargetTags(required=True),
            classifier_tags=tags.ClassifierTags(),
            input_tags=tags.InputTags(two_d_array=False, string=True),
        )

    def __repr__(self) -> str:
        if not hasattr(self, "network"):
            return f"TextClassifier(model={str(self.model)!r}, not trained)"
        bilm = self.language_model.model.config
        return (
            f"TextClassifier({len(self.labels)} labels, biLM of {bilm.layers} layers, "
            f"{2 * bilm.width} dimensions)"
        )


def load_classifier(folder: Path | str = NEWS_CLASSIFIER, device: str = "cpu") -> TextClassifier:
    """`TextClassifier.from_pretrained`."""
    return TextClassifier.from_pretrained(folder, device=device)


@dataclass(frozen=True, kw_only=True)
class BiLMReference:
    """Which biLM a classifier was trained on."""

    path: str
    """The folder, relative to the classifier's; "bilm" is inside it."""
    sha256: str
    """Of its file of weights."""


@dataclass(frozen=True, kw_only=True)
class ClassifierDescription:
    """What classifier.json holds."""

    format: int
    labels: tuple[str, ...]
    bilm: BiLMReference
    config: ClassifierConfig


def describe_classifier(folder: Path) -> ClassifierDescription:
    """Read classifier.json and check it."""
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


def write_evaluation(evaluation: Evaluation, part: str, folder: Path) -> None:
    """Write metrics and mistakes as JSON and the confusion matrix as a figure."""
    write_json(folder / f"metrics_{part}.json", to_json(evaluation.metrics))
    write_json(folder / f"mistakes_{part}.json", [to_json(one) for one in evaluation.mistakes])
    if len(evaluation.metrics.classes) <= MAX_DENSE_LABELS and can_draw():
        from elmo.classify.plots import draw_confusion

        draw_confusion(evaluation.metrics, part, folder / f"confusion_{part}.png")


def can_draw() -> bool:
    """Whether matplotlib is installed; if not, how to install it is logged."""
    try:
        require_extra("matplotlib", "study")
    except UserError as error:
        log.warning("no figures: %s", error)
        return False
    return True


def _several(texts: Iterable[Text]) -> list[Text]:
    if isinstance(texts, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    return list(texts)


def _saved_tensors(network: ClassifierNetwork) -> dict[str, Tensor]:
    return {
        SAVED_NAMES.get(name, name): tensor.detach()
        for name, tensor in network.state_dict().items()
    }


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder, which may not lead out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path}: leads out of the classifier folder, which holds its own files")
    return path

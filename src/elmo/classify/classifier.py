"""`TextClassifier`: trained on texts and labels, saved to and loaded from a folder.

classifier.json          settings, labels, and which biLM it needs
linear.safetensors       the linear parts, and the weight of each part
classifier.safetensors   the network, if there is one
own_words.txt            the words that have a task embedding in it
bilm/                    the biLM, unless the folder refers to one elsewhere
"""

from __future__ import annotations

import logging
import re
import time
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo import model_folder
from elmo.classify import linear
from elmo.classify.config import ClassifierConfig, upgraded
from elmo.classify.data import LabelledTexts, encode_labels
from elmo.classify.features import (
    OnTexts,
    TokenizedTexts,
    cut_texts,
    load_word_vectors,
    tokenize_texts,
)
from elmo.classify.label_sets import Thresholds, joined_labels, label_array, saved_thresholds
from elmo.classify.metrics import MAX_DENSE_LABELS, Evaluation, evaluation_of
from elmo.classify.network import ClassifierNetwork
from elmo.config import CLASSIFIER, SHIPPED, Json, check, from_json, model_name, to_json
from elmo.errors import UserError
from elmo.files import (
    locked_folder,
    read_json,
    remove_folder,
    remove_leftovers,
    write_json,
    write_text,
)
from elmo.language_model import LanguageModel, model_path, open_model, weights_checksum
from elmo.model_folder import Precision, Text
from elmo.runtime import require_extra
from elmo.text.sources import iterated
from elmo.text.vocabulary import Vocabulary

FORMAT = 2
"""Format 1, of version 0.1, is a network alone and can be read."""
DESCRIPTION, LINEAR, NETWORK, TASK_WORDS, BILM = (
    "classifier.json",
    "linear.safetensors",
    "classifier.safetensors",
    "own_words.txt",
    "bilm",
)
TEXTS_AT_ONCE = 1024
"""Texts that are predicted together; bounds the memory."""
TITLE = "A text classifier on top of a bidirectional language model (ELMo)"
WRITTEN = re.compile(
    r"(classifier|tagger|pairs)\.json|bilm|(classifier|linear|network)\.safetensors|log\.jsonl|"
    r"(own|task)_words\.txt|(README|LICENSE)\.md|(metrics|mistakes|confusion)_\w+\.\w+|.*\.png"
)
"""Names in the folder of a trained classifier, tagger or pair classifier."""
SAVED_NAMES = {"task_embedding.weight": "own_words.weight"}
"""Tensors whose name in classifier.safetensors is not that of the module."""

ConfigT = TypeVar("ConfigT")

log = logging.getLogger(__name__)


class Estimator(Generic[ConfigT]):
    """What is trained on top of a biLM, shaped as scikit-learn asks: parameters, pickle, upload.

    The arguments of the constructor are those of `TextClassifier`.
    """

    config_class: ClassVar[type[Any]]
    config_: ConfigT
    """The settings it was trained with."""
    language_model: LanguageModel

    def __init__(
        self,
        model: Path | str = SHIPPED,
        config: ConfigT | None = None,
        *,
        word_vectors: Path | str | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        self.model = model
        self.config = config
        self.word_vectors = word_vectors
        self.device = device
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in ("model", "config", "word_vectors", "device")}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; takes effect with the next `fit`.

        Fields of the config have names too, for grid search: `epochs`, `learning_rate`, …
        """
        for name, value in params.items():
            if name in self.get_params():
                setattr(self, name, value)
            elif (changed := _replaced(self.config or self.config_class(), name, value)) is None:
                known = ", ".join(self.get_params())
                raise UserError(
                    f"unknown parameter {name!r}; expected one of {known}, or a field of "
                    f"{self.config_class.__name__} such as epochs"
                )
            else:
                self.config = changed
        return self

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds path and checksum of a biLM that was not fine-tuned, not its weights."""
        state = dict(vars(self))
        loaded: LanguageModel | None = state.get("language_model")
        tuned = loaded and cast("Any", self.config_).learning.fine_tuning.fine_tune_epochs
        if loaded and loaded.path and not tuned and not loaded.custom_tokenizer:
            reference = model_name(loaded.path), str(loaded.model.device)
            state["language_model"] = (*reference, weights_checksum(loaded.path))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(saved := state.get("language_model"), tuple):
            path, device, *checksum = cast("tuple[str, ...]", saved)  # earlier pickles have none
            state["language_model"] = _same_bilm(path, device, checksum, "this pickle")
        vars(self).update(state)

    @abstractmethod
    def save_pretrained(self, folder: Path | str) -> None:
        """Write a new or empty folder that `from_pretrained` loads."""

    def push_to_hub(self, repo: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload what `save_pretrained` writes to a model hub; see `LanguageModel.push_to_hub`."""
        from elmo.hub import push_folder

        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_folder(Path(folder), repo, private=private, token=token)


def _replaced(config: Any, name: str, value: object) -> Any:
    """Settings with one field changed, wherever it is among them; None if no field has the name."""
    for field in fields(config):
        inner = getattr(config, field.name)
        if is_dataclass(inner):
            changed = _replaced(inner, name, value)
            if changed is not None:
                return replace(config, **{field.name: changed})
        elif field.name == name:
            return replace(config, **{name: value})
    return None


@dataclass(frozen=True, kw_only=True)
class BiLMReference:
    """Which biLM an estimator was trained on."""

    path: str
    """The folder: absolute, or "bilm" for the copy in the estimator's own folder."""
    sha256: str
    """Checksum of its file of weights."""


def empty_folder(path: Path | str) -> Path:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder}: expected a new or an empty folder, but it holds files")
    return folder


def save_bilm(
    folder: Path, loaded: LanguageModel, original: Path | None, precision: Precision = "fp32"
) -> BiLMReference:
    """Copy a biLM into an estimator's folder, or refer to its `original` folder."""
    if original is not None:
        return BiLMReference(path=str(original.resolve()), sha256=weights_checksum(original))
    copied = folder / BILM
    copied.mkdir()
    stages = model_folder.other_stages(loaded.config)
    stages.pop(model_folder.METRICS, None)
    model_folder.save_config(copied, loaded.model.config, loaded.tokenizer, stages)
    loaded.vocabulary.save(copied / model_folder.VOCABULARY)
    model_folder.save_weights(copied / model_folder.WEIGHTS, loaded.model, precision)
    if loaded.word_vectors is not None:
        loaded.word_vectors.save(copied)
    return BiLMReference(path=BILM, sha256=weights_checksum(copied))


def load_bilm(folder: Path, reference: BiLMReference, device: str) -> LanguageModel:
    """The biLM that an estimator's folder holds or refers to, if its weights are still the same."""
    path = Path(reference.path)
    path = path if path.is_absolute() else _inside(folder, reference.path)
    loaded = _same_bilm(path, device, [reference.sha256], folder)
    loaded.model.requires_grad_(False)
    return loaded


def _same_bilm(
    path: Path | str, device: str, checksum: Sequence[str], trained: Path | str
) -> LanguageModel:
    """Open a biLM, whose weights must have the checksum, if there is one."""
    loaded = open_model(path, device)
    if checksum and weights_checksum(cast("Path", loaded.path)) != checksum[0]:
        raise UserError(
            f"{path}: not the biLM that {trained} was trained on (its weights have another "
            "checksum); put the right one there, or train again"
        )
    return loaded


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder, which may not lead out of it."""
    model_folder.require_inside(folder, folder / name)
    return folder / name


class TextClassifier(Estimator[ClassifierConfig]):
    """Assigns one of several labels to each text, by n-grams, word vectors and a biLM's layers.

    Shaped like a scikit-learn classifier. Texts are strings or lists of words. Trained on lists of
    labels, it assigns none, one or several to each text: those more probable than their threshold.

    Args:
        model: Folder of a biLM, or of official files; "default" is the one that comes with elmo.
        config: Settings of network and training. Default: `ClassifierConfig()`.
        word_vectors: File of word vectors in word2vec's or GloVe's format that initialise the task
            embeddings. Default: none, they start random.
        device: "cpu", "cuda", "cuda:1", …
        **settings: Fields of `ClassifierConfig`: parts, epochs, learning_rate, dropout, seed, …

    Example:
        >>> classifier = TextClassifier(epochs=5, seed=1).fit(texts, labels)
        >>> classifier.predict(["Oil prices fell on Monday ."])
        array(['Business'], dtype='<U8')
        >>> classifier.save_pretrained("topics")
        >>> classifier = TextClassifier.from_pretrained("topics")
    """

    config_class = ClassifierConfig
    classes_: NDArray[Any]
    """The labels in the order of the columns of `predict_proba`; set by `fit`."""
    linear_parts: dict[str, linear.LinearPart]
    """On n-grams, averages of static word vectors ("words") and pooled layers ("elmo")."""
    network: ClassifierNetwork | None
    task_vocabulary: Vocabulary | None
    """The words that have a task embedding in the network."""
    part_weights: dict[str, float]
    """The weight of each part in the sum of their scores."""
    class_bias: Tensor | float = 0.0
    """Added to the sum of their scores, (classes,)."""
    labels: tuple[str, ...]
    """The labels as they are saved."""
    labels_separator: str | None
    """What separates the labels of a text in files; None: each text has exactly one."""
    thresholds: Thresholds = 0.5
    """With several labels per text: probability above which each is predicted, (labels,)."""

    @classmethod
    def from_parts(
        cls,
        language_model: LanguageModel,
        labels: Sequence[str],
        config: ClassifierConfig,
        part_weights: Mapping[str, float],
        *,
        linear_parts: Mapping[str, linear.LinearPart] | None = None,
        class_bias: Tensor | float = 0.0,
        network: ClassifierNetwork | None = None,
        task_vocabulary: Vocabulary | None = None,
        labels_separator: str | None = None,
        thresholds: Thresholds = 0.5,
    ) -> TextClassifier:
        """A classifier that has been trained already."""
        classifier = cls(config=config, device=str(language_model.model.device))
        classifier.language_model, classifier.labels = language_model, tuple(labels)
        classifier.linear_parts, classifier.network = dict(linear_parts or {}), network
        classifier.task_vocabulary, classifier.part_weights = task_vocabulary, dict(part_weights)
        classifier.class_bias, classifier.config_ = class_bias, config
        classifier.classes_ = np.array(labels)
        classifier.labels_separator, classifier.thresholds = labels_separator, thresholds
        return classifier

    @classmethod
    def from_pretrained(
        cls, folder: Path | str = SHIPPED, *, device: str = "cpu"
    ) -> TextClassifier:
        """Load a classifier folder; "default" is the classifier that comes with elmo.

        Sizes are checked against the settings before memory is allocated. Raises `UserError` for a
        damaged folder, and for one that refers to a biLM whose weights have changed.
        """
        folder = model_path(folder, CLASSIFIER)
        description = describe_classifier(folder)
        loaded = load_bilm(folder, description.bilm, device)
        sizes, labels, config = loaded.model.config, description.labels, description.config
        parts = network = task_vocabulary = None
        weights, bias, thresholds = {"network": 1.0}, 0.0, 0.5  # format 1
        if description.format > 1:
            path = _inside(folder, LINEAR)
            pooled = (1 + sizes.layers) * 2 * sizes.width
            dim = 0 if loaded.word_vectors is None else loaded.word_vectors.dim
            tensors = model_folder.load_tensors(path)
            thresholds = saved_thresholds(tensors, len(labels), str(path))
            parts, weights, bias = linear.linear_parts(tensors, str(path), len(labels), pooled, dim)
        if "network" in weights:
            task_vocabulary = Vocabulary.load(_inside(folder, TASK_WORDS))
            with model_folder.without_weights():
                network = ClassifierNetwork(
                    config.network, layers=1 + sizes.layers, dim=2 * sizes.width,
                    classes=len(labels), task_words=len(task_vocabulary),
                )  # fmt: skip
            shapes = {name: tuple(tensor.shape) for name, tensor in _saved_tensors(network).items()}
            tensors = model_folder.load_tensors(_inside(folder, NETWORK), shapes)
            names = {saved: name for name, saved in SAVED_NAMES.items()}
            network.load_state_dict(
                {names.get(name, name): tensor.float() for name, tensor in tensors.items()},
                assign=True,
            )
            network = network.eval().to(device)
        return cls.from_parts(
            loaded, labels, config, weights, linear_parts=parts, class_bias=bias,
            network=network, task_vocabulary=task_vocabulary, thresholds=thresholds,
            labels_separator=description.labels_separator,
        )  # fmt: skip

    @property
    def ngrams(self) -> Any:
        """The linear SVM on n-grams, if it is one of the parts."""
        return self.linear_parts.get("ngrams")

    def fit(self, texts: Iterable[Text], labels: Iterable[Any]) -> TextClassifier:
        """Train on texts and their labels, of any type whose `str` tells them apart.

        Labels are one per text; or a list, tuple or set per text, which may be empty.

        Returns:
            The classifier itself.
        """
        from elmo.classify.training import train

        rows: list[Any] = list(iterated(texts))
        names, value_of, separator = joined_labels(list(labels), len(rows))
        trained = train(
            open_model(self.model, self.device),
            LabelledTexts(rows, names, [f"row {row}" for row in range(len(rows))], separator),
            self.config or ClassifierConfig(),
            word_vectors=load_word_vectors(self.word_vectors),
        ).classifier
        for name, value in vars(trained).items():
            if name not in self.get_params():
                setattr(self, name, value)
        self.classes_ = np.array([value_of[name] for name in self.labels])
        return self

    def predict(self, texts: Iterable[Text]) -> NDArray[Any]:
        """The most probable label of each text, (texts,).

        Of several labels per text: a tuple for each, the most probable label first, or none.
        """
        probabilities = self.predict_proba(texts)
        if self.labels_separator is None:
            return self.classes_[probabilities.argmax(1)]
        return label_array(probabilities, self.classes_.tolist(), self.thresholds)

    def predict_proba(
        self, texts: Iterable[Text], on_texts: OnTexts | None = None
    ) -> NDArray[np.float32]:
        """The probability of each label, (texts, classes), in the order of `classes_`.

        They sum to 1 for each text, unless texts have several labels.
        What else is in the call changes a text's probabilities by at most about 1e-6. A text
        without words gets the probabilities of zero vectors.
        """
        return self._predict_words(self._words(texts), on_texts=on_texts)

    def predict_iter(self, texts: Iterable[Text]) -> Iterator[tuple[Text, NDArray[np.float32]]]:
        """Yield each of any number of texts, as it comes, with its probabilities."""
        iterator, size = iter(texts), 1
        while some := list(islice(iterator, size)):
            yield from zip(some, self.predict_proba(some), strict=True)
            size = min(2 * size, TEXTS_AT_ONCE)  # the first at once, many at the pace of many

    @torch.no_grad()
    def _predict_words(
        self, words: list[list[str]], *, cached: bool = False, on_texts: OnTexts | None = None
    ) -> NDArray[np.float32]:
        loaded = self.language_model
        scores: dict[str, Tensor] = {}
        for part, fitted in self.linear_parts.items():
            inputs = linear.inputs_of(part, words, loaded, cached=cached, on_texts=on_texts)
            scores[part] = fitted.scores(inputs)
        if "elmo" in scores:
            on_texts = None  # each text is counted once
        if self.network is not None and self.task_vocabulary is not None:
            network = self.config_.network
            cut = cut_texts(words, network.max_words)
            tokenized = TokenizedTexts(cut, self.task_vocabulary, network.task_lower_case)
            scores["network"] = torch.zeros(len(words), len(self.classes_))
            for rows, read in tokenized.read_all(loaded.model):
                scores["network"][rows] = self.network(read).float().cpu()
                if on_texts is not None:
                    on_texts(len(rows), int(read.lengths.sum()))
        summed = linear.weighted_sum(scores, self.part_weights, self.class_bias)
        return linear.probabilities_of(summed, several=self.labels_separator is not None).numpy()

    def _words(self, texts: Iterable[Text]) -> list[list[str]]:
        if not hasattr(self, "part_weights"):
            raise UserError("this classifier is not trained yet; call fit, or use from_pretrained")
        return tokenize_texts(self.language_model, list(iterated(texts)))

    def score(self, texts: Sequence[Text], labels: Sequence[Any]) -> float:
        """The accuracy of `predict`; of several labels per text, that of whole sets."""
        if self.labels_separator is not None:
            return self.evaluate(texts, labels).metrics.accuracy.value
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
            labels: As those of `fit`; several in one string are separated by `labels_separator`.
            locations: Where each text was read, for messages and mistakes.
            on_texts: Called with the number of texts and words that are done.

        Raises:
            UserError: If training did not have one of the labels.
        """
        gold = encode_labels(labels, self.labels, locations, self.labels_separator)
        started = time.monotonic()
        words = self._words(texts)
        probabilities = self._predict_words(words, cached=True, on_texts=on_texts)
        pace = len(gold) / (time.monotonic() - started)
        shown = [text if isinstance(text, str) else " ".join(text) for text in texts]
        return evaluation_of(
            probabilities, gold, shown, self.labels, self.labels_separator,
            thresholds=self.thresholds, locations=locations,
            rows_per_second=pace, empty=[row for row, text in enumerate(words) if not text],
        )  # fmt: skip

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
            precision: Of the saved biLM and network, which bf16 halves; linear parts do not change.
        """
        folder = empty_folder(folder)
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        tensors = linear.linear_tensors(self.linear_parts, self.part_weights, self.class_bias)
        if isinstance(self.thresholds, np.ndarray):
            tensors["thresholds"] = torch.from_numpy(self.thresholds)
        model_folder.save_tensors(folder / LINEAR, tensors)
        if self.network is not None and self.task_vocabulary is not None:
            saved = {name: one.to(dtype) for name, one in _saved_tensors(self.network).items()}
            model_folder.save_tensors(folder / NETWORK, saved)
            self.task_vocabulary.save(folder / TASK_WORDS)
        description = ClassifierDescription(
            format=FORMAT,
            labels=self.labels,
            bilm=save_bilm(folder, self.language_model, bilm, precision),
            config=self.config_,
            labels_separator=self.labels_separator,
        )
        write_json(folder / DESCRIPTION, to_json(description))
        facts = {"labels": ", ".join(self.labels), "parts": ", ".join(self.part_weights)}
        card = model_folder.model_card("text-classification", TITLE, facts)
        write_text(folder / model_folder.CARD, card)

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
        if not hasattr(self, "part_weights"):
            return f"TextClassifier(model={str(self.model)!r}, not trained)"
        bilm = self.language_model.model.config
        return (
            f"TextClassifier({len(self.labels)} labels, parts {'+'.join(self.part_weights)}, "
            f"biLM of {bilm.layers} layers, {2 * bilm.width} dimensions)"
        )


@dataclass(frozen=True, kw_only=True)
class ClassifierDescription:
    """What classifier.json holds."""

    format: int
    labels: tuple[str, ...]
    bilm: BiLMReference
    config: ClassifierConfig
    labels_separator: str | None = None


def describe_classifier(folder: Path) -> ClassifierDescription:
    if not (folder / DESCRIPTION).exists():
        raise UserError(
            f"{folder}: not a classifier folder, it has no {DESCRIPTION}; "
            "make one with elmo classify train"
        )
    path = _inside(folder, DESCRIPTION)
    content: object = read_json(path)
    if isinstance(content, dict):
        values = cast("Json", content)
        content = {**values, "config": upgraded(values.get("config"))}
    description = from_json(ClassifierDescription, content, str(path))
    if not 1 <= description.format <= FORMAT:
        raise UserError(
            f"{path}: format {description.format}, but this version of elmo reads 1 to {FORMAT}"
        )
    if len(set(description.labels)) != len(description.labels) or len(description.labels) < 2:
        raise UserError(f"{path}: expected two or more different labels")
    check(description.config)
    return description


def write_evaluation(evaluation: Evaluation, part: str, folder: Path) -> None:
    write_json(folder / f"metrics_{part}.json", to_json(evaluation.metrics))
    mistakes = [to_json(mistake) for mistake in evaluation.mistakes]
    write_json(folder / f"mistakes_{part}.json", mistakes)
    is_dense = len(evaluation.metrics.classes) <= MAX_DENSE_LABELS
    if evaluation.metrics.confusion and is_dense and can_draw():
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


def _saved_tensors(network: ClassifierNetwork) -> dict[str, Tensor]:
    return {
        SAVED_NAMES.get(name, name): tensor.detach()
        for name, tensor in network.state_dict().items()
    }


# The folder of a training, for classifiers, taggers and pair classifiers.


def check_run(
    out: Path, config: Any, mark: str, fresh: bool, reference: bool, checkpoint_minutes: float
) -> None:
    """Refuse a training that could not be saved, before anything is read.

    Args:
        mark: The file by which a folder of this kind is known, so that --fresh deletes no other.
    """
    check(config)
    if out.exists() and not (fresh and (out / mark).is_file()):
        raise UserError(f"{out}: already exists; choose another --out, or replace it with --fresh")
    if strange := [path.name for path in out.glob("*") if not WRITTEN.fullmatch(path.name)]:
        raise UserError(
            f"{out}: holds a file that elmo did not write ({strange[0]}), which --fresh would "
            "delete; move it, or choose another --out"
        )
    if reference and config.learning.fine_tuning.fine_tune_epochs:
        raise UserError(
            "reference: a fine-tuned biLM differs from the one it came from, so it must be saved; "
            "leave out --reference"
        )
    if checkpoint_minutes < 0:
        raise UserError(f"checkpoint_minutes: cannot be negative, got {checkpoint_minutes}")


@contextmanager
def unfinished_job(out: Path, fresh: bool = False) -> Generator[Path]:
    """A locked folder for checkpoints of what will become `out`; deleted once that is there."""
    folder = unfinished(out)
    with locked_folder(folder):
        is_done = False
        try:
            remove_leftovers(folder)
            remove_leftovers(out.parent, out.name)
            remove_leftovers(folder.parent, folder.name)
            for path in folder.glob("step-*") if fresh else ():
                remove_folder(path)
            yield folder
            is_done = True
        finally:
            if is_done or not any(folder.glob("step-*")):
                remove_folder(folder)


def unfinished(out: Path) -> Path:
    return out.with_name(f"{out.name}.unfinished")

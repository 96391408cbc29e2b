"""Classifier folders: self-contained, data only, loaded in one call.

classifier.json          settings, labels, and which biLM it needs
classifier.safetensors   the network
own_words.txt            the words it has vectors of its own for
bilm/                    the biLM, unless the folder names one elsewhere
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from elmo.checkpoint import (
    VOCABULARY,
    WEIGHTS,
    LoadedModel,
    Precision,
    load_tensors,
    save_config,
    save_tensors,
    save_weights,
    without_weights,
)
from elmo.classify.classifier import TextClassifier
from elmo.classify.config import ClassifierConfig
from elmo.classify.labels import Labels
from elmo.classify.network import ClassifierNetwork
from elmo.config import check, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_json, sha256, write_json
from elmo.interop.models import is_official, official_files, open_model
from elmo.shipped import CLASSIFIER
from elmo.text.vocabulary import Vocabulary

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

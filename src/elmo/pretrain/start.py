"""The model a run starts from: fresh, with given word vectors, or another model's."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.checkpoint import model_tensors
from elmo.errors import UserError
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_vectors import read_word_vectors, vector_size

log = logging.getLogger(__name__)


def fresh_model(config: BiLMConfig, vocabulary: Vocabulary, seed: int) -> BiLM:
    """A model with random weights that follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BiLM(config, vocabulary)


def set_word_vectors(model: BiLM, path: Path) -> float:
    """Give the words of a file its vectors; return the share of words found.

    Vectors shorter than the model's are the first numbers of its own, whose others stay random.
    """
    vectors = model.token_layer.word_vectors
    if vectors is None:
        raise UserError("word_vectors: a character model has no word vectors to initialise")
    size = vector_size(path)
    if size > vectors.shape[1]:
        raise UserError(
            f"{path}: vectors of {size} numbers, but word_dim is {vectors.shape[1]}; "
            f"use --word-dim {size} or more"
        )
    found = read_word_vectors(path, model.vocabulary)
    with torch.no_grad():
        for place, vector in found.items():
            vectors[place, :size] = torch.from_numpy(vector.copy())
    if not found:
        raise UserError(f"{path}: none of its words is in the vocabulary")
    return len(found) / len(model.vocabulary)


def starting_vocabulary(other: BiLM, counted: Vocabulary) -> Vocabulary:
    """The words that a run predicts if it starts from another model, those of its text counted.

    Words that the other model predicts, or has vectors of, stay what they are; a model of
    characters without a softmax, as official ones are, has nothing to keep.
    """
    has_softmax = other.config.softmax.loss != "none"
    if not has_softmax and other.config.input == "characters":
        return counted
    grown = other.vocabulary.grown(counted.words, counted.counts)
    if has_softmax:
        return grown
    found = dict(zip(counted.words, counted.counts, strict=True))
    counts = zip(grown.words, grown.counts, strict=True)
    return Vocabulary(grown.words, tuple(found.get(word, count) for word, count in counts))


def adopt(model: BiLM, other: BiLM) -> None:
    """Take over another model's weights; words that are new to it keep their fresh ones."""
    mine, theirs = model_tensors(model), model_tensors(other)
    problems = [
        f"{name}: {_shape(theirs.get(name))} there, {_shape(mine.get(name))} here"
        for name in sorted(mine.keys() | theirs.keys())
        if not _fits(mine.get(name), theirs.get(name), name)
    ]
    if problems:
        raise UserError(
            "the model to start from has another architecture than the settings ask for:\n  "
            + "\n  ".join(problems)
        )
    for name, tensor in theirs.items():
        mine[name][: len(tensor)] = tensor


def _fits(mine: Tensor | None, theirs: Tensor | None, name: str) -> bool:
    """Equal shapes, or more rows where a row is a word."""
    if mine is None:
        return False
    if theirs is None:
        return name.startswith("output.")  # a cluster that the new words need
    by_word = name.startswith(("token_layer.words", "output."))
    return mine.shape[1:] == theirs.shape[1:] and (
        len(mine) == len(theirs) or (by_word and len(mine) > len(theirs))
    )


def _shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else str(tuple(tensor.shape))

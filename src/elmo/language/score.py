"""How probable each word of a text is, given all before it and given all behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.cross_entropy import slices
from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel, Text
from elmo.errors import UserError
from elmo.language.evaluate import perplexity
from elmo.language.questions import Questions, ask
from elmo.text.batching_config import Batching
from elmo.text.vocabulary import UNKNOWN

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class WordScore:
    """A word and its natural log-probabilities."""

    word: str
    known: bool
    """If not, the probabilities are those of any unknown word."""
    forward: float
    """Given all words before it."""
    backward: float
    """Given all words behind it."""


@dataclass(frozen=True)
class DirectionScore:
    """A whole text in one direction, its words and the boundary behind them."""

    boundary: float
    """Log-probability that the text ends (forward) or begins (backward) where it does."""
    total: float
    """Log-probability of the text."""
    perplexity: float
    """The exponential of the negative total a prediction, the boundary being one of them."""


@dataclass(frozen=True)
class TextScore:
    """What both directions make of a text."""

    words: tuple[WordScore, ...]
    forward: DirectionScore
    backward: DirectionScore
    perplexity: float
    """The exponential of the two directions' mean loss."""


def score(
    loaded: LoadedModel, texts: Sequence[Text], batching: Batching | None = None
) -> list[TextScore]:
    """Score texts, given as strings or as words, in both directions over the full softmax.

    How texts are put together in batches changes nothing; long ones go in windows, state carried.
    """
    sentences = [loaded.words(text) for text in texts]
    for number, sentence in enumerate(sentences, start=1):
        if not sentence:
            raise UserError(f"text {number} of {len(texts)} holds no word; leave it out")
    found = [(np.zeros(len(one) + 1), np.zeros(len(one) + 1)) for one in sentences]
    for questions in ask(loaded.model, sentences, batching):
        values = _log_probabilities(loaded.model, questions)
        for (text, place), value in zip(questions.keys, values.tolist(), strict=True):
            found[text][questions.backward][place] = value
    vocabulary = loaded.model.vocabulary
    return [
        _text_score(sentence, vocabulary.encode(sentence) != UNKNOWN, forward, backward)
        for sentence, (forward, backward) in zip(sentences, found, strict=True)
    ]


@torch.no_grad()
def _log_probabilities(model: BiLM, questions: Questions) -> Scores:
    """Of each right answer."""
    parts = [
        model.output.log_probabilities(questions.states[part]).gather(
            1, questions.targets[part, None]
        )
        for part in slices(len(questions.states), len(model.vocabulary))
    ]
    return torch.cat(parts)[:, 0].double().cpu().numpy()


def _text_score(
    words: Sequence[str], known: NDArray[np.bool_], forward: Scores, backward: Scores
) -> TextScore:
    """Put together what each direction found, in its own reading order."""
    columns = (known.tolist(), forward[:-1].tolist(), backward[-2::-1].tolist())
    scored = tuple(WordScore(*row) for row in zip(words, *columns, strict=True))
    loss = -(forward.mean() + backward.mean()) / 2
    return TextScore(scored, _direction(forward), _direction(backward), perplexity(float(loss)))


def _direction(scores: Scores) -> DirectionScore:
    return DirectionScore(float(scores[-1]), float(scores.sum()), perplexity(-float(scores.mean())))

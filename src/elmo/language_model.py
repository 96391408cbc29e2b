"""Words for a blank: from what stands before it, from what stands behind it, and from both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel, Text
from elmo.errors import UserError
from elmo.language.blanks import BLANK, BlankedText, find_blanks
from elmo.language.questions import Questions, ask
from elmo.text.batching_config import Batching
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

_SPECIAL = len(SPECIAL_WORDS)
_Key = tuple[int, int]
"""The number of a text, and a place in it."""


@dataclass(frozen=True)
class Candidate:
    """A word, and how probable it is among the words that the model knows."""

    word: str
    probability: float


@dataclass(frozen=True)
class BlankCandidates:
    """The best words for one blank, the most probable first."""

    place: int
    """Which word of the text it is, counted from 0."""
    forward: tuple[Candidate, ...]
    """Given all words before it."""
    backward: tuple[Candidate, ...]
    """Given all words behind it."""
    combined: tuple[Candidate, ...]
    """Given both."""


@dataclass(frozen=True)
class Prediction:
    """A text, and words for each of its blanks."""

    words: tuple[str, ...]
    """The text with the best word of both directions in each blank."""
    blanks: tuple[BlankCandidates, ...]


def predict(
    loaded: LoadedModel,
    texts: Sequence[Text],
    *,
    top: int = 10,
    blank: str = BLANK,
    batching: Batching | None = None,
) -> list[Prediction]:
    """Find the `top` best words for each blank; each of several takes the others as unknown.

    Neither a boundary nor the unknown word is ever proposed.
    """
    if top < 1:
        raise UserError(f"top: at least one candidate is needed, got {top}")
    blanked = [find_blanks(loaded, text, blank) for text in texts]
    answers = _answers(loaded.model, blanked, batching)
    prior = log_prior(loaded.model.vocabulary)
    predictions: list[Prediction] = []
    for number, text in enumerate(blanked):
        found = [answers.candidates((number, place), prior, top) for place in text.blanks]
        predictions.append(_filled(text, found))
    return predictions


def combine(forward: Tensor, backward: Tensor, prior: Tensor) -> Tensor:
    """What both directions say together: p(w | left) p(w | right) / p(w), made to sum to one.

    Where left and right depend on each other only through w, Bayes' rule gives p(w | left, right)
    as proportional to p(w) p(left | w) p(right | w), and p(left | w) is p(w | left) / p(w) but for
    a constant. Without the division, frequent words, which each direction favours already, would
    be favoured twice. All are log-probabilities of the same words.
    """
    return (forward + backward - prior).log_softmax(dim=-1)


def log_prior(vocabulary: Vocabulary) -> Tensor:
    """How frequent each word but the special ones is; one that was never counted counts once."""
    counts = torch.tensor(vocabulary.counts[_SPECIAL:], dtype=torch.float64)
    return counts.clamp(min=1).log().log_softmax(dim=0)


@dataclass(frozen=True)
class _Answers:
    """Log-probabilities, a blank and direction, of all words but the special ones."""

    vocabulary: Vocabulary
    forward: dict[_Key, Tensor] = field(default_factory=dict[_Key, Tensor])
    backward: dict[_Key, Tensor] = field(default_factory=dict[_Key, Tensor])

    def candidates(self, blank: _Key, prior: Tensor, top: int) -> BlankCandidates:
        """The best words for a blank."""
        forward, backward = self.forward[blank], self.backward[blank]
        kinds = (forward, backward, combine(forward, backward, prior))
        return BlankCandidates(blank[1], *(self._best(kind, top) for kind in kinds))

    def _best(self, log_probabilities: Tensor, top: int) -> tuple[Candidate, ...]:
        best = log_probabilities.topk(min(top, len(log_probabilities)))
        places: list[int] = best.indices.numpy().tolist()
        probabilities: list[float] = best.values.exp().numpy().tolist()
        return tuple(
            Candidate(self.vocabulary.words[_SPECIAL + place], probability)
            for place, probability in zip(places, probabilities, strict=True)
        )


@torch.no_grad()
def _answers(model: BiLM, texts: Sequence[BlankedText], batching: Batching | None) -> _Answers:
    """Let both directions read, and answer where there is a blank."""
    answers = _Answers(model.vocabulary)
    blanks = {(number, place) for number, text in enumerate(texts) for place in text.blanks}
    for questions in ask(model, [text.words for text in texts], batching):
        into = answers.backward if questions.backward else answers.forward
        for row, key in enumerate(_keys(questions, texts)):
            if key in blanks:
                known = model.output.log_probabilities(questions.states[row, None])[0, _SPECIAL:]
                into[key] = known.double().cpu().log_softmax(dim=0)
    return answers


def _keys(questions: Questions, texts: Sequence[BlankedText]) -> list[_Key]:
    """Which word each question asks for; a backward one's place is counted from the end."""
    if not questions.backward:
        return questions.keys
    return [(number, len(texts[number].words) - 1 - place) for number, place in questions.keys]


def _filled(text: BlankedText, blanks: Sequence[BlankCandidates]) -> Prediction:
    best = {blank.place: blank.combined[0].word for blank in blanks}
    words = tuple(best.get(place, word) for place, word in enumerate(text.words))
    return Prediction(words, tuple(blanks))

"""What each direction is asked on its way through texts, and in which state it must answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.bilm.model import BiLM
from elmo.language.evaluate import read_through
from elmo.text.batches import Reading
from elmo.text.batching_config import Batching
from elmo.text.in_memory import TextGroup, group_texts


@dataclass(frozen=True)
class Questions:
    """Places of texts at which one direction has to tell the word."""

    backward: bool
    texts: Tensor  # (questions,), numbers of the texts
    places: Tensor  # (questions,), steps from where the direction starts: 0 asks for its first word
    states: Tensor  # (questions, width), what it knows when asked
    targets: Tensor  # (questions,), the vocabulary ids that are right

    @property
    def keys(self) -> list[tuple[int, int]]:
        """The text and the place of each question."""
        texts: list[int] = self.texts.cpu().numpy().tolist()
        places: list[int] = self.places.cpu().numpy().tolist()
        return list(zip(texts, places, strict=True))


def ask(
    model: BiLM, texts: Sequence[Sequence[str]], batching: Batching | None = None
) -> Iterator[Questions]:
    """Read texts in both directions; every word, and one boundary a direction, is asked for once.

    A direction's questions come in the order in which it reads, long texts in windows.
    """
    batching = batching or Batching()
    for group in group_texts(texts, model.vocabulary, batching, spelled=model.config.spelled):
        yield from _ask_group(model, group, batching.window)


def _ask_group(model: BiLM, group: TextGroup, window: int) -> Iterator[Questions]:
    numbers = torch.from_numpy(group.texts).to(model.device)
    for step, (_, readings) in enumerate(read_through(model, group.batches)):
        for backward, (states, reading) in enumerate(readings):
            places, columns = _where(reading)
            yield Questions(
                bool(backward), numbers[columns], places + step * window, states, reading.targets
            )


def _where(reading: Reading) -> tuple[Tensor, Tensor]:
    """The step and the column at which each question is asked."""
    columns = reading.inputs.shape[1]
    return reading.asked // columns, reading.asked % columns

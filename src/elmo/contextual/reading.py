"""Texts of any length are read in windows, and each layer's outputs put at their words.

The forward direction takes its windows from a text's begin, the backward one from its end, so both
carry their state from window to window and give exactly what reading at once would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.bilm.joined import join
from elmo.bilm.model import BiLM, BiLMState, LayerActivations, Randomness, StackState
from elmo.bilm.paired import FEW_TEXTS, read_paired
from elmo.bilm.ragged import Ragged
from elmo.bilm.side_by_side import Work, run_side_by_side
from elmo.bilm.stack import LSTMStack, StackOutput
from elmo.bilm.tokens import look_up
from elmo.text.batches import Batch


def read_layers(
    model: BiLM,
    windows: Iterable[Batch],
    words: Sequence[int],
    window: int,
    state: BiLMState | None = None,
    random: Randomness | None = None,
    wanted: Sequence[int] | None = None,
) -> LayerActivations:
    """The layers of texts of so many words, read side by side in windows of so many steps.

    Gradients flow, within a window, if they are on; `random` draws the dropout of the biLM. Only
    the `wanted` layers are given, by default all, and what is above them is not computed.
    """
    wanted = range(1 + model.config.layers) if wanted is None else wanted
    lengths = torch.tensor(words, device=model.device)
    shape = (len(wanted), len(words), max(words), 2 * model.config.width)
    layers = torch.zeros(shape, dtype=_precision(model), device=model.device)
    for number, batch in enumerate(windows):
        batch = batch.to(model.device)
        vectors = model.token_layer(batch.words).to(model.compute_dtype)
        paths = _paths(model, batch, number * window, lengths, wanted, state, random)
        if torch.is_grad_enabled():
            found, state = _read_with_gradients(paths, vectors, layers)
            layers = found if number == 0 else layers + found
        else:
            state = _read_into(paths, vectors, layers)
    assert state is not None
    return LayerActivations(layers, lengths, state)


@dataclass(frozen=True)
class _Path:
    """One direction's way through a window, and the words it meets there."""

    stack: LSTMStack
    places: Tensor  # (rows,), which of the distinct words each row reads
    ragged: Ragged
    word: Tensor  # (rows,), the word of its text that each row meets; none if out of the text
    lengths: Tensor  # (batch,), words a text
    wanted: Sequence[int]
    states: StackState | None
    random: torch.Generator | None

    def read(self, vectors: Tensor, into: Tensor) -> StackState:
        """Read, and put the wanted layers at their words in (layers, batch, words, width)."""
        read = self.stack.read_ragged(
            vectors, self.places, self.ragged, self.states, self.random, max(self.wanted)
        )
        return self.put(read, vectors, into)

    def put(self, read: StackOutput, vectors: Tensor, into: Tensor) -> StackState:
        """Put the wanted layers of what was read at their words."""
        is_word = (self.word >= 0) & (self.word < self.lengths[self.ragged.text])
        rows = is_word.nonzero()[:, 0]
        found = [
            look_up(vectors, self.places[rows])
            if layer == 0
            else read.layers[layer - 1].index_select(0, rows)
            for layer in self.wanted
        ]
        into[:, self.ragged.text[rows], self.word[rows]] = torch.stack(found).to(into.dtype)
        return read.states


def _paths(
    model: BiLM,
    batch: Batch,
    first_step: int,
    lengths: Tensor,
    wanted: Sequence[int],
    state: BiLMState | None,
    random: Randomness | None,
) -> list[_Path]:
    """The ways of both directions through a window that begins at a step of the texts."""
    paths: list[_Path] = []
    for number, (stack, reading) in enumerate(zip(model.directions, batch.readings, strict=True)):
        ragged = Ragged.of(reading.lengths)
        step = first_step + ragged.step
        # Step 0 is a boundary. A forward stack then meets the first word, a backward one the last.
        word = step - 1 if stack is model.forward_stack else lengths[ragged.text] - step
        places = reading.inputs[ragged.step, ragged.text]
        states = None if state is None else state[number][: max(wanted)]
        generator = None if random is None else random[number]
        paths.append(_Path(stack, places, ragged, word, lengths, wanted, states, generator))
    return paths


def _read_into(paths: Sequence[_Path], vectors: Tensor, layers: Tensor) -> BiLMState:
    ahead, behind = paths
    left, right = layers.chunk(2, dim=-1)
    texts = len(ahead.lengths)
    if ahead.stack.layer(0).reads_in_one_call(vectors, texts):
        # One after the other: each call has both threads, and takes less time than to share them.
        return BiLMState(ahead.read(vectors, left), behind.read(vectors, right))
    if texts <= FEW_TEXTS and ahead.random is None:
        first, second = read_paired(
            (ahead.stack, behind.stack),
            vectors,
            (ahead.places, behind.places),
            ahead.ragged,
            (ahead.states, behind.states),
            max(ahead.wanted),
        )
        return BiLMState(ahead.put(first, vectors, left), behind.put(second, vectors, right))
    states = run_side_by_side(
        lambda: ahead.read(vectors, left), lambda: behind.read(vectors, right)
    )
    return BiLMState(*states)


def _read_with_gradients(
    paths: Sequence[_Path], vectors: Tensor, like: Tensor
) -> tuple[Tensor, BiLMState]:
    """What a window adds to the layers, and where it leaves the model."""

    def work(path: _Path) -> Work[StackState]:
        def read(vectors: Tensor) -> tuple[Tensor, StackState]:
            half = torch.zeros_like(like.chunk(2, dim=-1)[0])
            states = path.read(vectors, half)
            return half, tuple(state.detach() for state in states)

        return Work(read, vectors, list(path.stack.parameters()))

    (left, ahead), (right, behind) = join(*(work(path) for path in paths))
    return torch.cat([left, right], dim=-1), BiLMState(ahead, behind)


def _precision(model: BiLM) -> torch.dtype:
    """Layers are given in single precision or better."""
    return torch.promote_types(model.compute_dtype, torch.float32)

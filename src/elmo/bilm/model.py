"""The bidirectional language model: one class for training, scoring and embedding."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.side_by_side import Work, losses_side_by_side, run_side_by_side
from elmo.bilm.softmax import FullSoftmax, SampledSoftmax, build_output
from elmo.bilm.stack import LSTMStack, StackOutput, variational_dropout
from elmo.bilm.tokens import TokenLayer, look_up
from elmo.text.batches import Batch, Reading
from elmo.text.vocabulary import Vocabulary

StackState = tuple[LSTMState, ...]


class BiLMState(NamedTuple):
    """Where both directions stand between two windows of a text."""

    forward: StackState
    backward: StackState


class Randomness(NamedTuple):
    """The source of dropout and samples: a function of seed and step, so that a run can resume."""

    forward: torch.Generator
    backward: torch.Generator

    @classmethod
    def of(cls, seed: int, step: int, device: torch.device) -> Randomness:
        """Two generators that no other step of this run has."""
        start = (seed * 1_000_003 + step) * 2
        made = [torch.Generator(device).manual_seed((start + n) % 2**63) for n in (0, 1)]
        return cls(*made)


@dataclass(frozen=True)
class BatchLoss:
    """Summed loss a direction, in nats, the words predicted, and where the model stands."""

    forward: Tensor
    backward: Tensor
    forward_targets: int
    backward_targets: int
    state: BiLMState

    @property
    def mean(self) -> Tensor:
        """What training minimises: the mean of the two directions' losses a word."""
        return self.share(self.forward_targets, self.backward_targets)

    def share(self, forward_targets: int, backward_targets: int) -> Tensor:
        """What these words add to the mean of a larger batch with so many of them."""
        forward = self.forward / max(1, forward_targets)
        backward = self.backward / max(1, backward_targets)
        return (forward + backward) / 2


@dataclass(frozen=True)
class LayerActivations:
    """What the model knows of each word: layer 0 is the token alone, twice; then each LSTM layer.

    Boundaries are gone; positions behind a text's end hold zeros.
    """

    layers: Tensor  # (1 + layers, batch, words, 2 * width): forward, then backward
    lengths: Tensor  # (batch,), words a text
    state: BiLMState
    """Where each direction stands behind the last boundary it has read."""

    @property
    def mask(self) -> Tensor:
        """True where there is a word, (batch, words)."""
        places = torch.arange(self.layers.shape[2], device=self.lengths.device)
        return places < self.lengths[:, None]


class BiLM(nn.Module):
    """A forward and a backward LSTM stack that share token layer and softmax."""

    def __init__(self, config: BiLMConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.compute_dtype = torch.float32
        self.token_layer = TokenLayer(config, len(vocabulary))
        self.forward_stack = LSTMStack(config)
        self.backward_stack = LSTMStack(config)
        self.output = build_output(config, vocabulary, self.token_layer.word_vectors)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def directions(self) -> tuple[LSTMStack, LSTMStack]:
        """The forward and the backward stack."""
        return self.forward_stack, self.backward_stack

    @property
    def word_parameters(self) -> list[nn.Parameter]:
        """The parameters that have a row a word, of which a step may touch only a few."""
        found = [self.token_layer.word_vectors]
        if isinstance(self.output, FullSoftmax):
            found += [self.output.weight, self.output.bias]
        return list(dict.fromkeys(one for one in found if one is not None))

    def tie(self) -> None:
        """Make the softmax use the word vectors, where the configuration says so."""
        vectors = self.token_layer.word_vectors
        tied = self.config.softmax.tied and isinstance(self.output, FullSoftmax)
        if vectors is not None and tied:
            self.output.weight = vectors

    @contextmanager
    def gradients_by_row(self) -> Generator[None]:
        """What is read in here gives word vectors sparse gradients, of the rows that it touches.

        Otherwise each use of them makes a gradient as large as the whole vocabulary.
        """
        self._set_by_row(True)
        try:
            yield
        finally:
            self._set_by_row(False)

    def _set_by_row(self, by_row: bool) -> None:
        if self.token_layer.words is not None:
            self.token_layer.words.sparse = by_row
        if isinstance(self.output, SampledSoftmax):
            self.output.by_row = by_row

    def forward(
        self, batch: Batch, state: BiLMState | None = None, random: Randomness | None = None
    ) -> BatchLoss:
        """The language-model loss of a batch; without `random` nothing is dropped."""
        vectors = self._token_vectors(batch)
        works = [
            self._work(stack, vectors, reading, stack_state, generator)
            for stack, reading, stack_state, generator in zip(
                self.directions, batch.readings, state or (None, None), random or (None, None),
                strict=True,
            )
        ]  # fmt: skip
        (forward, forward_state), (backward, backward_state) = losses_side_by_side(*works)
        return BatchLoss(
            forward,
            backward,
            len(batch.forward.targets),
            len(batch.backward.targets),
            BiLMState(forward_state, backward_state),
        )

    @torch.no_grad()
    def read(self, batch: Batch, state: BiLMState | None = None) -> tuple[StackOutput, StackOutput]:
        """What each direction's layers put out, each in its own reading order."""
        return self._read_both(batch, self._token_vectors(batch), state)

    @torch.no_grad()
    def activations(self, batch: Batch, state: BiLMState | None = None) -> LayerActivations:
        """The layers of each word of a `whole_batch`, boundaries removed."""
        vectors = self._token_vectors(batch)
        forward, backward = self._read_both(batch, vectors, state)
        words = batch.forward.lengths - 2
        steps = torch.arange(len(batch.forward.inputs) - 2, device=words.device)[:, None]
        columns = torch.arange(len(words), device=words.device)
        # A forward stack meets word k at step k + 1, a backward one as many steps from its end.
        met_backward = (words - steps).clamp(min=0)
        tokens = look_up(vectors, batch.forward.inputs)[1:-1]
        layers = [torch.cat([tokens, tokens], dim=2)]
        for ahead, behind in zip(forward.layers, backward.layers, strict=True):
            layers.append(torch.cat([ahead[1:-1], behind[met_backward, columns]], dim=2))
        padding = (steps >= words)[None, :, :, None]
        stacked = torch.stack(layers).masked_fill(padding, 0)
        end = BiLMState(forward.states, backward.states)
        return LayerActivations(stacked.transpose(1, 2), words, end)

    def _read_both(
        self, batch: Batch, vectors: Tensor, state: BiLMState | None
    ) -> tuple[StackOutput, StackOutput]:
        forward_state, backward_state = state or (None, None)
        forward, backward = run_side_by_side(
            lambda: self._read(self.forward_stack, vectors, batch.forward, forward_state),
            lambda: self._read(self.backward_stack, vectors, batch.backward, backward_state),
        )
        return forward, backward

    def _token_vectors(self, batch: Batch) -> Tensor:
        return self.token_layer(batch.words).to(self.compute_dtype)

    def _read(
        self,
        stack: LSTMStack,
        vectors: Tensor,
        reading: Reading,
        states: StackState | None,
        random: torch.Generator | None = None,
    ) -> StackOutput:
        tokens = look_up(vectors, reading.inputs)
        return stack(tokens, states, reading.lengths, random, reading.rows)

    def _work(
        self,
        stack: LSTMStack,
        vectors: Tensor,
        reading: Reading,
        states: StackState | None,
        random: torch.Generator | None,
    ) -> Work[StackState]:
        def loss(vectors: Tensor) -> tuple[Tensor, StackState]:
            read = self._read(stack, vectors, reading, states, random)
            top = variational_dropout(read.layers[-1], self.config.dropout, random, reading.rows)
            total = self.output.loss(top.flatten(0, 1)[reading.asked], reading.targets, random)
            return total, tuple(state.detach() for state in read.states)

        return Work(loss, vectors, [*stack.parameters(), *self.output.parameters()])

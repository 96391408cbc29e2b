"""The bidirectional language model (Peters et al. 2018).

Each distinct word of a batch becomes one vector; a forward and a backward LSTM stack read these;
both predict the next word by one shared softmax. There are two ways in: `BiLM.loss` to train and
to score, `BiLM.layers` to read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState, scan_pair
from elmo.bilm.softmax import FullSoftmax, SampledSoftmax, build_output
from elmo.bilm.threads import run_directions
from elmo.bilm.tokens import TokenLayer
from elmo.text.batching import Batch, Layout, Rows, WordTable
from elmo.text.vocabulary import Vocabulary

FEW_TEXTS = 4
"""Up to so many texts, both directions are read in one loop; beyond, each has a thread."""
WORDS_AT_ONCE = 1024
"""How many words `token_vectors` computes at a time."""

StackState = tuple[LSTMState, ...]
"""The state of each layer of one direction."""


class BiLMState(NamedTuple):
    """The state of both directions, carried from window to window or from text to text."""

    forward: StackState
    backward: StackState

    def select(self, texts: Tensor | slice) -> BiLMState:
        """The state of these texts, in this order."""
        return BiLMState(*(tuple(layer.select(texts) for layer in stack) for stack in self))


class Randomness(NamedTuple):
    """Generators for dropout and negative samples: a function of seed and step, so runs resume."""

    forward: torch.Generator
    backward: torch.Generator

    @classmethod
    def of(cls, seed: int, step: int, device: torch.device) -> Randomness:
        """Two generators that no other step of this run has."""
        start = (seed * 1_000_003 + step) * 2
        return cls(*(torch.Generator(device).manual_seed((start + n) % 2**63) for n in (0, 1)))


@dataclass(frozen=True)
class BatchLoss:
    """The loss of each direction, summed over its targets, in nats."""

    forward: Tensor
    backward: Tensor
    forward_targets: int
    backward_targets: int
    state: BiLMState
    """After the last token of each text, without gradient history."""

    @property
    def mean(self) -> Tensor:
        """What training minimises: the mean of the two directions' losses per word."""
        return self.share(self.forward_targets, self.backward_targets)

    def share(self, forward_targets: int, backward_targets: int) -> Tensor:
        """What this batch adds to the mean loss of a larger one with so many targets."""
        forward = self.forward / max(1, forward_targets)
        backward = self.backward / max(1, backward_targets)
        return (forward + backward) / 2


@dataclass(frozen=True)
class LayerOutputs:
    """What the layers of both directions computed for a batch.

    Layer 0 is the word alone, the same in both directions; then each LSTM layer.
    """

    batch: Batch
    vectors: Tensor  # (distinct words, width)
    forward: tuple[Tensor, ...]  # per LSTM layer (tokens, width), packed as this direction reads
    backward: tuple[Tensor, ...]
    state: BiLMState
    """After the last token of each text; without gradient history if gradients are on."""

    def words(self, layers: Sequence[int] | None = None) -> Tensor:
        """The layers of every word, the texts end to end: (layers, words, 2 * width).

        Only of a batch of whole texts. In single precision or better; `layers`: default all.
        """
        if self.batch.word_tokens is None:
            raise ValueError("windows of texts have no complete words; use pack_texts")
        ahead, behind = self.batch.word_tokens
        found: list[Tensor] = []
        for layer in range(1 + len(self.forward)) if layers is None else layers:
            if layer == 0:
                forward = backward = functional.embedding(self.batch.inputs[0][ahead], self.vectors)
            else:
                forward = self.forward[layer - 1].index_select(0, ahead)
                backward = self.backward[layer - 1].index_select(0, behind)
            found.append(torch.cat([forward, backward], dim=1))  # (words, 2 * width)
        stacked = torch.stack(found)
        return stacked.to(torch.promote_types(stacked.dtype, torch.float32))

    def padded(self, layers: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """The same with one row per text, (layers, texts, longest, 2 * width), zeros after its end.

        Also returns the mask, (texts, longest), True where there is a word.
        """
        words = self.words(layers)
        lengths = torch.tensor(self.batch.lengths, device=words.device)
        mask = torch.arange(max(self.batch.lengths), device=words.device) < lengths[:, None]
        padded = words.new_zeros(len(words), *mask.shape, words.shape[-1])
        padded[:, mask] = words
        return padded, mask

    def at_targets(self) -> tuple[Tensor, Tensor]:
        """The top layer of each direction where it has to predict, (targets, width)."""
        return (
            self.forward[-1].index_select(0, self.batch.forward.tokens),
            self.backward[-1].index_select(0, self.batch.backward.tokens),
        )


class LSTMStack(nn.Module):
    """The LSTM layers of one direction, which never sees the other."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.skip = config.skip
        self.dropout = config.dropout
        self.layers = nn.ModuleList(
            LSTMLayer(
                config.width,
                config.hidden,
                config.projection,
                config.cell_clip,
                config.projection_clip,
            )
            for _ in range(config.layers)
        )

    def layer(self, index: int) -> LSTMLayer:
        """One of the layers; 0 is the lowest."""
        return cast("LSTMLayer", self.layers[index])

    def forward(
        self,
        vectors: Tensor,
        inputs: Tensor,
        layout: Layout,
        states: StackState | None = None,
        random: torch.Generator | None = None,
        rows: Rows | None = None,
        upto: int | None = None,
    ) -> tuple[tuple[Tensor, ...], StackState]:
        """Read packed texts.

        Args:
            vectors: (distinct words, width).
            inputs: (tokens,), indices into them.
            layout: which token belongs to which text.
            states: of each layer and text before the first token; default: zeros.
            random: draws the dropout; default: no dropout.
            rows: which rows of a larger batch the texts are.
            upto: how many layers read; default: all.

        Returns:
            The outputs of each layer, (tokens, width), and its states after the last tokens.
        """
        outputs: list[Tensor] = []
        ends: list[LSTMState] = []
        x, index = vectors, inputs  # the lowest layer multiplies each distinct word once …
        if random is not None:  # … unless dropout makes the same word different in every text
            x, index = functional.embedding(inputs, vectors), None  # (tokens, width)
        for number in range(len(self.layers) if upto is None else upto):
            layer = self.layer(number)
            if states is None:
                start = layer.zero_state(layout.texts, x)
            else:
                start = states[number].select(layout.sorted_indices)
            x = variational_dropout(x, self.dropout, random, layout, rows)
            y, end = layer(x, start, layout, index)  # (tokens, width)
            if self.skip and number > 0:
                y = y + x
            outputs.append(y)
            ends.append(end.select(layout.unsorted_indices))
            x, index = y, None
        return tuple(outputs), tuple(ends)


def variational_dropout(
    values: Tensor,
    rate: float,
    random: torch.Generator | None,
    layout: Layout,
    rows: Rows | None = None,
) -> Tensor:
    """Drop the same features, of (tokens, features), at every token of a text.

    Part of a larger batch drops what it would drop in the whole: the mask is drawn for all rows.
    """
    if random is None or rate == 0:
        return values
    shape = (layout.texts if rows is None else rows.total, values.shape[1])
    mask = torch.rand(shape, generator=random, device=values.device) >= rate
    if rows is not None:
        mask = mask[rows.places]
    return values * (mask.to(values.dtype) / (1 - rate)).index_select(0, layout.text)


class BiLM(nn.Module):
    """A forward and a backward LSTM stack that share token layer and softmax.

    >>> batch = pack_texts([["it", "rained"]], model.vocabulary, spelled=model.spelled)
    >>> model.loss(batch).mean.backward()
    >>> model.layers(batch).words().shape  # (1 + layers, words, 2 * width)
    torch.Size([3, 2, 512])
    """

    def __init__(self, config: BiLMConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.spelled = config.spelled
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

    def loss(
        self, batch: Batch, state: BiLMState | None = None, random: Randomness | None = None
    ) -> BatchLoss:
        """How badly both directions predict the targets of a batch: to train and to score.

        Args:
            batch: on the model's device.
            state: that of the texts before the batch; default: zeros.
            random: draws dropout and negative samples; default: no dropout.
        """
        vectors = self._token_vectors(batch)  # (distinct words, width)

        def direction(number: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], StackState]:
            targets = (batch.forward, batch.backward)[number]
            generator = None if random is None else random[number]
            outputs, ends = self.directions[number](
                vectors,
                batch.inputs[number],
                batch.layout,
                None if state is None else state[number],
                generator,
                batch.rows,
            )
            top = outputs[-1]  # (tokens, width)
            top = variational_dropout(top, self.config.dropout, generator, batch.layout, batch.rows)
            top = top.index_select(0, targets.tokens)  # (targets, width)
            return (self.output.loss(top, targets.ids, generator),), detached(ends)

        shared = list(self.output.parameters())
        ((forward,), ahead), ((backward,), behind) = run_directions(
            [lambda vectors: direction(0, vectors), lambda vectors: direction(1, vectors)],
            vectors,
            [[*stack.parameters(), *shared] for stack in self.directions],
        )
        return BatchLoss(
            forward,
            backward,
            len(batch.forward.ids),
            len(batch.backward.ids),
            BiLMState(ahead, behind),
        )

    def layers(
        self,
        batch: Batch,
        state: BiLMState | None = None,
        *,
        upto: int | None = None,
        random: Randomness | None = None,
    ) -> LayerOutputs:
        """What every layer makes of the tokens of a batch; gradients flow if they are on.

        Args:
            batch: on the model's device.
            state: that of the texts before the batch; default: zeros.
            upto: compute only so many LSTM layers, from the lowest; default: all.
            random: draws dropout; default: none.
        """
        vectors = self._token_vectors(batch)  # (distinct words, width)
        states = (None, None) if state is None else state
        upto = self.config.layers if upto is None else upto
        plain = random is None and not torch.is_grad_enabled() and vectors.device.type == "cpu"
        if upto == 0:
            ahead = behind = ((), ())
        elif plain and self.forward_stack.layer(0).uses_torch(vectors, batch.layout.texts):
            # A single text. One direction after the other: each call uses all threads, and takes
            # less time than two calls with half of them (docs/experiments.md).
            ahead, behind = (
                stack(vectors, inputs, batch.layout, start, upto=upto)
                for stack, inputs, start in zip(self.directions, batch.inputs, states, strict=True)
            )
        elif plain and batch.layout.texts <= FEW_TEXTS:
            ahead, behind = self._read_few(batch, vectors, states, upto)
        else:

            def direction(number: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], StackState]:
                outputs, ends = self.directions[number](
                    vectors,
                    batch.inputs[number],
                    batch.layout,
                    states[number],
                    None if random is None else random[number],
                    batch.rows,
                    upto,
                )
                return outputs, detached(ends)

            ahead, behind = run_directions(
                [lambda vectors: direction(0, vectors), lambda vectors: direction(1, vectors)],
                vectors,
                [list(stack.parameters()) for stack in self.directions],
            )
        return LayerOutputs(batch, vectors, ahead[0], behind[0], BiLMState(ahead[1], behind[1]))

    def _read_few(
        self,
        batch: Batch,
        vectors: Tensor,
        states: Sequence[StackState | None],
        upto: int,
    ) -> list[tuple[tuple[Tensor, ...], StackState]]:
        """Both stacks layer by layer, each layer of both directions in one loop over the steps."""
        layout = batch.layout
        outputs: list[Tensor] = []
        ends: list[list[LSTMState]] = []
        x = vectors[batch.inputs]  # (2, tokens, width)
        for number in range(upto):
            pair = [stack.layer(number) for stack in self.directions]
            starts = [
                layer.zero_state(layout.texts, vectors)
                if start is None
                else start[number].select(layout.sorted_indices)
                for layer, start in zip(pair, states, strict=True)
            ]
            y, end = scan_pair(pair, x, starts, layout)  # (2, tokens, width)
            if self.config.skip and number > 0:
                y = y + x
            outputs.append(y)
            ends.append([state.select(layout.unsorted_indices) for state in end])
            x = y
        return [
            (tuple(both[d] for both in outputs), tuple(both[d] for both in ends)) for d in (0, 1)
        ]

    def _token_vectors(self, batch: Batch) -> Tensor:
        return self.token_layer(batch.words).to(self.compute_dtype)

    @property
    def word_parameters(self) -> list[nn.Parameter]:
        """The parameters with one row per word, of which a step may touch only a few."""
        parameters = [self.token_layer.word_vectors]
        if isinstance(self.output, FullSoftmax):
            parameters += [self.output.weight, self.output.bias]
        return list(dict.fromkeys(one for one in parameters if one is not None))

    def tie(self) -> None:
        """Make the softmax use the word vectors, if the configuration says so."""
        vectors = self.token_layer.word_vectors
        tied = self.config.softmax.tied and isinstance(self.output, FullSoftmax)
        if vectors is not None and tied:
            self.output.weight = vectors

    @contextmanager
    def gradients_by_row(self) -> Generator[None]:
        """Give word vectors sparse gradients, with the rows that a step touches.

        Otherwise each use of them makes a gradient as large as the whole vocabulary: 677 instead
        of 725 ms per step with 37,122 words (docs/experiments.md).
        """

        def switch(by_row: bool) -> None:
            if self.token_layer.words is not None:
                self.token_layer.words.sparse = by_row
            if isinstance(self.output, SampledSoftmax):
                self.output.by_row = by_row

        switch(True)
        try:
            yield
        finally:
            switch(False)


def detached(states: StackState) -> StackState:
    """States without gradient history."""
    return tuple(state.detach() for state in states)


@torch.no_grad()
def token_vectors(model: BiLM, words: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """Layer 0 of words by themselves: yields (up to 1,024 words, width) until all are done."""
    table = WordTable.of(words, model.vocabulary, spelled=model.config.spelled)
    for first in range(0, len(words), WORDS_AT_ONCE):
        chunk = table.select(np.arange(first, min(first + WORDS_AT_ONCE, len(words))))
        yield model.token_layer(chunk.to(model.device)).float().cpu().numpy()

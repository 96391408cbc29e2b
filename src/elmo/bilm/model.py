"""The bidirectional language model: one class for training, scoring and embedding."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState, Ragged, at_end, shifted, turn
from elmo.bilm.softmax import FullSoftmax, SampledSoftmax, build_output
from elmo.bilm.threads import Work, join, losses_side_by_side, run_side_by_side
from elmo.bilm.tokens import TokenLayer, look_up
from elmo.text.batching import Batch, Reading, Rows, WordTable
from elmo.text.vocabulary import Vocabulary

# One direction: LSTM layers on top of each other, with dropout and skip connections.


End = TypeVar("End")


@dataclass(frozen=True)
class StackOutput:
    """What each layer put out, and where each one stands."""

    layers: tuple[Tensor, ...]  # each (time, batch, width), or (rows, width)
    states: tuple[LSTMState, ...]


class LSTMStack(nn.Module):
    """The layers of one direction; the other direction's are never seen."""

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

    def forward(
        self,
        tokens: Tensor,
        states: Sequence[LSTMState | None] | None,
        lengths: Tensor,
        random: torch.Generator | None = None,
        rows: Rows | None = None,
    ) -> StackOutput:
        """Read (time, batch, width); `random` draws the dropout, and without it none is dropped."""

        def drop(values: Tensor) -> Tensor:
            return variational_dropout(values, self.dropout, random, rows)

        def read(number: int, inputs: Tensor) -> tuple[Tensor, LSTMState]:
            return self.layer(number)(inputs, None if states is None else states[number], lengths)

        return StackOutput(*climb(tokens, drop, read, len(self.layers), skip=self.skip))

    def read_ragged(
        self,
        vectors: Tensor,
        places: Tensor,
        ragged: Ragged,
        states: Sequence[LSTMState] | None = None,
        random: torch.Generator | None = None,
        depth: int | None = None,
    ) -> StackOutput:
        """Read texts in rows, each the vector at its place, (rows,), among distinct words' vectors.

        States are in the order of the texts. With a depth, only so many lower layers read.
        """
        by_word = random is None  # dropout would make the same word different in each text
        tokens = vectors if by_word else functional.embedding(places, vectors)

        def drop(values: Tensor) -> Tensor:
            return ragged_dropout(values, self.dropout, random, ragged)

        def read(number: int, inputs: Tensor) -> tuple[Tensor, LSTMState]:
            state = None if states is None else states[number].of_texts(ragged.order)
            below = places if by_word and number == 0 else None
            output, end = self.layer(number).read(inputs, state, ragged.way, below)
            return output, end.of_texts(ragged.order.argsort())

        layers = len(self.layers) if depth is None else depth
        return StackOutput(*climb(tokens, drop, read, layers, skip=self.skip))

    def layer(self, number: int) -> LSTMLayer:
        """One of the layers, the lowest being number 0."""
        return cast("LSTMLayer", self.layers[number])


def climb(
    tokens: Tensor,
    drop: Callable[[Tensor], Tensor],
    read: Callable[[int, Tensor], tuple[Tensor, End]],
    depth: int,
    *,
    skip: bool,
) -> tuple[tuple[Tensor, ...], tuple[End, ...]]:
    """Layer by layer: outputs, with what was read added where connections skip, and ends."""
    outputs: list[Tensor] = []
    ends: list[End] = []
    output = tokens
    for number in range(depth):
        layer_input = drop(output)
        output, end = read(number, layer_input)
        if skip and number > 0:
            output = output + layer_input
        outputs.append(output)
        ends.append(end)
    return tuple(outputs), tuple(ends)


def variational_dropout(
    values: Tensor, share: float, random: torch.Generator | None, rows: Rows | None = None
) -> Tensor:
    """Drop the same features at every step of a text, (time, batch, features).

    Part of a batch drops what it would drop in the whole: a mask is drawn for all of its rows.
    """
    if random is None or share == 0:
        return values
    _, batch, features = values.shape
    shape = (1, batch if rows is None else rows.total, features)
    kept = torch.rand(shape, generator=random, device=values.device) >= share
    if rows is not None:
        kept = kept[:, rows.places]
    return values * (kept.to(values.dtype) / (1 - share))


def ragged_dropout(
    values: Tensor, share: float, random: torch.Generator | None, ragged: Ragged
) -> Tensor:
    """Drop of (rows, features) what `variational_dropout` drops of the same texts with padding."""
    if random is None or share == 0:
        return values
    ones = values.new_ones(1, len(ragged.order), values.shape[1])
    return values * variational_dropout(ones, share, random)[0, ragged.text]


# Both directions of a few texts in one loop, with one product for both at each step.
#
# The steps of a few texts are so short that two threads would do little but take turns at the
# interpreter. Without gradients; all else is as in `scan`.


FEW_TEXTS = 4
"""Of more texts, a step is long enough for a thread a direction."""

States = Sequence[LSTMState]


def read_paired(
    stacks: tuple[LSTMStack, LSTMStack],
    vectors: Tensor,
    places: tuple[Tensor, Tensor],
    ragged: Ragged,
    states: tuple[States | None, States | None] = (None, None),
    depth: int | None = None,
) -> tuple[StackOutput, StackOutput]:
    """What each stack's `read_ragged` gives; texts are equally long for both."""

    def read(number: int, inputs: Tensor) -> tuple[Tensor, list[LSTMState]]:
        pair = [stack.layer(number) for stack in stacks]
        start = [
            layer.start(len(ragged.order), vectors)
            if given is None
            else given[number].of_texts(ragged.order)
            for layer, given in zip(pair, states, strict=True)
        ]
        outputs, cells = _scan(pair, inputs, start, ragged.way.sizes)
        return outputs, [
            at_end(one, cell, before, ragged.way).of_texts(ragged.order.argsort())
            for one, cell, before in zip(outputs, cells, start, strict=True)
        ]

    tokens = torch.stack([vectors[one] for one in places])  # (2, rows, width)
    layers = len(stacks[0].layers) if depth is None else depth
    outputs, ends = climb(tokens, lambda values: values, read, layers, skip=stacks[0].skip)
    ahead, behind = (
        StackOutput(tuple(one[n] for one in outputs), tuple(one[n] for one in ends)) for n in (0, 1)
    )
    return ahead, behind


def _scan(
    pair: Sequence[LSTMLayer], inputs: Tensor, start: Sequence[LSTMState], sizes: list[int]
) -> tuple[Tensor, Tensor]:
    """The outputs and the cells of both directions, (2, rows, …)."""
    layer, kind = pair[0], inputs.dtype
    recurrent = _stacked([one.recurrent_weight for one in pair], kind)
    projection = None
    if layer.projection_weight is not None:
        projection = _stacked([cast("Tensor", one.projection_weight) for one in pair], kind)
    order = _by_step(sizes, inputs.device)
    gates = torch.cat(
        [
            torch.addmm(shifted(one.bias).to(kind), words, one.input_weight.to(kind))
            for one, words in zip(pair, inputs, strict=True)
        ]
    )[order]
    output = _stacked([one.output for one in start], kind)
    cell = torch.stack([one.cell for one in start])
    outputs = inputs.new_empty(len(order), layer.width)
    cells = cell.new_empty(len(order), layer.hidden)
    squashed = inputs.new_empty(len(order), layer.hidden)
    doubled = [2 * size for size in sizes]
    for *step, some in zip(
        torch.split(gates, doubled),
        torch.split(squashed, doubled),
        torch.split(cells, doubled),
        torch.split(outputs, doubled),
        sizes,
        strict=True,
    ):
        gate, squash, new_cell, new_output = (one.view(2, some, -1) for one in step)
        gate.baddbmm_(output[:, :some], recurrent)
        o = turn(gate, cell[:, :some], layer.cell_clip, new_cell, squash)
        if projection is None:
            torch.mul(o, squash, out=new_output)
        else:
            torch.bmm(o * squash, projection, out=new_output)
            if layer.projection_clip is not None:
                new_output.clamp_(-layer.projection_clip, layer.projection_clip)
        output, cell = new_output, new_cell
    back = order.argsort()
    return outputs[back].view(2, -1, layer.width), cells[back].view(2, -1, layer.hidden)


def _by_step(sizes: list[int], device: torch.device) -> Tensor:
    """Rows of both directions, one behind the other, as steps need them: a step's lie together."""
    steps = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)
    return torch.cat([steps, steps]).argsort(stable=True)


def _stacked(tensors: Sequence[Tensor], kind: torch.dtype) -> Tensor:
    return torch.stack([one.to(kind) for one in tensors])


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


# The vectors of words alone, as the token layer makes them, a portion at a time.


WORDS_AT_ONCE = 1024


@torch.no_grad()
def token_vectors(model: BiLM, words: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """Yield (portion, width) until all words have had their turn."""
    table = WordTable.of(words, model.vocabulary, spelled=model.config.spelled)
    for first in range(0, len(words), WORDS_AT_ONCE):
        portion = table.select(np.arange(first, min(first + WORDS_AT_ONCE, len(words))))
        yield model.token_layer(portion.to(model.device)).float().cpu().numpy()


# Texts of any length are read in windows, and each layer's outputs put at their words.
#
# The forward direction takes its windows from a text's begin, the backward one from its end, so
# both carry their state from window to window and give exactly what reading at once would give.


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

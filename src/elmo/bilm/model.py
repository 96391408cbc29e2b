"""The bidirectional language model (Peters et al. 2018).

    Batch      packed texts: their distinct words, and which word each token is
      │ token_layer                         (distinct words, width)
      ├─ forward_stack    reads from the first word, layer by layer, (tokens, width) each
      └─ backward_stack   reads from the last word; the two never see each other
      │
      ├─ BiLM.layers      what every layer computed for every word: this is ELMo
      └─ BiLM.loss        both predict the next word they would read, by one shared softmax

`layers` and `loss` are the only two ways through the model: the first to embed, to evaluate and to
fine-tune, the second to train. A word is known to layer 0 without its context, to the layers above
with all words before it (forward) and all words after it (backward).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import (
    LSTMStack,
    LSTMState,
    StackState,
    detached,
    read_together,
    variational_dropout,
)
from elmo.bilm.softmax import FullSoftmax, SampledSoftmax, build_output
from elmo.bilm.tokens import TokenLayer
from elmo.errors import UserError
from elmo.runtime import after_fork_in_child, machine_memory
from elmo.text.batching import Batch, WordTable, pack_texts
from elmo.text.vocabulary import Vocabulary

FEW_TEXTS = 4
"""Up to this many texts, both directions run in one loop: a layer of 32 steps takes 7.2 ms instead
of 14.2 with one thread per direction. From eight texts on threads win (docs/experiments.md)."""
MANY_TOKENS = 1 << 16  # of a larger batch, a very long text, it is checked that memory suffices
WORDS_AT_ONCE = 1024  # how many words `token_vectors` computes at a time


class BiLMState(NamedTuple):
    """The state of both directions, carried from window to window or from text to text."""

    forward: StackState
    backward: StackState

    def select(self, texts: Tensor | slice) -> BiLMState:
        return BiLMState(*(tuple(layer.select(texts) for layer in stack) for stack in self))

    def followed_by(self, other: BiLMState) -> BiLMState:
        """This state and, for the texts after its own, that of another."""
        return BiLMState(
            *(
                tuple(layer.followed_by(old) for layer, old in zip(*stacks, strict=True))
                for stacks in zip(self, other, strict=True)
            )
        )

    def tensors(self) -> dict[str, Tensor]:
        """The state as tensors named `forward.0.output`, `forward.0.cell`, …, for a file."""
        return {
            f"{direction}.{number}.{name}": tensor
            for direction, layers in zip(self._fields, self, strict=True)
            for number, layer in enumerate(layers)
            for name, tensor in zip(layer._fields, layer, strict=True)
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> BiLMState:
        layers = len(tensors) // 4  # two directions, output and cell
        stacks = [
            tuple(
                LSTMState(*(tensors[f"{direction}.{number}.{name}"] for name in LSTMState._fields))
                for number in range(layers)
            )
            for direction in cls._fields
        ]
        return cls(*stacks)


class Randomness(NamedTuple):
    """Generators for dropout and negative samples: a function of seed and step, so runs resume."""

    forward: torch.Generator
    backward: torch.Generator

    @classmethod
    def of(cls, seed: int, step: int, device: torch.device) -> Randomness:
        """Two generators that no other step of this run has."""
        start = (seed * 1_000_003 + step) * 2
        return cls(*(torch.Generator(device).manual_seed((start + n) % 2**63) for n in (0, 1)))


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Modules built in here have initial weights that the seed alone determines."""
    # torch.nn draws from the global generator: seed it, then restore it.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True)
class BatchLoss:
    """The loss of each direction, summed over its targets, in nats."""

    forward: Tensor
    backward: Tensor
    forward_targets: int
    backward_targets: int
    state: BiLMState  # after the last token of each text, without gradient history

    @property
    def mean(self) -> Tensor:
        """What training minimises: the mean of the two directions' losses per word."""
        return self.mean_over(self.forward_targets, self.backward_targets)

    def mean_over(self, forward_targets: int, backward_targets: int) -> Tensor:
        """What this batch adds to the mean loss of a larger one with these numbers of targets."""
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
    state: BiLMState  # after the last tokens; without gradient history if gradients are on

    def words(self, layers: Sequence[int] | None = None) -> Tensor:
        """The layers of every word, the texts end to end: (layers, words, 2 * width).

        Only of a batch of whole texts. In single precision or better; `layers`: default all.
        """
        assert self.batch.word_tokens is not None, "expected whole texts, got windows of texts"
        # The index of each word in the packed order of each direction. Its forward vector has read
        # the text up to the word, its backward vector from the end down to it, the word included.
        forward_index, backward_index = self.batch.word_tokens  # (words,) each
        vectors: list[Tensor] = []
        for layer in range(1 + len(self.forward)) if layers is None else layers:
            if layer == 0:
                words = self.batch.inputs[0][forward_index]  # of the distinct ones
                forward = backward = functional.embedding(words, self.vectors)  # (words, width)
            else:
                forward = self.forward[layer - 1].index_select(0, forward_index)  # (words, width)
                backward = self.backward[layer - 1].index_select(0, backward_index)
            vectors.append(torch.cat([forward, backward], dim=1))  # (words, 2 * width)
        stacked = torch.stack(vectors)
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


class BiLM(nn.Module):
    """A forward and a backward LSTM stack that share token layer and softmax.

    >>> batch = model.pack([["it", "rained"]])
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
        self.token_layer = TokenLayer(config, vocabulary)
        self.forward_stack = LSTMStack(config)
        self.backward_stack = LSTMStack(config)
        self.output = build_output(config, vocabulary, self.token_layer.word_vectors)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def directions(self) -> tuple[LSTMStack, LSTMStack]:
        return self.forward_stack, self.backward_stack

    def zero_state(self, texts: int) -> BiLMState:
        """The state before the first words of texts."""
        like, layers = torch.empty(0, device=self.device), range(self.config.layers)
        forward, backward = self.directions
        return BiLMState(
            tuple(forward.layer(number).zero_state(texts, like) for number in layers),
            tuple(backward.layer(number).zero_state(texts, like) for number in layers),
        )

    def pack(self, texts: Sequence[Sequence[str]], *, read_end: bool = False) -> Batch:
        """Pack texts, each a list of words, into a batch on the model's device (`pack_texts`)."""
        device = self.device
        batch = pack_texts(texts, self.vocabulary, spelled=self.spelled, read_end=read_end)
        return batch.to(device)

    def loss(
        self,
        batch: Batch,  # on the model's device
        state: BiLMState | None = None,  # of the texts before the batch; default: zeros
        random: Randomness | None = None,  # draws dropout and negatives; default: no dropout
    ) -> BatchLoss:
        """The cross-entropy of both directions over a batch's targets: to train and to score."""
        vectors = self._token_vectors(batch)  # (distinct words, width)

        # A function of the direction, because on a CPU both run at the same time (both_directions).
        def read(direction: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], StackState]:
            targets = (batch.forward, batch.backward)[direction]
            generator = None if random is None else random[direction]
            stack = self.directions[direction]
            outputs, end = stack(
                vectors,
                batch.inputs[direction],
                batch.layout,
                None if state is None else state[direction],
                generator,
                batch.rows,
            )
            top = outputs[-1]  # (tokens, width)
            top = variational_dropout(top, stack.dropout, generator, batch.layout, batch.rows)
            # After each token the next one is predicted; the last token of a window has no target
            # if the text ends there.
            top = top.index_select(0, targets.tokens)  # (targets, width)
            return (self.output.loss(top, targets.ids, generator),), detached(end)

        shared = list(self.output.parameters())
        parameters = [[*stack.parameters(), *shared] for stack in self.directions]
        ((forward,), forward_end), ((backward,), backward_end) = both_directions(
            read, vectors, parameters
        )
        targets = (len(batch.forward.ids), len(batch.backward.ids))
        return BatchLoss(forward, backward, *targets, BiLMState(forward_end, backward_end))

    def layers(
        self,
        batch: Batch,  # on the model's device
        state: BiLMState | None = None,  # of the texts before the batch; default: zeros
        *,
        upto: int | None = None,  # LSTM layers to compute, from the lowest; default: all
        random: Randomness | None = None,  # draws dropout; default: none
    ) -> LayerOutputs:
        """The outputs of every layer for the tokens of a batch; gradients flow if they are on."""
        vectors = self._token_vectors(batch)  # (distinct words, width)
        states = (None, None) if state is None else state
        directions = self.directions
        upto = self.config.layers if upto is None else upto
        # Four ways to compute the same; the first whose condition holds (docs/experiments.md):
        #   one text, no gradients, CPU,   torch.lstm, one direction  each call uses all threads;
        #     no clipping or projection      after the other            half of them take longer
        #   up to FEW_TEXTS, no            read_together, both        steps so short that threads
        #     gradients, CPU                 directions in one loop     only take turns
        #   CPU                            _Scan, one thread per      threads never wait for each
        #                                    direction                  other (in_two_threads)
        #   accelerator                    torch.lstm, or _Scan if    a loop in Python queues
        #                                    clipped or projected       tiny kernels
        plain = random is None and not torch.is_grad_enabled() and vectors.device.type == "cpu"
        if upto == 0:
            forward = backward = ((), ())
        elif plain and directions[0].layer(0).uses_torch(vectors, batch.layout.texts):
            given = zip(directions, batch.inputs, states, strict=True)
            with torch.autocast("cpu", enabled=False):
                forward, backward = (
                    stack(vectors, inputs, batch.layout, initial, upto=upto)
                    for stack, inputs, initial in given
                )
        elif plain and batch.layout.texts <= FEW_TEXTS:
            with torch.autocast("cpu", enabled=False):
                forward, backward = read_together(
                    directions, vectors, batch.inputs, batch.layout, states, upto
                )
        else:

            def read(direction: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], StackState]:
                outputs, end = directions[direction](
                    vectors,
                    batch.inputs[direction],
                    batch.layout,
                    states[direction],
                    None if random is None else random[direction],
                    batch.rows,
                    upto,
                )
                return outputs, detached(end)

            parameters = [list(stack.parameters()) for stack in directions]
            forward, backward = both_directions(read, vectors, parameters)
        state = BiLMState(forward[1], backward[1])
        return LayerOutputs(batch, vectors, forward[0], backward[0], state)

    def _token_vectors(self, batch: Batch) -> Tensor:
        tokens, config = batch.inputs.shape[1], self.config
        if tokens > MANY_TOKENS and self.device.type == "cpu":
            # Per token: the gates of both directions, and each layer twice; 4 bytes per number.
            needed = 16 * tokens * (2 * config.hidden + (1 + config.layers) * config.width)
            if needed > (memory := machine_memory()):
                raise UserError(
                    f"a text of {max(batch.lengths, default=0):,} words takes {needed / 1e9:,.0f} "
                    f"GB of {memory / 1e9:,.0f} to read; break it into shorter texts"
                )
        return self.token_layer(batch.words).to(self.compute_dtype)

    def in_parallel(
        self, forward: Callable[[], Result], backward: Callable[[], Result]
    ) -> list[Result]:
        """Call one function per direction, without gradients; at the same time on a CPU."""
        if self.device.type != "cpu":
            return [forward(), backward()]
        return in_two_threads(forward, backward)

    @property
    def word_parameters(self) -> list[nn.Parameter]:
        """The parameters with one row per word, of which a step may touch only a few."""
        parameters = [self.token_layer.word_vectors]
        if isinstance(self.output, FullSoftmax):
            parameters += [self.output.weight, self.output.bias]
        return list(dict.fromkeys(tensor for tensor in parameters if tensor is not None))

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

        tables = [self.token_layer.words, self.output]
        tables = [table for table in tables if isinstance(table, nn.Embedding | SampledSoftmax)]
        for table in tables:
            table.sparse = True
        try:
            yield
        finally:
            for table in tables:
                table.sparse = False


@torch.no_grad()
def token_vectors(model: BiLM, words: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """Layer 0 of words by themselves: yields (up to 1,024 words, width) until all are done."""
    table = WordTable.of(words, model.vocabulary, spelled=model.config.spelled)
    for first in range(0, len(words), WORDS_AT_ONCE):
        chunk = table.select(np.arange(first, min(first + WORDS_AT_ONCE, len(words))))
        yield model.token_layer(chunk.to(model.device)).float().cpu().numpy()


# Both directions at the same time: one thread each, forward and backward through the graph.
#
# The two directions share nothing but parameters. Two OpenMP threads on one matrix product wait for
# each other at every barrier; two threads on two directions never do (while another process takes a
# core, the former are up to 20 times slower, the latter are not). On an accelerator the directions
# are queued one after the other instead, and autograd needs no help.

Extra = TypeVar("Extra")
Result = TypeVar("Result")
Tensors = tuple[Tensor, ...]
Direction = Callable[[int, Tensor], tuple[Tensors, Extra]]
"""Reads forward (0) or backward (1): differentiable tensors, and something else, from the vectors
of a batch's words."""


def both_directions(
    read: Direction[Extra], vectors: Tensor, parameters: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensors, Extra]]:
    """Call `read(0, vectors)` and `read(1, vectors)`, at the same time on a CPU.

    Gradients flow to `vectors` and to `parameters`, those that each direction uses; the second
    value that `read` returns has no gradient. `compute_dtype` is the switch here, not autocast.
    """
    if vectors.device.type != "cpu":
        with torch.autocast(vectors.device.type, enabled=False):
            return [read(0, vectors), read(1, vectors)]
    if not torch.is_grad_enabled():
        return in_two_threads(lambda: read(0, vectors), lambda: read(1, vectors))
    extras: list[Extra] = []
    tensors = [(vectors, *used) for used in parameters]
    results = cast(
        "Tensors", _TwoThreads.apply(read, len(tensors[0]), extras, *tensors[0], *tensors[1])
    )
    half = len(results) // 2  # both directions return equally many
    return list(zip((results[:half], results[half:]), extras, strict=True))


_one_call = Lock()


def in_two_threads(left: Callable[[], Result], right: Callable[[], Result]) -> list[Result]:
    """Call two functions at once, without gradients, each with half of torch's threads.

    With one thread they are called one after the other. Not re-entrant; a second thread of the user
    waits, since each call changes torch's number of threads and restores it.
    """

    def run(function: Callable[[], Result], threads: int) -> Result:
        # OpenMP counts threads per calling thread, and torch hands its count over only with the
        # first operation that it divides itself: without this line, the first matrix product of a
        # new thread ran with all cores, and differed in its last bits from all later ones.
        torch.set_num_threads(threads)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return function()

    with _one_call:
        threads = torch.get_num_threads()
        if threads > 1:
            other = _pool().submit(run, left, threads // 2)
            try:
                mine = run(right, threads // 2)
                return [other.result(), mine]
            finally:
                wait([other])  # even if `right` has failed: nothing goes on unseen
                torch.set_num_threads(threads)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return [left(), right()]


class _TwoThreads(torch.autograd.Function):
    """Each thread builds the graph of its direction, and later runs backward through it."""

    @staticmethod
    def forward(
        ctx: Any, read: Direction[Any], split: int, extras: list[Any], *tensors: Tensor
    ) -> Tensors:
        both = (tensors[:split], tensors[split:])

        def run(number: int) -> tuple[Tensors, Any, Tensor, list[Tensor | None] | None]:
            vectors, *used = both[number]
            with torch.enable_grad():
                # A graph of its own; if all below is frozen, nothing need be kept for it.
                vectors = vectors.detach().requires_grad_(vectors.requires_grad)
                results, extra = read(number, vectors)
            if len(results) == 1 and not results[0].dim():
                # A scalar loss: its gradients are known up to a factor. Compute them now, so that
                # the threads meet once per step and, with one thread, this graph is freed before
                # the other direction builds its own.
                return results, extra, vectors, _gradients(results, (vectors, *used), None)
            return results, extra, vectors, None

        (left, left_extra, *left_graph), (right, right_extra, *right_graph) = in_two_threads(
            lambda: run(0), lambda: run(1)
        )
        extras.extend((left_extra, right_extra))
        ctx.split, ctx.parameters = split, [used[1:] for used in both]
        ctx.gradients = [left_graph[1], right_graph[1]]
        if ctx.gradients[0] is None:
            # Saved through ctx, so that autograd frees them with the outer graph.
            ctx.save_for_backward(left_graph[0], *left, right_graph[0], *right)
        return tuple(result.detach() for result in (*left, *right))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *d_results: Tensor
    ) -> tuple[Tensor | None, ...]:
        half = len(d_results) // 2
        if ctx.gradients[0] is not None:
            scaled = [
                None if gradient is None else gradient * d_loss
                for gradients, d_loss in zip(ctx.gradients, d_results, strict=True)
                for gradient in gradients
            ]
            return (None, None, None, *scaled)
        saved = ctx.saved_tensors
        graphs = (saved[: half + 1], saved[half + 1 :])

        def run(number: int) -> list[Tensor | None]:
            vectors, *results = graphs[number]
            d_mine = d_results[half * number : half * (number + 1)]
            return _gradients(results, (vectors, *ctx.parameters[number]), d_mine)

        left, right = in_two_threads(lambda: run(0), lambda: run(1))
        return (None, None, None, *left, *right)


def _gradients(
    results: Sequence[Tensor], tensors: Sequence[Tensor], d_results: Sequence[Tensor] | None
) -> list[Tensor | None]:
    """The gradient of each tensor, None where it is frozen; a loss (no `d_results`) counts once."""
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    graph = [number for number, result in enumerate(results) if result.requires_grad]
    if not graph:
        return [None] * len(tensors)
    gradients = iter(
        torch.autograd.grad(
            [results[number] for number in graph],
            trained,
            None if d_results is None else [d_results[number] for number in graph],
            allow_unused=True,
            retain_graph=d_results is not None,
        )
    )
    return [next(gradients) if tensor.requires_grad else None for tensor in tensors]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="elmo-direction")


def _after_fork() -> None:
    # A forked process has none of its parent's threads: neither ours, nor those of GNU OpenMP,
    # which would wait for them for ever. Whoever wants more threads in a worker should spawn it.
    # And a lock that another thread of the parent holds would never be released.
    global _one_call
    _one_call = Lock()
    _pool.cache_clear()
    torch.set_num_threads(1)


after_fork_in_child(_after_fork)

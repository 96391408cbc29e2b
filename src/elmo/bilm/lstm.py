"""LSTM layers on packed texts, with optional projection and clipping, and their stack.

    i, f, o = sigmoid(x W + h R + b),  with 1 added to f's argument     j = tanh(x W + h R + b)
    c = clip(f c + i j)
    h = clip((o tanh c) P)             or o tanh c, without projection

`_Scan` computes it in a loop over the steps with a gradient formed by hand: it knows clipping, and
on a CPU it is as fast as `nn.LSTM`. `scan_pair` is such a loop over both directions, `torch.lstm`
one call for all steps; `BiLM.layers` has a table of which is used when. All give the same values
and gradients, which is tested on the CPU by forcing each; no accelerator was at hand to test on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from elmo.bilm.config import BiLMConfig
    from elmo.text.batching import Layout, Rows

FORGET_OFFSET = 1.0  # added to the forget gate's argument: a new layer remembers
TOKENS_AT_ONCE = 2048
"""Without gradients, gates and cells are stored for this many tokens, not for a whole batch. For
memory rather than speed: with 4,096 cells the gates of 8,192 tokens take 512 MB per direction."""
DISTINCT_AT_ONCE = 1 << 15
"""Up to this many distinct words, the input product is computed once per word, not per token. Of
8,192 tokens 37% are distinct words, which makes the first layer 1.3 to 1.4 times as fast
(docs/experiments.md)."""
SIGMOID_FROM = 8192  # tensors with at least this many elements compute tanh as a sigmoid

SAMPLE = 4096  # about this many elements of a weight are compared to see whether it has changed


class LSTMState(NamedTuple):
    """The last output and cell of each text."""

    output: Tensor  # (texts, width)
    cell: Tensor  # (texts, hidden)

    def detach(self) -> LSTMState:
        return LSTMState(self.output.detach(), self.cell.detach())

    def select(self, texts: Tensor | slice) -> LSTMState:
        return LSTMState(self.output[texts], self.cell[texts])

    def followed_by(self, other: LSTMState) -> LSTMState:
        texts = len(self.output)
        return LSTMState(
            *(torch.cat([new, old[texts:]]) for new, old in zip(self, other, strict=True))
        )


StackState = tuple[LSTMState, ...]  # the state of each layer of one direction


class LSTMLayer(nn.Module):
    """Reads packed texts in one direction."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        projection: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.width = hidden if projection is None else projection
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        # Gates in the order input, forget, output, candidate.
        self.input_weight = nn.Parameter(torch.empty(inputs, 4 * hidden))
        self.recurrent_weight = nn.Parameter(torch.empty(self.width, 4 * hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.projection_weight = (
            None if projection is None else nn.Parameter(torch.empty(hidden, projection))
        )
        self._torch_weights = _TorchWeights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.input_weight)
        for gate in self.recurrent_weight.data.chunk(4, dim=1):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            nn.init.xavier_uniform_(self.projection_weight)

    def zero_state(self, texts: int, like: Tensor) -> LSTMState:
        """The state before the first word. Cells are kept in single precision or better."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        cell = torch.zeros(texts, self.hidden, dtype=dtype, device=like.device)
        return LSTMState(like.new_zeros(texts, self.width), cell)

    def forward(
        self,
        inputs: Tensor,  # (tokens, inputs) or, with `index`, one row per distinct word
        state: LSTMState,  # of each text before its first token, longest text first
        layout: Layout,
        index: Tensor | None = None,  # (tokens,): the row of `inputs` that each token has
    ) -> tuple[Tensor, LSTMState]:
        """The outputs, (tokens, width), and the state of each text after its last token."""
        dtype, active = inputs.dtype, layout.batch_sizes[0]  # the texts that have any token here
        if self.uses_torch(inputs, layout.texts):
            tokens = inputs if index is None else inputs[index]
            outputs, output, cell = self._torch_lstm(tokens, state.select(slice(active)), layout)
        else:
            projection = self.projection_weight
            outputs, cell = cast(
                "tuple[Tensor, Tensor]",
                _Scan.apply(
                    inputs, state.output.to(dtype), state.cell, self.input_weight.to(dtype),
                    self.recurrent_weight.to(dtype), self.bias.to(dtype),
                    None if projection is None else projection.to(dtype), index, layout,
                    (self.cell_clip, self.projection_clip), torch.is_grad_enabled(),
                ),
            )  # fmt: skip
            output = outputs[layout.last[:active]]
        if active < layout.texts:  # windows of a batch: the other texts have ended before
            output = torch.cat([output, state.output[active:].to(output.dtype)])
            cell = torch.cat([cell, state.cell[active:].to(cell.dtype)])
        return outputs, LSTMState(output, cell)

    def uses_torch(self, inputs: Tensor, texts: int) -> bool:
        """Whether torch's own LSTM reads this: a function of device, layer and number of texts."""
        if self.projection_weight is not None or self.cell_clip is not None:
            return False
        if inputs.device.type != "cpu":
            return True
        # On a CPU the scan pays several calls per step for the few numbers of a single text: 40
        # steps take 2.3 ms per direction this way, 7.2 ms for both in `scan_pair`
        # (docs/experiments.md).
        return (
            texts == 1
            and inputs.dtype == self.input_weight.dtype
            and not torch.is_grad_enabled()
            and not self.input_weight.is_inference()
        )

    def _torch_lstm(
        self, inputs: Tensor, state: LSTMState, layout: Layout
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs, (tokens, width), then output and cell after the last token of each text."""
        weights = self._torch_weights.of(self, inputs)
        options = (True, 1, 0.0, False, False)  # biases, layers, dropout, training, bidirectional
        output, cell = state.output[None].to(inputs.dtype), state.cell[None].to(inputs.dtype)
        if layout.texts > 1 or torch.is_grad_enabled() or inputs.device.type != "cpu":
            sizes = torch.tensor(layout.batch_sizes)  # on the host, as cuDNN wants it
            outputs, output, cell = torch.lstm(inputs, sizes, (output, cell), weights, *options)
        else:
            chunks: list[Tensor] = []
            # Split to bound the memory of a long text.
            for chunk in torch.split(inputs, 4 * TOKENS_AT_ONCE):
                chunk, output, cell = torch.lstm(
                    chunk[:, None], (output, cell), weights, *options, False
                )
                chunks.append(chunk[:, 0])
            outputs = torch.cat(chunks) if len(chunks) > 1 else chunks[0]
        return outputs, output[0], cell[0].to(state.cell.dtype)


class LSTMStack(nn.Module):
    """The LSTM layers of one direction, which never sees the other."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.first_skip = config.first_skip
        self.dropout = config.dropout
        clips = (config.cell_clip, config.projection_clip)
        self.layers = nn.ModuleList(
            LSTMLayer(config.width, config.hidden, config.projection, *clips)
            for _ in range(config.layers)
        )

    def layer(self, index: int) -> LSTMLayer:
        """One of the layers; 0 is the lowest."""
        return cast("LSTMLayer", self.layers[index])

    def forward(
        self,
        vectors: Tensor,  # (distinct words, width)
        inputs: Tensor,  # (tokens,), indices into them
        layout: Layout,
        states: StackState | None = None,  # before the first tokens; default: zeros
        random: torch.Generator | None = None,  # draws the dropout; default: no dropout
        rows: Rows | None = None,  # which rows of a larger batch the texts are
        upto: int | None = None,  # how many layers read; default: all
    ) -> tuple[tuple[Tensor, ...], StackState]:
        """The outputs of each layer, (tokens, width), and its states after the last tokens."""
        outputs: list[Tensor] = []
        ends: list[LSTMState] = []
        x, index = vectors, inputs  # the lowest layer multiplies each distinct word once …
        if random is not None:  # … unless dropout makes the same word different in every text
            x, index = functional.embedding(inputs, vectors), None  # (tokens, width)
        for number in range(len(self.layers) if upto is None else upto):
            layer = self.layer(number)
            if states is None:
                initial = layer.zero_state(layout.texts, x)
            else:
                initial = states[number].select(layout.sorted_indices)
            x = variational_dropout(x, self.dropout, random, layout, rows)
            y, end = layer(x, initial, layout, index)  # (tokens, width)
            if number >= self.first_skip:
                y = y + (x if index is None else x[index])
            outputs.append(y)
            ends.append(end.select(layout.unsorted_indices))
            x, index = y, None
        return tuple(outputs), tuple(ends)


def read_together(
    directions: Sequence[LSTMStack],  # forward and backward
    vectors: Tensor,  # (distinct words, width)
    inputs: Tensor,  # (2, tokens), indices into them
    layout: Layout,
    states: Sequence[StackState | None],  # of each direction before the first tokens
    upto: int,  # how many layers read
) -> list[tuple[tuple[Tensor, ...], StackState]]:
    """What both stacks return, each layer of the two in one loop over the steps; no gradients."""
    outputs: list[Tensor] = []
    ends: list[list[LSTMState]] = []
    x = vectors[inputs]  # (2, tokens, width)
    for number in range(upto):
        pair = [stack.layer(number) for stack in directions]
        initial = [
            layer.zero_state(layout.texts, vectors)
            if state is None
            else state[number].select(layout.sorted_indices)
            for layer, state in zip(pair, states, strict=True)
        ]
        y, end = scan_pair(pair, x, initial, layout)  # (2, tokens, width)
        if number >= directions[0].first_skip:
            y = y + x
        outputs.append(y)
        ends.append([state.select(layout.unsorted_indices) for state in end])
        x = y
    return [(tuple(both[d] for both in outputs), tuple(both[d] for both in ends)) for d in (0, 1)]


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
        mask = mask[rows.indices]
    return values * (mask.to(values.dtype) / (1 - rate)).index_select(0, layout.text)


def detached(states: StackState) -> StackState:
    return tuple(state.detach() for state in states)


class WeightsSnapshot(NamedTuple):
    """Weights as they were when something was computed from them: are they still the same?"""

    tensors: tuple[Tensor, ...]
    versions: tuple[int, ...]
    sample: Tensor

    @classmethod
    def of(cls, weights: Sequence[Tensor]) -> WeightsSnapshot:
        # An odd stride visits every column of a matrix whose width is a power of two.
        sample = [
            weight.detach().flatten()[:: (weight.numel() // SAMPLE) | 1] for weight in weights
        ]
        return cls(tuple(weights), tuple(weight._version for weight in weights), torch.cat(sample))

    def is_still(self, now: WeightsSnapshot) -> bool:
        """Whether these are the same tensors and nothing was written to them.

        Versions count most writes, but not those of fused optimizers nor to `weight.data`; the
        sample shows these.
        """
        return (
            len(self.tensors) == len(now.tensors)
            and all(old is new for old, new in zip(self.tensors, now.tensors, strict=True))
            and self.versions == now.versions
            and (self.sample.dtype, self.sample.device) == (now.sample.dtype, now.sample.device)
            and torch.equal(self.sample, now.sample)
        )


class _TorchWeights:
    """The weights of a layer for `torch.lstm`: transposed, gates in the order i, f, j, o."""

    def __init__(self) -> None:
        self._cached: tuple[WeightsSnapshot, list[Tensor]] | None = None

    def __reduce__(self) -> tuple[type[_TorchWeights], tuple[()]]:
        """A copy of a layer starts with an empty cache."""
        return _TorchWeights, ()

    def of(self, layer: LSTMLayer, inputs: Tensor) -> list[Tensor]:
        """Converted, with gradients if they are on; on a CPU without them, only after a change."""
        ours = (layer.input_weight, layer.recurrent_weight, layer.bias)
        if torch.is_grad_enabled() or inputs.device.type != "cpu":
            return self._convert(*(weight.to(inputs.dtype) for weight in ours))
        snapshot = WeightsSnapshot.of(ours)
        if self._cached is None or not self._cached[0].is_still(snapshot):
            with torch.inference_mode(False):
                self._cached = snapshot, self._convert(*(weight.detach() for weight in ours))
        return self._cached[1]

    @staticmethod
    def _convert(input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor) -> list[Tensor]:
        def ordered(gates: Tensor) -> Tensor:
            i, f, o, j = gates.chunk(4, dim=-1)
            return torch.cat([i, f, j, o], dim=-1)

        parts = [ordered(input_weight).t(), ordered(recurrent_weight).t()]
        parts += [ordered(_with_offset(bias)), torch.zeros_like(bias)]
        # One buffer in this order is what cuDNN computes with; other weights it copies every time.
        buffer = torch.cat([part.reshape(-1) for part in parts])
        sizes = [part.numel() for part in parts]
        split = zip(torch.split(buffer, sizes), parts, strict=True)
        return [flat.view(part.shape) for flat, part in split]


class _Scan(torch.autograd.Function):
    """All steps of a layer in a loop; the gradient takes one matrix product per step."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # (tokens, inputs), or (words, inputs) with an index
        initial_output: Tensor,  # (texts, width)
        initial_cell: Tensor,  # (texts, hidden)
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        index: Tensor | None,  # (tokens,)
        layout: Layout,
        clips: tuple[float | None, float | None],
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        width, gate_size = recurrent_weight.shape
        bias = _with_offset(bias)
        tokens, some = sum(layout.batch_sizes), layout.batch_sizes[0]
        # A gradient needs the gates of all steps. Without one, a chunk's worth of memory is used
        # again and again.
        chunks = list(layout.chunks(None if keep else TOKENS_AT_ONCE))
        longest = max(chunk.stop - chunk.start for chunk, _, _ in chunks)
        gates = inputs.new_empty(longest, gate_size)
        tanh_cells = inputs.new_empty(longest, gate_size // 4)
        cells = initial_cell.new_empty(longest, gate_size // 4)
        outputs = inputs.new_empty(tokens, width)
        end_cells = initial_cell.new_empty(some, gate_size // 4)
        # The input product of each distinct word once; about half of a batch's tokens are repeats.
        by_word = index is not None and len(inputs) <= DISTINCT_AT_ONCE
        word_gates = torch.addmm(bias, inputs, input_weight) if by_word else None
        output, cell = initial_output, initial_cell
        for chunk, sizes, ended in chunks:
            here = gates[: chunk.stop - chunk.start]
            if word_gates is not None and index is not None:
                torch.index_select(word_gates, 0, index[chunk], out=here)
            else:
                read = inputs[chunk] if index is None else inputs[index[chunk]]
                torch.addmm(bias, read, input_weight, out=here)
            # In place, in views of memory that is allocated once rather than at every step. `cell`
            # may lie in this buffer: the first step of a chunk reads it before, or exactly where,
            # it writes.
            for gate, new_cell, tanh_cell, new_output in zip(
                torch.split(here, sizes),
                torch.split(cells[: len(here)], sizes),
                torch.split(tanh_cells[: len(here)], sizes),
                torch.split(outputs[chunk], sizes),
                strict=True,
            ):
                gate.addmm_(output[: len(gate)], recurrent_weight)
                o = _step(gate, cell[: len(gate)], clips[0], new_cell, tanh_cell)
                cell = new_cell
                if projection is None:
                    output = torch.mul(o, tanh_cell, out=new_output)
                else:
                    output = torch.mm(o * tanh_cell, projection, out=new_output)
                    if clips[1] is not None:
                        output.clamp_(-clips[1], clips[1])
            end_cells[ended] = cells[layout.last[ended] - chunk.start]
        if keep:
            ctx.save_for_backward(
                inputs, initial_output, initial_cell, input_weight, recurrent_weight, projection,
                index, gates, outputs, cells, tanh_cells,
            )  # fmt: skip
            ctx.sizes, ctx.clips = layout.batch_sizes, clips
        ctx.mark_non_differentiable(end_cells)
        return outputs, end_cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, initial_output, initial_cell, input_weight, recurrent_weight, projection,
            index, gates, outputs, cells, tanh_cells,
        ) = ctx.saved_tensors  # fmt: skip
        sizes, (cell_clip, projection_clip) = ctx.sizes, ctx.clips
        hidden = cells.shape[1]
        d_gates = torch.empty_like(gates)
        d_projected = torch.empty_like(outputs)
        d_output = torch.zeros_like(initial_output)
        # No gradient comes from the next window through the cells: end_cells is a constant
        # (truncated BPTT).
        d_cell = torch.zeros_like(initial_cell)
        recurrent_back = recurrent_weight.t()
        steps = zip(
            torch.split(gates, sizes),
            torch.split(d_gates, sizes),
            torch.split(outputs, sizes),
            torch.split(gradients[0], sizes),
            torch.split(d_projected, sizes),
            torch.split(cells, sizes),
            (initial_cell, *torch.split(cells, sizes)[:-1]),
            torch.split(tanh_cells, sizes),
            strict=True,
        )
        for gate, d_gate, output, d_here, d_unclipped, cell, earlier, tanh_cell in reversed(
            [*steps]
        ):
            some = len(gate)
            i, f, o, j = gate.chunk(4, dim=1)
            d_i, d_f, d_o, d_j = d_gate.chunk(4, dim=1)
            d_h = d_output[:some] + d_here
            if projection is not None:
                if projection_clip is not None:
                    d_h = d_h * (output.abs() < projection_clip)
                d_unclipped.copy_(d_h)
                d_h = d_h @ projection.t()
            torch.mul(d_h, tanh_cell, out=d_o)
            d_c = d_cell[:some] + d_h * o * (1 - tanh_cell * tanh_cell)
            if cell_clip is not None:
                d_c = d_c * (cell.abs() < cell_clip)
            d_i.copy_(d_c * j)
            d_f.copy_(d_c * earlier[:some])
            d_j.copy_(d_c * i * (1 - j * j))
            sigmoids = gate[:, : 3 * hidden]  # s(1 - s) for the three sigmoids at once
            d_gate[:, : 3 * hidden].mul_(torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1))
            torch.mul(d_c, f, out=d_cell[:some])
            torch.mm(d_gate, recurrent_back, out=d_output[:some])
        # The gradients of the weights need no loop: one product over all tokens each.
        d_bias = d_gates.sum(0)
        before = (initial_output, *torch.split(outputs, sizes)[:-1])
        previous = torch.cat([output[:some] for output, some in zip(before, sizes, strict=True)])
        d_recurrent = previous.t() @ d_gates
        d_projection = None
        if projection is not None:
            d_projection = (gates.chunk(4, dim=1)[2] * tanh_cells).t() @ d_projected
        if index is not None:  # a word gathers the gradients of all its tokens
            by_word = d_gates.new_zeros(len(inputs), d_gates.shape[1])
            d_gates = by_word.index_add_(0, index, d_gates)
        d_inputs, d_input_weight = d_gates @ input_weight.t(), inputs.t() @ d_gates
        return (
            d_inputs, d_output, d_cell, d_input_weight, d_recurrent, d_bias, d_projection,
            None, None, None, None,
        )  # fmt: skip


def scan_pair(
    pair: Sequence[LSTMLayer],  # the forward and the backward layer
    inputs: Tensor,  # (2, tokens, inputs)
    initial: Sequence[LSTMState],  # of each direction, longest text first
    layout: Layout,
) -> tuple[Tensor, list[LSTMState]]:
    """The same layer of both directions, in one loop with one product per step; no gradients.

    A step of a few texts is so short that two threads would do little but take turns at the
    interpreter: up to four texts this is faster, from eight on it is not (docs/experiments.md).
    Returns the outputs, (2, tokens, width), and the states after the last tokens.
    """
    layer, dtype, sizes = pair[0], inputs.dtype, layout.batch_sizes
    recurrent = torch.stack([direction.recurrent_weight.to(dtype) for direction in pair])
    projection = None
    if layer.projection_weight is not None:
        weights = [cast("Tensor", direction.projection_weight) for direction in pair]
        projection = torch.stack([weight.to(dtype) for weight in weights])
    # Both directions' tokens of a step lie together: a step is one (2, texts, …) view.
    steps = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(inputs.device)
    order = torch.cat([steps, steps]).argsort(stable=True)
    gates = torch.cat(
        [
            torch.addmm(_with_offset(half.bias).to(dtype), tokens, half.input_weight.to(dtype))
            for half, tokens in zip(pair, inputs, strict=True)
        ]
    )[order]
    output = torch.stack([state.output.to(dtype) for state in initial])
    cell = torch.stack([state.cell for state in initial])
    outputs = inputs.new_empty(len(order), layer.width)
    cells = cell.new_empty(len(order), layer.hidden)
    tanh_cells = inputs.new_empty(len(order), layer.hidden)
    doubled = [2 * size for size in sizes]
    for some, *step in zip(
        sizes,
        torch.split(gates, doubled),
        torch.split(tanh_cells, doubled),
        torch.split(cells, doubled),
        torch.split(outputs, doubled),
        strict=True,
    ):
        gate, tanh_cell, new_cell, new_output = (rows.view(2, some, -1) for rows in step)
        gate.baddbmm_(output[:, :some], recurrent)
        o = _step(gate, cell[:, :some], layer.cell_clip, new_cell, tanh_cell)
        if projection is None:
            torch.mul(o, tanh_cell, out=new_output)
        else:
            torch.bmm(o * tanh_cell, projection, out=new_output)
            if layer.projection_clip is not None:
                new_output.clamp_(-layer.projection_clip, layer.projection_clip)
        output, cell = new_output, new_cell
    back = order.argsort()
    outputs = outputs[back].view(2, -1, layer.width)
    cells = cells[back].view(2, -1, layer.hidden)
    last = layout.last[: sizes[0]]
    ends = [
        LSTMState(
            torch.cat([outputs[number, last], state.output[sizes[0] :].to(dtype)]),
            torch.cat([cells[number, last], state.cell[sizes[0] :]]),
        )
        for number, state in enumerate(initial)
    ]
    return outputs, ends


def _step(
    gate: Tensor, earlier: Tensor, cell_clip: float | None, cell: Tensor, tanh_cell: Tensor
) -> Tensor:
    """One step, in place: from the gates' arguments, (…, 4 * hidden), and the earlier cells.

    Writes the cells and their tanh, turns the arguments into gates, returns the output gate.
    """
    hidden = cell.shape[-1]
    i, f, o, j = gate.chunk(4, dim=-1)
    gate[..., : 3 * hidden].sigmoid_()
    tanh(j, out=j)
    torch.mul(f, earlier, out=cell).add_(i * j)
    if cell_clip is not None:
        cell.clamp_(-cell_clip, cell_clip)
    tanh(cell, out=tanh_cell)
    return o


def tanh(values: Tensor, out: Tensor) -> Tensor:
    """Write the tanh of values into `out`, which may be the values themselves."""
    # On a CPU torch's tanh takes three times as long as its sigmoid, and 2 sigmoid(2x) - 1 is
    # within 2e-7 of it: exact enough in single precision alone. 6% more words are read per second
    # (docs/experiments.md); a few numbers are not worth the four calls.
    if out.device.type != "cpu" or out.dtype != torch.float32 or out.numel() < SIGMOID_FROM:
        return torch.tanh(values, out=out)
    return torch.mul(values, 2, out=out).sigmoid_().mul_(2).sub_(1)


def _with_offset(bias: Tensor) -> Tensor:
    hidden = len(bias) // 4
    bias = bias.clone()
    bias[hidden : 2 * hidden] += FORGET_OFFSET
    return bias

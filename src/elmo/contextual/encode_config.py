"""What is wanted of texts: which layer, pooled or a vector a word, read from which state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Layer = int | Literal["mix", "top", "average", "all"]
Output = Literal["pooled", "tokens"]
Start = Literal["zero", "warm", "carry"]
POOLINGS = ("mean", "max", "first", "last")
LAYERS = ("mix", "top", "average", "all")


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """How texts become vectors."""

    output: Output = "pooled"
    """pooled: one vector a text; tokens: one a word."""
    layer: Layer = "mix"
    """A layer by number (0 is the word alone), top, average, all of them side by side, or mix:
    the model's mix, which is the average where none was given."""
    pooling: str = "mean"
    """How words become a text: mean, max, first, last, or several joined by '+'."""
    start: Start = "zero"
    """The state each text is read from. zero: always the same; warm: always that after a neutral
    context; carry: that in which the text before was left, as the original ELMo does."""
    slots: int = 1
    """For carry: texts read side by side, each going on from the one so many before it."""
    batch_tokens: int | None = None
    """Words read in one step, padding included; longer texts are read in several. None: 8,192 to
    32,768, the more, the smaller the model."""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The names of the poolings, in the order in which their results are joined."""
        return tuple(self.pooling.split("+"))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.output not in ("pooled", "tokens"):
            yield f"output: expected pooled or tokens, got {self.output!r}"
        if isinstance(self.layer, str) and self.layer not in LAYERS:
            yield f"layer: expected a number or one of {', '.join(LAYERS)}; got {self.layer!r}"
        for name in self.poolings:
            if name not in POOLINGS:
                known = ", ".join(POOLINGS)
                yield f"pooling: expected {known}, or some of them joined by '+'; got {name!r}"
        if self.start not in ("zero", "warm", "carry"):
            yield f"start: expected zero, warm or carry; got {self.start!r}"
        if self.slots < 1:
            yield f"slots: must be positive, got {self.slots}"
        if self.slots > 1 and self.start != "carry":
            yield f"slots: only start=carry reads in slots, but start is {self.start!r}"
        if self.batch_tokens is not None and self.batch_tokens < 2:
            yield f"batch_tokens: at least 2 are needed, got {self.batch_tokens}"

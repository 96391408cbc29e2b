"""Settings of encoding, of the layer mix, and of the search for neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from elmo.config import Count, DropoutRate, NotNegative, Range, Seed

WordLayer = int | Literal["mix", "top", "average"]
Layer = WordLayer | Literal["all"]
Output = Literal["pooled", "tokens"]
Start = Literal["zero", "warm", "carry"]
POOLINGS = ("mean", "std", "max", "first", "last")
LAYERS = ("mix", "top", "average", "all")


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """How texts become vectors."""

    output: Output = "pooled"
    """pooled: one vector per text; tokens: one vector per word."""
    layer: Layer = "mix"
    """A layer number (0: the words alone), top, average, all of them side by side, or mix: the mix
    of the model, by default the average."""
    pooling: str = "mean"
    """How words become a text: mean, std, max, first, last, or several joined by '+'."""
    normalize: bool = False
    """Scale each vector to length 1."""
    initial_state: Start = "zero"
    """The state each text starts from. zero; warm: after a neutral context; carry: that after the
    previous text, as in the original ELMo."""
    slots: int = 1
    """For carry: number of texts read side by side; text n continues text n - slots."""
    batch_tokens: int | None = None
    """Tokens per batch, padding included; default: 8,192 to 32,768, more for smaller models.
    Ignored for carry, where a batch is the next text of each slot."""

    @property
    def poolings(self) -> tuple[str, ...]:
        return tuple(self.pooling.split("+"))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings.

        All of it, types included: `encode` asks this, which takes less time than `check`. Whole
        numbers may be numpy's.
        """
        values: dict[str, Any] = vars(self)  # of any type, whatever is declared
        layer, pooling = values["layer"], values["pooling"]
        slots, tokens = values["slots"], values["batch_tokens"]
        if self.output not in get_args(Output):
            yield f"output: expected pooled or tokens, got {self.output!r}"
        if (layer not in LAYERS) if isinstance(layer, str) else not hasattr(layer, "__index__"):
            yield f"layer: expected a whole number or one of {', '.join(LAYERS)}; got {layer!r}"
        if self.initial_state not in get_args(Start):
            yield f"initial_state: expected zero, warm or carry; got {self.initial_state!r}"
        for name in pooling.split("+") if isinstance(pooling, str) else [pooling]:
            if name not in POOLINGS:
                known = ", ".join(POOLINGS)
                yield f"pooling: expected {known}, or several joined by '+'; got {name!r}"
        if not hasattr(slots, "__index__") or slots < 1:
            yield f"slots: expected a whole number of at least 1, got {slots!r}"
        elif slots > 1 and self.initial_state != "carry":
            yield f"slots: expected 1 unless initial_state is carry, got {slots}"
        if tokens is not None and (not hasattr(tokens, "__index__") or tokens < 2):
            yield f"batch_tokens: expected a whole number of at least 2, got {tokens!r}"


TOLERANCE = 1e-4
"""How far from 1 the sum of weights may be that were rounded when they were written down."""

MixKind = Literal["trainable", "frozen", "function", "layer", "top", "average", "concatenation"]


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """How the layers of a word become one vector: for `ElmoLayer`, `LayerMix` and `Embedder`.

    >>> mix = MixConfig(mix="frozen", layer_weights=(0.2, 0.5, 0.3), gamma=2.0)
    >>> embedder = Embedder.from_pretrained(mix=mix)
    """

    mix: MixKind = "trainable"
    """trainable: a weighted sum, weights and scale learned; frozen: the same, fixed; function: a
    small network over all layers; layer, top: one of them; average; concatenation."""
    layer_weights: tuple[float, ...] | None = None
    """Weights of the sum, normalised, layer 0 first: initial ones (trainable) or fixed ones
    (frozen). Default: equal (trainable) or drawn at random (frozen)."""
    gamma: float = 1.0
    """Scale of the sum: its initial value (trainable) or its fixed one."""
    mix_seed: int = 0
    """Seed of random weights and of dropout."""
    mix_layer: Annotated[int, Range(0)] = 0
    """The layer of a mix of the kind `layer`; 0 is the word alone."""
    function_hidden: Count = 128
    """Hidden units of the learned function."""
    function_dim: Count | None = None
    """Output size of the learned function; default: that of a layer."""
    function_average: bool = True
    """The learned function is added to the average of the layers and starts at zero; otherwise it
    stands alone and starts at random."""
    function_activation: Literal["relu", "tanh", "gelu"] = "relu"
    """Activation of the learned function."""
    layer_norm: bool = False
    """Normalise each layer of a word to mean 0 and variance 1 before mixing."""
    mix_dropout: DropoutRate = 0.0
    """Dropout rate of the mixed vectors in training."""
    mix_pull: NotNegative = 0.0
    """Regularisation of the learned weights towards the average (the paper's lambda)."""

    @property
    def is_sum(self) -> bool:
        return self.mix not in ("function", "concatenation")

    def problems(self) -> Iterable[str]:
        if (weights := self.layer_weights) is not None:
            if self.mix not in ("trainable", "frozen"):
                yield f"layer_weights: a mix of the kind {self.mix!r} has no weights to set"
            if any(not 0 <= weight < float("inf") for weight in weights):
                yield f"layer_weights: expected numbers from 0 to 1, got {list(weights)}"
            elif abs(sum(weights) - 1) > TOLERANCE:
                total = f"{sum(weights):g} from {list(weights)}"
                yield f"layer_weights: expected a sum of 1, got {total}"
            elif self.mix == "trainable" and min(weights) == 0:
                yield (
                    "layer_weights: a softmax never gives exactly 0, so a trainable weight cannot "
                    "be set to it; use a small one such as 0.001, or a frozen mix"
                )
        if self.gamma != 1 and not self.is_sum:
            yield f"gamma: only a sum of layers is scaled, but the mix is a {self.mix}"
        if self.mix_pull and self.mix != "trainable":
            yield f"mix_pull: a mix that is {self.mix} has no weights to regularise"


Distinct = Literal["phrase", "word", "none"]


@dataclass(frozen=True, kw_only=True)
class NeighbourConfig:
    """Which words of a corpus are compared, and by which of their vectors."""

    count: Count = 10
    """Number of neighbours to find."""
    layer: WordLayer = "top"
    """A layer number (0: the word alone), top, average, or the model's mix. Higher layers depend
    more on the sentence, lower ones on the word itself."""
    same_word: bool = False
    """Search only other occurrences of the same word, case included: its senses in the corpus."""
    distinct: Distinct = "phrase"
    """Show only the nearest of several equal ones. phrase: the same word between the same two words
    on either side (news is full of near copies); word: the same word; none: show all. Case is
    ignored."""
    texts: Count = 20_000
    """Number of texts to search: a random sample of the corpus or, with same_word, of the texts
    that contain the word."""
    seed: Seed = 0
    """Seed of the sample."""
    occurrence: Count = 1
    """Which occurrence is meant if the sentence contains the word several times, from 1."""
    batch_tokens: Annotated[int, Range(2)] | None = None
    """Tokens per batch, padding included; default: 8,192 to 32,768, more for smaller models."""

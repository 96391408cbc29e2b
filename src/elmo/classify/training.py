"""What learns when: first the network alone, then, layer by layer from the top, the biLM too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from elmo.bilm.model import BiLM, Randomness
from elmo.classify.config import LearningConfig
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.classify.row_optimizer import RowAdam
from elmo.classify.text_rows import TextRows

NETWORK, FINE_TUNING = "network", "fine-tuning"


@dataclass(frozen=True)
class Read:
    """Texts as a phase reads them, and what reading them adds to the loss."""

    layers: TextLayers
    language_loss: Tensor | None = None


class Features(Protocol):
    """Vectors of words that do not change while the network learns."""

    def read(self, rows: Sequence[int]) -> TextLayers:
        """Those of some texts, side by side."""
        ...


@dataclass(frozen=True)
class Part:
    """Modules that learn together."""

    modules: tuple[nn.Module, ...]
    rate_share: float = 1.0
    """The part learns at so many times the rate of the settings."""
    from_epoch: float = 0.0
    """How many epochs of the phase it waits before it starts to learn."""


@dataclass(frozen=True)
class Phase:
    """A stretch of the training, in which some parts learn and texts are read in one way."""

    name: str
    epochs: int
    parts: tuple[Part, ...]
    read: Callable[[Sequence[int], Randomness | None], Read]


def phases(
    network: ClassifierNetwork,
    features: Features | None,
    texts: TextRows,
    model: BiLM | None,
    config: LearningConfig,
    epochs: int,
) -> Iterator[Phase]:
    """What is gone through: the network alone for some epochs, then, if wanted, with the biLM.

    Without features the network has learned alone before.
    """
    if features is not None:
        yield network_phase(network, features, config, epochs)
    if model is not None and config.fine_tuning.fine_tune_epochs:
        for stack in model.directions:
            stack.dropout = config.fine_tuning.bilm_dropout
        yield fine_tuning_phase(network, texts, model, config)


def network_phase(
    network: ClassifierNetwork, features: Features, config: LearningConfig, epochs: int
) -> Phase:
    """The network learns from layers that were computed once."""
    return Phase(
        name=NETWORK,
        epochs=epochs,
        parts=_network_parts(network, config),
        read=lambda rows, random: Read(features.read(rows)),
    )


def fine_tuning_phase(
    network: ClassifierNetwork, texts: TextRows, model: BiLM, config: LearningConfig
) -> Phase:
    """The biLM learns with the network, its top layer first, lower ones later and more slowly."""
    settings = config.fine_tuning
    top_share = settings.fine_tune_rate / config.learning_rate

    def read(rows: Sequence[int], random: Randomness | None) -> Read:
        layers = texts.read(rows, model, random)
        if random is None or not settings.language_weight:
            return Read(layers)
        loss = model(texts.batch(rows, model).to(model.device), random=random)
        return Read(layers, settings.language_weight * loss.mean)

    parts = [
        Part(modules, top_share * settings.rate_decay**depth, depth * settings.unfreeze_epochs)
        for depth, modules in enumerate(_layers_from_the_top(model))
    ]
    return Phase(
        name=FINE_TUNING,
        epochs=settings.fine_tune_epochs,
        parts=(*_network_parts(network, config), *parts),
        read=read,
    )


def build_optimizers(phase: Phase, config: LearningConfig) -> list[Optimizer]:
    """Optimizers over all parts; only matrices decay, vectors of words and biases do not.

    Own word vectors have one of their own that touches only the words of a batch: to go over all
    of them, step by step, would take longer than all else.
    """
    dense: list[dict[str, object]] = []
    sparse: list[dict[str, object]] = []
    for part in phase.parts:
        parameters = [one for module in part.modules for one in _parameters(module)]
        rows = {id(one) for module in part.modules for one in _row_wise(module)}
        for decays in (True, False):
            chosen = [one for one, is_matrix in parameters if is_matrix is decays]
            kept = [one for one in chosen if id(one) not in rows]
            decay = config.weight_decay if decays else 0.0
            dense.append({"params": kept, "weight_decay": decay, "share": part.rate_share})
        chosen = [one for one, _ in parameters if id(one) in rows]
        if chosen:
            sparse.append({"params": chosen, "share": part.rate_share})
    rate = config.learning_rate
    optimizers: list[Optimizer] = [AdamW(dense, lr=rate, betas=(0.9, 0.99), fused=True)]
    if sparse:
        optimizers.append(RowAdam(sparse, lr=rate, decay=0.99))
    return optimizers


def set_rates(
    phase: Phase, optimizers: Sequence[Optimizer], rate: float, epochs_done: float
) -> None:
    """Use this rate, each part its share of it; parts whose time has not come stand still."""
    for part in phase.parts:
        for module in part.modules:
            for parameter, _ in _parameters(module):
                parameter.requires_grad_(part.from_epoch <= epochs_done)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["share"]


def clip_gradients(parameters: Sequence[nn.Parameter], longest: float) -> None:
    """Shorten all gradients together, those of touched rows too, to this length at most."""
    gradients: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # A word that is in a batch twice has one gradient, the sum.
            parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values())
        else:
            gradients.append(parameter.grad)
    if gradients:
        squares = torch.stack([one.flatten().dot(one.flatten()) for one in gradients])
        scale = min(1.0, longest / (float(squares.sum()) ** 0.5 + 1e-6))
        for one in gradients:
            one.mul_(scale)


def _network_parts(network: ClassifierNetwork, config: LearningConfig) -> tuple[Part, ...]:
    """The network; what reads a text's vector, and a learned function, are parts of their own."""
    reader = network.scores if network.hidden is None else network.hidden
    function = () if network.mix.function is None else network.mixes
    rest = [one for one in network.children() if one not in (reader, *function)]
    parts = (Part(tuple(rest)), Part((reader,), config.text_rate))
    return (*parts, Part(function, config.function_rate)) if function else parts


def _layers_from_the_top(model: BiLM) -> list[tuple[nn.Module, ...]]:
    """The biLM's layers, both directions of each, and last what turns words into vectors."""
    stacks = [list(stack.layers) for stack in model.directions]
    layers = [tuple(pair) for pair in zip(*stacks, strict=True)]
    return [*reversed(layers), (model.token_layer,)]


def _row_wise(module: nn.Module) -> list[Tensor]:
    """Tables whose gradients name only the rows that were read."""
    return [one.weight for one in module.modules() if isinstance(one, nn.Embedding) and one.sparse]


def _parameters(module: nn.Module) -> list[tuple[nn.Parameter, bool]]:
    """The parameters of a module, and whether each is a matrix between layers."""
    vectors = {
        id(one.weight) for one in module.modules() if isinstance(one, nn.Embedding | nn.LayerNorm)
    }
    return [(one, one.dim() > 1 and id(one) not in vectors) for one in module.parameters()]

"""What learns when: first the network alone, then, layer by layer from the top, the biLM too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from elmo.bilm.model import BiLM, Randomness
from elmo.classify.config import LearningConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.classify.text_rows import TextRows


@dataclass(frozen=True)
class Read:
    """Texts as a phase reads them, and what reading them adds to the loss."""

    layers: TextLayers
    language_loss: Tensor | None = None


@dataclass(frozen=True)
class Part:
    """Modules that learn together."""

    modules: tuple[nn.Module, ...]
    rate_share: float = 1.0
    """The part learns at so many times the phase's rate."""
    from_epoch: float = 0.0
    """How many epochs of the phase it waits before it starts to learn."""


@dataclass(frozen=True)
class Phase:
    """A stretch of the training, in which some parts learn and texts are read in one way."""

    name: str
    epochs: int
    peak_rate: float
    parts: tuple[Part, ...]
    read: Callable[[Sequence[int], Randomness | None], Read]


def network_phase(
    network: ClassifierNetwork, features: FrozenFeatures, config: LearningConfig
) -> Phase:
    """The network learns from layers that were computed once."""
    return Phase(
        name="network",
        epochs=config.epochs,
        peak_rate=config.learning_rate,
        parts=(Part((network,)),),
        read=lambda rows, random: Read(features.read(rows)),
    )


def fine_tuning_phase(
    network: ClassifierNetwork, texts: TextRows, model: BiLM, config: LearningConfig
) -> Phase:
    """The biLM learns with the network, its top layer first, lower ones later and more slowly."""
    settings = config.fine_tuning

    def read(rows: Sequence[int], random: Randomness | None) -> Read:
        layers = texts.read(rows, model, random)
        if random is None or not settings.language_weight:
            return Read(layers)
        loss = model(texts.batch(rows, model).to(model.device), random=random)
        return Read(layers, settings.language_weight * loss.mean)

    parts = [
        Part(modules, settings.rate_decay**depth, depth * settings.unfreeze_epochs)
        for depth, modules in enumerate(_layers_from_the_top(model))
    ]
    return Phase(
        name="fine-tuning",
        epochs=settings.fine_tune_epochs,
        peak_rate=settings.fine_tune_rate,
        parts=(Part((network,)), *parts),
        read=read,
    )


def build_optimizer(phase: Phase, weight_decay: float) -> Optimizer:
    """An optimizer over all parts; only matrices decay, vectors of words and biases do not."""
    groups: list[dict[str, object]] = []
    for part in phase.parts:
        parameters = [one for module in part.modules for one in _parameters(module)]
        for decays in (True, False):
            chosen = [one for one, is_matrix in parameters if is_matrix is decays]
            decay = weight_decay if decays else 0.0
            groups.append({"params": chosen, "weight_decay": decay, "share": part.rate_share})
    return AdamW(groups, lr=phase.peak_rate, betas=(0.9, 0.99), fused=True)


def set_rates(phase: Phase, optimizer: Optimizer, rate: float, epochs_done: float) -> None:
    """Use this rate, each part its share of it; parts whose time has not come stand still."""
    for part in phase.parts:
        for module in part.modules:
            for parameter, _ in _parameters(module):
                parameter.requires_grad_(part.from_epoch <= epochs_done)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]


def _layers_from_the_top(model: BiLM) -> list[tuple[nn.Module, ...]]:
    """The biLM's layers, both directions of each, and last what turns words into vectors."""
    stacks = [list(stack.layers) for stack in model.directions]
    layers = [tuple(pair) for pair in zip(*stacks, strict=True)]
    return [*reversed(layers), (model.token_layer,)]


def _parameters(module: nn.Module) -> list[tuple[nn.Parameter, bool]]:
    """The parameters of a module, and whether each is a matrix between layers."""
    vectors = {
        id(one.weight) for one in module.modules() if isinstance(one, nn.Embedding | nn.LayerNorm)
    }
    return [(one, one.dim() > 1 and id(one) not in vectors) for one in module.parameters()]

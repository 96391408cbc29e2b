"""Where a phase of a training stands: all that it takes to go on, as tensors by name and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.optim import Optimizer

from elmo.classify.reports import EpochReport
from elmo.pretrain.optimizer_state import optimizer_tensors, restore_optimizer

Weights = list[dict[str, Tensor]]


@dataclass(frozen=True, kw_only=True)
class EpochSoFar:
    """How far the epoch under way is."""

    batches: int = 0
    """So many of its batches lie behind."""
    summed: float = 0.0
    """The losses of their texts."""
    seconds: float = 0.0
    """That they have taken, in earlier sessions too."""

    def after_batch(self, summed: float, seconds: float) -> EpochSoFar:
        """A batch more, with so much loss; the epoch has taken so many seconds."""
        return EpochSoFar(batches=self.batches + 1, summed=self.summed + summed, seconds=seconds)


@dataclass
class Standing:
    """A phase under way; it changes with every step."""

    phase: str
    modules: Sequence[nn.Module]
    optimizers: Sequence[Optimizer]
    history: list[EpochReport]
    """What the epochs before brought, those of earlier phases too."""
    kept: Weights = field(init=False)
    """The weights of the modules after the epoch that is the one to keep so far."""
    epoch: EpochSoFar = field(default_factory=EpochSoFar)

    def __post_init__(self) -> None:
        self.keep()

    def keep(self) -> None:
        """Make the weights of now those to keep."""
        self.kept = [
            {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
            for module in self.modules
        ]

    def go_back(self) -> None:
        """Leave the modules as they were when they were kept."""
        for module, tensors in zip(self.modules, self.kept, strict=True):
            module.load_state_dict(tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, kept weights and the optimizers' memories, each by a name of its own."""
        now = [module.state_dict() for module in self.modules]
        parts: dict[str, Mapping[str, Tensor]] = {
            **{f"now.{number}": one for number, one in enumerate(now)},
            **{f"kept.{number}": one for number, one in enumerate(self.kept)},
            **{
                f"memory.{number}": optimizer_tensors(one)
                for number, one in enumerate(self.optimizers)
            },
        }
        return {
            f"{part}/{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Bring modules, kept weights and optimizers to where they were when they were saved."""
        parts: dict[str, dict[str, Tensor]] = {}
        for full, tensor in tensors.items():
            part, _, name = full.partition("/")
            parts.setdefault(part, {})[name] = tensor
        for number, module in enumerate(self.modules):
            self.kept[number] = parts.get(f"kept.{number}", {})
            module.load_state_dict(parts.get(f"now.{number}", {}))
        for number, optimizer in enumerate(self.optimizers):
            restore_optimizer(optimizer, parts.get(f"memory.{number}", {}))

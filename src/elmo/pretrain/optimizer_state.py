"""What an optimizer remembers, as tensors by name, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor
from torch.optim import Optimizer


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory by name."""
    return {
        f"optimizer.{number}.{key}": value
        for number, parameter in enumerate(_trained(optimizer))
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimizer its memory back."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        _, number, key = name.split(".")
        slots.setdefault(int(number), {})[key] = tensor
    for number, parameter in enumerate(_trained(optimizer)):
        # The step count of a fused optimizer lives where the parameter does.
        optimizer.state[parameter] = {
            key: tensor.to(parameter.device) for key, tensor in slots.get(number, {}).items()
        }


def _trained(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])

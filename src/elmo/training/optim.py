"""Optimizer and learning rate: both functions of the settings and of how far the run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, AdamW, Optimizer

from elmo.training.config import Schedule, TrainingConfig

MOMENTUM = 0.9
COOL_DOWN = 0.4
"""Share of the training, at its end, in which the rate of a plateau falls."""


class RateSettings(Protocol):
    """What decides the learning rate."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def warmup(self) -> float: ...
    @property
    def peak_rate(self) -> float: ...


def build_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """An optimizer over what is trained; only matrices between layers decay."""
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_matrix = parameter.dim() > 1 and not name.startswith(("token_layer.words", "output"))
            (decayed if is_matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    rate = config.peak_rate
    if config.optimizer == "adamw":
        return AdamW(groups, lr=rate, betas=(0.9, 0.99), fused=True)
    if config.optimizer == "adagrad":
        return Adagrad(groups, lr=rate, initial_accumulator_value=1.0)
    return SGD(groups, lr=rate, momentum=MOMENTUM, nesterov=True)


def learning_rate(config: RateSettings, done: float) -> float:
    """The rate when a share of `done`, from 0 to 1, of the training lies behind."""
    if config.warmup and done < config.warmup:
        start = 0.04 if config.schedule in ("plateau", "one_cycle") else 0.0
        return config.peak_rate * max(1e-4, start + (1 - start) * done / config.warmup)
    if config.schedule == "constant":
        return config.peak_rate
    if config.schedule == "plateau":
        return config.peak_rate * min(1.0, max(1e-3, (1 - done) / COOL_DOWN))
    rest = min(1.0, (done - config.warmup) / max(1e-9, 1 - config.warmup))
    floor = 1e-3 if config.schedule == "one_cycle" else 0.0
    return config.peak_rate * (floor + (1 - floor) * (1 + math.cos(math.pi * rest)) / 2)


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Use this learning rate in the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def compute_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The number format of the matrix products: bf16 only where it is asked for or fast."""
    if wanted == "fp32" or (wanted == "auto" and not has_bf16_units(device)):
        return torch.float32
    return torch.bfloat16


def has_bf16_units(device: torch.device) -> bool:
    """Whether this device multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    capabilities: dict[str, Any] = ask()  # nothing, where torch is too old to tell
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


# What an optimizer remembers, as tensors by name, and back.


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


# An optimizer for tables of which a step touches a few rows: Adam without momentum.


TINY = 1e-8


class RowAdam(Optimizer):
    """Steps as long as those of Adam, of the rows alone that a sparse gradient names.

    Momentum would go on with a word after its batch, which a row that is not touched cannot:
    without it a rare word goes as far at once as momentum would take it.
    """

    def __init__(self, params: Iterable[dict[str, Any]], lr: float, decay: float) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Go one step; rows without a gradient stay as they are."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._go(table, table.grad.coalesce(), group["lr"], group["decay"])

    def _go(self, table: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[table]
        if not state:
            state.update(steps=torch.tensor(0), squares=torch.zeros_like(table))
        state["steps"] += 1
        rows, slopes = gradient.indices()[0], gradient.values()
        squares = state["squares"].index_select(0, rows)
        squares.mul_(decay).addcmul_(slopes, slopes, value=1 - decay)
        state["squares"].index_copy_(0, rows, squares)
        # As if the mean of the squares had begun with what it has seen, not with zero.
        length = rate * math.sqrt(1 - decay ** int(state["steps"]))
        gone = table.index_select(0, rows)
        gone.addcdiv_(slopes, squares.sqrt_().add_(TINY), value=-length)
        table.index_copy_(0, rows, gone)

"""Optimizers, learning-rate schedules, and the number format of matrix products."""

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
"""The last fraction of the training, in which the learning rate of a plateau falls."""
EPSILON = 1e-8


class RateSettings(Protocol):
    """The settings that decide the learning rate."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def warmup(self) -> float: ...
    @property
    def peak_rate(self) -> float: ...


def build_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """An optimizer over all trained parameters; weight decay for matrices between layers only."""
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_matrix = parameter.dim() > 1 and not name.startswith(("token_layer.words", "output"))
            (decayed if is_matrix else others).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    rate = config.peak_rate
    if config.optimizer == "adamw":
        return AdamW(groups, lr=rate, betas=(0.9, 0.99), fused=True)
    if config.optimizer == "adagrad":
        return Adagrad(groups, lr=rate, initial_accumulator_value=1.0)
    return SGD(groups, lr=rate, momentum=MOMENTUM, nesterov=True)


def learning_rate(config: RateSettings, done: float) -> float:
    """The learning rate after a fraction `done` of the training, from 0 to 1."""
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


def compute_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The dtype of matrix products: for "auto", bf16 where the hardware multiplies it."""
    if wanted == "fp32" or (wanted == "auto" and not has_bf16_units(device)):
        return torch.float32
    return torch.bfloat16


def has_bf16_units(device: torch.device) -> bool:
    """Whether this device multiplies bf16 matrices in hardware, and so faster than fp32.

    Measured on two cores of an AMD EPYC with AVX512_BF16 and no AMX, side by side: products 2 to 3
    times as fast, training steps of the default model 1.6 times.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    capabilities: dict[str, Any] = ask()  # nothing, where torch is too old to tell
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


# The state of an optimizer as tensors by name, for checkpoints.


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as `optimizer.<index of the parameter>.<key>`."""
    return {
        f"optimizer.{idx}.{key}": value
        for idx, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Set the optimizer's state from what `optimizer_tensors` returned."""
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        _, idx, key = name.split(".")
        states.setdefault(int(idx), {})[key] = tensor
    for idx, parameter in enumerate(_parameters(optimizer)):
        # The step count of a fused optimizer lives on the parameter's device.
        optimizer.state[parameter] = {
            key: tensor.to(parameter.device) for key, tensor in states.get(idx, {}).items()
        }


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


class RowAdam(Optimizer):
    """Adam without momentum that touches only the rows named by a sparse gradient.

    Momentum would move a word after its batch, which a row that is not touched cannot be; without
    it a rare word moves as far at once as momentum would take it. torch's SparseAdam has momentum.
    """

    def __init__(self, params: Iterable[dict[str, Any]], lr: float, decay: float) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                decay, gradient, state = group["decay"], table.grad.coalesce(), self.state[table]
                if not state:
                    state.update(steps=torch.tensor(0), squares=torch.zeros_like(table))
                state["steps"] += 1
                rows, slopes = gradient.indices()[0], gradient.values()
                squares = state["squares"].index_select(0, rows)
                squares.mul_(decay).addcmul_(slopes, slopes, value=1 - decay)
                state["squares"].index_copy_(0, rows, squares)
                # Adam's bias correction: the mean of squares starts at zero.
                size = group["lr"] * math.sqrt(1 - decay ** int(state["steps"]))
                updated = table.index_select(0, rows)
                updated.addcdiv_(slopes, squares.sqrt_().add_(EPSILON), value=-size)
                table.index_copy_(0, rows, updated)

"""What is saved of a phase under way is all that it takes to go on."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import AdamW

from elmo.classify.standing import EpochSoFar, Standing


def stand(seed: int, steps: int) -> Standing:
    """Two modules, one without weights, after so many steps."""
    torch.manual_seed(seed)
    layer = nn.Linear(3, 2)
    standing = Standing("network", [layer, nn.Dropout()], [AdamW(layer.parameters(), lr=0.1)], [])
    for _ in range(steps):
        go(standing)
    return standing


def go(standing: Standing) -> None:
    (optimizer,) = standing.optimizers
    optimizer.zero_grad()
    standing.modules[0](torch.ones(1, 3)).square().sum().backward()
    optimizer.step()


def test_a_restored_phase_goes_the_same_way_on_and_back() -> None:
    one, other = stand(seed=0, steps=3), stand(seed=1, steps=1)
    kept = [tensor.clone() for tensor in one.kept[0].values()]
    other.restore({name: tensor.clone() for name, tensor in one.tensors().items()})
    for standing in (one, other):
        go(standing)
    for mine, theirs in zip(*(two.modules[0].parameters() for two in (one, other)), strict=True):
        assert torch.equal(mine, theirs)
    other.go_back()
    for mine, before in zip(other.modules[0].parameters(), kept, strict=True):
        assert torch.equal(mine, before)


def test_kept_weights_do_not_move_with_the_modules() -> None:
    standing = stand(seed=0, steps=1)
    standing.keep()
    kept = standing.modules[0].weight.detach().clone()  # pyright: ignore
    go(standing)
    assert not torch.equal(standing.modules[0].weight, kept)  # pyright: ignore
    standing.go_back()
    assert torch.equal(standing.modules[0].weight, kept)  # pyright: ignore


def test_an_epoch_counts_its_batches() -> None:
    epoch = EpochSoFar().after_batch(2.0, 0.5).after_batch(3.0, 0.75)
    assert epoch == EpochSoFar(batches=2, summed=5.0, seconds=0.75)

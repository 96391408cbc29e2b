"""Both orders of the factors give the same product."""

from __future__ import annotations

import torch

from products import median_seconds, rows_first, weight_first


def test_the_same_whichever_comes_first() -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(5, 8), torch.randn(7, 8)
    wanted = torch.tensor(rows.double().numpy() @ weight.double().numpy().T)
    for product in (rows_first(rows), weight_first(rows)):
        torch.testing.assert_close(product(weight).double(), wanted, rtol=0, atol=1e-5)


def test_every_weight_has_its_turn() -> None:
    met: list[int] = []
    weights = [torch.full((1, 1), float(number)) for number in range(3)]
    seconds = median_seconds(lambda weight: met.append(int(weight)) or weight, weights, 2)
    assert met == [0, 1, 2] * 3
    assert seconds > 0

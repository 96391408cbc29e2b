"""Products of distinct words, spread over rows, are the products of the rows."""

from __future__ import annotations

import torch

from elmo.bilm.input_products import InputProducts, product_gradients

torch.manual_seed(0)
WORDS = torch.randn(4, 3, dtype=torch.float64)
PLACES = torch.tensor([0, 2, 2, 3, 0, 0, 2])  # one word is never read
WEIGHT = torch.randn(3, 8, dtype=torch.float64)
BIAS = torch.randn(8, dtype=torch.float64)
ROWS = WORDS[PLACES]


def test_a_part_of_the_rows() -> None:
    expected = ROWS @ WEIGHT + BIAS
    for rows in (slice(0, 7), slice(2, 5)):
        for inputs, places in ((ROWS, None), (WORDS, PLACES)):
            gates = torch.full((rows.stop - rows.start, 8), torch.nan, dtype=torch.float64)
            InputProducts(inputs, places, WEIGHT, BIAS).write(rows, gates)
            torch.testing.assert_close(gates, expected[rows])


def test_gradients_against_autograd() -> None:
    d_gates = torch.randn(7, 8, dtype=torch.float64)
    for inputs, places in ((ROWS, None), (WORDS, PLACES)):
        leaves = [inputs.clone().requires_grad_(), WEIGHT.clone().requires_grad_()]
        rows = leaves[0] if places is None else leaves[0][places]
        expected = torch.autograd.grad(rows @ leaves[1], leaves, d_gates)
        found = product_gradients(inputs, places, WEIGHT, d_gates)
        torch.testing.assert_close(found.inputs, expected[0])
        torch.testing.assert_close(found.weight, expected[1])

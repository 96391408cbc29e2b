"""How fast this machine multiplies: the ceiling of everything that docs/performance.md shows.

    python benchmarks/products.py [--size 2048] [--repeats 30]

First the operations a second of a product of two square matrices, which nothing can exceed. Then a
few rows times a square weight, with the rows as the left factor, as `nn.Linear` has it, and with
the weight as the left factor, as `FewRowsLinear` of bilm/tokens.py has it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from measuring import refuse_busy

ROWS = (16, 32, 512, 2048)
WEIGHTS = 4
"""So many in turn, so that none is found in the cache when its turn comes again."""


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    given = parser.parse_args()
    refuse_busy(anyway=given.anyway)
    size = given.size
    weights = [torch.randn(size, size) for _ in range(WEIGHTS)]
    print(f"{torch.get_num_threads()} threads, fp32, {size} x {size}, median of {given.repeats}")
    seconds = median_seconds(lambda weight: weight @ weights[0], weights, given.repeats)
    print(f"{2 * size**3 / seconds / 1e9:.0f} GFLOPS")
    print("| rows | rows first, ms | weight first, ms |")
    print("|---|---|---|")
    for count in ROWS:
        rows = torch.randn(count, size)
        found = [
            1e3 * median_seconds(product, weights, given.repeats)
            for product in (rows_first(rows), weight_first(rows))
        ]
        print(f"| {count:,} | {found[0]:.2f} | {found[1]:.2f} |")


def rows_first(rows: Tensor) -> Callable[[Tensor], Tensor]:
    """Rows times weight, the usual way."""
    return lambda weight: functional.linear(rows, weight)


def weight_first(rows: Tensor) -> Callable[[Tensor], Tensor]:
    """The same product, transposed."""
    return lambda weight: (weight @ rows.t()).t()


@torch.inference_mode()
def median_seconds(
    product: Callable[[Tensor], Tensor], weights: list[Tensor], repeats: int
) -> float:
    """Seconds that one product takes."""
    found: list[float] = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        for weight in weights:
            product(weight)
        found.append((time.perf_counter() - started) / len(weights))
    return statistics.median(found[1:])  # the first pays for what is made only once


if __name__ == "__main__":
    main()

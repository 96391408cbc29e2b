"""How often to write a checkpoint: the best interval derived, and runs with failures simulated.

    python benchmarks/failures.py

A run that needs `cost` seconds to write a checkpoint after every `interval` seconds of work, fails
at random once in `between` seconds and takes `restart` seconds to come back, needs

    E = (between + restart) (exp((interval + cost) / between) - 1)

seconds for each interval of work. E / interval is least where interval = between (1 + W(x)) with
x = -exp(-1 - cost / between), W being Lambert's function; for cost << between that is Young's
sqrt(2 cost between). The restart does not move it.
"""

from __future__ import annotations

import math
import random

WORK = 100 * 3600.0
RESTART = 30.0
RUNS = 40
COSTS = (1.0, 10.0)
BETWEEN = (600.0, 3600.0, 86400.0)
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)


def main() -> None:
    """Print, for each machine, the best interval and what others cost."""
    columns = "".join(f" {share:g} × best |" for share in SHARES)
    print(f"| failure every | checkpoint takes | Young | best interval |{columns}")
    print("|---|---|---|---|" + "---|" * len(SHARES))
    for between in BETWEEN:
        for cost in COSTS:
            best = best_interval(cost, between)
            cells = "".join(
                f" {overhead(best * share, cost, between):.1%}"
                f" ({simulated(best * share, cost, between):.1%}) |"
                for share in SHARES
            )
            print(
                f"| {between:,.0f} s | {cost:g} s | {young(cost, between):,.0f} s |"
                f" {best:,.0f} s |{cells}"
            )


def young(cost: float, between: float) -> float:
    """Young's first-order interval."""
    return math.sqrt(2 * cost * between)


def best_interval(cost: float, between: float) -> float:
    """The interval with the least expected time, by bisection of the derivative's sign."""
    low, high = 0.0, between
    for _ in range(200):
        middle = (low + high) / 2
        if middle / between < 1 - math.exp(-(middle + cost) / between):
            low = middle
        else:
            high = middle
    return low


def overhead(interval: float, cost: float, between: float) -> float:
    """Expected share of time on top of the work itself."""
    exponent = (interval + cost) / between
    return (between + RESTART) * math.expm1(exponent) / interval - 1 if exponent < 500 else math.inf


def simulated(interval: float, cost: float, between: float, seed: int = 0) -> float:
    """The same share, from runs that fail at random moments; the last part may be shorter."""
    draw = random.Random(seed)
    runs = RUNS if overhead(interval, cost, between) < 100 else 0
    if not runs:
        return math.inf
    return sum(_one_run(interval, cost, between, draw) for _ in range(runs)) / (runs * WORK) - 1


def _one_run(interval: float, cost: float, between: float, draw: random.Random) -> float:
    """Seconds until all the work is done."""
    clock = done = 0.0
    failure = draw.expovariate(1 / between)
    while done < WORK:
        part = min(interval, WORK - done)
        if clock + part + cost <= failure:
            clock += part + cost
            done += part
        else:
            # Nothing fails while it restarts: the clock of failures starts anew with the run.
            clock = failure + RESTART
            failure = clock + draw.expovariate(1 / between)
    return clock


if __name__ == "__main__":
    main()

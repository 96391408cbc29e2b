"""What distributed training costs, from arithmetic: traffic, 1B Word, checkpoint intervals.

python benchmarks/scaling_model.py
"""

from __future__ import annotations

import math
import random
import statistics
import time

import numpy as np
import torch

from elmo.model_folder import parameter_count
from elmo.training.config import DEFAULT, PAPER, PretrainConfig
from elmo.training.estimate import model_on_paper

# Bytes that each process hands over per step to be added up: all gradients, in single precision.


BYTES = 4
CASES = (
    ("default", DEFAULT, 30_000),
    ("default", DEFAULT, 100_000),
    ("paper", PAPER, 100_000),
    ("paper", PAPER, 793_471),
)


def print_traffic() -> None:
    """Print the size of all gradients by model and vocabulary."""
    print("| model | words | gradients, MB |")
    print("|---|---|---|")
    for name, config, words in CASES:
        size = BYTES * parameter_count(model_on_paper(config.model, words))
        print(f"| {name} | {words:,} | {size / 1e6:,.1f} |")


# What the 1B Word Benchmark would take with the paper's model, from its arithmetic.
#
# Multiplications are counted exactly; a backward pass takes twice a forward one. This machine's
# speed is measured with the model's largest product on all cores; that of an A100 is its maker's
# peak in bf16 times a fraction that recurrent networks rarely exceed. All are lower bounds of the
# time: nothing but products is counted.


TOKENS = 768_648_884
WORDS = 793_471
A100_PEAK = 312e12
A100_SHARE = 0.3
REPEATS = 20


def print_billion_words() -> None:
    """Print the arithmetic, then the hours."""
    parts = products_a_token(PAPER)
    for name, products in parts.items():
        print(f"{name:<12} {products / 1e6:6.1f} million multiplications a token")
    # A multiplication comes with an addition, and a forward pass with a backward one.
    operations = 2 * 3 * sum(parts.values())
    print(f"{'training':<12} {operations / 1e6:6.0f} million operations a token, ", end="")
    print(f"{operations * TOKENS:.2e} an epoch\n")
    machines = {
        f"this machine, {torch.get_num_threads()} threads, fp32 (measured)": speed(),
        f"one A100, {A100_SHARE:.0%} of its peak (assumed)": A100_PEAK * A100_SHARE,
        f"8 × A100, {A100_SHARE:.0%} of their peak (assumed)": 8 * A100_PEAK * A100_SHARE,
    }
    print("| machine | operations/s | tokens/s | hours an epoch | hours for 10 |")
    print("|---|---|---|---|---|")
    for name, rate in machines.items():
        tokens = rate / operations
        hours = TOKENS / tokens / 3600
        print(f"| {name} | {rate:.1e} | {tokens:,.0f} | {hours:,.1f} | {10 * hours:,.0f} |")


def products_a_token(config: PretrainConfig) -> dict[str, float]:
    """Multiplications of a forward pass, both directions together."""
    model, characters = config.model, config.model.characters
    layer = 2 * model.width * 4 * model.hidden + model.hidden * model.width
    convolutions = sum(
        width * characters.char_dim * number * (51 - width) for width, number in characters.filters
    )
    highways = 2 * characters.highways * characters.features**2
    word = convolutions + highways + characters.features * model.width
    return {
        "LSTM": 2.0 * model.layers * layer,
        "softmax": 2.0 * model.softmax.samples * model.width,
        "characters": word * distinct_share(config.batching.batch_tokens),
    }


def distinct_share(tokens: int) -> float:
    """Distinct words a token: the character CNN reads each only once a batch."""
    zipf = 1 / np.arange(1, WORDS + 1)
    return float((1 - (1 - zipf / zipf.sum()) ** tokens).sum()) / tokens


def speed() -> float:
    """Operations a second of the product of a batch of states with an LSTM's weights."""
    width, gates = PAPER.model.width, 4 * PAPER.model.hidden
    states, weights = torch.randn(PAPER.batching.batch_tokens, width), torch.randn(width, gates)
    seconds: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        torch.mm(states, weights)
        seconds.append(time.perf_counter() - start)
    return 2 * states.numel() * gates / statistics.median(seconds)


# How often to write a checkpoint: the best interval derived, and runs with failures simulated.
#
# A run that needs `cost` seconds to write a checkpoint after every `interval` seconds of work,
# fails at random once in `between` seconds and takes `restart` seconds to come back, needs
#
#     E = (between + restart) (exp((interval + cost) / between) - 1)
#
# seconds for each interval of work. E / interval is least where interval = between (1 + W(x)) with
# x = -exp(-1 - cost / between), W being Lambert's function; for cost << between that is Young's
# sqrt(2 cost between). The restart does not move it.

WORK = 100 * 3600.0
RESTART = 30.0
RUNS = 40
COSTS = (1.0, 10.0)
BETWEEN = (600.0, 3600.0, 86400.0)
SHARES = (0.1, 0.3, 1.0, 3.0, 10.0)


def print_checkpoint_intervals() -> None:
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
    print_traffic()
    print()
    print_billion_words()
    print()
    print_checkpoint_intervals()

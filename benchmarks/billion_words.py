"""What the 1B Word Benchmark would take with the paper's model, from its arithmetic.

    python benchmarks/billion_words.py

Multiplications are counted exactly; a backward pass takes twice a forward one. This machine's speed
is measured with the model's largest product, all cores; that of an A100 is its maker's peak in bf16
times a share that recurrent networks rarely exceed. All are lower bounds of the time: nothing but
products is counted.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from elmo.training.config import PAPER, PretrainConfig

TOKENS = 768_648_884
WORDS = 793_471
A100_PEAK = 312e12
A100_SHARE = 0.3
REPEATS = 20


def main() -> None:
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


if __name__ == "__main__":
    main()

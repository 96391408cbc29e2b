"""Our LSTM layer against nn.LSTM, forward and backward: tokens/s a layer and direction.

    python benchmarks/lstm.py

"side by side" runs two directions at once, a thread each, as training does.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import torch
from torch import nn

from elmo.bilm.lstm import LSTMLayer

STEPS = 40
REPEATS = 5
CASES = ((256, 256, 64), (256, 256, 128), (256, 512, 64))


def main() -> None:
    """Time every case in turn, and print medians."""
    names = ("nn.LSTM, 1 thread", "ours, 1 thread", "nn.LSTM, 2 threads", "ours, side by side")
    print(f"{'inputs cells batch':>20}" + "".join(f"{name:>21}" for name in names))
    for inputs, hidden, batch in CASES:
        figures = [
            speed(native(inputs, hidden, batch), batch, threads=1),
            speed(ours(inputs, hidden, batch), batch, threads=1),
            speed(native(inputs, hidden, batch), batch, threads=2),
            speed(together(inputs, hidden, batch), batch, threads=1),
        ]
        case = f"{inputs} {hidden} {batch}"
        print(f"{case:>20}" + "".join(f"{one:>21,.0f}" for one in figures))


def native(inputs: int, hidden: int, batch: int) -> Callable[[], None]:
    """A step of PyTorch's own layer."""
    layer = nn.LSTM(inputs, hidden)
    values = torch.randn(STEPS, batch, inputs, requires_grad=True)
    return lambda: layer(values)[0].sum().backward()


def ours(inputs: int, hidden: int, batch: int) -> Callable[[], None]:
    """A step of our layer."""
    layer = LSTMLayer(inputs, hidden)
    values = torch.randn(STEPS, batch, inputs, requires_grad=True)
    lengths = torch.full((batch,), STEPS)
    return lambda: layer(values, None, lengths)[0].sum().backward()


def together(inputs: int, hidden: int, batch: int) -> Callable[[], None]:
    """A step of two of our layers at once."""
    steps = [ours(inputs, hidden, batch) for _ in range(2)]

    def both() -> None:
        threads = [threading.Thread(target=step) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return both


def speed(step: Callable[[], None], batch: int, threads: int) -> float:
    """Tokens a second, the median of a few repeats."""
    torch.set_num_threads(threads)
    step()
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return STEPS * batch / statistics.median(times)


if __name__ == "__main__":
    main()

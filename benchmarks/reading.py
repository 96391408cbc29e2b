"""Words a second through a trained biLM: embedding texts, and fine-tuning (forward and backward).

    python benchmarks/reading.py runs/news ag_news:test

Texts are taken in random order, fine-tuned on in batches as they come: short and long together.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice

from elmo.embed.embedder import Embedder
from elmo.embed.layer import ElmoEmbedding
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve

TEXTS = 1000
BATCH = 64
REPEATS = 5


def main(model: str, source: str) -> None:
    """Time every case in turn, again and again, and print the best of each."""
    texts = list(read_documents(resolve([source]), ReadOptions()))
    random.Random(0).shuffle(texts)
    embedder = Embedder.from_pretrained(model)
    words = [embedder.loaded.words(text) for text in islice(texts, TEXTS)]
    cases = cases_of(model, embedder, words)
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(REPEATS):
        for name, case in cases.items():
            started = time.perf_counter()
            case()
            best[name] = min(best[name], time.perf_counter() - started)
    total = sum(len(one) for one in words)
    for name, seconds in best.items():
        print(f"{name:<36}{total / seconds:>10,.0f} words/s")


def cases_of(
    model: str, embedder: Embedder, words: Sequence[Sequence[str]]
) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    trained = ElmoEmbedding.from_pretrained(model, freeze=False)

    def fine_tune() -> None:
        for first in range(0, len(words), BATCH):
            trained.zero_grad()
            trained(words[first : first + BATCH]).vectors.square().sum().backward()

    return {
        "all layers of each word": lambda: embedder.encode(
            words, output="tokens", layer="all", batch_tokens=8192
        ),
        "the mix, pooled": lambda: embedder.encode(words),
        "layer 1, pooled": lambda: embedder.encode(words, layer=1),
        "layer 0, pooled": lambda: embedder.encode(words, layer=0),
        f"fine-tuning, batches of {BATCH}": fine_tune,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])

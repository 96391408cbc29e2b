"""What more tokens and more cells are worth: perplexity of small runs, a fit, and what it predicts.

    python benchmarks/scaling_study.py corpus/corpus-00.txt.gz --held-out corpus/heldout.txt.gz \
        --word-vectors glove.6B.100d.txt --out runs/scaling

Every size is trained on every budget, one epoch each, with the settings of the general model. The
held-out loss is that of the words which all vocabularies have, so that runs with more text, which
know more words, can be compared; up to 500 texts are scored. The nine losses are fitted by

    loss = floor + a / cells^alpha + b / tokens^beta

(Hoffmann et al. 2022, with cells per layer and direction for the size), which says what twice and
ten times the tokens of the largest run would give. One epoch of new text is what the fit is about:
reading the same text again is worth less.

The output folder gets `results.json` and `scaling.svg`; the same command resumes.
"""

from __future__ import annotations

import argparse
import gzip
import math
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import elmo
from adaptation import perplexity
from elmo.files import atomic_write, read_json, write_json
from elmo.runtime import set_device

CELLS, TOKENS = (128, 256, 512), (400_000, 1_200_000, 3_600_000)
SCORED = 500
"""Held-out texts whose loss is measured."""
WORD = 1.3
"""Tokens per word between spaces, roughly: decides how much text is cut off, not what is said."""

Floats = NDArray[np.float64]


def read(path: Path) -> list[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def first(texts: Sequence[str], tokens: int) -> list[str]:
    """The first texts with about so many tokens."""
    ends = np.cumsum([WORD * len(text.split()) for text in texts])
    if ends[-1] < tokens:
        raise SystemExit(f"the text has about {ends[-1]:,.0f} tokens, {tokens:,} were asked for")
    return list(texts[: int(np.searchsorted(ends, tokens)) + 1])


def settings(cells: int) -> dict[str, Any]:
    """Those of the general model, with a hidden size."""
    return {
        "model": {"input": "both", "hidden": cells, "word_dim": cells, "skip": True,
                  "skip_tokens": True},
        "training": {"epochs": 1, "precision": "bf16", "word_rate": 0.1,
                     "evaluations_per_epoch": 1, "evaluation_tokens": 30_000},
    }  # fmt: skip


def fit(cells: Floats, tokens: Floats, loss: Floats) -> Floats:
    """Floor, a, alpha, b, beta of the law, by robust least squares from several starts."""

    def law(parameters: Floats) -> Floats:
        return predicted(parameters, cells, tokens) - loss

    starts = product((0.5, 1.0), (0.2, 0.5), (0.2, 0.5))
    fits = [
        least_squares(
            law,
            [share * loss.min(), cells.min() ** alpha, alpha, tokens.min() ** beta, beta],
            bounds=([0, 0, 0.01, 0, 0.01], [loss.min(), np.inf, 2, np.inf, 2]),
            x_scale=[1, 10, 0.1, 100, 0.1],
            loss="soft_l1",
            f_scale=0.05,
        )
        for share, alpha, beta in starts
    ]
    return min(fits, key=lambda one: float(one.cost)).x


def predicted(parameters: Floats, cells: Floats | float, tokens: Floats | float) -> Any:
    floor, a, alpha, b, beta = parameters
    return floor + a / cells**alpha + b / tokens**beta


def report(results: Sequence[dict[str, Any]], out: Path) -> str:
    """A Markdown table with the fit and its predictions; the curves as a picture."""
    cells, tokens, loss = (
        np.array([one[name] for one in results], np.float64) for name in ("cells", "tokens", "loss")
    )
    parameters = fit(cells, tokens, loss)
    error = float(np.abs(predicted(parameters, cells, tokens) - loss).max())
    lines = ["| cells | tokens | perplexity | fit | minutes |", "|---|---|---|---|---|"]
    for one in results:
        guess = math.exp(predicted(parameters, one["cells"], one["tokens"]))
        lines.append(
            f"| {one['cells']} | {one['tokens']:,} | {math.exp(one['loss']):.1f} | {guess:.1f} "
            f"| {one['minutes']:.1f} |"
        )
    most = float(tokens.max())
    for size, times in product(sorted(set(cells.tolist())), (2, 10)):
        guess = math.exp(predicted(parameters, size, times * most))
        lines.append(f"| {size:.0f} | {times * most:,.0f} (predicted) | | {guess:.1f} | |")
    floor, a, alpha, b, beta = parameters
    lines += [
        "",
        f"loss = {floor:.3f} + {a:.3g} / cells^{alpha:.3f} + {b:.3g} / tokens^{beta:.3f}; "
        f"the largest error of the fit is {error:.3f} nats.",
    ]
    draw(results, parameters, out / "scaling.svg")
    return "\n".join(lines)


def draw(results: Sequence[dict[str, Any]], parameters: Floats, path: Path) -> None:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(6.4, 4), layout="constrained")
    axes = picture.subplots()
    most = max(one["tokens"] for one in results)
    curve = np.geomspace(min(one["tokens"] for one in results), 10 * most, 100)
    for size in sorted({one["cells"] for one in results}):
        runs = [one for one in results if one["cells"] == size]
        points = axes.plot(
            [one["tokens"] for one in runs], [math.exp(one["loss"]) for one in runs], "o",
            label=f"{size} cells",
        )  # fmt: skip
        guess = np.exp(predicted(parameters, float(size), curve))
        axes.plot(curve, guess, color=points[0].get_color())
    axes.axvline(most, color="#8a94a0", linewidth=1, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="tokens read", ylabel="held-out perplexity")
    axes.set_title("Points: measured. Lines: fit, predicted right of the dotted line", fontsize=10)
    axes.legend()
    with atomic_write(path) as partial:
        picture.savefig(partial, format="svg")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--word-vectors", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", type=int, nargs="+", default=CELLS)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    set_device("cpu", args.threads)
    texts, held_out = read(args.corpus), read(args.held_out)
    args.out.mkdir(parents=True, exist_ok=True)
    runs = list(product(args.cells, args.tokens))
    scored = held_out[:: max(1, len(held_out) // SCORED)]
    found: list[tuple[elmo.LanguageModel, dict[str, Any]]] = []
    for cells, tokens in runs:
        train = first(texts, tokens)
        folder, record = args.out / f"{cells}-{tokens}", args.out / f"{cells}-{tokens}.json"
        started = time.process_time()
        model = elmo.pretrain(
            train, folder, settings(cells), held_out=held_out, word_vectors=args.word_vectors
        )
        if not record.exists():  # a run that is complete only loads its model
            minutes = (time.process_time() - started) / 60
            count = sum(len(model.words(text)) for text in train)
            write_json(record, {"cells": cells, "tokens": count, "minutes": minutes})
        found.append((model, read_json(record)))
    common = set.intersection(*(set(model.vocabulary.words) for model, _ in found))
    scored = [text for text in scored if found[0][0].words(text)]
    results = [
        {**record, "loss": math.log(perplexity(model, scored, common)["perplexity"])}
        for model, record in found
    ]
    write_json(args.out / "results.json", results)
    print(report(results, args.out))


if __name__ == "__main__":
    main()

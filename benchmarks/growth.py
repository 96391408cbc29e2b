"""How the speed of pre-training changes with vocabulary, cells, lengths, batch, threads and text.

    python benchmarks/growth.py [--seconds 10] [--repeats 5]

Each scale changes one thing of the default preset. The text is random, its words as frequent as
Zipf's law says (harness.py): 30,000 of them in sentences of 40, where that is not the scale. For
the size of the text whole runs are timed, from real text (--source) to a model: preparing, one
epoch, an evaluation. Writes docs/performance/growth.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.training.config import DEFAULT, PretrainConfig, VocabularyConfig
from elmo.training.pretrain import pretrain
from harness import Case, flags, in_turn, refuse_busy, write_found, write_zipf_corpus
from training import our_speed

WORDS, LENGTH, TOKENS = 30_000, 40, 200_000
SCALES = {
    "vocabulary": (5_000, 15_000, 50_000, 150_000, 500_000),
    "cells": (128, 256, 512, 1024),
    "sentence length": (5, 10, 20, 40, 80, 160),
    "batch": (512, 1024, 2048, 4096, 8192),
    "threads": (1, 2),
    "documents": (500, 1_000, 2_000, 4_000),
}
"""In words, cells of a layer, words, tokens, threads, and documents of the text."""


def main(command: Sequence[str] | None = None) -> None:
    """Measure, and write what was found."""
    parser = flags(__doc__)
    parser.set_defaults(seconds=10.0)
    parser.add_argument("--scales", nargs="+", choices=list(SCALES), default=list(SCALES))
    given = parser.parse_args(command)
    before = refuse_busy(anyway=given.anyway)
    with TemporaryDirectory() as texts:
        figures = in_turn(list(cases(given, Path(texts))), given.repeats, anyway=given.anyway)
    write_found("growth", given.folder, before, figures)


def cases(given: argparse.Namespace, texts: Path) -> Iterator[Case[float]]:
    """What is measured, and the texts it is measured with."""
    for scale in given.scales:
        for at in SCALES[scale]:
            if scale == "documents":
                work, unit = whole_run, "s"
                arguments = (write_documents(texts, given.source, at), given.threads)
            else:
                work, unit = our_speed, "tokens/s"
                threads = at if scale == "threads" else given.threads
                text = zipf_corpus(texts, scale, at)
                arguments = (settings(scale, at), text, given.seconds, threads)
            yield Case(name=scale, unit=unit, work=work, arguments=arguments, at=at)


def settings(scale: str, at: int) -> PretrainConfig:
    """The default preset over all words of the text, changed at one place."""
    config = replace(DEFAULT, vocabulary=VocabularyConfig(min_count=1, max_vocabulary=None))
    if scale == "cells":
        return replace(config, model=replace(config.model, word_dim=at, hidden=at))
    if scale == "batch":
        return replace(config, batching=replace(config.batching, batch_tokens=at))
    return config


def zipf_corpus(texts: Path, scale: str, at: int) -> Path:
    """The random text of a case, written if no other case has it."""
    words = at if scale == "vocabulary" else WORDS
    length = at if scale == "sentence length" else LENGTH
    folder = texts / f"{words}-{length}"
    return folder if folder.exists() else write_zipf_corpus(folder, words, length, TOKENS)


def write_documents(texts: Path, source: str, number: int) -> Path:
    """The first documents of a text."""
    documents = list(islice(read_documents(resolve([source]), ReadOptions()), number))
    assert len(documents) == number, f"{source} has only {len(documents)} documents"
    path = texts / f"{number}.txt"
    path.write_text("\n".join(documents) + "\n", encoding="utf-8")
    return path


def whole_run(text: Path, threads: int) -> float:
    """Seconds from a text to a model that has read it once."""
    torch.set_num_threads(threads)
    once = replace(DEFAULT, training=replace(DEFAULT.training, epochs=1))
    with TemporaryDirectory() as folder:
        around = {"cache": Path(folder) / "cache"}
        started = time.perf_counter()
        pretrain(str(text), Path(folder) / "run", once, **around)
        return time.perf_counter() - started


if __name__ == "__main__":
    main()

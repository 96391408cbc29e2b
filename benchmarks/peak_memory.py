"""Peak memory of preparing and training on a text, and on ten times as much of it.

    python benchmarks/peak_memory.py [--source ag_news] [--steps 20]

Each measurement is a process of its own; its peak is what the kernel says at its end.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from elmo.bilm.model import BiLM, seeded
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.vocabulary import SPECIAL_WORDS, build_vocabulary
from elmo.training.config import DEFAULT
from elmo.training.distributed import World
from elmo.training.loop import train
from elmo.training.pretrain import RunConfig, prepared_corpus

TIMES = (1, 10)


def main() -> None:
    """Write both texts, measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", default="ag_news")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--measure", choices=["prepare", "train"])
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.source, given.cache, given.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        documents = list(read_documents(resolve([given.source]), ReadOptions()))
        print(f"{'text':>6} {'size':>9} {'prepare':>10} {'train':>10}")
        for times in TIMES:
            path = Path(folder) / f"{times}.txt"
            with path.open("w", encoding="utf-8") as stream:
                for number in range(times):
                    # A number in front makes every copy a text of its own.
                    stream.writelines(f"{number} {document}\n" for document in documents)
            peaks = [
                ask(what, path, Path(folder) / "cache", given.steps)
                for what in ("prepare", "train")
            ]
            size = path.stat().st_size / 1e6
            print(f"{times:>5}x {size:>6.0f} MB {peaks[0]:>7.0f} MB {peaks[1]:>7.0f} MB")


def ask(what: str, path: Path, cache: Path, steps: int) -> float:
    """Run one measurement; return its peak in megabytes."""
    arguments = ["--measure", what, "--source", str(path), "--cache", str(cache)]
    command = [sys.executable, __file__, *arguments, "--steps", str(steps)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(what: str, source: str, cache: Path, steps: int) -> None:
    """Prepare the text, or train a few steps on it once it is prepared; print the peak."""
    corpus = prepared_corpus(RunConfig(sources=(source,)), DEFAULT, cache=cache)
    if what == "train":
        vocabulary = build_vocabulary(
            corpus.words[len(SPECIAL_WORDS) :],
            corpus.counts[len(SPECIAL_WORDS) :].tolist(),
            boundaries=corpus.train.documents,
            min_count=DEFAULT.vocabulary.min_count,
            max_size=40_000,
        )
        left = iter(range(steps))
        with seeded(0):
            model = BiLM(DEFAULT.model, vocabulary)
        train(
            model,
            corpus,
            DEFAULT,
            checkpoints=cache / "checkpoints" / Path(source).stem,
            checkpoint=None,
            keep_best=lambda position, evaluation: None,
            report=lambda report: None,
            stop=lambda: next(left, None) is None,
            world=World(),
        )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()

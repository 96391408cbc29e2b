"""How fast a model is in use: embedding, predicting, importing, training a classifier; and memory.

    python benchmarks/using.py [--megabytes 10 100] [--word-megabytes 1000] [--trainings 1]

All with the biLM of the shipped news classifier, so that figures of versions can be compared;
`default` is larger and slower. Speed is that of raw texts (tokenised on the
way) that become pooled vectors, after loading. "with start-up" is the whole command, from an empty
process to a file. A sentence is predicted alone, many after each other; the median counts. The
memory of embedding is measured once for each size of a text file, --source again and again:
by the mix of all layers (a gigabyte takes hours), and for --word-megabytes by layer 0, which takes
the same way through text, words and files but no LSTM. --trainings 0 leaves out the classifier,
which learns from --labelled. Writes docs/performance/using.json.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from elmo.classify.classifier import TextClassifier
from elmo.config import CLASSIFIER as NEWS
from elmo.embed.config import EncodeConfig, Layer
from elmo.embed.embedder import Embedder
from elmo.embed.files import embed_text
from elmo.runtime import keep_freed_memory
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from harness import Case, Figure, flags, in_turn, refuse_busy, write_found
from training import precisions

MODEL = NEWS / "bilm"
"""Words, 2 x 128 cells per direction; until 0.2 the model that every command used by default."""
WARM_UP = 20
SENTENCES = 200
"""That are predicted one by one."""
IMPORT = "from time import perf_counter as t; a = t(); import elmo; print(t() - a)"

EMBEDDING = "embedding"
FILE, WORD_FILE = "embedding a file", "embedding a file by layer 0"
POOLED = "pooled vectors, with start-up"
PREDICTION = "prediction of a sentence"
IMPORTING = "import elmo"
CLASSIFIER = "training a classifier, with start-up"


def main(command: Sequence[str] | None = None) -> None:
    """Measure, and write what was found."""
    parser = flags(__doc__, source="ag_news:test")
    parser.add_argument("--megabytes", nargs="*", type=float, default=[10.0, 100.0])
    parser.add_argument("--word-megabytes", nargs="*", type=float, default=[1000.0])
    parser.add_argument("--labelled", default="ag_news", help="what a classifier learns from")
    parser.add_argument("--trainings", type=int, default=1, help="of the classifier")
    given = parser.parse_args(command)
    before = refuse_busy(anyway=given.anyway)
    given.scratch.mkdir(parents=True, exist_ok=True)
    figures: tuple[Figure, ...] = ()
    with TemporaryDirectory(dir=given.scratch) as folder:  # /tmp may be memory
        for some, repeats in (
            (cases(given), given.repeats),
            ([classifier_case(given)], given.trainings),
            (file_cases(given, Path(folder)), 1),
        ):
            figures += in_turn(some, repeats, anyway=given.anyway) if repeats else ()
            # What takes seconds is not lost if what takes minutes is stopped.
            write_found("using", given.folder, before, figures)


def cases(given: argparse.Namespace) -> list[Case[float]]:
    """What takes seconds, and is measured in turn."""
    found = [
        Case(
            name=f"{EMBEDDING}, {precision}",
            unit="tokens/s",
            work=embedding_speed,
            arguments=(given.source, precision, given.threads),
        )
        for precision in precisions()
    ]
    once = (given.source, given.threads)
    found.append(Case(name=POOLED, unit="s", work=pooled_seconds, arguments=once))
    found.append(Case(name=PREDICTION, unit="ms", work=prediction_milliseconds, arguments=once))
    found.append(Case(name=IMPORTING, unit="s", work=import_seconds))
    return found


def classifier_case(given: argparse.Namespace) -> Case[float]:
    """What takes minutes."""
    arguments = (given.labelled, given.threads)
    return Case(name=CLASSIFIER, unit="s", work=classifier_seconds, arguments=arguments)


def file_cases(given: argparse.Namespace, folder: Path) -> list[Case[float]]:
    """Files of some sizes, whose figures tell the memory."""
    wanted = [(FILE, "mix", size) for size in given.megabytes]
    wanted += [(WORD_FILE, 0, size) for size in given.word_megabytes]
    return [
        Case(
            name=name,
            unit="tokens/s",
            work=file_speed,
            arguments=(write_file(folder, given.source, size), layer, given.threads),
            at=size,
        )
        for name, layer, size in wanted
    ]


def embedding_speed(source: str, precision: Any, threads: int) -> float:
    """Words a second from raw texts to pooled vectors."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    texts = list(read_documents(resolve([source]), ReadOptions()))
    embedder = Embedder.from_pretrained(MODEL, dtype=precision)
    words = sum(len(embedder.loaded.words(text)) for text in texts)
    embedder.encode(texts[:WARM_UP])
    started = time.perf_counter()
    embedder.encode(texts)
    return words / (time.perf_counter() - started)


def pooled_seconds(source: str, threads: int) -> float:
    """Seconds that the command takes to write the pooled vectors of all texts."""
    with TemporaryDirectory() as folder:
        return command_seconds(pooled_command(source, Path(folder) / "vectors.npz", threads))


def pooled_command(source: str, out: Path, threads: int) -> list[str]:
    """What one types after `elmo`."""
    command = ["embed", source, "--out", str(out), "--model", str(MODEL)]
    return [*command, "--precision", "auto", "--threads", str(threads)]


def classifier_seconds(source: str, threads: int) -> float:
    """Seconds that the command takes to train a classifier on top of the frozen biLM."""
    with TemporaryDirectory() as folder:
        return command_seconds(classifier_command(source, Path(folder) / "topics", threads))


def classifier_command(source: str, out: Path, threads: int) -> list[str]:
    """What one types after `elmo`."""
    command = ["classify", "train", source, "--out", str(out), "--model", str(MODEL)]
    return [*command, "--threads", str(threads)]


def command_seconds(command: Sequence[str]) -> float:
    """Seconds from starting an `elmo` command to its end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "elmo", *command], check=True, capture_output=True)
    return time.perf_counter() - started


def prediction_milliseconds(source: str, threads: int) -> float:
    """The median over texts, each predicted alone."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    classifier = TextClassifier.from_pretrained()
    texts = islice(read_documents(resolve([source]), ReadOptions()), WARM_UP + SENTENCES)
    took: list[float] = []
    for text in texts:
        started = time.perf_counter()
        classifier.predict([text])
        took.append(time.perf_counter() - started)
    return 1000 * statistics.median(took[WARM_UP:])


def import_seconds() -> float:
    """Seconds that `import elmo` takes in a new process."""
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def file_speed(path: Path, layer: Layer, threads: int) -> float:
    """Words a second from a text file to a file of vectors."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    embedder = Embedder.from_pretrained(MODEL, dtype="auto")
    started = time.perf_counter()
    config = EncodeConfig(layer=layer)
    written = embed_text(embedder, str(path), path.with_suffix(".npz"), config)
    elapsed = time.perf_counter() - started
    written.path.unlink()
    return written.tokens / elapsed


def write_file(folder: Path, source: str, megabytes: float) -> Path:
    """A text file of about that size: the same texts again and again, each time with a number."""
    texts = list(read_documents(resolve([source]), ReadOptions()))
    path = folder / f"{megabytes:g}.txt"
    with path.open("w", encoding="utf-8") as stream:
        for number, text in zip(count(), cycle(texts), strict=False):
            if stream.tell() >= megabytes * 1e6:
                break
            stream.write(f"{number} {text}\n")
    return path


if __name__ == "__main__":
    main()

"""Speed of two installed versions of elmo, side by side in one run.

    python benchmarks/compare_versions.py OLD_PYTHON NEW_PYTHON [--repeats 5] [--clock cpu] [--json]

Each argument is the interpreter of an environment with elmo, optionally after a source folder that
replaces the installed package: `SRC:PYTHON`. Every measurement is a fresh process. Repeats are
interleaved (old, new, new, old, …), because the speed of a machine drifts. A ratio above 1 means
that the new version is faster; the spread is that of the ratios of the pairs.

Measured: pre-training of the default word model and of the character model (tokens per second
between the first and the last report in log.jsonl, without start-up), encoding of many texts and of
one sentence with one model folder for both versions (`--model`; default: the word model that
version 0.1 shipped), and the whole `elmo classify train` command. The texts are generated. Training
and commands go through the command line, encoding through `elmo.Embedder`. Both versions compute in
fp32. On a machine with other work, `--clock cpu --threads 1` counts processor time instead of time:
what others take does not count, though they still share the caches.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

TOPICS = ("World", "Sports", "Business", "Sci/Tech")
MODEL = Path(__file__).parents[1] / "src" / "elmo" / "models" / "ag_news" / "bilm"
"""The word model that version 0.1 shipped; the other one of today also reads characters."""
START_UP_SECONDS = 300
"""A training that has not reported for so long is taken for broken."""


class Version(NamedTuple):
    """An interpreter, and the source folder that it imports elmo from, if not the installed one."""

    python: str
    source: str | None

    @classmethod
    def parse(cls, text: str) -> Version:
        """PYTHON, or SRC:PYTHON."""
        source, _, python = text.rpartition(":")
        return cls(python, str(Path(source).resolve()) if source else None)

    def environment(self, threads: int) -> dict[str, str]:
        """Variables of a process with so many threads."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        own = {} if self.source is None else {"PYTHONPATH": self.source}
        return {**kept, **own, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


class Setup(NamedTuple):
    """What one measurement runs on."""

    version: Version
    threads: int
    inputs: Path
    scratch: Path
    """Empty before every measurement."""
    cache: Path
    """Prepared corpora of this version."""
    seconds: float
    model: str
    clock: str
    """"wall" or "cpu"."""


Measure = Callable[[Setup], float]


def training(preset: str, flags: Sequence[str] = ()) -> Measure:
    """Tokens per second of `elmo pretrain`, stopped after some seconds."""

    def measure(setup: Setup) -> float:
        out = setup.scratch / "run"
        command = [
            "pretrain", str(setup.inputs / "corpus.txt"), "--out", str(out), "--preset", preset,
            "--precision", "fp32", "--epochs", "1000", "--threads", str(setup.threads),
            "--cache", str(setup.cache), *flags,
        ]  # fmt: skip
        errors = setup.scratch / "errors.txt"
        with errors.open("w") as stream:
            process = subprocess.Popen(
                [setup.version.python, "-m", "elmo", *command],
                env=setup.version.environment(setup.threads),
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
            try:
                return _watch(process, out / "log.jsonl", setup)
            except RuntimeError as error:
                raise SystemExit(f"{error}\n{errors.read_text()[-2000:]}") from None
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()

    return measure


def _watch(process: subprocess.Popen[bytes], log: Path, setup: Setup) -> float:
    """Tokens per second between two reports that are at least so many seconds apart."""
    deadline = time.monotonic() + START_UP_SECONDS + 100 * setup.seconds
    first: tuple[float, float] | None = None
    reports = 0
    while time.monotonic() < deadline:
        steps = _step_reports(log)
        if len(steps) > reports:  # the clock is read when a report is seen, 50 ms late at most
            reports = len(steps)
            now = _cpu_seconds(process.pid) if setup.clock == "cpu" else steps[-1]["time"]
            first = first or (now, steps[-1]["targets"])
            if now - first[0] >= setup.seconds:
                return (steps[-1]["targets"] - first[1]) / (now - first[0])
        if process.poll() is not None:
            raise RuntimeError("the training ended before it could be measured")
        time.sleep(0.05)
    raise RuntimeError(f"no reports in {log} that are {setup.seconds:g} s apart")


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, all of its threads together (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _step_reports(log: Path) -> list[dict[str, float]]:
    if not log.exists():
        return []
    lines = log.read_text(encoding="utf-8").split("\n")[:-1]  # the last one may be incomplete
    return [report for report in map(json.loads, lines) if report["kind"] == "step"]


def encoding(setup: Setup) -> float:
    """Tokens per second of `Embedder.encode`, pooled vectors of all texts."""
    return _in_python(setup, "many")


def one_sentence(setup: Setup) -> float:
    """Median milliseconds of `Embedder.encode` for one sentence."""
    return _in_python(setup, "one")


def classifier(setup: Setup) -> float:
    """Seconds of `elmo classify train`, start-up included."""
    command = [
        "classify", "train", str(setup.inputs / "labelled.csv"), "--epochs", "2",
        "--out", str(setup.scratch / "classifier"), "--threads", str(setup.threads),
    ]  # fmt: skip
    started = _clock(setup.clock, children=True)
    _checked([setup.version.python, "-m", "elmo", *command], setup)
    return _clock(setup.clock, children=True) - started


def _clock(name: str, *, children: bool = False) -> float:
    """Seconds by the clock of this name; of the processor's, those of processes that have ended."""
    if name == "wall":
        return time.perf_counter()
    times = os.times()
    return times.children_user + times.children_system if children else time.process_time()


def _in_python(setup: Setup, what: str) -> float:
    command = [setup.version.python, __file__, "--worker", what, str(setup.inputs / "texts.json")]
    command += [str(setup.threads), str(setup.seconds), setup.model, setup.clock]
    return float(_checked(command, setup))


def _checked(command: Sequence[str], setup: Setup) -> str:
    env = setup.version.environment(setup.threads)
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


CASES: dict[str, tuple[str, bool, Measure]] = {
    "training, words": ("tokens/s", True, training("default")),
    "training, characters": ("tokens/s", True, training("characters")),
    "encoding": ("tokens/s", True, encoding),
    "one sentence": ("ms", False, one_sentence),
    "classifier": ("s", False, classifier),
}
"""Unit, whether more is better, and how it is measured."""


def worker(what: str, path: str, threads: str, seconds: str, model: str, clock: str) -> None:
    """Measure encoding in this process, with the elmo of this interpreter."""
    import torch

    from elmo import Embedder

    torch.set_num_threads(int(threads))
    texts = json.loads(Path(path).read_text(encoding="utf-8"))
    embedder = Embedder.from_pretrained(Path(model))
    embedder.encode(texts[:50])
    for text in texts[:20]:
        embedder.encode([text])
    many = what == "many"
    print(_many(embedder, texts, float(seconds), clock) if many else _one(embedder, texts, clock))


def _many(embedder: object, texts: list[str], seconds: float, clock: str = "wall") -> float:
    # Words are apart in these texts, so that both versions count the same tokens.
    tokens = sum(len(text.split()) for text in texts)
    started, passes = _clock(clock), 0
    while passes == 0 or _clock(clock) - started < seconds:
        embedder.encode(texts)  # type: ignore[attr-defined]
        passes += 1
    return passes * tokens / (_clock(clock) - started)


def _one(embedder: object, texts: list[str], clock: str = "wall") -> float:
    took: list[float] = []
    for text in texts[:300]:
        started = _clock(clock)
        embedder.encode([text])  # type: ignore[attr-defined]
        took.append(_clock(clock) - started)
    return 1000 * statistics.median(took)


def write_inputs(folder: Path, tokens: int, vocabulary: int, texts: int) -> None:
    """Zipf-distributed texts: a corpus, texts of the length of news, and labelled ones."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    words = [_word(rank) for rank in range(vocabulary)]
    limits = list(_running_sum(1 / (rank + 2.7) for rank in range(vocabulary)))

    def text(extra: str = "") -> str:
        length = max(3, round(rng.gauss(38, 12)))
        drawn = rng.choices(words, cum_weights=limits, k=length)
        drawn[::6] = [extra or word for word in drawn[::6]]
        return " ".join(drawn)

    with (folder / "corpus.txt").open("w", encoding="utf-8") as stream:
        written = 0
        while written < tokens:
            line = text()
            written += line.count(" ") + 1
            stream.write(line + "\n")
    plain = json.dumps([text() for _ in range(texts)])
    (folder / "texts.json").write_text(plain, encoding="utf-8")
    labels = [TOPICS[number % len(TOPICS)] for number in range(texts)]
    rows = "".join(f"{label},{text(label[:5].lower().strip('/'))}\n" for label in labels)
    (folder / "labelled.csv").write_text("label,text\n" + rows, encoding="utf-8")


def _word(rank: int) -> str:
    """A pronounceable word without digits, short where it is frequent."""
    syllables = [f"{consonant}{vowel}" for consonant in "bdfgklmnprst" for vowel in "aeiou"]
    word = ""
    while True:
        rank, digit = divmod(rank, len(syllables))
        word += syllables[digit]
        if not rank:
            return word


def _running_sum(values: object) -> list[float]:
    total, sums = 0.0, []
    for value in values:  # type: ignore[attr-defined]
        total += value
        sums.append(total)
    return sums


class Result(NamedTuple):
    """One case with so many threads, in both versions; pairs were measured one after the other."""

    case: str
    threads: int
    unit: str
    old: list[float]
    new: list[float]
    ratios: list[float]
    """Speed of the new version over that of the old one, of each pair."""

    @property
    def ratio(self) -> float:
        """The median over the pairs."""
        return statistics.median(self.ratios)


def compare(
    versions: tuple[Version, Version], inputs: Path, scratch: Path, args: argparse.Namespace
) -> list[Result]:
    """Measure all cases, repeat by repeat, so that a slow minute does not hit one case alone."""
    values: dict[tuple[str, int], tuple[list[float], list[float]]] = {
        (case, threads): ([], []) for case in args.cases for threads in args.threads
    }
    for repeat in range(args.repeats):
        for (case, threads), found in values.items():
            measure = CASES[case][2]
            order = (0, 1) if repeat % 2 == 0 else (1, 0)  # neither version is always first
            for which in order:
                with TemporaryDirectory(dir=scratch) as empty:
                    cache = scratch / f"cache-{which}"
                    setup = Setup(
                        versions[which], threads, inputs, Path(empty), cache, args.seconds,
                        args.model, args.clock,
                    )  # fmt: skip
                    found[which].append(measure(setup))
            old, new = found[0][-1], found[1][-1]
            progress = f"{repeat + 1}/{args.repeats} {case}, {threads} thread(s)"
            print(f"{progress}: {old:.4g} -> {new:.4g} {CASES[case][0]}", file=sys.stderr)
    return [
        Result(case, threads, CASES[case][0], old, new, _ratios(case, old, new))
        for (case, threads), (old, new) in values.items()
    ]


def _ratios(case: str, old: Sequence[float], new: Sequence[float]) -> list[float]:
    more_is_better = CASES[case][1]
    pairs = zip(old, new, strict=True)
    return [second / first if more_is_better else first / second for first, second in pairs]


def table(results: Sequence[Result]) -> str:
    """Medians, and the ratio with its spread."""
    lines = [f"{'':24}{'threads':>8}{'old':>11}{'new':>11} {'unit':9}{'new/old':>8}   spread"]
    for result in results:
        old, new = statistics.median(result.old), statistics.median(result.new)
        spread = f"{min(result.ratios):.2f} to {max(result.ratios):.2f}"
        lines.append(
            f"{result.case:24}{result.threads:8}{_short(old):>11}{_short(new):>11} "
            f"{result.unit:9}{result.ratio:8.3f}   {spread}"
        )
    return "\n".join(lines)


def _short(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f}"


def main(command: Sequence[str] | None = None) -> None:
    """Measure both versions, and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("old", type=Version.parse, help="PYTHON, or SRC:PYTHON")
    parser.add_argument("new", type=Version.parse)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement of speed")
    parser.add_argument("--model", default=str(MODEL), help="folder that both versions encode with")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of the training corpus")
    parser.add_argument("--vocabulary", type=int, default=40_000, help="distinct words")
    parser.add_argument("--texts", type=int, default=1500, help="to encode and to classify")
    parser.add_argument("--json", action="store_true", help="print all measurements as JSON")
    args = parser.parse_args(command)
    with TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs"
        write_inputs(inputs, args.tokens, args.vocabulary, args.texts)
        results = compare((args.old, args.new), inputs, Path(folder), args)
    found = [{**result._asdict(), "ratio": result.ratio} for result in results]
    print(json.dumps(found, indent=1) if args.json else table(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        main()

"""Attacks on the command line, and what became of each: the table in docs/robustness.md.

    python -m tests.faults.attacks                 all attacks, a table on standard output
    python -m tests.faults.attacks --sample 100    a hundred of them, drawn with a fixed seed
    python -m tests.faults.attacks --group files   one group, every outcome that is not fine

An attack is a command line in a folder that an enemy, or an unlucky user, has prepared. Every one
gets a folder of its own with a tiny model, a classifier, texts, and files of the user. Commands run
in children forked from this process, which has imported everything but computed nothing: a second
of imports per attack would allow a tenth as many.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elmo.cli.main import parse
from elmo.errors import UserError

SECONDS = 120
GIGABYTES = 6
"""Address space that a command may have; torch alone takes three."""
STOPPED = (130, 143)
"""Exit codes after SIGTERM, of a training and of other commands."""
LONGEST_MESSAGE = 4000
OUTCOMES = ("clear error", "right", "traceback", "hang", "wrong", "lost")
FINE = OUTCOMES[:2]
WORDS = [
    "the",
    "a",
    "oil",
    "prices",
    "fell",
    "rose",
    "on",
    "Monday",
    "bank",
    "court",
    "match",
    "team",
    "won",
    "lost",
    "game",
    "market",
    "rates",
    "software",
    "Internet",
    "chip",
    "space",
]


class Result(NamedTuple):
    """What a command did."""

    code: int
    """Exit code; negative: killed by this signal."""
    out: str
    err: str
    seconds: float
    folder: Path
    hung: bool = False


Prepare = Callable[[Path], object]
Check = Callable[[Result], str | None]
"""Returns what is wrong with a result of exit code 0 or 1, or nothing."""


@dataclass(frozen=True)
class Attack:
    """One command line in one prepared folder."""

    group: str
    name: str
    argv: Sequence[str]
    """What follows `elmo`."""
    prepare: Prepare = lambda folder: None
    check: Check = lambda result: None
    stdin: bytes | None = b""
    """None: closed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    expect: str = ""
    """An outcome that this attack must have; default: a clear error or a right result."""
    says: str = ""
    """What a clear error must mention."""
    seconds: float = SECONDS
    """How long it may take until it is told to end, which is no mistake of a server."""
    changes: Sequence[str] = ()
    """Files and folders that the command may change; those named in --out and new ones always."""


class Verdict(NamedTuple):
    """The outcome of an attack and why."""

    attack: Attack
    outcome: str
    why: str


def world(folder: Path) -> Path:
    """A folder with texts, a model `m`, what was trained on it, vectors, and files of the user."""
    random_words = random.Random(0)
    (folder / "notes").mkdir(parents=True)
    (folder / "README.md").write_text("my readme\n")
    (folder / "notes" / "keep.txt").write_text("my notes\n")
    lines: list[str] = []
    for _ in range(80):
        first = random_words.randrange(len(WORDS))  # words have neighbours that they prefer
        lines.append(" ".join((WORDS * 2)[first : first + random_words.randint(3, 12)]))
    (folder / "corpus.txt").write_text("".join(f"{line} .\n" for line in lines))
    rows = ["label,text"]
    for idx in range(24):
        words = random_words.choices(WORDS, k=6)
        rows.append(f"{'ab'[idx % 2]},{'oil bank' if idx % 2 else 'team game'} {' '.join(words)}")
    (folder / "labelled.csv").write_text("\n".join(rows) + "\n")
    sentences = [
        "".join(f"{word}\t{word[0].isupper()}\n" for word in line.split()) for line in lines
    ]
    (folder / "tagged.conll").write_text("\n".join(sentences[:30]))
    pairs = [f"{lines[idx]},{lines[idx + 1]},{'yn'[idx % 2]}" for idx in range(0, 40)]
    for part in ("train", "dev", "test"):
        rows = [
            "".join(f"{n}\t{word}\t{word}\t{'XY'[len(word) % 2]}{6 * chr(9)}_\n"
                    for n, word in enumerate(line.split(), 1))
            for line in lines[:30]
        ]  # fmt: skip
        path = folder / "data" / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("\n".join(rows).encode()))
    (folder / "pairs.csv").write_text("\n".join(["sentence1,sentence2,label", *pairs]) + "\n")
    commands = [
        "pretrain corpus.txt --out m --hidden 8 --word-dim 8 --epochs 1 --min-count 1 --cache k",
        "classify train labelled.csv --model m --out c --parts ngrams --quiet",
        "embed corpus.txt --model m --out v.npz",
        "tag train tagged.conll --model m --out t --epochs 1 --encoder-dim 4 --task-dim 4",
        "pairs train pairs.csv --model m --out p --epochs 1 --encoder-dim 4 --task-dim 4",
        "static corpus.txt --out w.txt --dim 4 --min-count 1 --shift 1 --window 2 --cache k",
    ]
    for command in commands:
        result = run(command.split(), folder)
        if result.code:
            raise RuntimeError(f"elmo {command}: exit code {result.code}\n{result.err}")
    return folder


def run(
    argv: Sequence[str],
    folder: Path,
    *,
    stdin: bytes | None = b"",
    environment: Mapping[str, str] = {},
    seconds: float = SECONDS,
    meanwhile: Callable[[int], None] | None = None,
) -> Result:
    """Run a command in a forked child; a long job that answers SIGTERM as told is no hang."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _in_child(argv, folder, stdin, environment, out.fileno(), err.fileno())
        hung = False
        if meanwhile is not None:
            meanwhile(child)
        status = _waited(child, seconds)
        if status is None:
            os.kill(child, signal.SIGTERM)
            status = _waited(child, 10)
            hung = status is None or os.waitstatus_to_exitcode(status) not in STOPPED
        if status is None:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        texts: list[str] = []
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(1 << 22).decode(encoding, "replace"))
        spent = time.monotonic() - started
        return Result(os.waitstatus_to_exitcode(status), *texts, spent, folder, hung)


def _in_child(
    argv: Sequence[str],
    folder: Path,
    stdin: bytes | None,
    environment: Mapping[str, str],
    out: int,
    err: int,
) -> None:
    code = 99
    try:
        os.chdir(folder)
        os.environ.update({"ELMO_CACHE": str(folder / "cache"), **environment})
        if stdin is None:
            os.close(0)
            sys.stdin = None  # as Python does at its start
        else:
            source = tempfile.TemporaryFile()  # noqa: SIM115
            source.write(stdin)
            source.seek(0)
            os.dup2(source.fileno(), 0)
            sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
        os.dup2(out, 1)
        os.dup2(err, 2)
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding)
        sys.stderr = io.TextIOWrapper(
            os.fdopen(2, "wb", 0, closefd=False), encoding, "backslashreplace", write_through=True
        )
        limit = int(GIGABYTES * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        from elmo.cli.main import main

        code = main(argv)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        os._exit(code)


def _waited(child: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    pause = 0.002
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    return None


def copied(original: Path, folder: Path) -> Path:
    """A fresh copy of the world."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder, symlinks=True)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Hash or kind of everything below a folder; pipes are not opened."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsdecode(os.path.relpath(path, folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"  # noqa: PTH115
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder" if path.is_dir() else "special"
    return found


def judge(attack: Attack, result: Result, before: Mapping[str, str]) -> Verdict:
    """Compare what a command did with what it may do."""
    message = result.err[-600:].strip()
    if result.hung:
        return Verdict(attack, "hang", f"after {result.seconds:.0f} s; {message}")
    if result.code < 0 or result.code == 99 or "Traceback (most recent" in result.err:
        return Verdict(attack, "traceback", f"exit code {result.code}: {message}")
    after = contents(result.folder)
    allowed = [*attack.changes, "cache", "k"]
    lost = [
        name
        for name in before
        if after.get(name) != before[name]
        and not any(name == one or name.startswith(f"{one}/") for one in allowed)
    ]
    if lost:
        return Verdict(attack, "lost", f"changed or deleted: {', '.join(lost[:5])}; {message}")
    leftovers = [name for name in after if name.endswith(".partial") and name not in before]
    if leftovers:
        return Verdict(attack, "wrong", f"left behind: {', '.join(leftovers[:5])}")
    if result.code == 2:
        lines = [line for line in result.err.splitlines() if line.startswith("elmo: ")]
        if not lines or not lines[-1].removeprefix("elmo: ").strip():
            return Verdict(attack, "wrong", f"exit code 2 without a message: {message}")
        if len(result.err) > LONGEST_MESSAGE:
            return Verdict(attack, "wrong", f"{len(result.err)} characters of error messages")
        if attack.says not in result.err:
            return Verdict(attack, "wrong", f"does not say {attack.says!r}: {message}")
        if attack.expect not in ("", "clear error"):
            return Verdict(attack, "wrong", f"refused: {message}")
        return Verdict(attack, "clear error", message)
    if result.code not in (0, 1, *STOPPED):
        return Verdict(attack, "wrong", f"exit code {result.code}: {message}")
    if attack.expect == "clear error":
        return Verdict(attack, "wrong", f"accepted with exit code {result.code}: {message}")
    problem = attack.check(result)
    if problem:
        return Verdict(attack, "wrong", problem)
    return Verdict(attack, "right", "")


def carry_out(attack: Attack, original: Path, workspace: Path) -> Verdict:
    """Run an attack in a copy of the world and judge it."""
    if attack.group == "options":
        try:  # most values are refused before anything happens: no child is needed to see that
            parse(list(attack.argv))
        except UserError as error:
            told = Result(2, "", f"elmo: {error}", 0.0, workspace / "nothing")
            return judge(attack, told, {})
    folder = workspace / "w"
    shutil.copytree(original, folder, symlinks=True)
    try:
        attack.prepare(folder)
        before = contents(folder)
        result = run(
            attack.argv,
            folder,
            stdin=attack.stdin,
            environment=attack.environment,
            seconds=attack.seconds,
        )
        return judge(attack, result, before)
    finally:
        for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
            if not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(folder)


def carry_out_all(
    attacks: Iterable[Attack],
    workspace: Path,
    *,
    with_jobs: bool = False,
    with_loopback: bool = False,
) -> Iterator[Verdict]:
    """The verdict of each attack."""
    import_everything()
    original = world(workspace / "original")
    for attack in attacks:
        yield carry_out(attack, original, workspace)
    if with_jobs:
        from tests.faults.attack_jobs import jobs

        yield from jobs(original, workspace)
    if with_loopback:
        from tests.faults.attack_loopback import loopback

        yield from loopback(original, workspace)


def import_everything() -> None:
    """Import what commands import when they run, so that children need not."""
    import h5py  # noqa: F401
    import matplotlib.pyplot as plt
    import pyarrow.parquet  # noqa: F401
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401

    import elmo.classify.training
    import elmo.cli.classify
    import elmo.cli.completion
    import elmo.cli.corpus
    import elmo.cli.embed
    import elmo.cli.lm
    import elmo.cli.models
    import elmo.cli.official
    import elmo.cli.pairs
    import elmo.cli.pretrain
    import elmo.cli.probe
    import elmo.cli.serve
    import elmo.cli.study
    import elmo.cli.tag
    import elmo.embed.files
    import elmo.explore.index
    import elmo.official.verify
    import elmo.serve.run
    import elmo.static.contextual
    import elmo.static.train
    import elmo.tasks.pairs
    import elmo.tasks.probe
    import elmo.tasks.tagger
    import elmo.text.inspect
    import elmo.training.estimate  # noqa: F401

    importlib.import_module("torch._dynamo")  # what optimizers import when they are made
    plt.switch_backend("agg")


def until(end: float, attacks: Iterable[Attack]) -> Iterator[Attack]:
    """Attacks until a time of the monotonic clock."""
    for attack in attacks:
        if time.monotonic() > end:
            return
        yield attack


def table(verdicts: Sequence[Verdict]) -> str:
    """Markdown: one line per group, one column per outcome."""
    groups = list(dict.fromkeys(verdict.attack.group for verdict in verdicts))
    counts = Counter((verdict.attack.group, verdict.outcome) for verdict in verdicts)
    lines = [
        f"| attacks on | tried | {' | '.join(OUTCOMES)} |",
        f"|---|{'---:|' * (1 + len(OUTCOMES))}",
    ]
    for group in groups:
        numbers = [counts[group, outcome] for outcome in OUTCOMES]
        lines.append(f"| {group} | {sum(numbers):,} | {' | '.join(f'{n:,}' for n in numbers)} |")
    totals = [sum(counts[group, outcome] for group in groups) for outcome in OUTCOMES]
    cells = " | ".join(f"**{n:,}**" for n in totals)
    return "\n".join([*lines, f"| **all** | **{sum(totals):,}** | {cells} |"])


def main() -> int:
    """Carry out attacks, print what was not fine and the table."""
    from tests.faults.attack_list import all_attacks

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", help="Only groups whose name has this in it.")
    parser.add_argument("--name", help="Only attacks whose name has this in it.")
    parser.add_argument("--sample", type=int, help="Only this many, drawn with a fixed seed.")
    parser.add_argument(
        "--minutes", type=float, help="Draw attacks from the list until this time is over."
    )
    parser.add_argument("--all", action="store_true", help="Print fine outcomes, too.")
    parser.add_argument("--quick", action="store_true", help="Only commands that train nothing.")
    parser.add_argument("--jobs", action="store_true", help="Also kills, signals, two at once.")
    parser.add_argument("--loopback", action="store_true", help="Also servers and locales.")
    parser.add_argument(
        "--record", type=Path, help="File for the outcomes; fine ones in it are not tried again."
    )
    args = parser.parse_args()
    everything = all_attacks()
    order = {attack.group: number for number, attack in enumerate(everything)}
    attacks = [
        attack
        for attack in everything
        if (args.group or "") in attack.group
        and (args.name or "") in attack.name
        and not (args.quick and {"pretrain", "train", "study", "static"} & set(attack.argv[:2]))
    ]
    if args.sample is not None and args.sample < len(attacks):
        attacks = random.Random(0).sample(attacks, args.sample)
    if args.minutes is not None:  # a fair sample, whatever the speed of the machine
        attacks = random.Random(0).sample(attacks, len(attacks))
    recorded: list[Verdict] = []
    if args.record is not None and args.record.exists():
        lines = map(json.loads, args.record.read_text().splitlines())
        latest = {(told["group"], told["name"]): told for told in lines}
        by_outcome = [(attack, latest.get((attack.group, attack.name), {})) for attack in attacks]
        recorded = [
            Verdict(attack, told["outcome"], told["why"])
            for attack, told in by_outcome
            if told.get("outcome") in FINE
        ]
        attacks = [attack for attack, told in by_outcome if told.get("outcome") not in FINE]
    verdicts: list[Verdict] = [*recorded]
    total = len(recorded) + len(attacks)
    more = {"with_jobs": args.jobs, "with_loopback": args.loopback}
    end = float("inf") if args.minutes is None else time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="elmo-attacks-") as workspace:
        for verdict in carry_out_all(until(end, attacks), Path(workspace), **more):
            verdicts.append(verdict)
            attack = verdict.attack
            if args.record is not None:
                told = {"group": attack.group, "name": attack.name, "outcome": verdict.outcome}
                with args.record.open("a") as record:
                    record.write(json.dumps({**told, "why": verdict.why}) + "\n")
            if args.all or verdict.outcome not in FINE:
                name = f"[{verdict.attack.group}] {verdict.attack.name}"
                print(ascii(f"{verdict.outcome}: {name}: {verdict.why}")[1:-1], flush=True)
    names = {(attack.group, attack.name) for attack in everything}
    listed = sum((one.attack.group, one.attack.name) in names for one in verdicts)
    print(f"{listed:,} of the {total:,} attacks in the list were tried")
    verdicts.sort(key=lambda verdict: order.get(verdict.attack.group, len(order)))
    print(table(verdicts))
    return int(any(verdict.outcome not in FINE for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())

"""Attacks on jobs under way: two at once, kills, signals; the rest of what attacks.py carries out.

Every job is compared byte by byte with one that nobody disturbed. Embedding uses two threads.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.attacks import Attack, Result, Verdict, copied, run

TRIES = 4
EMBED = "embed big.txt --model m --out o.npz --threads 2"
PRETRAIN = (
    "pretrain big.txt --out o --hidden 8 --word-dim 8 --epochs 2 --min-count 1 --threads 2 "
    "--batch-tokens 512 --set training.checkpoint_minutes=0"
)
STATIC = "static big.txt --out o.txt --dim 4 --min-count 1 --shift 1 --window 2"
SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGXCPU", "SIGINT")


def started(command: str, folder: Path, code: Path, go_at: float = 0.0) -> int:
    """A child that runs a command and writes its exit code to a file; it starts at a given time."""
    child = os.fork()
    if child == 0:
        time.sleep(max(0.0, go_at - time.monotonic()))
        result = run(command.split(), folder)
        code.write_text(f"{result.code}\n{result.err[-400:]}")
        os._exit(0)
    return child


def outputs(folder: Path, command: str) -> dict[str, bytes]:
    """What a command was to write: a file, or the weights of a run and its last checkpoint."""
    if command.startswith("pretrain"):
        last = sorted((folder / "o" / "checkpoints").glob("step-*"))[-1]
        paths = [folder / "o" / "model.safetensors", *sorted(last.glob("*.safetensors"))]
    else:
        paths = [folder / command.split()[command.split().index("--out") + 1]]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def jobs(original: Path, workspace: Path) -> Iterator[Verdict]:
    """Carry out all attacks on jobs."""
    import elmo.embed.files

    elmo.embed.files.TOKENS_PER_CHUNK = 1 << 11  # several chunks within a second
    text = (original / "corpus.txt").read_text()
    (original / "big.txt").write_text(text * 12)
    for command in (EMBED, PRETRAIN, STATIC):
        folder = copied(original, workspace / "undisturbed")
        expected_result = run(command.split(), folder)
        if expected_result.code:
            raise RuntimeError(f"elmo {command}: {expected_result.err}")
        expected = outputs(folder, command)
        seconds = expected_result.seconds
        name = command.split()[0]
        for number in range(TRIES):
            attack = Attack("two at once", f"elmo {name}, try {number}", command.split())
            yield judged(attack, original, workspace, expected, at_once(command))
        if command == STATIC:
            continue
        for number in range(TRIES):
            moment = seconds * (number + random.Random(number).random()) / TRIES
            attack = Attack("kill -9", f"elmo {name} after {moment:.2f} s", command.split())
            yield judged(attack, original, workspace, expected, killed(command, moment))
    folder = copied(original, workspace / "undisturbed")
    run(PRETRAIN.split(), folder)
    expected = outputs(folder, PRETRAIN)
    for name in SIGNALS:
        attack = Attack("signals", f"{name}: elmo pretrain", PRETRAIN.split())
        yield judged(attack, original, workspace, expected, signalled(PRETRAIN, name))


def judged(
    attack: Attack,
    original: Path,
    workspace: Path,
    expected: dict[str, bytes],
    disturb: Callable[[Path], str | None],
) -> Verdict:
    """Disturb a job, finish it, compare what it wrote and look for leftovers."""
    folder = copied(original, workspace / "job")
    problem = disturb(folder)
    if problem is not None:
        outcome = "traceback" if "Traceback" in problem else "wrong"
        return Verdict(attack, outcome, problem)
    written = outputs(folder, " ".join(attack.argv))  # pyright: ignore
    if written != expected:
        differing = [name for name in expected if written.get(name) != expected[name]]
        return Verdict(attack, "wrong", f"other bytes in {', '.join(differing)}")
    left = [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.endswith((".partial", ".unfinished", "elmo-lock"))
    ]
    return Verdict(attack, "wrong" if left else "right", f"left behind: {left}" if left else "")


def at_once(command: str, processes: int = 3) -> Callable[[Path], str | None]:
    """Several processes start the same command at the same time; one does the work."""

    def disturb(folder: Path) -> str | None:
        go_at = time.monotonic() + 0.3
        codes = [folder / f"code-{number}" for number in range(processes)]
        children = [started(command, folder, code, go_at) for code in codes]
        for child in children:
            os.waitpid(child, 0)
        told = [code.read_text().partition("\n") for code in codes]
        if not any(code == "0" for code, _, _ in told):
            return f"nobody finished: {told}"
        strange = [err for code, _, err in told if code not in ("0", "2") or "Traceback" in err]
        return f"exit codes {[code for code, _, _ in told]}: {strange}" if strange else None

    return disturb


def killed(command: str, moment: float) -> Callable[[Path], str | None]:
    """Kill the command after a time, then run it again."""

    def disturb(folder: Path) -> str | None:
        interrupted(command, folder, signal.SIGKILL, moment)
        is_whole = command.startswith("embed") and (folder / "o.npz").exists()
        result = run(command.split(), folder)
        if is_whole and result.code == 2 and "exists already" in result.err:
            return None  # killed after its last write; what it wrote is compared below
        return finished(result)

    return disturb


def signalled(command: str, name: str) -> Callable[[Path], str | None]:
    """Send a signal once there is a checkpoint; the command must say how to resume, and do so."""

    def disturb(folder: Path) -> str | None:
        result = interrupted(command, folder, getattr(signal, name), None)
        if result.code not in (0, 130):
            return f"exit code {result.code} after {name}: {result.err[-300:]}"
        return finished(run(command.split(), folder))

    return disturb


def interrupted(command: str, folder: Path, number: signal.Signals, moment: float | None) -> Result:
    """Run a command and send it a signal after a time, or when its first checkpoint is there."""

    def send(child: int) -> None:
        end = time.monotonic() + (moment if moment is not None else 60)
        while time.monotonic() < end:
            if moment is None and list((folder / "o" / "checkpoints").glob("step-*")):
                break
            time.sleep(0.005)
        os.kill(child, number)

    return run(command.split(), folder, meanwhile=send)


def finished(result: Result) -> str | None:
    """What is wrong with a command that should have done the rest."""
    return None if result.code == 0 else f"the rest failed with {result.code}: {result.err[-300:]}"

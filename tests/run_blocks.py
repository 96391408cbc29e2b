"""Run the Python blocks of Markdown pages, each page in one namespace, and compare what they print.

`print(x)  # (2, 256)` must print what the comment says. The tests use it, and `python
tests/run_blocks.py README.md` in a fresh environment. After another model has become the shipped
one, `python tests/run_blocks.py --update README.md docs/index.md docs/guides/five-minutes.md`
writes what the blocks print now.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^(print\(.*\))  # (.*)$", re.MULTILINE)


def python_blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    return BLOCK.findall(page)


def printed(page: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Execute all blocks of a page one after the other; each with the lines that it prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, name, "exec"), namespace)
        yield block, output.getvalue().splitlines()


def run_page(page: str, name: str = "page") -> None:
    """Execute all blocks of a page; AssertionError if an output differs."""
    for block, lines in printed(page, name):
        expected = [said for _, said in PRINTED.findall(block)]
        if expected:
            assert lines == expected, f"{name}: printed {lines}, but the page says {expected}"


def update_page(path: Path) -> None:
    """Write behind each print what it prints now."""
    page = path.read_text(encoding="utf-8")
    for block, lines in printed(page, str(path)):
        left = iter(lines)
        new = PRINTED.sub(lambda match, left=left: f"{match[1]}  # {next(left)}", block)
        page = page.replace(block, new)
    path.write_text(page, encoding="utf-8")


LINUX_ONLY = ("sched_getaffinity", "posix_fallocate", "preadv", "pwrite", "sysconf", "fork")
POSIX_ONLY = ("register_at_fork", "getloadavg", "mkfifo", "geteuid")


def become_another_system() -> None:
    """Take away what macOS or Windows lack; libraries look at sys.platform, so they come first."""
    import filelock  # noqa: F401
    import sklearn.svm  # noqa: F401
    import torch  # noqa: F401

    sys.modules["fcntl"] = None  # pyright: ignore[reportArgumentType]
    for name in (*LINUX_ONLY, *POSIX_ONLY):
        if hasattr(os, name):
            delattr(os, name)


def run_commands() -> None:
    """The README's quick commands, on texts and a model of their own, in the current folder."""
    from elmo.cli.main import main

    Path("own.txt").write_text("the cat sees the dog .\nthe fox hears the cat .\n" * 40)
    small = "--hidden=8 --word-dim=8 --samples=4 --epochs=1 --batch-tokens=512 --min-count=1"
    for command in (
        ["classify", "predict", "Oil prices fell on Monday as supply fears eased ."],
        ["embed", "own.txt", "--out", "own.npz"],
        ["check", "own.txt", "--no-estimate"],
        ["pretrain", "own.txt", "--out", "run", *small.split()],
        ["evaluate", "own.txt", "--model", "run"],
        ["predict", "run", "the ___ sees the dog .", "--top", "2"],
    ):
        assert main(command) == 0, command


if __name__ == "__main__":
    if sys.argv[1] == "--update":
        for argument in sys.argv[2:]:
            update_page(Path(argument))
        raise SystemExit
    other_system = sys.argv[1] == "--other-system"
    if other_system:
        become_another_system()
    for argument in sys.argv[1 + other_system :]:
        run_page(Path(argument).read_text(encoding="utf-8"), argument)
        print(f"{argument}: every block runs and prints what it says")
    if other_system:
        run_commands()

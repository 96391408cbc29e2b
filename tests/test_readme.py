"""The README tells the truth: its tree is the tree, its commands are understood."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from tests.interop.golden_elmo import golden
from tests.pretrain.conftest import tiny_config, write_corpus

from elmo.cli.main import COMMANDS
from elmo.pretrain.run import Surroundings, pretrain

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("elmo ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def tree() -> set[str]:
    """The files that the README's tree names, by their paths below src/elmo."""
    (block,) = [block for block in BLOCKS if block.startswith("src/elmo/\n")]
    folders: list[str] = []
    found: set[str] = set()
    for line in block.splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        name = line.split()[0]
        folders[depth:] = [name] if name.endswith("/") else []
        if not name.endswith("/"):
            found.add("".join(folders) + name)
    return found


def test_the_tree_names_every_module():
    source = ROOT / "src" / "elmo"
    modules = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    assert tree() == modules


def test_there_are_commands_to_check():
    assert {command[0] for command in commands()} >= {"check", "pretrain", "evaluate", "predict"}
    assert {command[0] for command in commands()} <= set(COMMANDS)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus(tmp_path / "corpus.txt", documents=20)
    if "--from" in command:
        around = Surroundings(cache=tmp_path / "cache")
        pretrain([str(corpus)], "runs/news", tiny_config(), surroundings=around)
        golden().write(tmp_path / "elmo_small")
    module = importlib.import_module(f"elmo.cli.{command[0]}")
    assert module.parse(command[1:])

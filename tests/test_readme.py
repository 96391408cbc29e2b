"""The commands in the README and the guide parse."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.official.golden_elmo import golden
from tests.training.conftest import tiny_config, write_corpus

from elmo.cli.main import COMMANDS, parse
from elmo.training.pretrain import pretrain

ROOT = Path(__file__).parents[1]
PAGES = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guide.md")]
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", "\n".join(PAGES), re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("elmo ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_there_are_commands_to_check():
    assert {command[0] for command in commands()} >= {"check", "pretrain", "evaluate", "predict"}
    assert {command[0] for command in commands()} <= set(COMMANDS)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus(tmp_path / "corpus.txt", documents=20)
    Path("wide.toml").write_text("[model]\nhidden = 512\n")
    if "--from" in command:
        pretrain([str(corpus)], "runs/news", tiny_config(), cache=tmp_path / "cache")
        golden().write(tmp_path / "elmo_small")
    assert parse(command)

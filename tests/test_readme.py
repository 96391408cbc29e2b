"""The commands of README and docs parse, their Python blocks compile, and the README's run."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from pathlib import Path

import pytest
from tests.official.golden_elmo import golden
from tests.run_blocks import python_blocks, run_page
from tests.training.conftest import tiny_config, write_corpus

from elmo.cli.main import COMMANDS, parse
from elmo.training.pretrain import pretrain

ROOT = Path(__file__).parents[1]
LAB_BOOKS = {"results.md", "experiments.md", "performance.md"}
"""Pages with commands as they were run, some by earlier versions."""
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in LAB_BOOKS),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [block for text in TEXTS.values() for block in FENCED.findall(text)]


LONG = pytest.mark.skipif("ELMO_SOAK" not in os.environ, reason="set ELMO_SOAK=1 to run all pages")


def commands() -> list[list[str]]:
    lines = [line for block in BLOCKS for line in block.splitlines() if line.startswith("elmo ")]
    split = [shlex.split(line, comments=True)[1:] for line in lines]
    return list({" ".join(command): command for command in split}.values())


def test_there_are_commands_to_check():
    assert {command[0] for command in commands()} >= {"check", "pretrain", "evaluate", "predict"}
    assert {command[0] for command in commands()} <= set(COMMANDS)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wide.toml").write_text("[model]\nhidden = 512\nword_dim = 512\n")
    if "--from" in command:
        corpus = write_corpus(tmp_path / "corpus.txt", documents=20)
        pretrain([str(corpus)], "runs/news", tiny_config(), cache=tmp_path / "cache")
        golden().write(tmp_path / "elmo_small")
    assert parse(command)


@pytest.mark.parametrize("page", TEXTS)
def test_every_python_block_compiles(page):
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", TEXTS[page], re.M | re.S)
    for block in [*python_blocks(TEXTS[page]), *cells]:
        compile(block, page, "exec")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        *(
            pytest.param(page, marks=LONG)
            for page in (
                "docs/guides/five-minutes.md",
                "docs/guides/own-text.md",
                "docs/integrations.md",
            )
        ),
    ],
)
def test_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    run_page(TEXTS[page], page)


def test_the_readme_is_short():
    assert len(TEXTS["README.md"].splitlines()) <= 170


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out

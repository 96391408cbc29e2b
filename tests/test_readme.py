"""The commands and the Python blocks of README and docs run, on small data.

Always those of the README and of short pages; those of all pages with ELMO_SOAK=1.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests import small_world
from tests.official.golden_elmo import golden
from tests.run_blocks import python_blocks, run_page, update_page
from tests.training.conftest import tiny_config, write_corpus

import elmo
from elmo.cli.main import COMMANDS, main, parse
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


def commands_of(blocks: list[str]) -> list[list[str]]:
    """The commands in the order of the page, as a shell reads them."""
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("elmo ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def commands() -> list[list[str]]:
    """Those of all pages, and those of the results, which take hours and only parse here."""
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    found = commands_of([*BLOCKS, *FENCED.findall(results)])
    return list({" ".join(command): command for command in found}.values())


def write_settings() -> None:
    """The file that the guide shows."""
    (settings,) = re.findall(r"^```toml\n(.*?)^```", TEXTS["docs/guide.md"], re.M | re.S)
    Path("wide.toml").write_text(settings, encoding="utf-8")


def test_there_are_commands_to_check():
    assert {command[0] for command in commands()} >= {"check", "pretrain", "evaluate", "predict"}
    assert {command[0] for command in commands()} <= set(COMMANDS)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_understood(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_settings()
    if "--from" in command:
        corpus = write_corpus(tmp_path / "corpus.txt", documents=20)
        pretrain([str(corpus)], "runs/news", tiny_config(), cache=tmp_path / "cache")
        golden().write(tmp_path / "elmo_small")
    assert parse(command)


INLINE = re.compile(r"`(elmo [^`]+)`")
INCOMPLETE = re.compile("are required|no such file")


@pytest.mark.parametrize("page", TEXTS)
def test_commands_within_a_sentence_name_real_options(page):
    """They leave out what a sentence need not say, and nothing else is wrong with them."""
    problems: list[str] = []
    for command in dict.fromkeys(INLINE.findall(FENCED.sub("", TEXTS[page]))):
        words = shlex.split(command)[1:]
        if "--help" in command or "…" in command or why_not(words):
            continue
        try:
            if not any(name.split()[: len(words)] == words for name in COMMANDS):
                parse(words)
        except elmo.UserError as error:
            problems += [] if INCOMPLETE.search(str(error)) else [f"{command}: {error}"]
    assert problems == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_python_block_compiles(page):
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", TEXTS[page], re.M | re.S)
    for block in [*python_blocks(TEXTS[page]), *cells]:
        compile(block, page, "exec")


SHORT = {"README.md", "docs/index.md", "docs/guides/five-minutes.md"}
"""Pages that run with every `make test`."""
ELSEWHERE = {
    "docs/public-models.md": "downloads",
    "docs/public-models-many-langs.md": "downloads; tests/official/test_many_langs.py",
    "docs/serve.md": "needs a server; tests/serve and tests/explore",
    "docs/scaling.md": "a line of a longer program; tests/embed/test_ray.py",
}
"""Pages whose Python blocks run elsewhere, if at all."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "small"
    small_world.make(folder)
    return folder


@pytest.fixture
def inside(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the small world, and the process in it."""
    folder = tmp_path / "work"
    shutil.copytree(world, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELMO_DATA", str(folder / "data"))
    small_world.shrink_studies(monkeypatch)
    write_settings()
    return folder


def pages_with(content: dict[str, bool]) -> list[object]:
    """Pages that have something to run; long ones are marked."""
    return [
        page if page in SHORT else pytest.param(page, marks=LONG)
        for page, wanted in content.items()
        if wanted
    ]


@pytest.mark.parametrize(
    "page",
    pages_with(
        {page: bool(python_blocks(text)) and page not in ELSEWHERE for page, text in TEXTS.items()}
    ),
)
def test_blocks_run_and_print_what_the_page_says(page, inside, recwarn):
    run_page(TEXTS[page], page)


def test_what_blocks_print_can_be_written_anew(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\nprint(x)  # 3\nprint([x])  # ?\n```\n\n```python\nx\n```\n")
    update_page(page)
    assert page.read_text().splitlines()[2:4] == ["print(x)  # 1", "print([x])  # [1]"]
    run_page(page.read_text())
    with pytest.raises(AssertionError, match="the page says"):
        run_page(page.read_text().replace("# 1", "# 2"))


def why_not(command: list[str]) -> str | None:
    """Why a command of the docs cannot run here."""
    words = " ".join(command)
    if any(mark in words for mark in ("s3://", "hf:", "https://", "manylangs/")):
        return "needs the network"
    if command[0] == "serve":
        return "runs until it is stopped; tests/serve"
    if "spacy:" in words and find_spec("spacy") is None:
        return "spaCy is not installed"
    if "sentence-transformers" in words and find_spec("sentence_transformers") is None:
        return "sentence-transformers is not installed"
    return None


@pytest.mark.parametrize(
    "page",
    pages_with({page: bool(commands_of(FENCED.findall(text))) for page, text in TEXTS.items()}),
)
def test_commands_run(page, inside, capsys):
    ran, stand_ins = 0, {"runs/news", "runs/general", "runs/mine"}
    for command in commands_of(FENCED.findall(TEXTS[page])):
        long = command[0] == "study" and "ELMO_SOAK" not in os.environ
        if long or why_not(command):
            continue
        out = command[command.index("--out") + 1] if "--out" in command else ""
        if out in stand_ins:
            shutil.rmtree(out)
            stand_ins.discard(out)
        status = main([os.path.expandvars(word) for word in command])
        assert status == 0, f"elmo {shlex.join(command)}: {capsys.readouterr().err[-2000:]}"
        ran += 1
    assert ran or all(map(why_not, commands_of(FENCED.findall(TEXTS[page]))))


def test_links_of_the_readme_lead_to_files():
    """Sphinx checks those of the docs."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", TEXTS["README.md"])
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_readme_is_short():
    assert len(TEXTS["README.md"].splitlines()) <= 170


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out

"""The command answers at once, and a user's mistake is one line and a 2."""

from __future__ import annotations

import subprocess
import sys

import pytest

import elmo
from elmo.cli.main import COMMANDS, main


def imported_by(*arguments: str) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own; which modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elmo", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done


def test_help_loads_no_torch() -> None:
    loaded, done = imported_by("--help")
    assert done.returncode == 0
    assert "usage: elmo COMMAND" in done.stdout
    assert not {"torch", "numpy", "rich", "tyro"} & loaded


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_loads_no_torch(command: str) -> None:
    loaded, done = imported_by(command, "--help")
    assert done.returncode == 0
    assert f"usage: elmo {command}" in done.stdout
    assert "torch" not in loaded


def test_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


def test_nothing_asked_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"elmo {elmo.__version__}\n"


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scor"]) == 2
    assert capsys.readouterr().err == (
        "elmo: unknown command 'scor' (did you mean 'score'?); see elmo --help\n"
    )


def test_a_mistyped_flag_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "model", "--temprature", "1"]) == 2
    assert capsys.readouterr().err == (
        "elmo: unknown option --temprature (did you mean '--temperature'?); see elmo generate "
        "--help\n"
    )


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("neighbours bank bank --corpus x --top 3", "'--count'"),
        ("predict ___ --k 3", "'--top'"),
        ("embed x --out y --batch-size 3", "'--batch-tokens'"),
        ("classify train x --out y --batch-size 3", "'--batch-texts'"),
        ("pretrain x --lr 0.1", "'--learning-rate'"),
        ("pretrain x --gpu", "'--device cuda'"),
    ],
)
def test_a_guessed_flag_gets_a_hint(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert f"(did you mean {hint}?)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "score", "predict", "generate"])
def test_a_missing_model_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    text = ["the ___"] if command in ("score", "predict", "generate") else []
    assert main([command, "no/model", *text]) == 2
    told = capsys.readouterr().err
    assert told.startswith("elmo: no/model: expected a model folder, but there is none")
    assert told.count("\n") == 1


def test_ctrl_c_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(folder: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo.model_folder.describe_model", interrupted)
    assert main(["info", "model"]) == 130
    assert capsys.readouterr().err == "elmo: interrupted\n"


def test_who_is_interrupted_may_say_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: object) -> None:
        raise KeyboardInterrupt("stopped; the same command goes on")

    monkeypatch.setattr("elmo.model_folder.describe_model", interrupted)
    assert main(["info", "anything"]) == 130
    assert capsys.readouterr().err == "elmo: stopped; the same command goes on\n"

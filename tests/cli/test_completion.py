"""Completion scripts: their own shells complete with them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from elmo.cli.main import COMMANDS, main


def completed(script: str, words: list[str]) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = (
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _elmo; printf '%s\\n' ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{code}"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_options(capsys, tmp_path, monkeypatch) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, ["elmo", ""]) == list(COMMANDS)
    assert completed(script, ["elmo", "pre"]) == ["pretrain", "predict"]
    assert completed(script, ["elmo", "classify", "e"]) == ["evaluate"]
    assert completed(script, ["elmo", "classify", "train", "--tes"]) == ["--test"]
    assert completed(script, ["elmo", "score", "--un"]) == ["--unit"]
    (tmp_path / "texts.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert completed(script, ["elmo", "embed", "te"]) == ["texts.txt"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_the_script(shell, capsys, tmp_path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "neighbours" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script, encoding="utf-8")
    subprocess.run([shell, "-n", str(path)], check=True)


def test_another_shell_is_a_mistake(capsys) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err

"""elmo pretrain as a user calls it."""

from __future__ import annotations

import json
import os
import sys

import pytest
from tests.interop.golden_elmo import golden
from tests.pretrain.conftest import write_corpus

from elmo.cli.main import main

SMALL = [
    "--hidden=8",
    "--word-dim=8",
    "--samples=6",
    "--epochs=1",
    "--batch-tokens=128",
    "--window=32",
    "--min-count=1",
    "--held-out-share=0.1",
    "--threads=1",
]


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return str(write_corpus(tmp_path / "corpus.txt"))


def test_from_text_to_a_model_and_on(corpus, tmp_path, capsys, monkeypatch):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    monkeypatch.setattr(sys, "argv", ["elmo", "pretrain", corpus, "--out", first])
    assert main(["pretrain", corpus, "--out", first, *SMALL, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["finished"]
    assert summary["best_perplexity"] > 1
    assert f"elmo pretrain {corpus} --out {first}" in (tmp_path / "first/README.md").read_text()
    assert main(["info", first]) == 0
    assert main(["evaluate", first, "--json"]) == 0
    assert main(["pretrain", "--resume", first]) == 0
    assert main(["pretrain", corpus, "--out", second, "--from", first, "--epochs", "1"]) == 0
    assert "a model after" in capsys.readouterr().out


def test_official_files_are_fine_tuned_and_written_back(corpus, tmp_path, capsys):
    golden(cells=12, width=8).write(tmp_path / "official")
    run, back = str(tmp_path / "run"), str(tmp_path / "back")
    given = [corpus, "--from", str(tmp_path / "official"), "--out", run]
    flags = ["--frozen-share", "0.5", "--min-count=1", "--held-out-share=0.1", "--threads=1"]
    flags += ["--batch-tokens=128", "--window=32", "--epochs=2"]
    assert main(["pretrain", *given, *flags]) == 0
    shown = capsys.readouterr()
    assert "the softmax is learned, from here on all of the model is trained" in shown.err
    assert "with only its softmax trained)" in shown.out
    assert main(["evaluate", run, "--json"]) == 0
    assert main(["convert", run, back, "--to", "official"]) == 0
    assert main(["info", back]) == 0
    assert main(["evaluate", back, corpus]) == 2
    assert "elmo pretrain SOURCE --from MODEL" in capsys.readouterr().err


def test_progress_goes_to_standard_error_in_plain_lines(corpus, tmp_path, capsys):
    assert main(["pretrain", corpus, "--out", str(tmp_path / "run"), *SMALL]) == 0
    shown = capsys.readouterr()
    assert "held-out text after step" in shown.err
    assert "tokens/s" in shown.err
    assert "\x1b" not in shown.err
    assert shown.out.startswith(str(tmp_path / "run"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no text to train on"),
        (["CORPUS"], "--out FOLDER"),
        (["CORPUS", "--out", "OUT", "--dropout=2", "--epochs=0"], "2 problems"),
        (["CORPUS", "--out", "OUT", "--input=characters"], "--no-tied"),
        (["missing.txt", "--out", "OUT"], "missing.txt"),
        (["--resume", "nowhere"], "no run to resume"),
        (["CORPUS", "--resume", "OUT"], "sources"),
        (["--resume", "OUT", "--hidden=3"], "config"),
        (["CORPUS", "--out", "OUT", "--device=warp"], "device 'warp'"),
        (["CORPUS", "--out", "OUT", "--threads=0"], "--threads"),
        (["CORPUS", "--out", "OUT", "--from=nowhere"], "nowhere"),
        (["CORPUS", "--out", "OUT", "--min-count=100000"], "--min-count"),
        (["CORPUS", "--out", "OUT", "--tokenizer=custom"], "custom"),
    ],
)
def test_a_mistake_gets_one_clear_line_and_exit_code_2(corpus, tmp_path, capsys, arguments, says):
    out = tmp_path / "out"
    given = [one.replace("CORPUS", corpus).replace("OUT", str(out)) for one in arguments]
    assert main(["pretrain", *given]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no text"),
        (b"\n\n  \n", "holds no text"),
        (b"a b\x00c\n", "binary"),
        ("fine\nnot fine: \xe9\n".encode("latin-1"), "line 2"),
    ],
)
def test_bad_files_are_named(tmp_path, capsys, monkeypatch, content, says):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert main(["pretrain", str(path), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "bad.txt" in error
    assert says in error
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_invalid_bytes_can_be_replaced(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9 noir\n" * 40)
    arguments = [str(path), "--out", str(tmp_path / "run"), *SMALL, "--errors=replace"]
    assert main(["pretrain", *arguments]) == 0


def test_a_mistyped_flag_gets_a_suggestion(corpus, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["pretrain", corpus, "--hiden", "3"])
    assert stopped.value.code == 2
    assert "--hidden" in capsys.readouterr().err


def test_a_line_of_fifty_thousand_words_is_trained_in_windows(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "long.txt"
    path.write_text("the cat sees the dog . " * 8_334 + "\n")
    limits = ["--held-out-share=0", "--window=512", "--batch-tokens=512"]
    arguments = [str(path), "--out", str(tmp_path / "run"), *limits]
    assert main(["pretrain", *SMALL, *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"] == 50_004 + 1


def test_no_permission_to_write_is_said_before_any_work(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["pretrain", corpus, "--out", str(tmp_path / "run")]) == 2
    assert "no permission" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_a_file_where_the_folder_should_be_is_said(corpus, tmp_path, capsys):
    assert main(["pretrain", corpus, "--out", f"{corpus}/run"]) == 2
    assert "is a file" in capsys.readouterr().err

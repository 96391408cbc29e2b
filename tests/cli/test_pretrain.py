"""elmo pretrain as a user calls it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.official.golden_elmo import golden
from tests.training.conftest import write_corpus

from elmo.cli.main import main
from elmo.language_model import open_model
from elmo.model_folder import describe_model, parameter_count
from elmo.training.pretrain import evaluate_run

# A model folder is described as its files are.


def test_a_model_is_shown_to_people(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model)]) == 0
    shown = capsys.readouterr().out
    loaded = open_model(model)
    assert f"{parameter_count(loaded.model):,} (F32)" in shown
    assert f"{len(loaded.model.vocabulary):,} words" in shown
    assert "2 per direction, 12 cells" in shown
    assert "corpus.txt" in shown
    assert "elmo pretrain corpus.txt --out tiny" in shown
    assert "held-out perplexity  forward" in shown


def test_a_model_is_told_to_scripts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    config = json.loads((model / "config.json").read_text())
    assert told["model"] == config["model"]
    assert told["tokenizer"] == config["tokenizer"]
    assert told["stages"]["run"] == config["run"]
    card = (model / "README.md").read_text()
    for direction in ("forward", "backward"):
        assert f"| {direction} | {told['held_out_perplexity'][direction]:.2f} |" in card


def test_a_damaged_model_is_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert main(["info", str(copy)]) == 2
    assert "damaged" in capsys.readouterr().err


# Held-out text and any other text, for people and for scripts.


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["evaluate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def edited(model: Path, to: Path, **sections: dict[str, Any]) -> Path:
    """A copy of a model with other settings."""
    shutil.copytree(model, to)
    config = json.loads((to / "config.json").read_text())
    for name, changes in sections.items():
        config[name] |= changes
    (to / "config.json").write_text(json.dumps(config))
    return to


def test_held_out_text_is_found_again(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, str(model))
    assert describe_model(model).held_out_perplexity == {
        name: pytest.approx(found[name]["perplexity"]) for name in ("forward", "backward")
    }
    assert found["average"]["perplexity"] == pytest.approx(found["perplexity"])


def test_held_out_text_is_prepared_anew_where_the_cache_is_gone(
    model: Path, tmp_path: Path
) -> None:
    assert evaluate_run(model, cache=tmp_path) == evaluate_run(model)


def test_a_text_is_evaluated(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.csv"
    path.write_text("id,text\n1,the cat sat on a tree .\n2,zebras looked at the mat .\n")
    found = told(capsys, str(model), str(path), "--column", "text")
    twin = open_model(model).evaluate(path)
    assert found["forward"] == json.loads(json.dumps(asdict(twin.forward)))
    assert found["unknown_rate"] > 0


def test_people_get_a_table(model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(model), str(corpus)]) == 0
    shown = capsys.readouterr().out
    for row in ("perplexity", "accuracy", "top-5 accuracy", "precision, macro", "F1, weighted"):
        assert row in shown
    assert "forward  backward  average" in shown
    assert "unknown words: " in shown


def test_confusions_are_written_and_drawn(
    model: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures"
    found = told(capsys, str(corpus), "--model", str(model), "--out", str(out))
    written = json.loads((out / "evaluation.json").read_text())
    assert written == {key: value for key, value in found.items() if key != "average"}
    drawing = ElementTree.fromstring((out / "confusions.svg").read_text())
    shown = {text.strip() for text in drawing.itertext()}
    most = written["confusions"][0]
    assert {most["true"], most["predicted"]} <= shown


def test_a_changed_text_is_not_taken_for_the_held_out_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy", run={"digest": "0" * 64})
    assert main(["evaluate", str(other)]) == 2
    assert "has changed since it started" in capsys.readouterr().err


def test_a_model_without_a_run_needs_a_text(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy")
    config = json.loads((other / "config.json").read_text())
    del config["run"]
    (other / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(other)]) == 2
    assert "name a text to evaluate on" in capsys.readouterr().err


def test_a_custom_tokenizer_needs_words_already_cut(
    model: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy", tokenizer={"tokenizer": "custom"})
    assert main(["evaluate", str(other), str(corpus)]) == 2
    assert "--tokenizer whitespace" in capsys.readouterr().err
    assert told(capsys, str(other), str(corpus), "--tokenizer", "whitespace")["perplexity"] > 1


def test_a_missing_text_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(model), "nowhere.txt"]) == 2
    assert "nowhere.txt" in capsys.readouterr().err


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
def own_corpus(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return str(write_corpus(tmp_path / "corpus.txt"))


def test_from_text_to_a_model_and_on(own_corpus, tmp_path, capsys, monkeypatch):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    monkeypatch.setattr(sys, "argv", ["elmo", "pretrain", own_corpus, "--out", first])
    assert main(["pretrain", own_corpus, "--out", first, *SMALL, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["finished"]
    assert summary["best_perplexity"] > 1
    assert f"elmo pretrain {own_corpus} --out {first}" in (tmp_path / "first/README.md").read_text()
    assert main(["info", first]) == 0
    assert main(["evaluate", first, "--json"]) == 0
    assert main(["pretrain", "--resume", first]) == 0
    assert main(["pretrain", own_corpus, "--out", second, "--from", first, "--epochs", "1"]) == 0
    assert "a model after" in capsys.readouterr().out


def test_official_files_are_fine_tuned_and_written_back(own_corpus, tmp_path, capsys):
    golden(cells=12, width=8).write(tmp_path / "official")
    run, back = str(tmp_path / "run"), str(tmp_path / "back")
    given = [own_corpus, "--from", str(tmp_path / "official"), "--out", run]
    flags = ["--frozen-share", "0.5", "--min-count=1", "--held-out-share=0.1", "--threads=1"]
    flags += ["--batch-tokens=128", "--window=32", "--epochs=2"]
    assert main(["pretrain", *given, *flags]) == 0
    shown = capsys.readouterr()
    assert "the softmax is trained, from here on the whole model is" in shown.err
    assert "with only its softmax trained)" in shown.out
    assert main(["evaluate", run, "--json"]) == 0
    assert main(["convert", run, back, "--to", "official"]) == 0
    assert main(["info", back]) == 0
    assert main(["evaluate", back, own_corpus]) == 2
    assert "elmo pretrain SOURCE --from MODEL" in capsys.readouterr().err


def test_progress_goes_to_standard_error_in_plain_lines(own_corpus, tmp_path, capsys):
    assert main(["pretrain", own_corpus, "--out", str(tmp_path / "run"), *SMALL]) == 0
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
        (["--resume", "OUT", "--epochs=3"], "config"),
        (["CORPUS", "--out", "OUT", "--device=warp"], "device 'warp'"),
        (["CORPUS", "--out", "OUT", "--threads=0"], "--threads"),
        (["CORPUS", "--out", "OUT", "--from=nowhere"], "nowhere"),
        (["CORPUS", "--out", "OUT", "--min-count=100000"], "--min-count"),
        (["CORPUS", "--out", "OUT", "--tokenizer=custom"], "custom"),
    ],
)
def test_a_mistake_gets_one_clear_line_and_exit_code_2(
    own_corpus, tmp_path, capsys, arguments, says
):
    out = tmp_path / "out"
    given = [one.replace("CORPUS", own_corpus).replace("OUT", str(out)) for one in arguments]
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


def test_a_mistyped_flag_gets_a_suggestion(own_corpus, capsys):
    assert main(["pretrain", own_corpus, "--hiden", "3"]) == 2
    assert "--hidden" in capsys.readouterr().err


def test_a_line_of_fifty_thousand_words_is_trained_in_windows(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "long.txt"
    path.write_text("the cat sees the dog . " * 8_334 + "\n")
    limits = ["--held-out-share=0", "--window=512", "--batch-tokens=512"]
    arguments = [str(path), "--out", str(tmp_path / "run"), *limits]
    assert main(["pretrain", *SMALL, *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"] == 50_004 + 1


def test_no_permission_to_write_is_said_before_any_work(own_corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["pretrain", own_corpus, "--out", str(tmp_path / "run")]) == 2
    assert "no permission" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_a_file_where_the_folder_should_be_is_said(own_corpus, tmp_path, capsys):
    assert main(["pretrain", own_corpus, "--out", f"{own_corpus}/run"]) == 2
    assert "is a file" in capsys.readouterr().err


def test_info_of_a_classifier(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "golden" / "classifier"
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    described = json.loads((folder / "classifier.json").read_text(encoding="utf-8"))
    assert ", ".join(described["labels"]) in out
    assert "development rows" in out
    assert main(["info", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["labels"] == described["labels"]
    measured = json.loads((folder / "metrics_train.json").read_text(encoding="utf-8"))
    assert shown["metrics"]["train"] == measured

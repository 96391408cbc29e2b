"""The classify commands: train, evaluate and predict on files, and what they say of mistakes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.classify.test_training import write_toy

from elmo.cli.main import main

SETTINGS = [
    "--epochs",
    "6",
    "--batch-texts",
    "8",
    "--learning-rate",
    "0.02",
    "--development-share",
    "0.2",
    "--task-dim",
    "4",
    "--task-min-count",
    "1",
    "--hidden",
    "8",
    "--threads",
    "1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained classifier in `out`, beside the tables it learned from."""
    folder = tmp_path_factory.mktemp("toy")
    write_toy(folder)
    code = main(
        ["classify", "train", str(folder / "train.csv"), "--model", str(folder / "bilm"),
         "--out", str(folder / "out"), "--test", str(folder / "test.csv"), *SETTINGS]
    )  # fmt: skip
    assert code == 0
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["classify", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_train_prints_figures_and_weights(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["train", folder / "train.csv", "--model", folder / "bilm", *SETTINGS]
    code, out, err = run(capsys, *given, "--out", tmp_path / "one", "--test", folder / "test.csv")
    assert code == 0
    assert "test: 60 rows, accuracy" in out
    assert "layer weights" in out
    assert "epoch 6 (network)" in err
    code, out, _ = run(
        capsys, *given, "--out", tmp_path / "two", "--mix", "frozen", "--layer-weights",
        "0.2", "0.3", "0.5", "--json",
    )  # fmt: skip
    assert code == 0
    content = json.loads(out)
    assert content["mix_weights"] == pytest.approx([0.2, 0.3, 0.5])
    assert content["metrics"]["train"]["accuracy"]["value"] > 0.8
    assert run(capsys, *given, "--out", tmp_path / "two", "--json")[0] == 2, "there already"
    assert run(capsys, *given, "--out", tmp_path / "two", "--fresh", "--json")[0] == 0


def test_evaluate_prints_and_writes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["evaluate", folder / "test.csv", "--model", folder / "out", "--threads", "1"]
    code, out, _ = run(capsys, *given, "--out", tmp_path / "figures")
    assert code == 0
    assert "macro F1" in out
    written = json.loads((tmp_path / "figures" / "metrics_evaluation.json").read_text())
    code, out, _ = run(capsys, *given, "--json")
    assert json.loads(out)["metrics"]["confusion"] == written["confusion"]


def test_predict_texts_files_and_standard_input_alike(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ["--model", folder / "out", "--threads", "1", "--json"]
    (tmp_path / "texts.txt").write_text("the cat\n\nrain on a\n", encoding="utf-8")
    (tmp_path / "table.csv").write_text('text\n"the cat"\n""\n"rain on a"\n', encoding="utf-8")
    found: list[list[dict[str, Any]]] = []
    inputs = type("Input", (), {"buffer": io.BytesIO(b"the cat\n\nrain on a\n")})
    monkeypatch.setattr("sys.stdin", inputs)
    for given in (
        ["the cat", "", "rain on a"],
        ["--files", tmp_path / "texts.txt"],
        ["--files", tmp_path / "table.csv"],
        ["-"],
    ):
        code, out, _ = run(capsys, "predict", *given, *model)
        assert code == 0
        found.append([json.loads(line) for line in out.splitlines()])
    assert [one["label"] for one in found[0]][::2] == ["animals", "weather"]
    assert [one["empty"] for one in found[0]] == [False, True, False]
    assert set(found[0][0]["probabilities"]) == {"animals", "weather"}
    assert all(one == found[0] for one in found[1:])


def test_a_line_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "predict", "the cat", "", "--model", folder / "out")
    first, second = out.splitlines()
    assert first.startswith("animals\t")
    assert first.endswith("\tthe cat")
    assert second.endswith("(no words)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "did you mean 'train'?"),
        (["predict", "--model", "out"], "no text was given"),
        (["predict", "cat", "--model", "bilm"], "not a classifier folder"),
        (["train", "train.csv", "--model", "bilm", "--out", "out"], "already exists"),
        (["train", "train.csv", "--model", "bilm", "--out", "x", "--pooling", "sum"], "pooling:"),
        (["train", "none.csv", "--model", "bilm", "--out", "x"], "no file or folder"),
        (["evaluate", "strange.csv", "--model", "out"], "'wether', first at"),
        (["evaluate", "unlabelled.csv", "--model", "out"], "no label"),
        (["train", "single.csv", "--model", "bilm", "--out", "x"], "at least 2 rows"),
    ],
)
def test_mistakes_end_in_one_line(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    Path("strange.csv").write_text("label,text\nwether,rain\n")
    Path("unlabelled.csv").write_text('label,text\n"",rain\nanimals,cat\n')
    Path("single.csv").write_text("label,text\na,rain\na,sun\nb,cat\n")
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not Path("x").exists()


def test_help_names_the_three(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in ("train", "evaluate", "predict"))


def test_predict_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classify", "predict", "Oil prices fell .", "--explain", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    explained = answer["contributions"]
    assert explained["words"] == ["Oil", "prices", "fell", "."]
    total = explained["base"] + sum(explained["values"])
    assert total == pytest.approx(explained["log_probability"], abs=1e-9)
    assert main(["classify", "predict", "Oil prices fell .", "--explain"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "Oil"

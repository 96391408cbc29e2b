"""elmo tag, elmo pairs, elmo probe and elmo study paper, as they are typed."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.tasks.toy import toy_pairs, toy_tags, write_toy
from tests.training.test_pretrain import wait_for_checkpoints

from elmo.cli.main import main
from elmo.cli.tag import coloured
from elmo.files import sha256
from elmo.language_model import LanguageModel
from elmo.tasks.data import TaggedTexts
from elmo.tasks.tags import TaggedText

SMALL = ["--encoder-dim", "6", "--task-dim", "4", "--set", "task_min_count=1", "batch_texts=8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A biLM and files to learn from."""
    folder = tmp_path_factory.mktemp("tasks")
    write_toy(folder)
    return folder


def test_tag(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    train = ["tag", "train", str(folder / "train_spans.conll"), "--out", str(folder / "tagger")]
    options = ["--model", str(folder / "bilm"), "--epochs", "2", "--threads", "1", *SMALL]
    assert main([*train, *options, "--test", str(folder / "test_spans.conll"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["test"]["f1"]["value"] >= 0
    model = ["--model", str(folder / "tagger")]
    assert main(["tag", "evaluate", str(folder / "test_spans.conll"), *model]) == 0
    assert "spans: precision" in capsys.readouterr().out
    assert main(["tag", "predict", "the cat sat", *model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == ["the", "cat", "sat"]
    assert main(["tag", "predict", "ราคา ลดลง", *model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_rate"] == 1
    assert "its results say little" in caplog.text
    capsys.readouterr()
    assert main(["tag", "predict", "the cat sat", *model, "--json", "--precision", "bf16"]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == ["the", "cat", "sat"]
    assert main(["tag", "predict", "", "the cat", *model]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "(no words)"
    assert main(["tag", "predict", "the cat", *model, "--format", "conll"]) == 0
    assert capsys.readouterr().out.startswith("the\t")
    assert main(["tag", "predict", "--conll", str(folder / "test.conll"), *model]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 40
    assert main(["tag", "predict", *model]) == 2
    assert "no text was given" in capsys.readouterr().err
    assert main(["tag", "evaluate", str(folder / "nowhere.conll"), *model]) == 2
    assert main([*train, *options]) == 2
    assert "--fresh" in capsys.readouterr().err


def test_colours_tell_labels_apart() -> None:
    """Words of a span have the colour of its label, which stands after the last of them."""
    names = coloured(TaggedText(("New", "York", "saw", "Ann"), ("B-LOC", "I-LOC", "O", "B-PER")))
    assert names.plain == "New York/LOC saw Ann/PER"
    styles = {names.plain[part.start : part.end]: str(part.style) for part in names.spans}
    assert styles["New"] == styles["York"]
    assert styles["York"] != styles["Ann"]
    assert "saw" not in styles
    tags = coloured(TaggedText(("It", "\x1b[31mrains"), ("PRON", "VERB")))
    assert "\x1b" not in tags.plain
    assert tags.plain.endswith("/VERB")


def test_pairs(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    train = ["pairs", "train", str(folder / "train.tsv"), "--out", str(folder / "pairs")]
    options = ["--model", str(folder / "bilm"), "--epochs", "2", "--threads", "1", *SMALL]
    assert main([*train, *options, "--test", str(folder / "test.tsv")]) == 0
    assert "test: macro F1" in capsys.readouterr().out
    model = ["--model", str(folder / "pairs")]
    assert main(["pairs", "evaluate", str(folder / "test.tsv"), *model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 40
    assert main(["pairs", "predict", "the cat", "a dog", *model, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["probabilities"]) == {"animals", "weather"}
    assert main(["pairs", "predict", "ราคา", "ลดลง", *model]) == 0
    capsys.readouterr()
    assert "unknown words: 100.0%" in caplog.text
    assert main(["pairs", "predict", "--files", str(folder / "test.tsv"), *model]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 40
    assert main(["pairs", "predict", "one text", *model]) == 2
    assert "two texts" in capsys.readouterr().err


@pytest.mark.parametrize(("task", "file"), [("tag", "train.conll"), ("pairs", "train.tsv")])
def test_a_killed_training_resumes_to_the_same_bytes(
    folder: Path, tmp_path: Path, task: str, file: str
) -> None:
    command = [
        sys.executable, "-m", "elmo", task, "train", str(folder / file), "--model",
        str(folder / "bilm"), "--epochs", "4", "--threads", "1", "--checkpoint-minutes", "0",
        *SMALL, "--out",
    ]  # fmt: skip
    assert subprocess.run([*command, str(tmp_path / "whole")], capture_output=True).returncode == 0
    out = tmp_path / "killed"
    process = subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL)
    wait_for_checkpoints(process, tmp_path / "killed.unfinished", 3)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    assert subprocess.run([*command, str(out)], capture_output=True).returncode == 0
    weights = [sha256(one / "network.safetensors") for one in (out, tmp_path / "whole")]
    assert weights[0] == weights[1]


def conllu(data: TaggedTexts) -> bytes:
    """Tagged sentences as gzipped CoNLL-U."""
    lines: list[str] = []
    for words, tags in zip(data.words, data.tags, strict=True):
        rows = enumerate(zip(words, tags, strict=True), start=1)
        lines += [f"{idx}\t{word}\t_\t{tag}" + "\t_" * 6 for idx, (word, tag) in rows]
        lines.append("")
    return gzip.compress("\n".join(lines).encode())


def test_paper(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    for name in ("ud_english_ewt", "snli"):
        (data / name).mkdir(parents=True)
    for seed, part in enumerate(("train", "dev", "test")):
        file = data / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu.gz"
        file.write_bytes(conllu(toy_tags(30, seed)))
    for seed, part in enumerate(("train_subset", "validation", "test")):
        pairs = toy_pairs(30, seed)
        rows = zip(pairs.first, pairs.second, pairs.targets, strict=True)
        text = "premise\thypothesis\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
        (data / "snli" / f"{part}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    command = [
        "study", "paper", "--data", str(data), "--model", str(folder / "bilm"), "--out",
        str(tmp_path / "paper"), "--epochs", "1", "--threads", "1", "--seeds", "0", "--tasks",
        "pos", "snli", "--mix-tasks", "pos", "--place-tasks", "snli", "--fraction-tasks", "pos",
        "--fractions", "0.5", "1", "--probes", "pos", "--words", "--quiet",
    ]  # fmt: skip
    assert main([*command, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in results["table1"]] == ["pos", "snli"]
    sha = results["about"]["bilm_sha256"]
    assert {*results["table3"][0]} >= {"input", "output", "both"}
    page = (tmp_path / "paper" / "report.html").read_text()
    assert "Table 6: Parts of speech" in page
    assert "finding of the paper" in page
    assert (tmp_path / "paper" / "report.pdf").stat().st_size > 1000
    # Nothing is computed again; another set of settings is refused.
    cells = sorted((tmp_path / "paper" / "cells").glob("*/*.json"))
    times = [path.stat().st_mtime_ns for path in cells]
    assert main(command) == 0
    assert "ELMo improves" in capsys.readouterr().out
    assert [path.stat().st_mtime_ns for path in cells] == times
    # Another biLM has cells of its own, but for those without ELMo.
    other = tmp_path / "other"
    bilm = LanguageModel.from_pretrained(folder / "bilm")
    with torch.no_grad():
        next(bilm.model.parameters()).mul_(1.5)
    bilm.save_pretrained(other)
    assert main([*command, "--model", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["bilm_sha256"] != sha
    assert [path.stat().st_mtime_ns for path in cells] == times
    every = sorted((tmp_path / "paper" / "cells").glob("*/*.json"))
    without = [path.name for path in cells if path.parent.name.startswith("without")]
    assert without == ["pos-none-0-of0.5.json", "pos-none-0.json", "snli-none-0.json"]
    assert len(every) == 2 * len(cells) - len(without)
    assert main([*command, "--train-rows", "5"]) == 2
    assert "train_rows" in capsys.readouterr().err
    assert main([*command, "--report-only"]) == 0


def test_probe_needs_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_DATA", raising=False)
    assert main(["probe", "pos"]) == 2
    assert "--data" in capsys.readouterr().err

"""The command answers at once; settings by flag, `--set` and file; mistakes are one line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import elmo
from elmo.cli.main import COMMANDS, PARTS, Arguments, main, parse, read_texts
from elmo.config import BILM, CLASSIFIER
from elmo.embed.config import EncodeConfig
from elmo.errors import ConfigError
from elmo.training.config import PRESETS, PretrainConfig


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
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "elmo: interrupted\n"


def test_who_is_interrupted_may_say_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: object) -> None:
        raise KeyboardInterrupt("stopped; the same command goes on")

    monkeypatch.setattr("elmo.model_folder.describe_model", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "elmo: stopped; the same command goes on\n"


# Options, settings by flag, `--set` and file, and help pages.


PAGES = [
    *(name for name in COMMANDS if name not in PARTS),
    *(f"{name} {part}" for name, parts in PARTS.items() for part in parts),
]


def pretrain(*argv: str) -> PretrainConfig:
    return parse(["pretrain", "corpus.txt", *argv])[1].config


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 0
    return capsys.readouterr().out


WANTED = replace(
    PretrainConfig(),
    model=replace(PretrainConfig().model, hidden=32, word_dim=32, skip=True, cell_clip=3.0),
    training=replace(PretrainConfig().training, epochs=2),
)


def test_flags_set_and_file_mean_the_same(tmp_path: Path) -> None:
    flags = ["--hidden", "32", "--word-dim=32", "--skip", "--cell_clip", "3", "--epochs=2"]
    assert pretrain(*flags) == WANTED
    pairs = ["model.hidden=32", "word_dim=32", "skip=yes", "model.cell-clip=3", "epochs=2"]
    pairs += ["projection=none"]
    assert pretrain("--set", *pairs) == WANTED
    toml, as_json = tmp_path / "a.toml", tmp_path / "a.json"
    text = "[model]\nhidden = 32\nword_dim = 32\nskip = true\ncell_clip = 3.0\n"
    toml.write_text(f"{text}[training]\nepochs = 2\n")
    model = {"hidden": 32, "word_dim": 32, "skip": True, "cell_clip": 3}
    as_json.write_text(json.dumps({"model": model, "training": {"epochs": 2}}))
    assert pretrain("--config", str(toml)) == pretrain("--config", str(as_json)) == WANTED


def test_flags_come_after_set_after_the_file_after_the_preset(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"training": {"epochs": 5, "seed": 5, "clip": 5}}')
    argv = ["--preset", "stream", "--config", str(path), "--set", "seed=6", "clip=6", "--clip", "7"]
    training = pretrain(*argv).training
    assert (training.epochs, training.seed, training.clip) == (5, 6, 7)
    assert training.schedule == PRESETS["stream"].training.schedule


@pytest.mark.parametrize(
    "argv",
    [
        ["--filters", "1", "4", "3", "8", "--cutoffs", "5", "9"],
        ["--set", "characters.filters=[[1, 4], [3, 8]]", "softmax.cutoffs=5,9"],
    ],
)
def test_lists_and_pairs(argv: list[str]) -> None:
    model = pretrain(*argv).model
    assert (model.characters.filters, model.softmax.cutoffs) == (((1, 4), (3, 8)), (5, 9))


@pytest.mark.parametrize(
    "argv", [["--layer-weights", "0.2", "0.8"], ["--set", "mix.layer_weights=0.2,0.8"]]
)
def test_a_list_or_none(argv: list[str]) -> None:
    _, args = parse(["classify", "train", "a.csv", "--out", "b", *argv])
    assert args.config.network.mix.layer_weights == (0.2, 0.8)


@pytest.mark.parametrize(("typed", "layer"), [("2", 2), ("top", "top"), ("all", "all")])
def test_a_number_or_a_name(typed: str, layer: int | str) -> None:
    _, args = parse(["embed", "a.txt", "--out", "v.npz", "--layer", typed])
    assert args.encode == EncodeConfig(layer=layer)  # pyright: ignore[reportArgumentType]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"model": {"hiden": 3}, "trainin": {}}')
    with pytest.raises(ConfigError) as raised:
        pretrain("--config", str(path), "--set", "epohcs=3", "clip", "--seed", "x", "--loss=ful")
    assert raised.value.problems == (
        "--set: unknown key 'epohcs' (did you mean 'epochs'?)",
        "--set: expected KEY=VALUE, got 'clip'",
        "unknown key 'trainin' (did you mean 'training'?)",
        "model: unknown key 'hiden' (did you mean 'hidden'?)",
        "model.softmax.loss: expected one of full, sampled, adaptive, none; got 'ful' "
        "(did you mean 'full'?)",
        "training.seed: expected int, got 'x'",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("{", "Expecting property name"),
        ("[]", "expected sections of settings, got list"),
        ('{"encode": 3, "read": {}}', "encode: expected an object, got int"),
        ('{"enocde": {}}', "unknown key 'enocde' (did you mean 'encode'?)"),
    ],
)
def test_bad_files_are_told(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.json"
    if content is not None:
        path.write_text(content)
    assert main(["embed", "a.txt", "--out", "v.npz", "--config", str(path), "--slots", "2"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", PAGES)
def test_help_is_short_and_names_everything_used(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = shown(capsys, *name.split(), "--help")
    assert page.startswith(f"usage: elmo {name} ")
    assert f"\n  elmo {name} " in f"{page} "
    assert len(page.splitlines()) <= 60
    assert max(map(len, page.splitlines())) <= 100
    assert "--json" in page
    assert "--quiet" in page
    assert str(Path(BILM).parent) not in page


def test_help_all_lists_every_setting_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, "pretrain", "--help-all")
    for path in ("model.characters.highways", "training.clip", "read.separator", "--resume"):
        assert f"\n  {path}" in page
    assert "(default: 4096)" in page
    assert "training.clip" not in shown(capsys, "pretrain", "--help")


def test_a_resumed_run_takes_no_fresh_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "--resume", "somewhere", "--fresh"]) == 2
    assert "--resume uses the run's own settings, but fresh came with it" in capsys.readouterr().err


def test_options_and_arguments_come_in_any_order() -> None:
    _, args = parse(["embed", "a.txt", "--out", "v.npz", "b.txt", "--threads=2", "c.txt"])
    assert args.sources == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["embed", "a.txt"], "required: --out"),
        (["convert", "a", "b", "c"], "unexpected argument 'c'"),
        (["embed", "a.txt", "--out", "v.npz", "--threads", "x"], "--threads: invalid int value"),
        (["pretrain", "a", "--preset", "papr"], "--preset: invalid choice: 'papr'"),
    ],
)
def test_mistakes_are_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def scored(*argv: str) -> tuple[list[str], Arguments]:
    _, args = parse(["score", *argv])
    return read_texts(args), args


def test_the_shipped_model_is_the_default(tmp_path: Path) -> None:
    text = "Oil prices fell ."
    texts, args = scored(text)
    assert (texts, args.model) == ([text], BILM)
    texts, args = scored(str(tmp_path), text)
    assert (texts, args.model) == ([text], tmp_path)
    texts, args = scored(text, "--model", str(tmp_path))
    assert (texts, args.model) == ([text], tmp_path)
    assert scored("--model", "news")[1].model == BILM
    assert parse(["classify", "predict", text])[1].model == CLASSIFIER
    # A mistyped folder is not scored as if it were a text.
    assert scored("runs/nwes", text)[1].model == Path("runs/nwes")
    assert scored("and/or is a text", text)[0] == ["and/or is a text", text]


def test_elmo_scores_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "Oil prices fell .", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["perplexity"] < 1000


def test_odd_names_get_a_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "~nosuchuser/model"]) == 2
    assert "there is no user of this name" in capsys.readouterr().err
    assert main(["score", "Oil .", "--model", "x" * 9000]) == 2
    assert len(capsys.readouterr().err) < 4000


def test_logged_names_stay_on_their_line_and_tracebacks_do_not(tmp_path: Path) -> None:
    script = """
import logging
from elmo.cli.main import main
main(["info"])
log = logging.getLogger("elmo")
log.warning("reading %s", "a\\x1b[31m\\nb")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("lost")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    first, second, third, *rest = done.stderr.splitlines()
    assert first == "reading a\\x1b[31m\\nb"
    assert (second, third) == ("lost", "Traceback (most recent call last):")
    assert rest[-1].startswith("ZeroDivisionError")


@pytest.mark.parametrize("flags", [["--tokenizer", "custom"], ["--tokenizer=custom"]])
@pytest.mark.parametrize("command", [["embed", "x.txt", "--out", "o.npz"], ["pretrain", "x.txt"]])
def test_a_tokenizer_that_only_python_can_give(
    command: list[str], flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *flags]) == 2
    assert "name the function, as MODULE:FUNCTION" in capsys.readouterr().err

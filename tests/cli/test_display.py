"""Progress, tables and words in their sentences, for terminals and for log files."""

from __future__ import annotations

import io
import json
from argparse import Namespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from elmo.classify.loop import EpochReport
from elmo.cli import display
from elmo.cli.classify import training_progress
from elmo.cli.display import (
    ProgressDisplay,
    fitting,
    print_concordance,
    print_json,
    print_table,
    safe,
    say,
)
from elmo.cli.pretrain import show_report
from elmo.training.loop import StepReport


def test_of_many_epochs_one_in_ten_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show = training_progress(ProgressDisplay(""), Namespace(tensorboard=False), "accuracy")
    for epoch in range(1, 35):
        show(
            EpochReport(
                phase="network",
                epoch=epoch,
                train_loss=0.5,
                development_loss=0.25,
                development_accuracy=0.75,
                development_rows=4,
                mix_weights=(0.2, 0.8),
                gamma=1.0,
                seconds=1.0,
            )
        )
    lines = capsys.readouterr().err.splitlines()
    shown = [int(line.split()[1]) for line in lines]
    assert shown == [*range(1, 11), 20, 30]
    assert lines[0] == (
        "epoch 1 (network): loss 0.5000, development loss 0.2500, accuracy 0.7500"
        "  layer weights 0.20, 0.80"
    )


def report(done: float) -> StepReport:
    return StepReport(
        step=1234, epoch=1, done=done, targets=10, loss_forward=2.0, loss_backward=4.0,
        learning_rate=0.1, tokens_per_second=5432.1, seconds_left=3723.0,
    )  # fmt: skip


def test_a_step_line_has_progress_quality_speed_and_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_report(report(1.0), ProgressDisplay(""))
    line = capsys.readouterr().err
    for part in ("100.0%", "epoch 2", "step 1,234", "loss 3.000", "perplexity 20", "5,432 tokens/s",
                 "1:02:03 left"):  # fmt: skip
        assert part in line


def test_a_log_file_gets_a_line_every_ten_seconds_and_the_last_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    with ProgressDisplay("") as shown:
        for second in range(25):
            now[0] = 100.0 + second
            show_report(report(second / 100), shown)
        show_report(report(1.0), shown)
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_terminal_gets_a_bar_and_quiet_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with ProgressDisplay("preparing the text") as shown:
        show_report(report(0.5), shown)
    assert "5,432 tokens/s" in capsys.readouterr().err
    with ProgressDisplay("preparing the text", quiet=True) as shown:
        show_report(report(1.0), shown)
    assert capsys.readouterr().err == ""


HOSTILE = "red \x1b[31m bell \x07 csi \x9b31m line\nbreak\u2028"


def test_control_characters_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert safe(HOSTILE) == "red \\x1b[31m bell \\x07 csi \\x9b31m line\\nbreak\\u2028"
    print_table([[HOSTILE, "1"]], [HOSTILE, "b"])
    print_json({"text": HOSTILE})
    ProgressDisplay("").line(HOSTILE)
    shown = capsys.readouterr()
    assert not set("\x1b\x07\x9b\u2028") & set(shown.out + shown.err)
    assert json.loads(shown.out.splitlines()[2])["text"] == HOSTILE


def test_tables_are_as_wide_as_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    wide = "word " * 40 + "end"
    print_table([["雨", "1"], [wide, "22"]], ["", "n"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"{wide}  22"
    assert {cell_len(line) for line in lines} == {len(wide) + 4}


Line = tuple[str, list[str], int]


def line(label: str, text: str, position: int) -> Line:
    return (label, text.split(), position)


LINES = [
    line("0.9", "the cat sat on the mat and then it slept all day", 5),
    line("0.12", "雨 雨 [old] mat", 2),
    line("", "mat on the floor of the old house", 0),
]


def shown(lines: list[Line], width: int, *, terminal: bool = False) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    print_concordance(lines, console)
    return out.getvalue().splitlines()


def test_a_narrow_and_a_wide_one() -> None:
    assert shown(LINES, 50) == [
        "0.9   … cat sat on the  «mat»    and then it …",
        "0.12             雨 雨  «[old]»  mat",
        "                        «mat»    on the floor of …",
    ]
    # What one side does not need, the other has.
    assert shown(LINES[2:], 33) == ["    «mat»  on the floor of the …"]
    assert shown(LINES[:1], 100) == ["0.9  the cat sat on the  «mat»  and then it slept all day"]
    assert shown(LINES[:1], 12) == ["0.9  …  «mat»  …"]


def test_bold_in_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=True, color_system="standard")
    print_concordance(LINES, console)
    assert "\x1b[1mmat  \x1b[0m" in out.getvalue()
    assert "«" not in out.getvalue()


WORDS = st.lists(st.text("ab雨", min_size=1, max_size=9), max_size=9)


@given(WORDS, WORDS, st.sampled_from(["mat", "雨"]), st.integers(40, 80))
def test_what_is_shown_fits(before: list[str], behind: list[str], word: str, width: int) -> None:
    (found,) = shown([("0.1234", [*before, word, *behind], len(before))], width)
    assert cell_len(found) <= width
    left, right = (side.split() for side in found[6:].split(f"«{word}»"))
    for side, whole in ((left[::-1], before[::-1]), (right, behind)):
        assert side in (whole, [*whole[: len(side) - 1], "…"])


@pytest.mark.parametrize(
    ("width", "wanted"), [(11, ["one", "two", "six"]), (10, ["one", "two", "…"]), (4, ["…"])]
)
def test_as_many_as_fit(width: int, wanted: list[str]) -> None:
    assert fitting(["one", "two", "six"], width) == wanted


def test_names_of_strangers_stay_on_their_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("a\x1b[31m\nb: 3 texts")
    assert capsys.readouterr().out == "a\\x1b[31m\\nb: 3 texts\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "utf-16"])
def test_json_is_json_in_every_locale(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding, errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stream)
    print_json({"text": "naïve 雨 😀"})
    assert json.loads(written.getvalue().decode(encoding)) == {"text": "naïve 雨 😀"}

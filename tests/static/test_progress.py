"""Whoever listens hears the stages in order; whoever does not hears nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.static.topics import topical_texts

from elmo.static.config import SvdConfig
from elmo.static.progress import Progress, ignore
from elmo.static.train import train_static


def test_the_stages_come_in_order(tmp_path: Path) -> None:
    texts = [" ".join(text) for text in topical_texts(1000)[1]]
    (tmp_path / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    told: list[Progress] = []
    train_static(
        str(tmp_path / "text.txt"),
        SvdConfig(dim=2, shift=1),
        held_out_share=0,
        cache=tmp_path,
        progress=told.append,
    )
    assert told[:2] == [
        Progress("preparing the text", 1000),
        Progress("counting pairs of words", 0, 1000),
    ]
    assert [one.stage.split()[0] for one in told[2:]] == ["factorising"]


def test_nobody_need_listen(capsys: pytest.CaptureFixture[str]) -> None:
    ignore(Progress("training", 1, 2))
    assert capsys.readouterr().out == ""

"""elmo index; what `elmo serve` itself does is in tests/serve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elmo.cli.main import main
from elmo.explore.index import CorpusIndex


def test_index(
    model: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "corpus.index"
    command = ["index", str(corpus), "--model", str(model), "--out", str(out), "--threads", "1"]
    assert main([*command, "--max-words", "500", "--json", "--quiet"]) == 0
    printed = json.loads(capsys.readouterr().out)
    index = CorpusIndex.open(out)
    assert (printed["words"], printed["texts"]) == (len(index), index.description.texts)
    assert 480 <= len(index) <= 500
    assert printed["layers"] == [0, 1, 2]
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["index", "nothing.txt", "--out", str(tmp_path / "x")]) == 2


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("serve", "index"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert len(capsys.readouterr().out.splitlines()) <= 45

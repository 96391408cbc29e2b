"""elmo models, elmo download, and names on other commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.registry.conftest import (  # noqa: F401 - fixtures
    Register,
    Server,
    cache,
    official,
    register,
    server,
    zipped,
)

import elmo
from elmo.cli.main import main


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    assert "87 models" in capsys.readouterr().out
    assert main(["models", "--language", "de", "--family", "manylangs"]) == 0
    out = capsys.readouterr().out
    assert "manylangs/de" in out
    assert "1 models" in out
    assert main(["models", "--language", "tlh"]) == 2
    assert main(["models", "--here"]) == 2
    assert main(["models", "--language", "sl", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [model["name"] for model in listed] == ["embeddia/sl", "manylangs/sl"]
    assert not listed[0]["here"]


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "nlpl/142"]) == 0
    out = capsys.readouterr().out
    for part in ("manylangs/de", "UDPipe", "MIT", "repository/11/142.zip", "recorded at first use"):
        assert part in out
    assert main(["models", "show", "allenai/small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["language"] == "en"
    for words in (["show"], ["show", "runs/news"], ["list"], ["show", "manylangs/xx"]):
        assert main(["models", *words]) == 2
    capsys.readouterr()
    assert main(["models", "show", "manylang/de"]) == main(["download", "manylang/de"]) == 2
    assert capsys.readouterr().err.count("did you mean 'manylangs/de'?") == 2


@pytest.mark.usefixtures("cache")
def test_download_and_use(
    server: Server,  # noqa: F811
    register: Register,  # noqa: F811
    official: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    register("tiny/en", {"archive": [server.serve("/x.zip", zipped(official))]})
    assert main(["download", "tiny/en", "--json", "--quiet"]) == 0
    folder = Path(json.loads(capsys.readouterr().out)["tiny/en"])
    assert (folder / "weights.hdf5").is_file()
    assert main(["models", "--here"]) == 0
    assert "tiny/en" in capsys.readouterr().out
    assert main(["download", "tiny/xx"]) == 2
    assert main(["download", "runs/none"]) == 2
    assert "not the name of a public model" in capsys.readouterr().err
    for command in (["info", "tiny/en"], ["info", "--model", "tiny/en"]):
        assert main(command) == 0
        assert "2 per direction, 6 cells" in capsys.readouterr().out
    (tmp_path / "texts.txt").write_text("It rained .\n")
    archive = tmp_path / "x.zip"
    archive.write_bytes(zipped(official))
    for number, name in enumerate(("tiny/en", str(archive), server.address + "/x.zip")):
        out = tmp_path / f"{number}.npz"
        assert main(["embed", str(tmp_path / "texts.txt"), "--model", name, "--out", str(out)]) == 0
        found = elmo.load_vectors(out)
        expected = elmo.Embedder.from_pretrained(official).encode(["It rained ."])
        np.testing.assert_allclose(np.asarray(found.vectors)[0], expected[0], atol=1e-6)
    assert main(["convert", "tiny/en", str(tmp_path / "ours")]) == 0
    assert (tmp_path / "ours" / "model.safetensors").is_file()
    assert main(["convert", "tiny/en", str(tmp_path / "no"), "--to", "official"]) == 2


def test_convert_many_langs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    data = os.environ.get("ELMO_DATA")
    if data is None:
        pytest.skip("set ELMO_DATA to a folder with many_langs")
    folder = Path(data) / "many_langs" / "cnn_word_elmo"
    assert main(["convert", str(folder), str(tmp_path / "ours")]) == 0
    assert main(["info", str(tmp_path / "ours")]) == 0
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.count("2 per direction, 64 cells, projected to 16") == 2
    assert "spelling.json" in out
    assert main(["convert", str(tmp_path / "ours"), str(tmp_path / "again")]) == 2
    assert main(["convert", str(folder), str(tmp_path / "no"), "--to", "official"]) == 2
    assert "cannot hold this model" in capsys.readouterr().err


def test_tokenizers_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from elmo.language_model import LanguageModel

    (tmp_path / "my_words_29.py").write_text("def cut(text):\n    return list(text)\nnone = 3\n")
    monkeypatch.chdir(tmp_path)
    model = LanguageModel.from_pretrained(custom_tokenizer="my_words_29:cut")
    assert model.tokenize("abc") == ["a", "b", "c"]
    command = ["score", "abc", "--quiet", "--json", "--tokenizer"]
    assert main([*command, "my_words_29:cut"]) == 0
    for wrong in ("my_words_29:gone", "my_words_29:none", "no_such_module:cut", "spaci", "x:"):
        assert main([*command, wrong]) == 2

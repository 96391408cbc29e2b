"""What the speed of many-langs models is measured against computes what the original returned."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from many_langs import Original, main


def test_it_is_the_original(tmp_path: Path) -> None:
    data = os.environ.get("ELMO_DATA")
    if data is None:
        pytest.skip("set ELMO_DATA to a folder with many_langs")
    fixtures = Path(data) / "many_langs"
    folder = tmp_path / "model"
    shutil.copytree(fixtures / "cnn_word_elmo", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    shutil.copyfile(folder / "cnn_50_100_512_4096_sample.json", folder / "architecture.json")
    import torch

    for name in ("encoder.pkl", "token_embedder.pkl"):  # tagged as from a GPU
        state = torch.load(folder / name, weights_only=True, map_location="cpu")
        torch.save(state, folder / name)
    sentences = json.loads((fixtures / "sentences.json").read_text())
    with np.load(folder / "expected.npz") as expected:
        for number, layers in enumerate(Original(folder).encode(sentences)):
            stored = expected[f"first_{number:02}"]
            np.testing.assert_allclose(layers, stored, rtol=0, atol=1e-4)


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    architecture = {
        "encoder": {"name": "elmo", "dim": 16, "projection_dim": 8, "n_layers": 2,
                    "cell_clip": 3, "proj_clip": 3},
        "token_embedder": {"name": "cnn", "word_dim": 4, "char_dim": 4, "n_highway": 1,
                           "filters": [[1, 4], [3, 8]], "activation": "relu",
                           "max_characters_per_token": 50},
    }  # fmt: skip
    (tmp_path / "small.json").write_text(json.dumps(architecture))
    (tmp_path / "texts.txt").write_text(
        "the cat sat on the mat\na dog ran\nit rained again today\n"
    )
    command = f"--folder {tmp_path / 'model'} --texts {tmp_path / 'texts.txt'} --repeats 1"
    assert main([*command.split(), "--architecture", str(tmp_path / "small.json")]) == 0
    assert "3 texts, 13 words" in capsys.readouterr().out

"""Old call, new call: the tables of docs/guides/owners-of-weights.md, as readers type them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.training.conftest import write_corpus

import elmo
from elmo.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/guides/owners-of-weights.md"
ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and line.count(" | ") == 1
]


def new_call(old: str) -> str:
    """The call that takes the place of the only one that begins so."""
    (new,) = (new for before, new in ROWS if before.replace("bilm-tf ", "").startswith(f"`{old}"))
    return re.findall(r"`([^`]+)`", new)[0]


def command(old: str, *further: str) -> None:
    words = shlex.split(new_call(old))
    assert words[0] == "elmo"
    assert main([*words[1:], *further, "--quiet"]) == 0


def test_training_as_with_bilm_tf(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    for name in ("train", "heldout", "new"):
        Path(name).mkdir()
        write_corpus(Path(name, "a.txt"), documents=60, seed=len(name))
    # Everything of the preset but its size.
    small = ["--hidden", "8", "--epochs", "1", "--min-count", "1", "--set", "model.projection=4"]
    small += ["model.softmax.samples=4", "model.characters.filters=[[1, 4], [2, 4]]"]
    command("bin/train_elmo.py", *small)
    settings = json.loads(Path("run/config.json").read_text())
    assert settings["batching"]["batching"] == "stream"
    command("bin/run_test.py")
    assert "perplexity" in capsys.readouterr().out
    command("bin/restart.py", "--epochs", "1", "--min-count", "1")
    command("bin/dump_weights.py")
    official = elmo.Embedder.from_official("official/options.json", "official/weights.hdf5")
    words = [["the", "cat", "sees"]]
    ours = elmo.Embedder.from_pretrained("run").encode(words, output="tokens", layer="all")[0]
    theirs = official.encode(words, output="tokens", layer="all")[0]
    np.testing.assert_allclose(theirs, ours, atol=1e-6)


@pytest.fixture
def german(tmp_path, monkeypatch) -> Path:
    """A copy of a small model in the published format, as de.model and as 142.zip."""
    if "ELMO_DATA" not in os.environ:
        pytest.skip("set ELMO_DATA to a folder with many_langs to compare with the original")
    folder = Path(os.environ["ELMO_DATA"], "many_langs")
    shutil.copytree(folder / "cnn_word_elmo", tmp_path / "de.model", copy_function=shutil.copyfile)
    shutil.make_archive(str(tmp_path / "142"), "zip", folder / "cnn_word_elmo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    return folder


def test_many_langs(german: Path) -> None:
    sentences = json.loads((german / "sentences.json").read_text())
    with np.load("de.model/expected.npz", allow_pickle=False) as arrays:
        stored = dict(arrays)
    names = {"Embedder": elmo.Embedder, "sentences": sentences}
    embedder = eval(new_call('Embedder("de.model")'), names)
    mean = eval(f"embedder{new_call('.sents2elmo(sentences)')}", names | {"embedder": embedder})

    def layers(old: str) -> list[np.ndarray]:
        options = eval(f"dict({new_call(f'.sents2elmo(sentences, output_layer={old})')})")
        return embedder.encode(sentences, output="tokens", **options)

    lowest, every = layers("0"), layers("-2")
    for idx in range(len(sentences)):
        np.testing.assert_allclose(mean[idx], stored[f"average_{idx:02d}"], atol=1e-4)
        np.testing.assert_allclose(every[idx], stored[f"first_{idx:02d}"], atol=1e-4)
        np.testing.assert_allclose(lowest[idx], stored[f"first_{idx:02d}"][0], atol=1e-4)
    assert main(["convert", "de.model", "models/german"]) == 0
    for path in ("142.zip", "models/german"):
        again = elmo.Embedder.from_pretrained(path)
        vectors = again.encode(sentences, output="tokens", layer="average")
        for a, b in zip(vectors, mean, strict=True):
            np.testing.assert_array_equal(a, b)


def test_many_langs_from_conllu(german: Path) -> None:
    """By the command line, from the file that the original program reads."""
    if shutil.which("awk") is None:
        pytest.skip("there is no awk")
    sentences = json.loads((german / "sentences.json").read_text())
    plain = {n: s for n, s in enumerate(sentences) if all(word.split() == [word] for word in s)}
    assert len(plain) > 8
    with Path("in.conllu").open("w", encoding="utf-8") as stream:
        for sentence in plain.values():
            stream.write("# text = a comment\n1-2\tam\t_\n")
            stream.writelines(f"{n}\t{word}\t_\n" for n, word in enumerate(sentence, start=1))
            stream.write("\n")
    (awk,) = re.findall(r"`(awk [^`]+)`", PAGE.read_text(encoding="utf-8"))
    subprocess.run(awk, shell=True, check=True)
    command("python -m elmoformanylangs test")
    loaded = elmo.load_vectors("out.h5")
    assert loaded.words == list(plain.values())
    with np.load("de.model/expected.npz", allow_pickle=False) as stored:
        for idx, vectors in zip(plain, loaded.vectors, strict=True):
            np.testing.assert_allclose(vectors, stored[f"average_{idx:02d}"], atol=1e-4)

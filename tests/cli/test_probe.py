"""elmo probe on tiny data sets, compared with the embedder's vectors and with SciPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.tasks.data_sets import RATED, SENTENCES, write_probe_data

from elmo.cli.main import main
from elmo.embed.embedder import Embedder

LAYERS = ["layer 0", "layer 1", "layer 2", "average"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layout that docs/tasks.md describes, with a few lines in each file."""
    folder = tmp_path_factory.mktemp("data")
    write_probe_data(folder)
    return folder


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert main(["probe", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def values(found: Any) -> dict[str, float]:
    return {row["name"]: row["value"] for row in found["rows"]}


def with_average(vectors: np.ndarray) -> np.ndarray:
    """The layers of some words, (layers, words, dim), and after them their average."""
    return np.concatenate([vectors, vectors.mean(0, keepdims=True)])


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_scws_is_the_correlation_of_cosines_in_context(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embedder = Embedder.from_pretrained(model)
    pairs = [
        [
            with_average(embedder.encode([text.split()], output="tokens", layer="all")[0])[:, 1]
            for text in (f"the {a} sat on a tree .", f"my {b} .")
        ]
        for a, b, _ in RATED
    ]
    expected = np.array([cosines(a, b) for a, b in pairs])  # (pairs, versions)
    found = values(told(capsys, "scws", "--data", data, "--model", model))
    ratings = [rating for _, _, rating in RATED]
    for version, name in enumerate(LAYERS):
        rho = spearmanr(expected[:, version], ratings).statistic
        assert found[name] == pytest.approx(rho, abs=1e-6)
    assert {f"random biLM, {name}" for name in LAYERS} < found.keys()


def test_similarity_is_that_of_mean_vectors(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embedder = Embedder.from_pretrained(model)
    every: dict[str, list[np.ndarray]] = {}
    for sentence in SENTENCES:
        words = sentence.split()
        layers = embedder.encode([words], output="tokens", layer="all")[0]
        for index, word in enumerate(words):
            every.setdefault(word, []).append(with_average(layers)[:, index])
    means = {word: np.mean(vectors, axis=0) for word, vectors in every.items()}
    expected = np.array([cosines(means[a], means[b]) for a, b, _ in RATED])
    found = values(told(capsys, "similarity", "--data", data, "--model", model))
    for version, name in enumerate(LAYERS):
        rho = spearmanr(expected[:, version], [rating for _, _, rating in RATED]).statistic
        assert found[name] == pytest.approx(rho, abs=1e-6)


def test_senses_are_found_in_the_sentences_they_were_seen_in(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["senses", "--data", data, "--model", model, "--wordnet", data / "wordnet"]
    found = told(capsys, *arguments)
    # WordNet's first senses are right for one "cat" of two, and for "dog", in each of five sets.
    assert found["count"] == 15
    assert values(found)["first sense"] == pytest.approx(2 / 3)
    # Layer 0 is the same for both; layers above see the sentence, which the training text has.
    assert values(found)["layer 0"] == pytest.approx(2 / 3)
    assert values(found)["layer 2"] == values(found)["average"] == 1
    assert main(["probe", *map(str, arguments)]) == 0
    shown = capsys.readouterr().out
    assert "with frequency" in shown
    assert "first sense of WordNet" in shown
    assert "p: paired permutation test against first sense, over 15 decisions" in shown
    for row in found["rows"]:
        (line,) = [line for line in shown.splitlines() if line.startswith(f"{row['name']}  ")]
        assert line.split()[len(row["name"].split())] == f"{row['value']:.4f}"


def test_the_same_word_in_the_same_sentence_has_the_same_sense(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "wic", "--data", data, "--model", model)
    assert set(values(found).values()) == {1.0}
    assert (found["count"], found["p_count"]) == (4, 8)


def test_parts_of_speech_that_the_word_decides_are_learned(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_DATA", str(data))
    found = told(capsys, "pos", "--model", model, "--epochs", 60, "--learning-rate", 0.3)
    assert found["count"] == sum(len(sentence.split()) for sentence in SENTENCES[:3])
    assert values(found)["layer 0"] == 1


def test_mistakes_are_told(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_DATA", raising=False)
    for arguments, says in (
        (["syntax", "--data", str(data)], "unknown probe 'syntax'; expected one of pos, senses"),
        (["pos"], "expected a folder of data sets"),
        (["pos", "--data", str(data / "nowhere")], "expected a folder of data sets"),
    ):
        assert main(["probe", *arguments, "--model", str(model)]) == 2
        assert says in capsys.readouterr().err

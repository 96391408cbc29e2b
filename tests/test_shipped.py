"""The news model that comes with the package: small, sound, and as good as its card says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo import Embedder, load_classifier
from elmo.classify.evaluate import evaluate
from elmo.classify.labelled import LabelledTexts, read_labelled
from elmo.cli.main import main
from elmo.shipped import BILM, CLASSIFIER

NEWS = {
    "World": "The president met rebel leaders in the capital for peace talks on Sunday .",
    "Sports": "He scored twice in the second half as the champions won the final 3-1 .",
    "Business": "Oil prices fell on Monday as supply fears eased and shares rose .",
    "Sci/Tech": "The software maker released a security patch for its Web browser .",
}


def test_both_together_are_small_and_hold_no_text() -> None:
    files = [path for path in CLASSIFIER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 25e6
    assert {path.name for path in CLASSIFIER.iterdir()} == {
        "README.md", "bilm", "classifier.json", "classifier.safetensors", "metrics_test.json",
        "own_words.txt",
    }  # fmt: skip


def test_news_of_today_are_told_apart() -> None:
    predictions = load_classifier().predict(list(NEWS.values()))
    assert [one.label for one in predictions] == list(NEWS)


def test_the_commands_work_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", "predict", NEWS["Sports"], "--json", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "Sports"
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npz"
    texts.write_text("\n".join(NEWS.values()))
    assert main(["embed", str(texts), "--out", str(out), "--threads", "1"]) == 0
    capsys.readouterr()
    vectors = Embedder.from_pretrained(BILM).encode(list(NEWS.values()))
    with np.load(out) as stored:
        np.testing.assert_allclose(stored["vectors"], vectors, rtol=0, atol=1e-5)


def test_it_is_as_good_as_its_card_says() -> None:
    if "ELMO_DATA" not in os.environ:
        pytest.skip("ELMO_DATA does not name a folder with AG News")
    data = read_labelled("ag_news:test")
    some = slice(0, 1000)
    part = LabelledTexts(data.texts[some], (data.labels or [])[some], data.places[some])
    accuracy = evaluate(load_classifier(), part).metrics.accuracy
    claimed = json.loads((CLASSIFIER / "metrics_test.json").read_text())["accuracy"]["value"]
    assert accuracy.low <= claimed <= accuracy.high


def test_it_is_loaded_without_torchs_compiler() -> None:
    # Which takes seconds to load, and comes along with any sum of tensors that have no memory.
    code = "import sys; from elmo import load_classifier; load_classifier(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "torch._dynamo" not in done.stdout.split()

"""The law that is fitted to small runs, and four tiny runs from text to prediction."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

import elmo
from scaling_study import first, fit, main, predicted


def test_the_law_behind_losses_is_found() -> None:
    """Losses made by hand from a law; ten times the tokens are predicted as the law says."""
    cells, tokens = (
        grid.ravel() for grid in np.meshgrid([128.0, 256.0, 512.0], [4e5, 1.2e6, 3.6e6])
    )
    loss = 2.9 + 30 / cells**0.8 + 220 / tokens**0.38
    found = fit(cells, tokens, loss)
    assert predicted(found, cells, tokens) == pytest.approx(loss, abs=2e-3)
    truth = 2.9 + 30 / 256**0.8 + 220 / 3.6e7**0.38
    assert predicted(found, 256.0, 3.6e7) == pytest.approx(truth, abs=0.03)


def test_texts_are_cut_near_the_number_of_tokens() -> None:
    assert first(["a b c d"] * 100, 26) == ["a b c d"] * 5  # 5.2 tokens per text
    with pytest.raises(SystemExit, match="about 520 tokens, 1,000 were asked for"):
        first(["a b c d"] * 100, 1000)


def test_from_text_to_a_prediction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    rng = random.Random(0)
    words = [f"w{number}" for number in range(40)]

    def write(name: str, texts: int) -> Path:
        lines = (" ".join(rng.choices(words, k=12)) for _ in range(texts))
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        return tmp_path / name

    corpus, held_out, out = write("corpus.txt", 300), write("held.txt", 40), tmp_path / "out"
    argv = [str(corpus), "--held-out", str(held_out), "--out", str(out)]
    argv += ["--cells", "16", "32", "--tokens", "1000", "3000"]
    main(argv)
    shown = capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert [one["cells"] for one in results] == [16, 16, 32, 32]
    most = max(one["tokens"] for one in results)
    assert f"| 32 | {2 * most:,} (predicted)" in shown
    assert f"| 32 | {10 * most:,} (predicted)" in shown
    assert "<svg" in (out / "scaling.svg").read_text(encoding="utf-8")
    # The loss of one run, computed again from its folder.
    model = elmo.LanguageModel.from_pretrained(out / "32-3000")
    lines = held_out.read_text().splitlines()
    values = [
        -(word.forward + word.backward) / 2 for score in model.score(lines) for word in score.words
    ]
    assert results[-1]["loss"] == pytest.approx(float(np.mean(values)), rel=1e-5)
    assert results[-1]["loss"] < math.log(60)

    main(argv)  # finished runs keep their minutes
    assert json.loads((out / "results.json").read_text()) == results

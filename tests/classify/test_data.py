"""Labelled tables of every format are read alike, and what is wrong is named with its row."""

from __future__ import annotations

import csv
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

from elmo.classify.labelled import LabelledTexts, read_labelled, read_unlabelled
from elmo.errors import UserError
from elmo.text.sources import ReadOptions

Rows = Sequence[tuple[str, str]]

CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp"))
LABELS = st.text(CHARACTERS, min_size=1).map(str.strip).filter(bool)
ROWS = st.lists(st.tuples(LABELS, st.text(CHARACTERS)), min_size=1)


def delimited(rows: Rows, delimiter: str) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter).writerows([("label", "text"), *rows])
    return stream.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"label": [r[0] for r in rows], "text": [r[1] for r in rows]}), stream)
    return stream.getvalue()


def json_lines(rows: Rows) -> bytes:
    return "".join(json.dumps({"label": a, "text": b}) + "\n" for a, b in rows).encode()


WRITERS: dict[str, Callable[[Rows], bytes]] = {
    ".csv": lambda rows: delimited(rows, ","),
    ".tsv": lambda rows: delimited(rows, "\t"),
    ".jsonl": json_lines,
    ".parquet": parquet,
}


def file(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize("suffix", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_rows_come_back_empty_texts_too(tmp_path: Path, suffix: str, rows: Rows) -> None:
    path = file(tmp_path, f"a{suffix}", WRITERS[suffix](rows))
    found = read_labelled(path)
    assert found.labels == [label for label, _ in rows]
    assert found.texts == [text for _, text in rows]
    assert found.places == [f"'{path}', row {number + 1}" for number in range(len(rows))]
    alone = read_unlabelled(path)
    assert (alone.texts, alone.labels, alone.places) == (found.texts, None, found.places)


def test_keys_of_json_may_change_their_order(tmp_path: Path) -> None:
    lines = '{"y": 1, "body": "a"}\n{"body": "b", "y": 2}\n'
    found = read_labelled(file(tmp_path, "a.jsonl", lines), label_column="0")
    assert (found.texts, found.labels) == (["a", "b"], ["1", "2"])


def test_texts_are_on_one_line_and_labels_without_spaces_around(tmp_path: Path) -> None:
    found = read_labelled(file(tmp_path, "a.csv", '" x ","a\nb"\n'))
    assert (found.texts, found.labels) == (["a b"], ["x"])


def test_some_rows_keep_what_belongs_to_them() -> None:
    texts = LabelledTexts(["a", "b", "c"], ["x", "y", "z"], ["1", "2", "3"])
    assert texts.some([2, 0]) == LabelledTexts(["c", "a"], ["z", "x"], ["3", "1"])
    unlabelled = LabelledTexts(["a", "b"], None, ["1", "2"])
    assert unlabelled.some([1]) == LabelledTexts(["b"], None, ["2"])


def test_several_files_in_order(tmp_path: Path) -> None:
    first = file(tmp_path, "a.csv", "x,1\ny,2\n")
    second = file(tmp_path, "b.jsonl", '{"text": "3", "label": "z"}\n')
    found = read_labelled([second, first])
    assert found.labels == ["z", "x", "y"]
    assert found.places[0::2] == [f"'{second}', row 1", f"'{first}', row 2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "one\n", r"a\.txt' is plain text, which has no labels"),
        ("a.csv", "n,body,k\n", "named 'label'.*0: 'n', 1: 'body', 2: 'k'; say .*--label-column"),
        ("a.jsonl", '{"text": "a"}\n', "named 'label'.*0: 'text'"),
        ("a.csv", "label,x,y\n1,2,3\n", "expected a column named 'text'.*--column"),
        ("a.csv", "", "holds no text"),
        ("a.csv", "label,text\n", "holds no text"),
        ("a.jsonl", '{"label": "x", "text": "a"}\n{"text": "b"}\n', "line 2: no column 'label'"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_labelled(file(tmp_path, name, content))


def test_rows_without_a_label_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "label,text\nx,a\n,b\n" + "  ,c\n" * 5 + "y,d\n")
    with pytest.raises(UserError, match=r"6 of 8 rows have no label: .*row 2; .*row 6; …;") as all_:
        read_labelled(path)
    assert "row 7" not in str(all_.value)
    one = file(tmp_path, "b.csv", "x,a\n,b\n")
    with pytest.raises(UserError, match=r"1 of 2 rows has no label: '.*b\.csv', row 2; give"):
        read_labelled(one)


def test_lines_of_plain_text_stay_aligned(tmp_path: Path) -> None:
    path = file(tmp_path, "a.txt", "one\n\n \ntwo\n")
    found = read_unlabelled([path], ReadOptions(column="text"))
    assert found.texts == ["one", "", " ", "two"]
    assert found.places[3] == f"'{path}', line 4"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "a\n"),
        ("a.csv", "id,text,z\n1,a,2\n"),
        ("a.csv", "label,sentence\n,a\n"),
        ("a.csv", "x,a\n"),
        ("a.jsonl", '{"text": "a"}\n'),
    ],
)
def test_tables_for_prediction(tmp_path: Path, name: str, content: str) -> None:
    found = read_unlabelled(file(tmp_path, name, content))
    assert (found.texts, found.labels) == (["a"], None)


def test_ag_news_has_its_own_columns() -> None:
    if "ELMO_DATA" not in os.environ:
        pytest.skip("ELMO_DATA does not name a folder with AG News")
    path = Path(os.environ["ELMO_DATA"]) / "ag_news" / "test.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        numbers = [row[0] for row in csv.reader(stream)]
    names = {"1": "World", "2": "Sports", "3": "Business", "4": "Sci/Tech"}
    found = read_labelled("ag_news:test", ReadOptions(column="body"), label_column="y")
    assert found.labels == [names[number] for number in numbers]
    assert found.texts[0].startswith("Unions representing workers at Turner")
    assert found.places[-1] == "'ag_news:test', row 7600"
    assert read_unlabelled("ag_news:test").texts == found.texts


def test_a_digest_tells_other_texts_labels_and_borders_apart() -> None:
    places = ["1", "2"]
    different = (
        LabelledTexts(["a b", "c"], ["x", "y"], places),
        LabelledTexts(["a", "b c"], ["x", "y"], places),
        LabelledTexts(["c", "a b"], ["x", "y"], places),
        LabelledTexts(["a b", "c"], ["y", "x"], places),
        LabelledTexts(["a b", "c"], None, places),
    )
    assert len({one.digest for one in different}) == len(different)
    moved = LabelledTexts(["a b", "c"], ["x", "y"], ["3", "4"])
    assert moved.digest == different[0].digest

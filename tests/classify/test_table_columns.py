"""Text and label are found by what was asked for, by their names or by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from elmo.classify.table_columns import choose_columns
from elmo.errors import UserError
from elmo.text.sources import ReadOptions, Source, read_columns, resolve


def table(folder: Path, content: str) -> Source:
    (folder / "a.csv").write_text(content)
    return resolve([str(folder / "a.csv")])[0]


@pytest.mark.parametrize(
    ("content", "column", "label_column", "header"),
    [
        ("label,text\nx,a\n", None, None, "auto"),
        ("text,id,label\na,7,x\n", None, None, "auto"),
        ("label,sentence\nx,a\n", None, None, "auto"),
        ("x,a\n", None, None, "auto"),
        ("a,x\n", "0", None, "auto"),
        ("a,x\n", None, "1", "auto"),
        ("7,x,a\n", "2", "1", "auto"),
        ("id,class,body\n7,x,a\n", "body", "class", "auto"),
        ("id,class,body\n7,x,a\n", "2", "class", "auto"),
        ("id,class,body\n7,x,a\n", "2", "1", "yes"),
        ("class,body\nx,a\n", None, "class", "auto"),
        ("label,text\nx,a\n", "1", "0", "auto"),
        ("1,0\nx,a\n", "0", "1", "yes"),
        ("b,b,b\n7,a,x\n", "1", "2", "yes"),
    ],
)
def test_which_columns(
    tmp_path: Path,
    content: str,
    column: str | None,
    label_column: str | None,
    header: Literal["auto", "yes"],
) -> None:
    source = table(tmp_path, content)
    options = ReadOptions(column=column, header=header)
    found = choose_columns(source, options, label_column, labelled=True)
    assert found.text is not None
    assert found.label is not None
    assert list(read_columns(source, [found.text, found.label], found.options)) == [("a", "x")]


def test_files_without_columns() -> None:
    plain = Source(name="a", path=Path("a"), format="plain")
    assert choose_columns(plain, ReadOptions(), None, labelled=False).text is None
    news = Source(name="ag_news", path=Path("a"), format="ag_news")
    found = choose_columns(news, ReadOptions(column="x"), "y", labelled=True)
    assert (found.text, found.label) == ("text", "label")
    assert choose_columns(news, ReadOptions(), None, labelled=False).label is None


@pytest.mark.parametrize(
    ("content", "label_column", "message"),
    [
        ("class,text\nx,a\n", "clas", "no column 'clas' among .*did you mean 'class'"),
        ("class,text\nx,a\n", "text", "'text' cannot be both text and label"),
        ("class,text\nx,a\n", None, "named 'label'.*0: 'class', 1: 'text'; say .*--label-column"),
        ("7,x,a\n", "1", "expected a column named 'text'.*--column"),
    ],
)
def test_what_cannot_be_found(
    tmp_path: Path, content: str, label_column: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        choose_columns(table(tmp_path, content), ReadOptions(), label_column, labelled=True)

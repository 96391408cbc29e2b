"""Labelled tables of every format are read alike, and what is wrong is named with its row."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.classify.data import (
    LabelledTexts,
    check_test_rows,
    choose_columns,
    development_split,
    encode_labels,
    few_labels,
    label_names,
    printable,
    read_labelled,
    read_unlabelled,
)
from elmo.classify.linear import cross_validation
from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.sources import Source, read_columns, resolve

# Parts are drawn class by class, the same for the same seed.


SIZES = st.lists(st.integers(2, 40), min_size=1, max_size=5)
SEEDS = st.integers(0, 2**32)


def shuffled(sizes: list[int], seed: int) -> np.ndarray:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed + 1).permutation(labels)


@given(sizes=SIZES, share=st.floats(0.01, 0.99), seed=SEEDS)
def test_parts_share_no_row_and_hold_every_class(sizes: list[int], share: float, seed: int) -> None:
    labels = shuffled(sizes, seed)
    train, development = development_split(labels, share, seed)
    assert sorted([*train, *development]) == list(range(len(labels)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(development) > 0).all()
    for one, size in enumerate(sizes):
        held = int((labels[development] == one).sum())
        assert 1 <= held <= size - 1
        assert abs(held - share * size) <= 1


@given(sizes=SIZES, seed=SEEDS, data=st.data())
def test_few_labels_are_as_many_of_each_class_and_nested(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    labels = shuffled(sizes, seed)
    more = data.draw(st.integers(1, min(sizes)))
    fewer = data.draw(st.integers(1, more))
    rows = few_labels(labels, more, seed)
    assert np.bincount(labels[rows]).tolist() == [more] * len(sizes)
    assert len(set(rows)) == len(rows)
    assert set(few_labels(labels, fewer, seed)) <= set(rows)


def test_the_seed_decides() -> None:
    labels = shuffled([50, 50], 0)
    first, again, other = (development_split(labels, 0.2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.development, again.development)
    assert not np.array_equal(first.development, other.development)
    assert not np.array_equal(few_labels(labels, 5, 1), few_labels(labels, 5, 2))


def test_every_row_is_drawn_about_equally_often() -> None:
    labels = np.repeat([0, 1], 10)
    drawn = np.zeros(20)
    for seed in range(2000):
        drawn[development_split(labels, 0.3, seed).development] += 1
    # Five standard deviations of a binomial count of 2000 draws at 0.3.
    assert np.abs(drawn - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def test_a_class_that_does_not_occur_is_no_matter() -> None:
    labels = np.array([0, 0, 2, 2])
    assert len(development_split(labels, 0.5, 0).train) == 2
    assert len(few_labels(labels, 1, 0)) == 2


def test_too_small_a_class() -> None:
    labels = np.array([0, 0, 1])
    with pytest.raises(UserError, match=r"needs at least 2 rows, one for training.*'b' has 1;"):
        development_split(labels, 0.5, 0, names=["a", "b"])
    with pytest.raises(UserError, match=r"at least 3 rows.*class 0 has 2; class 1 has 1;"):
        few_labels(labels, 3, 0)
    with pytest.raises(UserError, match=r"class 4 has 1; and 95 more; .*--label-column"):
        development_split(np.arange(100), 0.5, 0)


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_impossible_shares(share: float) -> None:
    with pytest.raises(UserError, match="fraction: expected a number between 0 and 1"):
        development_split(np.array([0, 0, 1, 1]), share, 0)


def test_impossible_numbers() -> None:
    with pytest.raises(UserError, match="rows per class: expected at least one, got 0"):
        few_labels(np.array([0, 1]), 0, 0)
    with pytest.raises(UserError, match="there are none"):
        few_labels(np.array([], np.int64), 1, 0)


# Labels have one order, and unknown ones are named.


@pytest.mark.parametrize(
    ("given_labels", "expected"),
    [
        (["10", "9", "9", "-1"], ("-1", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["0.5", "2", "02"], ("0.5", "02", "2")),
        (["Sci/Tech", "World", "Business", "Sports"], ("World", "Sports", "Business", "Sci/Tech")),
        (["Sports", "World"], ("World", "Sports")),
        (["Sports", "World", "Arts"], ("Arts", "Sports", "World")),
    ],
)
def test_order(given_labels: list[str], expected: tuple[str, ...]) -> None:
    assert label_names(given_labels) == expected


@given(labels=st.lists(st.text(), min_size=2).filter(lambda all_: len(set(all_)) > 1))
def test_classes_lead_back_to_labels(labels: list[str]) -> None:
    names = label_names(labels)
    assert names == label_names(reversed(labels))
    assert [names[index] for index in encode_labels(labels, names)] == labels
    assert len(names) == len(set(labels))


def test_one_label_is_not_enough() -> None:
    with pytest.raises(UserError, match="at least two labels, but there is only 'x'"):
        label_names(["x", "x"])


def test_too_many_labels_are_most_likely_a_wrong_column() -> None:
    with pytest.raises(UserError, match=r"at most 10,000 different labels, .* 10,001, such as '0'"):
        label_names(map(str, range(10_001)))
    assert len(label_names(map(str, range(10_000)))) == 10_000


def test_unknown_labels_are_named_once_each() -> None:
    places = ["row 1", "row 2", "row 3", "row 4"]
    with pytest.raises(UserError) as raised:
        encode_labels(["World", "Sport", "Sport", "?"], ("World", "Sports"), places)
    assert str(raised.value).startswith(
        "labels that were not there in training: 'Sport', first at row 2 (did you mean 'Sports'?); "
        "'?', first at row 4; the known ones are 'World', 'Sports'; "
    )


def test_many_unknown_labels_are_counted() -> None:
    labels = [f"l{number}" for number in range(50)]
    with pytest.raises(UserError, match=r"'l19'.*; and 30 more; the known ones"):
        encode_labels(labels, ("x", "y"))


def test_test_rows_are_checked_before_training(caplog: pytest.LogCaptureFixture) -> None:
    train = LabelledTexts(["a", "b"], ["x", "y"], ["1", "2"])
    with pytest.raises(UserError, match="not there in training: 'z', first at row 7"):
        check_test_rows(train, LabelledTexts(["c"], ["z"], ["row 7"]))
    check_test_rows(train, LabelledTexts(["c"], ["x"], ["1"]))
    assert not caplog.text
    assert check_test_rows(train, LabelledTexts(["c", " B"], ["x", "y"], ["7", "8"])) == (1, 0)
    assert "also training texts: 1 of 2 (8 is 2)" in caplog.text
    check_test_rows(train, train)
    assert "test and training texts are the same" in caplog.text
    caplog.clear()
    empty = LabelledTexts(["a", "", "b"], ["x", "x", "y"], ["1", "2", "3"])
    check_test_rows(empty, empty)
    assert "test and training texts are the same" in caplog.text


def test_near_copies_across_train_and_test_are_named(caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(map(str, random.integers(0, 10_000, 60))) for _ in range(41)]
    train = LabelledTexts([*texts, ""], ["x", "y"] * 21, [f"train {n}" for n in range(42)])
    copies = [
        " ".join([*text.split()[:30], "inserted", *text.split()[31:]]) for text in texts[:40]
    ]  # of 61 sequences of five words, 51 are in both texts
    halves = [
        " ".join([*one.split()[:30], *other.split()[30:]]) for one, other in pairwise(texts)
    ]  # with each of the two texts, 26 of 86 are in both
    test = LabelledTexts([*copies, *halves, "", texts[40].upper() + " !"], ["x"] * 82,
                         [str(n) for n in range(82)])  # fmt: skip
    counts = check_test_rows(train, test)
    same, similar = caplog.messages
    assert "also training texts: 1 of 82 (81 is train 40)" in same
    found = re.search(r"nearly training texts: (\d+) of 82 \((.*)\);", similar)
    assert found is not None
    assert 25 <= int(found[1]) <= 40
    assert counts == (1, int(found[1]))
    named = re.findall(r"(\d+) is nearly train (\d+)", found[2])
    assert named
    assert all(one == other for one, other in named)


@given(st.lists(st.integers(0, 4), min_size=10, max_size=700), st.integers(0, 9))
def test_folds_hold_each_row_out_once_and_no_class_is_unknown(drawn: list[int], seed: int) -> None:
    classes = np.array([*drawn, *range(5), *range(5)])
    folds = cross_validation(classes, seed)
    assert len(folds) == (10 if len(classes) <= 500 else 5)
    rows = np.concatenate([fold.development for fold in folds])
    assert sorted(rows.tolist()) == list(range(len(classes)))
    for fold in folds:
        assert set(fold.train) | set(fold.development) == set(range(len(classes)))
        assert set(classes[fold.train]) == set(range(5))


def test_copies_of_a_text_are_held_out_together() -> None:
    classes = np.array([0] * 9 + [1] * 9 + [2] * 4)
    texts = [[f"text {row // 3}"] for row in range(18)] + [["the only text of its class"]] * 4
    for seed in range(5):
        folds = cross_validation(classes, seed, None, texts)
        for fold in folds:
            seen, asked = ({texts[row][0] for row in rows if row < 18} for rows in fold)
            assert not seen & asked
            assert set(classes[fold.train]) == {0, 1, 2}
        rows = np.concatenate([fold.development for fold in folds])
        assert sorted(rows.tolist()) == list(range(22))
    # Without copies the texts change nothing.
    different = [[str(row)] for row in range(22)]
    for one, other in zip(
        cross_validation(classes, 3, None, different), cross_validation(classes, 3), strict=True
    ):
        assert one.development.tolist() == other.development.tolist()


def test_a_tenth_of_many_rows_is_held_out_once() -> None:
    classes = np.arange(20_010) % 3
    (fold,) = cross_validation(classes, 0)
    assert np.bincount(classes[fold.development]).tolist() == [667, 667, 667]


def test_labels_cannot_steer_a_terminal() -> None:
    assert printable("a\tb\x1b[31m\u202e\x85 ß 数\u00a0") == "a\\tb\\x1b[31m\\u202e\\x85 ß 数\u00a0"


# Text and label are found by what was asked for, by their names or by their order.


def table(folder: Path, content: str) -> Source:
    (folder / "a.csv").write_text(content)
    return resolve([str(folder / "a.csv")])[0]


@pytest.mark.parametrize(
    ("content", "column", "label_column", "header"),
    [
        ("label,text\nx,a\n", None, None, "auto"),
        ("Label,TEXT\nx,a\n", None, None, "auto"),
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
    columns, reading = choose_columns(source, options, label_column, labelled=True)
    assert list(read_columns(source, columns, reading)) == [("a", "x")]


def test_files_without_columns() -> None:
    plain = Source(name="a", path=Path("a"), format="plain")
    assert choose_columns(plain, ReadOptions(), None, labelled=False)[0] is None
    news = Source(name="ag_news", path=Path("a"), format="ag_news")
    columns, _ = choose_columns(news, ReadOptions(column="x"), "y", labelled=True)
    assert columns == ["text", "label"]
    assert choose_columns(news, ReadOptions(), None, labelled=False)[0] == ["text"]


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
    assert found.locations == [f"'{path}', row {number + 1}" for number in range(len(rows))]
    assert list(read_unlabelled(path)) == found.texts


def test_keys_of_json_may_change_their_order(tmp_path: Path) -> None:
    lines = '{"y": 1, "body": "a"}\n{"body": "b", "y": 2}\n'
    found = read_labelled(file(tmp_path, "a.jsonl", lines), label_column="0")
    assert (found.texts, found.labels) == (["a", "b"], ["1", "2"])


def test_texts_are_on_one_line_and_labels_without_spaces_around(tmp_path: Path) -> None:
    found = read_labelled(file(tmp_path, "a.csv", '" x ","a\nb"\n'))
    assert (found.texts, found.labels) == (["a b"], ["x"])


def test_some_rows_keep_what_belongs_to_them() -> None:
    texts = LabelledTexts(["a", "b", "c"], ["x", "y", "z"], ["1", "2", "3"])
    assert texts.select([2, 0]) == LabelledTexts(["c", "a"], ["z", "x"], ["3", "1"])
    unlabelled = LabelledTexts(["a", "b"], None, ["1", "2"])
    assert unlabelled.select([1]) == LabelledTexts(["b"], None, ["2"])


def test_several_files_in_order(tmp_path: Path) -> None:
    first = file(tmp_path, "a.csv", "x,1\ny,2\n")
    second = file(tmp_path, "b.jsonl", '{"text": "3", "label": "z"}\n')
    found = read_labelled([second, first])
    assert found.labels == ["z", "x", "y"]
    assert found.locations[0::2] == [f"'{second}', row 1", f"'{first}', row 2"]


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
    with pytest.raises(
        UserError, match=r"6 of 8 rows have no label: .*row 2; .*row 6; and 1 more;"
    ) as all_:
        read_labelled(path)
    assert "row 7" not in str(all_.value)
    one = file(tmp_path, "b.csv", "x,a\n,b\n")
    with pytest.raises(UserError, match=r"1 of 2 rows has no label: '.*b\.csv', row 2; give"):
        read_labelled(one)


@pytest.mark.parametrize("files", [1, 2])
def test_a_header_without_known_names_is_not_a_row(tmp_path: Path, files: int) -> None:
    paths = [
        file(tmp_path, f"{index}.csv", "category,headline\nx,a\nx,b\ny,c\n")
        for index in range(files)
    ]
    with pytest.raises(
        UserError, match=r"0\.csv', row 1 looks like a header.*'category'; use --head"
    ):
        read_labelled(paths)
    assert len(read_labelled(paths, ReadOptions(header="no")).texts) == 4 * files
    columns = ReadOptions(header="yes", column="headline")
    assert read_labelled(paths, columns, "category").labels == ["x", "x", "y"] * files


def test_empty_texts_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = file(tmp_path, "a.csv", "label,text\nx,a\ny, \n")
    assert read_labelled(path).texts == ["a", " "]
    assert f"rows with an empty text: 1 of 2 ('{path}', row 2)" in caplog.text


def test_lines_of_plain_text_stay_aligned(tmp_path: Path) -> None:
    path = file(tmp_path, "a.txt", "one\n\n \ntwo\n")
    found = read_unlabelled([path], ReadOptions(column="text"))
    assert list(found) == ["one", "", " ", "two"]


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
    assert list(read_unlabelled(file(tmp_path, name, content))) == ["a"]


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
    assert found.locations[-1] == "'ag_news:test', row 7600"
    assert list(read_unlabelled("ag_news:test")) == found.texts


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


def test_more_labels_than_memory_can_hold_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file of 300 kB with 10,000 labels asked for gigabytes, an array of texts times labels."""
    labels = [f"l{number}" for number in range(300)] * 2
    assert len(label_names(labels)) == 300
    monkeypatch.setattr("elmo.classify.data.machine_memory", lambda: 10 << 20)
    with pytest.raises(UserError, match="at most 218 different labels, but there are 300"):
        label_names(labels)

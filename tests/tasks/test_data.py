"""Readers: CoNLL columns, CoNLL-U and pairs, and what they say about bad files."""

from __future__ import annotations

import gzip
import logging
import os
from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.tasks.config import ReadPairs, ReadTags
from elmo.tasks.data import (
    conll_text,
    parse_scores,
    read_pairs,
    read_tagged,
    tag_names,
    unknown_tags,
)
from elmo.text.config import ReadOptions

CONLLU = """# sent_id = 1
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

# only a comment

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def write(folder: Path, text: str, name: str = "a.conll") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_columns_by_spaces_or_tabs(tmp_path: Path) -> None:
    spaces = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\n\nYes UH O O\n"
    data = read_tagged(write(tmp_path, spaces))
    assert data.words == [["EU", "rejects"], ["Yes"]]
    assert data.tags == [["B-ORG", "O"], ["O"]]
    assert data.locations[1].endswith("line 8")
    assert read_tagged(write(tmp_path, spaces), ReadTags(tag_column="1")).tags[0] == ["NNP", "VBZ"]
    tabs = "New York\tB-LOC\n\t\nrain\tO\n"  # a blank line of a tab, and a word with a space
    data = read_tagged(write(tmp_path, tabs))
    assert data.words == [["New York"], ["rain"]]


def test_conllu_words_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    data = read_tagged(str(path))
    assert data.words == [["Do", "n't", "go"], ["Yes"]]
    assert data.tags == [["AUX", "PART", "VERB"], ["INTJ"]]
    assert read_tagged(str(path), ReadTags(tag_column="xpos")).tags[0] == ["VB", "RB", "VB"]
    with pytest.raises(UserError, match="upos, xpos, deprel"):
        read_tagged(str(path), ReadTags(tag_column="3"))


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("a O\nb O x\n", "a.conll", "line 2: expected 2 columns, as in the rows before, got 3"),
        ("a O\nb\n", "a.conll", "line 2: expected 2 columns.* got 1"),
        ("word\n", "a.conll", "line 1: expected a word and a tag"),
        ("1\tYes\tINTJ\n", "a.conllu", "line 1: expected the 10 columns of CoNLL-U.* got 3"),
        ("x" + "\t_" * 9 + "\n", "a.conllu", "line 1: not CoNLL-U"),
        ("\n\n", "a.conll", "holds no sentence"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_tagged(write(tmp_path, text, name))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz"])
def test_tables_are_not_read_as_columns(tmp_path: Path, name: str) -> None:
    """A line of JSON has a space, so that it was a word and its tag."""
    with pytest.raises(UserError, match="expected CoNLL columns"):
        read_tagged(write(tmp_path, '{"text": "oil"}\n', name))


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, "a O\n")
    with pytest.raises(UserError, match="columns 0 and 5"):
        read_tagged(path, ReadTags(tag_column="5"))
    with pytest.raises(UserError, match="a number or last"):
        read_tagged(path, ReadTags(tag_column="upos"))


def test_tags_that_are_missing_or_new(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UserError, match="here: a word has no tag"):
        tag_names([["A", "_"]], ["here"])
    with pytest.raises(UserError, match="two different tags"):
        tag_names([["A"]], ["here"])
    every = [[f"word{n}"] for n in range(60)]  # a column of words, not of tags
    with pytest.raises(UserError, match="60 different tags of 60 words"):
        tag_names(every, ["here"] * 60)
    assert len(tag_names(every * 2, ["here"] * 120)) == 60
    with caplog.at_level(logging.WARNING):
        unknown_tags([["A", "Z"], ["Z"]], ["A"], ["here", "there"])
    assert "2 words have tags that training did not have" in caplog.text
    assert "'Z', first at here" in caplog.text


def test_conll_text_is_read_back(tmp_path: Path) -> None:
    path = write(tmp_path, conll_text(["New York", "rain"], ["B-LOC", "O"]))
    assert read_tagged(path).words == [["New York", "rain"]]


def test_pairs_by_name_and_by_number(tmp_path: Path) -> None:
    path = write(tmp_path, "premise\thypothesis\tlabel\nA b\tC\tyes\nD\tE\tno\n", "a.tsv")
    pairs = read_pairs(path)
    assert (pairs.first, pairs.second, pairs.targets) == (["A b", "D"], ["C", "E"], ["yes", "no"])
    assert pairs.target_name == "label"
    lines = '{"sentence2": "C", "score": 2.5, "sentence1": "A"}\n'
    scored = read_pairs(write(tmp_path, lines, "a.jsonl"))
    assert (scored.first, parse_scores(scored), scored.target_name) == (["A"], [2.5], "score")
    bare = write(tmp_path, "4.0\tA\tB\n1\tC\tD\n", "b.tsv")
    columns = ReadPairs(first_column="1", second_column="2", target_column="0")
    assert read_pairs(bare, columns).second == ["B", "D"]
    assert read_pairs(path, labelled=False).targets == []


def test_bad_pairs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        path = write(tmp_path, "sentence1\tsentence2\tscore\nA\t\t1\nB\tC\tmany\n", "a.tsv")
        pairs = read_pairs(path)
    assert "pairs with an empty side: 1 of 2" in caplog.text
    with pytest.raises(UserError, match=r"1 of 2 are none: 'many' at .* row 2"):
        parse_scores(pairs)
    with pytest.raises(UserError, match="have no label"):
        read_pairs(write(tmp_path, "text1\ttext2\tlabel\nA\tB\t \nC\tD\tx\n", "b.tsv"))
    with pytest.raises(UserError, match="--target-column"):
        read_pairs(write(tmp_path, "text1\ttext2\tx\nA\tB\tC\n", "c.tsv"))
    with pytest.raises(UserError, match="expected csv"):
        read_pairs(write(tmp_path, "A B\n", "d.txt"))


@pytest.mark.skipif("ELMO_DATA" not in os.environ, reason="needs the data sets")
def test_published_counts() -> None:
    data = Path(os.environ["ELMO_DATA"])
    names = read_tagged(str(data / "wnut17/emerging.dev.conll"))
    assert (len(names), sum(map(len, names.words))) == (1009, 15733)
    words = read_tagged(str(data / "ud_english_ewt/en_ewt-ud-dev.conllu.gz"))
    assert (len(words), sum(map(len, words.words))) == (2001, 25147)
    options = ReadOptions(quotes=False)
    assert len(read_pairs(str(data / "snli/train_subset.tsv.gz"), options=options)) == 9999

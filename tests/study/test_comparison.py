"""Rows by name and by kind, in the order of the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elmo.errors import UserError
from elmo.study.comparison import all_rows, chosen_rows
from elmo.study.config import STANDARD


def names(*rows: str) -> list[str]:
    return [row.name for row in chosen_rows(replace(STANDARD, rows=rows), layers=2)]


def test_every_row_is_there_once() -> None:
    rows = [row.name for row in all_rows(STANDARD, layers=2)]
    assert rows == [
        "majority", "tfidf", "own", "svd-2", "svd-5", "svd-8", "skipgram-2", "skipgram-5",
        "skipgram-8", "layer-0", "layer-1", "layer-2", "average", "frozen", "trainable",
        "function", "fine-tuned",
    ]  # fmt: skip
    assert names() == rows


def test_kinds_stand_for_rows_and_the_order_stays() -> None:
    assert names("mixes", "svd") == ["svd-2", "svd-5", "svd-8", "frozen", "trainable", "function"]
    assert names("static") == names("skipgram", "svd")
    assert names("trainable", "majority", "mixes")[0] == "majority"


def test_a_mistyped_row_is_named_with_what_was_meant() -> None:
    with pytest.raises(UserError, match="did you mean 'trainable'"):
        names("trainabel")
    with pytest.raises(UserError, match="--windows"):
        names("svd-3")

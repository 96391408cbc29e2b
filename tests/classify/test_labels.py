"""Labels have one order, and unknown ones are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.labels import Labels
from elmo.errors import UserError


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
    assert Labels.of(given_labels).names == expected


@given(labels=st.lists(st.text(), min_size=2).filter(lambda all_: len(set(all_)) > 1))
def test_classes_lead_back_to_labels(labels: list[str]) -> None:
    known = Labels.of(labels)
    assert known == Labels.of(reversed(labels))
    classes = known.encode(labels, [""] * len(labels))
    assert [known.names[one] for one in classes] == labels
    assert len(known) == len(set(labels))


def test_one_label_is_not_enough() -> None:
    with pytest.raises(UserError, match="at least two labels, but there is only 'x'"):
        Labels.of(["x", "x"])


def test_unknown_labels_are_named_once_each() -> None:
    known = Labels(("World", "Sports"))
    with pytest.raises(UserError) as raised:
        known.encode(["World", "Sport", "Sport", "?"], ["row 1", "row 2", "row 3", "row 4"])
    assert str(raised.value).startswith(
        "labels that were not there in training: 'Sport', first at row 2 (did you mean 'Sports'?); "
        "'?', first at row 4; the known ones are 'World', 'Sports'; "
    )


def test_many_unknown_labels_are_counted() -> None:
    labels = [f"l{number}" for number in range(50)]
    with pytest.raises(UserError, match=r"'l19'.*; and 30 more; the known ones"):
        Labels(("x", "y")).encode(labels, labels)

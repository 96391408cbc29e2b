"""Blocks become plain data, which is how the PDF gets them."""

from __future__ import annotations

import json

from elmo.config import to_json
from elmo.study.report.blocks import Details, Paragraph, columns, one_part


def test_the_first_columns_hold_text() -> None:
    assert [column.align for column in columns("a", "b", "c", left=2)] == ["left", "left", "right"]
    assert one_part([("x", "1")])[0].lines == (("x", "1"),)


def test_blocks_within_blocks_say_what_they_are() -> None:
    data = json.loads(json.dumps(to_json(Details(title="more", blocks=(Paragraph(text="x"),)))))
    assert data["kind"] == "details"
    assert data["blocks"] == [{"text": "x", "kind": "paragraph"}]

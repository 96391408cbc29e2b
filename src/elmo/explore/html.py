"""HTML for notebooks: what `_repr_html_` of the results of this package is made of.

Written here since nothing but tables of coloured words is needed; texts are always escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

BLUE, RED = (37, 99, 175), (190, 60, 40)
"""Colours of positive and negative values."""
_CELL = "padding:2px 6px;text-align:{align};white-space:{space}"


def coloured(word: str, strength: float, title: str = "") -> str:
    """A word on a background: blue above 0, red below; ±1 is the deepest."""
    red, green, blue = BLUE if strength >= 0 else RED
    alpha = min(1.0, abs(strength)) * 0.75 if np.isfinite(strength) else 0.0
    colour = ";color:#fff" if alpha > 0.5 else ""
    style = f"background:rgba({red},{green},{blue},{alpha:.2f});border-radius:3px;padding:1px 3px"
    return f'<span style="{style}{colour}" title="{escape(title)}">{escape(word)}</span>'


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), caption: str = "") -> str:
    """A table of cells that are HTML already; all but the first column align to the right."""
    aligned = ["left", *["right"] * 50]
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    for tag, some in (("th", [head] if head else []), ("td", rows)):
        for row in some:
            styles = [_CELL.format(align=align, space="nowrap") for align in aligned]
            cells = zip(row, styles, strict=False)
            lines.append(
                "<tr>" + "".join(f'<{tag} style="{s}">{c}</{tag}>' for c, s in cells) + "</tr>"
            )
    return f"<table>{''.join(lines)}</table>"


def concordance(rows: Iterable[tuple[str, Sequence[str], int]], around: int = 8) -> str:
    """Words in their sentences, one below the other: a note, the words, and which of them."""
    lines: list[str] = []
    for note, words, position in rows:
        left = " ".join(words[max(0, position - around) : position])
        right = " ".join(words[position + 1 : position + 1 + around])
        cells = (("right", left), ("center", f"\0{words[position]}\0"), ("left", right))
        shown = "".join(
            f'<td style="{_CELL.format(align=align, space="nowrap")}">{escape(text)}</td>'
            for align, text in cells
        )
        shown = shown.replace("\0", "<b>", 1).replace("\0", "</b>", 1)
        lines.append(f"<tr><td>{escape(note)}</td>{shown}</tr>")
    return f"<table>{''.join(lines)}</table>"

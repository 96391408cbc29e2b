"""elmo score MODEL TEXT…: how probable each word of a text is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from elmo.cli import arguments
from elmo.cli.texts import ModelAndTexts, open_model, read_given, require_texts

if TYPE_CHECKING:
    from elmo.language.score import TextScore


@dataclass(frozen=True, kw_only=True)
class Arguments(ModelAndTexts):
    """Give the log-probability (natural) of each word of a text, in both directions.

    elmo score runs/news "Oil prices fell on Monday ."

    elmo score runs/news --files sentences.txt --json
    """


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "score", given)


def run(given: Arguments) -> int:
    """Print a table or an object a text."""
    from elmo.cli.output import print_json
    from elmo.language.score import score

    texts = require_texts(read_given(given))
    for scored in score(open_model(given.model, given.tokenizer), texts):
        if given.json:
            print_json(asdict(scored))
        else:
            _show(scored)
    return 0


def _show(scored: TextScore) -> None:
    from elmo.cli.output import print_table

    forward, backward = scored.forward, scored.backward
    rows = [["(begin)", "", f"{backward.boundary:.3f}"]]
    rows += [
        [
            one.word if one.known else f"{one.word} (unknown)",
            f"{one.forward:.3f}",
            f"{one.backward:.3f}",
        ]
        for one in scored.words
    ]
    rows += [
        ["(end)", f"{forward.boundary:.3f}", ""],
        [""],
        ["log-probability", f"{forward.total:.3f}", f"{backward.total:.3f}"],
        ["perplexity", f"{forward.perplexity:,.2f}", f"{backward.perplexity:,.2f}"],
    ]
    print_table(rows, ["word", "forward", "backward"])
    print(f"perplexity of both directions: {scored.perplexity:,.2f}\n")

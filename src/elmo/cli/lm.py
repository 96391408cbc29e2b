"""elmo predict MODEL TEXT…: words for a blank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from elmo.cli import arguments
from elmo.cli.texts import ModelAndTexts, open_model, read_given, require_texts
from elmo.language.blanks import BLANK

if TYPE_CHECKING:
    from elmo.language.predict import BlankCandidates, Candidate, Prediction


@dataclass(frozen=True, kw_only=True)
class Arguments(ModelAndTexts):
    """Find words for a blank, written ___, from what is before it, behind it, and both.

    elmo predict runs/news "Oil ___ fell on Monday ."

    elmo predict runs/news "She [MASK] home ." --blank "[MASK]" --top 3 --json
    """

    top: int = 10
    """How many words to show."""
    blank: str = BLANK
    """What marks a blank; of several in a text, each takes the others for unknown words."""


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "predict", given)


def run(given: Arguments) -> int:
    """Print a table a blank or an object a text."""
    from elmo.cli.output import print_json
    from elmo.language.predict import predict

    texts = require_texts(read_given(given))
    loaded = open_model(given.model, given.tokenizer)
    for found in predict(loaded, texts, top=given.top, blank=given.blank):
        if given.json:
            print_json(asdict(found))
        else:
            _show(found)
    return 0


def _show(prediction: Prediction) -> None:
    from elmo.cli.output import print_table

    for blank in prediction.blanks:
        print(" ".join(_around(prediction, blank)))
        print_table(_rows(blank), ["", "forward", "backward", "both"])
        print()


def _around(prediction: Prediction, blank: BlankCandidates) -> list[str]:
    """The text with the best word in this blank; the others are left open, as they were to it."""
    words = list(prediction.words)
    for one in prediction.blanks:
        words[one.place] = f"[{words[one.place]}]" if one is blank else BLANK
    return words


def _rows(blank: BlankCandidates) -> list[list[str]]:
    ranked = zip_longest(blank.forward, blank.backward, blank.combined)
    return [
        [str(rank), *(_cell(candidate) for candidate in candidates)]
        for rank, candidates in enumerate(ranked, start=1)
    ]


def _cell(candidate: Candidate) -> str:
    return f"  {candidate.word} {candidate.probability:.4f}"

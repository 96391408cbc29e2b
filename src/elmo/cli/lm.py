"""elmo predict MODEL TEXT…: words for a blank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from elmo.bilm.config import BLANK, GenerationConfig
from elmo.cli import options as arguments
from elmo.cli.options import ModelAndTexts, open_model, read_given, require_texts

if TYPE_CHECKING:
    from elmo.language_model import BlankCandidates, Candidate, Prediction, TextScore


# elmo score MODEL TEXT…: how probable each word of a text is.


@dataclass(frozen=True, kw_only=True)
class ScoreArguments(ModelAndTexts):
    """Give the log-probability (natural) of each word of a text, in both directions.

    elmo score runs/news "Oil prices fell on Monday ."

    elmo score runs/news --files sentences.txt --json
    """


def parse_score(given: Sequence[str]) -> ScoreArguments:
    """Read the flags."""
    return arguments.parse(ScoreArguments, "score", given)


def run_score(given: ScoreArguments) -> int:
    """Print a table or an object a text."""
    from elmo.cli.display import print_json
    from elmo.language_model import score

    texts = require_texts(read_given(given))
    for scored in score(open_model(given.model, given.tokenizer), texts):
        if given.json:
            print_json(asdict(scored))
        else:
            _show(scored)
    return 0


def _show(scored: TextScore) -> None:
    from elmo.cli.display import print_table

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


@dataclass(frozen=True, kw_only=True)
class PredictArguments(ModelAndTexts):
    """Find words for a blank, written ___, from what is before it, behind it, and both.

    elmo predict runs/news "Oil ___ fell on Monday ."

    elmo predict runs/news "She [MASK] home ." --blank "[MASK]" --top 3 --json
    """

    top: int = 10
    """How many words to show."""
    blank: str = BLANK
    """What marks a blank; of several in a text, each takes the others for unknown words."""


def parse_predict(given: Sequence[str]) -> PredictArguments:
    """Read the flags."""
    return arguments.parse(PredictArguments, "predict", given)


def run_predict(given: PredictArguments) -> int:
    """Print a table a blank or an object a text."""
    from elmo.cli.display import print_json
    from elmo.language_model import predict

    texts = require_texts(read_given(given))
    loaded = open_model(given.model, given.tokenizer)
    for found in predict(loaded, texts, top=given.top, blank=given.blank):
        if given.json:
            print_json(asdict(found))
        else:
            _predict_show(found)
    return 0


def _predict_show(prediction: Prediction) -> None:
    from elmo.cli.display import print_table

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


# elmo generate MODEL [PROMPT…]: text that the model writes.


@dataclass(frozen=True, kw_only=True)
class GenerateArguments(ModelAndTexts):
    """Write on from a prompt, or what comes before it; without a prompt, write a whole text.

    elmo generate runs/news "Oil prices" --temperature 0.8 --top-p 0.9

    elmo generate runs/news "on Monday ." --direction backward --seed 7
    """

    generation: GenerationConfig = field(default_factory=GenerationConfig)


def parse_generate(given: Sequence[str]) -> GenerateArguments:
    """Read the flags."""
    return arguments.parse(GenerateArguments, "generate", given)


def run_generate(given: GenerateArguments) -> int:
    """Print a text or an object a prompt."""
    from elmo.cli.display import print_json
    from elmo.config import check
    from elmo.language_model import generate

    check(given.generation)
    prompts = read_given(given) or [""]
    loaded = open_model(given.model, given.tokenizer)
    for prompt in prompts:
        made = generate(loaded, prompt, given.generation)
        if given.json:
            print_json({"words": made.words, **asdict(made)})
        else:
            print(" ".join(made.words))
    return 0

"""elmo verify MODEL --expected FILE…: does the model compute what somebody stored?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from elmo.cli import options as arguments
from elmo.cli.options import Flag, ModelFolder
from elmo.errors import UserError

if TYPE_CHECKING:
    from elmo.official.verify import Difference


# elmo convert FROM TO: official files become a model folder, or the other way round.


@dataclass(frozen=True, kw_only=True)
class ConvertArguments:
    """Turn official ELMo files into a model folder, or a model folder into official files.

    elmo convert elmo_small models/small

    elmo convert runs/news elmo_news --to official
    """

    source: Annotated[Path, Positional, arg(metavar="FROM")]
    """A folder with options.json and one .hdf5 file, or a model folder."""
    target: Annotated[Path, Positional, arg(metavar="TO")]
    """The folder to write; it must not exist."""
    to: Literal["elmo", "official"] = "elmo"
    """elmo: a model folder; official: options.json and weights.hdf5."""


def parse_convert(given: Sequence[str]) -> ConvertArguments:
    """Read the flags."""
    return arguments.parse(ConvertArguments, "convert", given)


def run_convert(given: ConvertArguments) -> int:
    """Convert, and say what became of it."""
    from elmo.language_model import is_official, official_files, open_model, save_model
    from elmo.official.format import save_official

    loaded = open_model(given.source)
    if is_official(given.source) == (given.to == "official"):
        other = "official" if given.to == "elmo" else "elmo"
        raise UserError(f"{given.source}: is of this kind already; did you mean --to {other}?")
    if given.to == "elmo":
        save_model(loaded, given.target, official_files(given.source).weights)
    else:
        save_official(loaded, given.target)
    print(f"{given.target}: the model of {given.source}, number for number")
    if given.to == "official" and loaded.model.config.softmax.loss != "none":
        print(
            "left behind, as official files have no place for it: the softmax (so keep "
            f"{given.source} to score, predict or generate) and how often words were counted"
        )
    return 0


DIFFERENT = 1


@dataclass(frozen=True, kw_only=True)
class VerifyArguments:
    """Compare a model's layers with stored ones; the exit code is 1 if they differ.

    elmo verify elmo_small --expected activations.hdf5 --sentences sentences.txt

    elmo verify elmo_small --expected slot0.hdf5 slot1.hdf5 --sentences slots.json

    elmo verify elmo_small --expected token_vectors.hdf5 --vocabulary vocab.txt
    """

    model: ModelFolder
    """A model folder, ours or official."""
    expected: tuple[Path, ...]
    """Files (.hdf5 or .npz) with an array a text, named 0, 1, …: its top layer, (2, words, width),
    or all layers, (1 + layers, words, 2 * width). One file for each slot of sentences."""
    sentences: Path | None = None
    """The texts, words apart: a line each, or JSON with a list of sentences for each slot."""
    vocabulary: Path | None = None
    """Instead of sentences: the words, a line each, whose token vectors the file holds."""
    start: Literal["carry", "zero"] = "carry"
    """carry: a text starts where the last one of its slot ended, as in the original programs; zero:
    each starts afresh."""
    tolerance: float = 2e-6
    """The largest difference that counts as equal."""
    json: Flag = False
    """Print one JSON object."""


def parse_verify(given: Sequence[str]) -> VerifyArguments:
    """Read the flags."""
    return arguments.parse(VerifyArguments, "verify", given)


def run_verify(given: VerifyArguments) -> int:
    """Print the largest difference a layer and direction, and say whether all are small."""
    from elmo.cli.display import print_json

    differences = _differences(given)
    holds = all(one.within(given.tolerance) for one in differences)
    if given.json:
        told = [asdict(one) for one in differences]
        print_json({"holds": holds, "tolerance": given.tolerance, "differences": told})
    else:
        _show(differences, given.tolerance, holds)
    return 0 if holds else DIFFERENT


def _differences(given: VerifyArguments) -> Sequence[Difference]:
    from elmo.language_model import open_model
    from elmo.official.verify import read_slots, verify_activations, verify_tokens

    if (given.sentences is None) == (given.vocabulary is None):
        raise UserError(
            "give either --sentences, for activations of texts, or --vocabulary, for token vectors"
        )
    model = open_model(given.model).model
    if given.sentences is not None:
        slots = read_slots(given.sentences)
        return verify_activations(model, slots, given.expected, given.start)
    if given.vocabulary is None or len(given.expected) != 1:
        raise UserError(f"expected one file of token vectors, got {len(given.expected)}")
    return verify_tokens(model, given.vocabulary, given.expected[0])


def _show(differences: Sequence[Difference], tolerance: float, holds: bool) -> None:
    from elmo.cli.display import print_table

    rows = [
        [str(one.layer), one.direction, f"{one.words:,}", f"{one.largest:.2e}"]
        for one in differences
    ]
    print_table(rows, ["layer", "direction", "words", "largest difference"])
    print(f"\n{'all within' if holds else 'NOT all within'} {tolerance:.2e}")

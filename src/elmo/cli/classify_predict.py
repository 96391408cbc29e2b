"""elmo classify predict TEXT…: labels of texts, with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.cli.texts import Flag
from elmo.shipped import CLASSIFIER
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.classify.classifier import Prediction


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Tell the label of each text, and how probable each label is.

    elmo classify predict "Oil prices fell on Monday as supply fears eased ."

    elmo classify predict --files mail.csv --column body --model runs/mail --json
    """

    texts: Annotated[tuple[str, ...], Positional, arg(metavar="[TEXT ...]")] = ()
    """Texts, each in quotes; '-' stands for standard input, a text a line."""
    files: tuple[str, ...] = ()
    """Files to read texts from: a text a line, or a row of a table; every line gives a label."""
    model: Path = CLASSIFIER
    """A classifier's folder; none: the news classifier that comes with elmo."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    json: Flag = False
    """Print one JSON object a text, each on a line."""
    read: ReadOptions = field(default_factory=ReadOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "classify predict", given)


def run(given: Arguments) -> int:
    """Print a line or an object a text."""
    from elmo.classify.folder import load_classifier
    from elmo.cli.output import print_json
    from elmo.cli.training import set_device

    texts = _texts(given)
    set_device(given.device, given.threads)
    classifier = load_classifier(given.model, given.device)
    for text, prediction in zip(texts, classifier.predict(texts), strict=True):
        if given.json:
            print_json({"text": text, **asdict(prediction)})
        else:
            print(_line(text, prediction))
    return 0


def _texts(given: Arguments) -> list[str]:
    from elmo.classify.labelled import read_unlabelled
    from elmo.cli.texts import checked
    from elmo.errors import UserError

    sources = [text for text in given.texts if text == "-"] + list(given.files)
    texts = [checked(text) for text in given.texts if text != "-"]
    if sources:
        texts += read_unlabelled(sources, given.read).texts
    if not texts:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    return texts


def _line(text: str, prediction: Prediction) -> str:
    probability = max(prediction.probabilities.values())
    shown = "(no words)" if prediction.empty else text
    return f"{prediction.label}\t{probability:.3f}\t{shown}"

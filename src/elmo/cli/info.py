"""elmo info MODEL: what is in a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from elmo.cli import arguments
from elmo.cli.texts import Flag, ModelFolder

if TYPE_CHECKING:
    from elmo.config import Json
    from elmo.description import ModelDescription


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Show what is in a model folder: sizes, settings, vocabulary, how it was made."""

    model: ModelFolder
    """A model folder, ours or official."""
    json: Flag = False
    """Print one JSON object, all settings included."""


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "info", given)


def run(given: Arguments) -> int:
    """Print what the folder holds."""
    from elmo.cli.output import print_json, print_table
    from elmo.interop.models import describe

    description = describe(given.model)
    if given.json:
        print_json(asdict(description))
        return 0
    print_table([*_model_rows(description), *_text_rows(description), *_file_rows(description)])
    return 0


def _model_rows(found: ModelDescription) -> list[list[str]]:
    model = found.model
    projection = "" if model.projection is None else f", projected to {model.projection}"
    rows = [
        ["input", model.input],
        ["layers", f"{model.layers} a direction, {model.hidden} cells{projection}"],
        [
            "softmax",
            model.softmax.loss + (", tied to the word vectors" if model.softmax.tied else ""),
        ],
        ["parameters", f"{found.parameters:,} ({found.number_format})"],
    ]
    rows += [[f"  {part.name}", f"{part.parameters:,}"] for part in found.parts]
    return rows


def _text_rows(found: ModelDescription) -> list[list[str]]:
    case = "lower-cased" if found.tokenizer.lowercase else "case kept"
    rows = [["vocabulary", f"{found.vocabulary:,} words"]]
    if found.training_tokens:
        rows.append(["unknown words", f"{found.unknown_rate:.2%} of the training text"])
    rows.append(["tokenizer", f"{found.tokenizer.tokenizer}, {case}"])
    rows += _run_rows(found.stages.get("run", {}))
    quality = found.held_out_perplexity
    if quality is not None:
        both = f"forward {quality.forward:,.2f}, backward {quality.backward:,.2f}"
        rows.append(["held-out perplexity", both])
    return rows


def _run_rows(run: Json) -> list[list[str]]:
    """What the settings of a run tell of where a model comes from."""
    shown = {
        "trained on": ", ".join(run.get("sources", ())),
        "corpus": str(run.get("digest", ""))[:16],
        "started from": run.get("start_from"),
        "made with": run.get("command"),
    }
    return [[name, value] for name, value in shown.items() if value]


def _file_rows(found: ModelDescription) -> list[list[str]]:
    sizes = [[f"  {file.name}", f"{file.size:,} bytes"] for file in found.files]
    return [["files", found.folder], *sizes]

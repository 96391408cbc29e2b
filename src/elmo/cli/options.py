"""What the commands that read a few texts with a model have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from elmo.errors import UserError

if TYPE_CHECKING:
    from elmo.embed.embedder import Embedder
    from elmo.model_folder import LoadedModel


# Command-line arguments from dataclasses: the fields are the flags, their docs are the help.


Arguments = TypeVar("Arguments")
ArgumentsPositional = tyro.conf.Positional


def parse(
    cls: type[Arguments], command: str, given: Sequence[str], default: Arguments | None = None
) -> Arguments:
    """Read flags into a dataclass; nested settings give flat flags, a typo gets a suggestion."""
    flat = cast("Any", Annotated[cls, tyro.conf.OmitArgPrefixes])
    options: dict[str, Any] = {} if default is None else {"default": default}
    return tyro.cli(flat, prog=f"elmo {command}", args=given, **options)


ModelFolder = Annotated[Path, Positional, arg(metavar="MODEL")]
Flag = Annotated[bool, FlagCreatePairsOff]
TokenizerName = Literal["model", "whitespace"]
PrecisionName = Literal["fp32", "bf16", "auto"]


@dataclass(frozen=True, kw_only=True)
class ModelAndTexts:
    """A model, and the texts it is to read."""

    model: ModelFolder
    """A model folder."""
    texts: Annotated[tuple[str, ...], Positional, arg(metavar="[TEXT ...]")] = ()
    """Texts, each in quotes; '-' stands for standard input, a text a line."""
    files: tuple[str, ...] = ()
    """Files to read texts from: a text a line, or a row of the column 'text'."""
    tokenizer: TokenizerName = "model"
    """model: cut words as in training; whitespace: they are cut already, with spaces between."""
    json: Flag = False
    """Print one JSON object a text, each on a line."""


def open_model(folder: Path, tokenizer: TokenizerName) -> LoadedModel:
    """Load a model that can cut raw text into words."""
    from elmo.language_model import open_model as open_any

    loaded = open_any(folder)
    if tokenizer == "whitespace":
        return replace(loaded, tokenizer=replace(loaded.tokenizer, tokenizer="whitespace"))
    if loaded.tokenizer.tokenizer == "custom":
        raise UserError(
            f"{folder}: this model reads words cut by a Python function of its maker, which a "
            "command cannot call; cut the text into words yourself, put spaces between them and "
            "use --tokenizer whitespace"
        )
    return loaded


def open_embedder(
    folder: Path, tokenizer: TokenizerName, device: str, precision: PrecisionName
) -> Embedder:
    """Load a model that can cut raw text into words, ready to give vectors."""
    from elmo.embed.embedder import Embedder, load_start_state
    from elmo.training.optim import compute_precision

    loaded = open_model(folder, tokenizer)
    model = loaded.model.to(device)
    model.compute_dtype = compute_precision(precision, model.device)
    return Embedder(loaded, start_state=load_start_state(folder, model))


def read_given(given: ModelAndTexts) -> list[str]:
    """All texts that were named, in order."""
    from elmo.text.config import ReadOptions
    from elmo.text.sources import read_documents, resolve

    sources = [text for text in given.texts if text == "-"] + list(given.files)
    written = [checked(text) for text in given.texts if text != "-"]
    return written + (list(read_documents(resolve(sources), ReadOptions())) if sources else [])


def require_texts(texts: Sequence[str]) -> Sequence[str]:
    """Make sure that there is a text, and that none is empty."""
    if not texts:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    if any(not text.strip() for text in texts):
        raise UserError("expected a text with words, but an empty one was given; leave it out")
    return texts


def checked(text: str) -> str:
    """A text as it was typed, if it is UTF-8."""
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UserError(f"expected text in UTF-8, but got {text!r:.60}; convert it first")
    return text

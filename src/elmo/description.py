"""What is in a model folder, told without loading its weights."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from elmo.bilm.config import BiLMConfig
from elmo.checkpoint import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    checked_folder,
    load_header,
    read_config,
)
from elmo.config import Json, check, from_json
from elmo.files import read_text
from elmo.text.tokenizers import TokenizerConfig
from elmo.text.vocabulary import UNKNOWN, Vocabulary

LARGEST_CARD = 1 << 20
_CARD_ROW = re.compile(r"^\| (forward|backward) \| (\d+\.?\d*) \|", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """One part of a model, and how many numbers it has learned."""

    name: str
    parameters: int


@dataclass(frozen=True)
class FileSize:
    """A file of the folder and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class HeldOutPerplexity:
    """What the model card says of the model's quality."""

    forward: float
    backward: float


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """What a model is made of, from what, and how well it predicts."""

    folder: str
    model: BiLMConfig
    tokenizer: TokenizerConfig
    vocabulary: int
    """Words, the three special ones included."""
    training_tokens: int
    """Running words the vocabulary was counted in."""
    unknown_rate: float
    """Share of these that the vocabulary does not hold."""
    parameters: int
    parts: tuple[Part, ...]
    number_format: str
    """How the numbers are stored, such as F32 or BF16."""
    files: tuple[FileSize, ...]
    held_out_perplexity: HeldOutPerplexity | None
    stages: Json
    """How it was made: the settings of all other stages, as its config.json has them."""


def describe_model(folder: Path | str) -> ModelDescription:
    """Read settings, vocabulary and card, and of the weights the names and shapes."""
    folder = checked_folder(Path(folder))
    config = read_config(folder)
    where = folder / CONFIG
    settings = from_json(BiLMConfig, config.get("model"), f"{where}: model")
    check(settings)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    header = load_header(folder / WEIGHTS)
    parts = _parts({name: math.prod(entry.shape) for name, entry in header.items()})
    words = sum(vocabulary.counts[UNKNOWN:])
    return ModelDescription(
        folder=str(folder),
        model=settings,
        tokenizer=from_json(TokenizerConfig, config.get("tokenizer"), f"{where}: tokenizer"),
        vocabulary=len(vocabulary),
        training_tokens=words,
        unknown_rate=vocabulary.counts[UNKNOWN] / max(1, words),
        parameters=sum(part.parameters for part in parts),
        parts=parts,
        number_format=", ".join(sorted({entry.number_format for entry in header.values()})),
        files=tuple(_file_sizes(folder)),
        held_out_perplexity=_perplexity_of_card(folder / CARD),
        stages={key: config[key] for key in config.keys() - {"format", "model", "tokenizer"}},
    )


def _parts(sizes: dict[str, int]) -> tuple[Part, ...]:
    """Sum parameters by the part of the model they belong to: the first word of their names."""
    totals: Counter[str] = Counter()
    for name, size in sizes.items():
        totals[name.partition(".")[0]] += size
    return tuple(Part(name, size) for name, size in totals.items())


def _file_sizes(folder: Path) -> list[FileSize]:
    names = (CONFIG, WEIGHTS, VOCABULARY, CARD)
    paths = [folder / name for name in names if (folder / name).is_file()]
    return [FileSize(path.name, path.stat().st_size) for path in paths]


def _perplexity_of_card(path: Path) -> HeldOutPerplexity | None:
    if not path.is_file():
        return None
    found = dict(_CARD_ROW.findall(read_text(path, LARGEST_CARD)))
    if found.keys() != {"forward", "backward"}:
        return None
    return HeldOutPerplexity(float(found["forward"]), float(found["backward"]))

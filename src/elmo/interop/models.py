"""Any model by its path: a folder of ours, or one with official files."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from elmo.checkpoint import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    LoadedModel,
    load_model,
    parameter_count,
    save_config,
    save_weights,
)
from elmo.description import FileSize, ModelDescription, Part, describe_model
from elmo.errors import UserError
from elmo.files import folder_written_whole, sha256, write_text
from elmo.interop.hdf5 import opened
from elmo.interop.official import OPTIONS, STAGE, OfficialModel, load_official, look_through
from elmo.interop.official_vocabulary import vocabulary_beside
from elmo.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class OfficialFiles:
    """The files of an official model in one folder."""

    options: Path
    weights: Path
    vocabulary: Path | None


def open_model(
    path: Path | str, device: str = "cpu", custom_tokenizer: Tokenizer | None = None
) -> LoadedModel:
    """Load a model folder of ours, or one that holds options.json and one *.hdf5."""
    folder = Path(path)
    if not is_official(folder):
        return load_model(folder, device, custom_tokenizer)
    files = official_files(folder)
    loaded = load_official(files.options, files.weights, files.vocabulary)
    return LoadedModel(loaded.model.to(device), loaded.tokenizer, loaded.config, custom_tokenizer)


def describe(path: Path | str) -> ModelDescription:
    """Tell what is in a folder of either kind, without loading its weights."""
    folder = Path(path)
    return _describe_official(folder) if is_official(folder) else describe_model(folder)


def save_model(loaded: LoadedModel, folder: Path | str, origin: Path | None = None) -> None:
    """Write a new model folder of ours; `origin` is the file the weights came from."""
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another folder or remove it")
    stages = {STAGE: loaded.config[STAGE]} if STAGE in loaded.config else {}
    with folder_written_whole(folder) as beside:
        save_config(beside, loaded.model.config, loaded.tokenizer, stages)
        loaded.model.vocabulary.save(beside / VOCABULARY)
        save_weights(beside / WEIGHTS, loaded.model)
        write_text(beside / CARD, _card(loaded, origin))


def is_official(folder: Path) -> bool:
    """Whether a folder holds files of an official model rather than one of ours."""
    has_files = (folder / OPTIONS).is_file() or any(folder.glob("*.hdf5"))
    return has_files and not (folder / CONFIG).exists()


def official_files(folder: Path) -> OfficialFiles:
    """Find the files of an official model, none of which may lie elsewhere."""
    weights = sorted(folder.glob("*.hdf5"))
    options = [folder / OPTIONS] if (folder / OPTIONS).is_file() else []
    if not options or len(weights) != 1:
        named = ", ".join(one.name for one in (*options, *weights))
        raise UserError(
            f"{folder}: an official model is {OPTIONS} and exactly one .hdf5 file of weights, but "
            f"here is {named}"
        )
    files = OfficialFiles(folder / OPTIONS, weights[0], vocabulary_beside(folder / OPTIONS))
    for path in (files.options, files.weights, files.vocabulary):
        if path is not None and not path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{path}: leads out of the model folder; a model holds its own files")
    return files


def _describe_official(folder: Path) -> ModelDescription:
    files = official_files(folder)
    with opened(files.weights) as datasets:
        found = look_through(files.options, files.weights, datasets, files.vocabulary)
    parts = _parts(found)
    present = [path for path in (files.options, files.weights, files.vocabulary) if path]
    return ModelDescription(
        folder=str(folder),
        model=found.config,
        tokenizer=found.tokenizer,
        vocabulary=len(found.vocabulary),
        training_tokens=0,
        unknown_rate=0.0,
        parameters=sum(part.parameters for part in parts),
        parts=parts,
        number_format="F32",
        files=tuple(FileSize(path.name, path.stat().st_size) for path in present),
        held_out_perplexity=None,
        stages={STAGE: {"options": found.options}},
    )


def _parts(found: OfficialModel) -> tuple[Part, ...]:
    """Numbers by part of the model, as the file has them: without a row for padding."""
    totals: Counter[str] = Counter()
    for row in found.rows:
        totals[row.parameters[0].partition(".")[0]] += math.prod(row.shape)
    return tuple(Part(name, size) for name, size in totals.items())


def _card(loaded: LoadedModel, origin: Path | None) -> str:
    config = loaded.model.config
    source = "" if origin is None else f"| weights | {origin.name}, sha256 `{sha256(origin)}` |\n"
    return f"""# A bidirectional language model (ELMo), converted

| | |
|---|---|
| input | {config.input} |
| layers | {config.layers} a direction, {config.hidden} cells, output {config.width} |
| parameters | {parameter_count(loaded.model):,} |
{source}
Made from official files with `elmo convert`. They hold no softmax: the model embeds words, but does
not predict them.
"""

"""Official ELMo models, options.json and weights.hdf5: read and written without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel, model_tensors, without_weights
from elmo.config import Json, from_json, to_json
from elmo.errors import ConfigError, UserError, require_extra
from elmo.files import folder_written_whole, write_json
from elmo.interop.hdf5 import Datasets, opened, read_numbers
from elmo.interop.official_fit import require_fit, require_official
from elmo.interop.official_names import Array, Row, names_of
from elmo.interop.official_options import config_of, options_of, read_options
from elmo.interop.official_vocabulary import (
    FILE as VOCABULARY,
)
from elmo.interop.official_vocabulary import (
    character_vocabulary,
    read_words,
    save_words,
    vocabulary_beside,
    word_vocabulary,
)
from elmo.interop.stored_tokens import store_tokens
from elmo.text.tokenizers import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"
STAGE = "official"
OURS = "elmo"
"""Where options.json keeps what only we know; the originals ignore it."""
_TOKEN_PROJECTION = "token_layer.projection"  # noqa: S105


@dataclass(frozen=True)
class OfficialModel:
    """What the files say of a model before its numbers are read."""

    options: Json
    config: BiLMConfig
    vocabulary: Vocabulary
    rows: Sequence[Row]

    @property
    def tokenizer(self) -> TokenizerConfig:
        """How text is cut; official models leave it open."""
        kept: Any = self.options.get(OURS, {})
        told = cast("Json", kept).get("tokenizer", {}) if isinstance(kept, dict) else kept
        return from_json(TokenizerConfig, told, f"{OPTIONS}: {OURS}.tokenizer")


def load_official(
    options: Path | str,
    weights: Path | str,
    vocabulary: Path | str | None = None,
    token_vectors: Path | str | None = None,
) -> LoadedModel:
    """Build a model from official files.

    The vocabulary is by default the vocab*.txt beside the options, if there is one;
    `token_vectors` is an HDF5 file with a vector for each of its words.
    """
    options, weights = Path(options), Path(weights)
    words = vocabulary_beside(options) if vocabulary is None else Path(vocabulary)
    with opened(weights) as datasets:
        found = look_through(options, weights, datasets, words)
        tensors = _tensors(found.rows, datasets)
    model = _built(found, tensors)
    if token_vectors is not None:
        if words is None:
            raise UserError(f"{token_vectors}: token vectors need the vocabulary of their rows")
        store_tokens(model, words, Path(token_vectors))
    return LoadedModel(model, found.tokenizer, {STAGE: {"options": found.options}})


def look_through(
    options: Path, weights: Path, datasets: Datasets, vocabulary: Path | None
) -> OfficialModel:
    """Make sure that options, vocabulary and weights go together; no number is read."""
    raw = read_options(options)
    require_official(weights, datasets)
    config = config_of(raw, datasets.keys(), str(options))
    known = _vocabulary(config, vocabulary, options)
    is_projected = (
        "CNN_proj/W_proj" in datasets
        or "CNN_proj/b_proj" in datasets
        or config.characters.features != config.width
    )
    rows = names_of(config, len(known), token_projection=is_projected)
    require_fit(weights, options, datasets, rows)
    return OfficialModel(raw, config, known, rows)


def save_official(loaded: LoadedModel, folder: Path | str) -> None:
    """Write a new folder of official files; the softmax and the counts of words stay behind."""
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another folder or remove it")
    model = loaded.model
    tensors = {name: tensor.float() for name, tensor in model_tensors(model).items()}
    options = options_of(model.config)
    rows = names_of(
        model.config,
        len(model.vocabulary),
        token_projection=not _is_identity(model.config, tensors),
    )
    with folder_written_whole(folder) as beside:
        write_json(beside / OPTIONS, _kept_options(loaded, options, rows))
        if model.vocabulary.words != SPECIAL_WORDS:
            save_words(beside / VOCABULARY, model.vocabulary)
        _write_weights(beside / WEIGHTS, rows, tensors)


def _vocabulary(config: BiLMConfig, path: Path | None, options: Path) -> Vocabulary:
    if config.spelled:
        return character_vocabulary([] if path is None else read_words(path))
    if path is None:
        raise UserError(
            f"{options}: a model of words (there is no 'char_cnn') needs the vocabulary it was "
            f"trained with; put it beside as {VOCABULARY}, a word a line"
        )
    return word_vocabulary(read_words(path), path)


def _built(found: OfficialModel, tensors: dict[str, Tensor]) -> BiLM:
    _add_identity(found.config, tensors)
    with without_weights():
        model = BiLM(found.config, found.vocabulary)
    model.load_state_dict(tensors, assign=True)
    return model


def _tensors(rows: Sequence[Row], datasets: Datasets) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for row in rows:
        parts = row.layout.to_ours(read_numbers(datasets[row.dataset]))
        for name, part in zip(row.parameters, parts, strict=True):
            found[name] = torch.from_numpy(np.ascontiguousarray(part))
    return found


def _add_identity(config: BiLMConfig, tensors: dict[str, Tensor]) -> None:
    """Ours always projects the character features; theirs not where nothing would change."""
    if config.spelled and f"{_TOKEN_PROJECTION}.weight" not in tensors:
        tensors[f"{_TOKEN_PROJECTION}.weight"] = torch.eye(config.width)
        tensors[f"{_TOKEN_PROJECTION}.bias"] = torch.zeros(config.width)


def _is_identity(config: BiLMConfig, tensors: Mapping[str, Tensor]) -> bool:
    if not config.spelled or config.characters.features != config.width:
        return False
    weight = tensors[f"{_TOKEN_PROJECTION}.weight"].cpu()
    bias = tensors[f"{_TOKEN_PROJECTION}.bias"].cpu()
    return torch.equal(weight, torch.eye(config.width)) and not bias.any()


def _kept_options(loaded: LoadedModel, derived: Json, rows: Sequence[Row]) -> Json:
    """The options a model came with while they still describe it, or else new ones."""
    kept = loaded.config.get(STAGE, {}).get("options")
    options = dict(kept) if _still_true(kept, derived, rows) else derived
    if loaded.tokenizer != TokenizerConfig():
        options[OURS] = {"tokenizer": to_json(loaded.tokenizer)}
    return options


def _still_true(kept: Any, derived: Json, rows: Sequence[Row]) -> bool:
    if not isinstance(kept, dict):
        return False
    try:
        said = config_of(cast("Json", kept), [row.dataset for row in rows], OPTIONS)
        return options_of(said) == derived
    except ConfigError:
        return False


def _write_weights(path: Path, rows: Sequence[Row], tensors: Mapping[str, Tensor]) -> None:
    h5py: Any = require_extra("h5py", "official")
    with h5py.File(path, "w") as file:
        for row in rows:
            ours: list[Array] = [tensors[name].cpu().numpy() for name in row.parameters]
            numbers = np.ascontiguousarray(row.layout.to_official(ours), np.float32)
            file.create_dataset(row.dataset, data=numbers)

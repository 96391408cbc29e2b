"""Official ELMo models, options.json and weights.hdf5: read and written without loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.bilm.tokens import TokenLayer
from elmo.config import Json, check, from_json, to_json
from elmo.errors import ConfigError, UserError
from elmo.files import atomic_folder, read_json, read_text, write_json, write_text
from elmo.model_folder import ModelDescription, model_tensors, require_inside, without_weights
from elmo.official.hdf5 import Datasets, opened, read_numbers, require_readable, shape_and_type
from elmo.runtime import require_extra
from elmo.text.batching import Words
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import (
    CHARACTER_IDS,
    LARGEST_FILE,
    ROW_LENGTH,
    SPECIAL_WORDS,
    UNKNOWN,
    Vocabulary,
    read_counts,
)

OPTIONS = "options.json"
WEIGHTS = "weights.hdf5"
VOCABULARY = "vocab.txt"
DATASET = "embedding"  # the dataset of word vectors, in a word model or in a file of token vectors
STAGE = "official"  # where our config.json keeps the options an official model came with
OURS = "elmo"  # where options.json keeps our tokenizer; the original programs ignore it
Array = NDArray[np.float32]


class OfficialFiles(NamedTuple):
    options: Path
    weights: Path
    vocabulary: Path | None


def official_files(folder: Path) -> OfficialFiles:
    """Find the files of an official model under their published or their short names.

    options.json goes with weights.hdf5, NAME_options.json with NAME_weights.hdf5; weights may have
    any name if no other .hdf5 file is in the folder. A path to one of the files, rather than to the
    folder, chooses among several.
    """
    named, folder = (folder, folder.parent) if folder.is_file() else (None, folder)
    plain = folder / OPTIONS
    options = [plain] if plain.is_file() else sorted(folder.glob(f"*_{OPTIONS}"))
    if named is not None and named.suffix == ".hdf5":
        weights = [named]
        own = named.with_name(named.name.removesuffix(WEIGHTS) + OPTIONS)
        options = [own] if own.is_file() else options
    else:
        options = options if named is None else [named]
        paired = [path.with_name(path.name.removesuffix(OPTIONS) + WEIGHTS) for path in options]
        weights = [path for path in paired if path.is_file()]
        weights = weights or sorted(folder.glob(f"*{WEIGHTS}")) or sorted(folder.glob("*.hdf5"))
    if len(options) != 1 or len(weights) != 1:
        names = ", ".join(path.name for path in (*options, *weights))
        raise UserError(
            f"{folder}: an official model is one {OPTIONS} (or NAME_{OPTIONS}) and exactly one "
            f".hdf5 file of weights, but here is {names or 'neither'}; name the .hdf5 file "
            "itself, or keep one model per folder"
        )
    files = OfficialFiles(options[0], weights[0], vocabulary_next_to(options[0]))
    for path in files:
        if path is not None:
            require_inside(folder, path)
    return files


# Which dataset of the official file is which of our parameters, and how its numbers are laid out.


class Row(NamedTuple):
    """One dataset, and the parameters that hold its numbers."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    layout: Literal["same", "transposed", "convolution", "padding row", "gates", "stacked gates"]


def names_of(config: BiLMConfig, vocabulary: int, *, token_projection: bool = True) -> list[Row]:
    """All datasets of a model, in the order of our parameters.

    `token_projection` is false in files whose character features are as wide as the layers.
    """
    rows: list[Row] = []

    def linear(weight: str, bias: str, size: tuple[int, int], ours: str) -> None:
        rows.append(Row(weight, size, (f"{ours}.weight",), "transposed"))
        rows.append(Row(bias, size[1:], (f"{ours}.bias",), "same"))

    if config.spelled:
        characters, ours = config.characters, "token_layer.characters"
        shape: tuple[int, ...] = (CHARACTER_IDS - 1, characters.char_dim)
        rows.append(Row("char_embed", shape, (f"{ours}.characters.weight",), "padding row"))
        for idx, (width, number) in enumerate(characters.filters):
            shape = (1, width, characters.char_dim, number)
            filters = f"{ours}.convolutions.{idx}"
            rows.append(Row(f"CNN/W_cnn_{idx}", shape, (f"{filters}.weight",), "convolution"))
            rows.append(Row(f"CNN/b_cnn_{idx}", (number,), (f"{filters}.bias",), "same"))
        for idx in range(characters.highways):
            size = (characters.features, characters.features)
            theirs, highway = f"CNN_high_{idx}", f"{ours}.highways.{idx}"
            # Despite its name, "carry" gates what is transformed.
            linear(f"{theirs}/W_carry", f"{theirs}/b_carry", size, f"{highway}.gate")
            linear(f"{theirs}/W_transform", f"{theirs}/b_transform", size, f"{highway}.transform")
        if token_projection:
            size = (characters.features, config.width)
            linear("CNN_proj/W_proj", "CNN_proj/b_proj", size, "token_layer.projection")
    else:
        shape = (vocabulary, config.width)
        rows.append(Row(DATASET, shape, ("token_layer.words.weight",), "same"))

    gates = 4 * config.hidden
    for direction, stack in enumerate(("forward_stack", "backward_stack")):
        for layer in range(config.layers):
            theirs = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"{stack}.layers.{layer}"
            weights = (f"{ours}.input_weight", f"{ours}.recurrent_weight")
            rows.append(Row(f"{theirs}/W_0", (2 * config.width, gates), weights, "stacked gates"))
            rows.append(Row(f"{theirs}/B", (gates,), (f"{ours}.bias",), "gates"))
            if config.projection is not None:
                shape = (config.hidden, config.projection)
                rows.append(Row(f"{theirs}/W_P_0", shape, (f"{ours}.projection_weight",), "same"))
    return rows


def to_ours(row: Row, values: Array) -> tuple[Array, ...]:
    """Lay out the numbers of a dataset as those of its parameters."""
    match row.layout:
        case "same":
            return (values,)
        case "transposed":
            return (values.T,)
        case "convolution":  # (1, width, characters, filters) -> (filters, characters, width)
            return (values[0].transpose(2, 1, 0),)
        case "padding row":
            return (np.concatenate([np.zeros_like(values[:1]), values]),)
        case "gates" | "stacked gates":
            i, j, f, o = np.split(values, 4, axis=-1)  # j is the candidate
            ordered = np.concatenate([i, f, o, j], axis=-1)
            # The rows of the input come first, then as many of the previous output.
            return (ordered,) if row.layout == "gates" else tuple(np.split(ordered, 2, axis=0))


def to_official(row: Row, ours: Sequence[Array]) -> Array:
    """The inverse of `to_ours`."""
    match row.layout:
        case "same":
            return ours[0]
        case "transposed":
            return ours[0].T
        case "convolution":
            return ours[0].transpose(2, 1, 0)[None]
        case "padding row":
            return ours[0][1:]
        case "gates" | "stacked gates":
            i, f, o, j = np.split(np.concatenate(ours, axis=0), 4, axis=-1)
            return np.concatenate([i, j, f, o], axis=-1)


_CAUSES = {
    DATASET: "the vocabulary is not that of the weights, or the options lack 'char_cnn'",
    "char_embed": "'char_cnn' in the options is not that of the weights",
    "CNN/": "char_cnn.filters in the options are not those of the weights",
    "CNN_high_": "char_cnn.n_highway in the options is not that of the weights",
    "CNN_proj/": "char_cnn.filters or lstm.projection_dim is not that of the weights",
    "RNN_": "lstm.n_layers, dim or projection_dim in the options is not that of the weights",
}
"""Why a dataset whose name starts like this may not fit the options."""


def require_fit(path: Path, options: Path, datasets: Datasets, rows: Sequence[Row]) -> None:
    """Refuse a file that does not hold exactly these datasets; report all problems at once."""
    problems: dict[str, str] = {}
    for row in rows:
        if row.dataset not in datasets:
            problems[row.dataset] = f"{row.shape} is missing"
            continue
        shape, dtype = shape_and_type(datasets[row.dataset])
        if shape != row.shape:
            problems[row.dataset] = f"is {shape}, expected {row.shape}"
        if dtype != "float32":
            problems[row.dataset] = f"holds {dtype}, expected float32"
    expected = {row.dataset for row in rows}
    for name, dataset in datasets.items():
        if name not in expected:
            problems[name] = f"{shape_and_type(dataset)[0]} is not expected"
    if not problems:
        require_readable(path, datasets)
        return

    first = next(iter(problems))
    if any("softmax" in name for name in problems):
        cause = "the softmax was written too, which no official file holds; take it out"
    elif all("expected float32" in problem for problem in problems.values()):
        cause = "the weights were converted to another type; convert them to float32"
    elif problems.get("char_embed", "").startswith("is (262,"):
        cause = "a row for padding was written too; official files hold 261 characters"
    else:
        matches = (cause for start, cause in _CAUSES.items() if first.startswith(start))
        cause = next(matches, "another model")
    shown = [f"{name} {problem}" for name, problem in problems.items()][:6]
    more = f"; and {len(problems) - 6} more" if len(problems) > 6 else ""
    raise UserError(
        f"{path} does not fit {options}: {'; '.join(shown)}{more}. Likely cause: {cause}"
    )


# options.json


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    dim: int
    projection_dim: int
    n_layers: int
    use_skip_connections: bool = False
    cell_clip: float | None = None
    proj_clip: float | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    dim: int


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    embedding: EmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    activation: Literal["relu", "tanh"]
    n_highway: int | None = 0
    n_characters: int = CHARACTER_IDS  # 262 with padding (inference), 261 without (training)
    max_characters_per_token: int = ROW_LENGTH


@dataclass(frozen=True, kw_only=True)
class OfficialOptions:
    """The part of options.json that says what a model is; the rest says how it was trained."""

    lstm: LSTMOptions
    char_cnn: CharacterOptions | None = None  # None for a word model
    bidirectional: bool = True
    dropout: float = BiLMConfig.dropout

    def contradictions(self) -> Iterable[str]:
        """Yield what no model can be built from; told together with the problems of the biLM."""
        lstm, characters = self.lstm, self.char_cnn
        if not self.bidirectional:
            yield "bidirectional: expected true, since a biLM reads in both directions"
        if lstm.projection_dim > lstm.dim:
            yield (
                f"lstm.projection_dim: {lstm.projection_dim} is more than the {lstm.dim} cells "
                "(lstm.dim) it projects"
            )
        if characters and characters.n_characters not in (CHARACTER_IDS - 1, CHARACTER_IDS):
            yield (
                f"char_cnn.n_characters: expected {CHARACTER_IDS - 1} or {CHARACTER_IDS} (256 "
                f"bytes and five or six marks), got {characters.n_characters}"
            )
        if characters and characters.max_characters_per_token != ROW_LENGTH:
            yield (
                f"char_cnn.max_characters_per_token: expected {ROW_LENGTH}, got "
                f"{characters.max_characters_per_token}"
            )


def read_options(path: Path) -> Json:
    """Read options.json as it is, or say why it cannot be the options of a model."""
    options = read_json(path, 1 << 20)
    if not isinstance(options, dict) or "lstm" not in options:
        raise UserError(
            f"{path}: not the options of an official ELMo model, which are a JSON object with "
            "'lstm' and, if the model reads characters, 'char_cnn'"
        )
    return cast("Json", options)


def config_of(options: Json, datasets: Collection[str], where: str) -> BiLMConfig:
    """The biLM that the options and the names of the datasets in the weights describe together."""
    known = {field.name for field in fields(OfficialOptions)}
    ours = {key: value for key, value in options.items() if key in known}
    read = from_json(OfficialOptions, ours, where)
    lstm, cnn = read.lstm, read.char_cnn
    # The originals leave out a projection that would not make the output smaller.
    has_projection = lstm.projection_dim < lstm.dim or any(n.endswith("/W_P_0") for n in datasets)
    characters = CharacterConfig()
    if cnn is not None:
        characters = CharacterConfig(
            char_dim=cnn.embedding.dim,
            filters=cnn.filters,
            highways=cnn.n_highway or 0,
            activation=cnn.activation,
        )
    config = BiLMConfig(
        input="words" if cnn is None else "characters",
        word_dim=lstm.projection_dim,
        characters=characters,
        layers=lstm.n_layers,
        hidden=lstm.dim,
        projection=lstm.projection_dim if has_projection else None,
        skip=lstm.use_skip_connections,
        cell_clip=lstm.cell_clip,
        projection_clip=lstm.proj_clip if has_projection else None,
        dropout=read.dropout,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    problems = list(read.contradictions())
    try:
        check(config)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return config


def options_of(config: BiLMConfig) -> Json:
    check(config)
    problems: list[str] = []
    if config.input == "both":
        problems.append("it knows models of words or of characters, not of both")
    if config.input == "words" and config.word_dim != config.width:
        problems.append(
            f"its word vectors are as wide as its layers, but here they have {config.word_dim} "
            f"and {config.width} numbers"
        )
    if config.skip_tokens:
        problems.append("its first layer does not add the token vectors to its output")
    if config.width > config.hidden:
        problems.append(f"its projections make {config.hidden} cells fewer, not {config.width}")
    if problems:
        raise UserError(f"the official format cannot hold this model: {'; '.join(problems)}")
    lstm = LSTMOptions(
        dim=config.hidden,
        projection_dim=config.width,
        n_layers=config.layers,
        use_skip_connections=config.skip,
        cell_clip=config.cell_clip,
        proj_clip=config.projection_clip,
    )
    options: Json = {"lstm": to_json(lstm), "dropout": config.dropout}
    if config.spelled:
        characters = config.characters
        cnn = CharacterOptions(
            embedding=EmbeddingOptions(dim=characters.char_dim),
            filters=characters.filters,
            activation=characters.activation,
            n_highway=characters.highways,
        )
        options["char_cnn"] = to_json(cnn)
    return options


# Vocabulary files: one word per line, most frequent first, no counts.


def vocabulary_next_to(path: Path) -> Path | None:
    """The one vocab*.txt in the folder of a file, if there is one."""
    candidates = sorted(path.parent.glob("vocab*.txt"))
    if len(candidates) > 1:
        raise UserError(
            f"{path.parent}: expected at most one vocabulary, but there are "
            f"{', '.join(path.name for path in candidates)}; keep the one of the model's training"
        )
    return candidates[0] if candidates else None


def read_words(path: Path) -> list[str]:
    lines = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    words = [line.strip() for line in lines]
    for number, word in enumerate(words, start=1):
        if not word or "\t" in word:
            raise UserError(f"{path}, line {number}: expected one word; got {word[:80]!r}")
    return words


def read_any_words(path: Path) -> list[str]:
    """The words of an official vocabulary file or of our vocabulary.txt, which adds counts."""
    first_line = read_text(path, LARGEST_FILE).partition("\n")[0]
    return read_counts(path)[0] if "\t" in first_line else read_words(path)


def _read_vocabulary(config: BiLMConfig, path: Path | None, options: Path) -> Vocabulary:
    words = [] if path is None else read_words(path)
    if config.spelled:
        # Words the model is known to have seen; it can read any other too.
        words = [*SPECIAL_WORDS, *(word for word in words if word not in SPECIAL_WORDS)]
    elif path is None:
        raise UserError(
            f"{options}: a word model (there is no 'char_cnn') needs the vocabulary it was "
            f"trained with; put it into the same folder as {VOCABULARY}, one word per line"
        )
    elif tuple(words[:3]) != SPECIAL_WORDS:
        raise UserError(
            f"{path}: the vocabulary of a word model must start with the lines "
            f"{', '.join(SPECIAL_WORDS)}, as bilm-tf asks for; it starts with {words[:3]}"
        )
    return Vocabulary(tuple(words), (0,) * len(words))


# Whole models


def load_official(
    options: Path | str,
    weights: Path | str,
    vocabulary: Path | str | None = None,
    token_vectors: Path | str | None = None,
) -> tuple[BiLM, TokenizerConfig, Json]:
    """Build the network from official files; also return tokenizer settings and a config.

    The arguments are those of `LanguageModel.from_official`.
    """
    options, weights = Path(options), Path(weights)
    words = vocabulary_next_to(options) if vocabulary is None else Path(vocabulary)
    tensors: dict[str, Tensor] = {}
    with opened(weights) as datasets:
        content, config, known, rows = _inspect(OfficialFiles(options, weights, words), datasets)
        for row in rows:
            parts = to_ours(row, read_numbers(datasets[row.dataset]))
            for name, part in zip(row.parameters, parts, strict=True):
                tensors[name] = torch.from_numpy(np.ascontiguousarray(part))
    if config.spelled and "token_layer.projection.weight" not in tensors:
        # We always project the character features; they do not where it would change nothing.
        tensors["token_layer.projection.weight"] = torch.eye(config.width)
        tensors["token_layer.projection.bias"] = torch.zeros(config.width)
    with without_weights():
        model = BiLM(config, known)
    model.load_state_dict(tensors, assign=True)
    if token_vectors is not None:
        if words is None:
            raise UserError(f"{token_vectors}: token vectors need the vocabulary of their rows")
        _store_tokens(model, words, Path(token_vectors))
    return model, _tokenizer_of(content), {STAGE: {"options": content}}


def _inspect(
    files: OfficialFiles, datasets: Datasets
) -> tuple[Json, BiLMConfig, Vocabulary, list[Row]]:
    options = read_options(files.options)
    if not any(name.startswith(tuple(_CAUSES)) for name in datasets):
        names = sorted(datasets)
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "") or "nothing"
        raise UserError(
            f"{files.weights}: an HDF5 file, but not of an official ELMo model: it holds {shown}, "
            f"and nothing whose name starts with {' or '.join(_CAUSES)}"
        )
    config = config_of(options, datasets.keys(), str(files.options))
    vocabulary = _read_vocabulary(config, files.vocabulary, files.options)
    projected = (
        not datasets.keys().isdisjoint({"CNN_proj/W_proj", "CNN_proj/b_proj"})
        or config.characters.features != config.width
    )
    rows = names_of(config, len(vocabulary), token_projection=projected)
    require_fit(files.weights, files.options, datasets, rows)
    return options, config, vocabulary, rows


def _tokenizer_of(options: Json) -> TokenizerConfig:
    ours: Any = options.get(OURS, {})
    tokenizer = cast("Json", ours).get("tokenizer", {}) if isinstance(ours, dict) else ours
    return from_json(TokenizerConfig, tokenizer, f"{OPTIONS}: {OURS}.tokenizer")


def describe_official(folder: Path) -> ModelDescription:
    """Describe a folder of official files without reading its weights."""
    files = official_files(folder)
    with opened(files.weights) as datasets:
        options, config, vocabulary, rows = _inspect(files, datasets)
    parts: Counter[str] = Counter()
    for row in rows:
        parts[row.parameters[0].partition(".")[0]] += math.prod(row.shape)
    return ModelDescription(
        folder=str(folder),
        model=config,
        tokenizer=_tokenizer_of(options),
        vocabulary=len(vocabulary),
        parameters=sum(parts.values()),
        parts=dict(parts),
        number_format="F32",
        files={path.name: path.stat().st_size for path in files if path is not None},
        stages={STAGE: {"options": options}},
    )


def save_official(folder: Path, model: BiLM, tokenizer: TokenizerConfig, config: Json) -> None:
    """Write a new folder of official files, without the softmax and the counts of words.

    `config` is that of the model folder: options the model came with, which also say how it was
    trained, are kept as long as they describe it.
    """
    h5py: Any = require_extra("h5py", "official")
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another folder or remove it")
    if model.vocabulary.spelling is not None:
        raise UserError(
            "the official format cannot hold this model: it spells UTF-8 bytes, and this one code "
            "points, with a dictionary of its own"
        )
    options = options_of(model.config)
    tensors = {name: tensor.float().cpu() for name, tensor in model_tensors(model).items()}
    projected = not _projects_nothing(model.config, tensors)
    rows = names_of(model.config, len(model.vocabulary), token_projection=projected)
    came_with: Json = {}
    with suppress(KeyError, TypeError, ValueError):
        came_with = dict(config[STAGE]["options"])
    with suppress(ConfigError):
        if options_of(config_of(came_with, [row.dataset for row in rows], OPTIONS)) == options:
            options = came_with
    if tokenizer != TokenizerConfig():
        options[OURS] = {"tokenizer": to_json(tokenizer)}
    with atomic_folder(folder) as temporary:
        write_json(temporary / OPTIONS, options)
        if model.vocabulary.words != SPECIAL_WORDS:
            words = "".join(f"{word}\n" for word in model.vocabulary.words)
            write_text(temporary / VOCABULARY, words)
        with h5py.File(temporary / WEIGHTS, "w") as file:
            for row in rows:
                numbers = to_official(row, [tensors[name].numpy() for name in row.parameters])
                file.create_dataset(row.dataset, data=np.ascontiguousarray(numbers, np.float32))


def _projects_nothing(config: BiLMConfig, tensors: Mapping[str, Tensor]) -> bool:
    if not config.spelled or config.characters.features != config.width:
        return False
    identity = torch.equal(tensors["token_layer.projection.weight"], torch.eye(config.width))
    return identity and not tensors["token_layer.projection.bias"].any()


# Token vectors stored for a fixed vocabulary.


class StoredTokens(TokenLayer):
    """A token layer that looks up the vectors of some words and spells all others.

    For embedding, not for training: the table is neither a parameter nor saved.
    """

    def __init__(self, model: BiLM, vectors: Tensor, stored: Tensor) -> None:
        with without_weights():
            super().__init__(model.config, model.vocabulary)
        self.characters = model.token_layer.characters
        self.projection = model.token_layer.projection
        self.register_buffer("vectors", vectors, persistent=False)  # (vocabulary, width)
        self.register_buffer("stored", stored, persistent=False)  # (vocabulary,), bool

    def forward(self, words: Words) -> Tensor:
        vectors = self.get_buffer("vectors")[words.ids]
        others = (~self.get_buffer("stored")[words.ids]).nonzero()[:, 0]
        if len(others):
            spellings = None if words.spellings is None else words.spellings[others]
            vectors[others] = super().forward(Words(words.ids[others], spellings))
        return vectors


def _store_tokens(model: BiLM, vocabulary: Path, file: Path) -> None:
    if model.config.input != "characters":
        raise UserError(f"{file}: stored token vectors are for models that read characters")
    words = read_words(vocabulary)
    vectors = read_token_vectors(file, len(words), model.config.width)
    ids = torch.from_numpy(model.vocabulary.encode(words))
    table = torch.zeros(len(model.vocabulary), model.config.width)
    stored = torch.zeros(len(model.vocabulary), dtype=torch.bool)
    table[ids], stored[ids] = torch.from_numpy(vectors), True
    stored[UNKNOWN] = False  # the id of every word that is not in the file
    model.token_layer = StoredTokens(model, table, stored)


def read_token_vectors(path: Path, words: int, width: int) -> Array:
    """Read (words, width) from a file that holds the one dataset `embedding`."""
    with opened(path) as datasets:
        if list(datasets) != [DATASET]:
            raise UserError(
                f"{path}: expected the one dataset {DATASET!r} of token vectors, found "
                f"{', '.join(sorted(datasets)[:5]) or 'none'}"
            )
        shape, dtype = shape_and_type(datasets[DATASET])
        if shape != (words, width) or dtype != "float32":
            raise UserError(
                f"{path}: {DATASET} is {shape} of {dtype}, expected {(words, width)} of float32: "
                "one row per word of the vocabulary, as wide as the model's layers"
            )
        require_readable(path, datasets)
        return read_numbers(datasets[DATASET])

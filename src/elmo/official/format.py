"""Official ELMo models, options.json and weights.hdf5: read and written without loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.bilm.tokens import TokenLayer
from elmo.config import Json, check, from_json, to_json
from elmo.errors import ConfigError, UserError, require_extra
from elmo.files import folder_written_whole, read_json, read_text, write_json, write_text
from elmo.model_folder import LoadedModel, model_tensors, without_weights
from elmo.official.hdf5 import Datasets, opened, read_numbers, require_readable, shape_and_type
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

# The one table of names: which dataset of the official file is which of our parameters.
#
# Each row tells the dataset's shape and how its numbers are laid out, there and here.


Array = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """How the numbers of one dataset become those of our parameters, and the way back."""

    to_ours: Callable[[Array], tuple[Array, ...]]
    to_official: Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Row:
    """One dataset, and the parameters that hold its numbers."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    layout: Layout


def names_of(config: BiLMConfig, vocabulary: int, *, token_projection: bool = True) -> list[Row]:
    """All rows of a model, in the order of our parameters.

    `token_projection` is false in files whose character features are as wide as the layers.
    """
    rows = (
        [Row("embedding", (vocabulary, config.width), ("token_layer.words.weight",), SAME)]
        if not config.spelled
        else list(_character_rows(config.characters))
    )
    if config.spelled and token_projection:
        size = (config.characters.features, config.width)
        rows += _linear_rows("CNN_proj/W_proj", "CNN_proj/b_proj", size, "token_layer.projection")
    for number, direction in enumerate(("forward_stack", "backward_stack")):
        for layer in range(config.layers):
            rows += _lstm_rows(config, number, direction, layer)
    return rows


def _character_rows(config: CharacterConfig) -> Iterator[Row]:
    ours = "token_layer.characters"
    shape = (CHARACTER_IDS - 1, config.char_dim)
    yield Row("char_embed", shape, (f"{ours}.characters.weight",), NO_PADDING_ROW)
    for place, (width, number) in enumerate(config.filters):
        shape = (1, width, config.char_dim, number)
        convolution = f"{ours}.convolutions.{place}"
        yield Row(f"CNN/W_cnn_{place}", shape, (f"{convolution}.weight",), CONVOLUTION)
        yield Row(f"CNN/b_cnn_{place}", (number,), (f"{convolution}.bias",), SAME)
    size = (config.features, config.features)
    for place in range(config.highways):
        there, here = f"CNN_high_{place}", f"{ours}.highways.{place}"
        # Despite its name, "carry" is the gate of what is transformed.
        yield from _linear_rows(f"{there}/W_carry", f"{there}/b_carry", size, f"{here}.gate")
        yield from _linear_rows(
            f"{there}/W_transform", f"{there}/b_transform", size, f"{here}.transform"
        )


def _linear_rows(weight: str, bias: str, size: tuple[int, int], ours: str) -> list[Row]:
    return [
        Row(weight, size, (f"{ours}.weight",), TRANSPOSED),
        Row(bias, size[1:], (f"{ours}.bias",), SAME),
    ]


def _lstm_rows(config: BiLMConfig, number: int, direction: str, layer: int) -> Iterator[Row]:
    there = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    here = f"{direction}.layers.{layer}"
    gates = 4 * config.hidden
    weights = (f"{here}.input_weight", f"{here}.recurrent_weight")
    yield Row(f"{there}/W_0", (2 * config.width, gates), weights, STACKED_GATES)
    yield Row(f"{there}/B", (gates,), (f"{here}.bias",), GATES)
    if config.projection is not None:
        shape = (config.hidden, config.projection)
        yield Row(f"{there}/W_P_0", shape, (f"{here}.projection_weight",), SAME)


def _gates_to_ours(values: Array) -> Array:
    """Input, candidate, forget, output → input, forget, output, candidate; last axis."""
    i, j, f, o = np.split(values, 4, axis=-1)
    return np.concatenate([i, f, o, j], axis=-1)


def _gates_to_official(values: Array) -> Array:
    i, f, o, j = np.split(values, 4, axis=-1)
    return np.concatenate([i, j, f, o], axis=-1)


def _split_and_ordered(values: Array) -> tuple[Array, ...]:
    """The rows of the inputs come first, then as many of the last output."""
    inputs, recurrent = np.split(_gates_to_ours(values), 2, axis=0)
    return inputs, recurrent


SAME = Layout(lambda values: (values,), lambda ours: ours[0])
TRANSPOSED = Layout(lambda values: (values.T,), lambda ours: ours[0].T)
CONVOLUTION = Layout(  # (1, width, characters, filters) and (filters, characters, width)
    lambda values: (values[0].transpose(2, 1, 0),),
    lambda ours: ours[0].transpose(2, 1, 0)[None],
)
NO_PADDING_ROW = Layout(
    lambda values: (np.concatenate([np.zeros_like(values[:1]), values]),),
    lambda ours: ours[0][1:],
)
GATES = Layout(lambda values: (_gates_to_ours(values),), lambda ours: _gates_to_official(ours[0]))
STACKED_GATES = Layout(
    _split_and_ordered, lambda ours: _gates_to_official(np.concatenate(ours, axis=0))
)


# Whether a file of weights is the one its options describe, and if not, why.


MOST_SHOWN = 6
_CAUSES = (
    ("embedding", "the vocabulary is not that of the weights, or the options lack 'char_cnn'"),
    ("char_embed", "'char_cnn' in the options is not that of the weights"),
    ("CNN/", "char_cnn.filters in the options are not those of the weights"),
    ("CNN_high_", "char_cnn.n_highway in the options is not that of the weights"),
    ("CNN_proj/", "char_cnn.filters or lstm.projection_dim is not that of the weights"),
    ("RNN_", "lstm.n_layers, dim or projection_dim in the options is not that of the weights"),
)


def require_official(path: Path, datasets: Datasets) -> None:
    """Make sure that a file holds anything of an official model at all."""
    starts = tuple(start for start, _ in _CAUSES)
    if not any(name.startswith(starts) for name in datasets):
        raise UserError(
            f"{path}: an HDF5 file, but not of an official ELMo model: it holds "
            f"{_listed(datasets)}, and nothing whose name starts with {' or '.join(starts)}"
        )


def require_fit(path: Path, options: Path, datasets: Datasets, rows: Sequence[Row]) -> None:
    """Make sure that a file holds exactly these datasets, all problems told at once."""
    expected = {row.dataset: row for row in rows}
    problems = dict(_problems(datasets, expected))
    if problems:
        shown = [f"{name} {problem}" for name, problem in problems.items()][:MOST_SHOWN]
        more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
        raise UserError(
            f"{path} does not fit {options}: {'; '.join(shown)}{more}. "
            f"Likely cause: {_cause(problems)}"
        )
    require_readable(path, datasets)


def _problems(datasets: Datasets, expected: dict[str, Row]) -> Iterable[tuple[str, str]]:
    for name, row in expected.items():
        if name not in datasets:
            yield name, f"{row.shape} is missing"
            continue
        shape, kind = shape_and_type(datasets[name])
        if shape != row.shape:
            yield name, f"is {shape}, expected {row.shape}"
        if kind != "float32":
            yield name, f"holds {kind}, expected float32"
    for name in datasets:
        if name not in expected:
            yield name, f"{shape_and_type(datasets[name])[0]} is not expected"


def _cause(problems: dict[str, str]) -> str:
    if any("softmax" in name for name in problems):
        return "the softmax was written too, which no official file holds; take it out"
    if all("expected float32" in problem for problem in problems.values()):
        return "the weights were converted to another type; convert them to float32"
    if problems.get("char_embed", "").startswith("is (262,"):
        return "a row for padding was written too; official files hold 261 characters"
    first = next(iter(problems))
    return next((cause for start, cause in _CAUSES if first.startswith(start)), "another model")


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = ", …" if len(shown) > 3 else ""
    return (", ".join(shown[:3]) + more) if shown else "nothing"


# options.json of the official models: what it says of a biLM, and how ours would say it.


OFFICIAL_OPTIONS_LARGEST_FILE = 1 << 20
PLENTY = 1000
"""Layers, highways or filters: fewer are looked for one by one in the weights."""
NOT_PUBLISHED = SoftmaxConfig(loss="none", tied=False)


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """Both stacks."""

    dim: int
    projection_dim: int
    n_layers: int
    use_skip_connections: bool = False
    cell_clip: float | None = None
    proj_clip: float | None = None


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    """The vectors of characters."""

    dim: int


@dataclass(frozen=True, kw_only=True)
class CharacterOptions:
    """The character CNN."""

    embedding: EmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    activation: Literal["relu", "tanh"]
    n_highway: int | None = 0
    n_characters: int = CHARACTER_IDS
    """262 where padding counts as a character (inference), 261 where not (training)."""
    max_characters_per_token: int = ROW_LENGTH


@dataclass(frozen=True, kw_only=True)
class OfficialOptions:
    """The part of options.json that says what a model is; the rest tells how it was trained."""

    lstm: LSTMOptions
    char_cnn: CharacterOptions | None = None
    """None for a model of words."""
    bidirectional: bool = True
    dropout: float = BiLMConfig.dropout

    def problems(self) -> Iterable[str]:
        """Yield what no model can be built from."""
        if not self.bidirectional:
            yield "bidirectional: expected true, since a biLM reads in both directions"
        if self.lstm.projection_dim > self.lstm.dim:
            yield (
                f"lstm.projection_dim: {self.lstm.projection_dim} is more than the "
                f"{self.lstm.dim} cells (lstm.dim) it projects"
            )
        if self.char_cnn is not None:
            yield from _character_problems(self.char_cnn)


def _character_problems(options: CharacterOptions) -> Iterable[str]:
    if options.n_characters not in (CHARACTER_IDS - 1, CHARACTER_IDS):
        yield (
            f"char_cnn.n_characters: expected {CHARACTER_IDS - 1} or {CHARACTER_IDS}, the bytes "
            f"and five or six marks, got {options.n_characters}"
        )
    if options.max_characters_per_token != ROW_LENGTH:
        yield (
            f"char_cnn.max_characters_per_token: expected {ROW_LENGTH}, got "
            f"{options.max_characters_per_token}"
        )


def read_options(path: Path) -> Json:
    """Read options.json as it is, or say why it cannot be the options of a model."""
    options = read_json(path, OFFICIAL_OPTIONS_LARGEST_FILE)
    if not isinstance(options, dict) or "lstm" not in options:
        raise UserError(
            f"{path}: not the options of an official ELMo model, which are a JSON object with "
            "'lstm' and, if the model reads characters, 'char_cnn'"
        )
    return cast("Json", options)


def config_of(options: Json, datasets: Collection[str], where: str) -> BiLMConfig:
    """The biLM that options and the names of the datasets in the weights describe together."""
    known = {field.name for field in fields(OfficialOptions)}
    named = {key: value for key, value in options.items() if key in known}
    read = from_json(OfficialOptions, named, where)
    config = _config(read, datasets)
    sizes = _size_problems(config, len(datasets))
    problems = [*read.problems(), *config.problems(), *sizes]
    if problems:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return config


def _config(options: OfficialOptions, datasets: Collection[str]) -> BiLMConfig:
    lstm = options.lstm
    # The originals leave out a projection that would not make the output smaller.
    has_projection = lstm.projection_dim < lstm.dim or any(
        name.endswith("/W_P_0") for name in datasets
    )
    config = BiLMConfig(
        input="words",
        word_dim=lstm.projection_dim,
        layers=lstm.n_layers,
        hidden=lstm.dim,
        projection=lstm.projection_dim if has_projection else None,
        skip=lstm.use_skip_connections,
        cell_clip=lstm.cell_clip,
        projection_clip=lstm.proj_clip if has_projection else None,
        dropout=options.dropout,
        softmax=NOT_PUBLISHED,
    )
    if options.char_cnn is None:
        return config
    return replace(config, input="characters", characters=_characters(options.char_cnn))


def _characters(options: CharacterOptions) -> CharacterConfig:
    return CharacterConfig(
        char_dim=options.embedding.dim,
        filters=options.filters,
        highways=options.n_highway or 0,
        activation=options.activation,
    )


def _size_problems(config: BiLMConfig, datasets: int) -> Iterable[str]:
    """Numbers so large that the file cannot go with them; found before anything is built."""
    wanted = {
        "lstm.n_layers": config.layers,
        "char_cnn.n_highway": config.characters.highways if config.spelled else 0,
        "char_cnn.filters": len(config.characters.filters) if config.spelled else 0,
    }
    for name, number in wanted.items():
        if number > max(datasets, PLENTY):
            yield f"{name}: {number:,} of them, but the weights hold only {datasets:,} datasets"


def options_of(config: BiLMConfig) -> Json:
    """What options.json says of one of our models."""
    check(config)
    problems = list(_untold(config))
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
    options: dict[str, Any] = {"lstm": to_json(lstm), "dropout": config.dropout}
    if config.spelled:
        options["char_cnn"] = to_json(_character_options(config.characters))
    return options


def _character_options(config: CharacterConfig) -> CharacterOptions:
    return CharacterOptions(
        embedding=EmbeddingOptions(dim=config.char_dim),
        filters=config.filters,
        activation=config.activation,
        n_highway=config.highways,
    )


def _untold(config: BiLMConfig) -> Iterable[str]:
    if config.input == "both":
        yield "it knows models of words or of characters, not of both"
    if config.input == "words" and config.word_dim != config.width:
        yield (
            f"its word vectors are as wide as its layers, but here they have {config.word_dim} "
            f"and {config.width} numbers"
        )
    if config.width > config.hidden:
        yield f"its projections make {config.hidden} cells fewer, not {config.width}"


# Vocabulary files of official models: a word a line, most frequent first, no counts.


FILE = "vocab.txt"


def vocabulary_beside(path: Path) -> Path | None:
    """The one vocab*.txt in the folder of a file, if there is one."""
    found = sorted(path.parent.glob("vocab*.txt"))
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise UserError(
            f"{path.parent}: expected at most one vocabulary, but there are {names}; keep the one "
            "the model was trained with"
        )
    return found[0] if found else None


def read_words(path: Path) -> list[str]:
    """The words of a file, in its order."""
    lines = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    words = [line.strip() for line in lines]
    for number, word in enumerate(words, start=1):
        if not word or "\t" in word:
            raise UserError(f"{path}, line {number}: expected one word; got {word[:80]!r}")
    return words


def read_any_words(path: Path) -> list[str]:
    """The same, or those of a vocabulary.txt of ours, where a tab and a count follow each."""
    first_line = read_text(path, LARGEST_FILE).partition("\n")[0]
    return read_counts(path)[0] if "\t" in first_line else read_words(path)


def character_vocabulary(words: Sequence[str]) -> Vocabulary:
    """The words a character model is known to have seen; it can read any other too."""
    others = [word for word in words if word not in SPECIAL_WORDS]
    return _uncounted((*SPECIAL_WORDS, *others))


def word_vocabulary(words: Sequence[str], path: Path) -> Vocabulary:
    """The words whose vectors a word model holds, row by row."""
    if tuple(words[:3]) != SPECIAL_WORDS:
        raise UserError(
            f"{path}: the vocabulary of a model of words must start with the lines "
            f"{', '.join(SPECIAL_WORDS)}, as bilm-tf asks for; it starts with {words[:3]}"
        )
    return _uncounted(tuple(words))


def save_words(path: Path, vocabulary: Vocabulary) -> None:
    """Write the words as the originals read them."""
    write_text(path, "".join(f"{word}\n" for word in vocabulary.words))


def _uncounted(words: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(words, (0,) * len(words))


# Token vectors stored for a fixed vocabulary: looked up where a word is in it, spelled if not.


DATASET = "embedding"


class StoredTokens(TokenLayer):
    """A token layer with the vectors of some words at hand; for embedding, not for training.

    The table is neither a parameter nor saved: the layer it was made from can make it again.
    """

    def __init__(self, model: BiLM, vectors: Tensor, stored: Tensor) -> None:
        with without_weights():
            super().__init__(model.config, len(model.vocabulary))
        self.characters = model.token_layer.characters
        self.projection = model.token_layer.projection
        self.register_buffer("vectors", vectors, persistent=False)  # (vocabulary, width)
        self.register_buffer("stored", stored, persistent=False)  # (vocabulary,), true or false

    def forward(self, words: Words) -> Tensor:
        """Return (words, width)."""
        vectors = self.get_buffer("vectors")[words.ids]
        others = (~self.get_buffer("stored")[words.ids]).nonzero()[:, 0]
        if len(others):
            spellings = None if words.spellings is None else words.spellings[others]
            vectors[others] = super().forward(Words(words.ids[others], spellings))
        return vectors


def store_tokens(model: BiLM, vocabulary: Path, file: Path) -> None:
    """Let a character model take the vectors of its vocabulary's words from an HDF5 file."""
    if model.config.input != "characters":
        raise UserError(f"{file}: stored token vectors are for models that read characters")
    words = read_words(vocabulary)
    vectors = read_token_vectors(file, len(words), model.config.width)
    places = torch.from_numpy(model.vocabulary.encode(words))
    table = torch.zeros(len(model.vocabulary), model.config.width)
    stored = torch.zeros(len(model.vocabulary), dtype=torch.bool)
    table[places], stored[places] = torch.from_numpy(vectors), True
    stored[UNKNOWN] = False  # the id of every word that is not in the file
    model.token_layer = StoredTokens(model, table, stored)


def read_token_vectors(path: Path, words: int, width: int) -> NDArray[np.float32]:
    """The vectors of a file that holds one dataset, `embedding`, a row a word."""
    with opened(path) as datasets:
        if list(datasets) != [DATASET]:
            raise UserError(
                f"{path}: expected the one dataset {DATASET!r} of token vectors, found "
                f"{', '.join(sorted(datasets)[:5]) or 'none'}"
            )
        shape, kind = shape_and_type(datasets[DATASET])
        if shape != (words, width) or kind != "float32":
            raise UserError(
                f"{path}: {DATASET} is {shape} of {kind}, expected {(words, width)} of float32: "
                "a row a word of the vocabulary, as wide as the model's layers"
            )
        require_readable(path, datasets)
        return read_numbers(datasets[DATASET])


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
            save_words(beside / FILE, model.vocabulary)
        _write_weights(beside / WEIGHTS, rows, tensors)


def _vocabulary(config: BiLMConfig, path: Path | None, options: Path) -> Vocabulary:
    if config.spelled:
        return character_vocabulary([] if path is None else read_words(path))
    if path is None:
        raise UserError(
            f"{options}: a model of words (there is no 'char_cnn') needs the vocabulary it was "
            f"trained with; put it beside as {FILE}, a word a line"
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

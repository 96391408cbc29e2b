"""options.json of the official models: what it says of a biLM, and how ours would say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.config import Json, check, from_json, to_json
from elmo.errors import ConfigError, UserError
from elmo.files import read_json
from elmo.text.characters import CHARACTER_IDS, ROW_LENGTH

LARGEST_FILE = 1 << 20
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
    options = read_json(path, LARGEST_FILE)
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

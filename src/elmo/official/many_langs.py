"""ELMoForManyLangs models: a folder of two PyTorch state dictionaries and two text dictionaries.

Only read, and turned into one of our models: what this format does otherwise is settled here, once,
by how numbers are laid out (gates, highways, forget bias), so there is one biLM for all formats.
torch.load is the only reader of these pickles; it runs with weights_only=True, which builds tensors
and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.lstm import FORGET_OFFSET
from elmo.bilm.model import BiLM
from elmo.config import Json, Range, check, from_json
from elmo.errors import ConfigError, UserError
from elmo.files import explained, read_json, require_regular, sha256
from elmo.model_folder import ModelDescription, model_tensors, require_inside, without_weights
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import LARGEST_FILE, LONGEST_ROW, MANY_LANGS_WORDS, Spelling, Vocabulary

CONFIG = "config.json"
WORDS, CHARACTERS = "word.dic", "char.dic"
ENCODER, TOKENS = "encoder.pkl", "token_embedder.pkl"
STAGE = "many_langs"
"""Where our config.json keeps what a model came with."""
LARGEST_WEIGHTS = 16 << 30
WHITE_SPACE = "\u3000"
"""What the original takes an entry for that is nothing but white space."""
PUBLISHED = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Two names of one architecture, that of all published models, which rarely contain the file."""
PUBLISHED_ARCHITECTURE: Json = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Both LSTM stacks."""

    name: str
    projection_dim: int
    dim: int
    n_layers: int
    cell_clip: Annotated[float, Range(0)] | None = None
    """0 or null: no clipping."""
    proj_clip: Annotated[float, Range(0)] | None = None


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """What a word is read as."""

    name: str
    word_dim: Annotated[int, Range(0)] = 0
    char_dim: Annotated[int, Range(0)] = 0
    activation: Literal["relu", "tanh"] = "relu"
    filters: tuple[tuple[int, int], ...] = ()
    n_highway: Annotated[int, Range(0)] | None = 0
    max_characters_per_token: Annotated[int, Range(7, LONGEST_ROW)] | None = None

    @property
    def longest_word(self) -> int | None:
        """Words are cut to this many code points; only the token embedder `cnn` cuts."""
        if self.name != "cnn" or self.max_characters_per_token is None:
            return None
        return self.max_characters_per_token - 2


# The architecture


def find_architecture(folder: Path) -> Json:
    """The architecture of a model; its config.json names a file that is rarely there.

    Published folders name a file of their author's machine. It is looked for as it is named, then
    by its base name in the folder, then among the two that came with the original program.
    """
    config: object = read_json(folder / CONFIG, 1 << 20)
    name = cast("Json", config).get("config_path") if isinstance(config, dict) else None
    if not isinstance(name, str) or not name:
        raise UserError(
            f"{folder / CONFIG}: not the settings of an ELMoForManyLangs model, which are a JSON "
            "object with 'config_path'"
        )
    base = PureWindowsPath(name).name if "\\" in name else PurePosixPath(name).name
    named = folder / name  # an absolute path stays what it is
    if "\0" not in name and named.is_file():
        if not Path(name).is_absolute():
            require_inside(folder, named)
        return _read_architecture(named)
    if base and "\0" not in base and (folder / base).is_file():
        require_inside(folder, folder / base)
        return _read_architecture(folder / base)
    if base in PUBLISHED:
        return PUBLISHED_ARCHITECTURE
    raise UserError(
        f"{folder}: the architecture is missing: config.json names {name!r:.200}, and neither that "
        f"file nor {base!r:.100} in this folder exists; put the JSON file that the model was "
        "trained with into the folder"
    )


def _read_architecture(path: Path) -> Json:
    architecture = read_json(path, 1 << 20)
    if not isinstance(architecture, dict) or not {"encoder", "token_embedder"} <= {
        key for key, value in cast("Json", architecture).items() if isinstance(value, dict)
    }:
        raise UserError(
            f"{path}: not the architecture of an ELMoForManyLangs model, which is a JSON object "
            "with 'encoder' and 'token_embedder'"
        )
    return cast("Json", architecture)


def options_of(architecture: Json, where: str) -> tuple[EncoderOptions, TokenOptions]:
    """The two parts of an architecture that say what a model is, not how it is trained."""

    def part(cls: type[Any], name: str) -> Any:
        known = {field.name for field in fields(cls)}
        told = {key: value for key, value in architecture[name].items() if key in known}
        return from_json(cls, told, f"{where}: {name}")

    return part(EncoderOptions, "encoder"), part(TokenOptions, "token_embedder")


def config_of(encoder: EncoderOptions, tokens: TokenOptions, where: str) -> BiLMConfig:
    """The biLM that an architecture describes, or a refusal that names all reasons."""
    problems = list(_contradictions(encoder, tokens))
    characters = CharacterConfig()
    if tokens.char_dim and not problems:
        characters = CharacterConfig(
            char_dim=tokens.char_dim,
            filters=tokens.filters,
            highways=tokens.n_highway or 0,
            activation=tokens.activation,
        )
    by = {(True, True): "both", (False, True): "characters"}
    config = BiLMConfig(
        input=cast("Any", by.get((tokens.word_dim > 0, tokens.char_dim > 0), "words")),
        word_dim=max(1, tokens.word_dim),
        characters=characters,
        layers=encoder.n_layers,
        hidden=encoder.dim,
        projection=encoder.projection_dim,
        skip=True,
        cell_clip=encoder.cell_clip or None,
        projection_clip=encoder.proj_clip or None,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    try:
        check(config)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return config


def _contradictions(encoder: EncoderOptions, tokens: TokenOptions) -> Iterable[str]:
    if encoder.name == "lstm":
        yield (
            "encoder.name: 'lstm' is no ELMo: its second layer reads both directions of the first, "
            "so it has one layer of vectors and no language model behind it; no public model is "
            "known, and only 'elmo' is read"
        )
    elif encoder.name != "elmo":
        yield f"encoder.name: expected 'elmo', got {encoder.name!r:.60}"
    if tokens.name not in ("cnn", "lstm"):
        yield f"token_embedder.name: expected 'cnn' or 'lstm', got {tokens.name!r:.60}"
    if tokens.name == "lstm" and tokens.char_dim:
        yield (
            "token_embedder: 'lstm' with char_dim above 0 never ran in the original program, so "
            "there is nothing to be compatible with"
        )
    if not tokens.word_dim and not tokens.char_dim:
        yield "token_embedder: word_dim and char_dim are both 0, so there is nothing to read"
    if tokens.name == "cnn":
        longest = tokens.max_characters_per_token
        if longest is None:
            yield "token_embedder.max_characters_per_token: expected a number, got none"
        elif tokens.char_dim and any(width > longest for width, _ in tokens.filters):
            yield (
                f"token_embedder.filters: a filter is wider than the {longest} characters of a word"
            )


# Dictionaries


def read_dictionary(path: Path) -> dict[str, int]:
    """Tokens and their ids, one pair per line, read as the original reads them.

    White space is stripped from the line before it is split at the tab. So an entry that is white
    space itself has no field left: all such entries become U+3000, and the last one wins.
    """
    size = require_regular(path).st_size
    if size > LARGEST_FILE:
        raise UserError(
            f"{path}: {size:,} bytes, more than the {LARGEST_FILE:,} a dictionary may have"
        )
    try:
        # Not in text mode, which would end a line at every carriage return.
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text; {error}") from None
    except OSError as error:
        raise explained(error, path) from error
    ids: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        parts = line.strip().split("\t")
        if parts == [""] and number == len(lines):
            break  # after the last line feed
        token, text = (WHITE_SPACE, parts[0]) if len(parts) == 1 else (parts[0], parts[-1].strip())
        is_id = text.isascii() and text.isdigit() and len(text) < 18
        if len(parts) > 2 or not is_id or "\r" in token:
            raise UserError(
                f"{path}, line {number}: expected a token, a tab and an id; got {line[:80]!r}"
            )
        ids[token] = int(text)
    return ids


def require_ids(path: Path, ids: Mapping[str, int], rows: int, needed: Iterable[str]) -> None:
    """Refuse a dictionary that is not that of the weights."""
    missing = [token for token in needed if token not in ids]
    if missing:
        raise UserError(f"{path}: expected an entry for {', '.join(missing)}, but there is none")
    largest = max(ids.values())
    if largest + 1 != rows:
        raise UserError(
            f"{path}: {len(ids):,} entries with ids up to {largest:,}, but {TOKENS} has {rows:,} "
            "rows for them; this is the dictionary of another model"
        )


# Weights


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch file, old or new; nothing in it is executed."""
    size = require_regular(path).st_size
    if size > LARGEST_WEIGHTS:
        raise UserError(
            f"{path}: {size:,} bytes, more than the {LARGEST_WEIGHTS:,} that weights may have"
        )
    try:
        # map_location: most published files were written on a GPU.
        state: object = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise explained(error, path) from error
    except Exception as error:  # what a damaged pickle raises is not documented
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"{path}: damaged, or not a file of PyTorch weights alone ({reason:.200}); "
            "download it again"
        ) from None
    if not isinstance(state, Mapping):
        raise UserError(f"{path}: expected weights by name, got {type(state).__name__}")
    tensors: dict[str, Tensor] = {}
    for name, tensor in cast("Mapping[object, object]", state).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{path}: expected weights by name; {name!r:.60} is none")
        tensors[name] = tensor.detach()
    return tensors


def require_fit(path: Path, tensors: Mapping[str, Tensor], shapes: Mapping[str, Any]) -> None:
    """Refuse weights that are not exactly those that architecture and dictionaries ask for.

    A size of None stands for any number of rows.
    """
    problems = [
        f"{name} {tuple(shape)} is missing" for name, shape in shapes.items() if name not in tensors
    ]
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if name not in shapes:
            problems.append(f"{name} {shape} is not expected")
        elif len(shape) != len(shapes[name]) or any(
            size not in (None, found) for size, found in zip(shapes[name], shape, strict=True)
        ):
            problems.append(f"{name} is {shape}, expected {tuple(shapes[name])}")
        elif tensor.layout != torch.strided:
            problems.append(f"{name} is {tensor.layout}, expected a dense tensor")
        elif tensor.dtype != torch.float32:
            problems.append(f"{name} holds {tensor.dtype}, expected torch.float32")
        elif tensor.untyped_storage().nbytes() < 4 * math.prod(shape):
            problems.append(f"{name} has fewer numbers than its shape {shape} asks for")
        elif not bool(tensor.isfinite().all()):
            problems.append(f"{name} holds numbers that are not finite")
    if problems:
        more = f"; and {len(problems) - 6} more" if len(problems) > 6 else ""
        raise UserError(
            f"{path} does not fit the architecture and dictionaries of its folder: "
            f"{'; '.join(problems[:6])}{more}"
        )


def token_shapes(config: BiLMConfig) -> dict[str, Any]:
    """The tensors of token_embedder.pkl."""
    characters, size = config.characters, 0
    shapes: dict[str, Any] = {}
    if config.input != "characters":
        size += config.word_dim
        shapes["word_emb_layer.embedding.weight"] = (None, config.word_dim)
    if config.spelled:
        size += characters.features
        shapes["char_emb_layer.embedding.weight"] = (None, characters.char_dim)
        for idx, (width, number) in enumerate(characters.filters):
            shapes[f"convolutions.{idx}.weight"] = (number, characters.char_dim, width)
            shapes[f"convolutions.{idx}.bias"] = (number,)
        for idx in range(characters.highways):
            doubled = 2 * characters.features
            shapes[f"highways._layers.{idx}.weight"] = (doubled, characters.features)
            shapes[f"highways._layers.{idx}.bias"] = (doubled,)
    shapes["projection.weight"] = (config.width, size)
    shapes["projection.bias"] = (config.width,)
    return shapes


def encoder_shapes(config: BiLMConfig) -> dict[str, Any]:
    """The tensors of encoder.pkl."""
    gates, shapes = 4 * config.hidden, dict[str, Any]()
    for direction in ("forward", "backward"):
        for layer in range(config.layers):
            name = f"{direction}_layer_{layer}"
            shapes[f"{name}.input_linearity.weight"] = (gates, config.width)
            shapes[f"{name}.state_linearity.weight"] = (gates, config.width)
            shapes[f"{name}.state_linearity.bias"] = (gates,)
            shapes[f"{name}.state_projection.weight"] = (config.width, config.hidden)
    return shapes


def our_gates(values: Tensor) -> Tensor:
    """From (4 * cells, …), in the order i, f, candidate, o, to ours: i, f, o, candidate."""
    i, f, candidate, o = values.chunk(4)
    return torch.cat([i, f, o, candidate])


def our_tensors(
    config: BiLMConfig,
    tokens: Mapping[str, Tensor],
    encoder: Mapping[str, Tensor],
    word_rows: Tensor,
    character_rows: Tensor,
) -> dict[str, Tensor]:
    """Lay the numbers out as our parameters; the rows are those of the dictionaries, by our ids."""
    ours: dict[str, Tensor] = {}
    if config.input != "characters":
        words = tokens["word_emb_layer.embedding.weight"]
        ours["token_layer.words.weight"] = words[word_rows]
    if config.spelled:
        prefix = "token_layer.characters"
        characters = tokens["char_emb_layer.embedding.weight"]
        ours[f"{prefix}.characters.weight"] = characters[character_rows]
        for idx in range(len(config.characters.filters)):
            for part in ("weight", "bias"):
                ours[f"{prefix}.convolutions.{idx}.{part}"] = tokens[f"convolutions.{idx}.{part}"]
        for idx in range(config.characters.highways):
            for part in ("weight", "bias"):
                transform, keep = tokens[f"highways._layers.{idx}.{part}"].chunk(2)
                # Their gate keeps the input, ours lets the transform through: 1 - s(z) = s(-z).
                ours[f"{prefix}.highways.{idx}.gate.{part}"] = -keep
                ours[f"{prefix}.highways.{idx}.transform.{part}"] = transform
    projection = tokens["projection.weight"], tokens["projection.bias"]
    if config.spelled or config.word_dim != config.width:
        ours["token_layer.projection.weight"], ours["token_layer.projection.bias"] = projection
    else:
        # Word vectors as wide as the layers are not projected here: the product is the vector.
        words = ours["token_layer.words.weight"].double()
        projected = torch.addmm(projection[1].double(), words, projection[0].double().t())
        ours["token_layer.words.weight"] = projected.float()
    for direction in ("forward", "backward"):
        for layer in range(config.layers):
            theirs, prefix = f"{direction}_layer_{layer}", f"{direction}_stack.layers.{layer}"
            ours[f"{prefix}.input_weight"] = our_gates(
                encoder[f"{theirs}.input_linearity.weight"]
            ).t()
            ours[f"{prefix}.recurrent_weight"] = our_gates(
                encoder[f"{theirs}.state_linearity.weight"]
            ).t()
            bias = our_gates(encoder[f"{theirs}.state_linearity.bias"])
            # Their forget bias is stored in full; ours is added to an offset.
            bias[config.hidden : 2 * config.hidden] -= FORGET_OFFSET
            ours[f"{prefix}.bias"] = bias
            ours[f"{prefix}.projection_weight"] = encoder[f"{theirs}.state_projection.weight"].t()
    return {name: tensor.contiguous().clone() for name, tensor in ours.items()}


# Whole models


def load_many_langs(folder: Path | str) -> tuple[BiLM, TokenizerConfig, Json]:
    """Build the network from a folder; also return tokenizer settings and a config."""
    folder = Path(folder)
    for name in (CONFIG, ENCODER, TOKENS):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: expected an ELMoForManyLangs model, but {name} is missing")
        require_inside(folder, folder / name)
    architecture = find_architecture(folder)
    encoder_options, token_options = options_of(architecture, str(folder))
    config = config_of(encoder_options, token_options, str(folder))
    dictionaries: dict[str, dict[str, int]] = {}
    for name, needed in ((WORDS, config.input != "characters"), (CHARACTERS, config.spelled)):
        if needed and not (folder / name).is_file():
            raise UserError(f"{folder}: this model needs {name}, which is missing")
        if needed:
            require_inside(folder, folder / name)
            dictionaries[name] = read_dictionary(folder / name)
    tokens = read_state(folder / TOKENS)
    require_fit(folder / TOKENS, tokens, token_shapes(config))
    encoder = read_state(folder / ENCODER)
    require_fit(folder / ENCODER, encoder, encoder_shapes(config))

    words, word_rows = MANY_LANGS_WORDS, list[int]()
    if WORDS in dictionaries:
        ids = dictionaries[WORDS]
        rows = len(tokens["word_emb_layer.embedding.weight"])
        require_ids(folder / WORDS, ids, rows, ("<oov>", "<pad>"))
        words += tuple(word for word in ids if word not in MANY_LANGS_WORDS)
        word_rows = [ids.get(word, ids["<oov>"]) for word in words]
    characters, character_rows = (), list[int]()
    if CHARACTERS in dictionaries:
        ids = dictionaries[CHARACTERS]
        rows = len(tokens["char_emb_layer.embedding.weight"])
        require_ids(folder / CHARACTERS, ids, rows, Spelling.MARKS)
        characters = (*Spelling.MARKS, *(sign for sign in ids if sign not in Spelling.MARKS))
        character_rows = [ids[sign] for sign in characters]
    spelling = Spelling(token_options.longest_word, characters)
    vocabulary = Vocabulary(words, (0,) * len(words), spelling)
    with without_weights():
        model = BiLM(config, vocabulary)
    model.load_state_dict(
        our_tensors(config, tokens, encoder, torch.tensor(word_rows), torch.tensor(character_rows)),
        assign=True,
    )
    stage = {
        "architecture": architecture,
        "sha256": {name: sha256(folder / name) for name in (ENCODER, TOKENS)},
    }
    return model, TokenizerConfig(), {STAGE: stage}


def describe_many_langs(folder: Path) -> ModelDescription:
    """Describe a folder; its weights are read, since nothing else says how large they are."""
    model, tokenizer, config = load_many_langs(folder)
    parts: Counter[str] = Counter()
    for name, tensor in model_tensors(model).items():
        parts[name.partition(".")[0]] += tensor.numel()
    names = (CONFIG, TOKENS, ENCODER, WORDS, CHARACTERS)
    return ModelDescription(
        folder=str(folder),
        model=model.config,
        tokenizer=tokenizer,
        vocabulary=len(model.vocabulary),
        parameters=sum(parts.values()),
        parts=dict(parts),
        number_format="F32",
        files={name: (folder / name).stat().st_size for name in names if (folder / name).is_file()},
        stages=config,
    )

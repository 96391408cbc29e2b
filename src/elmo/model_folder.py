"""Model folders: what training writes and everything else reads. Data only, never a pickle."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.config import Json, check, from_json, to_json
from elmo.errors import UserError
from elmo.files import read_json, read_text, write_json, written_whole
from elmo.text.tokenizer import Tokenizer, TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, UNKNOWN, Vocabulary

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.txt"
CARD = "README.md"
Shapes = Mapping[str, tuple[int, ...]]
Precision = Literal["fp32", "bf16"]
Text = str | Sequence[str]
"""A text as it was written, or as words already."""


@dataclass(frozen=True)
class LoadedModel:
    """A biLM with all that is needed to read new text as its training text was read."""

    model: BiLM
    tokenizer: TokenizerConfig
    config: Json = field(default_factory=dict[str, Any])
    """The settings of all stages, where they are known."""
    custom_tokenizer: Tokenizer | None = None
    """The function of a custom tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into words as the training text was cut."""
        if self.tokenizer.tokenizer == "custom" and self.custom_tokenizer is None:
            raise UserError(
                "this model reads words cut by a tokenizer function of its maker, which its folder "
                "does not hold; give words already cut, or the function "
                "(load_model(…, custom_tokenizer=…))"
            )
        return build_tokenizer(self.tokenizer, self.custom_tokenizer)(text)

    def words(self, text: Text) -> list[str]:
        """The words of a text; boundaries are the model's to add, so none may be among them."""
        words = self.tokenize(text) if isinstance(text, str) else list(text)
        for boundary in (SPECIAL_WORDS[BEGIN], SPECIAL_WORDS[END]):
            if boundary in words:
                raise UserError(
                    f"a text holds {boundary!r}, which stands for its begin or end and is added by "
                    "the model; take it out, or write it in another way"
                )
        return words


def save_config(
    folder: Path, model: BiLMConfig, tokenizer: TokenizerConfig, stages: Mapping[str, Any]
) -> None:
    """Write the settings of all stages; `stages` are those the model itself does not need."""
    content = {"format": FORMAT, "model": to_json(model), "tokenizer": to_json(tokenizer)}
    write_json(folder / CONFIG, {**content, **stages})


def save_weights(path: Path, model: BiLM, precision: Precision = "fp32") -> None:
    """Write the parameters, a tied matrix once."""
    kind = torch.float32 if precision == "fp32" else torch.bfloat16
    save_tensors(path, {name: tensor.to(kind) for name, tensor in model_tensors(model).items()})


def load_model(
    folder: Path | str, device: str = "cpu", custom_tokenizer: Tokenizer | None = None
) -> LoadedModel:
    """Open a model folder. Sizes are checked against its settings before memory is taken."""
    folder = checked_folder(Path(folder))
    config = read_config(folder)
    settings = from_json(BiLMConfig, config.get("model"), f"{folder / CONFIG}: model")
    tokenizer = from_json(TokenizerConfig, config.get("tokenizer"), f"{folder / CONFIG}: tokenizer")
    check(settings)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    model = build_with_weights(settings, vocabulary, folder / WEIGHTS)
    return LoadedModel(model.to(device), tokenizer, config, custom_tokenizer)


def build_with_weights(settings: BiLMConfig, vocabulary: Vocabulary, path: Path) -> BiLM:
    """Build a model that takes its parameters from a file of exactly the right shapes."""
    with without_weights():
        model = BiLM(settings, vocabulary)
    shapes = {name: tuple(tensor.shape) for name, tensor in model_tensors(model).items()}
    tensors = load_tensors(path, shapes)
    frozen = {name for name, one in model.named_parameters() if not one.requires_grad}
    model.load_state_dict(
        {name: tensor.float() for name, tensor in tensors.items()}, strict=False, assign=True
    )
    model.tie()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return model


@contextmanager
def without_weights() -> Generator[None]:
    """Modules built in here have shapes but no numbers, which come from a file."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Draws nothing: to draw what has no memory, torch would load its compiler, for seconds."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given: dict[str, Any] = kwargs or {}
        if func.__name__ in ("normal_", "uniform_"):
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def model_tensors(model: BiLM) -> dict[str, Tensor]:
    """The parameters by name; where two names mean one tensor, only the first."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file that is whole or not there."""
    with written_whole(path) as beside:
        beside.touch()
        readers = beside.stat().st_mode
        try:
            save_file({name: one.contiguous().cpu() for name, one in tensors.items()}, beside)
        except SafetensorError as error:
            raise OSError(_errno_of(error), str(error)) from None
        # The library makes files that only their owner may read.
        beside.chmod(readers)


def load_tensors(path: Path, shapes: Shapes | None = None) -> dict[str, Tensor]:
    """Read a safetensors file; with `shapes`, only if it holds exactly these."""
    with _opened(path) as file:
        if shapes is not None:
            found = {name: entry.shape for name, entry in _header(file).items()}
            _compare_shapes(path, found, shapes)
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def load_tensor(path: Path, name: str) -> Tensor:
    """Read one tensor of a safetensors file."""
    with _opened(path) as file:
        return file.get_tensor(name)


@dataclass(frozen=True)
class TensorEntry:
    """What a safetensors file says of a tensor before it is loaded."""

    shape: tuple[int, ...]
    number_format: str


def load_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of a safetensors file, but for their numbers."""
    with _opened(path) as file:
        return _header(file)


@contextmanager
def _opened(path: Path) -> Generator[Any]:
    """A safetensors file, or a sentence that says what is wrong with it."""
    try:
        with cast("Any", safe_open(path, framework="pt")) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged or not a safetensors file ({error})") from None


def _header(file: Any) -> dict[str, TensorEntry]:
    names: list[str] = list(file.keys())
    parts = {name: file.get_slice(name) for name in names}
    return {
        name: TensorEntry(tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()
    }


def read_config(folder: Path) -> Json:
    """Read config.json and make sure that this version understands it."""
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or "format" not in config:
        raise UserError(f"{folder / CONFIG}: not the settings of an elmo model")
    if config["format"] != FORMAT:
        raise UserError(
            f"{folder / CONFIG}: format {config['format']!r}, but this version reads {FORMAT}; "
            "use the version of elmo that wrote it"
        )
    return cast("Json", config)


def checked_folder(folder: Path) -> Path:
    """Make sure that this is a folder whose files do not lead out of it."""
    if not folder.is_dir():
        raise UserError(
            f"{folder}: expected a model folder, but there is none; check the path, or train a "
            "model with elmo pretrain"
        )
    for name in (CONFIG, WEIGHTS, VOCABULARY):
        path = folder / name
        if not path.exists():
            raise UserError(
                f"{folder}: expected a model folder, as elmo pretrain writes it, but {name} is "
                "missing"
            )
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{path}: leads out of the model folder; a model holds its own files")
    return folder


def _compare_shapes(path: Path, found: Shapes, expected: Shapes) -> None:
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not expected" for name in found if name not in expected]
    problems += [
        f"{name} is {found[name]}, expected {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise UserError(
            f"{path} does not fit its config.json and vocabulary.txt: "
            f"{'; '.join(problems[:5])}{more}"
        )


def _errno_of(error: SafetensorError) -> int:
    """The number of the operating system's error that safetensors reports as text."""
    _, found, rest = str(error).rpartition("os error ")
    digits = rest.rstrip(")} \"'")
    return int(digits) if found and digits.isdigit() else 0


def parameter_count(model: BiLM) -> int:
    """How many numbers the model has learned, a tied matrix counted once."""
    return sum(math.prod(tensor.shape) for tensor in model_tensors(model).values())


# What is in a model folder, told without loading its weights.


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

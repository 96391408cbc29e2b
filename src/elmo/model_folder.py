"""Model folders: what training writes and everything else reads. Data only, never a pickle.

config.json holds the settings of every stage and the metrics, model.safetensors the weights,
vocabulary.txt the words with their counts, README.md the model card. torch is imported only where
weights are read or written: describing a folder takes a few milliseconds without it.
"""

from __future__ import annotations

import logging
import math
import platform
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from safetensors import SafetensorError, safe_open

import elmo
from elmo.bilm.config import BiLMConfig
from elmo.config import Json, check, from_json, to_json
from elmo.errors import UserError
from elmo.files import atomic_write, read_json, read_text, write_json
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPELLING, UNKNOWN, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from elmo.bilm.model import BiLM

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocabulary.txt"
CARD = "README.md"
COMPANIONS = ("word_vectors.safetensors", "word_vectors.txt")
"""Static word vectors that may come with a model, and their words."""
METRICS = "metrics"
LARGEST_WEIGHT = 1e18  # the product of two larger ones is infinite in float32
Shapes = Mapping[str, tuple[int, ...]]
Precision = Literal["fp32", "bf16"]
Text = str | Sequence[str]  # a text as it was written, or as words already

log = logging.getLogger(__name__)


def is_official(folder: Path) -> bool:
    """Whether a path is an official model: a folder with options and .hdf5 weights, or either."""
    if folder.is_file():
        return folder.suffix == ".hdf5" or folder.name.endswith("options.json")
    patterns = ("options.json", "*_options.json", "*.hdf5")
    has_any = any(any(folder.glob(pattern)) for pattern in patterns)
    return has_any and not (folder / CONFIG).exists()


def is_many_langs(folder: Path) -> bool:
    return (folder / "encoder.pkl").is_file() and (folder / "token_embedder.pkl").is_file()


def require_inside(folder: Path, path: Path) -> None:
    """Refuse a link that leads out of a model folder, which may come from anywhere.

    In the cache of the Hugging Face hub, the files of snapshots/REVISION are links to blobs.
    """
    allowed = [folder.resolve()]
    for parent in folder.absolute().parents:
        if parent.name == "snapshots":
            allowed.append(parent.parent.resolve() / "blobs")
            break
    if not any(path.resolve().is_relative_to(place) for place in allowed):
        raise UserError(f"{path}: leads out of the model folder; a model holds its own files")


def model_card(
    task: str, title: str, facts: Mapping[str, object], quality: str = "", command: str = ""
) -> str:
    """A model card in Markdown, with the YAML head that hubs read.

    Args:
        task: The hub's name for what the model does, such as "text-classification".
        facts: Rows of the first table.
        quality: A section in Markdown.
        command: How the model was made, if by a command.
    """
    import torch

    head = f"---\nlibrary_name: elmo\npipeline_tag: {task}\ntags:\n- elmo\n- bilm\n---\n"
    table = "| | |\n|---|---|\n" + "".join(f"| {key} | {fact} |\n" for key, fact in facts.items())
    made = f"```\n{command}\n```\n\n" if command else ""
    made += f"elmo {elmo.__version__}, torch {torch.__version__}, Python "
    made += (
        f"{platform.python_version()},\n{platform.machine()}, {torch.get_num_threads()} threads.\n"
    )
    sections = [head, f"# {title}\n", table, quality, "## Made with\n", made]
    return "\n".join(section for section in sections if section)


# config.json


def save_config(
    folder: Path, model: BiLMConfig, tokenizer: TokenizerConfig, stages: Mapping[str, Any]
) -> None:
    """Write config.json; `stages` holds whatever the model itself does not need."""
    content = {"format": FORMAT, "model": to_json(model), "tokenizer": to_json(tokenizer)}
    write_json(folder / CONFIG, {**content, **stages})


def save_metrics(folder: Path, metrics: Mapping[str, Any]) -> None:
    """Put held-out metrics (an `Evaluation` as JSON) into the config.json that is there already."""
    write_json(folder / CONFIG, {**read_config(folder), METRICS: metrics})


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
    with suppress(KeyError, TypeError, AttributeError):  # damaged sections: `from_json` says so
        # A setting until 0.2 of how a model learns; what it computes does not depend on it.
        if not config["model"]["softmax"].pop("shared_negatives"):
            log.warning(
                "%s: learned with a sample of words per target, which elmo no longer draws; if "
                "training resumes, all targets of a batch share one", folder,
            )  # fmt: skip
    return cast("Json", config)


def other_stages(config: Json) -> Json:
    """All of a config.json but what `save_config` writes from the model itself."""
    return {
        key: value for key, value in config.items() if key not in ("format", "model", "tokenizer")
    }


def _read_settings(folder: Path) -> tuple[Json, BiLMConfig, TokenizerConfig]:
    if not folder.is_dir():
        raise UserError(
            f"{folder}: expected a model folder, but there is none; check the path, or train a "
            "model with elmo pretrain"
        )
    for name in (CONFIG, WEIGHTS, VOCABULARY):
        # is_file, not exists: opening a named pipe would wait for ever.
        if not (folder / name).is_file():
            raise UserError(
                f"{folder}: expected a model folder, as elmo pretrain writes it, but {name} is "
                "missing"
            )
        require_inside(folder, folder / name)
    config = read_config(folder)
    settings = from_json(BiLMConfig, config.get("model"), f"{folder / CONFIG}: model")
    tokenizer = from_json(TokenizerConfig, config.get("tokenizer"), f"{folder / CONFIG}: tokenizer")
    check(settings)
    return config, settings, tokenizer


# Weights


def model_tensors(model: BiLM) -> dict[str, Tensor]:
    """The parameters by name; where two names mean one tensor, only the first."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def model_facts(model: BiLM) -> dict[str, str]:
    config = model.config
    return {
        "input": config.input,
        "layers": f"{config.layers} per direction, {config.hidden} cells, output {config.width}",
        "parameters": f"{parameter_count(model):,}",
    }


def parameter_count(model: BiLM) -> int:
    """How many parameters the model has, a tied matrix counted once."""
    return sum(math.prod(tensor.shape) for tensor in model_tensors(model).values())


def save_weights(path: Path, model: BiLM, precision: Precision = "fp32") -> None:
    """Write the parameters, a tied matrix once."""
    tensors = model_tensors(model).items()
    save_tensors(path, {n: t.float() if precision == "fp32" else t.bfloat16() for n, t in tensors})


def load_folder(folder: Path) -> tuple[BiLM, TokenizerConfig, Json]:
    """Read the network, the tokenizer settings and config.json of a folder.

    Shapes are checked against the settings before memory is taken.
    """
    from elmo.bilm.model import BiLM

    config, settings, tokenizer = _read_settings(folder)
    with without_weights():
        model = BiLM(settings, Vocabulary.load(folder / VOCABULARY))
    trainable = {name: weight.requires_grad for name, weight in model.named_parameters()}
    shapes = {name: tuple(tensor.shape) for name, tensor in model_tensors(model).items()}
    tensors = load_tensors(folder / WEIGHTS, shapes)
    # assign: parameters become the tensors of the file, without a second copy in memory. It also
    # makes all of them trainable, and parts what is tied.
    model.load_state_dict(
        {name: tensor.float() for name, tensor in tensors.items()}, strict=False, assign=True
    )
    model.tie()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trainable[name])
    return model, tokenizer, config


@contextmanager
def without_weights() -> Generator[None]:
    """Build modules in here that have shapes but no memory, to be given weights from a file."""
    import torch
    from torch.overrides import TorchFunctionMode

    class NoInitialisation(TorchFunctionMode):
        # To draw random numbers for a meta tensor, torch loads its compiler, which takes seconds.
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            if func.__name__ in ("normal_", "uniform_"):
                return args[0] if args else kwargs["tensor"]
            return func(*args, **kwargs)

    with torch.device("meta"), NoInitialisation():
        yield


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file that is whole or not there."""
    from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]

    with atomic_write(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        try:
            save_file({n: tensor.contiguous().cpu() for n, tensor in tensors.items()}, temporary)
        except SafetensorError as error:
            # safetensors reports errors of the operating system as text: "… (os error 28)".
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]) if number else 0, str(error)) from None
        temporary.chmod(mode)  # safetensors makes files that only their owner may read


def load_tensors(path: Path, shapes: Shapes | None = None) -> dict[str, Tensor]:
    """Read a safetensors file of finite numbers.

    With `shapes`, which makes them weights, only if it holds exactly these tensors, and as floats.
    """
    if shapes is not None:
        header = {name: shape for name, (shape, _) in load_header(path).items()}
        problems = _shape_problems(header, shapes)
        if problems:
            more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise UserError(
                f"{path} does not fit its config.json and vocabulary.txt: "
                f"{'; '.join(problems[:5])}{more}"
            )
    with _opened(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    require_numbers(path, tensors, floats=shapes is not None)
    return tensors


def require_numbers(path: Path, tensors: Mapping[str, Tensor], *, floats: bool = True) -> None:
    """Refuse NaN, infinity, and types that no model has; without `floats`, integers are fine."""
    import torch

    known = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for name, tensor in tensors.items():
        if tensor.dtype not in known:
            if floats or tensor.dtype not in (torch.uint8, torch.int32, torch.int64):
                kind = str(tensor.dtype).removeprefix("torch.")
                raise UserError(
                    f"{path}: {name} holds {kind}, expected float32, float64, float16 or bfloat16"
                )
        elif tensor.numel():
            # One pass without a copy; NaN is neither above nor below.
            low, high = (float(end) for end in tensor.aminmax())
            if not (low > -LARGEST_WEIGHT and high < LARGEST_WEIGHT):
                raise UserError(
                    f"{path}: {name} holds numbers that are not finite ({low} to {high}); the file "
                    "is damaged, or its training failed"
                )


def load_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype (F32, BF16, …) of each tensor of a safetensors file."""
    with _opened(path, "np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()}


@contextmanager
def _opened(path: Path, framework: str) -> Generator[Any]:
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: expected a regular file")
    try:
        with cast("Any", safe_open(path, framework=framework)) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged or not a safetensors file ({error})") from None


def _shape_problems(shapes: Shapes, expected: Shapes) -> list[str]:
    problems = [f"{name} is missing" for name in expected if name not in shapes]
    problems += [f"{name} is not expected" for name in shapes if name not in expected]
    return problems + [
        f"{name} is {shapes[name]}, expected {shape}"
        for name, shape in expected.items()
        if name in shapes and shapes[name] != shape
    ]


# Description


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    folder: str
    model: BiLMConfig
    tokenizer: TokenizerConfig
    vocabulary: int  # words, the three special ones included
    training_tokens: int = 0  # running words the vocabulary was counted in
    unknown_rate: float = 0.0  # fraction of these that the vocabulary does not hold
    parameters: int
    parts: dict[str, int]  # parameters of each part of the model
    number_format: str  # how the weights are stored, such as F32 or BF16
    files: dict[str, int]  # size of each file in bytes
    held_out_perplexity: dict[str, float] | None = None  # of each direction, if text was held out
    stages: Json  # how it was made: all else that its config.json holds


def describe_model(folder: Path | str) -> ModelDescription:
    """Describe one of our folders without loading its weights."""
    folder = Path(folder)
    config, settings, tokenizer = _read_settings(folder)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    header = load_header(folder / WEIGHTS)
    parts: Counter[str] = Counter()
    for name, (shape, _) in header.items():
        parts[name.partition(".")[0]] += math.prod(shape)
    files = [folder / name for name in (CONFIG, WEIGHTS, VOCABULARY, SPELLING, *COMPANIONS, CARD)]
    tokens = sum(vocabulary.counts[UNKNOWN:])
    return ModelDescription(
        folder=str(folder),
        model=settings,
        tokenizer=tokenizer,
        vocabulary=len(vocabulary),
        training_tokens=tokens,
        unknown_rate=vocabulary.counts[UNKNOWN] / max(1, tokens),
        parameters=sum(parts.values()),
        parts=dict(parts),
        number_format=", ".join(sorted({dtype for _, dtype in header.values()})),
        files={path.name: path.stat().st_size for path in files if path.is_file()},
        held_out_perplexity=_held_out_perplexity(folder, config),
        stages=other_stages(config),
    )


def _held_out_perplexity(folder: Path, config: Json) -> dict[str, float] | None:
    directions = ("forward", "backward")
    if METRICS in config:
        try:
            return {name: float(config[METRICS][name]["perplexity"]) for name in directions}
        except (TypeError, KeyError, ValueError):
            raise UserError(
                f"{folder / CONFIG}: metrics: expected the perplexity of {' and '.join(directions)}"
            ) from None
    # The first version wrote its metrics only into the table of the model card.
    if not (folder / CARD).is_file():
        return None
    row = re.compile(r"^\| (forward|backward) \| (\d+\.?\d*) \|", re.MULTILINE)
    rows = dict(row.findall(read_text(folder / CARD, 1 << 20)))
    return (
        {name: float(rows[name]) for name in directions} if rows.keys() == {*directions} else None
    )

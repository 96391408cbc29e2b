"""One way to declare a command: its options, the options that commands share, and its settings.

argparse parses. What it lacks is here: settings dataclasses that are reached by `--set key=value`,
by `--config FILE` and by a hidden flag per setting, and a help page with the options that people
use. (tyro, which we used before, shows a flag per field: 200 lines of help for `elmo pretrain`.)
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import shlex
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from elmo.config import BILM, CLASSIFIER, Json, from_json, from_text, nearest, to_json
from elmo.errors import ConfigError, UserError
from elmo.text.config import ReadOptions

if TYPE_CHECKING:
    from elmo.embed.embedder import Embedder
    from elmo.language_model import LanguageModel

Arguments = argparse.Namespace
HELP_WIDTH, HELP_COLUMN = 98, 27

# What people try first, and what it is called here; the first flag that the command has is named.
GUESSES = {
    "--top": ("--count", "--top-k"),
    "--k": ("--top", "--count", "--top-k"),
    "--n": ("--count", "--top", "--length"),
    "--num": ("--count", "--top"),
    "--batch-size": ("--batch-texts", "--batch-tokens"),
    "--batch": ("--batch-texts", "--batch-tokens"),
    "--lr": ("--learning-rate",),
    "--gpu": ("--device cuda",),
    "--cuda": ("--device cuda",),
    "--cpu": ("--device cpu",),
    "--output": ("--out",),
    "--input": ("--files",),
    "--file": ("--files",),
    "--text": ("--column",),
    "--label": ("--label-column",),
    "--max-length": ("--length", "--window", "--max-words"),
    "--workers": ("--threads",),
}


class Leaf(NamedTuple):
    """One setting: a field of a settings dataclass that is no dataclass itself."""

    path: str
    """Such as `training.epochs`."""
    type: Any
    default: object
    owner: type
    """The dataclass, whose source has the description."""

    @property
    def name(self) -> str:
        """Name of the field."""
        return self.path.rpartition(".")[2]

    @property
    def flag(self) -> str:
        """The flag that sets it."""
        return f"--{self.name.replace('_', '-')}"


class Command:
    """A subcommand of `elmo`: what it accepts, its help page, and the function that runs it.

    Args:
        name: As it is typed after `elmo`, such as `classify train`.
        run: Takes the parsed arguments and returns the exit code.
        summary: First paragraph of the help page.
        examples: Command lines that work, without `elmo` and the name.
    """

    def __init__(
        self, name: str, run: Callable[[Arguments], int], summary: str, examples: Sequence[str]
    ) -> None:
        self.name, self.run = name, run
        self._summary, self._examples = summary, examples
        self._parser = _Parser(prog=f"elmo {name}", add_help=False, allow_abbrev=False)
        self._shown: list[tuple[str, str, bool, bool]] = []
        self._settings: dict[str, tuple[str, Callable[[Arguments], object]]] = {}
        self._leaves: dict[str, Leaf] = {}
        self._shown_leaves: list[Leaf] = []
        for flag in ("--json", "--quiet", "--help", "--help-all"):
            self._parser.add_argument(flag, action="store_true")

    def option(
        self,
        spec: str,
        help: str,
        *,
        name: str | None = None,
        rare: bool = False,
        required: bool = False,
        **options: Any,
    ) -> None:
        """Add an option or a positional argument.

        Args:
            spec: As the help page shows it: `--quiet`, `--out FOLDER`, `--to elmo|official`,
                `--test SOURCE ...`, `TEXT`, `[MODEL]`, `SOURCE ...`, `[SOURCE ...]`.
            help: One sentence.
            name: The attribute of the parsed arguments, if it is not that of the flag.
            rare: Listed by `--help-all` only.
            required: For options; arguments in brackets may be left out.
            options: `type` and `default`, as argparse takes them.
        """
        first, *words = spec.strip("[]").split()
        many = bool(words) and words[-1] == "..."
        if not spec.startswith("-"):
            nargs = {"[": "*" if many else "?"}.get(spec[0], "+" if many else None)
            self._parser.add_argument(str(name), metavar=first, nargs=nargs, **options)
        else:
            if not words:
                options["action"] = "store_true"
            elif "|" in words[0]:
                options["choices"] = words[0].split("|")
            if many:
                options |= {"nargs": "+" if required else "*", "default": []}
            flags = dict.fromkeys([first, f"--{first[2:].replace('-', '_')}"])
            dest = name or first[2:].replace("-", "_")
            self._parser.add_argument(*flags, dest=dest, required=required, **options)
        self._shown.append((spec, help, required, rare))

    def settings(
        self,
        name: str,
        defaults: object,
        shown: str = "",
        *,
        section: str = "",
        choose: Callable[[Arguments], object] | None = None,
    ) -> None:
        """Accept all fields of a settings dataclass: `--set`, `--config`, a hidden flag for each.

        Args:
            name: The attribute of the parsed arguments that will hold the settings.
            defaults: The settings to change, or a list of those that `choose` may return.
            shown: Names of the fields that the help page shows, separated by spaces.
            section: Comes before the names of the fields in `--set` and `--config`.
            choose: Gives the settings to change, from the other arguments.
        """
        if not self._settings:
            self._parser.add_argument("--set", nargs="+", action="extend", default=[])
            self._parser.add_argument("--config", type=Path)

        def as_they_are(_: Arguments) -> object:
            return defaults

        self._settings[name] = (section, choose or as_they_are)
        alternatives = cast("list[object]", defaults if isinstance(defaults, list) else [defaults])
        for settings in alternatives:
            for leaf in _leaves_of(settings, section):
                self._add_leaf(leaf)
        by_name = {leaf.name: leaf for leaf in self._leaves.values()}
        self._shown_leaves += [by_name[field] for field in shown.split()]

    def _add_leaf(self, leaf: Leaf) -> None:
        if leaf.path in self._leaves:
            return
        self._leaves[leaf.path] = leaf
        flags = list(dict.fromkeys([leaf.flag, f"--{leaf.name}"]))
        if not self._parser.flags.isdisjoint(flags):
            return  # the command has an option of this name
        add = self._parser.add_argument
        common: dict[str, Any] = {"dest": f"leaf {leaf.path}", "default": argparse.SUPPRESS}
        if leaf.type is bool:
            negated = [f"--no-{flag[2:]}" for flag in flags]
            add(*flags, action="store_const", const="true", **common)
            add(*negated, action="store_const", const="false", **common)
        else:
            many = any(get_origin(kind) is tuple for kind in (leaf.type, *get_args(leaf.type)))
            add(*flags, nargs="*" if many else None, **common)

    def parse(self, argv: Sequence[str]) -> Arguments:
        """Parse what follows the command's name; all problems of settings are reported at once."""
        everything = "--help-all" in argv
        if everything or "--help" in argv or "-h" in argv:
            print(self.help(everything=everything))
            raise SystemExit(0)
        args = self._parser.parse(argv)
        args.command_line = shlex.join(["elmo", *self.name.split(), *argv])
        if not self._settings:
            return args
        changes, problems = self._changes(args)
        sections = [section for section, _ in self._settings.values()]
        for name, (section, choose) in self._settings.items():
            defaults = choose(args)
            rest = {key: value for key, value in changes.items() if key not in sections}
            own = changes.get(section, {}) if section else rest
            try:
                content = _merged(to_json(defaults), own)
                setattr(args, name, from_json(type(defaults), content, section))
            except ConfigError as error:
                problems += error.problems
        if "" not in sections:
            unknown = [key for key in changes if key not in sections]
            problems += [f"unknown key {key!r}{nearest(key, sections)}" for key in unknown]
        if problems:
            raise ConfigError(problems)
        return args

    def _changes(self, args: Arguments) -> tuple[Json, list[str]]:
        """What the file, `--set` and hidden flags change, later ones first; and unknown keys."""
        changes = {} if args.config is None else _read_file(args.config)
        typed: list[tuple[str, str | list[str]]] = []
        problems: list[str] = []
        for pair in args.set:
            key, equals, text = pair.partition("=")
            key = key.replace("-", "_")
            paths = [path for path in self._leaves if f".{path}".endswith(f".{key}")]
            if not equals:
                problems.append(f"--set: expected KEY=VALUE, got {pair!r}")
            elif len(paths) != 1 and key not in self._leaves:
                names = [*self._leaves, *(leaf.name for leaf in self._leaves.values())]
                hint = nearest(key, names) or "; --help-all lists all settings"
                problems.append(f"--set: unknown key {key!r}{hint}")
            else:
                typed.append((key if key in self._leaves else paths[0], text))
        for dest in [dest for dest in vars(args) if dest.startswith("leaf ")]:
            typed.append((dest.removeprefix("leaf "), getattr(args, dest)))
            delattr(args, dest)
        for path, text in typed:
            *parents, name = path.split(".")
            inner = changes
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[name] = from_text(self._leaves[path].type, text)
        return changes, problems

    def help(self, *, everything: bool = False) -> str:
        """The help page: the options that people use, or every setting with its default."""
        shown = [entry for entry in self._shown if everything or not entry[3]]
        arguments = [(spec, text) for spec, text, _, _ in shown if not spec.startswith("-")]
        options = [(spec, text) for spec, text, _, _ in shown if spec.startswith("-")]
        settings: list[tuple[str, str]] = []
        for leaf in self._leaves.values() if everything else self._shown_leaves:
            doc = _field_docs(leaf.owner).get(leaf.name, "")
            doc = doc if everything else f"{doc.partition('. ')[0].rstrip('.')}."
            if leaf.default is not None and "efault:" not in doc:
                doc += f" (default: {_text_of(leaf.default)})"
            flag = f"{leaf.flag} {_metavar(leaf.type)}".rstrip()
            settings.append((leaf.path if everything else flag, doc))
        always = [("--json", "Print JSON for scripts."), ("--quiet", "Show no progress.")]
        if self._settings:
            always += [
                ("--set KEY=VALUE ...", "Change any setting."),
                ("--config FILE", "Read settings from JSON or TOML."),
                ("--help-all", "List every setting with its default."),
            ]
        usage = [spec for spec, _ in arguments]
        usage += [spec for spec, _, required, _ in shown if required]
        lines = [f"usage: elmo {' '.join([self.name, *usage, '[options]'])}", ""]
        lines += [*textwrap.wrap(self._summary, HELP_WIDTH), ""]
        lines += [f"  elmo {self.name} {example}".rstrip() for example in self._examples]
        blocks = {
            "arguments": arguments,
            "options": options,
            "settings": settings,
            "always": always,
        }
        for title, entries in blocks.items():
            lines += ["", f"{title}:"] if entries else []
            for call, text in entries:
                described = textwrap.wrap(text, HELP_WIDTH - HELP_COLUMN) or [""]
                if len(call) + 4 > HELP_COLUMN:
                    lines.append(f"  {call}")
                    call = ""
                else:
                    lines.append(f"  {call}".ljust(HELP_COLUMN) + described.pop(0))
                lines += [" " * HELP_COLUMN + line for line in described]
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """argparse whose mistakes are errors of ours, with a suggestion."""

    @property
    def flags(self) -> set[str]:
        """All options it knows."""
        return set(self._option_string_actions)

    def parse(self, argv: Sequence[str]) -> Arguments:
        """Parse options and positional arguments in any order."""
        args, rest = self.parse_known_intermixed_args(argv)
        unknown = [word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"]
        for flag in unknown:
            known = [guess for guess in GUESSES.get(flag, ()) if guess.split()[0] in self.flags]
            hint = f" (did you mean {known[0]!r}?)" if known else nearest(flag, self.flags)
            self.error(f"unknown option {flag}{hint}")
        if rest:
            self.error(f"unexpected argument {rest[0]!r}")
        return args

    def error(self, message: str) -> NoReturn:
        """Raise what `main` tells in one line."""
        raise UserError(f"{message}; see {self.prog} --help")


def _leaves_of(settings: object, path: str) -> Iterator[Leaf]:
    """All settings of a dataclass and of those inside it, in the order of their definition."""
    owner = type(settings)
    hints = get_type_hints(owner)
    for field in fields(cast("Any", settings)):
        value, inner = getattr(settings, field.name), f"{path}.{field.name}".lstrip(".")
        if is_dataclass(value):
            yield from _leaves_of(value, inner)
        else:
            yield Leaf(inner, hints[field.name], value, owner)


def _field_docs(cls: type) -> dict[str, str]:
    """The strings below the fields of a dataclass; only its source has them."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not is_dataclass(base):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for field, below in pairwise(cast("ast.ClassDef", definition).body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(text))
                ):
                    docs[name] = " ".join(text.split())
                case _:
                    pass
    return docs


def _metavar(kind: Any) -> str:
    if kind is bool:
        return ""
    if get_origin(kind) is tuple:
        return f"{_metavar(get_args(kind)[0])} ..."
    if get_origin(kind) is Literal:
        return "NAME"
    kinds = get_args(kind) or (kind,)
    return "N" if int in kinds or float in kinds else "TEXT"


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, tuple) else str(value)


def _read_file(path: Path) -> Json:
    """Settings from a file; JSON unless its name ends in .toml."""
    try:
        content = path.read_text(encoding="utf-8")
        data: object = tomllib.loads(content) if path.suffix == ".toml" else json.loads(content)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: expected settings in JSON or TOML, but {error}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected sections of settings, got {type(data).__name__}")
    return cast("Json", data)


def _merged(defaults: Json, changes: object) -> object:
    """`defaults` with the values of `changes`, section by section."""
    if not isinstance(changes, dict):
        return changes  # no section: `from_json` says so
    merged: Json = dict(defaults)
    for key, value in cast("Json", changes).items():
        nested = isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if nested else value
    return merged


# Options that several commands have.

SOURCES = "Files, patterns, folders, '-' for standard input, or ag_news."


def add_preset(command: Command, shown: str) -> None:
    """All settings of a pre-training on top of a preset, as `args.config`."""
    from elmo.training.config import PRESETS, PretrainConfig

    def starting(args: Arguments) -> PretrainConfig:
        if getattr(args, "start_from", None) is None:
            return PRESETS[args.preset]
        from elmo.training.pretrain import settings_of

        return settings_of(args.start_from)

    command.option(f"--preset {'|'.join(PRESETS)}", "Settings to start from.", default="default")
    command.settings("config", PretrainConfig(), shown, choose=starting)


def add_reading(command: Command, shown: str = "column") -> None:
    """How texts are found inside files, as `args.read`."""
    command.settings("read", ReadOptions(), shown, section="read")


def add_cache(command: Command) -> None:
    """Where prepared corpora are, as `args.cache`."""
    command.option(
        "--cache FOLDER",
        "Where prepared corpora are kept (default: $ELMO_CACHE or ~/.cache/elmo).",
        type=Path,
        rare=True,
    )


def add_device(command: Command, *, precision: bool = False) -> None:
    """Where to compute, as `args.device`, `args.threads` and `args.precision`."""
    command.option("--device DEVICE", "cpu, cuda, cuda:1, … (default: cpu)", default="cpu")
    command.option("--threads N", "CPU threads (default: one per core).", type=int)
    if precision:
        choices = ("fp32", "bf16", "auto")
        command.option(
            f"--precision {'|'.join(choices)}",
            "Of the matrix products; auto: bf16 where the processor is made for it.",
            default="fp32",
        )


def add_model(command: Command, *, classifier: bool = False) -> None:
    """A model by name or path, as `args.model`; the shipped one by default."""
    what = "A classifier's folder" if classifier else "A model folder, or official files"
    command.option(
        "--model NAME_OR_PATH",
        f"{what} (default: shipped news model).",
        type=_model_path(CLASSIFIER if classifier else BILM),
        default=CLASSIFIER if classifier else BILM,
    )


def add_tokenizer(command: Command) -> None:
    """How texts are cut into words, as `args.tokenizer`."""
    command.option(
        "--tokenizer model|whitespace",
        "model: as in training; whitespace: the text is tokenized already, cut at spaces.",
        default="model",
    )


def add_texts(command: Command, what: str = "TEXT") -> None:
    """A few texts and the model to read them with: `[MODEL] TEXT …`, `--files`, `--model`."""
    command.option(
        f"[{what} ...]",
        "Texts in quotes; '-': one per line of standard input. A model folder may come first.",
        name="texts",
    )
    command.option("--files FILES ...", "Files with one text per line, or in column 'text'.")
    add_model(command)
    add_tokenizer(command)


def _model_path(shipped: Path) -> Callable[[str], Path]:
    return lambda name: shipped if name in ("default", "news") else Path(name)


def take_model(args: Arguments, words: list[str]) -> list[str]:
    """Take a model folder that comes first among positional arguments; return the others."""
    if not words or args.model != BILM:
        return words
    first = Path(words[0])
    # A mistyped path must not be read as a text by another model.
    mistyped = len(words) > 1 and "/" in words[0] and not any(sign.isspace() for sign in words[0])
    if mistyped or (first.is_dir() and words[0] not in ("", "/")):
        args.model = first
        return words[1:]
    return words


def read_texts(args: Arguments) -> list[str]:
    """The texts of a command with `add_texts`, typed ones first; sets `args.model`."""
    from elmo.text.sources import read_documents, resolve

    words = take_model(args, args.texts)
    sources = [word for word in words if word == "-"] + args.files
    texts = [checked_text(word) for word in words if word != "-"]
    return texts + (list(read_documents(resolve(sources), ReadOptions())) if sources else [])


def require_texts(texts: Sequence[str]) -> Sequence[str]:
    """Make sure that there is a text, and that none is empty."""
    if not texts:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    if any(not text.strip() for text in texts):
        raise UserError("expected a text with words, but an empty one was given; leave it out")
    return texts


def checked_text(text: str) -> str:
    """A text as it was typed, if it is UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(f"expected text in UTF-8, but got {text!r:.60}; convert it first")
    return text


def open_model(args: Arguments) -> LanguageModel:
    """Load `args.model`, ready to cut raw text into words."""
    from elmo.language_model import open_model as open_any

    loaded = open_any(args.model)
    if args.tokenizer == "whitespace":
        return replace(loaded, tokenizer=replace(loaded.tokenizer, tokenizer="whitespace"))
    if loaded.tokenizer.tokenizer == "custom":
        raise UserError(
            f"{args.model}: this model reads words cut by a Python function of its maker, which a "
            "command cannot call; cut the text into words yourself, put spaces between them and "
            "use --tokenizer whitespace"
        )
    return loaded


def open_embedder(args: Arguments) -> Embedder:
    """Load `args.model`, ready to compute vectors on the device asked for."""
    from elmo.embed.embedder import Embedder, load_start_state
    from elmo.training.optim import compute_precision

    loaded = open_model(args)
    model = loaded.model.to(args.device)
    model.compute_dtype = compute_precision(args.precision, model.device)
    return Embedder(loaded, start_state=load_start_state(args.model, model))

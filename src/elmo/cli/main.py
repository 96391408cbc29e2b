"""The `elmo` command: how subcommands are declared, found, parsed and run.

A user's mistake is one line on standard error and exit code 2. argparse parses. What it lacks is in
`Command`: settings dataclasses that are reached by `--set key=value`, by `--config FILE` and by a
hidden flag per setting, and a help page with the options that people use. (tyro, which we used
before, shows a flag per field: 200 lines of help for `elmo pretrain`.)
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import json
import logging
import os
import shlex
import signal
import sys
import textwrap
import threading
import tomllib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
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

import elmo
from elmo.config import (
    BILM,
    CLASSIFIER,
    SHIPPED,
    Json,
    from_json,
    from_text,
    merged,
    nearest,
    to_json,
)
from elmo.errors import ConfigError, UserError
from elmo.files import expanded
from elmo.runtime import keep_freed_memory
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import allow_tokenizer

if TYPE_CHECKING:
    from elmo.embed.embedder import Embedder
    from elmo.language_model import LanguageModel

Arguments = argparse.Namespace
HELP_WIDTH, HELP_COLUMN = 98, 27
OK, MISTAKE, INTERRUPTED = 0, 2, 130
LARGEST_CONFIG = 1 << 20

COMMANDS = {
    "check": ("corpus", "inspect a corpus before training on it"),
    "pretrain": ("pretrain", "train a biLM on any text, or resume a run"),
    "evaluate": ("pretrain", "perplexity and accuracy of a biLM on a text"),
    "info": ("pretrain", "what is in a model or classifier folder"),
    "models": ("models", "public models by name: language, corpus, licence, what is here"),
    "download": ("models", "download a public model to the cache"),
    "convert": ("official", "official ELMo files to a model folder, and back"),
    "verify": ("official", "compare a model's layers with stored ones"),
    "embed": ("embed", "one vector per text or per word"),
    "static": ("embed", "static word vectors (SVD, skip-gram), to compare with"),
    "neighbours": ("embed", "the nearest words of a word in context"),
    "classify": ("classify", "train, evaluate and use text classifiers"),
    "serve": ("serve", "a server for programs, and a page to see what the model sees"),
    "index": ("serve", "vectors of all words of a corpus, for the page"),
    "tag": ("tag", "train, evaluate and use taggers: parts of speech, names"),
    "pairs": ("pairs", "train, evaluate and use classifiers and scorers of two texts"),
    "probe": ("probe", "what each layer of a biLM knows: parts of speech, senses, similarity"),
    "study": ("study", "compare embeddings on labelled texts, with a report"),
    "score": ("lm", "log-probability of each word of a text, in both directions"),
    "predict": ("lm", "candidates for a blank, from both directions"),
    "generate": ("lm", "continue a prompt, forwards or backwards"),
    "completion": ("completion", "a script that completes commands and options in your shell"),
}
"""Each command's module and what it does."""
PARTS = {
    "classify": {
        "train": "train a classifier on labelled texts, on top of a biLM",
        "evaluate": "measure a classifier on labelled texts",
        "predict": "labels of texts, with probabilities",
    },
    "tag": {
        "train": "train a tagger on CoNLL files, on top of a biLM",
        "evaluate": "measure a tagger on CoNLL files",
        "predict": "the tags of texts or CoNLL files",
    },
    "pairs": {
        "train": "train on pairs of texts with a label or score, on top of a biLM",
        "evaluate": "measure on pairs with a label or score",
        "predict": "labels or scores of pairs",
    },
}
"""Commands that have commands of their own."""

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 for success, 1 for a negative result, 2 for a user's mistake.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not what a notebook or a test puts there
            # Signs that the locale lacks, and names that are not UTF-8, are shown as escapes.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except UserError as error:
        return _tell(str(error), MISTAKE)
    except BrokenPipeError:
        # The reader of our output has closed it; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        # A full disk, a lost file system: nothing of ours to fix, so a traceback would not help.
        return _tell(str(error), MISTAKE)
    except KeyboardInterrupt as error:
        return _tell(str(error) or "interrupted", INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        # torch reports the lack of memory as a RuntimeError.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        advice = "use a smaller model or smaller batches, or a machine with more memory"
        return _tell(f"not enough memory; {advice}", MISTAKE)


def parse(argv: Sequence[str]) -> tuple[Command, Arguments]:
    """The command that a line asks for, and its arguments; its module is imported here."""
    name, *rest = argv
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}{nearest(name, COMMANDS)}; see elmo --help")
    if argv[:2] == ["study", "paper"]:  # its texts are fixed, so it is a command of its own
        command = importlib.import_module("elmo.cli.paper").study_paper_command()
        return command, command.parse(rest[1:])
    module = importlib.import_module(f"elmo.cli.{COMMANDS[name][0]}")
    if name in PARTS:
        part, *rest = rest
        if part not in PARTS[name]:
            hint = nearest(part, PARTS[name])
            raise UserError(f"unknown command '{name} {part}'{hint}; see elmo {name} --help")
        name = f"{name}_{part}"
    command: Command = getattr(module, f"{name}_command")()
    return command, command.parse(rest)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_overview("elmo", {name: what for name, (_, what) in COMMANDS.items()}))
        return OK if argv else MISTAKE
    if argv[0] in ("-V", "--version"):
        print(f"elmo {elmo.__version__}")
        return OK
    if argv[0] in PARTS and (len(argv) == 1 or argv[1] in ("-h", "--help")):
        print(_overview(f"elmo {argv[0]}", PARTS[argv[0]]))
        return OK
    command, args = parse(argv)
    from elmo.cli.display import safe

    formatter, handler = logging.Formatter(), logging.StreamHandler()
    formatter.formatMessage = lambda record: safe(record.message)  # but not a traceback's lines
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler])
    logging.getLogger("elmo").setLevel(logging.WARNING if args.quiet else logging.INFO)
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it logs every step
    keep_freed_memory()
    with _clean_ends():
        return command.run(args)


@contextmanager
def _clean_ends() -> Generator[None]:
    """Let SIGTERM and SIGHUP end a command as an exception does, so that nothing is left behind.

    Commands that write checkpoints take these signals over (`stop_requested`).
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(message: str, code: int) -> int:
    from elmo.cli.display import safe

    lines = [safe(line[:2000] + " …" * (len(line) > 2000)) for line in message.splitlines()]
    sys.stderr.write("elmo: " + "\n".join(lines) + "\n")
    return code


def _overview(prog: str, commands: dict[str, str]) -> str:
    lines = [f"  {name:<10} {what}" for name, what in commands.items()]
    about = "Deep contextual word embeddings that you can train on your own text.\n"
    return "\n".join(
        [f"usage: {prog} COMMAND …\n", about, *lines, f"\n{prog} COMMAND --help shows its options."]
    )


class Leaf(NamedTuple):
    """One setting: a field of a settings dataclass that is no dataclass itself."""

    path: str
    """Its dotted path, such as `training.epochs`."""
    type: Any
    default: object
    owner: type
    """The dataclass, whose source has the description."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class Command:
    """A subcommand of `elmo`: what it accepts, its help page, and the function that runs it.

    Args:
        name: As it is typed after `elmo`, such as `classify train`.
        run: Takes the parsed arguments and returns the exit code.
        page: What it does; after a blank line, command lines that work; then what `options` takes;
            then, for `--help-all` only, what is rarely used.
    """

    def __init__(self, name: str, run: Callable[[Arguments], int], page: str) -> None:
        self.name, self.run = name, run
        summary, examples, *options = textwrap.dedent(page).strip().split("\n\n")
        self._summary, self._examples = " ".join(summary.split()), examples
        self._parser = _Parser(prog=f"elmo {name}", add_help=False, allow_abbrev=False)
        self._shown: list[tuple[str, str, bool, bool]] = []
        self._settings: dict[str, tuple[str, Callable[[Arguments], object]]] = {}
        self._leaves: dict[str, Leaf] = {}
        self._shown_leaves: list[Leaf] = []
        for flag in ("--json", "--quiet", "--help", "--help-all"):
            self._parser.add_argument(flag, action="store_true")
        for idx, block in enumerate(options):
            self.options(block, rare=idx > 0)

    def options(self, page: str, *, rare: bool = False) -> None:
        """Add options and arguments, one per line: what `option` takes, two spaces apart.

        What is indented belongs to the line above. `rare`: listed by `--help-all` only.
        """
        lines = textwrap.dedent(page).strip().replace("\n ", " ").splitlines()
        for spec, _, help in (line.partition("  ") for line in lines):
            self.option(spec, " ".join(help.split()), rare=rare)

    def option(
        self, spec: str, help: str, *, name: str = "", rare: bool = False, **options: Any
    ) -> None:
        """Add an option or a positional argument.

        Args:
            spec: As the help page shows it: `--quiet`, `--out FOLDER`, `--test SOURCE ...`, `TEXT`,
                `[MODEL]`, `SOURCE ...`, `[SOURCE ...]`; `--top N=10` and `--to elmo|official=elmo`
                with a default. FOLDER and FILE are paths, N is a whole number, X any number.
            help: One sentence; it ends in "(required)" if the option must be there.
            name: The attribute of the parsed arguments, if it is not that of the flag, or the
                argument in lower case, in the plural if there may be many.
            options: `type`, `default` and `choices`, as argparse takes them.
        """
        spec, _, default = spec.partition("=")
        if default:
            options["default"] = default
            help = f"{help.removesuffix('.')} (default: {default})."
        first, *words = spec.strip("[]").split()
        kind, many, required = (words or [first])[0], words[-1:] == ["..."], "(required)" in help
        if kind in TYPES:
            options.setdefault("type", TYPES[kind])
        if not spec.startswith("-"):
            nargs = {"[": "*" if many else "?"}.get(spec[0], "+" if many else None)
            name = name or first.lower() + "s" * many
            self._parser.add_argument(name, metavar=first, nargs=nargs, **options)
        else:
            if not words:
                options["action"] = "store_true"
            elif "|" in kind:
                options["choices"] = kind.split("|")
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
        add = self._parser.add_argument
        if not self._settings:
            add("--set", nargs="+", action="extend", default=[])
            add("--config", type=Path)
        self._settings[name] = (section, choose or (lambda _: defaults))
        alternatives = cast("list[object]", defaults if isinstance(defaults, list) else [defaults])
        for leaf in (leaf for settings in alternatives for leaf in _leaves_of(settings, section)):
            flags = list(dict.fromkeys([f"--{leaf.name.replace('_', '-')}", f"--{leaf.name}"]))
            if leaf.path not in self._leaves and self._parser.flags.isdisjoint(flags):
                common: dict[str, Any] = {"dest": f"leaf {leaf.path}", "default": argparse.SUPPRESS}
                if leaf.type is bool:
                    negated = [f"--no-{flag[2:]}" for flag in flags]
                    add(*flags, action="store_const", const="true", **common)
                    add(*negated, action="store_const", const="false", **common)
                else:
                    types = (leaf.type, *get_args(leaf.type))
                    is_list = any(get_origin(kind) is tuple for kind in types)
                    add(*flags, nargs="*" if is_list else None, **common)
            self._leaves.setdefault(leaf.path, leaf)
        by_name = {leaf.name: leaf for leaf in self._leaves.values()}
        self._shown_leaves += [by_name[field] for field in shown.split()]

    def flags(self) -> list[str]:
        """The options that the help page shows, for completion."""
        shown = [spec.split()[0] for spec, _, _, _ in self._shown if spec.startswith("-")]
        settings = [f"--{leaf.name.replace('_', '-')}" for leaf in self._shown_leaves]
        always = ["--json", "--quiet", "--help"]
        always += ["--set", "--config", "--help-all"] if self._settings else []
        return [*shown, *settings, *always]

    def parse(self, argv: Sequence[str]) -> Arguments:
        """Parse what follows the command's name; all problems of settings are reported at once."""
        everything = "--help-all" in argv
        if everything or "--help" in argv or "-h" in argv:
            print(self.help(everything=everything))
            raise SystemExit(0)
        for flag, value in pairwise([*argv, ""]):
            name, equals, text = flag.partition("=")
            if name in ("--tokenizer", "tokenizer", "tokenizer.tokenizer"):
                allow_tokenizer(named := text if equals else value)
                if named == "custom":
                    raise UserError(f"{flag}: name the function, as MODULE:FUNCTION")
        args = self._parser.parse(argv)
        args.command_line = shlex.join(["elmo", *self.name.split(), *argv])
        if not self._settings:
            return args
        changes, problems = self._changes(args)
        sections = [section for section, _ in self._settings.values()]
        for name, (section, choose) in self._settings.items():
            defaults = choose(args)
            rest = {key: value for key, value in changes.items() if key not in sections}
            content = merged(to_json(defaults), changes.get(section, {}) if section else rest)
            try:
                setattr(args, name, from_json(type(defaults), content, section))
            except ConfigError as error:
                problems += error.problems
        if "" not in sections:
            unknown = [key for key in changes if key not in sections]
            problems += [f"unknown key {key!r:.60}{nearest(key, sections)}" for key in unknown]
        if problems:
            raise ConfigError(problems)
        return args

    def _changes(self, args: Arguments) -> tuple[Json, list[str]]:
        """What the file, `--set` and hidden flags change, in this order; and unknown keys."""
        changes: Json = {}
        if args.config is not None:
            from elmo.files import read_text

            is_toml = args.config.suffix == ".toml"
            text = read_text(args.config, LARGEST_CONFIG)
            try:
                read: object = tomllib.loads(text) if is_toml else json.loads(text)
            except (ValueError, RecursionError) as error:
                kind = "TOML" if is_toml else "JSON"
                raise UserError(f"{args.config}: expected settings in {kind}; {error}") from None
            if not isinstance(read, dict):
                kind = type(read).__name__
                raise UserError(f"{args.config}: expected sections of settings, got {kind}")
            changes = cast("Json", read)
        typed: list[tuple[str, str | list[str]]] = []
        problems: list[str] = []
        for pair in args.set:
            key, equals, text = pair.partition("=")
            key = key.replace("-", "_")
            paths = [path for path in self._leaves if f".{path}".endswith(f".{key}")]
            if not equals:
                problems.append(f"--set: expected KEY=VALUE, got {pair!r:.60}")
            elif len(paths) != 1 and key not in self._leaves:
                names = [*self._leaves, *(leaf.name for leaf in self._leaves.values())]
                hint = nearest(key, names) or "; --help-all lists all settings"
                problems.append(f"--set: unknown key {key!r:.60}{hint}")
            else:
                typed.append((key if key in self._leaves else paths[0], text))
        for dest in [dest for dest in vars(args) if dest.startswith("leaf ")]:
            typed.append((dest.removeprefix("leaf "), getattr(args, dest)))
            delattr(args, dest)
        for path, text in typed:
            *parents, name = path.split(".")
            inner: Any = changes
            for parent in parents:
                inner = inner.setdefault(parent, {}) if hasattr(inner, "setdefault") else None
            if hasattr(inner, "setdefault"):  # else `from_json` says what is wrong with the file
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
                default = json.dumps(leaf.default, ensure_ascii=False).strip('"')
                doc += f" (default: {default})"
            flag = f"--{leaf.name.replace('_', '-')} {_metavar(leaf.type)}".rstrip()
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
        lines += [f"  {example.strip()}" for example in self._examples.splitlines()]
        blocks = (arguments, options, settings, always)
        for title, block in zip(
            ("arguments", "options", "settings", "always"), blocks, strict=True
        ):
            lines += ["", f"{title}:"] if block else []
            for call, text in block:
                described = textwrap.wrap(text, HELP_WIDTH - HELP_COLUMN) or [""]
                if len(call) + 4 <= HELP_COLUMN:
                    lines.append(f"  {call}".ljust(HELP_COLUMN) + described.pop(0))
                else:
                    lines.append(f"  {call}")
                lines += [" " * HELP_COLUMN + line for line in described]
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """argparse whose mistakes are errors of ours, with a suggestion."""

    @property
    def flags(self) -> set[str]:
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
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                docs[ast.unparse(field.target)] = " ".join(ast.literal_eval(below.value).split())
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


# Options that several commands have.

SOURCES = (
    "Files (also .gz, .bz2, .xz, .zst), patterns, folders, addresses (https://, s3://, …), '-' for "
    "standard input, ag_news, or hf:NAME for a data set of the Hugging Face hub."
)


def add_preset(command: Command, shown: str) -> None:
    """All settings of a pre-training on top of a preset, as `args.config`."""
    from elmo.training.config import PRESETS, PretrainConfig

    def starting(args: Arguments) -> PretrainConfig:
        if getattr(args, "start_from", None) is None:
            return PRESETS[args.preset]
        from elmo.training.pretrain import settings_of

        return settings_of(args.start_from)

    command.options(f"--preset {'|'.join(PRESETS)}=default  Settings to start from.")
    command.settings("config", PretrainConfig(), shown, choose=starting)


def add_reading(command: Command, shown: str = "column") -> None:
    """How texts are found inside files, as `args.read`."""
    command.settings("read", ReadOptions(), shown, section="read")


def add_cache(command: Command) -> None:
    """Where prepared corpora are, as `args.cache`."""
    text = "Where prepared corpora are kept (default: $ELMO_CACHE or ~/.cache/elmo)."
    command.options(f"--cache FOLDER  {text}", rare=True)


def add_device(command: Command, *, precision: bool = False) -> None:
    """Where to compute, as `args.device`, `args.threads` and `args.precision`."""
    command.options("""
        --device DEVICE=cpu  cpu, cuda, cuda:1, ….
        --threads N  CPU threads (default: one per core).
    """)
    if precision:
        text = "Of the matrix products; auto: bf16 where the processor is made for it."
        command.options(f"--precision fp32|bf16|auto=fp32  {text}")


def add_model(command: Command, *, classifier: bool = False) -> None:
    """A model by name or path, as `args.model`; the shipped one by default."""
    what = "A classifier's" if classifier else "A model's"
    command.option(
        "--model NAME_OR_PATH",
        f"{what} folder or archive, a name that elmo models lists, hf:USER/REPO or an https:// "
        f"address (default: shipped {'classifier' if classifier else 'model'}).",
        type=partial(model_argument, shipped=CLASSIFIER if classifier else BILM),
        default=CLASSIFIER if classifier else BILM,
    )


def add_tokenizer(command: Command) -> None:
    """How texts are cut into words, as `args.tokenizer`."""
    command.options("""
        --tokenizer NAME=model  model: as in training; whitespace: the text is tokenized already,
            cut at spaces; spacy:LANGUAGE, or a function of yours as MODULE:FUNCTION.
    """)


def add_texts(command: Command, what: str = "TEXT") -> None:
    """A few texts and the model to read them with: `[MODEL] TEXT …`, `--files`, `--model`."""
    command.option(
        f"[{what} ...]",
        "Texts in quotes; '-': one per line of standard input. A model folder may come first.",
        name="texts",
    )
    command.options("--files FILES ...  Files with one text per line, or in column 'text'.")
    add_model(command)
    add_tokenizer(command)


def model_argument(name: str, shipped: Path = BILM) -> Path | str:
    """What was typed for a model; an address stays text, since a path would lose a slash of it."""
    if name in (SHIPPED, "news"):
        return shipped
    return name if "://" in name else expanded(name)


TYPES: dict[str, Callable[[str], Any]] = {
    "FILE": Path, "FOLDER": Path, "MODEL": model_argument, "N": int, "X": float,
}  # fmt: skip


def take_model(args: Arguments, words: list[str]) -> list[str]:
    """Take a model folder that comes first among positional arguments; return the others."""
    if not words or args.model != BILM:
        return words
    first = Path(words[0])
    # A name such as allenai/small; nor must a mistyped path be read as a text by another model.
    named = len(words) > 1 and "/" in words[0] and not any(sign.isspace() for sign in words[0])
    is_archive = words[0].endswith(".zip") and first.is_file()
    if named or is_archive or (first.is_dir() and words[0] not in ("", "/")):
        args.model = model_argument(words[0])
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
    try:
        # In an ASCII locale, Python reads what is not ASCII as surrogates.
        return text.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise UserError(f"expected text in UTF-8, but got {text!r:.60}; convert it first") from None


def open_model(args: Arguments) -> LanguageModel:
    """Load `args.model`, ready to cut raw text into words."""
    from elmo.language_model import open_model as open_any

    if args.tokenizer not in ("model", "whitespace"):
        return open_any(args.model, custom_tokenizer=args.tokenizer)
    loaded = open_any(args.model)
    if args.tokenizer == "whitespace":
        return replace(loaded, tokenizer=replace(loaded.tokenizer, tokenizer="whitespace"))
    if loaded.tokenizer.tokenizer == "custom":
        raise UserError(
            f"{args.model}: this model reads words cut by a Python function of its maker; name it, "
            "--tokenizer MODULE:FUNCTION, or cut the text into words yourself, put spaces between "
            "them and use --tokenizer whitespace"
        )
    return loaded


def open_embedder(args: Arguments) -> Embedder:
    """Load `args.model`, ready to compute vectors on the device asked for."""
    from elmo.embed.embedder import Embedder
    from elmo.runtime import compute_precision

    loaded = open_model(args)
    model = loaded.model.to(args.device)
    model.compute_dtype = compute_precision(args.precision, model.device)
    return Embedder(loaded)

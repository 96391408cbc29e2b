"""The `elmo` command: finds the subcommand, and turns a user's mistake into one line and a 2."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import elmo
from elmo.config import nearest
from elmo.errors import UserError
from elmo.runtime import keep_freed_memory

if TYPE_CHECKING:
    from elmo.cli.options import Arguments, Command

COMMANDS = {
    "check": ("corpus", "inspect a corpus before training on it"),
    "pretrain": ("pretrain", "train a biLM on any text, or resume a run"),
    "evaluate": ("pretrain", "perplexity and accuracy of a biLM on a text"),
    "info": ("pretrain", "what is in a model folder"),
    "convert": ("official", "official ELMo files to a model folder, and back"),
    "verify": ("official", "compare a model's layers with stored ones"),
    "embed": ("embed", "one vector per text or per word"),
    "static": ("embed", "static word vectors (SVD, skip-gram), to compare with"),
    "neighbours": ("embed", "the nearest words of a word in context"),
    "classify": ("classify", "train, evaluate and use text classifiers"),
    "study": ("study", "compare embeddings on labelled texts, with a report"),
    "score": ("lm", "log-probability of each word of a text, in both directions"),
    "predict": ("lm", "candidates for a blank, from both directions"),
    "generate": ("lm", "continue a prompt, forwards or backwards"),
}
"""Each command's module and what it does."""
CLASSIFY = {
    "train": "train a classifier on labelled texts, on top of a biLM",
    "evaluate": "measure a classifier on labelled texts",
    "predict": "labels of texts, with probabilities",
}
OK, MISTAKE, INTERRUPTED = 0, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 for success, 1 for a negative result, 2 for a user's mistake.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
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


def parse(argv: Sequence[str]) -> tuple[Command, Arguments]:
    """The command that a line asks for, and its arguments; its module is imported here."""
    name, *rest = argv
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}{nearest(name, COMMANDS)}; see elmo --help")
    module = importlib.import_module(f"elmo.cli.{COMMANDS[name][0]}")
    if name == "classify":
        part, *rest = rest
        if part not in CLASSIFY:
            hint = nearest(part, CLASSIFY)
            raise UserError(f"unknown command 'classify {part}'{hint}; see elmo classify --help")
        name = f"classify_{part}"
    command: Command = getattr(module, f"{name}_command")()
    return command, command.parse(rest)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_overview("elmo", {name: what for name, (_, what) in COMMANDS.items()}))
        return OK if argv else MISTAKE
    if argv[0] in ("-V", "--version"):
        print(f"elmo {elmo.__version__}")
        return OK
    if argv[0] == "classify" and (len(argv) == 1 or argv[1] in ("-h", "--help")):
        print(_overview("elmo classify", CLASSIFY))
        return OK
    command, args = parse(argv)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("elmo").setLevel(logging.WARNING if args.quiet else logging.INFO)
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it logs every step
    keep_freed_memory()
    return command.run(args)


def _tell(message: str, code: int) -> int:
    from elmo.cli.display import safe

    lines = [safe(line) for line in message.splitlines()]
    sys.stderr.write("elmo: " + "\n".join(lines) + "\n")
    return code


def _overview(prog: str, commands: dict[str, str]) -> str:
    lines = [f"  {name:<10} {what}" for name, what in commands.items()]
    about = "Deep contextual word embeddings that you can train on your own text.\n"
    return "\n".join(
        [f"usage: {prog} COMMAND …\n", about, *lines, f"\n{prog} COMMAND --help shows its options."]
    )

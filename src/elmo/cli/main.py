"""Finds the subcommand, reads its arguments, and turns users' mistakes into one line and a 2."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import elmo
from elmo.config import nearest
from elmo.errors import UserError
from elmo.runtime import keep_freed_memory

COMMANDS = {
    "check": "look through a corpus before training on it",
    "pretrain": "train a biLM on any text, or go on with a run",
    "evaluate": "perplexity and accuracy of a biLM on a text",
    "info": "what is in a model folder",
    "convert": "official ELMo files to a model folder, and back",
    "verify": "compare a model's layers with stored ones",
    "embed": "vectors of texts, pooled or a word each",
    "static": "static word vectors (SVD, skip-gram), to compare with",
    "neighbours": "a word's nearest words in context, with their sentences",
    "classify": "train, measure and use classifiers of texts",
    "study": "compare embeddings on labelled texts, with a report",
    "score": "log-probability of each word of a text, both directions",
    "predict": "candidates for a blank, from both directions",
    "generate": "write on from a prompt, forwards or backwards",
}
MODULES = {
    "check": "corpus",
    "evaluate": "pretrain",
    "info": "pretrain",
    "convert": "official",
    "verify": "official",
    "static": "embed",
    "neighbours": "embed",
    "score": "lm",
    "predict": "lm",
    "generate": "lm",
}
"""Commands whose module is not named after them."""
OK, MISTAKE, INTERRUPTED = 0, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 if it did what was asked, 2 for a user's mistake."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except UserError as error:
        sys.stderr.write(f"elmo: {error}\n")
        return MISTAKE
    except BrokenPipeError:
        # Whoever read our output has had enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        # A full disk, a lost file system: nothing of ours to mend, and no use for a traceback.
        sys.stderr.write(f"elmo: {error}\n")
        return MISTAKE
    except KeyboardInterrupt as error:
        sys.stderr.write(f"elmo: {str(error) or 'interrupted'}\n")
        return INTERRUPTED


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_overview())
        return OK if given else MISTAKE
    if given[0] in ("-V", "--version"):
        print(f"elmo {elmo.__version__}")
        return OK
    name, rest = given[0], given[1:]
    if name not in COMMANDS:
        raise UserError(f"unknown command {name!r}{nearest(name, COMMANDS)}; see elmo --help")
    parse, run = command(name)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("elmo").setLevel(logging.INFO)
    # Gensim would tell of every step that it takes.
    logging.getLogger("gensim").setLevel(logging.ERROR)
    settings = parse(rest)
    keep_freed_memory()
    return run(settings)


def command(name: str) -> tuple[Callable[[Sequence[str]], Any], Callable[[Any], int]]:
    """The functions that parse a command's arguments and run it, imported when they are used."""
    module = importlib.import_module(f"elmo.cli.{MODULES.get(name, name)}")
    return getattr(module, f"parse_{name}"), getattr(module, f"run_{name}")


def _overview() -> str:
    lines = [f"  {name:<10} {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: elmo COMMAND …",
            "",
            "Deep contextual word embeddings that you can train on your own text, and trust.",
            "",
            *lines,
            "",
            "elmo COMMAND --help tells more; elmo --version tells the version.",
        ]
    )

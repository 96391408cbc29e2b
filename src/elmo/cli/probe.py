"""elmo probe: what each layer of a biLM knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.display import print_json, print_table
from elmo.cli.main import Arguments, Command, add_device, add_model
from elmo.errors import UserError
from elmo.tasks.config import ProbeConfig

if TYPE_CHECKING:
    from elmo.config import Json

DATA = "--data FOLDER  Folder of ud_english_ewt, semcor and so on (default: $ELMO_DATA)."


def probe_command() -> Command:
    page = f"""
        Measure what each layer of a biLM knows, and their average, with controls: layer 0, a
        random biLM of the same shape and, if a file is given, static vectors. pos: a linear
        classifier on UD EWT; senses: nearest sense of SemCor on the all-words test sets; wic,
        scws: cosines of words in context; similarity: of words averaged over SemCor.

        elmo probe pos --data data
        elmo probe senses --model runs/general --word-vectors glove.txt --json

        PROBE  One of pos, senses, wic, scws, similarity.
        {DATA}
        --word-vectors FILE  Static vectors to compare with.
        --wordnet FOLDER  Folder with WordNet's index.sense (default: Debian's).
    """
    command = Command("probe", run_probe, page)
    add_model(command)
    add_device(command)
    command.settings("config", ProbeConfig(), "epochs train_words seed")
    return command


def data_folder(args: Arguments) -> Path:
    folder = args.data or os.environ.get("ELMO_DATA")
    if not folder or not Path(folder).is_dir():
        raise UserError(
            f"expected a folder of data sets, got {str(folder)!r}; name it with --data, or set "
            "ELMO_DATA (docs/tasks.md lists what it holds)"
        )
    return Path(folder)


def run_probe(args: Arguments) -> int:
    from elmo.classify.features import load_word_vectors
    from elmo.language_model import open_model
    from elmo.runtime import set_device
    from elmo.tasks.probe import run_probe as run

    set_device(args.device, args.threads)
    found = run(
        args.probe,
        open_model(args.model, args.device),
        data_folder(args),
        args.config,
        vectors=load_word_vectors(args.word_vectors),
        wordnet=args.wordnet,
    )
    if args.json:
        print_json(found)
    else:
        print_probe(found)
    return 0


def print_probe(found: Json) -> None:
    lines = [
        [row["name"], f"{row['value']:.4f}",
         f"{row['low']:.4f} to {row['high']:.4f}" if "low" in row else "",
         f"{row['p']:.2g}" if "p" in row else ""]
        for row in found["rows"]
    ]  # fmt: skip
    columns = [found["title"], found["measure"], "95% interval", "p"]
    if any("with_frequency" in row for row in found["rows"]):
        columns += ["with frequency", "p"]
        for line, row in zip(lines, found["rows"], strict=True):
            other = row.get("with_frequency")
            line += [f"{other['value']:.4f}", f"{other['p']:.2g}"] if other else ["", ""]
    print_table(lines, columns)
    against = {row["against"] for row in found["rows"] if "against" in row}
    count = found.get("p_count", found["count"])
    for name in against:
        print(f"p: paired permutation test against {name}, over {count:,} decisions")
    if "back_off" in found:
        print(f"lemmas that the training text lacks: first sense of {found['back_off']}")
        print("with frequency: the cosine, weighted, added to the log-frequency of each sense")

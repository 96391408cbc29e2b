"""The folder of a run: refused where it is taken, made, and given the settings of the run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from elmo.checkpoint import CONFIG, VOCABULARY, save_config
from elmo.config import Json, to_json
from elmo.errors import UserError
from elmo.files import explained, sha256
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.run_config import STAGES, RunConfig
from elmo.text.corpus import Corpus
from elmo.text.vocabulary import Vocabulary


def refuse_taken(folder: Path) -> None:
    """Say at once, before any work is done, that a model cannot go to this folder."""
    if (folder / CONFIG).exists():
        raise UserError(
            f"{folder}: holds a run already; go on with it (--resume {folder}) or choose another "
            "place (--out)"
        )
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{folder}: {there} is a file; choose another place (--out)")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(
            f"{folder}: no permission to write to {there}; choose another place (--out)"
        )


def make_run_folder(folder: Path) -> None:
    """Make the folder, where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, folder) from error


def write_settings(
    folder: Path, run: RunConfig, config: PretrainConfig, corpus: Corpus, vocabulary: Vocabulary
) -> None:
    """Write all that a run needs to be resumed; the settings come last, and tell that it is one."""
    vocabulary.save(folder / VOCABULARY)
    run = replace(
        run,
        corpus=corpus.fingerprint,
        digest=corpus.digest,
        vocabulary=sha256(folder / VOCABULARY),
    )
    stages: Json = {name: to_json(getattr(config, name)) for name in STAGES}
    save_config(folder, config.model, config.tokenizer, {"run": to_json(run), **stages})

"""elmo static SOURCE… --out FILE: static word vectors, to compare ELMo with."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.cli.live import SECONDS_BETWEEN_LINES, LiveDisplay
from elmo.cli.texts import Flag
from elmo.static.config import SkipGramConfig, SvdConfig
from elmo.static.progress import Progress
from elmo.text.readers.options import ReadOptions
from elmo.text.tokenizers import TokenizerConfig

if TYPE_CHECKING:
    from elmo.static.train import TrainedVectors

Method = Literal["svd", "skipgram"]
Settings = TypeVar("Settings", SvdConfig, SkipGramConfig)


@dataclass(frozen=True, kw_only=True)
class Arguments(Generic[Settings]):
    """Write a vector a word to a file in word2vec format, text or binary.

    elmo static ag_news --out vectors.txt

    elmo static ag_news --method skipgram --window 8 --out vectors.bin

    elmo static --method skipgram --help shows the settings of that method.
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="SOURCE ...")]
    """Files, patterns, folders, '-' for standard input, or ag_news."""
    out: Path
    """The file to write: .txt or .vec for text, .bin for the binary format."""
    method: Method = "svd"
    """svd: counts of pairs, factorised; skipgram: learned, as word2vec does."""
    held_out_share: float = 0.02
    """Share of the texts left out: those that elmo pretrain keeps apart for validation."""
    cache: Path | None = None
    """Where prepared corpora are kept; none: $ELMO_CACHE or ~/.cache/elmo."""
    json: Flag = False
    """Print one JSON object."""
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    config: Settings


def parse(given: Sequence[str]) -> Arguments[Any]:
    """Read the flags, which are those of the method."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--method", nargs="?")
    method = first.parse_known_args(given)[0].method
    if method == "skipgram":
        return arguments.parse(Arguments[SkipGramConfig], "static", given)
    return arguments.parse(Arguments[SvdConfig], "static", given)


def run(given: Arguments[Any]) -> int:
    """Make the vectors, show progress, say what was written."""
    from elmo.cli.output import print_json
    from elmo.static.train import train_static
    from elmo.static.word2vec_format import check_word_vector_file

    check_word_vector_file(given.out)
    with StaticDisplay() as display:
        trained = train_static(
            given.sources,
            given.config,
            read=given.read,
            tokenizer=given.tokenizer,
            held_out_share=given.held_out_share,
            cache=given.cache,
            progress=display.show,
        )
        display.show(Progress("writing the file"))
        trained.vectors.save(given.out)
    if given.json:
        print_json({"path": str(given.out), "method": given.method, **_facts(trained)})
    else:
        print(_summary(given.out, trained))
    return 0


class StaticDisplay(LiveDisplay):
    """Shows which stage the work is at."""

    def __init__(self) -> None:
        super().__init__("preparing the text")
        self._stage = ""
        self._last = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Show how far the work is."""
        text = line(progress)
        self.update(text, progress.done, progress.total)
        now = time.monotonic()
        due = progress.stage != self._stage or now - self._last >= SECONDS_BETWEEN_LINES
        if not self.is_terminal and due:
            self.line(text)
            self._stage, self._last = progress.stage, now


def line(progress: Progress) -> str:
    """How far the work is, in one line."""
    of = "" if progress.total is None else f" of {progress.total:,}"
    return f"{progress.stage}: {progress.done:,}{of} texts" if progress.done else progress.stage


def _facts(trained: TrainedVectors) -> dict[str, int]:
    return {
        "words": len(trained.vectors),
        "dim": trained.vectors.dim,
        "documents": trained.documents,
        "tokens": trained.tokens,
    }


def _summary(path: Path, trained: TrainedVectors) -> str:
    return (
        f"{path}: vectors of {trained.vectors.dim:,} numbers for {len(trained.vectors):,} words, "
        f"from {trained.documents:,} texts of {trained.tokens:,} words"
    )

"""elmo neighbours WORD SENTENCE --corpus SOURCE…: the nearest words in context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.cli.texts import Flag, PrecisionName, TokenizerName, open_embedder
from elmo.contextual.neighbour_config import NeighbourConfig
from elmo.shipped import BILM
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.cli.live import LiveDisplay
    from elmo.contextual.neighbours import Neighbours

TEXTS_BETWEEN_UPDATES = 1000


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Find the words of a corpus that mean most nearly what a word means in its sentence.

    elmo neighbours bank "He sat on the bank of the river ." --corpus ag_news

    elmo neighbours court "She won on clay court ." --model runs/news --corpus ag_news --same-word
    """

    word: Annotated[str, Positional, arg(metavar="WORD")]
    """A word of the sentence."""
    sentence: Annotated[str, Positional, arg(metavar="SENTENCE")]
    """The sentence, in quotes; texts of the corpus that are the same are left out."""
    corpus: tuple[str, ...]
    """Where to search: files (a text a line or row), patterns, folders, '-', or ag_news."""
    model: Path = BILM
    """A model folder, or official files; none: the news model that comes with elmo."""
    tokenizer: TokenizerName = "model"
    """model: cut words as in training; whitespace: they are cut already, with spaces between."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    precision: PrecisionName = "fp32"
    """Of the matrix products; bf16 is coarser; auto takes it where the processor is made for it."""
    json: Flag = False
    """Print one JSON object, with the whole texts."""
    neighbours: NeighbourConfig = field(default_factory=NeighbourConfig)
    read: ReadOptions = field(default_factory=ReadOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "neighbours", given)


def run(given: Arguments) -> int:
    """Print a line a neighbour, below the sentence, or an object."""
    from elmo.cli.output import print_json

    found = _find(given)
    if given.json:
        print_json(asdict(found))
    else:
        _show(found)
    return 0


def _find(given: Arguments) -> Neighbours:
    from elmo.cli.embedding import EmbeddingDisplay
    from elmo.cli.training import set_device
    from elmo.contextual.neighbours import find_neighbours
    from elmo.text.sources import read_documents, resolve

    set_device(given.device, given.threads)
    sources = resolve(given.corpus)
    embedder = open_embedder(given.model, given.tokenizer, given.device, given.precision)
    with EmbeddingDisplay() as display:
        documents = _counted(read_documents(sources, given.read), display)
        return find_neighbours(
            embedder,
            given.word,
            given.sentence,
            documents,
            given.neighbours,
            progress=display.show,
        )


def _counted(documents: Iterable[str], display: LiveDisplay) -> Iterator[str]:
    """Tell how many texts there are so far, while they are looked through."""
    for number, text in enumerate(documents):
        if number % TEXTS_BETWEEN_UPDATES == 0:
            display.update(f"looking through the corpus  {number:,} texts")
        yield text


def _show(found: Neighbours) -> None:
    from elmo.cli.concordance import Line, print_concordance

    query = found.query
    lines = [Line("similarity", query.words, query.position)]
    lines += [Line(f"{one.similarity:.4f}", one.words, one.position) for one in found.neighbours]
    print_concordance(lines)
    if not found.neighbours:
        print(f"no neighbours: no other text has {query.word!r}")

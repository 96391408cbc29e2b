"""elmo embed SOURCE… --out FILE: vectors of texts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from tyro.conf import Positional, arg

from elmo.cli import options as arguments
from elmo.cli.display import SECONDS_BETWEEN_LINES, LiveDisplay
from elmo.cli.options import Flag, PrecisionName, TokenizerName, open_embedder
from elmo.config import BILM
from elmo.embed.config import EncodeConfig, NeighbourConfig
from elmo.errors import UserError
from elmo.static.train import Progress, SkipGramConfig, SvdConfig
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig

if TYPE_CHECKING:
    from elmo.embed.files import EmbeddedFile
    from elmo.embed.neighbours import Neighbours
    from elmo.static.train import TrainedVectors


@dataclass(frozen=True, kw_only=True)
class EmbedArguments:
    """Write the vectors of texts to a file; stopped and given again, the command goes on.

    elmo embed texts.txt --out vectors.npz

    elmo embed ag_news:test --out words.h5 --output tokens --layer all --model runs/news

    elmo embed --words --out vocabulary.hdf5 --model runs/news
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="SOURCE ...")] = ()
    """Files (a text a line or row, blank ones left out), patterns, folders, '-', or ag_news."""
    out: Path
    """The file to write: its name ends in .npz, .parquet, .h5 or .hdf5."""
    model: Path = BILM
    """A model folder, or official files; none: the news model that comes with elmo."""
    words: Flag = False
    """Write the vectors of words for themselves, without context: those of a vocabulary file named
    instead of texts (a word a line), or the model's own. With .h5 or .hdf5, as official programs
    store and read them."""
    engine: Literal["local", "ray"] = "local"
    """local: this machine; ray: the cluster at $RAY_ADDRESS, or this machine's cores one by one
    (extra: ray). It also takes fsspec addresses (s3://…) and writes a folder of Parquet files."""
    workers: int | None = None
    """For ray: processes that hold the model; none: one a core of the cluster."""
    tokenizer: TokenizerName = "model"
    """model: cut words as in training; whitespace: they are cut already, with spaces between."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    precision: PrecisionName = "fp32"
    """Of the matrix products; bf16 is coarser; auto takes it where the processor is made for it."""
    json: Flag = False
    """Print one JSON object."""
    encode: EncodeConfig = field(default_factory=EncodeConfig)
    read: ReadOptions = field(default_factory=ReadOptions)


def parse_embed(given: Sequence[str]) -> EmbedArguments:
    """Read the flags."""
    return arguments.parse(EmbedArguments, "embed", given)


def run_embed(given: EmbedArguments) -> int:
    """Write the file, show progress, say what was written."""
    from elmo.cli.display import EmbeddingDisplay, print_json, set_device
    from elmo.embed.files import check_vector_file, embed_text

    if given.words:
        return _embed_words(given)
    if given.engine == "ray":
        return _embed_with_ray(given)
    check_vector_file(given.out)
    set_device(given.device, given.threads)
    embedder = open_embedder(given.model, given.tokenizer, given.device, given.precision)
    with EmbeddingDisplay() as display:
        written = embed_text(
            embedder,
            given.sources,
            given.out,
            given.encode,
            read=given.read,
            progress=display.show,
        )
    if given.json:
        print_json({**asdict(written), "path": str(written.path)})
    else:
        print(_summary(written, given.encode))
    return 0


def _embed_with_ray(given: EmbedArguments) -> int:
    from elmo.cli.display import print_json
    from elmo.embed.ray import embed_with_ray

    if given.out.suffix != ".parquet":
        raise UserError(f"{given.out}: ray writes Parquet; expected a name that ends in .parquet")
    embedder = open_embedder(given.model, given.tokenizer, given.device, given.precision)
    written = embed_with_ray(
        embedder, given.sources, given.out, given.encode, read=given.read, workers=given.workers
    )
    if given.json:
        print_json(asdict(written))
    else:
        print(f"{written.path}: {written.texts:,} texts, vectors of {written.dim:,} numbers")
    return 0


def _embed_words(given: EmbedArguments) -> int:
    from elmo.cli.display import EmbeddingDisplay, print_json, set_device
    from elmo.embed.files import check_word_file, embed_words

    _refuse_context(given)
    check_word_file(given.out)
    set_device(given.device, given.threads)
    embedder = open_embedder(given.model, given.tokenizer, given.device, given.precision)
    with EmbeddingDisplay("words") as display:
        source = given.sources[0] if given.sources else None
        written = embed_words(embedder, given.out, source, progress=display.show)
    if given.json:
        print_json({**asdict(written), "path": str(written.path)})
    else:
        print(f"{written.path}: a vector of {written.dim:,} numbers for {written.words:,} words")
    return 0


def _refuse_context(given: EmbedArguments) -> None:
    """A word for itself is neither read nor pooled: no setting may seem to change that."""
    if given.encode != EncodeConfig() or given.read != ReadOptions():
        raise UserError(
            "--words writes the vectors of single words, so settings of how texts are read and "
            "pooled have no meaning; leave them out"
        )
    if len(given.sources) > 1:
        raise UserError("--words takes one vocabulary file, or none for the model's own words")


def _summary(written: EmbeddedFile, config: EncodeConfig) -> str:
    each = "a text" if config.output == "pooled" else "a word"
    empty = f"; {len(written.empty)} without words" if written.empty else ""
    return (
        f"{written.path}: {written.texts:,} texts, {written.tokens:,} words, a vector of "
        f"{written.dim:,} numbers {each}{empty}"
    )


# elmo neighbours WORD SENTENCE --corpus SOURCE…: the nearest words in context.


TEXTS_BETWEEN_UPDATES = 1000


@dataclass(frozen=True, kw_only=True)
class NeighboursArguments:
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


def parse_neighbours(given: Sequence[str]) -> NeighboursArguments:
    """Read the flags."""
    return arguments.parse(NeighboursArguments, "neighbours", given)


def run_neighbours(given: NeighboursArguments) -> int:
    """Print a line a neighbour, below the sentence, or an object."""
    from elmo.cli.display import print_json

    found = _find(given)
    if given.json:
        print_json(asdict(found))
    else:
        _show(found)
    return 0


def _find(given: NeighboursArguments) -> Neighbours:
    from elmo.cli.display import EmbeddingDisplay, set_device
    from elmo.embed.neighbours import find_neighbours
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
    from elmo.cli.display import Line, print_concordance

    query = found.query
    lines = [Line("similarity", query.words, query.position)]
    lines += [Line(f"{one.similarity:.4f}", one.words, one.position) for one in found.neighbours]
    print_concordance(lines)
    if not found.neighbours:
        print(f"no neighbours: no other text has {query.word!r}")


# elmo static SOURCE… --out FILE: static word vectors, to compare ELMo with.


Method = Literal["svd", "skipgram"]
Settings = TypeVar("Settings", SvdConfig, SkipGramConfig)


@dataclass(frozen=True, kw_only=True)
class StaticArguments(Generic[Settings]):
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


def parse_static(given: Sequence[str]) -> StaticArguments[Any]:
    """Read the flags, which are those of the method."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--method", nargs="?")
    method = first.parse_known_args(given)[0].method
    if method == "skipgram":
        return arguments.parse(StaticArguments[SkipGramConfig], "static", given)
    return arguments.parse(StaticArguments[SvdConfig], "static", given)


def run_static(given: StaticArguments[Any]) -> int:
    """Make the vectors, show progress, say what was written."""
    from elmo.cli.display import print_json
    from elmo.static.train import train_static
    from elmo.text.word_vectors import check_word_vector_file

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
        print(_static_summary(given.out, trained))
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


def _static_summary(path: Path, trained: TrainedVectors) -> str:
    return (
        f"{path}: vectors of {trained.vectors.dim:,} numbers for {len(trained.vectors):,} words, "
        f"from {trained.documents:,} texts of {trained.tokens:,} words"
    )

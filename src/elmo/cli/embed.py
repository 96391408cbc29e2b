"""elmo embed SOURCE… --out FILE: vectors of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.cli.texts import Flag, PrecisionName, TokenizerName, open_embedder
from elmo.contextual.encode_config import EncodeConfig
from elmo.errors import UserError
from elmo.shipped import BILM
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.contextual.embed_text import EmbeddedFile


@dataclass(frozen=True, kw_only=True)
class Arguments:
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


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "embed", given)


def run(given: Arguments) -> int:
    """Write the file, show progress, say what was written."""
    from elmo.cli.embedding import EmbeddingDisplay
    from elmo.cli.output import print_json
    from elmo.cli.training import set_device
    from elmo.contextual.embed_text import embed_text
    from elmo.contextual.vector_files import check_vector_file

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


def _embed_with_ray(given: Arguments) -> int:
    from elmo.cli.output import print_json
    from elmo.contextual.embed_ray import embed_with_ray

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


def _embed_words(given: Arguments) -> int:
    from elmo.cli.embedding import EmbeddingDisplay
    from elmo.cli.output import print_json
    from elmo.cli.training import set_device
    from elmo.contextual.embed_words import embed_words
    from elmo.contextual.word_files import check_word_file

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


def _refuse_context(given: Arguments) -> None:
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

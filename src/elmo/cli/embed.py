"""elmo embed, neighbours, static: vectors of texts, of words in context, and static ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.display import ProgressDisplay, clock, print_concordance, print_json
from elmo.cli.options import (
    Arguments,
    Command,
    add_cache,
    add_device,
    add_model,
    add_reading,
    add_tokenizer,
    open_embedder,
)
from elmo.embed.config import EncodeConfig, NeighbourConfig
from elmo.errors import UserError
from elmo.static.train import SkipGramConfig, SvdConfig
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig

if TYPE_CHECKING:
    from elmo.embed.embedder import Progress
    from elmo.static.train import Progress as StaticProgress

SOURCES = "Files with one text per line or row, patterns, folders, '-', or ag_news."


def embed_command() -> Command:
    """What `elmo embed` accepts."""
    command = Command(
        "embed",
        run_embed,
        "Write the vectors of texts to a file. The same command resumes a job that was stopped.",
        [
            "texts.txt --out vectors.npz",
            "ag_news:test --out words.h5 --output tokens --layer all --model runs/news",
            "--words --out vocabulary.hdf5 --model runs/news",
        ],
    )
    command.option("[SOURCE ...]", f"{SOURCES} Blank lines are skipped.", name="sources")
    command.option(
        "--out FILE", "File to write: .npz, .parquet, .h5 or .hdf5.", type=Path, required=True
    )
    add_model(command)
    command.option(
        "--words",
        "Write vectors of words without context: those of a vocabulary file (one word per line), "
        "or the model's. With .h5 or .hdf5 in the layout of official programs.",
    )
    command.option(
        "--engine local|ray",
        "ray: the cluster at $RAY_ADDRESS, or this machine's cores (extra: ray); reads "
        "fsspec addresses (s3://…), writes a folder of Parquet files.",
        default="local",
    )
    command.option(
        "--workers N",
        "For ray: processes that hold the model (default: one per core of the cluster).",
        type=int,
        rare=True,
    )
    add_tokenizer(command)
    add_device(command, precision=True)
    command.settings("encode", EncodeConfig(), "output layer pooling start", section="encode")
    add_reading(command)
    return command


def run_embed(args: Arguments) -> int:
    """Write the file, show progress, say what was written."""
    from elmo.embed.files import check_vector_file, embed_text
    from elmo.runtime import set_device

    if args.words:
        return _embed_words(args)
    if args.engine == "ray":
        return _embed_with_ray(args)
    check_vector_file(args.out)
    set_device(args.device, args.threads)
    embedder = open_embedder(args)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        written = embed_text(
            embedder,
            args.sources,
            args.out,
            args.encode,
            read=args.read,
            progress=embedding_progress(display),
        )
    if args.json:
        print_json({**asdict(written), "path": str(written.path)})
        return 0
    each = "text" if args.encode.output == "pooled" else "word"
    empty = f"; {len(written.empty)} without words" if written.empty else ""
    print(
        f"{written.path}: {written.texts:,} texts, {written.tokens:,} words, one vector of "
        f"{written.dim:,} numbers per {each}{empty}"
    )
    return 0


def embedding_progress(display: ProgressDisplay, what: str = "texts") -> Callable[[Progress], None]:
    """Progress display for embedding texts, or words."""

    def show(report: Progress) -> None:
        of = "" if report.total is None else f" of {report.total:,}"
        left = "" if report.seconds_left is None else f"  {clock(report.seconds_left)} left"
        speed = f"{report.tokens_per_second:,.0f} words/s"
        display.show(f"{report.texts:,}{of} {what}  {speed}{left}", report.texts, report.total)

    return show


def _embed_with_ray(args: Arguments) -> int:
    from elmo.embed.ray import embed_with_ray

    if args.out.suffix != ".parquet":
        raise UserError(f"{args.out}: ray writes Parquet; expected a name that ends in .parquet")
    written = embed_with_ray(
        open_embedder(args),
        args.sources,
        args.out,
        args.encode,
        read=args.read,
        workers=args.workers,
    )
    if args.json:
        print_json(asdict(written))
    else:
        print(f"{written.path}: {written.texts:,} texts, vectors of {written.dim:,} numbers")
    return 0


def _embed_words(args: Arguments) -> int:
    from elmo.embed.files import check_word_file, embed_words
    from elmo.runtime import set_device

    # A word alone is neither read nor pooled: no setting may seem to change that.
    if args.encode != EncodeConfig() or args.read != ReadOptions():
        raise UserError(
            "--words writes the vectors of single words, so settings of how texts are read and "
            "pooled have no meaning; leave them out"
        )
    if len(args.sources) > 1:
        raise UserError("--words takes one vocabulary file, or none for the model's own words")
    check_word_file(args.out)
    set_device(args.device, args.threads)
    embedder = open_embedder(args)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        source = args.sources[0] if args.sources else None
        progress = embedding_progress(display, "words")
        written = embed_words(embedder, args.out, source, progress=progress)
    if args.json:
        print_json({**asdict(written), "path": str(written.path)})
    else:
        print(f"{written.path}: one vector of {written.dim:,} numbers for {written.words:,} words")
    return 0


def neighbours_command() -> Command:
    """What `elmo neighbours` accepts."""
    command = Command(
        "neighbours",
        run_neighbours,
        "Find the words of a corpus that are nearest in meaning to a word in its sentence.",
        [
            'bank "He sat on the bank of the river ." --corpus ag_news',
            'court "She won on clay court ." --model runs/news --corpus ag_news --same-word',
        ],
    )
    command.option("WORD", "A word of the sentence.", name="word")
    command.option(
        "SENTENCE", "In quotes; equal texts of the corpus are left out.", name="sentence"
    )
    command.option("--corpus SOURCE ...", f"Where to search. {SOURCES}", required=True)
    add_model(command)
    add_tokenizer(command)
    add_device(command, precision=True)
    command.settings(
        "neighbours", NeighbourConfig(), "count layer same_word distinct texts", section="search"
    )
    add_reading(command)
    return command


def run_neighbours(args: Arguments) -> int:
    """Print one line per neighbour below the sentence, or an object."""
    from elmo.embed.neighbours import find_neighbours
    from elmo.runtime import set_device
    from elmo.text.sources import read_documents, resolve

    set_device(args.device, args.threads)
    sources = resolve(args.corpus)
    embedder = open_embedder(args)
    with ProgressDisplay("looking through the corpus", quiet=args.quiet) as display:
        result = find_neighbours(
            embedder,
            args.word,
            args.sentence,
            read_documents(sources, args.read),
            args.neighbours,
            progress=embedding_progress(display),
        )
    if args.json:
        print_json(asdict(result))
        return 0
    query = result.query
    lines = [("similarity", query.words, query.position)]
    lines += [(f"{hit.similarity:.4f}", hit.words, hit.position) for hit in result.neighbours]
    print_concordance(lines)
    if not result.neighbours:
        print(f"no neighbours: no other text has {query.word!r}")
    return 0


def static_command() -> Command:
    """What `elmo static` accepts."""
    command = Command(
        "static",
        run_static,
        "Train static word vectors (SVD or skip-gram) and write them in word2vec format.",
        [
            "ag_news --out vectors.txt",
            "ag_news --method skipgram --window 8 --out vectors.bin",
        ],
    )
    command.option("SOURCE ...", SOURCES, name="sources")
    command.option(
        "--out FILE",
        "File to write: .txt or .vec for text, .bin for the binary format.",
        type=Path,
        required=True,
    )
    command.option(
        "--method svd|skipgram",
        "svd: counts of pairs, factorised; skipgram: trained as word2vec is (default: svd).",
        default="svd",
    )
    command.option(
        "--held-out-share N",
        "Fraction of the texts left out: those that elmo pretrain validates on (default: 0.02).",
        type=float,
        default=0.02,
    )
    add_cache(command)
    command.settings(
        "config",
        [SvdConfig(), SkipGramConfig()],
        "window dim min_count max_vocabulary seed",
        section="static",
        choose=lambda args: SkipGramConfig() if args.method == "skipgram" else SvdConfig(),
    )
    command.settings("tokenizer", TokenizerConfig(), section="tokenizer")
    add_reading(command)
    return command


def run_static(args: Arguments) -> int:
    """Train the vectors, show progress, say what was written."""
    from elmo.static.train import Progress, train_static
    from elmo.text.word_vectors import check_word_vector_file

    check_word_vector_file(args.out)
    with ProgressDisplay("preparing the text", quiet=args.quiet) as display:
        progress = static_progress(display)
        trained = train_static(
            args.sources,
            args.config,
            read=args.read,
            tokenizer=args.tokenizer,
            held_out_share=args.held_out_share,
            cache=args.cache,
            progress=progress,
        )
        progress(Progress("writing the file"))
        trained.vectors.save(args.out)
    facts = {
        "words": len(trained.vectors),
        "dim": trained.vectors.dim,
        "documents": trained.documents,
        "tokens": trained.tokens,
    }
    if args.json:
        print_json({"path": str(args.out), "method": args.method, **facts})
    else:
        print(
            f"{args.out}: vectors of {facts['dim']:,} numbers for {facts['words']:,} words, "
            f"from {facts['documents']:,} texts of {facts['tokens']:,} words"
        )
    return 0


def static_progress(display: ProgressDisplay) -> Callable[[StaticProgress], None]:
    """Progress display for static vectors: a line when a stage starts."""
    stages: set[str] = set()

    def show(progress: StaticProgress) -> None:
        of = "" if progress.total is None else f" of {progress.total:,}"
        stage = progress.stage
        text = f"{stage}: {progress.done:,}{of} texts" if progress.done else stage
        display.show(text, progress.done, progress.total, now=stage not in stages)
        stages.add(stage)

    return show

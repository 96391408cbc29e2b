"""elmo embed, neighbours, static: vectors of texts, of words in context, and static ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from elmo.cli import main
from elmo.cli.display import ProgressDisplay, embedding_progress, print_concordance, print_json, say
from elmo.cli.main import Arguments, Command
from elmo.embed.config import EncodeConfig, NeighbourConfig
from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig

SOURCES = "Files with one text per line or row, patterns, folders, addresses, '-', ag_news, hf:…"


def embed_command() -> Command:
    page = f"""
        Write the vectors of texts to a file. The same command resumes a job that was stopped.

        elmo embed texts.txt --out vectors.npz
        elmo embed ag_news:test --out words.h5 --output tokens --layer all --model runs/news
        elmo embed --words --out vocabulary.hdf5 --model runs/news

        [SOURCE ...]  {SOURCES} Blank lines are skipped.
        --out FILE  File to write: .npz, .parquet, .h5, .hdf5, or for other programs .npy, .csv,
            .tsv (required).
        --fresh  Start over: delete what an unfinished job has left.
        --words  Write vectors of words without context: those of a vocabulary file (one word per
            line), or the model's. With .h5 or .hdf5 in the layout of official programs.
        --engine local|ray=local  ray: the cluster at $RAY_ADDRESS, or this machine's cores (extra:
            ray); reads fsspec addresses (s3://…), writes a folder of Parquet files.

        --workers N  For ray: processes that hold the model (default: one per core of the cluster).
    """
    command = Command("embed", run_embed, page)
    main.add_model(command)
    main.add_tokenizer(command)
    main.add_device(command, precision=True)
    command.settings(
        "encode", EncodeConfig(), "output layer pooling normalize initial_state", section="encode"
    )
    main.add_reading(command)
    return command


def run_embed(args: Arguments) -> int:
    from elmo.embed.files import check_vector_file, embed_text, embed_words
    from elmo.runtime import set_device

    # A word alone is neither read nor pooled: no setting may seem to change that.
    if args.words and (args.encode != EncodeConfig() or args.read != ReadOptions()):
        raise UserError(
            "--words writes the vectors of single words, so settings of how texts are read and "
            "pooled have no meaning; leave them out"
        )
    if args.words and len(args.sources) > 1:
        raise UserError("--words takes one vocabulary file, or none for the model's own words")
    if args.engine == "ray" and not args.words:
        return _embed_with_ray(args)
    if args.words or not Path(f"{args.out}.unfinished").exists():
        check_vector_file(args.out, words=args.words)
    set_device(args.device, args.threads)
    embedder = main.open_embedder(args)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        progress = embedding_progress(display, "words" if args.words else "texts")
        if args.words:
            vocabulary = args.sources[0] if args.sources else None
            written = embed_words(embedder, args.out, vocabulary, progress=progress)
        else:
            written = embed_text(
                embedder, args.sources, args.out, args.encode, read=args.read, fresh=args.fresh,
                progress=progress,
            )  # fmt: skip
    if args.json and args.words:
        print_json({"path": str(args.out), "words": written.texts, "dim": written.dim})
    elif args.json:
        print_json({**asdict(written), "path": str(args.out)})
    elif args.words:
        say(f"{args.out}: one vector of {written.dim:,} numbers for {written.texts:,} words")
    else:
        each = "text" if args.encode.output == "pooled" else "word"
        empty = f"; {len(written.empty)} without words" if written.empty else ""
        say(
            f"{args.out}: {written.texts:,} texts, {written.tokens:,} words, one vector of "
            f"{written.dim:,} numbers per {each}{empty}"
        )
    return 0


def _embed_with_ray(args: Arguments) -> int:
    from elmo.embed.ray import embed_with_ray

    if args.out.suffix != ".parquet":
        raise UserError(f"{args.out}: ray writes Parquet; expected a name that ends in .parquet")
    settings = {"read": args.read, "workers": args.workers}
    embedder = main.open_embedder(args)
    written = embed_with_ray(embedder, args.sources, args.out, args.encode, **settings)
    if args.json:
        print_json(written._asdict())
    else:
        say(f"{written.path}: {written.texts:,} texts, vectors of {written.dim:,} numbers")
    return 0


def neighbours_command() -> Command:
    page = f"""
        Find the words of a corpus that are nearest in meaning to a word in its sentence.

        elmo neighbours bank "He sat on the bank of the river ." --corpus ag_news
        elmo neighbours court "She won on clay court ." --corpus ag_news --same-word

        WORD  A word of the sentence.
        SENTENCE  In quotes; equal texts of the corpus are left out.
        --corpus SOURCE ...  Where to search (required). {SOURCES}
    """
    command = Command("neighbours", run_neighbours, page)
    main.add_model(command)
    main.add_tokenizer(command)
    main.add_device(command, precision=True)
    command.settings(
        "neighbours", NeighbourConfig(), "count layer same_word distinct texts", section="search"
    )
    main.add_reading(command)
    return command


def run_neighbours(args: Arguments) -> int:
    from elmo.embed.neighbours import find_neighbours
    from elmo.runtime import set_device
    from elmo.text.sources import read_documents, resolve

    set_device(args.device, args.threads)
    sources = resolve(args.corpus)
    embedder = main.open_embedder(args)
    with ProgressDisplay("looking through the corpus", quiet=args.quiet) as display:
        result = find_neighbours(
            embedder, args.word, args.sentence, read_documents(sources, args.read), args.neighbours,
            progress=embedding_progress(display),
        )  # fmt: skip
    if args.json:
        print_json(asdict(result))
        return 0
    query = result.query
    lines = [("similarity", query.words, query.position)]
    lines += [(f"{hit.similarity:.4f}", hit.words, hit.position) for hit in result.neighbours]
    print_concordance(lines)
    if not result.neighbours:
        say(f"no neighbours: no other text has {query.word!r}")
    return 0


def static_command() -> Command:
    from elmo.static.contextual import ContextualConfig
    from elmo.static.train import SkipGramConfig, SvdConfig

    methods = {"svd": SvdConfig(), "skipgram": SkipGramConfig(), "contextual": ContextualConfig()}
    page = f"""
        Make static word vectors (SVD, skip-gram, or the mean of a word's contextual vectors) and
        write them in word2vec format.

        elmo static ag_news --out vectors.txt
        elmo static ag_news --method skipgram --window 8 --out vectors.bin
        elmo static ag_news --method contextual --model runs/news --layer 1 --out distilled.txt

        SOURCE ...  {SOURCES}
        --out FILE  File to write: .txt or .vec for text, .bin for the binary format (required).
        --method svd|skipgram|contextual=svd  svd: counts of pairs, factorised; skipgram: trained
            as word2vec is; contextual: the mean over a word's occurrences of what a biLM makes
            of it.
        --held-out-share X=0.02  Fraction of the texts left out: those that elmo pretrain validates
            on.
    """
    command = Command("static", run_static, page)
    main.add_model(command)
    main.add_cache(command)
    command.settings(
        "config",
        list(methods.values()),
        "window dim layer min_count max_vocabulary seed",
        section="static",
        choose=lambda args: methods[args.method],
    )
    command.settings("tokenizer", TokenizerConfig(), section="tokenizer")
    main.add_reading(command)
    return command


def run_static(args: Arguments) -> int:
    from elmo.files import writing
    from elmo.static.train import train_static
    from elmo.text.word_vectors import check_word_vector_file

    check_word_vector_file(args.out)
    if args.out.exists():
        raise UserError(f"{args.out} exists already; delete it, or choose another name")
    with ProgressDisplay("preparing the text", quiet=args.quiet) as display, writing(args.out):
        progress = static_progress(display)
        trained = train_static(
            args.sources, args.config, model=args.model, read=args.read, tokenizer=args.tokenizer,
            held_out_share=args.held_out_share, cache=args.cache, progress=progress,
        )  # fmt: skip
        progress("writing the file", 0, None)
        trained.vectors.save(args.out)
    words, dim = trained.vectors.vectors.shape
    documents, tokens = trained.documents, trained.tokens
    if args.json:
        facts = {"words": words, "dim": dim, "documents": documents, "tokens": tokens}
        print_json({"path": str(args.out), "method": args.method, **facts})
    else:
        say(
            f"{args.out}: vectors of {dim:,} numbers for {words:,} words, "
            f"from {documents:,} texts of {tokens:,} words"
        )
    return 0


def static_progress(display: ProgressDisplay) -> Callable[[str, int, int | None], None]:
    """Progress display for static vectors: a line when a stage starts."""
    stages: set[str] = set()

    def show(stage: str, done: int, total: int | None) -> None:
        of = "" if total is None else f" of {total:,}"
        text = f"{stage}: {done:,}{of} texts" if done else stage
        display.show(text, done, total, now=stage not in stages)
        stages.add(stage)

    return show

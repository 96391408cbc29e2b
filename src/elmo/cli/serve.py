"""elmo serve, index: a server with a page, and the index of a corpus."""

from __future__ import annotations

import sys
from dataclasses import replace

from elmo.cli.display import ProgressDisplay, print_json, say
from elmo.cli.embed import embedding_progress
from elmo.cli.main import (
    Arguments,
    Command,
    add_device,
    add_model,
    add_reading,
    add_tokenizer,
    open_embedder,
)
from elmo.explore.config import IndexConfig
from elmo.runtime import require_extra
from elmo.serve.config import ServeConfig


def serve_command() -> Command:
    page = """
        Serve models over HTTP: OpenAI's protocol for embeddings, and a page that shows what the
        model sees.

        elmo serve
        elmo serve --model runs/mine --classifier runs/topics --corpus texts.jsonl --open
        elmo serve --host 0.0.0.0 --token-file secret --no-explorer --workers 2

        --model NAME_OR_FOLDER ...  Models, also NAME=FOLDER; the first is the default (default:
            shipped model).
        --token-file FILE  Clients must send the token in this file; also from $ELMO_SERVE_TOKEN.
        --open  Open the page in a browser.
    """
    command = Command("serve", run_serve, page)
    shown = "host port classifier corpus explorer workers threads allow_origin"
    command.settings("serve", ServeConfig(), shown)
    return command


def run_serve(args: Arguments) -> int:
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require_extra(module, "serve")
    from elmo.serve.run import address, bind, check_exposure, read_token, serve

    config: ServeConfig = replace(args.serve, models=(*args.model, *args.serve.models))
    token = read_token(args.token_file)
    check_exposure(config, token)
    with bind(config) as listener:
        link = address(config, listener, token if config.explorer else None)
        if args.json:
            print_json({"url": link})
        else:
            say(f"elmo serve: {link}  (stop with Ctrl-C)")
        sys.stdout.flush()
        if args.open and config.explorer:
            import webbrowser

            webbrowser.open(link)
        serve(config, token, listener)
    return 0


def index_command() -> Command:
    page = """
        Write the vectors of all words of a corpus to a folder, for `elmo serve --corpus`. The same
        command resumes a job that was stopped.

        elmo index texts.jsonl --out texts.index
        elmo index ag_news --out news.index --max-words 3000000

        SOURCE ...  Files, patterns, folders, '-', or ag_news.
        --out FOLDER  Folder to write (required).
        --fresh  Start over: delete what an unfinished job has left.
    """
    command = Command("index", run_index, page)
    add_model(command)
    add_tokenizer(command)
    add_device(command, precision=True)
    command.settings("index", IndexConfig(), "layers max_words seed", section="index")
    add_reading(command)
    return command


def run_index(args: Arguments) -> int:
    from elmo.explore.index import build_index, read_corpus
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    embedder = open_embedder(args)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        index = build_index(
            embedder,
            read_corpus(args.sources, args.read),
            args.out,
            args.index,
            fresh=args.fresh,
            progress=embedding_progress(display, "texts"),
        )
    about = index.description
    if args.json:
        counts = {"texts": about.texts, "words": about.occurrences, "layers": about.layers}
        print_json({"path": str(args.out), **counts, "dim": about.dim})
    else:
        say(
            f"{args.out}: {about.texts:,} texts, {about.occurrences:,} words, layers "
            f"{', '.join(map(str, about.layers))} of {about.dim} numbers"
        )
    return 0

"""elmo models, download: public models by name."""

from __future__ import annotations

from dataclasses import asdict

from elmo.cli.display import print_json, print_table, say
from elmo.cli.main import Arguments, Command
from elmo.config import nearest
from elmo.errors import UserError


def models_command() -> Command:
    page = """
        List the public ELMo models that can be named wherever a model is accepted, or show all
        that is known of one. Nothing is downloaded.

        elmo models
        elmo models --language de
        elmo models --search wikipedia
        elmo models show manylangs/de

        --language CODE  Those of a language: de, German, zh, …
        --family NAME  Those of one source: allenai, nlpl, embeddia, manylangs, …
        --search TEXT  Those whose name, language or corpus holds this text.
        --here  Those in the cache only.

        --markdown  As the table of docs/public-models.md.
    """
    command = Command("models", run_models, page)
    command.option("[show NAME ...]", "Show one model in full.", name="words")
    return command


def _no_model(name: str) -> UserError:
    from elmo.registry.catalogue import public_models

    guess = nearest(name.lower(), public_models())
    return UserError(f"{name}: not the name of a public model{guess}; see elmo models")


def run_models(args: Arguments) -> int:
    from elmo.registry.cache import is_here, models_folder
    from elmo.registry.catalogue import choose_models, find_model

    if args.words:
        if args.words[0] != "show" or len(args.words) != 2:
            raise UserError("expected elmo models, or elmo models show NAME")
        model = find_model(args.words[1])
        if model is None:
            raise _no_model(args.words[1])
        if args.json:
            print_json({**asdict(model), "here": is_here(model)})
            return 0
        rows = [
            ["name", ", ".join((model.name, *model.aliases))],
            ["language", f"{model.language_name} ({model.language})"],
            ["corpus", model.corpus or "not stated"],
            ["format", model.format],
            ["parameters", model.parameters or "not stated"],
            ["size", model.size or "not stated"],
            ["licence", model.licence or "not stated: ask its makers before you publish with it"],
            ["tokenization", model.tokenization or "not stated; elmo's own, or --tokenizer"],
            ["citation", model.citation or "not stated"],
            ["checksum", "published: " + ", ".join(sorted(model.checksums))
             if model.checksums else "none published; SHA-256 is recorded at first use"],
            ["in the cache", str(models_folder() / model.name.replace("/", "--"))
             if is_here(model) else "no"],
        ]  # fmt: skip
        for name, addresses in model.files.items():
            rows += [[name, address] for address in addresses or ("no address: see the page",)]
        rows += [["page", page] for page in model.pages]
        rows += [["reported dead", address] for address in model.dead]
        rows += [["status", model.status or "not stated"]]
        print_table(rows)
        return 0
    models = choose_models(args.language, args.family, args.search)
    models = [model for model in models if is_here(model) or not args.here]
    if args.json:
        print_json({"models": [{**asdict(model), "here": is_here(model)} for model in models]})
        return 0
    if not models:
        raise UserError("no public model fits; elmo models lists all")
    if args.markdown:
        print("| name | language | corpus | format | licence |\n|---|---|---|---|---|")
        for model in models:
            names = ", ".join(f"`{name}`" for name in (model.name, *model.aliases))
            facts = (model.language_name, model.corpus, model.format, model.licence)
            print(f"| {names} | {' | '.join(fact or 'not stated' for fact in facts)} |")
        return 0
    print_table(
        [
            ["name", "language", "corpus", "licence"],
            *(
                [
                    model.name,
                    model.language_name,
                    shortened(model.corpus or "not stated", 44),
                    shortened(model.licence or "not stated", 24),
                    "here" if is_here(model) else "",
                ]
                for model in models
            ),
        ],
    )
    print(f"\n{len(models)} models; elmo models show NAME tells all that is known of one")
    return 0


def shortened(text: str, width: int) -> str:
    """The start of a text that fits a column."""
    return text if len(text) <= width else text[: width - 1] + "…"


def download_command() -> Command:
    page = """
        Download models to the cache ($ELMO_CACHE), where they are found without a network. The
        same command resumes a download that was stopped.

        elmo download manylangs/de
        elmo download allenai/small nlpl/195
        elmo download hf:user/repo@main

        NAME ...  A name that elmo models lists, hf:USER/REPO@REVISION, or an archive's address.
        --fresh  Download again what is in the cache.
        --forget  Trust what comes now, whatever checksum was recorded at first use.
    """
    return Command("download", run_download, page)


def run_download(args: Arguments) -> int:
    from elmo.language_model import download_model

    folders: dict[str, str] = {}
    for name in args.names:
        folder = download_model(name, fresh=args.fresh or args.forget, forget=args.forget)
        if folder is None:
            raise _no_model(name)
        folders[name] = str(folder)
    if args.json:
        print_json(folders)
        return 0
    for name, folder in folders.items():
        say(f"{name}: {folder}")
    return 0

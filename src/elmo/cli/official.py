"""elmo convert, verify: official ELMo files, read, written and compared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from elmo.cli.display import print_json, print_table, say
from elmo.cli.main import Arguments, Command, model_argument
from elmo.errors import UserError

DIFFERENT = 1


def convert_command() -> Command:
    page = """
        Convert official ELMo or ELMoForManyLangs files to a model folder, or a model folder to
        official files, or to a folder for sentence-transformers.

        elmo convert elmo_small models/small
        elmo convert manylangs/de models/german
        elmo convert runs/news elmo_news --to official
        elmo convert runs/news sentences --to sentence-transformers

        --to elmo|official|sentence-transformers=elmo  elmo: a model folder; official: options.json
            and weights.hdf5; sentence-transformers: for SentenceTransformer(FOLDER,
            trust_remote_code=True).
    """
    command = Command("convert", run_convert, page)
    command.option(
        "FROM",
        "A folder with options.json and one .hdf5 file, an ELMoForManyLangs folder, one of our "
        "model folders, or the name of a public model.",
        name="source",
        type=model_argument,
    )
    command.option("TO", "The folder to write; it must be new.", name="target", type=Path)
    return command


def _convert_to_sentence_transformers(args: Arguments) -> int:
    from elmo.integrations.sentence_transformers import ElmoModule
    from elmo.runtime import require_extra

    if args.target.exists():
        raise UserError(f"{args.target}: already exists; choose another folder or remove it")
    package = require_extra("sentence_transformers", "sentence-transformers")
    model = package.SentenceTransformer(modules=[ElmoModule(args.source)])
    model.save_pretrained(str(args.target))
    if args.json:
        print_json({"source": str(args.source), "target": str(args.target)})
    else:
        say(f"{args.target}: SentenceTransformer({str(args.target)!r}, trust_remote_code=True)")
    return 0


def run_convert(args: Arguments) -> int:
    from elmo.language_model import open_model
    from elmo.model_folder import is_many_langs, is_official

    loaded = open_model(args.source)
    if args.to == "sentence-transformers":
        return _convert_to_sentence_transformers(args)
    folder = loaded.path or args.target
    is_ours = not is_official(folder) and not is_many_langs(folder)
    # What was downloaded may be of our format already; a copy of it is what was asked for.
    if (is_official(folder) and args.to == "official") or (
        is_ours and args.to == "elmo" and Path(args.source).is_dir()
    ):
        other = "official" if args.to == "elmo" else "elmo"
        raise UserError(f"{args.source}: has this format already; did you mean --to {other}?")
    if args.to == "elmo":
        loaded.save_pretrained(args.target)
    else:
        loaded.save_official(args.target)
    drops_softmax = args.to == "official" and loaded.model.config.softmax.loss != "none"
    if args.json:
        folders = {"source": str(args.source), "target": str(args.target)}
        print_json({**folders, "drops_softmax": drops_softmax})
        return 0
    say(f"{args.target}: the model of {args.source}, number for number")
    if drops_softmax:
        say(
            "not included, since official files cannot hold it: the softmax (so keep "
            f"{args.source} to score, predict or generate) and the word counts"
        )
    return 0


def verify_command() -> Command:
    page = """
        Compare a model's layers with stored ones; the exit code is 1 if they differ.

        elmo verify elmo_small --expected activations.hdf5 --sentences sentences.txt
        elmo verify elmo_small --expected slot0.hdf5 slot1.hdf5 --sentences slots.json
        elmo verify elmo_small --expected token_vectors.hdf5 --vocabulary vocab.txt

        MODEL  A model folder of any format, or a name.
        --expected FILE ...  HDF5 files, one per slot of sentences, with one array per text, named
            0, 1, …: its top layer (2, words, width) or all layers (1 + layers, words, 2 * width)
            (required).
        --sentences FILE  Tokenized texts: one per line, or JSON with one list of sentences per
            slot, each a string or a list of words.
        --vocabulary FILE  Instead of sentences: the words whose token vectors are stored, one per
            line.
        --start carry|zero=carry  carry: a text starts from the final state of the text before it
            in its slot, as in the original programs; zero: from zero.
        --tolerance X=2e-6  The largest difference that counts as equal.
    """
    return Command("verify", run_verify, page)


def run_verify(args: Arguments) -> int:
    """Print the largest difference per layer and direction, and whether all are small."""
    from elmo.language_model import open_model
    from elmo.official.verify import read_slots, verify_activations, verify_tokens

    if (args.sentences is None) == (args.vocabulary is None):
        raise UserError(
            "use either --sentences, for activations of texts, or --vocabulary, for token vectors"
        )
    if args.vocabulary is not None and len(args.expected) != 1:
        raise UserError(f"expected one file of token vectors, got {len(args.expected)}")
    model = open_model(args.model).model
    if args.vocabulary is not None:
        differences = verify_tokens(model, args.vocabulary, args.expected[0])
    else:
        slots = read_slots(args.sentences)
        differences = verify_activations(model, slots, args.expected, args.start)
    holds = all(difference.within(args.tolerance) for difference in differences)
    if args.json:
        told = [asdict(difference) for difference in differences]
        print_json({"holds": holds, "tolerance": args.tolerance, "differences": told})
    else:
        rows = [
            [str(item.layer), item.direction, f"{item.words:,}", f"{item.largest:.2e}"]
            for item in differences
        ]
        print_table(rows, ["layer", "direction", "words", "largest difference"])
        print(f"\n{'all within' if holds else 'NOT all within'} {args.tolerance:.2e}")
    return 0 if holds else DIFFERENT

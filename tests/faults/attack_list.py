"""The attacks that tests/faults/attacks.py carries out: options by rule, the rest by hand."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from tests.faults.attacks import SECONDS, Attack, Check, Prepare, Result

from elmo.cli.main import COMMANDS, Command
from elmo.tasks.probe import SIMILARITY_SETS

VALUES = (
    "nan",
    "inf",
    "-1",
    "0",
    "1e308",
    "99999999999999999999999",
    "abc",
    "",
    "\udcff\udcfe",
    "none",
)
ODD_TEXTS = ("nan", "", "\udcff\udcfe", "-1")
TINY_STUDY = "--rows tfidf --seeds 0 --sweeps --samples --words --draws 0 --task-dim 0 --epochs 1"
TINY_TASK = "--epochs 1 --encoder-dim 4 --task-dim 4"
SMALL = "--hidden 8 --word-dim 8 --epochs 1 --min-count 1"
BASES = {
    "check": "corpus.txt --no-estimate",
    "pretrain": f"corpus.txt --out o {SMALL}",
    "evaluate": "corpus.txt --model m",
    "info": "m",
    "models": "",
    "completion": "bash",
    "convert": "m o --to official",
    "verify": "m --expected v.npz --sentences corpus.txt",
    "embed": "corpus.txt --model m --out o.npz",
    "static": "corpus.txt --out o.txt --dim 4 --min-count 1 --shift 1 --window 2",
    "neighbours": "bank the~bank~fell~. --corpus corpus.txt --model m",
    "classify train": "labelled.csv --model m --out o --parts ngrams --epochs 1",
    "classify evaluate": "labelled.csv --model c",
    "classify predict": "oil~bank --model c --explain",
    "study": f"labelled.csv --out o --model m {TINY_STUDY}",
    "tag train": "tagged.conll --model m --out o --epochs 1 --encoder-dim 4 --task-dim 4",
    "tag evaluate": "tagged.conll --model t",
    "tag predict": "oil~bank --model t",
    "pairs train": "pairs.csv --model m --out o --epochs 1 --encoder-dim 4 --task-dim 4",
    "pairs evaluate": "pairs.csv --model p",
    "pairs predict": "oil~bank team~game --model p",
    "probe": "pos --data data --model m --epochs 1",
    "index": "corpus.txt --model m --out o",
    "serve": "--model m --classifier c --port 0",
    "score": "oil~prices --model m",
    "predict": "oil~___~fell --model m",
    "generate": "oil --model m --length 3",
}
"""A command line for each command that works and takes little time; ~ is a space."""


def command_of(name: str) -> Command:
    """The declaration of a command."""
    module = importlib.import_module(f"elmo.cli.{COMMANDS[name.split()[0]][0]}")
    return getattr(module, f"{name.replace(' ', '_')}_command")()


def base(name: str) -> list[str]:
    """The command line that works."""
    return [word.replace("~", " ") for word in (*name.split(), *BASES[name].split())]


def options() -> Iterator[Attack]:
    """Every option and every setting of every command, with every value."""
    for name in BASES:
        command = command_of(name)
        parser = command._parser  # pyright: ignore[reportPrivateUsage]
        for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
            if not action.option_strings or action.nargs == 0:
                continue
            flag = action.option_strings[0]
            # Names of files and columns may be anything; what matters there is odd text.
            leaf = command._leaves.get(action.dest.removeprefix("leaf "))  # pyright: ignore
            is_number = action.type in (int, float) or (
                leaf is not None and {int, float} & {leaf.type, *get_args(leaf.type)}
            )
            for value in VALUES if is_number else ODD_TEXTS:
                yield Attack(
                    "options",
                    f"elmo {name} {flag}={value}",
                    [*base(name), f"{flag}={value}"],
                    seconds=10 if name == "serve" else SECONDS,  # it ends with SIGTERM
                )


def write(name: str, content: str | bytes) -> Prepare:
    """Prepare a file."""

    def prepare(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return prepare


def both(*steps: Prepare) -> Prepare:
    """Several preparations, one after the other."""

    def prepare(folder: Path) -> None:
        for step in steps:
            step(folder)

    return prepare


def has(text: str, stream: str = "out") -> Check:
    """The output must contain a text."""

    def check(result: Result) -> str | None:
        shown = result.out if stream == "out" else result.err
        return None if text in shown else f"{stream} lacks {text!r}: {shown[-300:]!r}"

    return check


def is_json(result: Result) -> str | None:
    """The output must be JSON, whatever signs the locale lacks."""
    try:
        json_lines(result)
    except ValueError as error:
        return f"{error}: {result.out[:200]!r}"
    return None


def json_lines(result: Result) -> list[dict[str, Any]]:
    """What --json printed."""
    return [json.loads(line) for line in result.out.splitlines()]


# Text files.


def texts() -> Iterator[Attack]:
    """Files of text that are damaged, huge, or not what they seem."""
    group = "text files"
    embed = ["embed", "--model", "m", "--out", "o.npz"]
    train = ["classify", "train", "--model", "m", "--out", "o", "--parts", "ngrams"]
    commands = {
        "embed": embed,
        "check": ["check", "--no-estimate"],
        "pretrain": ["pretrain", "--out", "o", *SMALL.split()],
        "evaluate": ["evaluate", "--model", "m"],
        "score": ["score", "--model", "m", "--files"],
        "classify predict": ["classify", "predict", "--model", "c", "--files"],
        "classify train": train,
        "classify evaluate": ["classify", "evaluate", "--model", "c"],
        "static": ["static", "--out", "o.txt"],
        "neighbours": ["neighbours", "bank", "the bank .", "--model", "m", "--corpus"],
        "tag train": ["tag", "train", "--model", "m", "--out", "o", *TINY_TASK.split()],
        "tag predict": ["tag", "predict", "--model", "t", "--files"],
        "tag predict --conll": ["tag", "predict", "--model", "t", "--conll"],
        "pairs train": ["pairs", "train", "--model", "m", "--out", "o", *TINY_TASK.split()],
        "pairs predict": ["pairs", "predict", "--model", "p", "--files"],
        "index": ["index", "--model", "m", "--out", "o"],
        "static contextual": ["static", "--method", "contextual", "--model", "m", "--out", "o.txt"],
    }
    line = b"oil prices fell on Monday .\n"
    bad: dict[str, tuple[str, bytes]] = {
        "a gzip bomb": ("x.txt.gz", gzip.compress(b"oil " * (1 << 24) + b"\n", 9)),
        "a gzip file cut short": ("x.txt.gz", gzip.compress(line * 5000)[:-30]),
        "text called .gz": ("x.txt.gz", line * 30),
        "a line of 40 MB": ("x.txt", b"oil " * 10_000_000 + b"\n"),
        "an empty file": ("x.txt", b""),
        "blank lines": ("x.txt", b"\n \n\t\n"),
        "NUL bytes": ("x.txt", b"oil\0prices\n"),
        "UTF-16": ("x.txt", ("oil prices\n" * 9).encode("utf-16")),
        "Latin-1": ("x.txt", "café au lait\n".encode("latin-1")),
        "a picture": ("x.txt", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9),
        "a zip file": ("x.zip", b"PK\x03\x04" + bytes(99)),
        "a PDF": ("x.pdf", b"%PDF-1.7\n"),
        "a JSON file": ("x.json", b'[{"text": "oil"}]'),
        "JSON lines that are none": ("x.jsonl", b'{"text": "oil"}\nno\n'),
        "JSON of 100,000 brackets": ("x.jsonl", b"[" * 100_000 + b"\n"),
        "a JSON line without text": ("x.jsonl", b'{"label": "a", "body": "oil"}\n'),
        "a JSON text that is a list": ("x.jsonl", b'{"label": "a", "text": ["oil"]}\n'),
        "half a surrogate pair": ("x.jsonl", b'{"label": "a", "text": "oil \\ud800"}\n'),
        "a JSON key of 10 MB": ("x.jsonl", b'{"' + b"k" * 10_000_000 + b'": 1}\n'),
        "more fields than the header": ("x.csv", b"label,text\na,oil fell\nb,bad, thing, there\n"),
        "fewer fields than the header": ("x.csv", b"label,text\na,oil fell\nb\n"),
        "a quote that never closes": ("x.csv", b'label,text\na,"oil fell\nb,x\n'),
        "a field of 40 MB": ("x.csv", b"label,text\na," + b"oil " * 10_000_000 + b"\n"),
        "Parquet that is none": ("x.parquet", b"PAR1" + bytes(100) + b"PAR1"),
    }
    for what, (name, content) in bad.items():
        for command, argv in commands.items():
            labelled = command in ("classify train", "classify evaluate")
            if labelled and not name.endswith((".csv", ".jsonl", ".parquet")):
                continue
            # check reports problems with exit code 1; predict gives every line a label, marked
            # as one without words; of two columns, one called label, the other is the text.
            fine = command == "check" or (what, command.split()[0]) in (
                ("blank lines", "classify"),
                ("blank lines", "tag"),  # a text without words has no tags
                ("a JSON line without text", "classify"),
                ("a JSON line without text", "index"),
                ("a JSON line without text", "tag"),
                ("a JSON key of 10 MB", "index"),
                ("a JSON key of 10 MB", "tag"),
                ("a JSON key of 10 MB", "classify"),  # a single column is the text
            )
            yield Attack(
                group,
                f"{what}: elmo {command}",
                [*argv, name],
                write(name, content),
                has("problem", "out") if command == "check" else lambda result: None,
                expect="" if fine else "clear error",
            )
    for command, argv in commands.items():

        def pipe(folder: Path) -> None:
            os.mkfifo(folder / "x.csv")

        yield Attack(
            group, f"a named pipe: elmo {command}", [*argv, "x.csv"], pipe, expect="clear error"
        )
        for device in ("/dev/zero", "/dev/tty", "."):
            yield Attack(group, f"{device}: elmo {command}", [*argv, device])
        yield Attack(
            group, f"a missing file: elmo {command}", [*argv, "nowhere.csv"], expect="clear error"
        )
    yield from tables(group, train)
    yield from parquet(group, commands)


def tables(group: str, train: Sequence[str]) -> Iterator[Attack]:
    """Headers that are not recognised, delimiters of spreadsheets, labels by the thousand."""
    rows = [("oil fell on Monday", "a"), ("the team won", "b")] * 12

    def csv(delimiter: str, header: str, *, label_first: bool = True) -> str:
        ordered = [(label, text) if label_first else (text, label) for text, label in rows]
        lines = [delimiter.join(row) for row in ordered]
        return "\n".join([*([header] if header else []), *lines]) + "\n"

    def labels_are_two(result: Result) -> str | None:
        path = result.folder / "o" / "classifier.json"
        labels = json.loads(path.read_text())["labels"]
        return None if labels == ["a", "b"] else f"labels are {labels}"

    for header in ("category,headline", "Label,Text", "LABEL,TEXT", "label,text", "", "class,body"):
        yield Attack(
            group,
            f"header {header!r}: elmo classify train",
            [*train, "x.csv"],
            write("x.csv", csv(",", header)),
            labels_are_two,
        )
    for delimiter, named in ((";", ";"), ("\t", "tab"), ("|", "|")):
        yield Attack(
            group,
            f"delimiter {delimiter!r}: elmo classify train",
            [*train, "x.csv"],
            write("x.csv", csv(delimiter, delimiter.join(("label", "text")))),
            labels_are_two,
        )
        yield Attack(
            group,
            f"delimiter {delimiter!r} given: elmo classify train",
            [*train, "x.csv", f"--delimiter={named}"],
            write("x.csv", csv(delimiter, delimiter.join(("label", "text")))),
            labels_are_two,
        )
    for header in ("category,headline", "id,body"):
        yield Attack(
            group,
            f"header {header!r} not recognised: elmo embed",
            ["embed", "x.csv", "--column", "1", "--model", "m", "--out", "o.npz"],
            write("x.csv", csv(",", header)),
            has("looks like column names", "err"),
        )
    yield Attack(
        group,
        "two files, one of them with a strange header: elmo classify train",
        [*train, "x.csv", "y.csv"],
        both(write("x.csv", csv(",", "category,headline")), write("y.csv", csv(",", "label,text"))),
        labels_are_two,
    )
    yield Attack(
        group,
        "rows with empty text are said: elmo classify train",
        [*train, "x.csv"],
        write("x.csv", csv(",", "label,text") + "a,\nb,   \n"),
        has("empty text", "err"),
    )
    yield Attack(
        group,
        "test texts are the training texts: elmo classify train",
        [*train, "labelled.csv", "--test", "labelled.csv"],
        check=has("are the same", "err"),
    )
    yield Attack(
        group,
        "a label in the test that training did not have",
        [*train, "labelled.csv", "--test", "x.csv"],
        write("x.csv", "label,text\na,oil\nc,team\n"),
        expect="clear error",
        says="'c'",
    )
    many = "label,text\n" + "".join(f"l{idx},oil {idx}\n" * 2 for idx in range(12_000))
    yield Attack(
        group,
        "12,000 labels: elmo classify train",
        [*train, "x.csv"],
        write("x.csv", many),
        expect="clear error",
    )
    for sign in ("\t", "\x1b[31m", "\x07", "\u202e", "\x9b31m", "\u2028"):

        def raw(result: Result, sign: str = sign) -> str | None:
            return f"{sign!r} reaches the terminal" if sign in result.out + result.err else None

        quoted = "label,text\n" + "".join(
            f'"x{sign}y",oil bank {idx}\nb,team game {idx}\n' for idx in range(12)
        )
        yield Attack(
            group,
            f"labels with {sign!r}: elmo classify train",
            [*train, "x.csv"],
            write("x.csv", quoted),
            raw if sign != "\t" else lambda result: None,
        )
    newline = "label,text\n" + "".join(f'"x\ny",oil {n}\nb,team {n}\n' for n in range(12))
    yield Attack(
        group,
        "labels with a line break: elmo classify train",
        [*train, "x.csv"],
        write("x.csv", newline),
    )


def parquet(group: str, commands: dict[str, list[str]]) -> Iterator[Attack]:
    """Tables that are small on disk and large in memory, or hold what Python cannot."""

    def table(columns: Callable[[], Any], **options: Any) -> Prepare:
        def prepare(folder: Path) -> None:
            import pyarrow.parquet as pq

            pq.write_table(columns(), folder / "x.parquet", **options)

        return prepare

    def pa() -> Any:
        return importlib.import_module("pyarrow")

    def bomb() -> Any:
        zeros = pa().array([0] * 100_000, pa().int32())
        text = pa().DictionaryArray.from_arrays(zeros, pa().array(["oil " * 1000]))
        return pa().table({"text": text, "label": pa().array(["a"] * 100_000)})

    def wide() -> Any:
        zeros = pa().array([0] * 1000, pa().int32())
        text = pa().DictionaryArray.from_arrays(zeros, pa().array(["oil " * 1_000_000]))
        return pa().table({"text": text, "label": pa().array(["a"] * 1000)})

    def twins() -> Any:
        names, column = ["text", "text"], pa().array(["oil"])
        return pa().Table.from_arrays([column, column], names)

    def dates() -> Any:
        days = pa().array([2**31 - 1], pa().int32()).cast(pa().date32())
        return pa().table({"text": days, "label": ["a"]})

    def nulls() -> Any:
        return pa().table({"text": pa().array([None, "oil"], pa().string()), "label": ["a", "b"]})

    makers = {
        "a bomb": bomb,
        "a bomb of few rows": wide,
        "two equal columns": twins,
        "dates out of range": dates,
        "nulls": nulls,
    }
    for what, columns in makers.items():
        # Others begin with the first texts: up to what any file may hold, that is work, no mistake.
        read_first = ("pretrain", "classify train", "static")
        every = ("embed", "pretrain", "classify predict", "classify train")
        for command in read_first if "bomb" in what else every:
            yield Attack(
                group,
                f"Parquet with {what}: elmo {command}",
                [*commands[command], "x.parquet"],
                table(columns, compression="zstd", store_schema=False),
                expect="clear error",
                seconds=5 * SECONDS,  # as much text as any file may unpack to is read first
            )


def probes() -> Iterator[Attack]:
    """Data sets that are missing, damaged or something else."""
    group = "data sets of elmo probe"
    files = {
        "pos": (
            "ud_english_ewt/en_ewt-ud-train.conllu.gz",
            "ud_english_ewt/en_ewt-ud-test.conllu.gz",
        ),
        "senses": ("semcor/semcor3.0.tsv.gz",),
        "wic": ("wic/train.tsv", "wic/validation.tsv"),
        "scws": ("scws/ratings.txt.gz",),
        "similarity": (
            "semcor/semcor3.0.tsv.gz",
            *[f"word_similarity/EN-{one}.txt" for one in SIMILARITY_SETS],
        ),
    }
    contents = {
        "nothing": b"",
        "a line": b"oil prices fell\n",
        "tabs": b"\t\t\t\t\t\t\t\t\t\t\t\n" * 9,
        "numbers": b"1\t2\t3\t4\t5\t6\t7\t8\t9\t10\n\n" * 9,
        "Latin-1": "caf\u00e9\tN\tV\n".encode("latin-1"),
        "zeros": bytes(999),
        "a line of 40 MB": b"oil " * 10_000_000,
        "nan": b"a\tn\tnan\tnan\tnan\tnan\n" * 9,
    }
    for probe, names in files.items():
        argv = ["probe", probe, "--data", "data", "--model", "m"]
        for what, content in contents.items():
            steps = [
                write(f"data/{name}", gzip.compress(content) if name.endswith(".gz") else content)
                for name in names
            ]
            yield Attack(
                group,
                f"{what}: elmo probe {probe}",
                argv,
                both(*steps),
                expect="" if (what, probe) == ("numbers", "pos") else "clear error",
            )
        raw = [write(f"data/{name}", b"no gzip\n") for name in names]
        yield Attack(group, f"no gzip: elmo probe {probe}", argv, both(*raw), expect="clear error")

        def pipes(folder: Path, names: Sequence[str] = names) -> None:
            for name in names:
                (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / "data" / name).unlink(missing_ok=True)
                os.mkfifo(folder / "data" / name)

        yield Attack(group, f"pipes: elmo probe {probe}", argv, pipes, expect="clear error")
        for place in ("nowhere", "README.md", "", "\udcff", "a" * 5000, "notes"):
            yield Attack(
                group,
                f"--data {place[:20]!r}: elmo probe {probe}",
                ["probe", probe, "--data", place, "--model", "m"],
                environment={"ELMO_DATA": ""},
                expect="clear error",
            )
    for words in ("README.md", "nowhere", "v.npz", "m", "\udcff"):
        yield Attack(
            group,
            f"--word-vectors {words!r}: elmo probe pos",
            [*base("probe"), "--word-vectors", words],
            expect="clear error",
        )
    for probe in ("", "nothing", "POS", "\udcff"):
        yield Attack(
            group,
            f"elmo probe {probe!r}",
            ["probe", probe, "--data", "data", "--model", "m"],
            expect="clear error",
        )
    yield Attack(group, "elmo probe pos, as it should be", base("probe"), expect="right")


def servers() -> Iterator[Attack]:
    """What elmo serve is started with, and folders that are no index."""
    group = "starts of elmo serve and index"
    model, classifier = ["--model", "m"], ["--classifier", "c"]
    starts = {
        "no such model": ["--model", "nowhere"],
        "a model that is a file": ["--model", "README.md"],
        "two models of one name": ["--model", "a=m", "a=m"],
        "a name without a folder": ["--model", "a="],
        "an escape in a name": ["--model", "\x1b[31m=m"],
        "no such classifier": [*model, "--classifier", "nowhere"],
        "a model as classifier": [*model, "--classifier", "m"],
        "no such corpus": [*model, *classifier, "--corpus", "nowhere"],
        "a token file that is missing": [*model, "--token-file", "nowhere"],
        "an empty token file": [*model, "--token-file", "empty"],
        "a token of one letter": [*model, "--token-file", "short"],
        "a token file that is a folder": [*model, "--token-file", "m"],
        "a token with an escape": [*model, "--token-file", "odd"],
        "a token file that is a pipe": [*model, "--token-file", "pipe"],
        "every address without a token": [*model, "--host", "0.0.0.0"],
        "a host that is none": [*model, "--host", "no host"],
        "a host that is not UTF-8": [*model, "--host", "\udcff"],
        "a host of 5,000 letters": [*model, "--host", "a" * 5000],
        "a port without permission": [*model, "--port", "70000"],
        "1,000 workers": [*model, "--workers", "1000"],
        "an origin that is none": [*model, "--allow-origin", "\x1b[31m"],
        "a corpus that is no index": [*model, *classifier, "--corpus", "notes"],
        "a text as a corpus": [*model, "--corpus", "README.md"],
        "an unknown key": [*model, "--set", "nothing=1"],
        "no bytes": [*model, "--set", "limits.body_bytes=0"],
    }

    def prepare(folder: Path) -> None:
        (folder / "empty").touch()
        (folder / "short").write_text("a\n")
        (folder / "odd").write_text("\x1b[31m" * 9)
        os.mkfifo(folder / "pipe")

    for what, argv in starts.items():
        words = ["serve", *argv] if "--port" in argv else ["serve", *argv, "--port", "0"]
        yield Attack(group, what, words, prepare, no_escape, seconds=15)

    def index_then(change: Prepare) -> Prepare:
        def then(folder: Path) -> None:
            from tests.faults.attacks import run

            run(base("index"), folder)
            change(folder)

        return then

    def files_of(folder: Path) -> list[Path]:
        return sorted(path for path in (folder / "o").rglob("*") if path.is_file())

    def cut(folder: Path) -> None:
        for path in files_of(folder):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    def emptied(folder: Path) -> None:
        for path in files_of(folder):
            path.write_bytes(b"")

    def linked(folder: Path) -> None:
        for path in files_of(folder):
            path.unlink()
            path.symlink_to(folder / "README.md")

    def piped(folder: Path) -> None:
        for path in files_of(folder):
            path.unlink()
            os.mkfifo(path)

    for what, change in {"cut": cut, "emptied": emptied, "links": linked, "pipes": piped}.items():
        for command, argv in {
            "serve": ["serve", "--model", "m", "--corpus", "o", "--port", "0"],
            "index": base("index"),
            "index --fresh": [*base("index"), "--fresh"],
        }.items():
            yield Attack(
                group,
                f"an index whose files are {what}: elmo {command}",
                argv,
                index_then(change),
                no_escape,
                changes=["o"] if command != "serve" else (),
                seconds=15,
            )
    for file in ("README.md", "notes", "m", "c"):
        yield Attack(
            group,
            f"--out {file}: elmo index",
            ["index", "corpus.txt", "--model", "m", "--out", file],
            expect="clear error",
        )
        yield Attack(
            group,
            f"--out {file}: elmo index --fresh",
            ["index", "corpus.txt", "--model", "m", "--out", file, "--fresh"],
            expect="clear error",
        )


def no_escape(result: Result) -> str | None:
    """Terminal sequences of strangers are shown, not obeyed."""
    return "an escape reaches the terminal" if "\x1b[31m" in result.out + result.err else None


# Model folders that may come from anywhere.

READERS = {
    "info": "info m",
    "embed": "embed corpus.txt --model m --out o.npz",
    "score": "score oil~prices --model m",
    "predict": "predict oil~___~fell --model m",
    "generate": "generate oil --model m --length 3",
    "evaluate": "evaluate corpus.txt --model m",
    "convert": "convert m o --to official",
    "pretrain --from": "pretrain corpus.txt --from m --out o --epochs 1",
    "classify predict": "classify predict oil --model c",
    "classify train": "classify train labelled.csv --model m --out o --parts ngrams",
}


def line(name: str) -> list[str]:
    """A command that reads a model."""
    return [word.replace("~", " ") for word in READERS[name].split()]


def models() -> Iterator[Attack]:
    """Pipes, links, weights that are no numbers, settings beyond any machine."""
    group = "model folders"
    for file in ("config.json", "model.safetensors", "vocabulary.txt"):
        for name in ("info", "embed", "pretrain --from"):

            def pipe(folder: Path, file: str = file) -> None:
                (folder / "m" / file).unlink(missing_ok=True)
                os.mkfifo(folder / "m" / file)

            def linked(folder: Path, file: str = file) -> None:
                (folder / "m" / file).unlink(missing_ok=True)
                (folder / "m" / file).symlink_to(folder / "README.md")

            pipe_title, link_title = (
                f"{file} is a pipe: elmo {name}",
                f"{file} leads out: elmo {name}",
            )
            yield Attack(group, pipe_title, line(name), pipe, expect="clear error")
            yield Attack(group, link_title, line(name), linked, expect="clear error")
    for file in ("classifier.json", "linear.safetensors", "bilm/config.json"):

        def pipe_in_classifier(folder: Path, file: str = file) -> None:
            (folder / "c" / file).unlink(missing_ok=True)
            os.mkfifo(folder / "c" / file)

        yield Attack(
            group,
            f"{file} of a classifier is a pipe",
            line("classify predict"),
            pipe_in_classifier,
            expect="clear error",
        )
    yield from weights(group)
    settings: dict[str, object] = {
        "hidden": 10**8,
        "layers": 10**6,
        "word_dim": -1,
        "dropout": "x",
        "input": [1],
        "projection": 1e300,
        "cell_clip": None,
        "characters": 7,
        "softmax": {"samples": -1},
    }
    for key, value in settings.items():

        def change(folder: Path, key: str = key, value: object = value) -> None:
            path = folder / "m" / "config.json"
            content = json.loads(path.read_text())
            content["model"][key] = value
            path.write_text(json.dumps(content))

        expect = "" if key == "cell_clip" else "clear error"
        for name in ("info", "embed", "score"):
            yield Attack(group, f"{key} = {value}: elmo {name}", line(name), change, expect=expect)
    texts = {
        "not JSON": "{",
        "a list": "[]",
        "a number": "1",
        "no format": "{}",
        "a key of 10 MB": '{"format": 1, "model": {"' + "k" * 10_000_000 + '": 1}}',
        "1,000,000 brackets": "[" * 1_000_000,
        "format 99": '{"format": 99}',
    }
    for what, content in texts.items():
        for name in ("info", "embed"):
            yield Attack(
                group,
                f"config.json is {what}: elmo {name}",
                line(name),
                write("m/config.json", content),
                expect="clear error",
            )
    for content in ("", "a", "<S>\t1\n</S>\t1\n<UNK>\t1\n", "<S>\t1\n" * 9, "\udcff"):
        yield Attack(
            group,
            f"vocabulary.txt is {content[:20]!r}",
            line("embed"),
            write("m/vocabulary.txt", content.encode("utf-8", "surrogateescape")),
            expect="clear error",
        )
    for file in ("config.json", "vocabulary.txt", "model.safetensors"):

        def cut(folder: Path, file: str = file) -> None:
            path = folder / "m" / file
            path.write_bytes(path.read_bytes()[:-7])

        def gone(folder: Path, file: str = file) -> None:
            (folder / "m" / file).unlink()

        for name in ("info", "embed", "generate"):
            yield Attack(group, f"{file} cut short: elmo {name}", line(name), cut)
            yield Attack(
                group, f"{file} missing: elmo {name}", line(name), gone, expect="clear error"
            )
    yield Attack(
        group,
        "a pickle instead of weights",
        line("embed"),
        write("m/model.safetensors", b"\x80\x04cos\nsystem\n(S'touch hacked'\ntR."),
        expect="clear error",
    )


def weights(group: str) -> Iterator[Attack]:
    """Tensors that are no numbers, or of a type that no model has."""

    def change(how: str, path: str = "m/model.safetensors") -> Prepare:
        def prepare(folder: Path) -> None:
            import torch
            from safetensors.torch import load_file, save_file

            tensors = load_file(folder / path)
            name = max(tensors, key=lambda one: tensors[one].numel())
            tensor = tensors[name]
            if how in ("nan", "inf", "3e38"):
                tensor = tensor.float().clone()
                tensor.view(-1)[0] = float(how)
            else:
                tensor = tensor.to(getattr(torch, how))
            save_file({**tensors, name: tensor}, folder / path)

        return prepare

    for how in ("nan", "inf", "3e38", "bool", "int8", "int64", "complex64", "float8_e4m3fn"):
        for name in ("embed", "score", "generate", "pretrain --from", "classify train"):
            yield Attack(
                group,
                f"a weight is {how}: elmo {name}",
                line(name),
                change(how),
                expect="clear error",
            )
        yield Attack(
            group,
            f"a weight of a classifier is {how}",
            line("classify predict"),
            change(how, "c/linear.safetensors"),
            expect="clear error",
        )
    for how in ("float64", "float16", "bfloat16"):
        yield Attack(group, f"weights in {how}: elmo embed", line("embed"), change(how))


# Folders and files that are the user's.


def folders() -> Iterator[Attack]:
    """--out where the user has files, links in foreign folders, leftovers of earlier jobs."""
    group = "the user's folders"
    pretrain = ["pretrain", "corpus.txt", *SMALL.split()]
    train = ["classify", "train", "labelled.csv", "--model", "m", "--parts", "ngrams"]
    study = ["study", "labelled.csv", "--model", "m", *TINY_STUDY.split()]
    commands = {"pretrain": pretrain, "classify train": train, "study": study}
    mine = both(
        write("mine/README.md", "mine"),
        write("mine/vocabulary.txt", "mine"),
        write("mine/log.jsonl", "mine"),
        write("mine/config.json", "{}"),
        write("mine/.lock", ""),
        write("mine/results.json", "{}"),
        write("mine/cells/x.json", "{}"),
        write("mine/vectors/mine.txt", "mine"),
        write("mine/checkpoints/step-1/mine.txt", "mine"),
        write("mine/sub/.a.partial", "mine"),
        write("mine/bilm/mine.txt", "mine"),
        write("mine/seconds.json", '{"seconds": 1}'),
    )
    for name, argv in commands.items():
        for fresh in ([], ["--fresh"]):
            more = " --fresh" if fresh else ""
            yield Attack(
                group,
                f"--out . : elmo {name}{more}",
                [*argv, "--out", ".", *fresh],
                expect="clear error",
            )
            yield Attack(
                group,
                f"--out into a folder with files of the same names: elmo {name}{more}",
                [*argv, "--out", "mine", *fresh],
                mine,
                expect="clear error",
            )
        yield Attack(
            group,
            f"--out is a file: elmo {name}",
            [*argv, "--out", "README.md"],
            expect="clear error",
        )
        yield Attack(
            group,
            f"--out below a file: elmo {name}",
            [*argv, "--out", "README.md/o"],
            expect="clear error",
        )
        yield Attack(
            group,
            f"--out is an empty folder: elmo {name}",
            [*argv, "--out", "empty"],
            lambda folder: (folder / "empty").mkdir(),
        )
        yield Attack(
            group,
            f"NAME.unfinished is the user's: elmo {name}",
            [*argv, "--out", "o"],
            both(write("o.unfinished/mine.txt", "mine"), write("o.unfinished/.lock", "")),
        )

        def read_only(folder: Path) -> None:
            (folder / "locked").mkdir()
            (folder / "locked").chmod(0o555)

        yield Attack(
            group,
            f"--out in a read-only folder: elmo {name}",
            [*argv, "--out", "locked/o"],
            read_only,
        )

        def dangling(folder: Path) -> None:
            (folder / "o").symlink_to(folder / "nowhere")

        yield Attack(
            group, f"--out is a dangling link: elmo {name}", [*argv, "--out", "o"], dangling
        )
    for file in ("README.md", "notes/keep.txt", "v.npz", "w.txt", "."):
        for name, argv in {
            "embed": ["embed", "corpus.txt", "--model", "m", "--out"],
            "embed --words": ["embed", "--words", "--model", "m", "--out"],
            "static": ["static", "corpus.txt", "--dim", "4", "--min-count", "1", "--out"],
            "convert": ["convert", "m", "--to", "official"],
            "classify evaluate": ["classify", "evaluate", "labelled.csv", "--model", "c", "--out"],
        }.items():
            yield Attack(group, f"--out {file}: elmo {name}", [*argv, file], expect="clear error")
    yield Attack(
        group,
        "classify evaluate --out where the user has metrics of the same name",
        ["classify", "evaluate", "labelled.csv", "--model", "c", "--out", "mine"],
        write("mine/metrics_evaluation.json", "mine"),
        expect="clear error",
    )
    embed = ["embed", "corpus.txt", "--model", "m", "--out", "o.npz"]
    for content in ("mine.txt", "progress.json", "vectors", ".lock", "state-1"):
        yield Attack(
            group,
            f"o.npz.unfinished holds the user's {content}: elmo embed",
            embed,
            write(f"o.npz.unfinished/{content}", "mine"),
            expect="clear error",
        )
    yield Attack(
        group, "o.npz.parts is the user's: elmo embed", embed, write("o.npz.parts/mine.txt", "mine")
    )
    yield Attack(
        group,
        "o.npz.unfinished is a file: elmo embed",
        embed,
        write("o.npz.unfinished", "mine"),
        expect="clear error",
    )

    def lock_link(target: str) -> Prepare:
        def prepare(folder: Path) -> None:
            (folder / target).parent.mkdir(exist_ok=True)
            (folder / target).unlink(missing_ok=True)
            (folder / target).symlink_to(folder / "README.md")

        return prepare

    resume = ["pretrain", "corpus.txt", "--out", "m", *SMALL.split(), "--epochs", "2"]
    runs = (
        "m/.lock",
        "m/log.jsonl",
        "m/config.json",
        "m/vocabulary.txt",
        "m/README.md",
        "m/model.safetensors",
    )
    for target in runs:
        yield Attack(
            group,
            f"{target} of a downloaded run is a link to a file of the user",
            resume,
            lock_link(target),
            changes=["m"],
        )
        yield Attack(
            group,
            f"{target} of a downloaded run is a link: --resume",
            ["pretrain", "--resume", "m"],
            lock_link(target),
            changes=["m"],
        )
        yield Attack(
            group,
            f"{target} of a downloaded run is a link: --fresh",
            [*resume, "--fresh"],
            lock_link(target),
            changes=["m"],
        )

    def checkpoints_link(folder: Path) -> None:
        shutil.rmtree(folder / "m" / "checkpoints")
        (folder / "m" / "checkpoints").symlink_to(folder / "notes")
        (folder / "notes" / "step-000000001").mkdir()

    for more in ([], ["--fresh"]):
        yield Attack(
            group,
            f"checkpoints of a downloaded run lead out {more}",
            [*resume, *more],
            checkpoints_link,
            changes=["m"],
        )
    for name, target in (
        ("embed", "o.npz.unfinished/.lock"),
        ("embed", "o.npz.unfinished/vectors"),
    ):
        yield Attack(group, f"{target} is a link: elmo {name}", embed, lock_link(target))
    yield Attack(
        group,
        "o.unfinished/.lock is a link: elmo classify train",
        [*train, "--out", "o"],
        lock_link("o.unfinished/.lock"),
    )
    mistakes = {
        "a wrong column": ["embed", "labelled.csv", "--column", "7"],
        "an empty file": ["embed", "empty.txt"],
        "a bad layer": ["embed", "corpus.txt", "--layer", "9"],
    }
    for what, argv in mistakes.items():

        def no_parts(result: Result) -> str | None:
            return None

        def then_right(folder: Path, argv: list[str] = argv) -> None:
            from tests.faults.attacks import run

            (folder / "empty.txt").touch()
            run([*argv, "--model", "m", "--out", "o.npz"], folder)

        yield Attack(
            group,
            f"after {what}, the right command: elmo embed",
            embed,
            then_right,
            no_parts,
            expect="right",
            changes=["o.npz.unfinished"],
        )
    for setting in (["--learning-rate", "nan"], ["--min-count", "9999"], ["--held-out-share", "1"]):

        def mistaken_run(folder: Path, setting: list[str] = setting) -> None:
            from tests.faults.attacks import run

            run([*pretrain, "--out", "o", *setting], folder)

        yield Attack(
            group,
            f"after {setting}, the right command: elmo pretrain",
            [*pretrain, "--out", "o"],
            mistaken_run,
            expect="right",
            changes=["o"],
        )


# Around the command: names, locales, streams, variables.


def environment() -> Iterator[Attack]:
    """Odd names, odd streams, odd variables."""
    group = "names and environment"
    odd = [
        "with space.txt",
        "-dash.txt",
        "quote'\".txt",
        "new\nline.txt",
        "esc\x1b[31m.txt",
        "naïve 雨.txt",
        "\udcff\udcfe.txt",
        "[x].txt",
        "*.txt",
        "a" * 250 + ".txt",
        "%s{}.txt",
    ]

    def named(name: str) -> Prepare:
        return lambda folder: shutil.copy(folder / "corpus.txt", folder / name)

    commands = {
        "embed": (["embed", "./NAME", "--model", "m", "--out", "o.npz"]),
        "pretrain": (["pretrain", "./NAME", "--out", "o", *SMALL.split()]),
        "check": (["check", "./NAME", "--no-estimate"]),
        "static": [
            "static",
            "./NAME",
            "--out",
            "o.txt",
            "--dim",
            "4",
            "--min-count",
            "1",
            "--shift",
            "1",
            "--window",
            "2",
        ],
        "evaluate": ["evaluate", "./NAME", "--model", "m", "--json"],
        "classify predict": ["classify", "predict", "--files", "./NAME", "--model", "c"],
    }

    def raw(result: Result) -> str | None:
        return "an escape reaches the terminal" if "\x1b[31m" in result.out + result.err else None

    for name in odd:
        for command, argv in commands.items():
            words = [word.replace("NAME", name) for word in argv]
            yield Attack(group, f"{name[:20]!r}: elmo {command}", words, named(name), raw)
    outs = ["with space", "new\nline", "esc\x1b[31m", "\udcff", "naïve 雨", "a" * 300, ""]
    for name in outs:
        for command, argv in {
            "embed": ["embed", "corpus.txt", "--model", "m", "--out", f"{name}.npz"],
            "embed h5": ["embed", "corpus.txt", "--model", "m", "--out", f"{name}.h5"],
            "embed parquet": ["embed", "corpus.txt", "--model", "m", "--out", f"{name}.parquet"],
            "pretrain": ["pretrain", "corpus.txt", "--out", name, *SMALL.split()],
            "classify train": [
                "classify",
                "train",
                "labelled.csv",
                "--model",
                "m",
                "--out",
                name,
                "--parts",
                "ngrams",
            ],
            "static": [
                "static",
                "corpus.txt",
                "--out",
                f"{name}.bin",
                "--dim",
                "4",
                "--min-count",
                "1",
                "--shift",
                "1",
                "--window",
                "2",
            ],
            "convert": ["convert", "m", name, "--to", "official"],
            "tag train": [*base("tag train"), "--out", name],
            "pairs train": [*base("pairs train"), "--out", name],
            "index": [*base("index"), "--out", name],
        }.items():
            yield Attack(group, f"--out {name[:20]!r}: elmo {command}", argv, check=raw)
    for path in ("~nosuchuser/x.txt", "~/x.txt", "//", "a/../../nowhere", "x" * 5000):
        for command, argv in commands.items():
            words = [word.replace("./NAME", path) for word in argv]
            yield Attack(group, f"{path[:20]!r}: elmo {command}", words, expect="clear error")
        for command in ("info", "embed", "score", "classify predict"):
            model = [word if word not in ("m", "c") else path for word in line(command)]
            yield Attack(
                group, f"--model {path[:20]!r}: elmo {command}", model, expect="clear error"
            )
    for encoding in ("ascii", "latin-1", "utf-16"):
        variables = {"PYTHONIOENCODING": encoding}
        for command, argv in {
            "score": ["score", "naïve 雨 oil", "--model", "m"],
            "score --json": ["score", "naïve 雨 oil", "--model", "m", "--json"],
            "classify predict": ["classify", "predict", "naïve 雨 oil", "--model", "c"],
            "neighbours": [
                "neighbours",
                "bank",
                "naïve bank 雨 .",
                "--corpus",
                "corpus.txt",
                "--model",
                "m",
            ],
            "check": ["check", "corpus.txt", "--no-estimate"],
            "info": ["info", "m"],
            "a mistake": ["score", "--model", "naïve 雨"],
            "--help": ["embed", "--help"],
        }.items():
            yield Attack(
                group,
                f"output in {encoding}: elmo {command}",
                argv,
                check=is_json if "--json" in argv else no_escape,
                environment=variables,
            )
    for command in ("embed", "score", "classify predict", "check", "pretrain"):
        argv = [*base(command), "-"] if command != "score" else ["score", "-", "--model", "m"]
        argv = [word for word in argv if word not in ("corpus.txt", "oil bank")]
        yield Attack(
            group, f"closed standard input: elmo {command}", argv, stdin=None, expect="clear error"
        )
        yield Attack(group, f"empty standard input: elmo {command}", argv, expect="clear error")
        yield Attack(
            group,
            f"binary standard input: elmo {command}",
            argv,
            stdin=bytes(range(256)),
            expect="clear error",
        )
    for variables in (
        {"ELMO_CACHE": "README.md"},
        {"ELMO_CACHE": "/proc/nowhere"},
        {"ELMO_CACHE": "a" * 300},
        {"TMPDIR": "/nowhere"},
        {"LOCAL_WORLD_SIZE": "x"},
        {"WORLD_SIZE": "2"},
        {"RANK": "x", "WORLD_SIZE": "x"},
        {"OMP_NUM_THREADS": "x"},
        {"COLUMNS": "3"},
        {"COLUMNS": "x"},
        {"HOME": "/nowhere"},
        {"ELMO_DATA": "/nowhere"},
    ):
        for command in ("embed", "pretrain", "check", "static", "neighbours"):
            if "WORLD_SIZE" in variables and command != "pretrain":
                continue
            yield Attack(
                group, f"{variables}: elmo {command}", base(command), environment=variables
            )
    for device in ("meta", "cuda", "cuda:99", "mps", "xla", "gpu", "", "cpu:7", "hpu", "vulkan"):
        for command in ("embed", "pretrain", "classify predict", "neighbours", "classify train"):
            yield Attack(
                group, f"--device {device}: elmo {command}", [*base(command), "--device", device]
            )
    for threads in ("0", "-3", "1000000", "2147483648", "1e3"):
        for command in ("embed", "pretrain", "classify predict", "neighbours", "classify train"):
            yield Attack(
                group,
                f"--threads {threads}: elmo {command}",
                [*base(command), "--threads", threads],
                expect="clear error",
            )


# What people type.


def typed() -> Iterator[Attack]:
    """Commands, flags and texts as people type them."""
    group = "what people type"
    for argv in (
        "nothing",
        "--nothing",
        "classify",
        "classify nothing",
        "emebd x",
        "help",
        "-h",
        "--version",
        "embed",
        "score",
        "predict",
        "generate --help-all",
    ):
        yield Attack(group, f"elmo {argv}", argv.split())
    guesses = {
        "predict": ("--k=3", "--n=3", "--num=3", "--topk=3"),
        "neighbours": ("--top=3", "--k=3", "--n=3"),
        "embed": ("--batch-size=8", "--batch=8", "--gpu", "--output-file=x", "--outt=x"),
        "pretrain": ("--lr=1", "--batch-size=8", "--output=x", "--cuda", "--learning_rate_=1"),
        "classify train": ("--lr=1", "--label=x", "--text=x", "--batch-size=3"),
        "generate": ("--max-length=3", "--n=3", "--k=3"),
        "study": ("--lr=1", "--seed=1"),
        "check": ("--lr=1", "--output=x"),
    }
    for command, flags in guesses.items():
        for flag in flags:
            yield Attack(
                group,
                f"elmo {command} {flag}",
                [*base(command), flag],
                expect="clear error",
                says="see elmo",
            )
    for pair in (
        "x",
        "=",
        "hidden",
        "model.hidden",
        "nothing=1",
        "model=1",
        "model.layers=x",
        "model.softmax.samples=-1",
        "training.seed=1.5",
        "a.b.c.d=1",
        "model.layers=8=9",
    ):
        yield Attack(
            group,
            f"elmo pretrain --set {pair}",
            [*base("pretrain"), "--set", pair],
            expect="clear error",
        )
    for content in (
        "{",
        "[]",
        "1",
        '{"model": 1}',
        '{"nothing": {}}',
        '{"model": {"layers": "x"}}',
        '{"training": {"learning_rate": NaN}}',
        '{"training": {"patience": 1e999}}',
    ):
        yield Attack(
            group,
            f"elmo pretrain --config with {content}",
            [*base("pretrain"), "--config", "x.json"],
            write("x.json", content),
            expect="clear error",
        )
    texts = {
        "nothing": "",
        "spaces": "  ",
        "an emoji": "😀",
        "Thai": "ราคาน้ำมันลดลง",
        "a NUL": "a\x01b",
        "an escape": "\x1b[31m",
        "90 dots": "." * 90,
        "1,000 words": "oil " * 1_000,
        "one word of 100,000 letters": "a" * 100_000,
        "<S>": "<S> oil </S> fell <UNK> .",
        "not UTF-8": "\udcff",
        "a path": "runs/nothing",
        "a flag": "--oil",
    }

    def no_raw(result: Result) -> str | None:
        return "an escape reaches the terminal" if "\x1b[31m" in result.out + result.err else None

    for what, text in texts.items():
        for command, argv in {
            "score": ["score", text, "--model", "m"],
            "score whitespace": ["score", text, "--model", "m", "--tokenizer", "whitespace"],
            "predict": ["predict", f"{text} ___ .", "--model", "m", "--tokenizer", "whitespace"],
            "generate": ["generate", text, "--model", "m", "--length", "3"],
            "classify predict": ["classify", "predict", text, "--model", "c"],
            "neighbours": [
                "neighbours",
                "oil",
                f"oil {text}",
                "--model",
                "m",
                "--corpus",
                "corpus.txt",
            ],
        }.items():
            yield Attack(group, f"{what}: elmo {command}", argv, check=no_raw)


def unknown_words() -> Iterator[Attack]:
    """Texts that a model cannot know anything about are said to be such."""
    group = "unknown and empty texts"
    thai = "ราคาน้ำมันลดลง ตลาดหุ้น\nราคา\n" * 5

    def warned(result: Result) -> str | None:
        return None if "unknown" in result.err else f"no warning: {result.err[-200:]!r}"

    for command, argv in {
        "embed": ["embed", "x.txt", "--model", "m", "--out", "o.npz"],
        "classify predict": ["classify", "predict", "--model", "c", "--files", "x.txt"],
        "evaluate": ["evaluate", "x.txt", "--model", "m"],
        "score": ["score", "--files", "x.txt", "--model", "m"],
        "neighbours": ["neighbours", "ราคา", "ราคา", "--corpus", "x.txt", "--model", "m"],
        "tag predict": ["tag", "predict", "--model", "t", "--files", "x.txt"],
        "pairs predict": ["pairs", "predict", "ราคา", "ตลาดหุ้น", "--model", "p"],
    }.items():
        yield Attack(
            group, f"Thai with an English model: elmo {command}", argv, write("x.txt", thai), warned
        )

    def rate(result: Result) -> str | None:
        missing = [item for item in json_lines(result) if "unknown_rate" not in item]
        return f"no unknown_rate in {list(missing[0])}" if missing else None

    for command, argv in {
        "embed": ["embed", "x.txt", "--model", "m", "--out", "o.npz", "--json"],
        "classify predict": ["classify", "predict", "--model", "c", "--files", "x.txt", "--json"],
        "evaluate": ["evaluate", "x.txt", "--model", "m", "--json"],
        "score": ["score", "--files", "x.txt", "--model", "m", "--json"],
        "tag predict": ["tag", "predict", "--model", "t", "--files", "x.txt", "--json"],
        "pairs predict": ["pairs", "predict", "ราคา", "ตลาดหุ้น", "--model", "p", "--json"],
    }.items():
        yield Attack(group, f"the rate in --json: elmo {command}", argv, write("x.txt", thai), rate)

    def flagged(result: Result) -> str | None:
        if result.out.startswith("{"):
            flags = [item.get("empty") for item in json_lines(result)]
            return None if flags in ([True], [[0]], [False, True]) else f"empty: {flags}"
        shown = result.out + result.err
        return None if "no words" in shown or "without words" in shown else "not flagged"

    for more in ([], ["--json"]):
        yield Attack(
            group,
            f"an empty text: elmo classify predict {more}",
            ["classify", "predict", "", "--model", "c", *more],
            check=flagged,
        )
        yield Attack(
            group,
            f"a row with an empty text: elmo classify predict {more}",
            ["classify", "predict", "--files", "x.csv", "--model", "c", *more],
            write("x.csv", "label,text\na,oil\nb,\n"),
            flagged,
        )


def all_attacks() -> list[Attack]:
    """All of them, in the order of the table."""
    groups = (options, texts, probes, servers, models, folders, environment, typed, unknown_words)
    return [attack for group in groups for attack in group()]

"""A folder in which the commands of the docs run: the files and models that they name, small."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.official.golden_elmo import State, golden
from tests.tasks.data_sets import write_paper_data, write_probe_data
from tests.training.conftest import tiny_config

from elmo.study.config import PRESETS, StudyConfig
from elmo.study.news import NewsItem, read_news
from elmo.tasks.config import PAPER_PRESETS
from elmo.text.ag_news import LABELS
from elmo.training.pretrain import pretrain

GERMAN = (
    "Die Bank,Der Fluss,Ein Kind,Mein Haus",
    "sieht,sucht,kennt,mag",
    "den Baum,die Stadt,das Boot",
    ".",
)
ARABIC = ("البنك,النهر,الولد,البيت", "يرى,يعرف,يحب,يريد", "الشجرة,المدينة,القارب", ".")
CHINESE = ("银行,河岸,孩子,房子", "看见,认识,喜欢,寻找", "大树,城市,小船", "。")


def sentences(language: tuple[str, ...], space: str = " ") -> list[str]:
    """Texts of two sentences each, all combinations of subject, verb and object, in pairs."""
    subjects, verbs, objects, end = (part.split(",") for part in language)
    single = [space.join(words) + end[0] for words in itertools.product(subjects, verbs, objects)]
    return [first + space + second for first, second in zip(single, single[7:], strict=False)] * 3


SMALL_STUDY = StudyConfig(
    seeds=(0, 1),
    windows=(2,),
    static_dim=8,
    task_dim=8,
    epochs=1,
    candidates=1,
    analysis_rows=60,
    analysis_steps=2,
    fine_tune_epochs=1,
    samples=(4,),
    draws=2,
    sweeps=("window=1,2", "hidden=8,16", "dropout=0,0.2"),
    bilm_texts=40,
    words=("bank",),
)
"""Every row and analysis of a study, with settings that take seconds."""


def shrink_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each preset of `elmo study` and `elmo study paper` end in a minute or so."""
    for name in PRESETS:
        monkeypatch.setitem(PRESETS, name, SMALL_STUDY)
    for name, preset in PAPER_PRESETS.items():
        small = replace(preset, seeds=(0,), fractions=(0.5, 1.0), epochs=1, words=("cat",))
        monkeypatch.setitem(PAPER_PRESETS, name, small)
    monkeypatch.setattr("elmo.study.data.GENERATED_ITEMS", (240, 60))


def make(folder: Path) -> None:
    """Write everything, from generated news, into a new folder with ag_news under `data`."""
    folder.mkdir()
    train, test = read_news("train")[:240], read_news("test")[:40]
    texts = [item.text for item in train]
    for name in ("texts.txt", "notes.txt", "corpus.txt", "new.txt"):
        write_lines(folder / name, texts[:60])
    write_lines(folder / "de.txt", sentences(GERMAN))
    write_lines(folder / "ar.txt", sentences(ARABIC))
    write_lines(folder / "zh.txt", sentences(CHINESE, ""))
    (folder / "corpus").mkdir()
    for number in (1, 2):
        with gzip.open(folder / f"corpus/{number}.jsonl.gz", "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps({"body": text}) + "\n" for text in texts[number::2])
    write_lines(folder / "texts.jsonl", [json.dumps({"text": text}) for text in texts[:60]])
    write_news(folder / "data/ag_news/train.csv", train)
    write_news(folder / "data/ag_news/test.csv", test)
    with (folder / "mail.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(("folder", "body"))
        table.writerows((item.label, item.text) for item in train)
    topics = [{"text": item.text, "topics": item.label} for item in train]
    for row in topics[::3]:
        row["topics"] += ";long" if len(row["text"]) > 100 else ";short"
    write_lines(folder / "reuters.jsonl", [json.dumps(row) for row in topics])
    words = sorted({word for text in texts for word in text.split()})
    numbers = " ".join(["0.5", "-0.25"] * 50)
    write_lines(folder / "glove.6B.100d.txt", [f"{word.lower()} {numbers}" for word in words[:200]])
    write_lines(folder / "vocab.txt", words[:20])
    for part, items in (("train", train), ("test", test)):
        path = folder / f"data/twenty_newsgroups/20news-bydate-{part}.jsonl.gz"
        path.parent.mkdir(exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8") as stream:
            rows = ({"group": item.label, "text": item.text} for item in items)
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    write_probe_data(folder / "data")
    write_paper_data(folder / "data")
    write_tasks(folder)
    write_official(folder)
    for run in ("runs/news", "runs/general"):
        config = tiny_config()
        pretrain([str(folder / "texts.txt")], folder / run, config, cache=folder / "cache")
    shutil.copytree(folder / "runs/news", folder / "runs/mine")


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_news(path: Path, items: list[NewsItem]) -> None:
    """Class, title and description, as AG News has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows(
            (LABELS.index(item.label) + 1, "A title", item.text) for item in items
        )


def write_tasks(folder: Path) -> None:
    """Tagged sentences and pairs of texts."""
    rows = (("Oil", "NOUN"), ("prices", "NOUN"), ("fell", "VERB"), (".", "PUNCT"))
    sentence = "\n".join(
        f"{number}\t{word}\t_\t{tag}\t_\t_\t{number - 1}\t_\t_\t_"
        for number, (word, tag) in enumerate(rows, start=1)
    )
    for part in ("train", "dev", "test"):
        (folder / f"en_ewt-ud-{part}.conllu").write_text(f"{sentence}\n\n" * 20)
    pairs = [
        (f"A man sleeps {number} times .", "He is awake .", ("yes", "no")[number % 2])
        for number in range(40)
    ]
    for name in ("snli.tsv", "dev.tsv", "test.tsv"):
        lines = ["sentence1\tsentence2\tlabel", *("\t".join(pair) for pair in pairs)]
        write_lines(folder / name, lines)
    rated = [
        {"sentence1": first, "sentence2": second, "score": number % 6}
        for number, (first, second, _) in enumerate(pairs)
    ]
    write_lines(folder / "sts.jsonl", [json.dumps(row) for row in rated])


def write_official(folder: Path) -> None:
    """Two official files, and what the originals make of some sentences, the state carried."""
    import h5py
    import numpy as np

    weights = golden()
    weights.write(folder / "elmo_small")
    sentences = ["Oil prices fell .", "It rained ."]
    write_lines(folder / "sentences.txt", sentences)
    state: State = {}
    with h5py.File(folder / "activations.hdf5", "w") as file:
        for number, sentence in enumerate(sentences):
            layers, state = weights.read(sentence.split(), state)
            values: Any = np.asarray(layers, np.float32)
            file.create_dataset(str(number), values.shape, "float32", values)

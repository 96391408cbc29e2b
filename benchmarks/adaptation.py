"""What training a biLM further on text of one's own is worth: perplexity, transfer, minutes.

    python benchmarks/adaptation.py --data "$ELMO_DATA" --out runs/adaptation

Each set is adapted to as `elmo pretrain TEXT --from default` does it, with the defaults: AG News
(descriptions) and 20 Newsgroups, cut to as many megabytes as the name says, and the training parts
of two small treebanks in languages that the model has never read. Test texts are never read.

Perplexity is that of the words that both vocabularies have, on up to 300 test texts, so that it
can be compared: an adapted model knows more words. Accuracy is that of a ridge classifier on the
means of all layers, with up to 2,000 training and 2,000 test rows. Each result is appended to
`results.jsonl` in the output folder; the same command resumes. Minutes are processor time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import elmo
from transfer import ridge_accuracy

SCORED, LABELLED = 300, 2000
"""Texts whose perplexity is measured; rows to fit a classifier to, and to test it on."""
SETS = (
    "ag_news-1",
    "ag_news-10",
    "ag_news-20",
    "newsgroups-1",
    "newsgroups-10",
    "french",
    "turkish",
)
TREEBANKS = {
    "french": "ud_french_sequoia/fr_sequoia-ud",
    "turkish": "ud_turkish_imst/tr_imst-ud",
}


class Domain(NamedTuple):
    """Texts to adapt to and texts to measure on, perhaps with labels."""

    train: list[str]
    train_labels: list[str]
    test: list[str]
    test_labels: list[str]


def ag_news(path: Path) -> Iterator[tuple[str, str]]:
    """Label and description."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        yield from ((label, " ".join(text.split())) for label, _, text in csv.reader(lines))


def newsgroups(path: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield row["group"], " ".join(row["text"].split())


def treebank(path: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (("", line[9:].strip()) for line in lines if line.startswith("# text = "))


def load(name: str, data: Path) -> Domain:
    """A set by name, shuffled; training texts up to the megabytes that the name ends with."""
    kind, _, megabytes = name.partition("-")
    if kind == "ag_news":
        parts = [
            list(ag_news(data / "ag_news" / file)) for file in ("train_partial.csv.gz", "test.csv")
        ]
    elif kind == "newsgroups":
        files = (f"twenty_newsgroups/20news-bydate-{part}.jsonl.gz" for part in ("train", "test"))
        parts = [list(newsgroups(data / file)) for file in files]
    else:
        parts = [
            list(treebank(data / f"{TREEBANKS[kind]}-{part}.conllu.gz"))
            for part in ("train", "test")
        ]
    train, test = parts
    for rows in parts:
        random.Random(0).shuffle(rows)
    limit, kept, size = float(megabytes or math.inf) * 1e6, 0, 0
    while kept < len(train) and size < limit:
        size += len(train[kept][1].encode()) + 1
        kept += 1
    return Domain(
        [text for _, text in train[:kept]], [label for label, _ in train[:kept]],
        [text for _, text in test], [label for label, _ in test],
    )  # fmt: skip


def perplexity(
    model: elmo.LanguageModel, texts: Sequence[str], words: set[str]
) -> dict[str, float]:
    """Over both directions and the words of a set; the fraction of words that are not in it."""
    losses: list[float] = []
    count = 0
    for score in model.score(list(texts)):
        count += len(score.words)
        known = [one for one in score.words if one.word in words]
        losses += [-(one.forward + one.backward) / 2 for one in known]
    return {"perplexity": math.exp(np.mean(losses)), "left_out": 1 - len(losses) / count}


def accuracy(model: Path | str, domain: Domain) -> float | None:
    """Of a ridge classifier on frozen vectors; None where there are no labels."""
    if len(set(domain.test_labels)) < 2:
        return None
    embedder = elmo.Embedder.from_pretrained(model)
    train, test = (
        np.asarray(embedder.encode(texts[:LABELLED], layer="all")).reshape(
            len(texts[:LABELLED]), -1
        )
        for texts in (domain.train, domain.test)
    )
    labels, test_labels = domain.train_labels[:LABELLED], domain.test_labels[:LABELLED]
    return ridge_accuracy(train, labels, test, test_labels)


def measure(name: str, domain: Domain, model: str, out: Path) -> dict[str, Any]:
    """Both models on one set."""
    before = elmo.LanguageModel.from_pretrained(model)
    scored = [text for text in domain.test if before.words(text)][:SCORED]
    started = time.process_time()  # other work on the machine does not count
    after = elmo.pretrain(domain.train, out / name, init_from=model)
    minutes = (time.process_time() - started) / 60
    words = set(before.vocabulary.words[3:]) & set(after.vocabulary.words[3:])
    result: dict[str, Any] = {
        "set": name, "megabytes": sum(len(text.encode()) + 1 for text in domain.train) / 1e6,
        "minutes": minutes, "new_words": len(after.vocabulary) - len(before.vocabulary),
    }  # fmt: skip
    for when, language_model, path in (("before", before, model), ("after", after, out / name)):
        result[when] = perplexity(language_model, scored, words)
        result[when]["accuracy"] = accuracy(path, domain)
    return result


def table(results: Sequence[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [
        "| text | MB | perplexity before | after | left out | new words | accuracy before | after "
        "| minutes |",
        "|---" * 9 + "|",
    ]
    for one in results:
        before, after = one["before"], one["after"]
        accuracies = (
            "" if part["accuracy"] is None else f"{part['accuracy']:.3f}"
            for part in (before, after)
        )
        lines.append(
            f"| {one['set'].partition('-')[0]} | {one['megabytes']:.1f} "
            f"| {before['perplexity']:.1f} | {after['perplexity']:.1f} "
            f"| {before['left_out']:.1%} | {one['new_words']:,} "
            f"| {' | '.join(accuracies)} | {one['minutes']:.1f} |"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA", "data"))
    parser.add_argument("--model", default="default", help="the biLM to start from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="SET")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    results = [json.loads(line) for line in lines]
    for name in args.sets:
        if name in {one["set"] for one in results}:
            continue
        results.append(measure(name, load(name, Path(args.data)), args.model, args.out))
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(results[-1]) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()

"""`TextClassifier` with its defaults against two baselines, on many data sets and the same rows.

    python benchmarks/classification.py --seeds 0 1 2 --glove glove.6B.100d.txt
    python benchmarks/classification.py --sets mr trec --rows 2000 --model runs/general --json

The baselines: TF-IDF of word 1- and 2-grams with a linear SVM (C chosen by cross-validation on the
training rows), and, with `--glove`, the average of GloVe vectors with a logistic regression (C
chosen the same way). Data is read from `--data`, by default $ELMO_DATA.

TREC, SST, 20 Newsgroups and AG News have a test part. MR, CR and SUBJ have none: the seed draws a
tenth of the rows. Reuters-21578: documents with exactly one topic, topics of at least 20 documents,
the last 30% of the documents by number are the test part. The seed also determines training and,
where `--rows` or the set says so, which training rows are used.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
AG_NEWS = ("World", "Sports", "Business", "Sci/Tech")
SETS = (
    "trec", "cr", "mr", "subj", "sst2", "sst5", "ag10", "ag50", "ag250", "reuters", "newsgroups",
    "ag_d", "ag_td",
)  # fmt: skip


class Table(NamedTuple):
    """Labelled texts."""

    texts: list[str]
    labels: list[str]

    def select(self, rows: Sequence[int] | NDArray[np.int64]) -> Table:
        return Table([self.texts[row] for row in rows], [self.labels[row] for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, help="at most so many training rows, drawn by the seed")
    parser.add_argument("--test-rows", type=int, help="at most so many test rows, drawn by seed 0")
    parser.add_argument("--model", help="folder of a biLM (default: the one that comes with elmo)")
    parser.add_argument("--glove", type=Path, help="GloVe vectors in text format")
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA", "data"))
    parser.add_argument("--json", action="store_true", help="one object per set and seed")
    args = parser.parse_args()
    if not args.json:
        print("| set | seed | rows | test rows | TF-IDF + SVM | GloVe + LR | elmo | seconds |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in args.sets:
        for seed in args.seeds:
            train, test = load(name, seed, Path(args.data))
            train = sample(train, args.rows, seed)
            result = compare(train, sample(test, args.test_rows, 0), seed, args.model, args.glove)
            result = {"set": name, "seed": seed, **result}
            if args.json:
                print(json.dumps(result), flush=True)
            else:
                cells = [f"{value:.4f}" if isinstance(value, float) else str(value)
                         for key, value in result.items() if key != "seconds"]  # fmt: skip
                print(f"| {' | '.join(cells)} | {result['seconds']:.0f} |", flush=True)


def compare(
    train: Table, test: Table, seed: int, model: str | None, glove: Path | None
) -> dict[str, Any]:
    """Test accuracies of all three on the same rows."""
    from elmo import TextClassifier
    from elmo.classify.config import ClassifierConfig, LearningConfig

    svm = tfidf_svm(train, test)
    average = glove_regression(train, test, glove) if glove is not None else None
    started = time.monotonic()
    config = ClassifierConfig(learning=LearningConfig(seed=seed))
    classifier = TextClassifier(config=config) if model is None else TextClassifier(model, config)
    accuracy = classifier.fit(train.texts, train.labels).score(test.texts, test.labels)
    return {
        "rows": len(train.texts),
        "test_rows": len(test.texts),
        "tfidf_svm": svm,
        "glove": average,
        "elmo": accuracy,
        "seconds": time.monotonic() - started,
    }


def tfidf_svm(train: Table, test: Table) -> float:
    """Accuracy of a linear SVM on TF-IDF of word 1- and 2-grams, its C cross-validated."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    machine = make_pipeline(vectorizer, LinearSVC(random_state=0))
    return tuned(machine, "linearsvc__C", train.texts, test.texts, train, test)


def glove_regression(train: Table, test: Table, path: Path) -> float:
    """Accuracy of a logistic regression on the average of each text's GloVe vectors."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from elmo.text.tokenizer import tokenize_words

    words = [[word.lower() for word in tokenize_words(text)] for text in train.texts + test.texts]
    needed = set().union(*words)
    vectors: dict[str, NDArray[np.float32]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            word, _, numbers = line.partition(" ")
            if word in needed:
                vectors[word] = np.array(numbers.split(), np.float32)
    dim = len(next(iter(vectors.values())))
    means = np.zeros((len(words), dim), np.float32)
    for row, text in enumerate(words):
        if found := [vectors[word] for word in text if word in vectors]:
            means[row] = np.mean(found, axis=0)
    machine = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    count = len(train.texts)
    return tuned(machine, "logisticregression__C", means[:count], means[count:], train, test)


def tuned(
    machine: Any, name: str, inputs: Any, test_inputs: Any, train: Table, test: Table
) -> float:
    """Test accuracy with the C that is best in cross-validation on at most 20,000 rows."""
    from sklearn.model_selection import GridSearchCV

    folds = max(2, min(5, min(Counter(train.labels).values())))
    grid = {name: STRENGTHS}
    if len(train.labels) > 20_000:
        rows = np.random.default_rng(0).permutation(len(train.labels))[:20_000]
        part = [inputs[row] for row in rows], [train.labels[row] for row in rows]
        search = GridSearchCV(machine, grid, cv=folds).fit(*part)
        machine.set_params(**search.best_params_).fit(inputs, train.labels)
    else:
        machine = GridSearchCV(machine, grid, cv=folds).fit(inputs, train.labels)
    return float(machine.score(test_inputs, test.labels))


def sample(table: Table, rows: int | None, seed: int) -> Table:
    """At most so many rows, every class in proportion but with two rows at least."""
    if rows is None or rows >= len(table.texts):
        return table
    order = np.random.default_rng(seed).permutation(len(table.texts))
    seen: Counter[str] = Counter()
    ranked: list[tuple[bool, int]] = []
    for row in order.tolist():
        seen[table.labels[row]] += 1
        ranked.append((seen[table.labels[row]] > 2, row))
    chosen = [row for _, row in sorted(ranked, key=lambda pair: pair[0])][:rows]
    return table.select(sorted(chosen))


def load(name: str, seed: int, data: Path) -> tuple[Table, Table]:
    """Training and test part of a set."""
    if name in ("cr", "mr", "subj"):
        file = {"cr": "custrev.all", "mr": "rt-polarity.all", "subj": "subj.all"}[name]
        table = labelled_lines(data / "sentence_classification" / f"{file}.gz")
        order = np.random.default_rng(seed).permutation(len(table.texts))
        tenth = len(order) // 10
        return table.select(np.sort(order[tenth:])), table.select(np.sort(order[:tenth]))
    if name == "trec":
        parts = [labelled_lines(data / "sentence_classification" / f"TREC.{part}.gz")
                 for part in ("train", "test")]  # fmt: skip
        train, test = (Table(t.texts, [label.split(":")[0] for label in t.labels]) for t in parts)
        return train, test
    if name in ("sst2", "sst5"):
        kind = {"sst2": "binary", "sst5": "fine"}[name]
        train, development, test = (
            labelled_lines(data / "sst" / f"stsa.{kind}.{part}.gz")
            for part in ("train", "dev", "test")
        )
        # Everyone may use the development rows as they like.
        return Table(train.texts + development.texts, train.labels + development.labels), test
    if name == "newsgroups":
        return tuple(  # pyright: ignore
            Table([row["text"] for row in rows], [row["group"] for row in rows])
            for rows in (
                json_lines(data / "twenty_newsgroups" / f"20news-bydate-{part}.jsonl.gz")
                for part in ("train", "test")
            )
        )
    if name == "reuters":
        return reuters(data / "reuters21578" / "reuters21578.jsonl.gz")
    titles = name == "ag_td"
    train = ag_news(data / "ag_news" / "train_partial.csv.gz", titles)
    test = ag_news(data / "ag_news" / "test.csv", titles)
    if name.removeprefix("ag").isdigit():
        per_class = int(name.removeprefix("ag"))
        order = np.random.default_rng(seed).permutation(len(train.texts)).tolist()
        labels = np.array(train.labels)[order]
        rows = [
            order[idx] for label in AG_NEWS for idx in np.flatnonzero(labels == label)[:per_class]
        ]
        train = train.select(sorted(rows))
    return train, test


def reuters(path: Path) -> tuple[Table, Table]:
    rows = [row for row in json_lines(path) if len(row.get("topics", ())) == 1 and row.get("body")]
    rows.sort(key=lambda row: int(row["id"]))
    split = round(0.7 * len(rows))
    total = Counter(row["topics"][0] for row in rows)
    before = Counter(row["topics"][0] for row in rows[:split])
    parts = [
        [row for row in part if total[row["topics"][0]] >= 20 and before[row["topics"][0]] >= 2]
        for part in (rows[:split], rows[split:])
    ]
    train, test = (
        Table([f"{row.get('title', '')} {row['body']}" for row in part],
              [row["topics"][0] for row in part])
        for part in parts
    )  # fmt: skip
    return train, test


def ag_news(path: Path, titles: bool) -> Table:
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    texts = [f"{title} {text}" if titles else text for _, title, text in rows]
    return Table(texts, [AG_NEWS[int(label) - 1] for label, _, _ in rows])


def labelled_lines(path: Path) -> Table:
    """One text per line, after its label."""
    with gzip.open(path, "rt", encoding="latin-1") as lines:
        rows = [line.partition(" ") for line in lines if line.strip()]
    return Table([text.strip() for _, _, text in rows], [label.strip() for label, _, _ in rows])


def json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    csv.field_size_limit(sys.maxsize)
    main()

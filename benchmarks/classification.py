"""`TextClassifier` with its defaults against two baselines, on many data sets and the same rows.

    python benchmarks/classification.py --seeds 0 1 2 --glove glove.6B.100d.txt
    python benchmarks/classification.py --sets mr trec --rows 2000 --model runs/general

The baselines: TF-IDF of word 1- and 2-grams with a linear SVM (C chosen by cross-validation on the
training rows), and, with `--glove`, the average of GloVe vectors with a logistic regression (C
chosen the same way). Data is read from `--data`, by default $ELMO_DATA.

Each accuracy is appended to `--results` as soon as it is known, one JSON object per line. What is
there already is not measured again: the same command resumes, and another biLM costs its own runs
only. `--again` measures elmo anew, after a change of the learner.

TREC, SST, 20 Newsgroups and AG News have a test part. MR, CR and SUBJ have none: the seed draws a
tenth of the rows. Reuters-21578: documents with exactly one topic, topics of at least 20 documents,
the last 30% of the documents by number are the test part. AG News as a whole (ag_d, ag_td) is all
training rows at hand, with train_more; its few-label sets draw from train_partial. The seed also
determines training and, where `--rows` or the set says so, which training rows are used.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
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
METHODS = ("tfidf_svm", "elmo", "glove")
DRAWN = ("mr", "cr", "subj", "ag10", "ag50", "ag250")
"""Sets whose rows the seed draws. On the others the baselines have no chance in them: one run."""


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
    parser.add_argument("--model", default="default", help="a biLM (default: the shipped one)")
    parser.add_argument("--glove", type=Path, help="GloVe vectors in text format")
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA", "data"))
    parser.add_argument("--results", type=Path, default=Path("classification.jsonl"))
    parser.add_argument("--again", action="store_true", help="measure elmo anew")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    args = parser.parse_args()
    # Seed by seed: stopped early, it has something of every set.
    for seed in args.seeds:
        for name in args.sets:
            key = {"set": name, "seed": seed, "max_rows": args.rows, "max_test": args.test_rows}
            read = partial(load, name, seed, Path(args.data))
            measure(
                key,
                read,
                args.results,
                args.model,
                args.glove,
                chosen=args.methods,
                again=args.again,
            )
    print(table(read_results(args.results), fingerprint(args.model)))


Key = dict[str, Any]


def measure(
    key: Key,
    read: Callable[[], tuple[Table, Table]],
    results: Path,
    model: str,
    glove: Path | None,
    *,
    chosen: Sequence[str] = METHODS,
    again: bool = False,
) -> None:
    """Append what `results` does not hold yet of one set and seed."""
    methods: dict[str, Callable[[Table, Table], dict[str, Any]]] = {
        "tfidf_svm": lambda train, test: {"accuracy": tfidf_svm(train, test)},
        "elmo": lambda train, test: elmo_classifier(train, test, key["seed"], model),
    }
    if glove is not None:
        methods["glove"] = lambda train, test: {"accuracy": glove_regression(train, test, glove)}
    tables: tuple[Table, Table] | None = None
    for method, run in ((name, run) for name, run in methods.items() if name in chosen):
        name: Key = {**key, "method": method}
        if method == "elmo":
            name["model"] = fingerprint(model)
        elif key["set"] not in DRAWN and key["max_rows"] is None:
            name["seed"] = 0
        known = [one for one in read_results(results) if name.items() <= one.items()]
        if known and not (again and method == "elmo"):
            continue
        if tables is None:
            train, test = read()
            tables = (
                sample(train, key["max_rows"], key["seed"]),
                sample(test, key["max_test"], 0),
            )
        train, test = tables
        started = time.monotonic()
        rows = {"rows": len(train.texts), "test_rows": len(test.texts)}
        found = run(train, test)
        result = {**name, **rows, **found, "seconds": round(time.monotonic() - started, 1)}
        torn = results.exists() and not results.read_text(encoding="utf-8").endswith("\n")
        with results.open("a", encoding="utf-8") as file:
            file.write("\n" * torn + json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)


def read_results(path: Path) -> list[dict[str, Any]]:
    """All complete lines of the file; of a run that was killed, the last one may be torn."""
    results: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            results.append(json.loads(line))
    return results


def fingerprint(model: str) -> str:
    """What tells one biLM from another, wherever its folder is."""
    from elmo.language_model import model_path, weights_checksum

    return weights_checksum(model_path(model))[:16]


def table(results: Sequence[Mapping[str, Any]], model: str) -> str:
    """A row per set: mean accuracy over seeds and, with several, their standard deviation."""
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for one in results:
        if one["method"] != "elmo" or one["model"] == model:
            key = tuple(one[name] for name in ("set", "max_rows", "max_test", "seed", "method"))
            latest[key] = one
    cells: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    counts: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for (name, rows, test_rows, seed, method), one in latest.items():
        cells.setdefault((name, rows, test_rows), {}).setdefault(method, {})[seed] = one["accuracy"]
        counts[name, rows, test_rows] = one
    lines = [
        "| set | rows | test rows | TF-IDF + SVM | GloVe + LR | elmo | seeds |",
        "|---" * 7 + "|",
    ]
    for key, methods in cells.items():
        seeds = set(methods.get("elmo", ()))
        shown: list[str] = []
        for method in ("tfidf_svm", "glove", "elmo"):
            by_seed = methods.get(method, {})
            # Of a baseline without chance there is one run, the same for all seeds.
            values = [
                value for seed, value in by_seed.items() if seed in seeds or len(by_seed) == 1
            ]
            spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
            shown.append(f"{np.mean(values):.4f}{spread}" if values else "")
        one = counts[key]
        lines.append(
            f"| {key[0]} | {one['rows']:,} | {one['test_rows']:,} | {' | '.join(shown)} | "
            f"{', '.join(map(str, sorted(seeds)))} |"
        )
    return "\n".join(lines)


def elmo_classifier(train: Table, test: Table, seed: int, model: str) -> dict[str, Any]:
    """Accuracy of the classifier, of its n-grams alone, and the weights of its parts."""
    from elmo import TextClassifier
    from elmo.classify.config import ClassifierConfig, LearningConfig
    from elmo.classify.features import tokenize_texts

    config = ClassifierConfig(learning=LearningConfig(seed=seed))
    classifier = TextClassifier(model, config).fit(train.texts, train.labels)
    # Not `score`: `evaluate` keeps the layers of the test texts for the next run.
    whole = classifier.evaluate(test.texts, test.labels).metrics
    assert classifier.ngrams is not None
    scores = classifier.ngrams.scores(tokenize_texts(classifier.language_model, test.texts))
    alone = classifier.classes_[scores.argmax(1).numpy()] == np.array(test.labels)
    return {
        "accuracy": whole.accuracy.value,
        "calibration_error": whole.calibration_error,
        "weights": classifier.part_weights,
        "ngrams_alone": float(alone.mean()),
    }


def tfidf_svm(train: Table, test: Table) -> float:
    """Accuracy of a linear SVM on TF-IDF of word 1- and 2-grams, its C cross-validated."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC

    # Once, not for each C and fold: n-grams and their frequencies are of all training texts, those
    # held out included, without their labels, as for elmo's own n-grams.
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, dtype=np.float32)
    inputs, test_inputs = vectorizer.fit_transform(train.texts), vectorizer.transform(test.texts)
    return tuned(LinearSVC(random_state=0), "C", inputs, test_inputs, train, test)


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
    """Test accuracy with the C that is best in cross-validation on at most 20,000 rows.

    In five folds; three of more than 5,000 rows, where folds differ little.
    """
    from sklearn.model_selection import GridSearchCV

    most = 5 if len(train.labels) <= 5000 else 3
    folds = max(2, min(most, min(Counter(train.labels).values())))
    grid = {name: STRENGTHS}
    if len(train.labels) > 20_000:
        rows = np.random.default_rng(0).permutation(len(train.labels))[:20_000]
        part = inputs[rows], [train.labels[row] for row in rows]
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
    files = ["train_partial.csv.gz"]
    if name in ("ag_d", "ag_td"):  # few-label sets are drawn as ever: their numbers stay comparable
        files.append("train_more.csv.gz")
    if name == "ag_d":
        files.append("train_more_description_only.csv.gz")
    train = joined(ag_news(data / "ag_news" / file, titles) for file in files)
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


def joined(tables: Iterable[Table]) -> Table:
    texts, labels = zip(*tables, strict=True)
    return Table([*chain.from_iterable(texts)], [*chain.from_iterable(labels)])


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

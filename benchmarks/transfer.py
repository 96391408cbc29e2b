"""Frozen sentence and word vectors on other people's tasks, for a biLM or for static vectors.

    python benchmarks/transfer.py runs/general --data "$ELMO_DATA" --json
    python benchmarks/transfer.py glove.6B.100d.txt --data "$ELMO_DATA"

Sentences: MR, CR, SUBJ, TREC-6 and SST-2. The vectors of a sentence's words are pooled and a ridge
classifier is fitted to them; its strength is chosen by leave-one-out errors. MR, CR and SUBJ have
no split: a row is a test row if a hash of its text says so, one in five. Words: WiC validation
accuracy (one cosine threshold, tuned on the training pairs) and the Spearman correlation of cosines
with SCWS ratings.

Every representation is measured in one pass: each layer, the average of layers, all layers side by
side, and with the poolings `mean+max` and `mean+std`; where static vectors come with the model,
[x; ELMo] too: their average and all layers, as `ElmoVectorizer` has them. GloVe files have one
layer.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.float32]
STRENGTHS = tuple(10.0 ** (exponent / 2) for exponent in range(0, 12))
TEST_FRACTION = 0.2
CONTEXT = 30
"""Words of context on each side of a target word that are read, for SCWS."""


class Encoder(Protocol):
    """Turns tokenised texts into vectors, layer by layer."""

    def pooled(self, texts: Sequence[list[str]]) -> Array:
        """(texts, layers, 3 × dim): mean over words, then maximum, then standard deviation."""
        ...

    def static(self, texts: Sequence[list[str]]) -> Array | None:
        """(texts, dim): the average of the static vectors that come with a model, if any do."""
        ...

    def targets(self, texts: Sequence[list[str]], positions: Sequence[int]) -> Array:
        """(texts, layers, dim): the vector of one word of each text."""
        ...


class BiLMEncoder:
    """A model folder, through the public API."""

    def __init__(self, folder: Path) -> None:
        from elmo import Embedder

        self._embedder = Embedder.from_pretrained(folder)

    def pooled(self, texts: Sequence[list[str]]) -> Array:
        return np.asarray(self._embedder.encode(texts, layer="all", pooling="mean+max+std"))

    def static(self, texts: Sequence[list[str]]) -> Array | None:
        companions = self._embedder.loaded.word_vectors
        return None if companions is None else companions.averages(texts)

    def targets(self, texts: Sequence[list[str]], positions: Sequence[int]) -> Array:
        targets: list[Array] = []
        for start in range(0, len(texts), 1000):  # token vectors of all texts would not fit
            batch = texts[start : start + 1000]
            vectors = self._embedder.encode(batch, output="tokens", layer="all")
            indices = positions[start : start + 1000]
            targets += [layers[:, idx] for layers, idx in zip(vectors, indices, strict=True)]
        return np.stack(targets)


class StaticEncoder:
    """Word vectors in GloVe's text format; words are looked up in lower case, unknown ones skipped.

    A text of unknown words only is a vector of zeros.
    """

    def __init__(self, path: Path) -> None:
        self._vectors: dict[str, Array] = {}
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                word, *values = line.rstrip().split(" ")
                if len(values) > 1:  # word2vec's first line holds two numbers
                    self._vectors[word] = np.array(values, np.float32)
        self._dim = len(next(iter(self._vectors.values())))

    def _rows(self, words: Sequence[str]) -> Array:
        rows = [self._vectors[word.lower()] for word in words if word.lower() in self._vectors]
        return np.stack(rows) if rows else np.zeros((1, self._dim), np.float32)

    def pooled(self, texts: Sequence[list[str]]) -> Array:
        rows = [self._rows(words) for words in texts]
        return np.stack([np.hstack([row.mean(0), row.max(0), row.std(0)])[None] for row in rows])

    def static(self, texts: Sequence[list[str]]) -> Array | None:
        return None

    def targets(self, texts: Sequence[list[str]], positions: Sequence[int]) -> Array:
        words = [text[idx] for text, idx in zip(texts, positions, strict=True)]
        return np.stack([self._rows([word]) for word in words])


# ---------------------------------------------------------------------------------------------
# Data

_TOKEN = re.compile(
    r"\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\w+(?:[-.,'’]\w+)*|\.\.+|--+|``|''|[^\w\s]"
)


def tokenize(text: str) -> list[str]:
    """Words, numbers and punctuation, much as elmo's own tokenizer cuts them."""
    return _TOKEN.findall(text)


class Split(NamedTuple):
    """Texts and labels to fit and to test."""

    train: list[list[str]]
    train_labels: list[str]
    test: list[list[str]]
    test_labels: list[str]


def is_test(text: str, fraction: float = TEST_FRACTION) -> bool:
    """Whether a row of a set without a split is a test row: a stable property of its text."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64


def labelled_lines(path: Path) -> list[tuple[str, str]]:
    """Label and text of each line: the label is the first word."""
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="latin-1") as stream:
        rows = [line.strip().partition(" ") for line in stream]
    return [(label, text) for label, _, text in rows if text]


def hashed_split(rows: list[tuple[str, str]]) -> Split:
    """A split by the hash of each text."""
    return published_split(
        [row for row in rows if not is_test(row[1])], [row for row in rows if is_test(row[1])]
    )


def published_split(train: list[tuple[str, str]], test: list[tuple[str, str]]) -> Split:
    """A split as published."""
    return Split(
        [tokenize(text) for _, text in train],
        [label for label, _ in train],
        [tokenize(text) for _, text in test],
        [label for label, _ in test],
    )


def sentence_sets(data: Path) -> dict[str, Split]:
    """The five sets by name."""
    small = data / "sentence_classification"
    question_types = [
        [(label.partition(":")[0], text) for label, text in labelled_lines(small / name)]
        for name in ("TREC.train.gz", "TREC.test.gz")
    ]
    return {
        "MR": hashed_split(labelled_lines(small / "rt-polarity.all.gz")),
        "CR": hashed_split(labelled_lines(small / "custrev.all.gz")),
        "SUBJ": hashed_split(labelled_lines(small / "subj.all.gz")),
        "TREC-6": published_split(*question_types),
        "SST-2": published_split(
            labelled_lines(data / "sst/stsa.binary.train.gz"),
            labelled_lines(data / "sst/stsa.binary.test.gz"),
        ),
    }


class WordPairs(NamedTuple):
    """Two texts with a target word each, and what is to be predicted."""

    texts: list[list[str]]
    """First and second text of each pair in turn."""
    positions: list[int]
    gold: NDArray[np.float64]


def targeted(before: str, target: str, after: str) -> tuple[list[str], int]:
    """Words of a text, CONTEXT on each side of the target at most, and the target's position."""
    head = tokenize(before)[-CONTEXT:]
    return [*head, *(tokenize(target) or [target]), *tokenize(after)[:CONTEXT]], len(head)


def read_wic(path: Path) -> WordPairs:
    """WiC in SuperGLUE's version: character offsets; gold 1 for the same sense."""
    texts: list[list[str]] = []
    positions: list[int] = []
    gold: list[float] = []
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            for number in "12":
                text = row[f"sentence{number}"]
                start, end = int(row[f"start{number}"]), int(row[f"end{number}"])
                words, position = targeted(text[:start], text[start:end], text[end:])
                texts.append(words)
                positions.append(position)
            gold.append(float(row["label"]))
    return WordPairs(texts, positions, np.array(gold))


def read_scws(path: Path) -> WordPairs:
    """SCWS: two contexts with the target in <b>…</b>; gold is the mean rating."""
    texts: list[list[str]] = []
    positions: list[int] = []
    gold: list[float] = []
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            fields = line.rstrip("\n").split("\t")
            for text in fields[5:7]:
                before, _, rest = text.partition("<b>")
                target, _, after = rest.partition("</b>")
                words, position = targeted(before, target.strip(), after)
                texts.append(words)
                positions.append(position)
            gold.append(float(fields[7]))
    return WordPairs(texts, positions, np.array(gold))


# ---------------------------------------------------------------------------------------------
# Measuring


def representations(
    pooled: Array, static: Array | None = None, *, mean_only: bool
) -> dict[str, Array]:
    """What can be made of (texts, layers, 3 × dim) and of static vectors, by name."""
    layers = pooled.shape[1]
    mean, highest, spread = np.split(pooled, 3, axis=2)
    features = {f"layer {layer}, mean": mean[:, layer] for layer in range(layers)}
    together = "all layers" if layers > 1 else "layer 0"
    if layers > 1:
        features["average of layers, mean"] = mean.mean(1)
        features["all layers, mean"] = mean.reshape(len(mean), -1)
    if not mean_only:
        for name, other in (("max", highest), ("std", spread)):
            both = np.concatenate([mean, other], axis=2)
            features[f"{together}, mean+{name}"] = both.reshape(len(both), -1)
    if static is not None:
        whole = [name for name in features if name.startswith(together)]
        features |= {f"x and {name}": np.hstack([static, features[name]]) for name in whole}
    return features


def ridge_accuracy(train: Array, labels: list[str], test: Array, test_labels: list[str]) -> float:
    """Test accuracy of one-against-rest ridge regression on standardised features.

    The strength is the one with the smallest squared leave-one-out error on the training rows. A
    tenth of them, set apart instead, chooses mostly by chance: rounding the features to half
    precision then moved the average over the five sets by 0.007.
    """
    classes = sorted(set(labels))
    centre, spread = train.mean(0), train.std(0) + 1e-6
    features, test = (train - centre) / spread, (test - centre) / spread
    targets = np.array([[1.0 if label == name else -1.0 for name in classes] for label in labels])
    weights, bias = ridge(features, targets, STRENGTHS)
    predicted = (test @ weights + bias).argmax(1)
    return float(np.mean([classes[index] for index in predicted] == np.array(test_labels)))


def ridge(
    features: Array, targets: NDArray[np.float64], strengths: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights and bias with the strength whose leave-one-out error is smallest.

    One eigendecomposition serves all strengths: of the products of columns, or of rows if there
    are fewer rows than columns. A row's leave-one-out error is its error divided by one minus its
    leverage.
    """
    centre, bias = features.mean(0, dtype=np.float64), targets.mean(0)
    centred = (features - centre).astype(np.float32)
    by_rows = len(centred) < centred.shape[1]
    products = centred @ centred.T if by_rows else centred.T @ centred
    values, basis = eigh(products.astype(np.float64), overwrite_a=True, check_finite=False)
    if by_rows:  # from the left singular vectors to the right ones
        inside = values > 1e-7 * values[-1]
        values, basis = values[inside], basis[:, inside]
        basis = centred.T.astype(np.float64) @ basis / np.sqrt(values)
    scores = centred @ basis.astype(np.float32)  # (rows, rank)
    right = scores.T.astype(np.float64) @ (targets - bias)
    best = (np.inf, right)
    for strength in strengths:
        solution = right / (values + strength)[:, None]
        leverage = 1 / len(scores) + np.square(scores) @ (1 / (values + strength))
        errors = (targets - bias - scores @ solution) / (1 - leverage)[:, None]
        best = min(best, (float(np.square(errors).mean()), solution), key=lambda pair: pair[0])
    weights = basis @ best[1]
    return weights, bias - centre @ weights


def cosines(vectors: Array) -> Array:
    """(pairs, layers): cosine of the first and the second vector of each pair."""
    first, second = vectors[0::2], vectors[1::2]
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return (first * second).sum(-1) / np.maximum(lengths, 1e-12)


def word_representations(vectors: Array) -> dict[str, Array]:
    """(texts, layers, dim) as (texts, 1, dim) by name: each layer, and their average."""
    by_name = {f"layer {layer}": vectors[:, layer : layer + 1] for layer in range(vectors.shape[1])}
    if vectors.shape[1] > 1:
        by_name["average of layers"] = vectors.mean(1, keepdims=True)
    return by_name


def threshold_accuracy(
    train: Array, gold: NDArray[np.float64], test: Array, test_gold: NDArray[np.float64]
) -> float:
    """Accuracy of `cosine > threshold` with the threshold that is best on the training pairs."""
    order = np.argsort(train)
    positive = gold[order] > 0.5
    # Everything after position k is called "same": negatives before it plus positives after it.
    right = np.concatenate([[0], (~positive).cumsum()]) + np.concatenate(
        [positive[::-1].cumsum()[::-1], [0]]
    )
    edges = np.concatenate([[-np.inf], (train[order][1:] + train[order][:-1]) / 2, [np.inf]])
    threshold = edges[int(np.argmax(right))]
    return float(np.mean((test > threshold) == (test_gold > 0.5)))


def spearman(first: Array, second: NDArray[np.float64]) -> float:
    """Rank correlation, ties at their average rank."""
    ranks = [average_ranks(np.asarray(values, np.float64)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each value from 0; equal values share the average of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts + 1) / 2)[inverse]


Table = dict[str, dict[str, float]]


def measure_sentences(encoder: Encoder, data: Path, *, mean_only: bool) -> Table:
    """Accuracy by representation and set."""
    table: Table = {}
    for name, split in sentence_sets(data).items():
        texts, cut = split.train + split.test, len(split.train)
        vectors, static = encoder.pooled(texts), encoder.static(texts)
        for representation, features in representations(
            vectors, static, mean_only=mean_only
        ).items():
            accuracy = ridge_accuracy(
                features[:cut], split.train_labels, features[cut:], split.test_labels
            )
            table.setdefault(representation, {})[name] = accuracy
    for row in table.values():
        row["average"] = sum(row.values()) / len(row)
    return table


def measure_words(encoder: Encoder, data: Path) -> Table:
    """WiC accuracy and SCWS correlation by representation."""
    table: Table = {}
    train, test = read_wic(data / "wic/train.tsv"), read_wic(data / "wic/validation.tsv")
    vectors = [encoder.targets(pairs.texts, pairs.positions) for pairs in (train, test)]
    tuning, validation = (word_representations(targets) for targets in vectors)
    for representation in tuning:
        tuned, held = (cosines(part[representation])[:, 0] for part in (tuning, validation))
        table[representation] = {"WiC": threshold_accuracy(tuned, train.gold, held, test.gold)}
    rated = read_scws(data / "scws/ratings.txt.gz")
    for representation, rows in word_representations(
        encoder.targets(rated.texts, rated.positions)
    ).items():
        table[representation]["SCWS"] = spearman(cosines(rows)[:, 0], rated.gold)
    return table


def show(table: Table) -> str:
    """A Markdown table."""
    columns = list(next(iter(table.values())))
    lines = [f"| | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    lines += [
        f"| {representation} | {' | '.join(f'{row[column]:.3f}' for column in columns)} |"
        for representation, row in table.items()
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="model folder, or word vectors as text")
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA"))
    parser.add_argument("--mean-only", action="store_true", help="leave out other poolings")
    parser.add_argument("--no-words", action="store_true", help="leave out WiC and SCWS")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    if args.data is None:
        parser.error("--data: expected the folder with the sets, or set ELMO_DATA")
    data = Path(args.data)
    start = time.process_time()
    encoder = BiLMEncoder(args.model) if args.model.is_dir() else StaticEncoder(args.model)
    tables = {"sentences": measure_sentences(encoder, data, mean_only=args.mean_only)}
    if not args.no_words:
        tables["words"] = measure_words(encoder, data)
    if args.json:
        cpu = round(time.process_time() - start, 1)
        print(json.dumps({"model": str(args.model), "cpu_seconds": cpu} | tables))
    else:
        print("\n\n".join(show(table) for table in tables.values()))


if __name__ == "__main__":
    main()

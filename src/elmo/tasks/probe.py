"""Probes: what each layer of a biLM knows, by linear or nearest-neighbour readers of frozen layers.

Every probe measures each layer, their average, and controls: layer 0, the words without context; a
biLM of the same shape with random weights; static vectors, if a file is given. Results are JSON.
"""

from __future__ import annotations

import csv
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from elmo.bilm.model import BiLM, seeded
from elmo.classify.features import TokenizedTexts
from elmo.classify.metrics import Estimate, compare, wilson
from elmo.config import Json, check
from elmo.embed.mix import PackedLayers
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import ProbeConfig
from elmo.tasks.data import TaggedTexts, read_tagged
from elmo.tasks.pairs import fisher_interval, spearman
from elmo.tasks.senses import (
    TEST_SETS,
    WORDNET,
    AnnotatedText,
    Lemma,
    first_senses,
    most_frequent_senses,
    read_semcor,
    read_test_set,
)
from elmo.text.config import ReadOptions
from elmo.text.readers import read_lines
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

PROBES = ("pos", "senses", "wic", "scws", "similarity")
SIMILARITY_SETS = ("WS-353-ALL", "SIMLEX-999", "MEN-TR-3k", "RG-65")
BATCH_WORDS = 512
WIC_FOLDS = 10
STRENGTHS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Weights of the cosine beside the log-frequency of a sense."""
FIRST_SENSE = "first sense"
Spans = Sequence[tuple[int, int]]
Floats = NDArray[np.float32]

T = TypeVar("T")
log = logging.getLogger(__name__)


# What is probed.


class Representation(Protocol):
    """Vectors of words in their sentences, in one or several versions."""

    @property
    def names(self) -> list[str]: ...
    @property
    def group(self) -> str: ...
    def read(
        self, sentences: Sequence[list[str]], spans: Sequence[Spans]
    ) -> Iterator[tuple[int, Floats]]:
        """Index of a sentence, and vectors of its spans, (spans, names, dim)."""
        ...


class Layers:
    """The layers of a biLM and their average; a span is the mean of its words."""

    def __init__(self, loaded: LanguageModel, title: str = "") -> None:
        count = 1 + loaded.model.config.layers
        names = [*(f"layer {layer}" for layer in range(count)), "average"]
        self.names = [f"{title} {name}".strip() for name in names]
        self.group = "control" if title else "elmo"
        self._model = loaded.model

    @torch.no_grad()
    def read(
        self, sentences: Sequence[list[str]], spans: Sequence[Spans]
    ) -> Iterator[tuple[int, Floats]]:
        """As `Representation.read`, in no particular order of sentences."""
        rows = [row for row, some in enumerate(spans) if some]
        texts = TokenizedTexts([sentences[row] for row in rows], no_vocabulary())
        for some, read in texts.read_all(self._model):
            layers = read.layers
            if isinstance(layers, PackedLayers):
                layers = layers.unpacked()
            for index, text in enumerate(some):
                words = layers[:, index].float()  # (1 + layers, words, dim)
                row = rows[text]
                vectors = torch.stack([words[:, a:b].mean(1) for a, b in spans[row]])
                vectors = torch.cat([vectors, vectors.mean(1, keepdim=True)], dim=1)
                yield row, vectors.cpu().numpy()


class Static:
    """One vector per word, whatever is around it; zeros for unknown words."""

    def __init__(self, vectors: StaticVectors, name: str = "word vectors") -> None:
        self.names, self.group, self._vectors = [name], "static", vectors

    def read(
        self, sentences: Sequence[list[str]], spans: Sequence[Spans]
    ) -> Iterator[tuple[int, Floats]]:
        """As `Representation.read`."""
        ids = self._vectors.ids
        for row, some in enumerate(spans):
            if some:
                words = [word if word in ids else word.lower() for word in sentences[row]]
                vectors = self._vectors.embed(words)
                yield row, np.stack([vectors[a:b].mean(0, keepdims=True) for a, b in some])


def no_vocabulary() -> Vocabulary:
    return Vocabulary(SPECIAL_WORDS, (0,) * len(SPECIAL_WORDS))


def random_bilm(loaded: LanguageModel, seed: int) -> LanguageModel:
    """A biLM of the same shape and vocabulary that has learned nothing."""
    with seeded(seed):
        model = BiLM(loaded.model.config, loaded.model.vocabulary)
    return replace(loaded, model=model.to(loaded.model.device).eval().requires_grad_(False))


def representations(
    loaded: LanguageModel, config: ProbeConfig, vectors: StaticVectors | None = None
) -> list[Representation]:
    """The biLM and its controls."""
    loaded.model.requires_grad_(False)
    found: list[Representation] = [Layers(loaded)]
    found.append(Layers(random_bilm(loaded, config.seed), "random biLM,"))
    if vectors is not None:
        found.append(Static(vectors))
    return found


# Results.


def result(name: str, title: str, measure: str, count: int, rows: list[Json]) -> Json:
    """What a probe found: one row per representation."""
    return {"probe": name, "title": title, "measure": measure, "count": count, "rows": rows}


def accuracy_rows(
    right: Mapping[str, NDArray[np.bool_]], groups: Mapping[str, str], against: str
) -> list[Json]:
    """Accuracy with its interval and, against one of the rows, the difference and its p-value."""
    rows: list[Json] = []
    for name, some in right.items():
        estimate = wilson(int(some.sum()), len(some))
        row = _row(name, groups[name], estimate)
        if name != against and against in right:
            paired = compare(some, right[against])
            row |= {"against": against, "difference": paired.difference, "p": paired.p}
        rows.append(row)
    return rows


def _row(name: str, group: str, estimate: Estimate) -> Json:
    values = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {"name": name, "group": group, **values}


# Parts of speech: a linear classifier per layer.


def probe_pos(
    found: Sequence[Representation], train: TaggedTexts, test: TaggedTexts, config: ProbeConfig
) -> Json:
    """Accuracy of a softmax regression on each representation of a word."""
    check(config)
    names = sorted({tag for tags in train.tags for tag in tags})
    index = {name: idx for idx, name in enumerate(names)}
    limit = config.train_words or sum(map(len, train.words))
    right: dict[str, NDArray[np.bool_]] = {}
    groups: dict[str, str] = {}
    for one in found:
        x, y = _word_vectors(one, train, index, limit)
        test_x, test_y = _word_vectors(one, test, index, None)
        for version, name in enumerate(one.names):
            weights, bias = _softmax_regression(x[:, version], y, len(names), config)
            scores = test_x[:, version].astype(np.float32) @ weights + bias
            right[name], groups[name] = scores.argmax(1) == test_y, one.group
    rows = accuracy_rows(right, groups, found[0].names[0])
    return result("pos", "Parts of speech", "accuracy", len(next(iter(right.values()))), rows)


def _word_vectors(
    one: Representation, data: TaggedTexts, index: Mapping[str, int], limit: int | None
) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
    """All words, (words, names, dim) in half precision, and the class of each; -1 if unknown."""
    sizes = np.cumsum([len(words) for words in data.words])
    rows = int(np.searchsorted(sizes, limit or sizes[-1])) + 1
    sentences = data.words[:rows]
    starts = np.concatenate([[0], sizes])
    vectors: NDArray[np.float16] | None = None
    spans = [[(idx, idx + 1) for idx in range(len(words))] for words in sentences]
    for row, some in one.read(sentences, spans):
        if vectors is None:
            vectors = np.zeros((int(sizes[min(rows, len(sizes)) - 1]), *some.shape[1:]), np.float16)
        vectors[starts[row] : starts[row + 1]] = some
    if vectors is None:
        raise UserError("expected sentences with words to probe, but there are none")
    classes = [index.get(tag, -1) for tags in data.tags[:rows] for tag in tags]
    return vectors, np.array(classes, np.int64)


def _softmax_regression(
    x: NDArray[np.float16], y: NDArray[np.int64], classes: int, config: ProbeConfig
) -> tuple[Floats, Floats]:
    """Weights, (dim, classes), and bias of a linear classifier trained by Adam."""
    # Layers differ in scale: without this, one learning rate would favour some of them.
    sample = x[:: max(1, len(x) // 10_000)].astype(np.float32)
    scale = max(1e-6, float(np.sqrt((sample**2).mean())))
    weight = torch.zeros(x.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=config.learning_rate)
    random = np.random.default_rng(config.seed)
    batches = -(-len(x) // BATCH_WORDS)
    for epoch in range(config.epochs):
        order = random.permutation(len(x))
        for batch in range(batches):
            done = (epoch * batches + batch) / (config.epochs * batches)
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * (1 - done)
            rows = order[batch * BATCH_WORDS : (batch + 1) * BATCH_WORDS]
            inputs = torch.from_numpy(x[rows].astype(np.float32) / scale)
            loss = functional.cross_entropy(inputs @ weight + bias, torch.from_numpy(y[rows]))
            optimizer.zero_grad()
            cast("Any", loss).backward()
            optimizer.step()
    return (weight.detach() / scale).numpy(), bias.detach().numpy()


# Word senses: the nearest mean of the training text, as in section 5.3 of the paper.


class Senses(NamedTuple):
    """The senses of a lemma in the training text."""

    keys: list[str]
    means: Floats  # (senses, names, dim), of length 1
    log_counts: NDArray[np.float64]  # (senses,)

    def best(self, vectors: Floats, strengths: Sequence[float] | None = None) -> list[str]:
        """The nearest sense by cosine, one per name, of one word's vectors, (names, dim).

        With strengths, one per name: of the highest log-frequency + strength * cosine.
        """
        cosines = np.einsum("snd,nd->sn", self.means, _unit(vectors))
        if strengths is not None:
            cosines = self.log_counts[:, None] + cosines * np.array(strengths)
        return [self.keys[idx] for idx in cosines.argmax(0).tolist()]


def probe_senses(
    found: Sequence[Representation],
    train: AnnotatedText,
    tests: Mapping[str, AnnotatedText],
    back_off: Mapping[Lemma, str],
    origin: str,
) -> Json:
    """F1 over all test sets: the nearest sense's mean vector; the first sense for unseen lemmas.

    The nearest mean, as in the paper, forgets that some senses are far more frequent than others.
    So each row also has `with_frequency`: log-frequency in the training text + strength * cosine,
    the strength chosen on the last fifth of the training text by the means of the rest.

    Args:
        back_off: The sense to answer for lemmas that the training text does not have.
        origin: Where `back_off` comes from: WordNet, or the training text.
    """
    gold = [keys for test in tests.values() for some in test.keys for keys in some]
    lemmas = [lemma for test in tests.values() for some in test.lemmas for lemma in some]
    sets = [name for name, test in tests.items() for _ in range(test.count)]
    defaults = [back_off.get(lemma) for lemma in lemmas]
    right = {FIRST_SENSE: np.array([a in b for a, b in zip(defaults, gold, strict=True)])}
    frequent = {FIRST_SENSE: right[FIRST_SENSE]}
    groups, strength_of = {FIRST_SENSE: "control"}, dict[str, float]()
    # One answer per instance: precision and recall differ only where there is none.
    for one in found:
        senses, strengths = _sense_means(one, train, set(lemmas))
        strength_of |= dict(zip(one.names, strengths, strict=True))
        for name in one.names:
            right[name], frequent[name] = right[FIRST_SENSE].copy(), right[FIRST_SENSE].copy()
            groups[name] = one.group
        start = 0
        for test in tests.values():
            starts = start + np.concatenate([[0], np.cumsum([len(some) for some in test.spans])])
            for row, vectors in one.read(test.words, test.spans):
                for offset, lemma in enumerate(test.lemmas[row]):
                    if (known := senses.get(lemma)) is None:
                        continue
                    index, keys = int(starts[row]) + offset, test.keys[row][offset]
                    near, likely = (
                        known.best(vectors[offset]),
                        known.best(vectors[offset], strengths),
                    )
                    for version, name in enumerate(one.names):
                        right[name][index] = near[version] in keys
                        frequent[name][index] = likely[version] in keys
            start = int(starts[-1])
    known_lemmas = {lemma for some in train.lemmas for lemma in some}
    answered = sum(
        lemma in known_lemmas or answer is not None
        for lemma, answer in zip(lemmas, defaults, strict=True)
    )
    rows = accuracy_rows(right, groups, FIRST_SENSE)
    with_frequency = accuracy_rows(frequent, groups, FIRST_SENSE)
    words = found[0].names[0]
    against_words = {row["name"]: row for row in accuracy_rows(right, groups, words)}
    for row, other in zip(rows, with_frequency, strict=True):
        is_first = row["name"] == FIRST_SENSE
        replies = sum(answer is not None for answer in defaults) if is_first else answered
        for values, some in ((row, right[row["name"]]), (other, frequent[row["name"]])):
            values["value"] = 2 * int(some.sum()) / max(1, replies + len(some))
            values["by_set"] = {
                name: float(some[[s == name for s in sets]].mean()) for name in tests
            }
        if not is_first:
            kept = ("value", "low", "high", "difference", "p", "by_set")
            row["with_frequency"] = {name: other[name] for name in kept}
            row["with_frequency"]["strength"] = strength_of[row["name"]]
            if row["name"] != words:
                other = against_words[row["name"]]
                row["against_words"] = {key: other[key] for key in ("against", "difference", "p")}
    found_result = result("senses", "Word senses", "F1", len(gold), rows)
    return found_result | {"back_off": origin, "training_words": train.count}


def _sense_means(
    one: Representation, text: AnnotatedText, wanted: set[Lemma]
) -> tuple[dict[Lemma, Senses], list[float]]:
    """The senses of the wanted lemmas, and the strength of the cosine for each name."""
    sums: dict[str, Floats] = {}
    counts: Counter[str] = Counter()
    by_lemma: defaultdict[Lemma, dict[str, None]] = defaultdict(dict)
    later: list[tuple[Lemma, tuple[str, ...], NDArray[np.float16]]] = []

    def add(lemma: Lemma, keys: Sequence[str], vector: Floats) -> None:
        for key in keys:
            if key in sums:
                sums[key] += vector
            else:
                sums[key] = vector.astype(np.float32)
            counts[key] += 1
            by_lemma[lemma][key] = None

    def senses() -> dict[Lemma, Senses]:
        return {
            lemma: Senses(
                list(keys),
                _unit(np.stack([sums[key] for key in keys])),
                np.log([counts[key] for key in keys]),
            )
            for lemma, keys in by_lemma.items()
        }

    spans = [
        [span for span, lemma in zip(*some, strict=True) if lemma in wanted]
        for some in zip(text.spans, text.lemmas, strict=True)
    ]
    # The end of the text, not a sample: sentences of one document share their senses.
    first_held_out = len(text.words) - len(text.words) // 5
    for row, vectors in one.read(text.words, spans):
        both = zip(text.lemmas[row], text.keys[row], strict=True)
        some = [(lemma, keys) for lemma, keys in both if lemma in wanted]
        for vector, (lemma, keys) in zip(vectors, some, strict=True):
            if row < first_held_out:
                add(lemma, keys, vector)
            else:
                later.append((lemma, keys, vector.astype(np.float16)))
    partial = senses()
    right = np.zeros((len(STRENGTHS), len(one.names)))
    for lemma, keys, vector in later:
        if (known := partial.get(lemma)) is not None and len(known.keys) > 1:
            for idx, strength in enumerate(STRENGTHS):
                answers = known.best(vector.astype(np.float32), [strength] * len(one.names))
                right[idx] += [answer in keys for answer in answers]
    for lemma, keys, vector in later:
        add(lemma, keys, vector.astype(np.float32))
    return senses(), [STRENGTHS[idx] for idx in right.argmax(0).tolist()]


def _unit(vectors: Floats) -> Floats:
    """Scaled to length 1 along the last axis; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)


# Similarity of two words in their contexts.


def _pair_cosines(
    one: Representation, sentences: Sequence[list[str]], spans: Sequence[tuple[int, int]]
) -> Floats:
    """Cosines of span 2r and span 2r + 1, (pairs, names)."""
    vectors: dict[int, Floats] = {}
    for row, some in one.read(sentences, [[span] for span in spans]):
        vectors[row] = _unit(some[0])
    rows = range(0, len(sentences), 2)
    return np.stack([(vectors[row] * vectors[row + 1]).sum(-1) for row in rows])


def probe_wic(found: Sequence[Representation], train: Sequence[Json], test: Sequence[Json]) -> Json:
    """Accuracy of "same sense" on the test pairs, by a threshold on the cosine from training pairs.

    638 test pairs cannot tell layers apart that differ by 3 points. A threshold is all that is
    learned, so the p-value is over all pairs, each judged by a threshold of pairs in other folds.
    """
    if len(train) < 2 or not len(test):
        raise UserError(
            f"expected two training pairs or more and test pairs, got {len(train)} and {len(test)}"
        )
    every = [*train, *test]
    labels = np.array([pair["label"] for pair in every])
    sentences = [sentence for pair in every for sentence in pair["sentences"]]
    spans = [span for pair in every for span in pair["spans"]]
    in_test = np.arange(len(every)) >= len(train)
    # Test pairs are a fold of their own, whose threshold comes from all training pairs.
    folds = np.where(in_test, WIC_FOLDS, np.arange(len(every)) % WIC_FOLDS)
    right: dict[str, NDArray[np.bool_]] = {"always the same": labels}
    groups = {"always the same": "control"}
    for one in found:
        cosines = _pair_cosines(one, sentences, spans)
        for version, name in enumerate(one.names):
            values, same = cosines[:, version], np.zeros(len(every), np.bool_)
            for fold in np.unique(folds):
                others = ~in_test & (folds != fold)
                threshold = best_threshold(values[others], labels[others])
                same[folds == fold] = values[folds == fold] >= threshold
            right[name], groups[name] = same == labels, one.group
    rows = accuracy_rows(right, groups, found[0].names[0])
    for row in rows:
        some = right[row["name"]]
        row["all_pairs"] = row["value"]
        row |= _row(row["name"], row["group"], wilson(int(some[in_test].sum()), len(test)))
    found_result = result("wic", "Same sense in two sentences (WiC)", "accuracy", len(test), rows)
    return found_result | {"p_count": len(every)}


def best_threshold(values: Floats, labels: NDArray[np.bool_]) -> float:
    """The threshold at and above which "true" is right most often."""
    order = np.argsort(-values, kind="stable")
    ordered, truth = values[order], labels[order]
    # With the first k as true: the true ones among them, and the false ones after them.
    correct = np.concatenate([[0], np.cumsum(truth)]) + np.concatenate(
        [np.cumsum(~truth[::-1])[::-1], [0]]
    )
    # Between equal values there is no threshold.
    possible = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
    best = int(np.where(possible, correct, -1).argmax())
    if best == 0:
        return float(np.nextafter(ordered[0], np.float32(np.inf)))
    return float(ordered[best - 1])


def probe_scws(found: Sequence[Representation], pairs: Sequence[Json]) -> Json:
    """Spearman's correlation of cosines with human ratings of words in contexts."""
    ratings = np.array([pair["rating"] for pair in pairs])
    sentences = [sentence for pair in pairs for sentence in pair["sentences"]]
    spans = [span for pair in pairs for span in pair["spans"]]
    rows: list[Json] = []
    for one in found:
        cosines = _pair_cosines(one, sentences, spans)
        for version, name in enumerate(one.names):
            value = spearman(cosines[:, version], ratings)
            rows.append(_row(name, one.group, fisher_interval(value, len(pairs))))
    return result("scws", "Similarity of words in context (SCWS)", "Spearman", len(pairs), rows)


def probe_similarity(
    found: Sequence[Representation],
    sentences: Sequence[list[str]],
    sets: Mapping[str, Sequence[tuple[str, str, float]]],
) -> Json:
    """Spearman's correlation of cosines of a word's mean vector over a text with human ratings."""
    wanted = {word for pairs in sets.values() for a, b, _ in pairs for word in (a, b)}
    spans = [
        [(idx, idx + 1) for idx, word in enumerate(words) if word.lower() in wanted]
        for words in sentences
    ]
    rows: list[Json] = []
    for one in found:
        sums: dict[str, Floats] = {}
        for row, vectors in one.read(sentences, spans):
            for (start, _), vector in zip(spans[row], vectors, strict=True):
                word = sentences[row][start].lower()
                sums[word] = sums[word] + vector if word in sums else vector
        means = {word: _unit(vector) for word, vector in sums.items()}
        for version, name in enumerate(one.names):
            by_set: Json = {}
            for title, pairs in sets.items():
                known = [pair for pair in pairs if pair[0] in means and pair[1] in means]
                values = [float(means[a][version] @ means[b][version]) for a, b, _ in known]
                value = spearman(np.array(values), np.array([rating for _, _, rating in known]))
                by_set[title] = {"value": value, "pairs": len(known), "of": len(pairs)}
            mean = float(np.mean([one["value"] for one in by_set.values()]))
            rows.append({"name": name, "group": one.group, "value": mean, "by_set": by_set})
    title = "Similarity of words by their mean over a text"
    return result("similarity", title, "mean Spearman", len(wanted), rows)


# Files.


def read_wic(path: Path, loaded: LanguageModel) -> list[Json]:
    """WiC as tab-separated rows with character offsets, cut into words."""
    lines = (line for line in read_lines(path, ReadOptions()))
    pairs: list[Json] = []
    for number, row in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        try:
            sides = [
                _marked(loaded, row[f"sentence{n}"], int(row[f"start{n}"]), int(row[f"end{n}"]))
                for n in (1, 2)
            ]
            label = bool(int(row["label"]))
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"'{path}', row {number}: expected the columns sentence1, sentence2, start1, end1, "
                "start2, end2 and label, offsets and label as whole numbers"
            ) from None
        words, spans = zip(*sides, strict=True)
        pairs.append({"sentences": list(words), "spans": list(spans), "label": label})
    return _not_empty(pairs, path)


def _marked(
    loaded: LanguageModel, text: str, start: int, end: int
) -> tuple[list[str], tuple[int, int]]:
    """A sentence as words, and which of them are the characters from start to end."""
    before, target = loaded.tokenize(text[:start]), loaded.tokenize(text[start:end])
    target = target or [text[start:end] or "_"]
    words = [*before, *target, *loaded.tokenize(text[end:])]
    return words, (len(before), len(before) + len(target))


def read_scws(path: Path) -> list[Json]:
    """SCWS: contexts cut into words, the target between <b> and </b>."""
    pairs: list[Json] = []
    for number, line in enumerate(read_lines(path, ReadOptions()), start=1):
        fields = line.rstrip("\r\n").split("\t")
        try:
            sides = [_between_marks(fields[column].split()) for column in (5, 6)]
            rating = _rating(fields[7])
        except (IndexError, ValueError):
            raise UserError(
                f"'{path}', line {number}: expected two contexts with a word between <b> and </b>, "
                "in columns 5 and 6, and a rating in column 7"
            ) from None
        words, spans = zip(*sides, strict=True)
        pairs.append({"sentences": list(words), "spans": list(spans), "rating": rating})
    return _not_empty(pairs, path)


def _rating(text: str) -> float:
    rating = float(text)
    if not math.isfinite(rating):
        raise ValueError("not a number")
    return rating


def _not_empty(pairs: list[T], path: Path) -> list[T]:
    if not pairs:
        raise UserError(f"'{path}': expected pairs with ratings or labels, but there are none")
    return pairs


def _between_marks(words: list[str]) -> tuple[list[str], tuple[int, int]]:
    start, end = words.index("<b>"), words.index("</b>")
    if end <= start + 1:
        raise ValueError("nothing is marked")
    plain = [*words[:start], *words[start + 1 : end], *words[end + 1 :]]
    return plain, (start, end - 1)


def read_similarity(path: Path) -> list[tuple[str, str, float]]:
    """Pairs of words with a rating, in lower case."""
    pairs: list[tuple[str, str, float]] = []
    for number, line in enumerate(read_lines(path, ReadOptions()), start=1):
        if fields := line.lower().split():
            try:
                pairs.append((fields[0], fields[1], _rating(fields[2])))
            except (IndexError, ValueError):
                raise UserError(
                    f"'{path}', line {number}: expected two words and a rating, got {line!r:.60}"
                ) from None
    return _not_empty(pairs, path)


def run_probe(
    name: str,
    loaded: LanguageModel,
    data: Path,
    config: ProbeConfig | None = None,
    *,
    vectors: StaticVectors | None = None,
    wordnet: Path | None = None,
) -> Json:
    """Run a probe on a folder of public data sets.

    Args:
        name: One of `PROBES`.
        data: Holds ud_english_ewt, semcor, wsd_eval, wic, scws and word_similarity.
        vectors: Static vectors, as a control.
        wordnet: Folder of WordNet's files; default: that of Debian's packages, if it is there.
    """
    config = config or ProbeConfig()
    check(config)
    found = representations(loaded, config, vectors)
    if name == "pos":
        train, test = (
            read_tagged(str(data / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu.gz"))
            for part in ("train", "test")
        )
        return probe_pos(found, train, test, config)
    if name == "senses":
        semcor = read_semcor(data / "semcor" / "semcor3.0.tsv.gz")
        folder = data / "wsd_eval"
        tests = {
            one: read_test_set(folder / f"{one}.data.xml.gz", folder / f"{one}.gold.key.txt.gz")
            for one in TEST_SETS
        }
        if wordnet is None and not (WORDNET / "index.sense").is_file():
            log.warning("no WordNet: lemmas that the training text lacks get no answer")
            return probe_senses(found, semcor, tests, most_frequent_senses(semcor), "training text")
        return probe_senses(found, semcor, tests, first_senses(wordnet or WORDNET), "WordNet")
    if name == "wic":
        parts = [read_wic(data / "wic" / f"{part}.tsv", loaded) for part in ("train", "validation")]
        return probe_wic(found, *parts)
    if name == "scws":
        return probe_scws(found, read_scws(data / "scws" / "ratings.txt.gz"))
    if name == "similarity":
        text = read_semcor(data / "semcor" / "semcor3.0.tsv.gz").words
        folder = data / "word_similarity"
        sets = {one: read_similarity(folder / f"EN-{one}.txt") for one in SIMILARITY_SETS}
        return probe_similarity(found, text, sets)
    raise UserError(f"unknown probe {name!r}; expected one of {', '.join(PROBES)}")

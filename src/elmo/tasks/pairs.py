"""`PairClassifier`: two texts to a label (inference, paraphrase) or to a score (relatedness).

words -> [x; ELMo] -> encoder -> [h; ELMo] (optional) -> attention to the other side -> comparison
-> pooling -> scores. The encoder is a layer per word (decomposable attention) or a biLSTM (ESIM).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import atanh, tanh
from statistics import NormalDist
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.classify.classifier import BiLMReference
from elmo.classify.config import LearningConfig
from elmo.classify.data import Split, encode_labels, label_names
from elmo.classify.features import (
    TokenizedTexts,
    batches_by_length,
    cut_texts,
    load_word_vectors,
    tokenize_texts,
)
from elmo.classify.loop import (
    Fitted,
    LayerReader,
    Phase,
    scores_of,
)
from elmo.classify.metrics import LEVEL, Estimate, Metrics, measure
from elmo.classify.network import LSTMEncoder, TextLayers
from elmo.config import Json, check, from_json
from elmo.embed.mix import dropped
from elmo.errors import UserError
from elmo.language_model import LanguageModel, open_model
from elmo.tasks.config import PairConfig, ReadPairs
from elmo.tasks.data import LABEL, SCORE, Pairs, parse_scores, read_pairs
from elmo.tasks.training import (
    BothSides,
    Rows,
    TaskModel,
    TrainOptions,
    WordNetwork,
    WordsOnly,
    both_sides,
    split_rows,
)
from elmo.text.config import ReadOptions
from elmo.text.sources import iterated

PAIRS_AT_ONCE = 512
"""Pairs that are read together; bounds the memory."""
HIDDEN_WORD = -1e4
"""Attention score of padding; finite, since a softmax over nothing but -inf would be NaN."""
Pair = tuple[str | Sequence[str], str | Sequence[str]]


class PairNetwork(WordNetwork):
    """Compares two texts word by word and scores the classes, or gives one number.

    Args:
        layers: How many layers each word has, layer 0 included.
        dim: Size of a layer, both directions together.
        outputs: How many classes to score; 1 for a number.
        task_words: Rows of the task embedding.
    """

    def __init__(
        self, config: PairConfig, layers: int, dim: int, outputs: int, task_words: int
    ) -> None:
        super().__init__(config.words, layers, dim, task_words)
        self.config = config
        units = config.encoder_dim
        if config.model == "esim":
            self.encoder: nn.Module = LSTMEncoder(self.input_dim, units)
            encoded = 2 * units + self.added_dim
            self.compare = nn.Linear(4 * encoded, units)
            self.compose = LSTMEncoder(units, units)
            pooled = 4 * units  # mean and maximum of both directions
        else:
            self.encoder = nn.Linear(self.input_dim, 2 * units)
            encoded = 2 * units + self.added_dim
            self.compare = nn.Linear(4 * encoded, 2 * units)
            self.compose = None
            pooled = 4 * units
        self.hidden = nn.Linear(4 * pooled, config.hidden)
        self.scores = nn.Linear(config.hidden, outputs)

    def forward(self, texts: TextLayers, random: torch.Generator | None = None) -> Tensor:
        """Score the pairs, (pairs, outputs); texts are first and second sides in turn."""
        rate, lengths = self.config.dropout, texts.lengths
        words = self.at_input(texts, rate, random)  # (2 * pairs, words, input)
        if self.compose is None:
            encoded = self.encoder(words).relu()
        else:
            encoded = self.encoder(words, lengths)  # (2 * pairs, words, 2 * units)
        encoded = self.at_output(encoded, texts, random)
        inside = torch.arange(encoded.shape[1], device=lengths.device) < lengths[:, None]
        aligned = align(encoded, inside)  # (2 * pairs, words, encoded)
        compared = torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=2)
        compared = dropped(self.compare(compared).relu(), rate, random)
        if self.compose is not None:
            compared = self.compose(compared, lengths)
        text = pool(compared, inside)  # (2 * pairs, pooled)
        first, second = text[0::2], text[1::2]
        both = torch.cat([first, second, (first - second).abs(), first * second], dim=1)
        hidden = self.hidden(dropped(both, rate, random)).relu()
        return self.scores(dropped(hidden, rate, random))  # (pairs, outputs)


def align(encoded: Tensor, inside: Tensor) -> Tensor:
    """For each word, the mean of the other side's words by softmax attention; zeros if it has none.

    Args:
        encoded: First and second sides in turn, (2 * pairs, words, dim).
        inside: Where words are, (2 * pairs, words).
    """
    first, second = encoded[0::2], encoded[1::2]
    scores = first @ second.transpose(1, 2)  # (pairs, first words, second words)
    results = torch.empty_like(encoded)
    for side, other, weights, mask in (
        (0, second, scores, inside[1::2]),
        (1, first, scores.transpose(1, 2), inside[0::2]),
    ):
        attention = weights.masked_fill(~mask[:, None], HIDDEN_WORD).softmax(2) * mask[:, None]
        results[side::2] = attention @ other
    return results


def pool(words: Tensor, inside: Tensor) -> Tensor:
    """Mean and maximum over the words, (texts, 2 * dim); zeros for a text without words."""
    if not words.shape[1]:
        return words.new_zeros(len(words), 2 * words.shape[2])
    mask = inside[:, :, None]
    mean = (words * mask).sum(1) / inside.sum(1).clamp(min=1)[:, None]
    highest = words.masked_fill(~mask, HIDDEN_WORD).amax(1)
    return torch.cat([mean, highest * inside.any(1)[:, None]], dim=1)


class PairObjective(NamedTuple):
    """Pairs with a class each, or with a standardised score."""

    lengths: Rows
    """Words of both sides."""
    targets: NDArray[Any]
    """Classes, or numbers of mean 0 and variance 1, (pairs,)."""
    split: Split
    is_score: bool

    def loss(self, outputs: Tensor, rows: Rows, config: LearningConfig) -> Tensor:
        """Cross entropy, or the mean squared error."""
        gold = torch.from_numpy(self.targets[rows]).to(outputs.device)
        if self.is_score:
            return functional.mse_loss(outputs[:, 0], gold)
        return functional.cross_entropy(outputs, gold, label_smoothing=config.label_smoothing)

    def development(self, network: LayerReader, phase: Phase) -> tuple[float, float, int]:
        """Loss, and accuracy or Pearson's correlation, on the development rows."""
        rows = self.split.development
        scores = scores_of(network, phase, rows, self.lengths)
        loss = float(self.loss(scores, rows, LearningConfig(label_smoothing=0.0)))
        if self.is_score:
            found = correlation(scores[:, 0].cpu().numpy(), self.targets[rows])
            return loss, found, len(rows)
        gold = torch.from_numpy(self.targets[rows]).to(scores.device)
        return loss, float((scores.argmax(1) == gold).double().mean()), len(rows)


# Measures of scores.


@dataclass(frozen=True)
class ScoreMetrics:
    """How well predicted scores follow the given ones."""

    count: int
    pearson: Estimate
    """Pearson's correlation, with the interval of Fisher's transformation."""
    spearman: float
    mean_squared_error: float


def correlation(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Pearson's correlation; 0 if one side does not vary."""
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first.astype(np.float64), second.astype(np.float64))[0, 1])


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each value from 0; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts + 1) / 2)[inverse]


def spearman(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Spearman's rank correlation."""
    return correlation(ranks(first), ranks(second))


def fisher_interval(value: float, count: int) -> Estimate:
    """A correlation over `count` pairs with its 95 percent interval."""
    if count <= 3 or abs(value) >= 1:
        return Estimate(value, -1.0 if count <= 3 else value, 1.0 if count <= 3 else value)
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) / (count - 3) ** 0.5
    return Estimate(value, tanh(atanh(value) - half), tanh(atanh(value) + half))


def measure_scores(predicted: NDArray[Any], gold: NDArray[Any]) -> ScoreMetrics:
    """Compare predicted scores with the given ones."""
    return ScoreMetrics(
        count=len(gold),
        pearson=fisher_interval(correlation(predicted, gold), len(gold)),
        spearman=spearman(predicted, gold),
        mean_squared_error=float(((predicted - gold) ** 2).mean()),
    )


# The classifier.


@dataclass(frozen=True, kw_only=True)
class PairDescription:
    """What pairs.json holds."""

    labels: tuple[str, ...]
    """None for scores."""
    scale: tuple[float, float]
    """Mean and standard deviation of the training scores; 0 and 1 for labels."""
    bilm: BiLMReference
    config: PairConfig


class PairClassifier(TaskModel[PairConfig, PairNetwork, Pairs]):
    """Assigns a label or a score to each pair of texts.

    Shaped like a scikit-learn estimator. A pair is a tuple of two texts, each a string or a list of
    words.

    Args:
        model: Folder of a biLM, or of official files. Default: the one that comes with elmo.
        config: Settings of network and training. Default: `PairConfig()`.
        word_vectors: File of word vectors that initialise the task embeddings.
        device: "cpu", "cuda", …

    Example:
        >>> classifier = PairClassifier().fit(pairs, labels)
        >>> classifier.predict([("A man sleeps .", "Nobody is awake .")])
        array(['neutral'], dtype='<U13')
        >>> scorer = PairClassifier(config=PairConfig(target="score")).fit(pairs, [4.5, 0.2, 3.0])
    """

    config_class = PairConfig
    file, command, hub_task = "pairs.json", "elmo pairs train", "text-classification"
    title = "A classifier of pairs on top of a bidirectional language model (ELMo)"
    classes_: NDArray[Any]
    """The labels in the order of the columns of `predict_proba`; empty for scores. Set by `fit`."""
    scale: tuple[float, float]
    """Mean and standard deviation of the training scores; 0 and 1 for labels."""
    labels: tuple[str, ...]

    def fit(self, pairs: Iterable[Pair], targets: Iterable[Any]) -> PairClassifier:
        """Train on pairs and their labels or, with `target="score"`, their scores."""
        values = list(targets)
        data = _as_pairs(pairs, [str(value) for value in values])
        vectors = load_word_vectors(self.word_vectors)
        self.train(open_model(self.model, self.device), data, vectors=vectors)
        if self.config_.target == LABEL:
            value_of = {str(value): value for value in values}
            self.classes_ = np.array([value_of[name] for name in self.labels])
        return self

    def train(
        self,
        loaded: LanguageModel,
        data: Pairs,
        development: Pairs | None = None,
        **options: Unpack[TrainOptions],
    ) -> Fitted:
        """As `fit`, with a biLM in memory; fine-tuning changes it in place."""
        config = self.config or PairConfig()
        check(config)
        every = data if development is None else data + development
        if config.target == "auto":
            config = replace(config, target=SCORE if data.target_name == SCORE else LABEL)
        held_out = 0 if development is None else len(development)
        split = split_rows(len(every), held_out, config.learning)
        if config.target == SCORE:
            values = np.array(parse_scores(every))
            mean, deviation = float(values[split.train].mean()), float(values[split.train].std())
            if not deviation:
                raise UserError("scores: expected several values to learn from, but all are equal")
            targets: NDArray[Any] = ((values - mean) / deviation).astype(np.float32)
            self.scale, self.labels = (mean, deviation), ()
        else:
            self.scale, self.labels = (0.0, 1.0), label_names(every.targets)
            if len(self.labels) > max(2, len(split.train) // 2):
                raise UserError(
                    f"expected several pairs per label, but there are {len(self.labels):,} labels "
                    f"in {len(every):,} pairs; numbers are learned with --target score"
                )
            targets = encode_labels(every.targets, self.labels, every.locations)
        self.config_, self.classes_ = config, np.array(self.labels)
        words = self._words(loaded, zip(every.first, every.second, strict=True))

        def objective(texts: TokenizedTexts, network: PairNetwork) -> PairObjective:
            lengths = texts.lengths[0::2] + texts.lengths[1::2]
            return PairObjective(lengths, targets, split, config.target == SCORE)

        train_texts = np.array(both_sides(split.train.tolist()))
        return self._learn(loaded, words, train_texts, objective, BothSides, **options)

    def _words(self, loaded: LanguageModel, pairs: Iterable[Pair]) -> list[list[str]]:
        texts: list[Any] = [text for pair in pairs for text in pair]
        return cut_texts(tokenize_texts(loaded, texts), self.config_.max_words)

    def predict(self, pairs: Iterable[Pair]) -> NDArray[Any]:
        """The most probable label of each pair or, for scores, its score; (pairs,)."""
        outputs = self._outputs(pairs)
        if self.config_.target == SCORE:
            return outputs[:, 0] * self.scale[1] + self.scale[0]
        return self.classes_[outputs.argmax(1)]

    def predict_proba(self, pairs: Iterable[Pair]) -> NDArray[np.float32]:
        """The probability of each label, (pairs, classes)."""
        if not hasattr(self, "config_") or self.config_.target == SCORE:
            raise UserError("probabilities: only a trained classifier of labels has them")
        return torch.from_numpy(self._outputs(pairs)).softmax(1).numpy()

    def predict_iter(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, Any]]:
        """Each of any number of pairs with its probabilities or score, some in memory at a time."""
        iterator = iterated(pairs)
        predict = self.predict if self.config_.target == SCORE else self.predict_proba
        while some := list(islice(iterator, PAIRS_AT_ONCE)):
            yield from zip(some, predict(some), strict=True)

    @torch.no_grad()
    def _outputs(self, pairs: Iterable[Pair]) -> NDArray[np.float32]:
        if not hasattr(self, "network"):
            raise UserError("not trained yet; call fit, or use from_pretrained")
        rows = _checked(pairs)
        outputs = np.zeros((len(rows), len(self.labels) or 1), np.float32)
        model, config = self.language_model.model, self.config_
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            words = self._words(self.language_model, rows[start : start + PAIRS_AT_ONCE])
            texts = TokenizedTexts(words, self.task_vocabulary, config.words.task_lower_case)
            plain: Any = WordsOnly(texts, model.device)
            lengths = texts.lengths[0::2] + texts.lengths[1::2]
            for batch in batches_by_length(np.arange(len(lengths)), lengths, 64):
                sides = both_sides(batch.tolist())
                is_plain = config.words.elmo == "none"
                read = plain.read(sides) if is_plain else texts.read(sides, model)
                outputs[start + batch] = self.network(read).float().cpu().numpy()
        return outputs

    def score(self, pairs: Sequence[Pair], targets: Sequence[Any]) -> float:
        """Accuracy or, for scores, Pearson's correlation."""
        metrics = self.evaluate(_as_pairs(pairs, [str(target) for target in targets]))
        return (
            metrics.pearson.value if isinstance(metrics, ScoreMetrics) else metrics.accuracy.value
        )

    def evaluate(self, data: Pairs) -> Metrics | ScoreMetrics:
        """Accuracy, F1 and calibration for labels; correlations for scores."""
        rows = list(zip(data.first, data.second, strict=True))
        if self.config_.target == SCORE:
            return measure_scores(self.predict(rows), np.array(parse_scores(data)))
        gold = encode_labels(data.targets, self.labels, data.locations)
        started = time.monotonic()
        probabilities = self.predict_proba(rows)
        pace = len(rows) / max(1e-9, time.monotonic() - started)
        return measure(probabilities, gold, self.labels, rows_per_second=pace)

    def _read(
        self, sources: Sequence[str] | str, columns: ReadPairs | None, read: ReadOptions | None
    ) -> Pairs:
        return read_pairs(sources, columns, read)

    def _measure(self, data: Pairs) -> Metrics | ScoreMetrics:
        return self.evaluate(data)

    def _facts(self, metrics: Mapping[str, Metrics | ScoreMetrics]) -> dict[str, object]:
        facts = {"learns": ", ".join(self.labels) or "scores", "model": self.config_.model}
        return {**facts, **{part: describe_metrics(some) for part, some in metrics.items()}}

    def _describe(self) -> Json:
        return {"labels": list(self.labels), "scale": list(self.scale)}

    @classmethod
    def _restored(cls, content: Json, where: str) -> tuple[PairClassifier, BiLMReference]:
        description = from_json(PairDescription, content, where)
        classifier = cls(config=description.config)
        classifier.labels, classifier.scale = description.labels, description.scale
        classifier.config_, classifier.classes_ = description.config, np.array(description.labels)
        return classifier, description.bilm

    def _build(self, layers: int, dim: int, task_words: int) -> PairNetwork:
        return PairNetwork(self.config_, layers, dim, len(self.labels) or 1, task_words)

    def __repr__(self) -> str:
        if not hasattr(self, "network"):
            return f"PairClassifier(model={str(self.model)!r}, not trained)"
        what = f"{len(self.labels)} labels" if self.labels else "scores"
        config = self.config_
        return f"PairClassifier({what}, {config.model}, ELMo at {config.words.elmo})"


def _checked(pairs: Any) -> list[Pair]:
    rows = list(iterated(pairs))
    for row, pair in enumerate(rows):
        if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise UserError(f"pair {row + 1}: expected two texts, got {pair!r:.60}")
    return rows


def _as_pairs(pairs: Iterable[Pair], targets: list[str]) -> Pairs:
    rows = _checked(pairs)
    if len(rows) != len(targets):
        raise UserError(f"expected one target per pair, got {len(rows)} and {len(targets)}")
    first, second = ([cast("Any", pair[side]) for pair in rows] for side in (0, 1))
    return Pairs(first, second, targets, [f"pair {row + 1}" for row in range(len(rows))])


def describe_metrics(metrics: Metrics | ScoreMetrics) -> str:
    """One line: the main figure with its interval, and the number of pairs."""
    if isinstance(metrics, ScoreMetrics):
        main, what = metrics.pearson, f"Spearman {metrics.spearman:.4f}, Pearson"
    else:
        main, what = metrics.accuracy, f"macro F1 {metrics.macro_f1.value:.4f}, accuracy"
    return f"{what} {main.value:.4f} ({main.low:.4f} to {main.high:.4f}) on {metrics.count:,} pairs"

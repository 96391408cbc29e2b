"""The linear parts of a classifier, and the weights with which parts are summed.

A linear SVM on TF-IDF n-grams sees what no average of vectors keeps: the exact words. Another, on
n-grams of characters, knows words by their stems and endings, and languages. A logistic regression
on pooled biLM layers generalises from few texts, one on averages of static vectors from fewer
still. All are convex, so that there are no epochs to choose. Each scores texts that it has not
learned from (cross-validation); these scores choose its strength of regularisation and the weight
of each part in the sum, which calibrates it.

scikit-learn's liblinear solves the SVM: L-BFGS over sparse torch tensors took 20 to 80 times as
long. Its logistic regression took 10 times as long as the preconditioned one here.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState, seeded
from elmo.classify.config import PARTS
from elmo.classify.data import Split, rows_by_class
from elmo.companion import RARE
from elmo.embed.embedder import Pace, usual_batch_tokens
from elmo.errors import UserError
from elmo.model_folder import require_numbers
from elmo.text.batching import group_by_length, pack_texts
from elmo.text.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from elmo.classify.features import OnTexts
    from elmo.embed.embedder import Listener
    from elmo.language_model import LanguageModel

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
SVM_STRENGTHS = (0.3, 1.0, 3.0, 10.0)
"""C of the SVM: less with noisy labels, more with many classes (docs/experiments.md)."""
PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Weight decay of the logistic regression."""
NGRAM_ARRAYS = ("hashes", "idf", "weight", "bias")
CHARACTERS, MAX_CHARACTERS = range(2, 6), 1 << 18
"""Lengths of the n-grams of characters, and how many of them are kept at most."""
MAX_WEIGHTS = 1 << 25
"""N-grams times classes; of more, the n-grams that are in the fewest texts are left out."""
POOLED, POOLING_SCALES = 5, (1.0, 0.5, 0.5, 0.5, 1.0)
"""Mean, maximum, first, last, and mean weighted by rareness, of each layer and text. Means are the
least noisy, so their weights are penalised less."""
WEIGHT_SPREAD = 2.0
"""Standard deviation of the logarithm of a part's weight, before any text is seen."""
FEW_TEXTS = 500
"""Up to this many, n-grams of characters must earn their place in the sum."""
BIAS_SPREAD = 0.3
"""Standard deviation of a class's bias before any text is seen; more is worse with few texts."""
CHUNK_WORDS = 1024
"""Longer texts are read in chunks of this many words, which bounds the memory for long texts."""
COMPONENTS, COMPONENT_ROWS = 512, 8192
"""Principal components that the logistic regression reads, and texts they are computed from."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NgramSVM:
    """A linear SVM on the TF-IDF of n-grams in lower case, one against the rest."""

    hashes: NDArray[np.int64]
    """CRC-32 of each n-gram, in ascending order."""
    idf: Floats
    weight: Floats  # (n-grams, classes)
    bias: Floats  # (classes,)
    characters: bool = False
    """n-grams of 2 to 5 characters instead of one or two words."""

    def scores(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """The distance from each class's plane, (texts, classes)."""
        counts, _ = ngram_counts(texts, self.hashes, characters=self.characters)
        matrix = tfidf(counts, self.idf)
        return torch.from_numpy(np.asarray(matrix @ self.weight + self.bias, np.float32))


@dataclass(frozen=True)
class PooledRegression:
    """A multinomial logistic regression on layers, or static vectors, pooled over the words."""

    weight: Tensor  # ((1 + layers) * poolings * dim, classes)
    bias: Tensor  # (classes,)

    def scores(self, pooled: NDArray[np.float16]) -> Tensor:
        """Log-probabilities up to a constant, (texts, classes).

        Args:
            pooled: (texts, 1 + layers, poolings, dim); poolings that were added since this was
                saved are left out.
        """
        poolings = len(self.weight) // (pooled.shape[1] * pooled.shape[3])
        flat = pooled[:, :, :poolings].reshape(-1, len(self.weight))
        blocks = [torch.from_numpy(some) @ self.weight for some in _blocks(flat)]
        return torch.cat(blocks) + self.bias


LinearPart = NgramSVM | PooledRegression


def fit_parts(
    parts: Sequence[str],
    words: Sequence[list[str]],
    loaded: LanguageModel,
    classes: Rows,
    count: int,
    folds: Sequence[Split],
    *,
    balanced: bool,
    on_texts: Listener,
) -> tuple[dict[str, LinearPart], dict[str, Tensor], dict[str, Tensor]]:
    """Fit the linear ones of `parts` to texts of `count` classes.

    Returns them, their scores, and the scores that texts had when they were held out.
    """
    fitted: dict[str, LinearPart] = {}
    scores: dict[str, Tensor] = {}  # as below, (texts, classes)
    held_out: dict[str, Tensor] = {}
    for part in parts:
        if part != "network":
            pace = Pace(on_texts, len(words)).add
            inputs = inputs_of(part, words, loaded, cached=True, on_texts=pace)
            fit: Any = SVMS.get(part, fit_pooled)
            fitted[part], held_out[part] = fit(inputs, classes, count, folds, balanced)
            scores[part] = fitted[part].scores(inputs)
    return fitted, scores, held_out


def inputs_of(
    part: str,
    words: Sequence[list[str]],
    loaded: LanguageModel,
    *,
    cached: bool = False,
    on_texts: OnTexts | None = None,
) -> Any:
    """What a linear part reads of texts: their words, or vectors in the layout of `pooled_layers`.

    Only the biLM, for "elmo", takes long enough to tell `on_texts`.
    """
    if part == "elmo":
        return pooled_layers(words, loaded.model, cached=cached, on_texts=on_texts)
    if part == "words" and loaded.word_vectors is not None:
        return loaded.word_vectors.averages(words).astype(np.float16)[:, None, None]
    return words


# Rows that are held out.


def cross_validation(
    classes: Rows,
    seed: int,
    names: Sequence[str] | None = None,
    texts: Sequence[Sequence[str]] | None = None,
) -> list[Split]:
    """Folds in which each row is held out once.

    10 folds up to 500 rows, 5 up to 3,000, 3 up to 20,000. Of more rows, a tenth is held out once:
    enough to measure by. Each class is spread evenly. Copies of a text with the same label are held
    out together: to know one is to know the other.
    """
    count = len(classes)
    folds = 10 if count <= 500 or count > 20_000 else 5 if count <= 3000 else 3
    by_class = rows_by_class(classes, seed, 2, "to learn from one and to check by the other", names)
    units = [[row] for rows in by_class for row in rows.tolist()]
    if texts is not None:
        units = [unit for rows in by_class for unit in _copies(rows, texts)]
    fold = np.empty(count, np.int64)
    for number, unit in enumerate(units):
        fold[unit] = number % folds
    splits = [Split(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(folds)]
    return [split for split in splits if len(split.development)][: 1 if count > 20_000 else None]


def _copies(rows: Rows, texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """The rows by text; each alone if all have the same, since folds must know every class."""
    by_text: dict[str, list[int]] = {}
    numbers: list[int] = rows.tolist()
    for row in numbers:
        by_text.setdefault(" ".join(texts[row]), []).append(row)
    return list(by_text.values()) if len(by_text) > 1 else [[row] for row in numbers]


def held_out_rows(folds: Sequence[Split]) -> Rows:
    """The rows that are held out in one of the folds, in ascending order."""
    return np.sort(np.concatenate([fold.development for fold in folds]))


# N-grams.


def ngram_hashes(words: Sequence[str]) -> list[int]:
    """The CRC-32 of each word and each pair of neighbours, in lower case."""
    lower = [word.lower().encode("utf-8", "surrogatepass") for word in words]
    return [*map(crc32, lower), *(crc32(b"%b %b" % pair) for pair in pairwise(lower))]


def character_hashes(word: str) -> list[int]:
    """The CRC-32 of each n-gram of characters of a word between spaces, which mark its ends.

    Those of scikit-learn's `TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5))`.
    """
    padded = f" {word} "
    ngrams = [padded[i : i + n] for n in CHARACTERS for i in range(len(padded) - n + 1)]
    return [crc32(ngram.encode("utf-8", "surrogatepass")) for ngram in ngrams]


def ngram_counts(
    texts: Sequence[Sequence[str]],
    known: NDArray[np.int64] | None = None,
    *,
    characters: bool = False,
) -> tuple[Any, NDArray[np.int64]]:
    """How often each n-gram is in each text: a sparse matrix, (texts, n-grams), and their hashes.

    With `known`, only n-grams of these hashes are counted, which must be in ascending order.
    """
    if not characters:
        return _counts([ngram_hashes(words) for words in texts], known)
    # Each different word is taken apart once, then words are counted: 10 s instead of minutes for
    # the 4.8 million words of 20 Newsgroups.
    ids: dict[str, int] = {}
    by_text = [[ids.setdefault(word.lower(), len(ids)) for word in words] for words in texts]
    in_words, known = _counts([character_hashes(word) for word in ids], known)
    in_texts, _ = _counts(by_text, np.arange(len(ids)))
    return in_texts @ in_words, known


def _counts(
    by_row: Sequence[Sequence[int]], known: NDArray[np.int64] | None
) -> tuple[Any, NDArray[np.int64]]:
    """How often each number is in each row: a sparse matrix, (rows, numbers), and the numbers."""
    from scipy.sparse import csr_matrix

    numbers = np.concatenate([np.zeros(0, np.int64), *(np.array(r, np.int64) for r in by_row)])
    rows = np.repeat(np.arange(len(by_row)), [len(row) for row in by_row])
    if known is None:
        known, columns = np.unique(numbers, return_inverse=True)
    elif len(known):
        columns = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        is_known = known[columns] == numbers
        rows, columns = rows[is_known], columns[is_known]
    else:
        rows = columns = np.zeros(0, np.int64)
    values = np.ones(len(rows), np.float32)
    return csr_matrix((values, (rows, columns)), (len(by_row), len(known))), known


def tfidf(counts: Any, idf: Floats) -> Any:
    """(1 + log count) * idf, each row scaled to length 1."""
    matrix = counts.copy()
    matrix.data = (1 + np.log(matrix.data)) * idf[matrix.indices]
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1))).ravel()
    matrix.data /= np.repeat(lengths, np.diff(matrix.indptr))
    return matrix.astype(np.float32)


def fit_ngrams(
    texts: Sequence[Sequence[str]],
    classes: Rows,
    count: int,
    folds: Sequence[Split],
    balanced: bool,
    *,
    characters: bool = False,
) -> tuple[NgramSVM, Tensor]:
    """Fit the SVM to all texts; also returns the scores of texts when they were held out."""
    counts, hashes = ngram_counts(texts, characters=characters)
    in_texts = np.bincount(counts.indices, minlength=len(hashes))
    limit = min(MAX_WEIGHTS // count, MAX_CHARACTERS if characters else MAX_WEIGHTS)
    if len(hashes) > limit:
        columns = np.sort(np.argsort(-in_texts, kind="stable")[:limit])
        log.debug("n-grams: the %d most frequent of %d", len(columns), len(hashes))
        counts, hashes, in_texts = counts[:, columns], hashes[columns], in_texts[columns]
    # From all texts, held-out ones included, without their labels.
    idf = (np.log((1 + len(texts)) / (1 + in_texts)) + 1).astype(np.float32)
    matrix = tfidf(counts, idf)

    def fit_planes(rows: Rows | slice, targets: Rows, strength: float) -> tuple[Any, Any]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        weights = "balanced" if balanced else None
        machine: Any = LinearSVC(C=strength, class_weight=weights, random_state=0, tol=1e-3)
        with warnings.catch_warnings():
            # With contradicting labels; the scores are then far more exact than they are good.
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(matrix[rows], targets[rows])
        return machine.coef_.T, machine.intercept_

    def fit(rows: Rows | slice, strength: float) -> tuple[Floats, Floats]:
        if classes.ndim == 2:  # several labels per text: one plane each
            weight = np.zeros((len(hashes), count), np.float32)
            bias = np.full(count, -1, np.float32)  # of a label that none of the rows has
            for label in range(count):
                if classes[rows, label].min() == classes[rows, label].max():
                    bias[label] = 1 if classes[rows, label].any() else -1
                else:
                    plane = fit_planes(rows, classes[:, label], strength)
                    weight[:, label], bias[label] = plane[0][:, 0], plane[1][0]
            return weight, bias
        weight, bias = fit_planes(rows, classes, strength)
        if count == 2:  # one plane, of the second class
            weight, bias = np.hstack([-weight, weight]), np.array([-bias[0], bias[0]])
        return weight.astype(np.float32), bias.astype(np.float32)

    def held_out(strength: float, folds: Sequence[Split]) -> Tensor:
        scores = torch.zeros(len(texts), count)
        for train, rest in folds:
            weight, bias = fit(train, strength)
            scores[rest] = torch.from_numpy(np.asarray(matrix[rest] @ weight + bias, np.float32))
        return scores

    strength, scores = _choose(SVM_STRENGTHS, held_out, classes, folds)
    what = "n-grams of characters" if characters else "n-grams"
    log.info("%s: %d, C %g", what, len(hashes), strength)
    return NgramSVM(hashes, idf, *fit(slice(None), strength), characters), scores


SVMS = {"ngrams": fit_ngrams, "characters": partial(fit_ngrams, characters=True)}


# Layers pooled over whole texts.


def pooled_layers(
    words: Sequence[list[str]],
    model: BiLM,
    *,
    cached: bool = False,
    on_texts: OnTexts | None = None,
) -> NDArray[np.float16]:
    """Each layer pooled in `POOLED` ways over the words: (texts, 1 + layers, POOLED, 2 * width).

    A text without words gives zeros. With `cached`, what is computed is kept in the cache folder,
    one file per block of texts, and found again by any later call with the same texts and model.
    """
    # Here: at the top it would make the chain of imports longer for all that import this file.
    from elmo.classify.features import (
        as_halves,
        cached_block,
        features_cache,
        limit_cache,
        text_blocks,
    )

    blocks: list[NDArray[np.float16]] = []
    folder = features_cache(model) if cached else None
    shape = (1 + model.config.layers, POOLED, 2 * model.config.width)
    for first, last in text_blocks(words):
        block = words[first:last]

        def compute(block: Sequence[list[str]] = block) -> NDArray[np.float16]:
            return as_halves(_pool_block(block, model))

        pooled = cached_block(block, folder, (len(block), *shape), "pooled", compute)
        blocks.append(pooled)
        if on_texts is not None:
            on_texts(len(block), sum(map(len, block)))
    if folder is not None:
        limit_cache(folder.parent)
    return np.concatenate([np.zeros((0, *shape), np.float16), *blocks])


@torch.no_grad()
def _pool_block(words: Sequence[list[str]], model: BiLM) -> Tensor:
    """Read texts of similar length together; long ones in chunks, the forward state carried on."""
    width = 2 * model.config.width
    pooled = torch.zeros(len(words), 1 + model.config.layers, POOLED, width)
    # A plain average is mostly one of commas and articles: with 10 labels per class, five data sets
    # gained 0.010 on average, AG News 0.02. Without counts, all words weigh the same.
    counts = np.array(model.vocabulary.counts, np.float32)
    rareness = RARE / (RARE + counts / max(1, counts.sum()))
    rareness[UNKNOWN] = 1  # each of these words is rare
    weights = [torch.from_numpy(rareness[model.vocabulary.encode(text)]) for text in words]
    lengths = np.array([1 + len(text) for text in words], np.int64)
    for group in group_by_length(lengths, usual_batch_tokens(model), window=CHUNK_WORDS):
        rows = [int(row) for row in group if words[row]]
        state: BiLMState | None = None
        start = 0
        while rows:
            chunks = [words[row][start : start + CHUNK_WORDS] for row in rows]
            batch = pack_texts(chunks, model.vocabulary, spelled=model.spelled)
            outputs = model.layers(batch.to(model.device), state)
            by_text = torch.split(outputs.words(), list(batch.lengths), dim=1)
            for row, layers in zip(rows, by_text, strict=True):
                target = pooled[row]  # (1 + layers, POOLED, width)
                highest = layers.amax(1).cpu()
                target[:, 0] += layers.sum(1).cpu() / len(words[row])
                target[:, 1] = torch.maximum(target[:, 1], highest) if start else highest
                if not start:
                    target[:, 2] = layers[:, 0].cpu()
                target[:, 3] = layers[:, -1].cpu()
                weight = weights[row] / weights[row].sum()
                some = weight[start : start + CHUNK_WORDS].to(layers.device)
                target[:, 4] += torch.einsum("w,lwd->ld", some, layers).cpu()
            start += CHUNK_WORDS
            longer = [index for index, row in enumerate(rows) if len(words[row]) > start]
            rows = [rows[index] for index in longer]
            if rows:
                # The backward direction has not read what follows: it starts from zeros.
                ahead = outputs.state.select(torch.tensor(longer, device=model.device))
                zeros = tuple(
                    LSTMState(*(torch.zeros_like(one) for one in layer)) for layer in ahead.backward
                )
                state = BiLMState(ahead.forward, zeros)
    return pooled


def fit_pooled(
    pooled: NDArray[np.float16], classes: Rows, count: int, folds: Sequence[Split], balanced: bool
) -> tuple[PooledRegression, Tensor]:
    """Fit the regression to all texts, (texts, 1 + layers, poolings, dim), as `fit_ngrams` does."""
    scale = torch.ones(pooled.shape[1:]) * torch.tensor(POOLING_SCALES[: pooled.shape[2]])[:, None]
    flat = pooled.reshape(len(pooled), -1)
    chosen = np.random.default_rng(0).permutation(len(flat))[:COMPONENT_ROWS]
    sample = torch.from_numpy(flat[np.sort(chosen)]).float()
    # Standardised, so that no layer counts more than another because its values are larger. Mean,
    # scale and components are of all texts, held-out ones included, without their labels.
    mean = sample.mean(0)
    scale = scale.flatten() / (sample.std(0, correction=0) + 1e-3) / sample.shape[1] ** 0.5
    with seeded(0):  # svd_lowrank draws from the global generator
        size = min(COMPONENTS, *sample.shape)
        _, singular, components = torch.svd_lowrank((sample - mean) * scale, size, niter=2)
    variances = singular**2 / len(sample)
    projection = scale[:, None] * components  # (features, components)
    rotated = torch.cat([(torch.from_numpy(some) - mean) @ projection for some in _blocks(flat)])
    targets = torch.from_numpy(classes)
    class_weights = class_balance(classes, count) if balanced else None

    def held_out(penalty: float, folds: Sequence[Split]) -> Tensor:
        scores = torch.zeros(len(flat), count)
        for train, rest in folds:
            weight, bias = _fit_regression(
                rotated[train], targets[train], count, variances, penalty, class_weights
            )
            scores[rest] = rotated[rest] @ weight + bias
        return scores

    penalty, scores = _choose(PENALTIES, held_out, classes, folds)
    what = "layers" if pooled.shape[2] > 1 else "word vectors"
    log.info("%s: %d components, weight decay %g", what, len(variances), penalty)
    weight, bias = _fit_regression(rotated, targets, count, variances, penalty, class_weights)
    weight = projection @ weight
    return PooledRegression(weight, bias - mean @ weight), scores


def _fit_regression(
    inputs: Tensor,
    targets: Tensor,
    count: int,
    variances: Tensor,
    penalty: float,
    class_weights: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Minimise cross-entropy + penalty / 2 * |weight|²; returns (components, classes), (classes,).

    Principal components make the Hessian nearly diagonal, about 0.15 * variance + penalty: in units
    in which it is the identity, L-BFGS needs about 25 steps instead of hundreds.
    """
    units = (0.15 * variances + penalty).rsqrt()
    inputs, decay = inputs * units, (penalty * units**2)[:, None]
    weight = torch.zeros(inputs.shape[1], count, requires_grad=True)
    if targets.dim() == 2:
        bias = targets.float().mean(0).logit(eps=1e-4).requires_grad_()
    else:
        frequency = torch.bincount(targets, minlength=count) / len(targets)
        bias = frequency.clamp(min=1e-6).log().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=40, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = loss_of(inputs @ weight + bias, targets, class_weights)
        total = total + (decay * weight**2).sum() / 2
        total.backward()
        return total

    optimizer.step(loss)
    return weight.detach() * units[:, None], bias.detach()


def loss_of(
    scores: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Mean cross-entropy of scores, (texts, classes); of several labels the sum of binary ones.

    Args:
        targets: the class of each text, (texts,), or which labels it has, (texts, classes).
        weights: of the classes; of several labels, of their presence.
        smoothing: fraction of the target probability that is spread evenly.
    """
    if targets.dim() == 1:
        return functional.cross_entropy(scores, targets, weight=weights, label_smoothing=smoothing)
    soft = targets.float() * (1 - smoothing) + smoothing / 2
    total = functional.binary_cross_entropy_with_logits(
        scores, soft, pos_weight=weights, reduction="sum"
    )
    return total / len(targets)


def accuracy_of(scores: Tensor, targets: Tensor) -> float:
    """Fraction of texts that are right; of several labels per text, F1 over all decisions."""
    if targets.dim() == 1:
        return float((scores.argmax(1) == targets).double().mean())
    predicted = scores > 0
    both = int(predicted.sum()) + int(targets.sum())
    return 2 * int((predicted & (targets == 1)).sum()) / max(1, both)


def probabilities_of(scores: Tensor, *, several: bool) -> Tensor:
    """Those of one label per text sum to 1; of several, each label has its own."""
    return scores.sigmoid() if several else scores.softmax(dim=1)


def class_balance(classes: Rows, count: int) -> Tensor:
    """Weights inverse to the frequency of each class; their mean over the texts is 1.

    Of several labels per text, (texts, labels): texts without a label per text that has it.
    """
    if classes.ndim == 2:
        present = classes.sum(0)
        return torch.from_numpy((len(classes) - present) / np.maximum(1, present)).float()
    frequency = np.bincount(classes, minlength=count)
    return torch.from_numpy(len(classes) / (count * np.maximum(1, frequency))).float()


def _blocks(rows: NDArray[np.float16]) -> Iterator[NDArray[np.float32]]:
    """Single precision takes twice the memory: some rows at a time."""
    for start in range(0, max(1, len(rows)), COMPONENT_ROWS):
        yield rows[start : start + COMPONENT_ROWS].astype(np.float32)


# The sum of the parts.


def fit_part_weights(scores: Sequence[Tensor], targets: Tensor) -> tuple[float, ...]:
    """Positive weights for which the softmax of the weighted sum predicts held-out texts best.

    In units of the spread of a part's scores, the logarithm of its weight has a wide normal prior.
    Holding out one of few texts makes its class rarer in training, so its score leans the wrong way
    and the best weight would be 0; the prior prevents that. It also keeps weights finite when no
    held-out text is wrong.

    Args:
        scores: of each part, (texts, classes), of texts that it has not learned from.
        targets: the class of each text, (texts,), or which labels it has, (texts, classes).
    """
    stacked = torch.stack(list(scores))  # (parts, texts, classes)
    if targets.dim() == 1:  # a softmax ignores what all classes share; of several labels none does
        stacked = stacked - stacked.mean(2, keepdim=True)
    units = stacked.std((1, 2), correction=0)
    units = torch.where(units > 1e-6, units, 1.0)  # scores that never differ
    stacked = stacked / units[:, None, None]
    logarithms = torch.zeros(len(scores), requires_grad=True)
    optimizer = torch.optim.LBFGS([logarithms], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        summed = torch.einsum("p,ptc->tc", logarithms.exp(), stacked)
        prior = (logarithms / WEIGHT_SPREAD).square().sum() / 2 / len(targets)
        total = loss_of(summed, targets) + prior
        total.backward()
        return total

    optimizer.step(loss)
    return tuple(float(weight) for weight in logarithms.detach().exp() / units)


def fit_class_bias(scores: Tensor, targets: Tensor) -> Tensor:
    """What to add to held-out scores, (texts, classes), so that they predict best: (classes,).

    An SVM per class does not know how frequent its class is among texts that it is unsure of. The
    prior is normal, so that few texts change little.
    """
    bias = torch.zeros(scores.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        prior = (bias / BIAS_SPREAD).square().sum() / 2 / len(targets)
        total = loss_of(scores + bias, targets) + prior
        total.backward()
        return total

    optimizer.step(loss)
    return bias.detach()


def weighted_sum(
    scores: Mapping[str, Tensor], weights: Mapping[str, float], bias: Tensor | float = 0.0
) -> Tensor:
    """The scores of the whole classifier, (texts, classes)."""
    return torch.stack([weights[part] * scores[part] for part in weights]).sum(0) + bias


def fit_sum(
    scores: Mapping[str, Tensor], targets: Tensor, *, balanced: bool
) -> tuple[dict[str, float], Tensor | float]:
    """The weight of each part and the bias of the classes, from held-out scores.

    There is a bias beside SVMs alone: other parts have learned theirs. None with several labels
    per text, which have thresholds, nor where classes are balanced: it tells how frequent they are.

    With few texts, n-grams of characters weigh nothing unless they lower the loss by two standard
    errors: where they fit by chance, 40 news texts lost 8 points (docs/experiments.md).
    """

    def fit(parts: Mapping[str, Tensor]) -> tuple[dict[str, float], Tensor | float]:
        weights = dict(zip(parts, fit_part_weights([*parts.values()], targets), strict=True))
        if balanced or targets.dim() == 2 or not SVMS.keys() & parts.keys():
            return weights, 0.0
        return weights, fit_class_bias(weighted_sum(parts, weights), targets)

    def losses(weights: Mapping[str, float], bias: Tensor | float) -> Tensor:
        summed = weighted_sum(scores, weights, bias)
        pairs = zip(summed, targets, strict=True)
        return torch.stack([loss_of(score[None], target[None]) for score, target in pairs])

    whole = fit(scores)
    without = {part: some for part, some in scores.items() if part != "characters"}
    if len(targets) > FEW_TEXTS or not 0 < len(without) < len(scores):
        return whole
    others = fit(without)
    gains = losses(*others) - losses(*whole)
    if gains.mean() > 2 * gains.std() / len(gains) ** 0.5:
        return whole
    return {part: others[0].get(part, 0.0) for part in scores}, others[1]


def _choose(
    candidates: Sequence[float],
    held_out: Callable[[float, Sequence[Split]], Tensor],
    classes: Rows,
    folds: Sequence[Split],
) -> tuple[float, Tensor]:
    """The candidate of the lowest loss on held-out texts, after calibration, and its scores.

    Candidates are in order of strength; the search ends after two in a row that are worse. Of more
    than 3,000 rows it uses the first fold alone: a third of them is enough to measure by.
    """
    some = folds if len(classes) <= 3000 else folds[:1]
    rows = held_out_rows(some)
    targets = torch.from_numpy(classes[rows])
    tried: list[tuple[float, float, Tensor]] = []
    for candidate in candidates:
        scores = held_out(candidate, some)
        (weight,) = fit_part_weights([scores[rows]], targets)
        loss = float(loss_of(weight * scores[rows], targets))
        tried.append((loss, candidate, scores))
        if len(tried) > 2 and tried[-1][0] > tried[-2][0] > tried[-3][0]:
            break
    _, best, scores = min(tried, key=lambda one: one[0])
    return best, scores + held_out(best, folds[len(some) :])  # each is zero where the other is not


# Saving.


def linear_tensors(
    parts: Mapping[str, LinearPart], weights: Mapping[str, float], bias: Tensor | float = 0.0
) -> dict[str, Tensor]:
    """The linear parts, the weights of all parts and the bias of the classes, by name."""
    tensors = {f"weights.{part}": torch.tensor(weight) for part, weight in weights.items()}
    if isinstance(bias, Tensor):
        tensors["bias"] = bias
    for part, fitted in parts.items():
        if isinstance(fitted, NgramSVM):
            for name in NGRAM_ARRAYS:
                tensors[f"{part}.{name}"] = torch.from_numpy(getattr(fitted, name))
            # Half precision: these are most of the file, and rounding them changes no decision.
            tensors[f"{part}.weight"] = tensors[f"{part}.weight"].half()
        else:
            tensors |= {f"{part}.weight": fitted.weight, f"{part}.bias": fitted.bias}
    return tensors


def linear_parts(
    tensors: Mapping[str, Tensor], where: str, classes: int, pooled: int, dim: int
) -> tuple[dict[str, LinearPart], dict[str, float], Tensor | float]:
    """What `linear_tensors` was given; checked. Earlier versions had no bias.

    Args:
        pooled: features per pooling of the layers.
        dim: of the static word vectors that come with the biLM; 0: none do.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    weights = {part: tensors[f"weights.{part}"] for part in PARTS if f"weights.{part}" in tensors}
    expected: dict[str, tuple[int, ...]] = {f"weights.{part}": () for part in weights}
    expected |= {"bias": (classes,)} if "bias" in tensors else {}
    for part in SVMS.keys() & weights.keys():
        count = shapes.get(f"{part}.hashes", (0,))[0]
        expected |= {f"{part}.hashes": (count,), f"{part}.idf": (count,)}
        expected |= {f"{part}.weight": (count, classes), f"{part}.bias": (classes,)}
    if "words" in weights:
        expected |= {"words.weight": (dim, classes), "words.bias": (classes,)}
    if "elmo" in weights:
        rows = shapes.get("elmo.weight", (0,))[0]
        # The first poolings alone: of a version that had no more.
        size = rows if rows and rows % pooled == 0 and rows // pooled in (4, 5) else 5 * pooled
        expected |= {"elmo.weight": (size, classes), "elmo.bias": (classes,)}
    if shapes != expected or not weights:
        raise UserError(f"{where}: expected tensors of shapes {expected}, got {shapes}")
    require_numbers(Path(where), {n: t for n, t in tensors.items() if ".hashes" not in n})
    parts: dict[str, LinearPart] = {}
    for part in weights:
        if part in SVMS:
            hashes, idf, weight, bias = (tensors[f"{part}.{name}"].numpy() for name in NGRAM_ARRAYS)
            is_characters = part == "characters"
            parts[part] = NgramSVM(hashes, idf, weight.astype(np.float32), bias, is_characters)
        elif part != "network":
            parts[part] = PooledRegression(tensors[f"{part}.weight"], tensors[f"{part}.bias"])
    by_part = {part: float(weight) for part, weight in weights.items()}
    return parts, by_part, tensors.get("bias", 0.0)

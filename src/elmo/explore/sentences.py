"""Sentences word by word: how similar those of two are, and how surprising each word is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.softmax import slices
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Vectors
from elmo.errors import UserError
from elmo.explore.html import coloured, table
from elmo.language_model import Candidate, LanguageModel, combine
from elmo.model_folder import Text
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN

MIX = "mix"
"""The name of the mix of layers among layer numbers."""
DEEPEST_BITS = 16.0
"""Surprisal that is drawn in the deepest colour: one word of 65,536."""


@dataclass(frozen=True)
class WordSimilarities:
    """Cosine similarities of the words of two sentences, layer by layer."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    raw: Mapping[str, Vectors]
    """By layer ("0", "1", …, "mix"): (words of left, words of right)."""
    centred: Mapping[str, Vectors]
    """The same after a mean vector was subtracted: LSTM states share a direction, so that raw
    cosines are high for any two words."""
    centre: str
    """Whose mean: "corpus" or "sentences"."""

    def _repr_html_(self, layer: str = MIX) -> str:
        rows = [
            [left, *(coloured(f"{value:+.2f}", float(value)) for value in values)]
            for left, values in zip(self.left, self.centred[layer], strict=True)
        ]
        return table(rows, ["", *self.right], f"centred cosine similarity, layer {layer}")


def similarities(
    embedder: Embedder, left: Text, right: Text, means: Mapping[str, Vectors] | None = None
) -> WordSimilarities:
    """Compare each word of a sentence with each word of another, in every layer and the mix.

    Args:
        embedder: What gives the vectors.
        left: A string or a list of words.
        right: The other sentence.
        means: What to subtract, by layer; such as `layer_means` of a corpus. Default: the mean
            of the words of both sentences.
    """
    words = [embedder.loaded.words(text) for text in (left, right)]
    for sentence in words:
        if not sentence:
            raise UserError("expected two sentences with words, but one of them has none")
    encoder = embedder.encoder(EncodeConfig(output="tokens", layer="all"))
    both = encoder.encode(words)  # (layers, words, dim) each
    raw: dict[str, Vectors] = {}
    centred: dict[str, Vectors] = {}
    for name in (*map(str, range(1 + embedder.num_layers)), MIX):
        if name == MIX:
            with torch.no_grad():
                vectors = [embedder.mix(torch.from_numpy(layers)).numpy() for layers in both]
        else:
            vectors = [layers[int(name)] for layers in both]
        a, b = vectors
        mean = None if means is None else means.get(name)
        mean = np.concatenate(vectors).mean(0) if mean is None else mean
        raw[name] = embedder.similarity(a, b)
        centred[name] = embedder.similarity(a - mean, b - mean)
    centre = "sentences" if means is None else "corpus"
    return WordSimilarities(tuple(words[0]), tuple(words[1]), raw, centred, centre)


@dataclass(frozen=True)
class WordSurprisal:
    """A word, and the bits of information that it carries."""

    word: str
    known: bool
    """If not, the bits are those of any unknown word."""
    forward: float
    """Bits, given all words before it."""
    backward: float
    """Bits, given all words after it."""
    both: float
    """Bits, given both, among the words that the model knows."""
    forward_best: tuple[Candidate, ...]
    backward_best: tuple[Candidate, ...]
    both_best: tuple[Candidate, ...]


@dataclass(frozen=True)
class Surprisal:
    """How surprising each word of a text is."""

    words: tuple[WordSurprisal, ...]

    def tsv(self, direction: str = "forward", sentence_id: int = 1) -> str:
        """Lines of sentence_id, token_id, token, surprisal; ids are counted from 1."""
        lines = ["sentence_id\ttoken_id\ttoken\tsurprisal"]
        for number, word in enumerate(self.words, start=1):
            lines.append(f"{sentence_id}\t{number}\t{word.word}\t{getattr(word, direction):.4f}")
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for direction in ("forward", "backward", "both"):
            spans: list[str] = []
            for word in self.words:
                bits: float = getattr(word, direction)
                best: tuple[Candidate, ...] = getattr(word, f"{direction}_best")
                title = f"{bits:.1f} bits; " + ", ".join(one.word for one in best)
                spans.append(coloured(word.word, bits / DEEPEST_BITS, title))
            rows.append([f"{direction}: {' '.join(spans)}"])
        return table(rows)


@torch.no_grad()
def surprisal(model: LanguageModel, text: Text, alternatives: int = 5) -> Surprisal:
    """Bits of each word given the words before it, after it, and both.

    Args:
        model: A model with a softmax.
        text: A string or a list of words.
        alternatives: How many of the most probable words to give for each position.
    """
    words = model.words(text)
    if not words:
        raise UserError("expected a text with words, but it has none")
    if alternatives < 0:
        raise UserError(f"alternatives: expected 0 or more, got {alternatives}")
    size, special = len(words), len(SPECIAL_WORDS)
    # In slices below: all log-probabilities of a long text would fill the memory.
    states = [torch.zeros(0), torch.zeros(0)]
    for direction, slots, outputs, _ in model.predictions([words]):
        order = torch.from_numpy(np.argsort(slots))
        states[direction] = outputs[order][:size]  # without the boundary
    ids = torch.from_numpy(model.vocabulary.encode(words))
    counts = torch.tensor(model.vocabulary.counts[special:], dtype=torch.float32).clamp(min=1)
    prior = counts.log().log_softmax(dim=0)
    bits: list[list[float]] = [[], [], []]
    best: list[list[tuple[Candidate, ...]]] = [[], [], []]
    for part in slices(size, len(model.vocabulary)):
        whole = [model.model.output.log_probabilities(one[part]).float().cpu() for one in states]
        known = [one[:, special:].log_softmax(dim=1) for one in whole]
        known.append(combine(known[0], known[1], prior))
        for direction, values in enumerate(known):
            chosen = _chosen(whole, values, ids[part], direction)
            bits[direction] += (-chosen / math.log(2)).tolist()
            best[direction] += _best(model, values, alternatives)
    is_known: list[bool] = (ids != UNKNOWN).numpy().tolist()
    return Surprisal(tuple(map(WordSurprisal, words, is_known, *bits, *best)))


def _chosen(whole: list[Tensor], known: Tensor, ids: Tensor, direction: int) -> Tensor:
    """Log-probabilities of the words that are there."""
    if direction < 2:
        return whole[direction].gather(1, ids[:, None])[:, 0]
    # Both directions are combined over the known words; an unknown one has what they agree on.
    special = len(SPECIAL_WORDS)
    inside = known.gather(1, (ids - special).clamp(min=0)[:, None])[:, 0]
    unknown = (whole[0][:, UNKNOWN] + whole[1][:, UNKNOWN]) / 2
    return torch.where(ids >= special, inside, unknown)


def _best(model: LanguageModel, values: Tensor, k: int) -> list[tuple[Candidate, ...]]:
    top = values.topk(min(k, values.shape[1]), dim=1)
    words, special = model.vocabulary.words, len(SPECIAL_WORDS)
    ids: list[list[int]] = (top.indices + special).numpy().tolist()
    chances: list[list[float]] = top.values.exp().numpy().tolist()
    return [
        tuple(Candidate(words[one], p) for one, p in zip(*pair, strict=True))
        for pair in zip(ids, chances, strict=True)
    ]

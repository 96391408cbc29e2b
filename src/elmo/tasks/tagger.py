"""`TokenTagger`: one tag per word, such as parts of speech or the spans of names.

layers -> [x; ELMo] -> biLSTM or nothing -> [h; ELMo] (optional) -> scores -> softmax or CRF
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.classify.classifier import BiLMReference
from elmo.classify.config import LearningConfig
from elmo.classify.data import Split
from elmo.classify.features import TokenizedTexts, batches_by_length, load_word_vectors
from elmo.classify.loop import Fitted, LayerReader, Phase
from elmo.classify.network import LSTMEncoder, TextLayers
from elmo.config import Json, check, from_json
from elmo.embed.embedder import usual_batch_tokens
from elmo.embed.mix import dropped
from elmo.errors import UserError
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import Text
from elmo.tasks.config import ReadTags, Scheme, TaggerConfig
from elmo.tasks.crf import LinearChainCRF, allowed_transitions
from elmo.tasks.data import TaggedTexts, read_tagged, tag_names, unknown_tags
from elmo.tasks.tags import (
    TaggedText,
    TagMetrics,
    convert,
    detect_scheme,
    f1_of,
    has_spans,
    measure_tags,
    span_counts,
)
from elmo.tasks.training import Rows, TaskModel, TrainOptions, WordNetwork, WordsOnly, split_rows
from elmo.text.config import ReadOptions
from elmo.text.sources import iterated

TEXTS_AT_ONCE = 1024
"""Sentences that are tagged together; bounds the memory."""

log = logging.getLogger(__name__)


class TaggerNetwork(WordNetwork):
    """Scores every tag at every word.

    Args:
        layers: How many layers each word has, layer 0 included.
        dim: Size of a layer, both directions together.
        tags: Names of the tags.
        task_words: Rows of the task embedding.
    """

    def __init__(
        self, config: TaggerConfig, layers: int, dim: int, tags: Sequence[str], task_words: int
    ) -> None:
        super().__init__(config.words, layers, dim, task_words)
        self.config = config
        encoded = self.input_dim
        self.encoder: LSTMEncoder | None = None
        if config.encoder == "lstm":
            self.encoder = LSTMEncoder(encoded, config.encoder_dim)
            encoded = self.encoder.output_dim
        self.hidden = None
        self.scores = torch.nn.Linear(encoded + self.added_dim, len(tags))
        self.crf: LinearChainCRF | None = None
        if config.decoder == "crf":
            allowed = allowed_transitions(tags, config.span_scheme) if has_spans(tags) else None
            self.crf = LinearChainCRF(len(tags), allowed)

    def forward(self, texts: TextLayers, random: torch.Generator | None = None) -> Tensor:
        """Score the tags, (batch, words, tags); dropout is drawn from `random`, without it none."""
        rate = self.config.dropout
        words = self.at_input(texts, rate, random)  # (batch, words, input)
        if self.encoder is not None:
            words = dropped(self.encoder(words, texts.lengths), rate, random)
        return self.scores(self.at_output(words, texts, random))  # (batch, words, tags)

    def decode(self, scores: Tensor, lengths: Tensor) -> list[list[int]]:
        """The best tags of each sentence."""
        if self.crf is not None:
            return self.crf.decode(scores, lengths)
        best = cast("list[list[int]]", scores.argmax(2).tolist())
        ends = cast("list[int]", lengths.tolist())
        return [some[:length] for some, length in zip(best, ends, strict=True)]


class TagObjective(NamedTuple):
    """Sentences with the class of each word's tag."""

    texts: TokenizedTexts
    classes: list[NDArray[np.int64]]
    """For each sentence (words,)."""
    split: Split
    network: TaggerNetwork
    spans: tuple[str, ...] | None
    """Names of the tags if they are those of spans: the epoch is then chosen by F1."""

    @property
    def lengths(self) -> Rows:
        """The number of words of each sentence."""
        return self.texts.lengths

    def gold(self, rows: Rows, words: int) -> tuple[Tensor, Tensor]:
        """The classes of some sentences, (rows, words), 0 at padding; and where words are."""
        padded = np.zeros((len(rows), words), np.int64)
        for index, row in enumerate(rows):
            padded[index, : self.lengths[row]] = self.classes[int(row)]
        lengths = torch.from_numpy(self.lengths[rows])
        return torch.from_numpy(padded), torch.arange(words) < lengths[:, None]

    def loss(self, outputs: Tensor, rows: Rows, config: LearningConfig) -> Tensor:
        """Mean negative log-probability per word."""
        gold, inside = (one.to(outputs.device) for one in self.gold(rows, outputs.shape[1]))
        if self.network.crf is None:
            return functional.cross_entropy(
                outputs[inside], gold[inside], label_smoothing=config.label_smoothing
            )
        found = self.network.crf.log_likelihood(outputs, gold, inside.sum(1))
        return -found.sum() / inside.sum()

    @torch.no_grad()
    def development(self, network: LayerReader, phase: Phase) -> tuple[float, float, int]:
        """Loss, and accuracy of words or F1 of spans, on the development rows."""
        rows = self.split.development
        total, predicted, gold = 0.0, list[list[int]](), list[list[int]]()
        for batch in batches_by_length(rows, self.lengths, 128):
            texts, _ = phase.read(batch.tolist(), None)
            scores = network(texts)
            words = int(self.lengths[batch].sum())
            total += words * float(self.loss(scores, batch, LearningConfig(label_smoothing=0.0)))
            predicted += self.network.decode(scores, texts.lengths)
            gold += [self.classes[int(row)].tolist() for row in batch]
        words = int(self.lengths[rows].sum())
        if self.spans is None:
            pairs = zip(predicted, gold, strict=True)
            right = sum(a == b for some, true in pairs for a, b in zip(some, true, strict=True))
            return total / words, right / words, words
        names = self.spans
        counts = span_counts(
            *([[names[tag] for tag in some] for some in part] for part in (gold, predicted))
        )
        return total / words, f1_of(counts.sum(0)), words


# The tagger.


@dataclass(frozen=True, kw_only=True)
class TaggerDescription:
    """What tagger.json holds."""

    tags: tuple[str, ...]
    scheme: Scheme | None
    """In which spans are returned: that of the training file; None for tags that are no spans."""
    bilm: BiLMReference
    config: TaggerConfig


class TokenTagger(TaskModel[TaggerConfig, TaggerNetwork, TaggedTexts]):
    """Assigns a tag to each word of a sentence: part of speech, name, chunk, …

    Shaped like a scikit-learn estimator. Sentences are lists of words, or strings that are cut into
    words as the biLM's training text was.

    Args:
        model: Folder of a biLM, or of official files. Default: the one that comes with elmo.
        config: Settings of network and training. Default: `TaggerConfig()`.
        word_vectors: File of word vectors that initialise the task embeddings.
        device: "cpu", "cuda", …

    Example:
        >>> tagger = TokenTagger().fit(sentences, tags)
        >>> tagger.predict([["Oil", "prices", "fell", "."]])
        [['NOUN', 'NOUN', 'VERB', 'PUNCT']]
        >>> tagger.save_pretrained("pos")
        >>> tagger = TokenTagger.from_pretrained("pos")
    """

    config_class = TaggerConfig
    file, command, hub_task = "tagger.json", "elmo tag train", "token-classification"
    title = "A tagger on top of a bidirectional language model (ELMo)"
    classes_: NDArray[Any]
    """The tags, as spans are written inside the tagger; set by `fit`."""
    scheme: Scheme | None

    def fit(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[str]],
        *,
        development: tuple[Iterable[Sequence[str]], Iterable[Sequence[str]]] | None = None,
    ) -> TokenTagger:
        """Train on sentences, lists of words, and one tag per word.

        Args:
            development: Sentences and tags to choose the epoch by. Default: a fraction of the
                others, `learning.development_share`.
        """
        data = _checked(sentences, tags, "sentence")
        held_out = None if development is None else _checked(*development, "development sentence")
        self.train(
            open_model(self.model, self.device),
            data,
            held_out,
            vectors=load_word_vectors(self.word_vectors),
        )
        return self

    def train(
        self,
        loaded: LanguageModel,
        data: TaggedTexts,
        development: TaggedTexts | None = None,
        **options: Unpack[TrainOptions],
    ) -> Fitted:
        """As `fit`, with a biLM in memory; fine-tuning changes it in place."""
        config = self.config or TaggerConfig()
        check(config)
        every = data if development is None else data + development
        tags, is_spans = every.tags, has_spans({tag for tags in data.tags for tag in tags})
        self.scheme = detect_scheme(data.tags, data.locations) if is_spans else None
        if is_spans:
            tags = [convert(some, config.span_scheme) for some in tags]
        if config.decoder == "auto":
            config = replace(config, decoder="crf" if is_spans else "softmax")
        if config.decoder == "crf" and config.learning.label_smoothing:
            config = replace(config, learning=replace(config.learning, label_smoothing=0.0))
        names = tag_names(tags, every.locations)
        self.config_, self.classes_ = config, np.array(names)
        index = {name: idx for idx, name in enumerate(names)}
        classes = [np.array([index[tag] for tag in some], np.int64) for some in tags]
        held_out = 0 if development is None else len(development)
        split = _without_empty(split_rows(len(every), held_out, config.learning), every.words)

        def objective(texts: TokenizedTexts, network: TaggerNetwork) -> TagObjective:
            return TagObjective(texts, classes, split, network, names if is_spans else None)

        return self._learn(loaded, every.words, split.train, objective, **options)

    def predict(self, sentences: Iterable[Text]) -> list[list[str]]:
        """The tags of each sentence, spans in the scheme of the training file.

        Which sentences share a call changes scores by about 1e-6, so in practice no tag.
        """
        return [list(text.tags) for text in self.tag(sentences)]

    def tag(self, sentences: Iterable[Text]) -> list[TaggedText]:
        """Each sentence with its tags and spans; in a notebook it shows itself."""
        return list(self.tag_iter(sentences))

    def tag_iter(self, sentences: Iterable[Text]) -> Iterator[TaggedText]:
        """The same for any number of sentences, some in memory at a time."""
        if not hasattr(self, "network"):
            raise UserError("this tagger is not trained yet; call fit, or use from_pretrained")
        iterator = iterated(sentences)
        while some := list(islice(iterator, TEXTS_AT_ONCE)):
            words = [self.language_model.words(text) for text in some]
            for row, tags in zip(words, self._tags(words), strict=True):
                yield TaggedText(tuple(row), tuple(tags))

    @torch.no_grad()
    def _tags(self, words: list[list[str]]) -> list[list[str]]:
        names: list[str] = self.classes_.tolist()
        model, has_layers = self.language_model.model, self.config_.words.elmo != "none"
        tags: list[list[str]] = [[] for _ in words]
        rows = [row for row, sentence in enumerate(words) if sentence]
        texts = TokenizedTexts(
            [words[row] for row in rows], self.task_vocabulary, self.config_.words.task_lower_case
        )
        if has_layers:
            reads = texts.read_all(model)
        else:
            bare = WordsOnly(texts, model.device)
            size = max(1, usual_batch_tokens(model) // 32)
            batches = batches_by_length(np.arange(len(texts)), texts.lengths, size)
            reads = ((batch.tolist(), bare.read(batch.tolist())) for batch in batches)
        for some, layers in reads:
            found = self.network.decode(self.network(layers), layers.lengths)
            for index, classes in zip(some, found, strict=True):
                tags[rows[index]] = [names[tag] for tag in classes]
        if self.scheme is not None:
            tags = [convert(some, self.scheme) for some in tags]
        return tags

    def score(self, sentences: Sequence[Text], tags: Sequence[Sequence[str]]) -> float:
        """F1 of spans or, for other tags, the accuracy of words."""
        return self.evaluate(sentences, tags).main.value

    def evaluate(
        self,
        sentences: Sequence[Text],
        tags: Sequence[Sequence[str]],
        *,
        locations: Sequence[str] | None = None,
    ) -> TagMetrics:
        """Accuracy by word, and precision, recall and F1 by span as conlleval counts them.

        Tags that training did not have are named in the log and count as mistakes.
        """
        data = _checked(sentences, tags, "sentence", locations)
        gold = data.tags
        if self.scheme is not None:
            detect_scheme(gold, data.locations)  # for its message
            gold = [convert(some, self.scheme) for some in gold]
            known = {convert([tag], self.config_.span_scheme)[0] for tag in self.classes_}
            unknown_tags(
                [convert(some, self.config_.span_scheme) for some in gold],
                [*known, *self.classes_], data.locations,
            )  # fmt: skip
        else:
            unknown_tags(gold, self.classes_.tolist(), data.locations)
        started = time.monotonic()
        predicted = self.predict(data.words)
        seconds = time.monotonic() - started
        vocabulary = self.task_vocabulary
        seen = {
            word for word, count in zip(vocabulary.words, vocabulary.counts, strict=True) if count
        }
        return measure_tags(
            gold,
            predicted,
            is_known=[[word in seen for word in words] for words in data.words],
            words_per_second=sum(map(len, predicted)) / max(seconds, 1e-9),
        )

    def _read(
        self, sources: Sequence[str] | str, columns: ReadTags | None, read: ReadOptions | None
    ) -> TaggedTexts:
        return read_tagged(sources, columns, read)

    def _measure(self, data: TaggedTexts) -> TagMetrics:
        return self.evaluate(data.words, data.tags, locations=data.locations)

    def _facts(self, metrics: Mapping[str, TagMetrics]) -> dict[str, object]:
        facts: dict[str, object] = {
            "tags": ", ".join(self.classes_.tolist()),
            "scheme of spans": self.scheme or "none",
            "encoder": self.config_.encoder,
            "decoder": self.config_.decoder,
        }
        for part, some in metrics.items():
            name = f"{part}: {'F1 of spans' if some.f1 else 'accuracy'}"
            interval = f"({some.main.low:.4f} to {some.main.high:.4f})"
            facts[name] = f"{some.main.value:.4f} {interval} on {some.words:,} words"
        return facts

    def _describe(self) -> Json:
        return {"tags": self.classes_.tolist(), "scheme": self.scheme}

    @classmethod
    def _restored(cls, content: Json, where: str) -> tuple[TokenTagger, BiLMReference]:
        description = from_json(TaggerDescription, content, where)
        tagger = cls(config=description.config)
        tagger.classes_, tagger.scheme = np.array(description.tags), description.scheme
        tagger.config_ = description.config
        return tagger, description.bilm

    def _build(self, layers: int, dim: int, task_words: int) -> TaggerNetwork:
        tags: list[str] = self.classes_.tolist()
        return TaggerNetwork(self.config_, layers, dim, tags, task_words)

    def __repr__(self) -> str:
        if not hasattr(self, "network"):
            return f"TokenTagger(model={str(self.model)!r}, not trained)"
        config = self.config_
        return (
            f"TokenTagger({len(self.classes_)} tags, ELMo at {config.words.elmo}, "
            f"encoder {config.encoder}, {config.decoder})"
        )


def _checked(
    sentences: Iterable[Text],
    tags: Iterable[Sequence[str]],
    what: str,
    locations: Sequence[str] | None = None,
) -> TaggedTexts:
    rows, every = list(sentences), [list(some) for some in tags]
    if len(rows) != len(every):
        raise UserError(f"expected tags for each sentence, got {len(rows)} and {len(every)}")
    words: list[list[str]] = []
    places = locations or [f"{what} {row + 1}" for row in range(len(rows))]
    for text, some, where in zip(rows, every, places, strict=True):
        if isinstance(text, str):
            raise UserError(
                f"{where}: expected a list of words, so that each has a tag; got a string"
            )
        words.append(list(text))
        if len(words[-1]) != len(some):
            raise UserError(
                f"{where}: expected one tag per word, got {len(words[-1])} words, {len(some)} tags"
            )
    return TaggedTexts(words, every, list(places))


def _without_empty(split: Split, words: Sequence[Sequence[str]]) -> Split:
    """Sentences without words have nothing to learn from or to measure."""
    lengths = np.array([len(sentence) for sentence in words])
    found = Split(*(rows[lengths[rows] > 0] for rows in split))
    if not len(found.train) or not len(found.development):
        raise UserError(
            "expected sentences with words to learn from and to choose the epoch by, but there are "
            f"{len(found.train)} and {len(found.development)}; add sentences"
        )
    return found

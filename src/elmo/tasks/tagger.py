"""`TokenTagger`: one tag per word, such as parts of speech or the spans of names.

layers -> [x; ELMo] -> biLSTM or nothing -> [h; ELMo] (optional) -> scores -> softmax or CRF
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.classify.classifier import BiLMReference
from elmo.classify.config import LearningConfig
from elmo.classify.data import Split
from elmo.classify.features import FrozenFeatures, TokenizedTexts, batches_by_length
from elmo.classify.loop import Checkpoints, LayerReader, Listener, Phase
from elmo.classify.network import LSTMEncoder, TextLayers
from elmo.config import BILM as SHIPPED_BILM
from elmo.config import check, from_json, to_json
from elmo.embed.embedder import Listener as TextListener
from elmo.embed.embedder import usual_batch_tokens
from elmo.embed.mix import dropped
from elmo.errors import UserError
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import Text, without_weights
from elmo.static.vectors import StaticVectors
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
from elmo.tasks.training import (
    TASK_WORDS,
    Fitted,
    Rows,
    WordNetwork,
    WordsOnly,
    fit,
    load_bilm,
    load_network,
    load_vectors,
    needs_features,
    read_description,
    read_features,
    save_task,
    seeded,
    split_rows,
    start_from_vectors,
    task_words,
    training_job,
    write_run,
)
from elmo.text.config import ReadOptions
from elmo.text.vocabulary import Vocabulary

DESCRIPTION = "tagger.json"
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


class TokenTagger:
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

    classes_: NDArray[Any]
    """The tags, as spans are written inside the tagger; set by `fit`."""
    config_: TaggerConfig
    """The settings it was trained with, `decoder` resolved."""
    language_model: LanguageModel
    network: TaggerNetwork
    task_vocabulary: Vocabulary
    scheme: Scheme | None
    fitted_: Fitted | None
    """How the training went; None after loading."""

    def __init__(
        self,
        model: Path | str = SHIPPED_BILM,
        config: TaggerConfig | None = None,
        *,
        word_vectors: Path | str | None = None,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.config = config
        self.word_vectors = word_vectors
        self.device = device

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
            vectors=load_vectors(self.word_vectors),
        )
        return self

    def train(
        self,
        loaded: LanguageModel,
        data: TaggedTexts,
        development: TaggedTexts | None = None,
        *,
        vectors: StaticVectors | None = None,
        features: FrozenFeatures | WordsOnly | None = None,
        scratch: Path = Path(),
        on_report: Listener = lambda report: None,
        on_texts: TextListener = lambda progress: None,
        checkpoints: Checkpoints | None = None,
    ) -> Fitted:
        """As `fit`, with a biLM in memory; fine-tuning changes it in place.

        Args:
            features: Layers of all sentences, `data` and then `development`, if they were computed
                before.
            scratch: Folder for layers that do not fit into memory.
        """
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
        index = {name: idx for idx, name in enumerate(names)}
        held_out = 0 if development is None else len(development)
        split = _without_empty(split_rows(len(every), held_out, config.learning), every.words)
        loaded.model.requires_grad_(False)
        vocabulary = task_words(every.words, split.train, config.words, vectors)
        texts = TokenizedTexts(every.words, vocabulary, config.words.task_lower_case)
        sizes = loaded.model.config
        network = seeded(
            lambda: TaggerNetwork(
                config, 1 + sizes.layers, 2 * sizes.width, names, len(vocabulary)
            ),
            config.learning.seed,
        )
        start_from_vectors(network, vocabulary, vectors)
        network = network.to(loaded.model.device)
        if isinstance(features, FrozenFeatures):
            features = features.for_texts(texts)
        elif needs_features(checkpoints):
            features = read_features(
                texts, loaded.model, config.words, memory=config.learning.feature_memory,
                scratch=scratch, on_texts=on_texts,
            )  # fmt: skip
        classes = [np.array([index[tag] for tag in some], np.int64) for some in tags]
        objective = TagObjective(texts, classes, split, network, names if is_spans else None)
        fitted = fit(
            network, objective, texts, features, loaded.model, config.learning,
            on_report=on_report, checkpoints=checkpoints,
        )  # fmt: skip
        self.language_model, self.network, self.task_vocabulary = loaded, network, vocabulary
        self.config_, self.classes_, self.fitted_ = config, np.array(names), fitted
        return fitted

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
        if isinstance(sentences, str):
            raise UserError("expected several sentences, got one string; put it in a list: [text]")
        iterator = iter(sentences)
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

    def save_pretrained(self, folder: Path | str, *, bilm: Path | None = None) -> None:
        """Write a new or empty folder that `from_pretrained` loads.

        Args:
            bilm: Refer to the biLM in this folder, by path and checksum, instead of copying it.
        """
        description = {
            "tags": self.classes_.tolist(),
            "scheme": self.scheme,
            "config": to_json(self.config_),
        }
        save_task(
            Path(folder), DESCRIPTION, description, self.network, self.task_vocabulary,
            self.language_model, bilm,
        )  # fmt: skip

    @classmethod
    def from_pretrained(cls, folder: Path | str, *, device: str = "cpu") -> TokenTagger:
        """Load a tagger's folder; a damaged one is a `UserError`."""
        folder = Path(folder)
        content = read_description(folder, DESCRIPTION, "elmo tag train")
        description = from_json(TaggerDescription, content, str(folder / DESCRIPTION))
        check(description.config)
        loaded = load_bilm(folder, description.bilm, device)
        vocabulary, sizes = Vocabulary.load(folder / TASK_WORDS), loaded.model.config
        with without_weights():
            network = TaggerNetwork(
                description.config, 1 + sizes.layers, 2 * sizes.width, description.tags,
                len(vocabulary),
            )  # fmt: skip
        load_network(network, folder)
        tagger = cls(str(folder / "bilm"), description.config, device=device)
        tagger.language_model, tagger.task_vocabulary = loaded, vocabulary
        tagger.network = network.eval().to(device)
        tagger.classes_, tagger.scheme = np.array(description.tags), description.scheme
        tagger.config_, tagger.fitted_ = description.config, None
        return tagger

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in ("model", "config", "word_vectors", "device")}

    def set_params(self, **params: Any) -> TokenTagger:
        """Change arguments of the constructor; takes effect with the next `fit`."""
        for name, value in params.items():
            if name not in self.get_params():
                known = ", ".join(self.get_params())
                raise UserError(f"unknown parameter {name!r}; expected one of {known}")
            setattr(self, name, value)
        return self

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


# From files to a folder.


class TaggerRun(NamedTuple):
    """A tagger that was written to a folder."""

    folder: Path
    tagger: TokenTagger
    fitted: Fitted
    metrics: dict[str, TagMetrics]
    """On development and, if there are any, test sentences."""
    seconds: float


def train_tagger(
    sources: Sequence[str] | str,
    model: Path | str,
    out: Path | str,
    config: TaggerConfig | None = None,
    *,
    development: Sequence[str] | str = (),
    test: Sequence[str] | str = (),
    columns: ReadTags | None = None,
    read: ReadOptions | None = None,
    word_vectors: Path | str | None = None,
    reference: bool = False,
    fresh: bool = False,
    device: str = "cpu",
    checkpoint_minutes: float = 1.0,
    on_report: Listener = lambda report: None,
    on_texts: TextListener = lambda progress: None,
    command: str = "",
) -> TaggerRun:
    """Train a tagger on CoNLL files; the same call resumes an interrupted training exactly.

    Args:
        sources: tagged sentences: CoNLL columns, or CoNLL-U in files named .conllu.
        model: the biLM's folder.
        out: the tagger's folder, which must not exist.
        development: files to choose the epoch by; default: a fraction of the others.
        test: files to measure on at the end.
        columns: which columns hold word and tag.
        reference: name the biLM's folder instead of copying the biLM.
        fresh: start over: delete a tagger and checkpoints that are there.
    """
    config, out, model = config or TaggerConfig(), Path(out), Path(model)
    data = read_tagged(sources, columns, read)
    held_out = read_tagged(development, columns, read) if development else None
    test_data = read_tagged(test, columns, read) if test else None
    digests = {"texts": data.digest, "development": held_out.digest if held_out else ""}
    tagger = TokenTagger(model, config, word_vectors=word_vectors, device=device)
    with training_job(
        out, config, digests, model, word_vectors, mark=DESCRIPTION, fresh=fresh,
        minutes=checkpoint_minutes,
    ) as checkpoints:  # fmt: skip
        fitted = tagger.train(
            open_model(model, device), data, held_out, vectors=load_vectors(word_vectors),
            scratch=out.parent, on_report=on_report, on_texts=on_texts, checkpoints=checkpoints,
        )  # fmt: skip
        if held_out is None:
            rows = split_rows(len(data), 0, config.learning).development.tolist()
            held_out = TaggedTexts(
                [data.words[row] for row in rows],
                [data.tags[row] for row in rows],
                [data.locations[row] for row in rows],
            )
        metrics = {
            "development": tagger.evaluate(
                held_out.words, held_out.tags, locations=held_out.locations
            )
        }
        if test_data is not None:
            metrics["test"] = tagger.evaluate(
                test_data.words, test_data.tags, locations=test_data.locations
            )
        facts = {
            "tags": ", ".join(tagger.classes_.tolist()),
            "scheme of spans": tagger.scheme or "none",
            "sentences": f"{len(data):,} to learn from",
            "ELMo": f"{config.words.elmo}, layers weigh "
            + ", ".join(f"{weight:.3f}" for weight in tagger.network.mix.weights or ()),
            "encoder": config.encoder,
            "decoder": tagger.config_.decoder,
            "stopped": fitted.stopped,
            "seed": str(config.learning.seed),
            "trained in": f"{checkpoints.seconds:,.0f} s",
        } | {
            f"{part}: {'F1 of spans' if one.f1 else 'accuracy'}": f"{one.main.value:.4f} "
            f"({one.main.low:.4f} to {one.main.high:.4f}) on {one.words:,} words"
            for part, one in metrics.items()
        }
        write_run(
            out,
            lambda folder: tagger.save_pretrained(folder, bilm=model if reference else None),
            fitted,
            metrics,
            "A tagger on top of a bidirectional language model (ELMo)",
            facts,
            command,
        )
        seconds = checkpoints.seconds
    return TaggerRun(out, tagger, fitted, metrics, seconds)

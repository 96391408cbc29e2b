"""The language model as its users see it: load, score, fill blanks, generate, evaluate, save."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.config import BLANK, GenerationConfig
from elmo.bilm.softmax import slices
from elmo.companion import CompanionVectors
from elmo.config import BILM, SHIPPED, Json, check, from_json
from elmo.errors import UserError
from elmo.evaluate import CONFUSIONS, Evaluation, evaluate, perplexity
from elmo.files import atomic_folder, expanded, sha256, write_text
from elmo.model_folder import (
    CARD,
    COMPANIONS,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    ModelDescription,
    Precision,
    Text,
    describe_model,
    is_many_langs,
    is_official,
    load_folder,
    model_card,
    model_facts,
    other_stages,
    parameter_count,
    save_config,
    save_weights,
)
from elmo.runtime import require_device
from elmo.text.batching import Layout, WordTable, group_by_length, pack_texts, read_texts
from elmo.text.config import Batching, ReadOptions
from elmo.text.sources import (
    are_sources,
    checked_words,
    iterated,
    read_documents,
    resolve,
    text_sources,
)
from elmo.text.tokenizer import Tokenizer, TokenizerConfig, allow_tokenizer, build_tokenizer
from elmo.text.vocabulary import END, SPECIAL_WORDS, START, UNKNOWN, Vocabulary

if TYPE_CHECKING:
    from elmo.bilm.model import BiLM, StackState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WordScore:
    """A word and its natural log-probabilities."""

    word: str
    known: bool  # if not, the probabilities are those of any unknown word
    forward: float  # given all words before it
    backward: float  # given all words after it


@dataclass(frozen=True)
class DirectionScore:
    """A whole text in one direction: its words and the boundary after them."""

    boundary: float  # log-probability that the text ends (starts, backward) where it does
    total: float  # log-probability of the text
    perplexity: float  # per prediction, the boundary being one of them


@dataclass(frozen=True)
class TextScore:
    """What both directions make of a text."""

    words: tuple[WordScore, ...]
    forward: DirectionScore
    backward: DirectionScore
    perplexity: float  # the exponential of the two directions' mean loss


@dataclass(frozen=True)
class Candidate:
    """A word, and how probable it is among the words that the model knows."""

    word: str
    probability: float


@dataclass(frozen=True)
class BlankCandidates:
    """The best words for one blank, the most probable first."""

    place: int  # index of the blank among the words of the text
    forward: tuple[Candidate, ...]  # given all words before it
    backward: tuple[Candidate, ...]  # given all words after it
    combined: tuple[Candidate, ...]  # given both


@dataclass(frozen=True)
class Prediction:
    """A text, and words for each of its blanks."""

    words: tuple[str, ...]  # the text with the best word of both directions in each blank
    blanks: tuple[BlankCandidates, ...]


@dataclass(frozen=True)
class Generation:
    """A prompt, and what the model wrote after or before it."""

    prompt: tuple[str, ...]
    written: tuple[str, ...]  # in reading order, whatever the direction
    backward: bool
    ended: bool  # whether the text came to its end (backwards: start) before the length ran out

    @property
    def words(self) -> tuple[str, ...]:
        return self.written + self.prompt if self.backward else self.prompt + self.written


@dataclass(frozen=True, repr=False)
class LanguageModel:
    """A biLM with everything that is needed to read new text as its training text was read.

    Example:
        >>> model = LanguageModel.from_pretrained("runs/news")
        >>> model.score("Oil prices fell .").perplexity
        >>> model.fill("Oil ___ fell .", k=3).blanks[0].combined
        >>> " ".join(model.generate("Oil prices", temperature=0.8).words)
    """

    model: BiLM  # the network
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    config: Json = field(default_factory=dict[str, Any])
    """Its config.json: the settings of all stages, where they are known."""
    custom_tokenizer: Tokenizer | None = None
    """The function that tokenizes text if `tokenizer` is a custom one."""
    path: Path | None = None
    """The folder it was loaded from; that in the cache, if it was downloaded."""

    @classmethod
    def from_pretrained(
        cls,
        path: Path | str = SHIPPED,
        device: str = "cpu",
        custom_tokenizer: Tokenizer | str | None = None,
    ) -> LanguageModel:
        """Load a model: by name, or from a folder of ours or in another format.

        Args:
            path: A folder (ours, official files or ELMoForManyLangs), an archive of one, a name
                that `elmo models` lists, hf:USER/REPO@REVISION or an https:// address; "default"
                is the model that comes with elmo.
            device: Where the network computes, such as "cpu" or "cuda".
            custom_tokenizer: The function the training text was tokenized with, if it was custom;
                or, for any model, a name: "spacy:de", "module:function".

        Example:
            >>> LanguageModel.from_pretrained("manylangs/de")  # downloaded at the first call
        """
        folder = model_path(path)
        if is_official(folder):
            from elmo.official.format import load_official, official_files

            model, tokenizer, config = load_official(*official_files(folder))
        elif is_many_langs(folder):
            from elmo.official.many_langs import load_many_langs

            model, tokenizer, config = load_many_langs(folder)
        else:
            model, tokenizer, config = load_folder(folder)
        if isinstance(custom_tokenizer, str):
            allow_tokenizer(custom_tokenizer)  # named by the user, not by the folder
            tokenizer, custom_tokenizer = replace(tokenizer, tokenizer=custom_tokenizer), None
            check(tokenizer)
        return cls(model.to(require_device(device)), tokenizer, config, custom_tokenizer, folder)

    @classmethod
    def from_official(
        cls,
        options: Path | str,
        weights: Path | str,
        *,
        vocabulary: Path | str | None = None,
        token_vectors: Path | str | None = None,
        device: str = "cpu",
        custom_tokenizer: Tokenizer | None = None,
    ) -> LanguageModel:
        """Load the two files of an official model, wherever they are.

        Args:
            options: options.json, a path or an https:// address.
            weights: The .hdf5 file, too.
            vocabulary: One word per line; default: the vocab*.txt next to the options, if any.
            token_vectors: An HDF5 file with one vector per word of the vocabulary: these words are
                looked up, only others are spelled.
            device: Where the network computes.
            custom_tokenizer: A function that tokenizes text, if the options ask for one.
        """
        from elmo.official.format import load_official

        options, weights = file_path(options), file_path(weights)
        model, tokenizer, config = load_official(options, weights, vocabulary, token_vectors)
        return cls(model.to(require_device(device)), tokenizer, config, custom_tokenizer)

    @cached_property
    def word_vectors(self) -> CompanionVectors | None:
        """Static word vectors that come with the model, if any do."""
        if self.path is None or not (self.path / COMPANIONS[0]).is_file():
            return None
        return CompanionVectors.load(self.path)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words the model knows."""
        return self.model.vocabulary

    def __repr__(self) -> str:
        config = self.model.config
        return (
            f"LanguageModel({config.input}, {config.layers} x {config.hidden} per direction, "
            f"vocabulary {len(self.vocabulary):,}, {parameter_count(self.model):,} parameters, "
            f"{self.model.device})"
        )

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into words as the training text was cut."""
        if self.tokenizer.tokenizer == "custom" and self.custom_tokenizer is None:
            raise UserError(
                "this model reads words cut by a tokenizer function of its maker, which its folder "
                "does not hold; give words already cut, or the function: "
                "LanguageModel.from_pretrained(…, custom_tokenizer=…)"
            )
        return self._tokenizer(text)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return build_tokenizer(self.tokenizer, self.custom_tokenizer)

    def words(self, text: Text) -> list[str]:
        """The words of a text.

        A literal <S> or </S> is an unknown word, since the model adds the boundaries itself. Only
        official character models and ELMoForManyLangs, with its own marks, read it as a boundary
        within the text, as the originals do.
        """
        config, vocabulary = self.model.config, self.vocabulary
        boundaries, unknown = {*vocabulary.words[: END + 1]}, vocabulary.words[UNKNOWN]
        words = self.tokenize(text) if isinstance(text, str) else checked_words(text)
        reads_marks = config.input == "characters" and config.softmax.loss == "none"
        is_many_langs = vocabulary.spelling is not None
        if reads_marks or is_many_langs or boundaries.isdisjoint(words):
            return words
        return [unknown if word in boundaries else word for word in words]

    @overload  # a string is a sequence of strings, too: the first overload wins
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, texts: str, batching: Batching | None = None
    ) -> TextScore: ...
    @overload
    def score(self, texts: Sequence[Text], batching: Batching | None = None) -> list[TextScore]: ...
    @torch.no_grad()
    def score(
        self, texts: str | Sequence[Text], batching: Batching | None = None
    ) -> TextScore | list[TextScore]:
        """Log-probabilities of every word in both directions, over the full softmax.

        Args:
            texts: One string, or a list of texts that are strings or lists of words.
            batching: How texts are read together, which changes speed and memory but no score.

        Returns:
            One score for one string, a list of scores for a list.
        """
        if isinstance(texts, str):
            return self.score([texts], batching)[0]
        sentences = [self.words(text) for text in list(iterated(texts))]
        for number, sentence in enumerate(sentences, start=1):
            if not sentence:
                raise UserError(f"text {number} of {len(sentences)} holds no word; leave it out")
        lengths = [len(sentence) + 1 for sentence in sentences]
        scores = np.zeros((2, sum(lengths)))
        for direction, slots, states, targets in self.predictions(sentences, batching):
            # In slices: log-probabilities of all words for a whole batch would fill the memory.
            for part in slices(len(states), len(self.vocabulary)):
                values = self.model.output.log_probabilities(states[part])
                chosen = values.gather(1, targets[part, None])[:, 0]
                scores[direction, slots[part]] = chosen.double().cpu().numpy()
        results: list[TextScore] = []
        parts = np.split(scores, np.cumsum(lengths)[:-1], axis=1) if sentences else []
        for sentence, (forward, backward) in zip(sentences, parts, strict=True):
            known = (self.vocabulary.encode(sentence) != UNKNOWN).tolist()
            rows = zip(sentence, known, forward[:-1].tolist(), backward[:-1].tolist(), strict=True)
            directions = [
                DirectionScore(float(logs[-1]), float(logs.sum()), perplexity(-float(logs.mean())))
                for logs in (forward, backward)
            ]
            both = perplexity(-float(forward.mean() + backward.mean()) / 2)
            words = tuple(WordScore(*row) for row in rows)
            results.append(TextScore(words, directions[0], directions[1], both))
        return results

    @overload
    def fill(  # pyright: ignore[reportOverlappingOverload]
        self, texts: str, k: int = 10, *, blank: str = BLANK, batching: Batching | None = None
    ) -> Prediction: ...
    @overload
    def fill(
        self,
        texts: Sequence[Text],
        k: int = 10,
        *,
        blank: str = BLANK,
        batching: Batching | None = None,
    ) -> list[Prediction]: ...
    @torch.no_grad()
    def fill(
        self,
        texts: str | Sequence[Text],
        k: int = 10,
        *,
        blank: str = BLANK,
        batching: Batching | None = None,
    ) -> Prediction | list[Prediction]:
        """Find the k best words for each blank; neither a boundary nor the unknown word is one.

        Args:
            texts: One string, or a list of texts that are strings or lists of words. Of several
                blanks in a text, each takes the others for unknown words.
            k: Candidates per blank.
            blank: What marks a blank; one drawn longer, such as _____, is still one blank.
            batching: How texts are read together, which changes no result.

        Returns:
            One prediction for one string, a list of predictions for a list.
        """
        if isinstance(texts, str):
            return self.fill([texts], k, blank=blank, batching=batching)[0]
        if k < 1:
            raise UserError(f"expected at least one candidate per blank, got {k}")
        special = len(SPECIAL_WORDS)
        blanked = [self._split_at_blanks(text, blank) for text in list(iterated(texts))]
        sizes = [len(words) + 1 for words, _ in blanked]
        first: list[int] = (np.cumsum(sizes) - sizes).tolist() if sizes else []
        wanted = [
            start + idx for start, (_, blanks) in zip(first, blanked, strict=True) for idx in blanks
        ]
        answers: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
        for direction, slots, states, _ in self.predictions(
            [words for words, _ in blanked], batching
        ):
            for row in np.flatnonzero(np.isin(slots, wanted)).tolist():
                values = self.model.output.log_probabilities(states[row, None])[0, special:]
                answers[direction][int(slots[row])] = values.double().cpu().log_softmax(dim=0)

        # Words that were never counted, as in official vocabularies, count once.
        counts = torch.tensor(self.vocabulary.counts[special:], dtype=torch.float64).clamp(min=1)
        prior = counts.log().log_softmax(dim=0)
        predictions: list[Prediction] = []
        for start, (words, blanks) in zip(first, blanked, strict=True):
            candidates: list[BlankCandidates] = []
            for idx in blanks:
                forward, backward = answers[0][start + idx], answers[1][start + idx]
                both = combine(forward, backward, prior)
                ranked = (self._best(logs, k) for logs in (forward, backward, both))
                candidates.append(BlankCandidates(idx, *ranked))
                words[idx] = candidates[-1].combined[0].word
            predictions.append(Prediction(tuple(words), tuple(candidates)))
        return predictions

    @torch.no_grad()
    def generate(
        self, prompt: Text = (), config: GenerationConfig | None = None, **settings: Any
    ) -> Generation:
        """Continue a prompt word by word up to a boundary or the length allowed.

        Args:
            prompt: A string or words; may be empty.
            config: How words are chosen; default: `GenerationConfig()`.
            **settings: Fields of the config to change, such as `temperature=0.8`.
        """
        config = replace(config or GenerationConfig(), **settings)
        check(config)
        words = self.words(prompt)
        backward = config.direction == "backward"
        stop = START if backward else END
        random = torch.Generator().manual_seed(config.seed)
        written: list[str] = []
        start, end = self.vocabulary.words[START], self.vocabulary.words[END]
        read = [end, *reversed(words)] if backward else [start, *words]
        state: StackState | None = None
        while len(written) < config.length:
            logits, state = self._next_word(read, state, backward=backward)
            logits[[UNKNOWN, END if backward else START]] = -torch.inf
            if config.temperature == 0:
                chosen = int(logits.argmax())
            else:
                chances = sampling_distribution(logits, config)
                chosen = int(torch.multinomial(chances, 1, generator=random))
            if chosen == stop:
                break
            read = [self.vocabulary.words[chosen]]
            written += read
        ended = len(written) < config.length
        in_order = reversed(written) if backward else written
        return Generation(tuple(words), tuple(in_order), backward, ended)

    def evaluate(
        self,
        texts: str | Iterable[Text],
        batching: Batching | None = None,
        *,
        confusions: int = CONFUSIONS,
        read: ReadOptions | None = None,
    ) -> Evaluation:
        """Perplexity, accuracy and more of both directions on any number of texts.

        Args:
            texts: One string, or texts that are strings or lists of words; texts without words are
                left out. Only some of them are in memory at a time. Names of files, 'ag_news:test'
                and the like are read instead, see `elmo.text.sources.are_sources`.
            batching: Default: as in training, each document for itself or as one stream.
            confusions: How many of the most frequent confusions to list.
            read: How texts are found in files.
        """
        if are_sources(texts):
            texts = read_documents(resolve(text_sources(texts)), read or ReadOptions())
        if batching is None and "batching" in self.config:
            batching = from_json(Batching, self.config["batching"], f"{CONFIG}: batching")
        texts = [texts] if isinstance(texts, str) else texts
        batching = batching or Batching()
        filled = filter(None, map(self.words, iterated(texts)))
        batches = read_texts(filled, self.vocabulary, batching, spelled=self.model.spelled)
        result = evaluate(self.model, batches, confusions=confusions)
        if not result.forward.targets:
            raise UserError("expected texts with words to evaluate on, but there is no word")
        return result

    def save_pretrained(self, path: Path | str, precision: Precision = "fp32") -> None:
        """Write a new model folder; the card names the official file the weights came from."""
        folder = Path(path)
        if folder.exists():
            raise UserError(f"{folder}: already exists; choose another folder or remove it")
        config, origins = self.model.config, list[Path]()
        if self.path is not None and (is_official(self.path) or is_many_langs(self.path)):
            origins = weights_files(self.path)
        quality = ""
        if config.softmax.loss == "none":
            quality = (
                "Made from published files, which hold no softmax: the model embeds words, but "
                "does not predict them.\n"
            )
        files = [f"{origin.name}, sha256 `{sha256(origin)}`" for origin in origins]
        facts = model_facts(self.model) | ({"weights": "; ".join(files)} if files else {})
        card = model_card(
            "feature-extraction", "A bidirectional language model (ELMo)", facts, quality
        )
        with atomic_folder(folder) as temporary:
            save_config(temporary, config, self.tokenizer, other_stages(self.config))
            self.vocabulary.save(temporary / VOCABULARY)
            save_weights(temporary / WEIGHTS, self.model, precision)
            if self.word_vectors is not None:
                self.word_vectors.save(temporary)
            write_text(temporary / CARD, card)

    def push_to_hub(self, repo: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model to the Hugging Face hub (extra: hub), as `save_pretrained` writes it.

        Args:
            repo: "user/name"; created if need be.
            private: Whether a new repository is private.
            token: Default: the one of `hf auth login`.

        Returns:
            The address of the model.
        """
        from elmo.hub import push_folder

        with TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder) / "model")
            return push_folder(Path(folder) / "model", repo, private=private, token=token)

    def save_official(self, path: Path | str) -> None:
        """Write a new folder of official files, which hold neither softmax nor word counts."""
        from elmo.official.format import save_official

        save_official(Path(path), self.model, self.tokenizer, self.config)

    def predictions(
        self, texts: Sequence[Sequence[str]], batching: Batching | None = None
    ) -> Iterator[tuple[int, NDArray[np.int64], Tensor, Tensor]]:
        """Let both directions predict every word and one boundary of every text.

        Yield direction, slots (predictions,), states (predictions, width) and targets
        (predictions,) for each batch. A text of n words takes n + 1 slots, its words in reading
        order and the boundary; the slots of all texts are numbered end to end.
        """
        sizes = np.array([len(text) + 1 for text in texts], np.int64)
        first = np.cumsum(sizes) - sizes
        for group in group_by_length(sizes, (batching or Batching()).batch_tokens):
            together = [texts[int(idx)] for idx in group]
            batch = pack_texts(together, self.vocabulary, spelled=self.model.spelled)
            batch = batch.to(self.model.device)
            states = self.model.layers(batch).at_targets()
            for direction, targets in enumerate((batch.forward, batch.backward)):
                steps = batch.layout.step[targets.tokens].cpu().numpy()
                text = group[batch.layout.text[targets.tokens].cpu().numpy()]
                # Backwards, step 0 predicts the last word, and the last step the boundary.
                idx = steps if direction == 0 else (sizes[text] - 2 - steps) % sizes[text]
                yield direction, first[text] + idx, states[direction], targets.ids

    def _split_at_blanks(self, text: Text, blank: str) -> tuple[list[str], list[int]]:
        """The words of a text, the unknown word in each blank, and the indices of the blanks."""
        if not blank:
            raise UserError(f"blank: expected a mark such as {BLANK!r}, got nothing")
        pieces: list[Text]
        if isinstance(text, str):
            # Split before the text is tokenized: no tokenizer needs to know what a blank is.
            longer = "_*" if not blank.strip("_") else ""
            pieces = list(re.split(re.escape(blank) + longer, text))
        else:
            text = checked_words(text)
            marks = [idx for idx, word in enumerate(text) if word == blank]
            edges = zip([-1, *marks], [*marks, len(text)], strict=True)
            pieces = [text[start + 1 : end] for start, end in edges]
        if len(pieces) < 2:
            shown = text if isinstance(text, str) else " ".join(text)
            raise UserError(
                f"expected a text with a blank, such as 'the {blank} sat', but got {shown!r:.80}; "
                "put the mark where a word is to be found"
            )
        words, blanks = self.words(pieces[0]), list[int]()
        for piece in pieces[1:]:
            blanks.append(len(words))
            words += [self.vocabulary.words[UNKNOWN], *self.words(piece)]
        return words, blanks

    def _best(self, log_probabilities: Tensor, k: int) -> tuple[Candidate, ...]:
        best = log_probabilities.topk(min(k, len(log_probabilities)))
        ids: list[int] = (best.indices + len(SPECIAL_WORDS)).numpy().tolist()
        probabilities: list[float] = best.values.exp().numpy().tolist()
        words = (self.vocabulary.words[word_id] for word_id in ids)
        return tuple(map(Candidate, words, probabilities))

    def _next_word(
        self, words: Sequence[str], state: StackState | None, *, backward: bool
    ) -> tuple[Tensor, StackState]:
        """Let one direction read on; the log-probabilities of what follows, and its new state."""
        model = self.model
        stack = model.backward_stack if backward else model.forward_stack
        table = WordTable.of(words, model.vocabulary, spelled=model.spelled)
        vectors = model.token_layer(table.select(np.arange(len(words))).to(model.device))
        vectors = vectors.to(model.compute_dtype)  # (words, width)
        tokens = torch.arange(len(words), device=model.device)
        layout = Layout.of(np.array([len(words)])).to(model.device)
        with torch.autocast(model.device.type, enabled=False):
            outputs, states = stack(vectors, tokens, layout, state)
        return model.output.log_probabilities(outputs[-1][-1:])[0].double().cpu(), states


def combine(forward: Tensor, backward: Tensor, prior: Tensor) -> Tensor:
    """What both directions say together: p(w | left) p(w | right) / p(w), made to sum to one.

    Where left and right depend on each other only through w, Bayes' rule gives p(w | left, right)
    as proportional to p(w) p(left | w) p(right | w), and p(left | w) is p(w | left) / p(w) but for
    a constant. Without the division, frequent words, which each direction favours already, would
    be favoured twice. All are log-probabilities of the same words.
    """
    return (forward + backward - prior).log_softmax(dim=-1)


def sampling_distribution(logits: Tensor, config: GenerationConfig) -> Tensor:
    """The probabilities to draw the next word from: temperature, then top-k, then top-p."""
    # The maximum first, so that a tiny temperature cannot overflow.
    probabilities = ((logits - logits.max()) / config.temperature).softmax(dim=0)
    ordered, indices = probabilities.sort(descending=True)
    if config.top_k is not None:
        ordered[config.top_k :] = 0
        ordered /= ordered.sum()
    # A word stays if those above it do not reach top_p yet, so the best one always stays.
    ordered[ordered.cumsum(0) - ordered >= config.top_p] = 0
    return torch.zeros_like(ordered).scatter(0, indices, ordered / ordered.sum())


class UnknownWords:
    """Counts the words of texts that a model does not know: its results say little about them."""

    MANY = 0.5

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary, self.words, self.unknown = vocabulary, 0, 0

    def add(self, words: Sequence[str]) -> float | None:
        """Count the words of a text; their rate."""
        unknown = int((self._vocabulary.encode(words) == UNKNOWN).sum())
        self.words += len(words)
        self.unknown += unknown
        return self._rate(unknown, len(words))

    @property
    def rate(self) -> float | None:
        """Fraction of unknown words; None without words, or if the model has no vocabulary."""
        return self._rate(self.unknown, self.words)

    def _rate(self, unknown: int, words: int) -> float | None:
        # Official character models come without a vocabulary, since they spell every word.
        known = len(self._vocabulary) > len(SPECIAL_WORDS)
        return unknown / words if words and known else None

    def tell(self, so: str = "and its results say little about this one") -> None:
        """Log the rate, as a warning that says what follows from it if there are many."""
        if self.rate is None:
            return
        if self.rate > self.MANY:
            log.warning(
                "unknown words: %.1f%%; the model was trained on other text or another language, "
                "%s", 100 * self.rate, so,
            )  # fmt: skip
        else:
            log.info("unknown words: %.1f%%", 100 * self.rate)


open_model = LanguageModel.from_pretrained


def describe(path: Path | str) -> ModelDescription:
    """Describe a model of any format without loading its weights, if that is possible."""
    folder = model_path(path)
    if is_official(folder):
        from elmo.official.format import describe_official

        return describe_official(folder)
    if is_many_langs(folder):
        from elmo.official.many_langs import describe_many_langs

        return describe_many_langs(folder)
    return describe_model(folder)


# What a user may write where a model is asked for.


def require_loaded(model: object, name: str) -> LanguageModel:
    """The model that a constructor takes; many people give the name of one, as elsewhere."""
    if not isinstance(model, LanguageModel):
        raise UserError(f"expected a LanguageModel; write {name}.from_pretrained({model!r:.60})")
    return model


def model_path(name_or_path: Path | str, shipped: Path = BILM) -> Path:
    """The folder of a model: the one place where names, archives and addresses become paths.

    "default" is the shipped model, and a folder that exists is itself. All else is looked for in
    the cache, and downloaded there if it is not; an ELMoForManyLangs model is converted on the way,
    so that no pickle is read again.
    """
    if not isinstance(cast("object", name_or_path), str | Path):
        raise UserError(f"expected the name or path of a model, got {name_or_path!r:.60}")
    if str(name_or_path) == SHIPPED:
        return shipped
    path = expanded(name_or_path)
    return path if path.is_dir() else download_model(name_or_path) or path


def download_model(name: Path | str, *, fresh: bool = False, forget: bool = False) -> Path | None:
    """The folder of a named model in the cache; None if nothing has this name.

    `fresh`: download again what is in the cache; `forget`: trust what comes now, whatever checksum
    was recorded at first use.
    """
    from elmo.registry.cache import fetch

    name = name.as_posix() if isinstance(name, Path) else name
    return fetch(name, _converted, fresh=fresh, forget=forget)


def file_path(path_or_address: Path | str) -> Path:
    """A file, downloaded to the cache if it is an https:// address."""
    from elmo.registry.cache import fetch_file

    is_address = str(path_or_address).startswith(("https://", "http://"))
    return fetch_file(str(path_or_address)) if is_address else Path(path_or_address)


def _converted(folder: Path) -> Path:
    if not is_many_langs(folder):
        return folder
    LanguageModel.from_pretrained(folder).save_pretrained(converted := folder / "converted")
    return converted


def weights_files(folder: Path) -> list[Path]:
    """The files that hold the weights of a model of any format, companions among them."""
    if is_official(folder):
        from elmo.official.format import official_files

        return [official_files(folder).weights]
    if is_many_langs(folder):
        return [folder / "encoder.pkl", folder / "token_embedder.pkl"]
    return [path for name in (WEIGHTS, *COMPANIONS) if (path := folder / name).is_file()]


def weights_checksum(folder: Path) -> str:
    """One SHA-256 for the weights of a model; of several files, that of their checksums."""
    sums = [sha256(path) for path in weights_files(folder)]
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()

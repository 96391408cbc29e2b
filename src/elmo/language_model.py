"""Words for a blank: from what stands before it, from what stands behind it, and from both."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.config import BLANK, GenerationConfig
from elmo.bilm.model import BiLM, StackState
from elmo.bilm.softmax import slices
from elmo.config import check
from elmo.errors import UserError
from elmo.evaluate import perplexity
from elmo.files import folder_written_whole, sha256, write_text
from elmo.model_folder import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    FileSize,
    LoadedModel,
    ModelDescription,
    Part,
    Text,
    describe_model,
    load_model,
    parameter_count,
    save_config,
    save_weights,
)
from elmo.official.format import (
    OPTIONS,
    STAGE,
    OfficialModel,
    load_official,
    look_through,
    vocabulary_beside,
)
from elmo.official.hdf5 import opened
from elmo.text.batching import Layout, WordTable, group_by_length, pack_texts
from elmo.text.config import Batching
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, UNKNOWN, Vocabulary

# Any model by its path: a folder of ours, or one with official files.


@dataclass(frozen=True)
class OfficialFiles:
    """The files of an official model in one folder."""

    options: Path
    weights: Path
    vocabulary: Path | None


def open_model(
    path: Path | str, device: str = "cpu", custom_tokenizer: Tokenizer | None = None
) -> LoadedModel:
    """Load a model folder of ours, or one that holds options.json and one *.hdf5."""
    folder = Path(path)
    if not is_official(folder):
        return load_model(folder, device, custom_tokenizer)
    files = official_files(folder)
    loaded = load_official(files.options, files.weights, files.vocabulary)
    return LoadedModel(loaded.model.to(device), loaded.tokenizer, loaded.config, custom_tokenizer)


def describe(path: Path | str) -> ModelDescription:
    """Tell what is in a folder of either kind, without loading its weights."""
    folder = Path(path)
    return _describe_official(folder) if is_official(folder) else describe_model(folder)


def save_model(loaded: LoadedModel, folder: Path | str, origin: Path | None = None) -> None:
    """Write a new model folder of ours; `origin` is the file the weights came from."""
    folder = Path(folder)
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another folder or remove it")
    stages = {STAGE: loaded.config[STAGE]} if STAGE in loaded.config else {}
    with folder_written_whole(folder) as beside:
        save_config(beside, loaded.model.config, loaded.tokenizer, stages)
        loaded.model.vocabulary.save(beside / VOCABULARY)
        save_weights(beside / WEIGHTS, loaded.model)
        write_text(beside / CARD, _card(loaded, origin))


def is_official(folder: Path) -> bool:
    """Whether a folder holds files of an official model rather than one of ours."""
    has_files = (folder / OPTIONS).is_file() or any(folder.glob("*.hdf5"))
    return has_files and not (folder / CONFIG).exists()


def official_files(folder: Path) -> OfficialFiles:
    """Find the files of an official model, none of which may lie elsewhere."""
    weights = sorted(folder.glob("*.hdf5"))
    options = [folder / OPTIONS] if (folder / OPTIONS).is_file() else []
    if not options or len(weights) != 1:
        named = ", ".join(one.name for one in (*options, *weights))
        raise UserError(
            f"{folder}: an official model is {OPTIONS} and exactly one .hdf5 file of weights, but "
            f"here is {named}"
        )
    files = OfficialFiles(folder / OPTIONS, weights[0], vocabulary_beside(folder / OPTIONS))
    for path in (files.options, files.weights, files.vocabulary):
        if path is not None and not path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{path}: leads out of the model folder; a model holds its own files")
    return files


def _describe_official(folder: Path) -> ModelDescription:
    files = official_files(folder)
    with opened(files.weights) as datasets:
        found = look_through(files.options, files.weights, datasets, files.vocabulary)
    parts = _parts(found)
    present = [path for path in (files.options, files.weights, files.vocabulary) if path]
    return ModelDescription(
        folder=str(folder),
        model=found.config,
        tokenizer=found.tokenizer,
        vocabulary=len(found.vocabulary),
        training_tokens=0,
        unknown_rate=0.0,
        parameters=sum(part.parameters for part in parts),
        parts=parts,
        number_format="F32",
        files=tuple(FileSize(path.name, path.stat().st_size) for path in present),
        held_out_perplexity=None,
        stages={STAGE: {"options": found.options}},
    )


def _parts(found: OfficialModel) -> tuple[Part, ...]:
    """Numbers by part of the model, as the file has them: without a row for padding."""
    totals: Counter[str] = Counter()
    for row in found.rows:
        totals[row.parameters[0].partition(".")[0]] += math.prod(row.shape)
    return tuple(Part(name, size) for name, size in totals.items())


def _card(loaded: LoadedModel, origin: Path | None) -> str:
    config = loaded.model.config
    source = "" if origin is None else f"| weights | {origin.name}, sha256 `{sha256(origin)}` |\n"
    return f"""# A bidirectional language model (ELMo), converted

| | |
|---|---|
| input | {config.input} |
| layers | {config.layers} a direction, {config.hidden} cells, output {config.width} |
| parameters | {parameter_count(loaded.model):,} |
{source}
Made from official files with `elmo convert`. They hold no softmax: the model embeds words, but does
not predict them.
"""


# What each direction is asked on its way through texts, and in which state it must answer.


@dataclass(frozen=True)
class Questions:
    """Places of texts at which one direction has to tell the word."""

    backward: bool
    texts: Tensor  # (questions,), numbers of the texts
    places: Tensor  # (questions,), steps from where the direction starts: 0 asks for its first word
    states: Tensor  # (questions, width), what it knows when asked
    targets: Tensor  # (questions,), the vocabulary ids that are right

    @property
    def keys(self) -> list[tuple[int, int]]:
        """The text and the place of each question."""
        texts: list[int] = self.texts.cpu().numpy().tolist()
        places: list[int] = self.places.cpu().numpy().tolist()
        return list(zip(texts, places, strict=True))


def ask(
    model: BiLM, texts: Sequence[Sequence[str]], batching: Batching | None = None
) -> Iterator[Questions]:
    """Read texts in both directions; every word, and one boundary a direction, is asked for once.

    A direction's questions come in the order in which it reads, long texts in windows.
    """
    lengths = np.array([len(words) + 1 for words in texts], np.int64)
    for group in group_by_length(lengths, (batching or Batching()).batch_tokens):
        together = [texts[int(index)] for index in group]
        batch = pack_texts(together, model.vocabulary, spelled=model.spelled).to(model.device)
        with torch.no_grad():
            states = model.layers(batch).at_targets()
        numbers = torch.from_numpy(group).to(model.device)
        for backward, targets in enumerate((batch.forward, batch.backward)):
            yield Questions(
                bool(backward),
                numbers[batch.layout.text[targets.tokens]],
                batch.layout.step[targets.tokens],
                states[backward],
                targets.ids,
            )


# How probable each word of a text is, given all before it and given all behind it.


Scores = NDArray[np.float64]


@dataclass(frozen=True)
class WordScore:
    """A word and its natural log-probabilities."""

    word: str
    known: bool
    """If not, the probabilities are those of any unknown word."""
    forward: float
    """Given all words before it."""
    backward: float
    """Given all words behind it."""


@dataclass(frozen=True)
class DirectionScore:
    """A whole text in one direction, its words and the boundary behind them."""

    boundary: float
    """Log-probability that the text ends (forward) or begins (backward) where it does."""
    total: float
    """Log-probability of the text."""
    perplexity: float
    """The exponential of the negative total a prediction, the boundary being one of them."""


@dataclass(frozen=True)
class TextScore:
    """What both directions make of a text."""

    words: tuple[WordScore, ...]
    forward: DirectionScore
    backward: DirectionScore
    perplexity: float
    """The exponential of the two directions' mean loss."""


def score(
    loaded: LoadedModel, texts: Sequence[Text], batching: Batching | None = None
) -> list[TextScore]:
    """Score texts, given as strings or as words, in both directions over the full softmax.

    How texts are put together in batches changes nothing; long ones go in windows, state carried.
    """
    sentences = [loaded.words(text) for text in texts]
    for number, sentence in enumerate(sentences, start=1):
        if not sentence:
            raise UserError(f"text {number} of {len(texts)} holds no word; leave it out")
    found = [(np.zeros(len(one) + 1), np.zeros(len(one) + 1)) for one in sentences]
    for questions in ask(loaded.model, sentences, batching):
        values = _log_probabilities(loaded.model, questions)
        for (text, place), value in zip(questions.keys, values.tolist(), strict=True):
            found[text][questions.backward][place] = value
    vocabulary = loaded.model.vocabulary
    return [
        _text_score(sentence, vocabulary.encode(sentence) != UNKNOWN, forward, backward)
        for sentence, (forward, backward) in zip(sentences, found, strict=True)
    ]


@torch.no_grad()
def _log_probabilities(model: BiLM, questions: Questions) -> Scores:
    """Of each right answer."""
    parts = [
        model.output.log_probabilities(questions.states[part]).gather(
            1, questions.targets[part, None]
        )
        for part in slices(len(questions.states), len(model.vocabulary))
    ]
    return torch.cat(parts)[:, 0].double().cpu().numpy()


def _text_score(
    words: Sequence[str], known: NDArray[np.bool_], forward: Scores, backward: Scores
) -> TextScore:
    """Put together what each direction found, in its own reading order."""
    columns = (known.tolist(), forward[:-1].tolist(), backward[-2::-1].tolist())
    scored = tuple(WordScore(*row) for row in zip(words, *columns, strict=True))
    loss = -(forward.mean() + backward.mean()) / 2
    return TextScore(scored, _direction(forward), _direction(backward), perplexity(float(loss)))


def _direction(scores: Scores) -> DirectionScore:
    return DirectionScore(float(scores[-1]), float(scores.sum()), perplexity(-float(scores.mean())))


# Texts with blanks: where the blanks are, and what the model reads in their place.


@dataclass(frozen=True)
class BlankedText:
    """The words of a text, the unknown word standing in each blank."""

    words: tuple[str, ...]
    blanks: tuple[int, ...]
    """Which of the words are blanks, counted from 0."""


def find_blanks(loaded: LoadedModel, text: Text, blank: str = BLANK) -> BlankedText:
    """Read a text that has at least one blank."""
    if not blank:
        raise UserError(f"blank: expected a mark such as {BLANK!r}, got nothing")
    first, *rest = _cut(text, blank)
    if not rest:
        shown = text if isinstance(text, str) else " ".join(text)
        raise UserError(
            f"expected a text with a blank, such as 'the {blank} sat', but got {shown!r:.80}; "
            "put the mark where a word is to be found"
        )
    words, blanks = loaded.words(first), list[int]()
    for piece in rest:
        blanks.append(len(words))
        words += [SPECIAL_WORDS[UNKNOWN], *loaded.words(piece)]
    return BlankedText(tuple(words), tuple(blanks))


def _cut(text: Text, blank: str) -> Sequence[Text]:
    """Cut before the text is tokenised: no tokenizer needs to know what a blank is."""
    if not isinstance(text, str):
        return _cut_words(text, blank)
    # A blank that is drawn longer is still one blank.
    longer = "_*" if not blank.strip("_") else ""
    return re.split(re.escape(blank) + longer, text)


def _cut_words(words: Sequence[str], blank: str) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for word in words:
        if word == blank:
            pieces.append([])
        else:
            pieces[-1].append(word)
    return pieces


_SPECIAL = len(SPECIAL_WORDS)
_Key = tuple[int, int]
"""The number of a text, and a place in it."""


@dataclass(frozen=True)
class Candidate:
    """A word, and how probable it is among the words that the model knows."""

    word: str
    probability: float


@dataclass(frozen=True)
class BlankCandidates:
    """The best words for one blank, the most probable first."""

    place: int
    """Which word of the text it is, counted from 0."""
    forward: tuple[Candidate, ...]
    """Given all words before it."""
    backward: tuple[Candidate, ...]
    """Given all words behind it."""
    combined: tuple[Candidate, ...]
    """Given both."""


@dataclass(frozen=True)
class Prediction:
    """A text, and words for each of its blanks."""

    words: tuple[str, ...]
    """The text with the best word of both directions in each blank."""
    blanks: tuple[BlankCandidates, ...]


def predict(
    loaded: LoadedModel,
    texts: Sequence[Text],
    *,
    top: int = 10,
    blank: str = BLANK,
    batching: Batching | None = None,
) -> list[Prediction]:
    """Find the `top` best words for each blank; each of several takes the others as unknown.

    Neither a boundary nor the unknown word is ever proposed.
    """
    if top < 1:
        raise UserError(f"top: at least one candidate is needed, got {top}")
    blanked = [find_blanks(loaded, text, blank) for text in texts]
    answers = _answers(loaded.model, blanked, batching)
    prior = log_prior(loaded.model.vocabulary)
    predictions: list[Prediction] = []
    for number, text in enumerate(blanked):
        found = [answers.candidates((number, place), prior, top) for place in text.blanks]
        predictions.append(_filled(text, found))
    return predictions


def combine(forward: Tensor, backward: Tensor, prior: Tensor) -> Tensor:
    """What both directions say together: p(w | left) p(w | right) / p(w), made to sum to one.

    Where left and right depend on each other only through w, Bayes' rule gives p(w | left, right)
    as proportional to p(w) p(left | w) p(right | w), and p(left | w) is p(w | left) / p(w) but for
    a constant. Without the division, frequent words, which each direction favours already, would
    be favoured twice. All are log-probabilities of the same words.
    """
    return (forward + backward - prior).log_softmax(dim=-1)


def log_prior(vocabulary: Vocabulary) -> Tensor:
    """How frequent each word but the special ones is; one that was never counted counts once."""
    counts = torch.tensor(vocabulary.counts[_SPECIAL:], dtype=torch.float64)
    return counts.clamp(min=1).log().log_softmax(dim=0)


@dataclass(frozen=True)
class _Answers:
    """Log-probabilities, a blank and direction, of all words but the special ones."""

    vocabulary: Vocabulary
    forward: dict[_Key, Tensor] = field(default_factory=dict[_Key, Tensor])
    backward: dict[_Key, Tensor] = field(default_factory=dict[_Key, Tensor])

    def candidates(self, blank: _Key, prior: Tensor, top: int) -> BlankCandidates:
        """The best words for a blank."""
        forward, backward = self.forward[blank], self.backward[blank]
        kinds = (forward, backward, combine(forward, backward, prior))
        return BlankCandidates(blank[1], *(self._best(kind, top) for kind in kinds))

    def _best(self, log_probabilities: Tensor, top: int) -> tuple[Candidate, ...]:
        best = log_probabilities.topk(min(top, len(log_probabilities)))
        places: list[int] = best.indices.numpy().tolist()
        probabilities: list[float] = best.values.exp().numpy().tolist()
        return tuple(
            Candidate(self.vocabulary.words[_SPECIAL + place], probability)
            for place, probability in zip(places, probabilities, strict=True)
        )


@torch.no_grad()
def _answers(model: BiLM, texts: Sequence[BlankedText], batching: Batching | None) -> _Answers:
    """Let both directions read, and answer where there is a blank."""
    answers = _Answers(model.vocabulary)
    blanks = {(number, place) for number, text in enumerate(texts) for place in text.blanks}
    for questions in ask(model, [text.words for text in texts], batching):
        into = answers.backward if questions.backward else answers.forward
        for row, key in enumerate(_keys(questions, texts)):
            if key in blanks:
                known = model.output.log_probabilities(questions.states[row, None])[0, _SPECIAL:]
                into[key] = known.double().cpu().log_softmax(dim=0)
    return answers


def _keys(questions: Questions, texts: Sequence[BlankedText]) -> list[_Key]:
    """Which word each question asks for; a backward one's place is counted from the end."""
    if not questions.backward:
        return questions.keys
    return [(number, len(texts[number].words) - 1 - place) for number, place in questions.keys]


def _filled(text: BlankedText, blanks: Sequence[BlankCandidates]) -> Prediction:
    best = {blank.place: blank.combined[0].word for blank in blanks}
    words = tuple(best.get(place, word) for place, word in enumerate(text.words))
    return Prediction(words, tuple(blanks))


# Text written by one direction of the model, word by word, its state carried along.


@dataclass(frozen=True)
class Generation:
    """A prompt, and what the model wrote behind or before it."""

    prompt: tuple[str, ...]
    written: tuple[str, ...]
    """In the order in which one reads, whatever the direction."""
    backward: bool
    ended: bool
    """Whether the text came to its end (or, backwards, its begin); if not, the length ran out."""

    @property
    def words(self) -> tuple[str, ...]:
        """The whole text."""
        return self.written + self.prompt if self.backward else self.prompt + self.written


def generate(
    loaded: LoadedModel, prompt: Text = (), config: GenerationConfig | None = None
) -> Generation:
    """Write on from a prompt, which may be empty, up to a boundary or as long as allowed."""
    config = config or GenerationConfig()
    check(config)
    words = loaded.words(prompt)
    backward = config.direction == "backward"
    read = ["</S>", *reversed(words)] if backward else ["<S>", *words]
    stop = "<S>" if backward else "</S>"
    written: list[str] = []
    for word in islice(_write(loaded.model, read, config), config.length):
        if word == stop:
            break
        written.append(word)
    ended = len(written) < config.length
    in_order = reversed(written) if backward else written
    return Generation(tuple(words), tuple(in_order), backward, ended)


@torch.no_grad()
def _write(model: BiLM, read: Sequence[str], config: GenerationConfig) -> Iterator[str]:
    """Words without end: each is chosen, and read in its turn."""
    random = torch.Generator().manual_seed(config.seed)
    never = [UNKNOWN, END if config.direction == "backward" else BEGIN]
    states: StackState | None = None
    while True:
        top, states = _read(model, read, states, config)
        logits = model.output.log_probabilities(top)[0].double().cpu()
        logits[never] = -torch.inf
        word = model.vocabulary.words[choose(logits, config, random)]
        yield word
        read = [word]


def choose(logits: Tensor, config: GenerationConfig, random: torch.Generator) -> int:
    """Draw a word, or take the best one where the temperature is zero, from (words,) logits."""
    if config.temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(chances(logits, config), 1, generator=random))


def chances(logits: Tensor, config: GenerationConfig) -> Tensor:
    """The distribution to draw from: made sharper or flatter, then cut off."""
    sharpened = (logits - logits.max()) / config.temperature
    ordered, places = sharpened.softmax(dim=0).sort(descending=True)
    if config.top_k is not None:
        ordered[config.top_k :] = 0
        ordered /= ordered.sum()
    # A word stays if those above it do not have the share yet: so the best one always stays.
    ordered[ordered.cumsum(0) - ordered >= config.top_p] = 0
    return torch.zeros_like(ordered).scatter(0, places, ordered / ordered.sum())


def _read(
    model: BiLM, words: Sequence[str], states: StackState | None, config: GenerationConfig
) -> tuple[Tensor, StackState]:
    """Let one direction read on; its last state, (1, width), and where it stands."""
    stack = model.backward_stack if config.direction == "backward" else model.forward_stack
    table = WordTable.of(words, model.vocabulary, spelled=model.spelled)
    vectors = model.token_layer(table.select(np.arange(len(words))).to(model.device))
    vectors = vectors.to(model.compute_dtype)  # (words, width)
    tokens = torch.arange(len(words), device=model.device)
    layout = Layout.of(np.array([len(words)])).to(model.device)
    outputs, ends = stack(vectors, tokens, layout, states)
    return outputs[-1][-1:], ends

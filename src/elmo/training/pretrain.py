"""A run: from sources and settings to a model folder, from the start or from where it stopped."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.config import Json, check, from_json, to_json
from elmo.errors import UserError
from elmo.evaluate import Evaluation, evaluate
from elmo.files import explained, remove_leftovers, sha256, write_text
from elmo.language_model import describe, is_official, open_model
from elmo.model_folder import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    load_model,
    model_tensors,
    read_config,
    save_config,
    save_weights,
)
from elmo.text.batching import WordTable, read
from elmo.text.corpus import Corpus, CorpusRequest, cache_folder, load_corpus, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary, build_vocabulary
from elmo.text.word_vectors import read_word_vectors, vector_size
from elmo.training.checkpoint import Position, locked, newest_checkpoint, stopped_by_signals
from elmo.training.config import PretrainConfig, TrainingConfig
from elmo.training.distributed import World, is_launched
from elmo.training.loop import HELD_OUT_ORDER, train
from elmo.training.optim import compute_precision
from elmo.training.reports import JsonLog, Listener, TensorBoardLog, all_of, model_card

# What a run started from, and its text found again.


STAGES = ("read", "vocabulary", "batching", "training")
"""Settings that config.json holds beside those of the model and the tokenizer."""
FROZEN_SHARE = 0.2
GENTLE_RATE = 1e-3
"""Peak learning rate for a model that others have trained for weeks."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run starts from; saved beside the settings, so that it can be resumed."""

    sources: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    start_from: str | None = None
    word_vectors: str | None = None
    command: str = ""
    corpus: str = ""
    """Name of the prepared corpus."""
    digest: str = ""
    """What its content must be."""
    vocabulary: str = ""
    """SHA-256 of vocabulary.txt, which must stay as it is too."""


def read_run(folder: Path) -> tuple[RunConfig, PretrainConfig]:
    """The settings of a run, as its folder has them."""
    content = read_config(folder)
    where = str(folder / CONFIG)
    stages = {name: content.get(name) for name in (*STAGES, "model", "tokenizer")}
    config = from_json(PretrainConfig, stages, where)
    return from_json(RunConfig, content.get("run"), f"{where}: run"), config


def is_same_run(folder: Path, run: RunConfig, config: PretrainConfig) -> bool:
    """Whether a folder holds the run that these settings would start, as a restart finds it."""
    if not (folder / CONFIG).exists():
        return False
    found, settings = read_run(folder)
    names = ("sources", "held_out", "start_from", "word_vectors")
    return settings == config and all(getattr(found, one) == getattr(run, one) for one in names)


def settings_of(folder: Path | str) -> PretrainConfig:
    """The settings to go on from a model with: those that made it, where its folder tells them.

    An official model tells what it is, but neither how it was trained nor what it predicted: a
    softmax is learned first, and the rate is low, not to lose what the model knows.
    """
    folder = Path(folder)
    if not is_official(folder) and "run" in read_config(folder):
        made = read_run(folder)[1]
        return replace(made, training=replace(made.training, frozen_share=0.0))
    found = describe(folder)
    if found.model.softmax.loss != "none":
        return PretrainConfig(tokenizer=found.tokenizer, model=found.model)
    return PretrainConfig(
        tokenizer=found.tokenizer,
        model=replace(found.model, softmax=SoftmaxConfig(tied=False)),
        training=TrainingConfig(
            frozen_share=FROZEN_SHARE, learning_rate=GENTLE_RATE, schedule="one_cycle"
        ),
    )


def prepared_corpus(
    run: RunConfig,
    config: PretrainConfig,
    *,
    cache: Path | None,
    tokenizer: Tokenizer | None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Prepare the text of a run, or find it prepared."""
    request = CorpusRequest(
        sources=resolve(run.sources),
        read=config.read,
        tokenizer=config.tokenizer,
        held_out_sources=resolve(run.held_out) if run.held_out else (),
        held_out_share=config.vocabulary.held_out_share,
    )
    return prepare(request, cache=cache, custom_tokenizer=tokenizer, progress=progress)


def same_corpus(
    run: RunConfig, config: PretrainConfig, *, cache: Path | None, tokenizer: Tokenizer | None
) -> Corpus:
    """The text that a run started with, made anew where the cache has been cleared."""
    folder = (cache or cache_folder()) / "corpora" / run.corpus
    if (folder / "corpus.json").exists():
        corpus = load_corpus(folder)
    else:
        corpus = prepared_corpus(run, config, cache=cache, tokenizer=tokenizer)
    if corpus.digest != run.digest:
        raise UserError(
            f"the text of this run has changed since it started ({', '.join(run.sources)}); "
            "bring back the files as they were"
        )
    return corpus


def shared_corpus(world: World, find: Callable[[], Corpus]) -> Corpus:
    """What one process prepares while the others wait."""
    corpus = world.first(find)
    folder = Path(world.tell("" if corpus is None else str(corpus.folder)))
    return corpus or load_corpus(folder)


# How well a run's model predicts the text that was held out of its training.


def evaluate_run(
    folder: Path | str, *, cache: Path | None = None, custom_tokenizer: Tokenizer | None = None
) -> Evaluation:
    """Let both directions predict all of the held-out text of a run."""
    folder = Path(folder)
    is_ours = (folder / CONFIG).exists()
    if folder.is_dir() and not (is_ours and "run" in read_config(folder)):
        raise UserError(
            f"{folder}: says nothing of the text it was trained on, so none of it can be known as "
            "held out; name a text to evaluate on"
        )
    loaded = load_model(folder, custom_tokenizer=custom_tokenizer)
    run, config = read_run(folder)
    corpus = same_corpus(run, config, cache=cache, tokenizer=custom_tokenizer)
    if not len(corpus.held_out):
        raise UserError(f"{folder}: no text was held out of this run; name a text to evaluate on")
    model = loaded.model
    table = WordTable.of(corpus.words, model.vocabulary, spelled=model.config.spelled)
    return evaluate(model, read(corpus.held_out, table, config.batching, HELD_OUT_ORDER))


# The folder of a run: refused where it is taken, made, and given the settings of the run.


def refuse_taken(folder: Path) -> None:
    """Say at once, before any work is done, that a model cannot go to this folder."""
    if (folder / CONFIG).exists():
        raise UserError(
            f"{folder}: holds a run already; go on with it (--resume {folder}) or choose another "
            "place (--out)"
        )
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{folder}: {there} is a file; choose another place (--out)")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(
            f"{folder}: no permission to write to {there}; choose another place (--out)"
        )


def make_run_folder(folder: Path) -> None:
    """Make the folder, where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, folder) from error


def write_settings(
    folder: Path, run: RunConfig, config: PretrainConfig, corpus: Corpus, vocabulary: Vocabulary
) -> None:
    """Write all that a run needs to be resumed; the settings come last, and tell that it is one."""
    vocabulary.save(folder / VOCABULARY)
    run = replace(
        run,
        corpus=corpus.fingerprint,
        digest=corpus.digest,
        vocabulary=sha256(folder / VOCABULARY),
    )
    stages: Json = {name: to_json(getattr(config, name)) for name in STAGES}
    save_config(folder, config.model, config.tokenizer, {"run": to_json(run), **stages})


# The model a run starts from: fresh, with given word vectors, or another model's.


log = logging.getLogger(__name__)


def fresh_model(config: BiLMConfig, vocabulary: Vocabulary, seed: int) -> BiLM:
    """A model with random weights that follow from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BiLM(config, vocabulary)


def set_word_vectors(model: BiLM, path: Path) -> float:
    """Give the words of a file its vectors; return the share of words found.

    Vectors shorter than the model's are the first numbers of its own, whose others stay random.
    """
    vectors = model.token_layer.word_vectors
    if vectors is None:
        raise UserError("word_vectors: a character model has no word vectors to initialise")
    size = vector_size(path)
    if size > vectors.shape[1]:
        raise UserError(
            f"{path}: vectors of {size} numbers, but word_dim is {vectors.shape[1]}; "
            f"use --word-dim {size} or more"
        )
    found = read_word_vectors(path, model.vocabulary)
    with torch.no_grad():
        for place, vector in found.items():
            vectors[place, :size] = torch.from_numpy(vector.copy())
    if not found:
        raise UserError(f"{path}: none of its words is in the vocabulary")
    return len(found) / len(model.vocabulary)


def starting_vocabulary(other: BiLM, counted: Vocabulary) -> Vocabulary:
    """The words that a run predicts if it starts from another model, those of its text counted.

    Words that the other model predicts, or has vectors of, stay what they are; a model of
    characters without a softmax, as official ones are, has nothing to keep.
    """
    has_softmax = other.config.softmax.loss != "none"
    if not has_softmax and other.config.input == "characters":
        return counted
    grown = other.vocabulary.grown(counted.words, counted.counts)
    if has_softmax:
        return grown
    found = dict(zip(counted.words, counted.counts, strict=True))
    counts = zip(grown.words, grown.counts, strict=True)
    return Vocabulary(grown.words, tuple(found.get(word, count) for word, count in counts))


def adopt(model: BiLM, other: BiLM) -> None:
    """Take over another model's weights; words that are new to it keep their fresh ones."""
    mine, theirs = model_tensors(model), model_tensors(other)
    problems = [
        f"{name}: {_shape(theirs.get(name))} there, {_shape(mine.get(name))} here"
        for name in sorted(mine.keys() | theirs.keys())
        if not _fits(mine.get(name), theirs.get(name), name)
    ]
    if problems:
        raise UserError(
            "the model to start from has another architecture than the settings ask for:\n  "
            + "\n  ".join(problems)
        )
    for name, tensor in theirs.items():
        mine[name][: len(tensor)] = tensor


def _fits(mine: Tensor | None, theirs: Tensor | None, name: str) -> bool:
    """Equal shapes, or more rows where a row is a word."""
    if mine is None:
        return False
    if theirs is None:
        return name.startswith("output.")  # a cluster that the new words need
    by_word = name.startswith(("token_layer.words", "output."))
    return mine.shape[1:] == theirs.shape[1:] and (
        len(mine) == len(theirs) or (by_word and len(mine) > len(theirs))
    )


def _shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else str(tuple(tensor.shape))


@dataclass(frozen=True)
class Surroundings:
    """What may differ between two sessions of a run without changing what it computes."""

    cache: Path | None = None
    device: str = "cpu"
    world: World = field(default_factory=World)
    """The processes that train together; all of them make the same call."""
    tensorboard: bool = False
    tokenizer: Tokenizer | None = None
    """The function of a custom tokenizer."""
    listener: Listener | None = None
    on_documents: Callable[[int], None] | None = None
    """Told, while the corpus is prepared, how many documents have been read."""


@dataclass(frozen=True)
class Result:
    """What came of a session."""

    folder: Path
    position: Position
    corpus: Corpus
    model: BiLM

    @property
    def finished(self) -> bool:
        """Whether the run is complete; if not, it can be resumed."""
        return self.position.finished


def pretrain(
    sources: Sequence[str] | str,
    out: Path | str,
    config: PretrainConfig | None = None,
    *,
    held_out: Sequence[str] = (),
    start_from: Path | str | None = None,
    word_vectors: Path | str | None = None,
    command: str = "",
    surroundings: Surroundings | None = None,
) -> Result:
    """Train a biLM on text and write it to a new folder.

    Without settings, a run that starts from a model takes those of that model.
    """
    config = config or (PretrainConfig() if start_from is None else settings_of(start_from))
    surroundings = surroundings or Surroundings()
    check(config)
    folder = Path(out)
    run = RunConfig(
        sources=(sources,) if isinstance(sources, str) else tuple(sources),
        held_out=tuple(held_out),
        start_from=None if start_from is None else str(start_from),
        word_vectors=None if word_vectors is None else str(word_vectors),
        command=command,
    )
    world = surroundings.world
    if is_launched():
        # A restarted process is given the command that started the run.
        (again,) = world.any(bool(world.first(lambda: is_same_run(folder, run, config))))
        if again:
            return resume(folder, surroundings)
    world.first(lambda: refuse_taken(folder))
    # The folder comes into being only when the text is known to be good.
    corpus = shared_corpus(
        world,
        lambda: prepared_corpus(
            run,
            config,
            cache=surroundings.cache,
            tokenizer=surroundings.tokenizer,
            progress=surroundings.on_documents,
        ),
    )
    vocabulary = _vocabulary(corpus, config, run)
    with ExitStack() as held:
        world.first(lambda: make_run_folder(folder))
        world.first(lambda: held.enter_context(locked(folder)))
        world.first(lambda: refuse_taken(folder))
        world.first(lambda: write_settings(folder, run, config, corpus, vocabulary))
        return _continue(folder, run, config, corpus, vocabulary, surroundings)


def resume(folder: Path | str, surroundings: Surroundings | None = None) -> Result:
    """Go on with a run exactly as if it had never stopped."""
    folder = Path(folder)
    surroundings = surroundings or Surroundings()
    world = surroundings.world
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: no run to resume here, {CONFIG} is missing")
    with ExitStack() as held:
        world.first(lambda: held.enter_context(locked(folder)))
        run, config = read_run(folder)
        corpus = shared_corpus(
            world,
            lambda: same_corpus(
                run, config, cache=surroundings.cache, tokenizer=surroundings.tokenizer
            ),
        )
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        if sha256(folder / VOCABULARY) != run.vocabulary:
            raise UserError(
                f"{folder / VOCABULARY} is not the vocabulary this run started with; "
                "bring it back, or start a new run"
            )
        return _continue(folder, run, config, corpus, vocabulary, surroundings)


def _continue(
    folder: Path,
    run: RunConfig,
    config: PretrainConfig,
    corpus: Corpus,
    vocabulary: Vocabulary,
    surroundings: Surroundings,
) -> Result:
    world = surroundings.world
    world.first(lambda: remove_leftovers(folder))
    checkpoint = newest_checkpoint(folder / "checkpoints")
    step = checkpoint.position.step if checkpoint else 0
    model = fresh_model(config.model, vocabulary, config.training.seed)
    if checkpoint is None:
        _initialise(model, run)
    if world.size > 1 and not world.all_same(f"{step} {corpus.digest} {_checksum(model)}"):
        raise UserError(
            f"{folder}: not all processes see the same run; the folder (--out), the cache "
            "(--cache) and the text must be on a file system that all machines share"
        )
    model = model.to(surroundings.device)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    log.info(
        "%d documents of %d tokens, %d more held out; %d words known, %.2f%% of the text unknown",
        corpus.train.documents, corpus.tokens, corpus.held_out.documents, len(vocabulary),
        100 * vocabulary.unknown_rate(corpus.words[UNKNOWN:], corpus.counts[UNKNOWN:]),
    )  # fmt: skip
    log.info(
        "%s at step %d on %s, products in %s, %d threads",
        "resuming" if step else "starting", step, model.device, model.compute_dtype,
        torch.get_num_threads(),
    )  # fmt: skip

    def keep(position: Position, evaluation: Evaluation | None) -> None:
        if not world.is_first:
            return
        save_weights(folder / WEIGHTS, model, config.training.saved_precision)
        card = model_card(model, corpus, config, run.sources, run.command, position, evaluation)
        write_text(folder / CARD, card)

    with stopped_by_signals() as stop:
        position = train(
            model,
            corpus,
            config,
            checkpoints=folder / "checkpoints",
            checkpoint=checkpoint,
            keep=keep,
            report=_listeners(folder, step, surroundings),
            stop=stop,
            world=world,
        )
    return Result(folder, position, corpus, model)


def _checksum(model: BiLM) -> float:
    return sum(float(one.sum(dtype=torch.float64)) for one in model_tensors(model).values())


def _initialise(model: BiLM, run: RunConfig) -> None:
    """Give a fresh model the word vectors or the weights that the run is to start from."""
    if run.word_vectors is not None:
        share = set_word_vectors(model, Path(run.word_vectors))
        log.info("%s: vectors for %.1f%% of the vocabulary", run.word_vectors, 100 * share)
    if run.start_from is not None:
        adopt(model, open_model(run.start_from).model)


def _vocabulary(corpus: Corpus, config: PretrainConfig, run: RunConfig) -> Vocabulary:
    special = len(SPECIAL_WORDS)
    made = build_vocabulary(
        corpus.words[special:],
        corpus.counts[special:].tolist(),
        boundaries=corpus.train.documents,
        min_count=config.vocabulary.min_count,
        max_size=config.vocabulary.max_vocabulary,
    )
    if len(made) == special:
        raise UserError(
            f"no word is seen {config.vocabulary.min_count} times; lower --min-count or give "
            "more text"
        )
    if run.start_from is None:
        return made
    return starting_vocabulary(open_model(run.start_from).model, made)


def _listeners(folder: Path, step: int, surroundings: Surroundings) -> Listener:
    if not surroundings.world.is_first:
        return all_of([])
    listeners: list[Listener] = [JsonLog(folder / "log.jsonl", step)]
    if surroundings.tensorboard:
        listeners.append(TensorBoardLog(folder / "tensorboard"))
    if surroundings.listener is not None:
        listeners.append(surroundings.listener)
    return all_of(listeners)

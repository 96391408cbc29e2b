"""A run: from sources and settings to a model folder, from the start or from where it stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch

from elmo.bilm.model import BiLM
from elmo.checkpoint import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    model_tensors,
    save_weights,
)
from elmo.config import check
from elmo.distributed import World, is_launched
from elmo.errors import UserError
from elmo.files import remove_leftovers, sha256, write_text
from elmo.interop.models import open_model
from elmo.language.evaluate import Evaluation
from elmo.pretrain.card import model_card
from elmo.pretrain.checkpoints import newest_checkpoint
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.interruption import locked, stopped_by_signals
from elmo.pretrain.loop import train
from elmo.pretrain.optimizer import compute_precision
from elmo.pretrain.position import Position
from elmo.pretrain.reports import JsonLog, Listener, TensorBoardLog, all_of
from elmo.pretrain.run_config import (
    RunConfig,
    is_same_run,
    prepared_corpus,
    read_run,
    same_corpus,
    settings_of,
    shared_corpus,
)
from elmo.pretrain.run_folder import make_run_folder, refuse_taken, write_settings
from elmo.pretrain.start import adopt, fresh_model, set_word_vectors, starting_vocabulary
from elmo.text.corpus import Corpus
from elmo.text.tokenizers import Tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary, build_vocabulary

log = logging.getLogger(__name__)


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

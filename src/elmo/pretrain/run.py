"""A run: from sources and settings to a model folder, from the start or from where it stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from elmo.bilm.model import BiLM
from elmo.checkpoint import (
    CARD,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    load_model,
    read_config,
    save_config,
    save_weights,
)
from elmo.config import Json, check, from_json, to_json
from elmo.errors import UserError
from elmo.files import explained, write_text
from elmo.language.evaluate import Evaluation
from elmo.pretrain.card import model_card
from elmo.pretrain.checkpoints import newest_checkpoint
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.interruption import locked, stopped_by_signals
from elmo.pretrain.loop import train
from elmo.pretrain.optimizer import compute_precision
from elmo.pretrain.position import Position
from elmo.pretrain.reports import JsonLog, Listener, Report, TensorBoardLog
from elmo.pretrain.start import adopt, fresh_model, set_word_vectors
from elmo.text.corpus import Corpus, CorpusRequest, cache_folder, load_corpus, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizers import Tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary, build_vocabulary

log = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class Surroundings:
    """What may differ between two sessions of a run without changing what it computes."""

    cache: Path | None = None
    device: str = "cpu"
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
    """Train a biLM on text and write it to a new folder."""
    config = config or PretrainConfig()
    surroundings = surroundings or Surroundings()
    check(config)
    folder = Path(out)
    if (folder / CONFIG).exists():
        raise UserError(
            f"{folder}: holds a run already; go on with it (--resume {folder}) or choose another "
            "place (--out)"
        )
    run = RunConfig(
        sources=(sources,) if isinstance(sources, str) else tuple(sources),
        held_out=tuple(held_out),
        start_from=None if start_from is None else str(start_from),
        word_vectors=None if word_vectors is None else str(word_vectors),
        command=command,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, folder) from error
    with locked(folder):
        corpus = _prepared(run, config, surroundings)
        run = replace(run, corpus=corpus.fingerprint, digest=corpus.digest)
        vocabulary = _vocabulary(corpus, config, run)
        vocabulary.save(folder / VOCABULARY)
        stages: Json = {name: to_json(getattr(config, name)) for name in _STAGES}
        save_config(folder, config.model, config.tokenizer, {"run": to_json(run), **stages})
        return _continue(folder, run, config, corpus, vocabulary, surroundings)


def resume(folder: Path | str, surroundings: Surroundings | None = None) -> Result:
    """Go on with a run exactly as if it had never stopped."""
    folder = Path(folder)
    surroundings = surroundings or Surroundings()
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: no run to resume here, {CONFIG} is missing")
    with locked(folder):
        run, config = read_run(folder)
        corpus = _found_again(run, config, surroundings)
        if corpus.digest != run.digest:
            raise UserError(
                f"the text of this run has changed since it started ({', '.join(run.sources)}); "
                "bring back the files as they were, or start a new run"
            )
        vocabulary = _vocabulary(corpus, config, run)
        if Vocabulary.load(folder / VOCABULARY) != vocabulary:
            raise UserError(
                f"{folder / VOCABULARY} is not the vocabulary this run started with; "
                "bring it back, or start a new run"
            )
        return _continue(folder, run, config, corpus, vocabulary, surroundings)


_STAGES = ("read", "vocabulary", "batching", "training")


def read_run(folder: Path) -> tuple[RunConfig, PretrainConfig]:
    """The settings of a run, as its folder has them."""
    content = read_config(folder)
    where = str(folder / CONFIG)
    stages = {name: content.get(name) for name in (*_STAGES, "model", "tokenizer")}
    config = from_json(PretrainConfig, stages, where)
    return from_json(RunConfig, content.get("run"), f"{where}: run"), config


def settings_of(folder: Path) -> PretrainConfig:
    """The settings that made a model, to go on from."""
    return read_run(folder)[1]


def _continue(
    folder: Path,
    run: RunConfig,
    config: PretrainConfig,
    corpus: Corpus,
    vocabulary: Vocabulary,
    surroundings: Surroundings,
) -> Result:
    model = _initial_model(run, config, vocabulary).to(surroundings.device)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    checkpoint = newest_checkpoint(folder / "checkpoints")
    step = checkpoint.position.step if checkpoint else 0
    log.info(
        "%s at step %d on %s, products in %s, %d threads",
        "resuming" if step else "starting", step, model.device, model.compute_dtype,
        torch.get_num_threads(),
    )  # fmt: skip

    def keep(position: Position, evaluation: Evaluation | None) -> None:
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
        )
    return Result(folder, position, corpus, model)


def _initial_model(run: RunConfig, config: PretrainConfig, vocabulary: Vocabulary) -> BiLM:
    model = fresh_model(config.model, vocabulary, config.training.seed)
    if run.word_vectors is not None:
        share = set_word_vectors(model, Path(run.word_vectors))
        log.info("%s: vectors for %.1f%% of the vocabulary", run.word_vectors, 100 * share)
    if run.start_from is not None:
        adopt(model, load_model(run.start_from).model)
    return model


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
    return load_model(run.start_from).model.vocabulary.grown(made.words, made.counts)


def _request(run: RunConfig, config: PretrainConfig) -> CorpusRequest:
    return CorpusRequest(
        sources=resolve(run.sources),
        read=config.read,
        tokenizer=config.tokenizer,
        held_out_sources=resolve(run.held_out) if run.held_out else (),
        held_out_share=config.vocabulary.held_out_share,
    )


def _prepared(run: RunConfig, config: PretrainConfig, surroundings: Surroundings) -> Corpus:
    return prepare(
        _request(run, config),
        cache=surroundings.cache,
        custom_tokenizer=surroundings.tokenizer,
        progress=surroundings.on_documents,
    )


def _found_again(run: RunConfig, config: PretrainConfig, surroundings: Surroundings) -> Corpus:
    """The prepared corpus, or the same made anew where the cache has been cleared."""
    folder = (surroundings.cache or cache_folder()) / "corpora" / run.corpus
    if (folder / "corpus.json").exists():
        return load_corpus(folder)
    return _prepared(run, config, surroundings)


def _listeners(folder: Path, step: int, surroundings: Surroundings) -> Listener:
    listeners: list[Listener] = [JsonLog(folder / "log.jsonl", step)]
    if surroundings.tensorboard:
        listeners.append(TensorBoardLog(folder / "tensorboard"))
    if surroundings.listener is not None:
        listeners.append(surroundings.listener)

    def report(what: Report) -> None:
        for listener in listeners:
            listener(what)

    return report

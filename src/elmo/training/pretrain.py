"""Pre-training: from text and settings to a model folder, started or resumed by the same call."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from elmo import files
from elmo.bilm.config import SoftmaxConfig
from elmo.bilm.model import BiLM, seeded
from elmo.config import Json, check, from_json, to_json
from elmo.errors import UserError
from elmo.evaluate import CONFUSIONS, Evaluation, evaluate
from elmo.language_model import describe, model_path, open_model
from elmo.model_folder import (
    CARD,
    COMPANIONS,
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    is_many_langs,
    is_official,
    model_card,
    model_facts,
    model_tensors,
    read_config,
    save_config,
    save_metrics,
    save_weights,
)
from elmo.runtime import compute_precision
from elmo.text.batching import WordTable, read
from elmo.text.corpus import Corpus, CorpusRequest, load_corpus, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizer import Tokenizer
from elmo.text.vocabulary import SPELLING, UNKNOWN, Vocabulary
from elmo.text.word_vectors import read_word_vectors, vector_size
from elmo.training import loop
from elmo.training.checkpoint import check_same_job, stop_requested
from elmo.training.config import DEFAULT_RATES, PretrainConfig, TrainingConfig
from elmo.training.distributed import World
from elmo.training.loop import HELD_OUT_ORDER, Listener, Position, Report, StepReport

STAGES = ("read", "vocabulary", "batching", "training")  # in config.json, with model and tokenizer
CHECKPOINTS, LOG, TENSORBOARD = "checkpoints", "log.jsonl", "tensorboard"
OPTIMIZATION = (
    "optimizer", "learning_rate", "schedule", "warmup", "word_rate", "weight_decay", "clip",
    "accumulate", "precision",
)  # fmt: skip
"""Settings of a training that another one, started from its model, keeps."""
FROZEN_SHARE = 0.2
GENTLE_RATE = 1e-3  # peak learning rate for an official model, which others have trained for weeks

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a run was started with besides its settings; the section "run" of config.json."""

    sources: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    start_from: str | None = None
    word_vectors: str | None = None
    command: str = ""
    corpus: str = ""
    """Name of the prepared corpus in the cache."""
    digest: str = ""
    """Checksum of its content."""
    vocabulary: str = ""
    """SHA-256 of vocabulary.txt."""
    # Where the run started; empty and 0: not known, in folders of earlier versions.
    dtype: str = ""  # of the matrix products
    threads: int = 0  # per process
    processes: int = 0


class Result(NamedTuple):
    """The outcome of one session of a run."""

    folder: Path
    position: Position
    corpus: Corpus
    model: BiLM

    @property
    def finished(self) -> bool:
        """Whether the run is complete; if not, the same call resumes it."""
        return self.position.finished


def pretrain(
    sources: Sequence[str] | str,
    out: Path | str,
    config: PretrainConfig | None = None,
    *,
    held_out: Sequence[str] = (),
    init_from: Path | str | None = None,
    word_vectors: Path | str | None = None,
    fresh: bool = False,
    device: str = "cpu",
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    world: World | None = None,
    on_report: Listener | None = None,
    on_documents: Callable[[int], None] | None = None,
    command: str = "",
) -> Result:
    """Train a biLM on text and write it to a folder: `elmo.pretrain`, on files alone.

    On the same kind of processor with as many threads, a resumed run ends with the same weights,
    bit for bit, as one that was never interrupted. A finished run is trained longer by a call with
    more `epochs`: the learning rate then follows the schedule of the longer training.

    Args:
        world: the processes that train together; all of them make the same call.
        on_documents: called with the number of documents read while the text is prepared.
        command: for the model card.
    """
    config = config or (PretrainConfig() if init_from is None else settings_of(init_from))
    check(config)
    folder, world = Path(out), world or World()
    run = RunConfig(
        sources=(sources,) if isinstance(sources, str) else tuple(sources),
        held_out=tuple(held_out),
        start_from=None if init_from is None else str(init_from),
        word_vectors=None if word_vectors is None else str(word_vectors),
        command=command,
    )
    # Before the text is prepared, which may take hours; and the folder is made after it.
    world.on_first(lambda: _check_folder(folder, run, config, fresh))
    corpus = _shared_corpus(
        world, lambda: prepared_corpus(run, config, cache, custom_tokenizer, on_documents)
    )
    with ExitStack() as held:

        def start() -> None:
            # A text without a vocabulary leaves no folder behind.
            vocabulary = None
            if fresh or not _has_progress(folder):
                vocabulary = _vocabulary(run, config, corpus)
            held.enter_context(files.locked_folder(folder, ours=_holds_run(folder)))
            _check_folder(folder, run, config, fresh)
            if fresh:
                _remove_run(folder)
            if vocabulary is not None and not _has_progress(folder):
                _write_settings(folder, run, config, corpus, vocabulary)
                return
            check_same_job(folder, {"text": read_run(folder)[0].digest}, {"text": corpus.digest})
            content = read_config(folder)  # epochs may have been raised
            files.write_json(folder / CONFIG, {**content, "training": to_json(config.training)})

        world.on_first(start)
        return _run(folder, corpus, device, world, on_report)


def resume(
    folder: Path | str,
    *,
    device: str = "cpu",
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    world: World | None = None,
    on_report: Listener | None = None,
) -> Result:
    """Resume a run by its folder alone, with the settings and the text it was started with."""
    folder, world = Path(folder), world or World()
    if not _holds_run(folder):
        raise UserError(f"{folder}: no run to resume here, expected a {CONFIG} with a run")
    with ExitStack() as held:
        world.on_first(lambda: held.enter_context(files.locked_folder(folder, ours=True)))
        run, config = read_run(folder)
        corpus = _shared_corpus(world, lambda: same_corpus(run, config, cache, custom_tokenizer))
        return _run(folder, corpus, device, world, on_report)


def _run(
    folder: Path, corpus: Corpus, device: str, world: World, on_report: Listener | None
) -> Result:
    """Train from the newest checkpoint, or from the start, to the end or to a signal."""
    world.on_first(lambda: files.remove_leftovers(folder))
    run, config = read_run(folder)
    if files.sha256(folder / VOCABULARY) != run.vocabulary:
        raise UserError(
            f"{folder / VOCABULARY}: not the vocabulary this run was started with; restore the "
            "file, or start over with --fresh"
        )
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    checkpoint = loop.load(folder / CHECKPOINTS, device)
    step = checkpoint.position.step if checkpoint else 0
    with seeded(config.training.seed):
        model = BiLM(config.model, vocabulary)
    if checkpoint is None and run.word_vectors is not None:
        fraction = set_word_vectors(model, Path(run.word_vectors))
        log.info("%s: vectors for %.1f%% of the vocabulary", run.word_vectors, 100 * fraction)
    if checkpoint is None and run.start_from is not None:
        adopt(model, open_model(run.start_from).model)
    if world.size > 1:
        weights = model_tensors(model).values()
        checksum = sum(float(weight.sum(dtype=torch.float64)) for weight in weights)
        if not world.all_same(f"{step} {corpus.digest} {checksum}"):
            raise UserError(
                f"{folder}: not all processes see the same run; the folder (--out), the cache "
                "(--cache) and the text must be on a file system that all machines share"
            )
    model = model.to(device)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    dtype, threads = str(model.compute_dtype).removeprefix("torch."), torch.get_num_threads()
    here = {"dtype": dtype, "threads": threads, "processes": world.size}
    known = {} if checkpoint is None else {name: getattr(run, name) for name in here}
    before = {name: known.get(name) or value for name, value in here.items()}
    for name, value in here.items():
        if before[name] != value:
            log.warning(
                "this run has computed with %s=%s and computes with %s=%s here: it will not end "
                "with exactly the weights that it would have had where it started",
                name, before[name], name, value,
            )  # fmt: skip
    if world.is_first and (recorded := replace(run, **before)) != run:
        run = recorded
        files.write_json(folder / CONFIG, {**read_config(folder), "run": to_json(run)})
    log.info(
        "%d documents of %d tokens, %d more held out; %d words known, %.2f%% of the text unknown",
        corpus.train.documents, corpus.tokens, corpus.held_out.documents, len(vocabulary),
        100 * vocabulary.unknown_rate(corpus.words[UNKNOWN:], corpus.counts[UNKNOWN:]),
    )  # fmt: skip
    log.info(
        "%s at step %d on %s, products in %s, %d threads",
        "resuming" if step else "starting", step, model.device, dtype, threads,
    )  # fmt: skip
    if world.is_first:
        shorten_log(folder / LOG, step)

    def tell_all(report: Report) -> None:
        if world.is_first:
            append_log(folder / LOG, report)
            if on_report is not None:
                on_report(report)

    def keep_best(position: Position, evaluation: Evaluation | None) -> None:
        if world.is_first:
            save_weights(folder / WEIGHTS, model, config.training.saved_precision)
            card = bilm_card(model, corpus, config, run.sources, run.command, position, evaluation)
            files.write_text(folder / CARD, card, "backslashreplace")
            if evaluation is not None:
                save_metrics(folder, {"step": position.best_step, **to_json(evaluation)})

    with stop_requested() as stop:
        position = loop.train(
            model,
            corpus,
            config,
            checkpoints=folder / CHECKPOINTS,
            checkpoint=checkpoint,
            keep_best=keep_best,
            report=tell_all,
            stop=stop,
            world=world,
        )
    if checkpoint is not None and position == checkpoint.position:
        log.info(
            "%s: finished at step %d already; train longer with more --epochs, or start over with "
            "--fresh", folder, step,
        )  # fmt: skip
    return Result(folder, position, corpus, model)


# The folder of a run.


def read_run(folder: Path) -> tuple[RunConfig, PretrainConfig]:
    content = read_config(folder)
    where = str(folder / CONFIG)
    stages = {name: content.get(name) for name in (*STAGES, "model", "tokenizer")}
    config = from_json(PretrainConfig, stages, where)
    return from_json(RunConfig, content.get("run"), f"{where}: run"), config


def _holds_run(folder: Path) -> bool:
    return (folder / CONFIG).exists() and "run" in read_config(folder)


def _has_progress(folder: Path) -> bool:
    """Whether something of a run would be lost if it were started over."""
    has_checkpoint = any((folder / CHECKPOINTS).glob("step-*"))
    return _holds_run(folder) and (has_checkpoint or (folder / WEIGHTS).exists())


def _check_folder(folder: Path, run: RunConfig, config: PretrainConfig, fresh: bool) -> None:
    """Refuse a folder that cannot be written to, is not ours, or holds another unfinished run."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"{folder}: {there} is a file; choose another folder (--out)")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(
            f"{folder}: no permission to write to {there}; choose another folder (--out)"
        )
    if not _holds_run(folder):
        if folder.is_dir() and any(folder.iterdir()):
            files.claim_folder(folder)  # ours if a run was killed before it wrote its settings
    elif _has_progress(folder) and not fresh:
        before_run, before = read_run(folder)
        training = replace(before.training, checkpoint_minutes=config.training.checkpoint_minutes)
        if config.training.epochs > training.epochs and not training.frozen_share:
            # Longer is fine. A frozen start is a fraction of the whole, so it would come again.
            training = replace(training, epochs=config.training.epochs)
        job, this_job = (
            {**to_json(settings), "start_from": its.start_from, "word_vectors": its.word_vectors}
            for settings, its in ((replace(before, training=training), before_run), (config, run))
        )
        check_same_job(folder, job, this_job)


def _vocabulary(run: RunConfig, config: PretrainConfig, corpus: Corpus) -> Vocabulary:
    settings = config.vocabulary
    vocabulary = corpus.vocabulary(settings.min_count, settings.max_vocabulary)
    if run.start_from is None:
        return vocabulary
    return starting_vocabulary(open_model(run.start_from).model, vocabulary)


def _write_settings(
    folder: Path, run: RunConfig, config: PretrainConfig, corpus: Corpus, vocabulary: Vocabulary
) -> None:
    """Write the vocabulary, then the settings, whose presence says that the folder is a run."""
    vocabulary.save(folder / VOCABULARY)
    run = replace(
        run,
        corpus=corpus.fingerprint,
        digest=corpus.digest,
        vocabulary=files.sha256(folder / VOCABULARY),
    )
    stages: Json = {name: to_json(getattr(config, name)) for name in STAGES}
    if run.start_from is not None:
        companions = open_model(run.start_from).word_vectors
        if companions is not None:
            companions.save(folder)
    save_config(folder, config.model, config.tokenizer, {"run": to_json(run), **stages})


def _remove_run(folder: Path) -> None:
    """Delete what a run has written, its settings first, and nothing else."""
    if _holds_run(folder):
        for name in (CONFIG, WEIGHTS, VOCABULARY, SPELLING, *COMPANIONS, CARD, LOG):
            (folder / name).unlink(missing_ok=True)
        for path in (folder / CHECKPOINTS).glob("step-*"):
            files.remove_folder(path)
        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)


# The text of a run.


def prepared_corpus(
    run: RunConfig,
    config: PretrainConfig,
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
    on_documents: Callable[[int], None] | None = None,
) -> Corpus:
    request = CorpusRequest(
        sources=resolve(run.sources),
        read=config.read,
        tokenizer=config.tokenizer,
        held_out_sources=resolve(run.held_out) if run.held_out else (),
        held_out_share=config.vocabulary.held_out_share,
    )
    return prepare(request, cache=cache, custom_tokenizer=custom_tokenizer, progress=on_documents)


def same_corpus(
    run: RunConfig,
    config: PretrainConfig,
    cache: Path | None = None,
    custom_tokenizer: Tokenizer | None = None,
) -> Corpus:
    """The text that a run was started with; prepared again if the cache was cleared."""
    folder = (cache or files.cache_folder()) / "corpora" / run.corpus
    if (folder / "corpus.json").exists():
        corpus = load_corpus(folder)
    else:
        corpus = prepared_corpus(run, config, cache, custom_tokenizer)
    if corpus.digest != run.digest:
        raise UserError(
            f"the text of this run has changed since it started ({', '.join(run.sources)}); "
            "restore the files as they were"
        )
    return corpus


def _shared_corpus(world: World, prepare_it: Callable[[], Corpus]) -> Corpus:
    """Let one process prepare the text while the others wait."""
    corpus = world.on_first(prepare_it)
    folder = Path(world.broadcast("" if corpus is None else str(corpus.folder)))
    return corpus or load_corpus(folder)


def evaluate_run(folder: Path | str, *, cache: Path | None = None) -> Evaluation:
    """Evaluate a run's model on all of its held-out text."""
    folder = Path(folder)
    if folder.is_dir() and not _holds_run(folder):
        raise UserError(
            f"{folder}: does not say which text it was trained on, so its held-out text is not "
            "known; name a text to evaluate on"
        )
    model = open_model(folder).model
    run, config = read_run(folder)
    corpus = same_corpus(run, config, cache)
    if not len(corpus.held_out):
        raise UserError(f"{folder}: no text was held out of this run; name a text to evaluate on")
    table = WordTable.of(corpus.words, model.vocabulary, spelled=model.config.spelled)
    batches = read(corpus.held_out, table, config.batching, HELD_OUT_ORDER)
    return evaluate(model, batches, confusions=CONFUSIONS)


# The model a run starts with: random, with given word vectors, or another model's weights.


def settings_of(folder: Path | str) -> PretrainConfig:
    """The settings to train a model further with: those it was made with, if its folder says so.

    How long to train and how often to evaluate depends on the text: these are the defaults. The
    rate of a plateau is too high for a trained model (docs/experiments.md). An official model does
    not say how it was trained and has no softmax: that is learned first, and the rate is lower
    still, in order not to lose what the model knows.
    """
    folder = model_path(folder)
    is_ours = not is_official(folder) and not is_many_langs(folder)
    if is_ours and "run" in read_config(folder):
        config = read_run(folder)[1]
        kept = {name: getattr(config.training, name) for name in OPTIMIZATION}
        kept["learning_rate"] = config.training.learning_rate or DEFAULT_RATES[kept["optimizer"]]
        return replace(config, training=TrainingConfig(**kept))
    model = describe(folder)
    if model.model.softmax.loss != "none":
        return PretrainConfig(tokenizer=model.tokenizer, model=model.model)
    return PretrainConfig(
        tokenizer=model.tokenizer,
        model=replace(model.model, softmax=SoftmaxConfig(tied=False)),
        training=TrainingConfig(
            frozen_share=FROZEN_SHARE, learning_rate=GENTLE_RATE, schedule="one_cycle"
        ),
    )


def set_word_vectors(model: BiLM, path: Path) -> float:
    """Initialise word embeddings from a file; return the fraction of the vocabulary found.

    Vectors shorter than the model's fill the first columns; the others stay random.
    """
    embeddings = model.token_layer.word_vectors
    if embeddings is None:
        raise UserError("word_vectors: a character model has no word vectors to initialise")
    size = vector_size(path)
    if size > embeddings.shape[1]:
        raise UserError(
            f"{path}: vectors of {size} numbers, but word_dim is {embeddings.shape[1]}; "
            f"use --word-dim {size} or more"
        )
    vectors = read_word_vectors(path, model.vocabulary)
    if not vectors:
        raise UserError(f"{path}: none of its words is in the vocabulary")
    with torch.no_grad():
        for idx, vector in vectors.items():
            embeddings[idx, :size] = torch.from_numpy(vector.copy())
    return len(vectors) / len(model.vocabulary)


def starting_vocabulary(other: BiLM, counted: Vocabulary) -> Vocabulary:
    """The vocabulary of a run that starts from another model; `counted` is that of its text.

    Words that the other model predicts or has vectors for keep their index. A character model
    without a softmax, as official ones are, has no words to keep.
    """
    has_softmax = other.config.softmax.loss != "none"
    counted = counted.spelled_as(other.vocabulary)
    if not has_softmax and other.config.input == "characters":
        return counted
    grown = other.vocabulary.grown(counted.words, counted.counts)
    if has_softmax:
        return grown
    counts = dict(zip(counted.words, counted.counts, strict=True))
    pairs = zip(grown.words, grown.counts, strict=True)
    counted_again = tuple(counts.get(word, count) for word, count in pairs)
    return replace(grown, counts=counted_again)


def adopt(model: BiLM, other: BiLM) -> None:
    """Copy another model's weights; words that it does not have keep their random ones."""

    def fits(name: str, mine: Tensor | None, theirs: Tensor | None) -> bool:
        if mine is None or theirs is None:
            # A new cluster of an adaptive softmax, which the new words need.
            return mine is not None and name.startswith("output.")
        per_word = name.startswith(("token_layer.words", "output."))
        return mine.shape[1:] == theirs.shape[1:] and (
            len(mine) == len(theirs) or (per_word and len(mine) > len(theirs))
        )

    def shape(tensor: Tensor | None) -> str:
        return "nothing" if tensor is None else str(tuple(tensor.shape))

    mine, theirs = model_tensors(model), model_tensors(other)
    problems = [
        f"{name}: {shape(theirs.get(name))} there, {shape(mine.get(name))} here"
        for name in sorted(mine.keys() | theirs.keys())
        if not fits(name, mine.get(name), theirs.get(name))
    ]
    if problems:
        raise UserError(
            "the model to start from has another architecture than the settings ask for:\n  "
            + "\n  ".join(problems)
        )
    for name, tensor in theirs.items():
        mine[name][: len(tensor)] = tensor


# What a run writes for its readers: log.jsonl and the model card.


def shorten_log(path: Path, resumed_at: int) -> None:
    """Remove what a resumed run will repeat, and a line cut short by a crash."""
    if not path.exists():
        return
    lines: list[str] = []
    with suppress(json.JSONDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if json.loads(line)["step"] > resumed_at:
                break
            lines.append(line + "\n")
    files.write_text(path, "".join(lines))


def append_log(path: Path, report: Report) -> None:
    """Append a report, with its kind and time, as a line of JSON."""
    kind = "step" if isinstance(report, StepReport) else "evaluation"
    entry = {"kind": kind, "time": round(time.time(), 3), "step": report.step, **asdict(report)}
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
    except OSError as error:
        raise files.explained(error, path) from error


def bilm_card(
    model: BiLM,
    corpus: Corpus,
    config: PretrainConfig,
    sources: Sequence[str],
    command: str,
    position: Position,
    evaluation: Evaluation | None,
) -> str:
    """The model card as Markdown: what the model was made from, how well it predicts."""
    case = "lower-cased" if config.tokenizer.lowercase else "case kept"
    quality = "No text was held out, so nothing is known of its quality.\n"
    if evaluation is not None:
        both = {"forward": evaluation.forward, "backward": evaluation.backward}
        rows = "\n".join(
            f"| {name} | {metrics.perplexity:.2f} | {metrics.accuracy:.4f} | "
            f"{metrics.top5_accuracy:.4f} |"
            for name, metrics in both.items()
        )
        quality = f"""## Held-out text, full softmax (best model, step {position.best_step:,})

| direction | perplexity | accuracy | top-5 accuracy |
|---|---|---|---|
{rows}

Average perplexity {evaluation.perplexity:.2f}; unknown words {evaluation.unknown_rate:.2%}.
"""
        if position.frozen_perplexity is not None:
            quality += (
                "Average perplexity before the biLM itself was trained on this text, its softmax "
                f"alone learned: {position.frozen_perplexity:.2f}.\n"
            )
    facts = model_facts(model) | {
        "vocabulary": f"{len(model.vocabulary):,} words (seen at least "
        f"{config.vocabulary.min_count} times)",
        "tokenizer": f"{config.tokenizer.tokenizer}, {case}",
        "text": ", ".join(sources),
        "training text": f"{corpus.train.documents:,} documents, {corpus.tokens:,} tokens",
        "held-out text": f"{corpus.held_out.documents:,} documents",
        "corpus fingerprint": f"`{corpus.digest[:16]}`",
        "trained for": f"{position.step:,} steps, {position.targets:,} predictions per direction",
        "seed": config.training.seed,
    }
    title = "A bidirectional language model (ELMo)"
    return model_card("feature-extraction", title, facts, quality, command)

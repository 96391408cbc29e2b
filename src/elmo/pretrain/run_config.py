"""What a run started from, and its text found again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from elmo.bilm.config import SoftmaxConfig
from elmo.checkpoint import CONFIG, read_config
from elmo.config import from_json
from elmo.distributed import World
from elmo.errors import UserError
from elmo.interop.models import describe, is_official
from elmo.pretrain.config import PretrainConfig, TrainingConfig
from elmo.text.corpus import Corpus, CorpusRequest, cache_folder, load_corpus, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizers import Tokenizer

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

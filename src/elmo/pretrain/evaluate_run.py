"""How well a run's model predicts the text that was held out of its training."""

from __future__ import annotations

from pathlib import Path

from elmo.checkpoint import load_model
from elmo.errors import UserError
from elmo.language.evaluate import Evaluation, evaluate
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.loop import HELD_OUT_ORDER
from elmo.pretrain.run import RunConfig, read_run
from elmo.text.batches import WordTable
from elmo.text.batching import read
from elmo.text.corpus import Corpus, CorpusRequest, cache_folder, load_corpus, prepare
from elmo.text.sources import resolve
from elmo.text.tokenizers import Tokenizer


def evaluate_run(
    folder: Path | str, *, cache: Path | None = None, custom_tokenizer: Tokenizer | None = None
) -> Evaluation:
    """Let both directions predict all of the held-out text of a run."""
    loaded = load_model(folder, custom_tokenizer=custom_tokenizer)
    if "run" not in loaded.config:
        raise UserError(
            f"{folder}: says nothing of the text it was trained on, so none of it can be known as "
            "held out; name a text to evaluate on"
        )
    run, config = read_run(Path(folder))
    corpus = _corpus(run, config, cache, custom_tokenizer)
    if not len(corpus.held_out):
        raise UserError(f"{folder}: no text was held out of this run; name a text to evaluate on")
    model = loaded.model
    table = WordTable.of(corpus.words, model.vocabulary, spelled=model.config.spelled)
    return evaluate(model, read(corpus.held_out, table, config.batching, HELD_OUT_ORDER))


def _corpus(
    run: RunConfig, config: PretrainConfig, cache: Path | None, custom_tokenizer: Tokenizer | None
) -> Corpus:
    """The run's corpus as it was prepared, or prepared anew where it is not kept any more."""
    folder = (cache or cache_folder()) / "corpora" / run.corpus
    if (folder / "corpus.json").exists():
        corpus = load_corpus(folder)
    else:
        corpus = prepare(_request(run, config), cache=cache, custom_tokenizer=custom_tokenizer)
    if corpus.digest != run.digest:
        raise UserError(
            f"the text of this run has changed since it was trained ({', '.join(run.sources)}), so "
            "what was held out is not known; bring back the files, or name a text to evaluate on"
        )
    return corpus


def _request(run: RunConfig, config: PretrainConfig) -> CorpusRequest:
    return CorpusRequest(
        sources=resolve(run.sources),
        read=config.read,
        tokenizer=config.tokenizer,
        held_out_sources=resolve(run.held_out) if run.held_out else (),
        held_out_share=config.vocabulary.held_out_share,
    )

"""How well a run's model predicts the text that was held out of its training."""

from __future__ import annotations

from pathlib import Path

from elmo.checkpoint import CONFIG, load_model, read_config
from elmo.errors import UserError
from elmo.language.evaluate import Evaluation, evaluate
from elmo.pretrain.loop import HELD_OUT_ORDER
from elmo.pretrain.run_config import read_run, same_corpus
from elmo.text.batches import WordTable
from elmo.text.batching import read
from elmo.text.tokenizers import Tokenizer


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

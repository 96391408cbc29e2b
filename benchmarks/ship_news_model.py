"""Make the news model that comes with the package: a smaller vocabulary, bf16, and its classifier.

    python benchmarks/ship_news_model.py runs/news --out src/elmo/news_model

The biLM keeps its most frequent words; what is cut off is unknown to it from then on, as rare
words were before. The classifier learns from the descriptions of AG News on top of the smaller
biLM. Texts of the data set are not ours to publish: none is in the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from elmo.bilm.model import BiLM
from elmo.checkpoint import CARD, LoadedModel, model_tensors
from elmo.classify.card import classifier_card
from elmo.classify.config import ClassifierConfig, NetworkConfig
from elmo.classify.evaluate import evaluate
from elmo.classify.folder import load_classifier, save_classifier
from elmo.classify.labelled import read_labelled
from elmo.classify.reports import EpochReport
from elmo.classify.train import Surroundings, train
from elmo.files import folder_written_whole, write_text
from elmo.interop.models import open_model
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary

NOTE = """
## What it is for

Four kinds of English news, as of 2004: World, Sports, Business, Sci/Tech. The biLM was trained on
the descriptions of 94,576 of the 120,000 training rows of AG News with `elmo pretrain ag_news`
(held-out perplexity 86.56 before its vocabulary was cut to {words:,} words and its weights were
rounded to bf16), the classifier on the same rows. The figures above are those of the files in this
folder. AG News was gathered for research and other non-commercial use.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--words", type=int, default=24_000)
    given = parser.parse_args()
    loaded = with_fewer_words(open_model(given.model), given.words)
    config = ClassifierConfig(network=NetworkConfig(own_words=64, hidden=128))
    trained = train(loaded, read_labelled("ag_news"), config, Surroundings(on_report=say))
    with folder_written_whole(given.out) as beside:
        save_classifier(trained.classifier, beside, precision="bf16")
        shipped = load_classifier(beside)
        evaluation = evaluate(shipped, read_labelled("ag_news:test"))
        card = classifier_card(
            trained, {"test": evaluation}, "ag_news",
            f"python benchmarks/ship_news_model.py {given.model} --out {given.out}",
        )  # fmt: skip
        write_text(beside / CARD, card + NOTE.format(words=given.words))
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    print(
        f"{given.out}: {size / 1e6:.1f} MB, test accuracy {evaluation.metrics.accuracy.value:.4f}"
    )


def with_fewer_words(loaded: LoadedModel, number: int) -> LoadedModel:
    """The same model without its rarer words."""
    before = loaded.model.vocabulary
    counts = list(before.counts[:number])
    counts[UNKNOWN] += sum(before.counts[number:])
    vocabulary = Vocabulary(before.words[:number], tuple(counts))
    assert before.words[: len(SPECIAL_WORDS)] == SPECIAL_WORDS
    model = BiLM(loaded.model.config, vocabulary)
    tensors = {
        name: tensor[:number] if len(tensor) == len(before) else tensor
        for name, tensor in model_tensors(loaded.model).items()
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])
    return LoadedModel(model, loaded.tokenizer, loaded.config)


def say(report: object) -> None:
    if isinstance(report, EpochReport):
        print(report, flush=True)


if __name__ == "__main__":
    main()

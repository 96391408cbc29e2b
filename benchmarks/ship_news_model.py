"""Make the news model that comes with the package from a classifier of AG News: smaller, in bf16.

    python benchmarks/ship_news_model.py runs/mixes/trainable-0 --out src/elmo/news_model

Biggest are the vectors of words, so the rarer words go: they are then unknown, as still rarer ones
have always been. What is left is measured on the test rows as it will be used. Texts of the data
set are not ours to publish: none is in the folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from elmo.bilm.model import BiLM
from elmo.checkpoint import CARD, LoadedModel
from elmo.classify.classifier import TextClassifier
from elmo.classify.evaluate import evaluate
from elmo.classify.folder import load_classifier, save_classifier
from elmo.classify.labelled import read_labelled
from elmo.classify.network import ClassifierNetwork
from elmo.config import to_json
from elmo.files import folder_written_whole, read_text, write_json, write_text
from elmo.text.vocabulary import UNKNOWN, Vocabulary

CARD_TEXT = """# News model of elmo

Tells four kinds of English news, as of 2004, apart: {labels}. The biLM beneath it, in `bilm/`, is
what `elmo embed` and `elmo neighbours` use where no model is named.

Test rows of AG News (descriptions, {count:,}), measured with these very files: accuracy
**{accuracy:.4f}** (95% interval {low:.4f} to {high:.4f}), macro F1 {f1:.4f}, calibration error
{calibration:.4f}.

Made with `python benchmarks/ship_news_model.py {source} --out {out}` from the classifier described
below: the {words:,} most frequent words are kept, and weights are rounded to bf16. Both models were
trained on the descriptions of 94,576 of the 120,000 training rows of AG News, a data set gathered
for research and other non-commercial use; no text of it is here.

The biLM has {layers} layers of {hidden} cells a direction and was trained with `{command}`.

---

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("classifier", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--words", type=int, default=23_000)
    given = parser.parse_args()
    smaller = with_fewer_words(load_classifier(given.classifier), given.words)
    with folder_written_whole(given.out) as beside:
        save_classifier(smaller, beside, precision="bf16")
        metrics = evaluate(load_classifier(beside), read_labelled("ag_news:test")).metrics
        write_json(beside / "metrics_test.json", to_json(replace(metrics, rows_per_second=None)))
        bilm = smaller.loaded
        card = CARD_TEXT.format(
            labels=", ".join(smaller.labels.names),
            count=metrics.count,
            accuracy=metrics.accuracy.value,
            low=metrics.accuracy.low,
            high=metrics.accuracy.high,
            f1=metrics.macro_f1.value,
            calibration=metrics.calibration_error,
            source=given.classifier,
            out=given.out,
            words=given.words,
            layers=bilm.model.config.layers,
            hidden=bilm.model.config.hidden,
            command=bilm.config["run"]["command"],
        )
        write_text(beside / CARD, card + read_text(given.classifier / CARD, 1 << 20))
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    print(f"{given.out}: {size / 1e6:.2f} MB, test accuracy {metrics.accuracy.value:.4f}")


def with_fewer_words(classifier: TextClassifier, number: int) -> TextClassifier:
    """The same classifier, its rarer words unknown to biLM and network."""
    loaded, own = classifier.loaded, cut(classifier.own, number)
    vocabulary = cut(loaded.model.vocabulary, number)
    model = BiLM(loaded.model.config, vocabulary)
    take(model, loaded.model)
    network = ClassifierNetwork(
        classifier.config.network,
        1 + model.config.layers,
        2 * model.config.width,
        len(classifier.labels),
        len(own),
    )
    take(network, classifier.network)
    smaller = LoadedModel(model, loaded.tokenizer, loaded.config)
    return replace(classifier, loaded=smaller, network=network, own=own)


def cut(vocabulary: Vocabulary, number: int) -> Vocabulary:
    """The most frequent words; the others are counted as unknown."""
    counts = list(vocabulary.counts[:number])
    counts[UNKNOWN] += sum(vocabulary.counts[number:])
    return Vocabulary(vocabulary.words[:number], tuple(counts))


@torch.no_grad()
def take(smaller: nn.Module, larger: nn.Module) -> None:
    """Copy all tensors; of those with a row a word, the first rows."""
    tensors = larger.state_dict()
    for name, tensor in smaller.state_dict().items():
        tensor.copy_(tensors[name][: len(tensor)] if tensor.dim() else tensors[name])


if __name__ == "__main__":
    main()

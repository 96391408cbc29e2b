"""A biLM against a tuned 5-gram model: same text, same split, same vocabulary.

    python benchmarks/ngram_baseline.py RUN [--json]

The 5-gram model is an interpolated modified Kneser-Ney model whose discounts are tuned on a part
of the training text; one is fitted to the text as it is and one to the text reversed. Both models
are also compared on the held-out texts of which little, or no, eight-word phrase is in the
training text: copies are where an n-gram model is at its best.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.language_model import score
from elmo.model_folder import load_model
from elmo.text.corpus import Shards
from elmo.text.vocabulary import BEGIN, END
from elmo.training.pretrain import read_run, same_corpus
from kneser_ney import fit_tuned

PHRASE = 8
LARGEST_OVERLAPS = (1.0, 0.5, 0.1, 0.0)
Ids = NDArray[np.int64]


def main() -> None:
    """Fit, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = compare(given.run)
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{'held-out texts':<34}{'texts':>7}{'biLM':>9}{'5-gram':>9}")
    for row in rows:
        print(f"{row['name']:<34}{row['texts']:>7}{row['bilm']:>9.2f}{row['ngram']:>9.2f}")


def compare(folder: Path) -> list[dict[str, str | int | float]]:
    """Perplexity of both models, averaged over the directions, on parts of the held-out text."""
    loaded = load_model(folder)
    run, config = read_run(folder)
    corpus = same_corpus(run, config, cache=None, tokenizer=None)
    vocabulary = loaded.model.vocabulary
    places = documents(corpus.held_out)
    ids = vocabulary.encode(corpus.words)
    train, test = [ids[one] for one in documents(corpus.train)], [ids[one] for one in places]

    started = time.monotonic()
    ngram = ngram_losses(train, test, len(vocabulary))
    print(f"5-gram models fitted and asked in {time.monotonic() - started:.0f} s")
    texts = [[corpus.words[place] for place in one.tolist()] for one in places]
    scored = score(loaded, texts)
    bilm = np.array([-(one.forward.total + one.backward.total) / 2 for one in scored])

    overlaps = overlap(train, test)
    predictions = np.array([len(one) + 1 for one in test])
    rows: list[dict[str, str | int | float]] = []
    for largest in LARGEST_OVERLAPS:
        kept = overlaps <= largest
        total = predictions[kept].sum()
        rows.append(
            {
                "name": "all" if largest == 1 else f"at most {largest:.0%} known phrases",
                "texts": int(kept.sum()),
                "bilm": math.exp(bilm[kept].sum() / total),
                "ngram": math.exp(ngram[kept].sum() / total),
            }
        )
    return rows


def documents(shards: Shards) -> list[Ids]:
    """The texts of some shards, boundaries removed."""
    return [
        np.asarray(shard.ids[start + 1 : end - 1], np.int64)
        for shard in shards
        for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
    ]


def ngram_losses(train: list[Ids], test: list[Ids], words: int) -> NDArray[np.float64]:
    """Negative log-probability of each text, averaged over the two directions."""
    forward = fit_tuned(train, vocabulary_size=words, bos=BEGIN, eos=END)
    losses = np.array([-one.sum() for one in forward.log_probabilities(test)])
    del forward
    backward = fit_tuned([one[::-1] for one in train], vocabulary_size=words, bos=END, eos=BEGIN)
    backwards = backward.log_probabilities([one[::-1] for one in test])
    return (losses + np.array([-one.sum() for one in backwards])) / 2


def overlap(train: list[Ids], test: list[Ids]) -> NDArray[np.float64]:
    """Of each test text, the share of eight-word phrases that the training text holds too."""
    phrases = [_phrases(one) for one in test]
    wanted = set().union(*phrases)
    known: set[bytes] = set()
    for one in train:
        known |= _phrases(one) & wanted
    return np.array([len(one & known) / max(1, len(one)) for one in phrases])


def _phrases(document: Ids) -> set[bytes]:
    return {
        document[start : start + PHRASE].tobytes() for start in range(len(document) - PHRASE + 1)
    }


if __name__ == "__main__":
    main()

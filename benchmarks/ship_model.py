"""Make the general biLM that comes with the package, with its card and licence, from a run.

    python benchmarks/ship_model.py runs/general --out src/elmo/models/default \
        --words 52000 --word-vectors glove.6B.100d.txt --companions 60000
    python benchmarks/transfer.py src/elmo/models/default --json > transfer.json
    python benchmarks/transfer.py glove.6B.100d.txt --json > glove.json
    python benchmarks/ship_model.py runs/general --out src/elmo/models/default --corpus corpus \
        --transfer transfer.json --glove glove.json --tokens 20000000 --command "elmo pretrain …"

The first call keeps the most frequent words, adds the static vectors of the first words of a file,
and rounds the weights to bf16, so that what the card says is measured with what ships; the last one
writes the card. `corpus` is the folder that `general_corpus.py` wrote.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.bilm.model import BiLM
from elmo.companion import CompanionVectors
from elmo.config import to_json
from elmo.files import read_json, write_json, write_text
from elmo.language_model import LanguageModel
from elmo.model_folder import CARD, model_tensors, parameter_count
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary
from elmo.text.word_vectors import all_word_vectors
from elmo.training.config import VocabularyConfig

LICENCE = "LICENSE.md"
SETS = ("MR", "CR", "SUBJ", "TREC-6", "SST-2", "average")

BILM_LICENCE = """# Licence of the weights in this folder

The weights and the vocabulary are licensed under Creative Commons Attribution-ShareAlike 4.0
International (CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/), the strictest licence
of the text they were trained on. The code of elmo around them is under Apache-2.0.

They were trained on, and say so with thanks:

| text | words in the corpus | licence | from |
|---|---|---|---|
{sources}

Word vectors were initialised from GloVe 6B (Pennington et al. 2014), and word_vectors.safetensors
holds GloVe's own vectors, rounded to eight bits: Public Domain Dedication and License 1.0.
"""

BILM_CARD = """---
language: en
license: cc-by-sa-4.0
library_name: elmo
tags: [elmo, bilm, lstm, word-embeddings, feature-extraction]
---

# default: the general English biLM of elmo

A bidirectional language model of {layers} LSTM layers with {hidden} cells per direction, over words
and their characters: words outside its vocabulary of {words:,} get a vector from their spelling.
{parameters:,} parameters, in bf16. It has read {tokens:,} tokens of books, podcasts, Wikipedia,
documentation, speeches and other free text ([{licence_file}]({licence_file})); no news, and none of
the texts it is evaluated on.

It comes with GloVe's vectors of {companions:,} words ({companion_dim} dimensions, eight bits each),
the x of the paper's [x; ELMo]: `elmo classify` learns from both.

## Held-out text, full softmax

| text | perplexity | unknown words |
|---|---|---|
{perplexities}

Perplexity is the average over both directions, over the words of the model's vocabulary and the
unknown word.

## Frozen vectors on other people's tasks

Accuracy of a ridge classifier on pooled sentence vectors (`benchmarks/transfer.py`):

| | {sets} |
|---|{bars}
{sentences}

WiC (validation accuracy, threshold tuned on the training pairs) and SCWS (Spearman correlation), of
the vectors of a word in its sentence:

| | WiC | SCWS |
|---|---|---|
{word_rows}

## The text

The corpus is shuffled; the files named below are the part of it that the model has read.
{dropped:,} documents that share {ngram} consecutive words with an evaluation set were dropped:
{dropped_by_set}.

| text | words in the corpus | copies of each document | licence |
|---|---|---|---|
{weights}

## Made with

```
{commands}
```

Corpus fingerprint `{fingerprint}`; SHA-256 of the corpus files are in `corpus.json`.
"""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--words", type=int, help="keep the most frequent words of the vocabulary")
    parser.add_argument("--word-vectors", type=Path, help="static vectors, frequent words first")
    parser.add_argument("--companions", type=int, help="how many of these vectors to add")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--transfer", type=Path)
    parser.add_argument("--glove", type=Path)
    parser.add_argument("--tokens", type=int, help="tokens read in all stages")
    parser.add_argument("--command", action="append", help="a command that made it")
    args = parser.parse_args(argv)
    if not args.out.exists():
        loaded = LanguageModel.from_pretrained(args.model)
        if args.words is not None:
            # Whoever trains further starts from these settings: new words are not to be cut, too.
            stages = {**loaded.config, "vocabulary": to_json(VocabularyConfig())}
            model = cut(loaded.model, args.words)
            loaded = replace(loaded, model=model, config=stages, path=None)
        loaded.save_pretrained(args.out, precision="bf16")
        if args.word_vectors is not None:
            add_companions(args.out, args.word_vectors, args.companions)
    if args.corpus is not None:
        write_card(args)
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{args.out}: {size / 1e6:.2f} MB")


def cut(model: BiLM, words: int) -> BiLM:
    """The same model with the most frequent words; the others are unknown words from now on."""
    vocabulary = model.vocabulary
    counts = np.array(vocabulary.counts)
    special = len(SPECIAL_WORDS)
    order = special + np.argsort(-counts[special:], kind="stable")
    kept = np.sort(np.concatenate([np.arange(special), order[: words - special]]))
    new_counts = counts[kept]
    new_counts[UNKNOWN] += counts.sum() - new_counts.sum()
    smaller = Vocabulary(
        tuple(vocabulary.words[index] for index in kept), tuple(new_counts.tolist())
    )
    result = BiLM(model.config, smaller)
    tensors = model_tensors(model)
    for name, tensor in model_tensors(result).items():
        per_word = len(tensors[name]) == len(vocabulary)
        tensor.copy_(tensors[name][torch.from_numpy(kept)] if per_word else tensors[name])
    return result


def add_companions(folder: Path, file: Path, count: int | None) -> None:
    """Put the first static vectors of a file into a model folder."""
    vectors = dict(islice(all_word_vectors(file), count))
    CompanionVectors.of(list(vectors), np.stack(list(vectors.values()))).save(folder)


def write_card(args: argparse.Namespace) -> None:
    """Write card, licence and what is known of the text."""
    manifest = read_json(args.corpus / "manifest.json")
    loaded = LanguageModel.from_pretrained(args.out)
    perplexities: list[str] = []
    for name, file in (
        ("held-out documents of the corpus", "heldout.txt.gz"),
        ("WikiText-2, test", "wikitext2-test.txt.gz"),
    ):
        with gzip.open(args.corpus / file, "rt", encoding="utf-8") as stream:
            evaluation = loaded.evaluate([line.rstrip("\n") for line in stream])
        perplexities.append(
            f"| {name} | {evaluation.perplexity:.2f} | {evaluation.unknown_rate:.2%} |"
        )
    ours, glove = (json.loads(path.read_text()) for path in (args.transfer, args.glove))
    config = loaded.model.config
    sources = manifest["sources"]
    written = [f"{source['written_words']:,}" for source in sources]
    by_set = manifest["dropped_by_evaluation_set"]
    card = BILM_CARD.format(
        layers=config.layers,
        hidden=config.hidden,
        words=len(loaded.vocabulary),
        parameters=parameter_count(loaded.model),
        tokens=args.tokens,
        licence_file=LICENCE,
        companions=0 if loaded.word_vectors is None else len(loaded.word_vectors),
        companion_dim=0 if loaded.word_vectors is None else loaded.word_vectors.dim,
        perplexities="\n".join(perplexities),
        sets=" | ".join(SETS),
        bars="---|" * len(SETS),
        sentences="\n".join(sentence_rows(ours, glove)),
        word_rows="\n".join(word_rows(ours, glove)),
        dropped=sum(source["dropped_for_evaluation"] for source in sources),
        ngram=manifest["ngram"],
        dropped_by_set=", ".join(f"{name} {count:,}" for name, count in by_set.items()),
        weights="\n".join(
            f"| {source['name']} | {words} | {source['weight']:g} | {source['licence']} |"
            for source, words in zip(sources, written, strict=True)
        ),
        commands="\n".join(args.command),
        fingerprint=loaded.config["run"]["digest"][:16],
    )
    licence = BILM_LICENCE.format(
        sources="\n".join(
            f"| {source['name']} | {words} | {source['licence']} | {source['origin']} |"
            for source, words in zip(sources, written, strict=True)
        )
    )
    write_text(args.out / CARD, card)
    write_text(args.out / LICENCE, licence)
    write_json(args.out / "corpus.json", manifest)


def sentence_rows(ours: dict[str, Any], glove: dict[str, Any]) -> Iterator[str]:
    """The rows of the table of sentence vectors."""
    tables = [("GloVe 6B, 100 dimensions: ", glove["sentences"]), ("", ours["sentences"])]
    for prefix, table in tables:
        for name, row in table.items():
            yield f"| {prefix}{name} | {' | '.join(f'{row[column]:.3f}' for column in SETS)} |"


def word_rows(ours: dict[str, Any], glove: dict[str, Any]) -> Iterator[str]:
    """The rows of the table of word vectors."""
    for prefix, table in (("GloVe 6B: ", glove["words"]), ("", ours["words"])):
        for name, row in table.items():
            yield f"| {prefix}{name} | {row['WiC']:.3f} | {row['SCWS']:.3f} |"


if __name__ == "__main__":
    main()

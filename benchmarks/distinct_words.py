"""How many words pass the character CNN of a run: each once a batch, or once while remembered.

    python benchmarks/distinct_words.py [--source ag_news:test]

It counts, so that it may run beside other work; the words that fill up blocks are counted too.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.bilm.tokens import MOST_WORDS, WordCache
from elmo.embed.embedder import Embedder
from elmo.model_folder import LoadedModel
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

REMEMBERED = (0, 1 << 12, 1 << 14, MOST_WORDS)
CONFIG = BiLMConfig(
    input="characters",
    characters=CharacterConfig(char_dim=2, filters=((1, 4),)),
    hidden=4,
    softmax=SoftmaxConfig(loss="none", tied=False),
)


def main() -> None:
    """Embed the texts with a tiny model, once for each size of the memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", default="ag_news:test")
    given = parser.parse_args()
    model = BiLM(CONFIG, Vocabulary(SPECIAL_WORDS, (0, 0, 0)))
    embedder = Embedder(LoadedModel(model, TokenizerConfig()))
    texts = list(read_documents(resolve([given.source]), ReadOptions()))
    words = [word for text in texts for word in embedder.loaded.tokenize(text)]
    print(f"{len(texts):,} texts, {len(words):,} words, {len(set(words)):,} distinct ones")
    for most in REMEMBERED:
        model.token_layer.cache = WordCache(most)
        print(f"{most:>7,} remembered: {rows_computed(embedder, texts):>9,} words computed")


def rows_computed(embedder: Embedder, texts: list[str]) -> int:
    """Rows that reach the projection behind the CNN."""
    rows = 0

    def count(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        nonlocal rows
        rows += len(output)

    projection = embedder.model.token_layer.projection
    assert projection is not None
    hook = projection.register_forward_hook(count)
    for _ in embedder.encode_iter(texts, layer=0):
        pass
    hook.remove()
    return rows


if __name__ == "__main__":
    main()

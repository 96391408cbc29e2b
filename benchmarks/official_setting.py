"""What official models are measured with: random weights of published sizes, and sentences."""

from __future__ import annotations

from pathlib import Path

import torch

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.model_folder import LoadedModel
from elmo.official.format import save_official
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

SEED = 0
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}
"""Cells, projection and highways."""
LENGTHS = range(27, 34)


def some_sentences(number: int) -> list[list[str]]:
    """Sentences of about 30 words."""
    cut = build_tokenizer(TokenizerConfig(), None)
    documents = read_documents(resolve(["ag_news:test"]), ReadOptions())
    found = [words for words in map(cut, documents) if len(words) in LENGTHS][:number]
    assert len(found) == number, f"only {len(found)} sentences of {LENGTHS} words"
    return found


def make_model(folder: Path, size: str) -> Path:
    """Random weights in official files, the same every time."""
    if folder.exists():
        return folder
    cells, width, highways = SIZES[size]
    config = BiLMConfig(
        input="characters",
        characters=CharacterConfig(filters=FILTERS, highways=highways),
        hidden=cells,
        projection=width,
        skip=True,
        cell_clip=3.0,
        projection_clip=3.0,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    torch.manual_seed(SEED)
    model = BiLM(config, Vocabulary(SPECIAL_WORDS, (0, 0, 0)))
    save_official(LoadedModel(model, TokenizerConfig()), folder)
    return folder

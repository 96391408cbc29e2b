"""Tasks small enough to be learned in a second."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from tests.classify.toy import FILLERS, TOPICS, WORDS, toy_model

from elmo.classify.config import LearningConfig
from elmo.tasks.config import PairConfig, TaggerConfig, WordsConfig
from elmo.tasks.data import Pairs, TaggedTexts, conll_text

LEARNING = LearningConfig(
    epochs=8, batch_texts=8, learning_rate=0.03, text_rate=1.0, label_smoothing=0.0,
    development_share=0.2,
)  # fmt: skip
WORDS_CONFIG = WordsConfig(task_dim=4, task_min_count=1)
TAGGER = TaggerConfig(words=WORDS_CONFIG, encoder_dim=6, dropout=0.1, learning=LEARNING)
PAIRS = PairConfig(words=WORDS_CONFIG, encoder_dim=6, hidden=8, dropout=0.1, learning=LEARNING)


def toy_tags(number: int = 60, seed: int = 0, *, spans: bool = False) -> TaggedTexts:
    """A word's topic is its tag; with `spans`, neighbours of one topic are a span."""
    draw = random.Random(seed)
    words = [[draw.choice(WORDS) for _ in range(draw.randint(1, 8))] for _ in range(number)]
    topic = {word: name for name, some in TOPICS.items() for word in some}
    tags: list[list[str]] = []
    for sentence in words:
        kinds = [topic.get(word, "O") for word in sentence]
        if spans:
            before = [None, *kinds[:-1]]
            kinds = [
                kind if kind == "O" else f"{'I' if kind == last else 'B'}-{kind}"
                for kind, last in zip(kinds, before, strict=True)
            ]
        tags.append(kinds)
    return TaggedTexts(words, tags, [f"sentence {row + 1}" for row in range(number)])


def toy_pairs(number: int = 80, seed: int = 0, *, scores: bool = False) -> Pairs:
    """What the second text is about, or how many of both are about animals."""
    draw = random.Random(seed)
    first: list[str] = []
    second: list[str] = []
    targets: list[str] = []
    for _ in range(number):
        sides: list[str] = []
        topics: list[str] = []
        for _ in range(2):
            topics.append(draw.choice(sorted(TOPICS)))
            words = [draw.choice(FILLERS) for _ in range(draw.randint(0, 4))]
            sides.append(" ".join([*words, draw.choice(TOPICS[topics[-1]])]))
        first.append(sides[0])
        second.append(sides[1])
        targets.append(str(topics.count("animals")) if scores else topics[1])
    name = "score" if scores else "label"
    return Pairs(first, second, targets, [f"row {row}" for row in range(number)], name)


def write_toy(folder: Path) -> None:
    """A biLM, CoNLL files and tables of pairs."""
    toy_model().save_pretrained(folder / "bilm")
    for name, seed in (("train", 0), ("test", 1)):
        for kind in (False, True):
            data = toy_tags(40, seed, spans=kind)
            text = "".join(map(conll_text, data.words, data.tags))
            file = f"{name}_spans.conll" if kind else f"{name}.conll"
            (folder / file).write_text(text, encoding="utf-8")
        pairs = toy_pairs(40, seed)
        rows = zip(pairs.first, pairs.second, pairs.targets, strict=True)
        table = "sentence1\tsentence2\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(table, encoding="utf-8")


def epochs(config: TaggerConfig, number: int) -> TaggerConfig:
    """The same settings for another number of epochs."""
    return replace(config, learning=replace(config.learning, epochs=number))

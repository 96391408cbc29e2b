"""Write the stored model folders and expected outputs of `test_golden.py`.

    python tests/golden/make.py

They were made once, with elmo 0.1.0 at commit 05d06ac (271 source files), torch 2.13.0 on x86-64,
fp32, one thread. They show that folders written by that version stay readable and keep their
outputs, so a later version must never write them again: this script refuses to. To add a case,
run it with 0.1.0, and check that the existing files do not change.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

import elmo

HERE = Path(__file__).parent
VERSION = "0.1.0"

PRETRAIN = (
    "pretrain corpus.txt --min-count 2 --held-out-share 0.1 --epochs 3 --batch-tokens 256 "
    "--window 32 --samples 16 --precision fp32 --cache cache --threads 1 "
)
CLASSIFY = (
    "classify train train.csv --epochs 6 --batch-texts 16 --own-words 4 --own-min-count 2 "
    "--hidden 8 --encoder-dim 4 --threads 1 "
)
COMMANDS = {
    "words": PRETRAIN + "--word-dim 8 --hidden 8",
    "characters": PRETRAIN + "--input characters --char-dim 4 --filters 1 4 2 6 3 8 --no-tied "
    "--hidden 16 --projection 8 --skip --cell-clip 0.5 --projection-clip 0.4 --batching stream",
    "classifier": CLASSIFY + "--model words",
    "fine_tuned": CLASSIFY + "--model characters --mix function --function-hidden 8 "
    "--encoder lstm --elmo-at-output --pooling mean+max --fine-tune-epochs 2",
}
LEFT_OUT = ("checkpoints", ".lock", "log.jsonl", "*.png", "*.svg", "*.pdf", "mistakes_*")

TOPICS = {
    "money": "bank loan shares profit market price Monday",
    "river": "bank water boat fish stream bridge Élodie",
}
COMMON = ["the", "a", "was", "near", "in", "and", "of", "with", "today", "old", ".", ","]
TEXTS = [
    "The bank was near the old bridge .",
    "",
    "profit",
    "Shares of the bank fell on Monday , and the price of fish with it .",
    "naïve Zürich 漢字 🙂 don't 3.14",
    " ".join(["the old boat was in the stream ,"] * 8),
    "a loan today",
    "fish fish fish",
]
BLANKS = ["the old ___ was near the bridge .", "___ of the bank"]
NEWS = [
    "Oil prices fell on Monday as supply fears eased and shares rose .",
    "He scored twice in the second half as the champions won the final 3-1 .",
    "Rebels",
    "",
]
STARTS = ("zero", "warm", "carry")
LAYERS = (0, 1, 2, "mix", "top", "average", "all")


def main() -> None:
    """Train the tiny models, and store what they give."""
    if elmo.__version__ != VERSION:
        sys.exit(f"elmo {VERSION} has to write these files, this is {elmo.__version__}")
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        write_inputs(Path(scratch))
        for name, command in COMMANDS.items():
            args = [*command.split(), "--out", name]
            subprocess.run([sys.executable, "-m", "elmo", *args], cwd=scratch, check=True)
            shutil.rmtree(HERE / name, ignore_errors=True)
            shutil.copytree(Path(scratch) / name, HERE / name, ignore=ignored)
    # One of the two folders holds its warm start state, the other has it computed.
    elmo.Embedder.from_pretrained(HERE / "characters").store_start_state(HERE / "characters")
    arrays: dict[str, np.ndarray] = {}
    for name in ("words", "characters"):
        arrays |= vectors(name, elmo.Embedder.from_pretrained(HERE / name), TEXTS)
    for name in ("classifier", "fine_tuned"):
        classifier = elmo.TextClassifier.from_pretrained(HERE / name)
        arrays[f"{name} probabilities"] = classifier.predict_proba(TEXTS)
    arrays |= shipped_vectors()
    np.savez_compressed(HERE / "expected.npz", **arrays)
    stored = {
        "texts": TEXTS,
        "blanks": BLANKS,
        "news": NEWS,
        "score": {name: scores(name) for name in ("words", "characters")},
        "predict": {name: candidates(name) for name in ("words", "characters")},
    }
    text = json.dumps(stored, ensure_ascii=False, indent=1)
    (HERE / "expected.json").write_text(text + "\n", encoding="utf-8")


def write_inputs(folder: Path) -> None:
    """A corpus and a table of labelled texts, both invented."""
    rng = random.Random(0)

    def text(label: str) -> str:
        words = [
            rng.choice(TOPICS[label].split() if rng.random() < 0.5 else COMMON)
            for _ in range(rng.randint(2, 24))
        ]
        return " ".join(words)

    labels = sorted(TOPICS)
    corpus = [text(rng.choice(labels)) for _ in range(200)]
    (folder / "corpus.txt").write_text("\n".join(corpus) + "\n", encoding="utf-8")
    rows = [(label, text(label)) for label in rng.choices(labels, k=120)]
    table = "".join(f'{label},"{words}"\n' for label, words in rows)
    (folder / "train.csv").write_text("label,text\n" + table, encoding="utf-8")


def ignored(folder: str, names: list[str]) -> set[str]:
    """What a run folder holds but nobody needs to load it."""
    return shutil.ignore_patterns(*LEFT_OUT)(folder, names)


def vectors(name: str, embedder: elmo.Embedder, texts: list[str]) -> dict[str, np.ndarray]:
    """Every layer, start state and output; word vectors of all texts one after the other."""
    found: dict[str, np.ndarray] = {}
    for start in STARTS:
        for layer in LAYERS:
            key = f"{name} {layer} {start}"
            found[f"{key} pooled"] = embedder.encode(texts, layer=layer, start=start)
        words = embedder.encode(texts, output="tokens", layer="all", start=start)
        found[f"{name} all {start} tokens"] = np.concatenate(words, axis=1)
    pooling = "mean+max+first+last"
    found[f"{name} {pooling}"] = embedder.encode(texts, pooling=pooling)
    return found


def shipped_vectors() -> dict[str, np.ndarray]:
    """Some vectors of the model that comes with the package."""
    embedder = elmo.Embedder.from_pretrained()
    words = embedder.encode(NEWS[1:], output="tokens", layer="all")
    return {
        "shipped all zero pooled": embedder.encode(NEWS, layer="all"),
        "shipped mix warm pooled": embedder.encode(NEWS, start="warm"),
        "shipped all zero tokens": np.concatenate(words, axis=1),
        "shipped probabilities": elmo.TextClassifier.from_pretrained().predict_proba(NEWS),
    }


def scores(name: str) -> list[dict[str, object]]:
    """Log-probabilities of all words of each text that has words."""
    texts = [text for text in TEXTS if text]
    return [asdict(score) for score in elmo.LanguageModel.from_pretrained(HERE / name).score(texts)]


def candidates(name: str) -> list[dict[str, object]]:
    """The three best words for each blank."""
    found = elmo.LanguageModel.from_pretrained(HERE / name).fill(BLANKS, 3)
    return [asdict(prediction) for prediction in found]


if __name__ == "__main__":
    main()

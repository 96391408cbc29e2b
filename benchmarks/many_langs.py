"""A many-langs model of the published size: our speed, and that of the original's algorithm.

    python benchmarks/many_langs.py --folder build/many_langs [--sentences 64] [--repeats 3]

4096 cells, 512 projected, random weights of a fixed seed, written as an ELMoForManyLangs folder
that both read; fp32, one thread, batches of 32. The other program is written from the
specification: it sorts sentences by length, as the original does, runs the CNN over every position
of a padded batch and over all 50 characters, computes input and recurrent product at every step,
remembers no word and, as the original, records what a gradient would need. Texts are the first of
the AG News test file. Both are measured in turn, in seconds of processor time, since others may use
the machine; all layers are compared, and it fails if they differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo.embed.embedder import Embedder
from elmo.official.many_langs import (
    PUBLISHED,
    PUBLISHED_ARCHITECTURE,
    config_of,
    encoder_shapes,
    options_of,
    token_shapes,
)
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import tokenize_words

SEED = 0
BATCH = 32
AGREEMENT = 1e-3
Words = list[str]
Layers = list[np.ndarray[Any, Any]]


class Original:
    """The original's algorithm, from the specification of its file format."""

    def __init__(self, folder: Path) -> None:
        architecture = folder / "architecture.json"
        options = json.loads(architecture.read_text())
        self.encoder, self.embedder = options["encoder"], options["token_embedder"]
        self.weights: dict[str, Tensor] = {}
        for name in ("token_embedder.pkl", "encoder.pkl"):
            for key, tensor in torch.load(folder / name, weights_only=True).items():
                self.weights[key] = tensor.requires_grad_()
        self.words, self.characters = (
            {
                token: int(number)
                for token, _, number in (
                    line.rpartition("\t") for line in (folder / name).read_text().splitlines()
                )
            }
            for name in ("word.dic", "char.dic")
        )

    def encode(self, sentences: Sequence[Words], batch: int = BATCH) -> Layers:
        """All layers of each sentence, (1 + layers, words, 2 * width), from a state of zeros."""
        order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
        found: dict[int, np.ndarray[Any, Any]] = {}
        for first in range(0, len(order), batch):
            group = order[first : first + batch]
            found.update(zip(group, self._batch([sentences[n] for n in group]), strict=True))
        return [found[number] for number in range(len(sentences))]

    def _batch(self, sentences: Sequence[Words]) -> Layers:
        limit = self.embedder["max_characters_per_token"]
        texts = [["<bos>", *(word[: limit - 2] for word in words), "<eos>"] for words in sentences]
        lengths = [len(text) for text in texts]
        longest = lengths[0]
        words = torch.full((len(texts), longest), self.words["<pad>"])
        characters = torch.full((len(texts), longest, limit), self.characters["<pad>"])
        for row, text in enumerate(texts):
            for position, word in enumerate(text):
                words[row, position] = self.words.get(word, self.words["<oov>"])
                signs = [word] if word in ("<bos>", "<eos>") else list(word)
                ids = [self.characters.get(sign, self.characters["<oov>"]) for sign in signs]
                spelled = [self.characters["<eow>"], *ids, self.characters["<bow>"]]
                characters[row, position, : len(spelled)] = torch.tensor(spelled)
        tokens = self._tokens(words, characters)  # (texts, longest, width)
        ahead = self._stack("forward", tokens, lengths)
        behind = self._stack("backward", tokens, lengths)
        both = [torch.cat(pair, dim=2) for pair in zip(ahead, behind, strict=True)]
        layers = torch.stack([torch.cat([tokens, tokens], dim=2), *both]).detach().numpy()
        return [layers[:, row, 1 : length - 1] for row, length in enumerate(lengths)]

    def _tokens(self, words: Tensor, characters: Tensor) -> Tensor:
        shape = words.shape
        spelled = functional.embedding(
            characters.view(-1, characters.shape[2]),
            self.weights["char_emb_layer.embedding.weight"],
        ).transpose(1, 2)  # (words, char_dim, 50)
        features: list[Tensor] = []
        for number in range(len(self.embedder["filters"])):
            name = f"convolutions.{number}"
            weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
            features.append(functional.conv1d(spelled, weight, bias).max(dim=2).values.relu())
        x = torch.cat(features, dim=1)
        for number in range(self.embedder["n_highway"]):
            name = f"highways._layers.{number}"
            z = functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])
            transform, keep = z.chunk(2, dim=1)
            gate = keep.sigmoid()
            x = gate * x + (1 - gate) * transform.relu()
        vectors = functional.embedding(words, self.weights["word_emb_layer.embedding.weight"])
        joined = torch.cat([vectors, x.view(*shape, -1)], dim=2)
        return functional.linear(
            joined, self.weights["projection.weight"], self.weights["projection.bias"]
        )

    def _stack(self, direction: str, inputs: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        outputs: list[Tensor] = []
        for layer in range(self.encoder["n_layers"]):
            y = self._lstm(f"{direction}_layer_{layer}", inputs, lengths, direction == "backward")
            inputs = y if layer == 0 else y + inputs
            outputs.append(inputs)
        return outputs

    def _lstm(self, name: str, inputs: Tensor, lengths: Sequence[int], backward: bool) -> Tensor:
        """One step after the other; texts that have ended, or not begun, are left out."""
        part = {key: self.weights[f"{name}.{key}"] for key in (
            "input_linearity.weight", "state_linearity.weight", "state_linearity.bias",
            "state_projection.weight",
        )}  # fmt: skip
        texts, steps, width = inputs.shape
        h, c = inputs.new_zeros(texts, width), inputs.new_zeros(texts, self.encoder["dim"])
        outputs = inputs.new_zeros(texts, steps, width)
        for step in reversed(range(steps)) if backward else range(steps):
            alive = sum(length > step for length in lengths)  # the longest texts come first
            gates = functional.linear(inputs[:alive, step], part["input_linearity.weight"])
            gates = gates + functional.linear(
                h[:alive], part["state_linearity.weight"], part["state_linearity.bias"]
            )
            i, f, candidate, o = gates.chunk(4, dim=1)
            cell = i.sigmoid() * candidate.tanh() + f.sigmoid() * c[:alive]
            cell = cell.clamp(-self.encoder["cell_clip"], self.encoder["cell_clip"])
            output = functional.linear(o.sigmoid() * cell.tanh(), part["state_projection.weight"])
            output = output.clamp(-self.encoder["proj_clip"], self.encoder["proj_clip"])
            h, c = torch.cat([output, h[alive:]]), torch.cat([cell, c[alive:]])
            outputs[:alive, step] = output
        return outputs


def make_model(folder: Path, sentences: Sequence[Words], architecture: Any) -> Path:
    """Random weights and the dictionaries of the texts, the same every time."""
    if (folder / "encoder.pkl").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    words = sorted({word for words in sentences for word in words})[::2]  # the others are unknown
    signs = sorted(set("".join(words)))
    tables = {
        "word.dic": ["<oov>", "<bos>", "<eos>", "<pad>", *words],
        "char.dic": [*signs, "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"],
    }
    for name, tokens in tables.items():
        lines = (f"{token}\t{number}\n" for number, token in enumerate(tokens))
        (folder / name).write_text("".join(lines))
    (folder / "architecture.json").write_text(json.dumps(architecture))
    (folder / "config.json").write_text(json.dumps({"config_path": f"/x/{PUBLISHED[0]}"}))
    if architecture is not PUBLISHED_ARCHITECTURE:
        (folder / "config.json").write_text(json.dumps({"config_path": "architecture.json"}))
    config = config_of(*options_of(architecture, ""), "")
    random = torch.Generator().manual_seed(SEED)
    rows = {"word_emb_layer": len(tables["word.dic"]), "char_emb_layer": len(tables["char.dic"])}
    for name, shapes in (
        ("token_embedder.pkl", token_shapes(config)),
        ("encoder.pkl", encoder_shapes(config)),
    ):
        state: dict[str, Tensor] = {}
        for key, shape in shapes.items():
            sizes = [rows[key.partition(".")[0]] if size is None else size for size in shape]
            spread = 1.0 if "embedding" in key else float(np.prod(sizes[1:])) ** -0.5
            state[key] = torch.randn(sizes, generator=random) * (spread if len(sizes) > 1 else 0.1)
        torch.save(state, folder / name)
    return folder


def measured(work: Callable[[], Layers]) -> tuple[float, float, Layers]:
    """Seconds of processor time and of the clock, and what was computed."""
    clock, processor = time.perf_counter(), time.process_time()
    layers = work()
    return time.process_time() - processor, time.perf_counter() - clock, layers


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--texts", nargs="+", default=["ag_news:test"])
    parser.add_argument("--architecture", type=Path, help="Default: that of all published models.")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    documents = read_documents(resolve(args.texts), ReadOptions())
    sentences = [words for words in map(tokenize_words, documents) if words][: args.sentences]
    architecture = PUBLISHED_ARCHITECTURE
    if args.architecture is not None:
        architecture = json.loads(args.architecture.read_text())
    folder = make_model(args.folder, sentences, architecture)
    original, embedder = Original(folder), Embedder.from_pretrained(folder)
    tokens = sum(map(len, sentences))

    def ours(batch: int) -> Layers:
        embedder.model.token_layer.cache.clear()
        options: dict[str, Any] = {"output": "tokens", "layer": "all"}
        order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
        found: dict[int, Any] = {}
        for first in range(0, len(order), batch):
            group = order[first : first + batch]
            texts = [sentences[number] for number in group]
            found.update(zip(group, embedder.encode(texts, **options), strict=True))
        return [found[number] for number in range(len(sentences))]

    programs: dict[str, Callable[[], Layers]] = {
        "original's algorithm, batch 32": lambda: original.encode(sentences),
        "elmo, batch 32": lambda: ours(BATCH),
        "elmo, all texts at once": lambda: ours(len(sentences)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    apart, expected = 0.0, None
    for _ in range(args.repeats):
        for name, work in programs.items():
            processor, clock, layers = measured(work)
            seconds[name].append(processor)
            print(f"{name}: {processor:.1f} s of the processor, {clock:.1f} s of the clock")
            expected = expected or layers
            apart = max(
                apart,
                *(float(np.abs(a - b).max()) for a, b in zip(layers, expected, strict=True)),
            )
    first = statistics.median(next(iter(seconds.values())))
    print(f"\n{platform.processor() or platform.machine()}, torch {torch.__version__}, one thread")
    print(f"{len(sentences)} texts, {tokens:,} words, {args.repeats} repeats, seed {SEED}\n")
    print("| program | words per second of one core (median) | ratio |\n|---|---|---|")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {tokens / median:,.0f} | {first / median:.2f} |")
    print(f"\nlargest difference of any layer: {apart:.1e}")
    return 0 if apart < AGREEMENT else 1


if __name__ == "__main__":
    raise SystemExit(main())

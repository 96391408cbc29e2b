"""Official ELMo models of the three published sizes: our speed, and that of two other programs.

    python benchmarks/official.py --folder build/official [--sizes small] [--repeats 5]

The others are a plain step-by-step implementation (StepByStep) and simple_elmo from PyPI, which
gets an environment of its own in the folder (--environment to use another). Weights are random,
of a fixed seed; sentences are those of about 30 words of the AG News test file; each repeat
begins with nothing remembered. All programs are measured in turn, repeat by repeat. It fails if
they do not agree, or if the machine has other work to do (--allow-busy to try it all the same:
the figures are then worth nothing).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.bilm.tokens import WordCache
from elmo.embed.embedder import Embedder
from elmo.language_model import LanguageModel
from elmo.runtime import keep_freed_memory
from elmo.text.config import ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from harness import ALLOWED, Usage, cores_busy

# Official ELMo the plain way: every word of a batch through the CNN, then one step at a time.
#
# It reads options.json and the HDF5 file itself and uses nothing of the package: what is measured
# against it is also compared with it.


ROWS_AT_ONCE = 512
"""Of words in the CNN: all of a batch at once would take gigabytes."""


class StepByStep:
    """A model whose weights are kept in the number format it computes in."""

    def __init__(self, folder: Path, kind: torch.dtype = torch.float32) -> None:
        self.options: dict[str, Any] = json.loads((folder / "options.json").read_text())
        self.kind = kind
        self.weights: dict[str, Tensor] = {}
        with h5py.File(next(folder.glob("*.hdf5"))) as file:
            file.visititems(self._add)

    def _add(self, name: str, found: Any) -> None:
        if isinstance(found, h5py.Dataset):
            self.weights[name] = torch.from_numpy(np.asarray(found[()])).to(self.kind)

    @torch.no_grad()
    def encode(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray[Any, Any]]:
        """All layers of each sentence, (1 + layers, words, 2 * width)."""
        texts = [["<S>", *words, "</S>"] for words in sentences]
        longest = max(map(len, texts))
        rows = [spelled(word) for text in texts for word in text + ["</S>"] * (longest - len(text))]
        tokens = self._tokens(torch.tensor(rows)).view(len(texts), longest, -1)
        lengths = torch.tensor([len(text) for text in texts])
        ahead = self._stack(0, tokens)
        places = (lengths[:, None] - 1 - torch.arange(longest)).clamp(min=0)
        behind = [_gathered(one, places) for one in self._stack(1, _gathered(tokens, places))]
        both = [torch.cat(pair, dim=2) for pair in zip(ahead, behind, strict=True)]
        layers = torch.stack([torch.cat([tokens, tokens], dim=2), *both]).float().numpy()
        return [layers[:, row, 1 : len(text) - 1] for row, text in enumerate(texts)]

    def _tokens(self, rows: Tensor) -> Tensor:
        return torch.cat([self._cnn(part) for part in rows.split(ROWS_AT_ONCE)])

    def _cnn(self, rows: Tensor) -> Tensor:
        characters = self.weights["char_embed"][rows].transpose(1, 2)
        features: list[Tensor] = []
        for place in range(len(self.options["char_cnn"]["filters"])):
            weight = self.weights[f"CNN/W_cnn_{place}"][0].permute(2, 1, 0)
            bias = self.weights[f"CNN/b_cnn_{place}"]
            features.append(functional.conv1d(characters, weight, bias).amax(dim=2).relu())
        x = torch.cat(features, dim=1)
        for place in range(self.options["char_cnn"]["n_highway"]):
            part = f"CNN_high_{place}"
            gate = torch.sigmoid(self._linear(x, f"{part}/W_carry", f"{part}/b_carry"))
            new = self._linear(x, f"{part}/W_transform", f"{part}/b_transform").relu()
            x = gate * new + (1 - gate) * x
        return self._linear(x, "CNN_proj/W_proj", "CNN_proj/b_proj")

    def _linear(self, x: Tensor, weight: str, bias: str) -> Tensor:
        return x @ self.weights[weight] + self.weights[bias]

    def _stack(self, direction: int, inputs: Tensor) -> list[Tensor]:
        layers: list[Tensor] = []
        for layer in range(self.options["lstm"]["n_layers"]):
            outputs = self._lstm(f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell", inputs)
            if layer > 0 and self.options["lstm"].get("use_skip_connections"):
                outputs = outputs + inputs
            layers.append(outputs)
            inputs = outputs
        return layers

    def _lstm(self, where: str, inputs: Tensor) -> Tensor:
        lstm = self.options["lstm"]
        weight, bias = self.weights[f"{where}/W_0"], self.weights[f"{where}/B"]
        projection = self.weights[f"{where}/W_P_0"]
        batch, steps, width = inputs.shape
        h, c = inputs.new_zeros(batch, width), inputs.new_zeros(batch, lstm["dim"])
        outputs: list[Tensor] = []
        for step in range(steps):
            gates = torch.cat([inputs[:, step], h], dim=1) @ weight + bias
            i, j, f, o = gates.chunk(4, dim=1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
            c = c.clamp(-lstm["cell_clip"], lstm["cell_clip"])
            h = (torch.sigmoid(o) * torch.tanh(c)) @ projection
            h = h.clamp(-lstm["proj_clip"], lstm["proj_clip"])
            outputs.append(h)
        return torch.stack(outputs, dim=1)


def spelled(word: str) -> list[int]:
    """A word as the 50 characters of the specification, without the shift by one."""
    inside = {"<S>": [256], "</S>": [257]}.get(word, list(word.encode()[:48]))
    row = [258, *inside, 259]
    return row + [260] * (50 - len(row))


def _gathered(values: Tensor, places: Tensor) -> Tensor:
    """Of each text, (batch, time, size), the values at these places, (batch, time)."""
    return values.gather(1, places[:, :, None].expand(-1, -1, values.shape[2]))


# Programs that compute official ELMo models: ours, the plain one, and simple_elmo in a process.


PACKAGES = ("simple_elmo", "tensorflow", "tf_keras")

Words = list[str]
Layers = list[NDArray[np.float32]]


@dataclass
class Program:
    """One way to compute the layers."""

    name: str
    encode: Callable[[Sequence[Words]], float]
    """Read some sentences in one batch or several; the seconds it took."""
    layers: Callable[[Sequence[Words]], Layers]
    pid: int | None = None
    """Of the process that does it, if it is another."""


def environment(folder: Path) -> Path:
    """The Python of an environment with simple_elmo, made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (folder / "ready").touch()
    return python


def ours(
    name: str, folder: Path, batch: int, precision: Any, most_words: int | None = None
) -> Program:
    """This package, as people call it."""
    embedder = Embedder.from_pretrained(folder, dtype=precision)
    if most_words is not None:
        embedder.model.token_layer.cache = WordCache(most_words)

    def layers(sentences: Sequence[Words]) -> Layers:
        found: Layers = []
        for first in range(0, len(sentences), batch):
            part = sentences[first : first + batch]
            found += embedder.encode(part, output="tokens", layer="all", batch_tokens=64 * batch)
        return found

    def encode(sentences: Sequence[Words]) -> float:
        embedder.model.token_layer.cache.clear()
        return timed(lambda: layers(sentences))

    return Program(name, encode, layers)


def plain(name: str, folder: Path, batch: int, kind: torch.dtype) -> Program:
    """The step-by-step implementation."""
    model = StepByStep(folder, kind)

    def layers(sentences: Sequence[Words]) -> Layers:
        starts = range(0, len(sentences), batch)
        return [one for first in starts for one in model.encode(sentences[first : first + batch])]

    return Program(name, lambda sentences: timed(lambda: layers(sentences)), layers)


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Worker:
    """simple_elmo in a process of its own, which times itself."""

    def __init__(self, python: Path, folder: Path, batch: int) -> None:
        self._file = folder / "simple_elmo.npy"
        script = Path(__file__).with_name("simple_elmo_worker.py")
        self._process = subprocess.Popen(
            [python, script, folder, str(batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.pid = self._process.pid
        self._answer()

    def encode(self, sentences: Sequence[Words]) -> float:
        """The seconds it says it took."""
        return self._ask(sentences, None)

    def layers(self, sentences: Sequence[Words]) -> Layers:
        """What it computes, from a state of zeros."""
        self._ask(sentences, str(self._file))
        found = np.load(self._file)
        self._file.unlink()
        return [found[row, :, : len(words)] for row, words in enumerate(sentences)]

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _ask(self, sentences: Sequence[Words], path: str | None) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(sentences), path]) + "\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"simple_elmo ended with {self._process.wait()}; run {__file__} without it?")
        return json.loads(line)


# What official models are measured with: random weights of published sizes, and sentences.


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
    LanguageModel(model).save_official(folder)
    return folder


AGREEMENT = 1e-4
COMPARED = 32
"""Sentences that are compared number by number."""
LEAST_SENTENCES = 128
"""Read in a repeat: one of a few sentences would be too short to measure, and all its words new."""


@dataclass(frozen=True)
class Figure:
    """Tokens a second of a program, and who else was there."""

    size: str
    batch: int
    program: str
    median: float
    lowest: float
    highest: float
    cores_of_others: float


@dataclass(frozen=True)
class Deviation:
    """How far bf16 is from fp32 in one layer."""

    size: str
    layer: int
    mean_cosine: float
    lowest_cosine: float
    largest_difference: float


def main() -> None:
    """Make the models, measure, print tables; a JSON file keeps the figures."""
    given = _arguments()
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    before = cores_busy()
    print(_machine(given.threads, before))
    if before > ALLOWED and not given.allow_busy:
        sys.exit(f"others keep {before:.2f} cores busy; wait until they are done (or --allow-busy)")
    python = None if given.without_simple_elmo else environment(_environment_folder(given))
    figures: list[Figure] = []
    deviations: list[Deviation] = []
    for size in given.sizes:
        make_model(given.folder / size, size)
        if "bf16" in given.precisions:
            deviations += compare_precisions(size, given.folder / size)
        for batch in given.batches:
            print(f"{size}, batch {batch}", flush=True)
            figures += measure(given, size, batch, python)
    tell(figures, deviations)
    content = {"figures": list(map(asdict, figures)), "deviations": list(map(asdict, deviations))}
    (given.folder / "official.json").write_text(json.dumps(content, indent=1))
    worst = max((figure.cores_of_others for figure in figures), default=0.0)
    if worst > ALLOWED and not given.allow_busy:
        sys.exit(f"others took up to {worst:.2f} cores meanwhile: these figures are worth nothing")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="models, environment, figures")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument(
        "--batches", nargs="*", type=int, default=[1, 32, 128], help="none: only how far bf16 is"
    )
    parser.add_argument("--rounds", type=int, default=4, help="batches a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"]
    )
    parser.add_argument("--environment", type=Path, help="one that holds simple_elmo, or shall")
    parser.add_argument("--without-simple-elmo", action="store_true")
    parser.add_argument("--allow-busy", action="store_true")
    return parser.parse_args()


def _environment_folder(given: argparse.Namespace) -> Path:
    return given.environment or given.folder / "environment"


def measure(given: argparse.Namespace, size: str, batch: int, python: Path | None) -> list[Figure]:
    """All programs in turn, repeat by repeat; the first turn is not counted."""
    folder = given.folder / size
    sentences = some_sentences(max(LEAST_SENTENCES, batch * given.rounds))
    programs = [ours("ours fp32", folder, batch, "fp32")]
    programs.append(ours("ours fp32, no cache", folder, batch, "fp32", most_words=0))
    programs.append(plain("step by step fp32", folder, batch, torch.float32))
    if "bf16" in given.precisions:
        programs.append(ours("ours bf16", folder, batch, "bf16"))
        programs.append(plain("step by step bf16", folder, batch, torch.bfloat16))
    worker = None if python is None else Worker(python, folder, batch)
    if worker is not None:
        programs.append(Program("simple_elmo", worker.encode, worker.layers, worker.pid))
    agree(programs, sentences[: min(batch, COMPARED)])
    seconds: dict[str, list[float]] = {program.name: [] for program in programs}
    busy: dict[str, float] = dict.fromkeys(seconds, 0.0)
    for turn in range(given.repeats + 1):
        for program in programs:
            others = [] if program.pid is None else [program.pid]
            before = Usage.now(others)
            took = program.encode(sentences)
            if turn:
                seconds[program.name].append(took)
                seen = before.cores_of_others(Usage.now(others))
                busy[program.name] = max(busy[program.name], seen)
    if worker is not None:
        worker.close()
    tokens = sum(map(len, sentences))
    return [
        _figure(size, batch, name, [tokens / one for one in times], busy[name])
        for name, times in seconds.items()
    ]


def _figure(size: str, batch: int, name: str, speeds: list[float], busy: float) -> Figure:
    return Figure(size, batch, name, statistics.median(speeds), min(speeds), max(speeds), busy)


def agree(programs: Sequence[Program], sentences: Sequence[Words]) -> None:
    """Make sure that all programs in fp32 compute the same."""
    exact = [program for program in programs if "bf16" not in program.name]
    wanted = exact[0].layers(sentences)
    for program in exact[1:]:
        pairs = zip(wanted, program.layers(sentences), strict=True)
        gap = max(float(np.abs(one - other).max()) for one, other in pairs)
        print(f"  {exact[0].name} and {program.name}: largest difference {gap:.1e}", flush=True)
        if not gap <= AGREEMENT:
            sys.exit(f"{program.name} does not agree: {gap:.1e} is more than {AGREEMENT:.0e}")


def compare_precisions(size: str, folder: Path) -> list[Deviation]:
    """How far our bf16 is from our fp32, layer by layer."""
    sentences = some_sentences(COMPARED)
    exact, coarse = (
        np.concatenate(ours("", folder, COMPARED, kind).layers(sentences), axis=1)
        for kind in ("fp32", "bf16")
    )
    found: list[Deviation] = []
    for layer, (one, other) in enumerate(zip(exact, coarse, strict=True)):
        sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(axis=1) / sizes
        gap = float(np.abs(one - other).max())
        found.append(Deviation(size, layer, float(cosines.mean()), float(cosines.min()), gap))
    return found


def tell(figures: Sequence[Figure], deviations: Sequence[Deviation]) -> None:
    """Print the tables."""
    if figures:
        tell_speeds(figures)
    if deviations:
        tell_deviations(deviations)


def tell_speeds(figures: Sequence[Figure]) -> None:
    """Print how fast each program is."""
    theirs = {(one.size, one.batch): one for one in figures if one.program == "simple_elmo"}
    print("\n| model | batch | program | tokens/s | lowest to highest | × simple_elmo | others |")
    print("|---|---|---|---|---|---|---|")
    for one in figures:
        other = theirs.get((one.size, one.batch))
        ratio = "" if other is None else f"{one.median / other.median:.2f}"
        spread = f"{one.lowest:,.0f} to {one.highest:,.0f}"
        print(
            f"| {one.size} | {one.batch} | {one.program} | {one.median:,.0f} | {spread} "
            f"| {ratio} | {one.cores_of_others:.2f} cores |"
        )


def tell_deviations(deviations: Sequence[Deviation]) -> None:
    """Print how far bf16 is from fp32."""
    print("\n| model | layer | mean cosine of bf16 and fp32 | lowest | largest difference |")
    print("|---|---|---|---|---|")
    for two in deviations:
        print(
            f"| {two.size} | {two.layer} | {two.mean_cosine:.6f} | {two.lowest_cosine:.6f} | "
            f"{two.largest_difference:.4f} |"
        )


def _machine(threads: int, busy: float) -> str:
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {threads} threads, torch "
        f"{torch.__version__}, Python {platform.python_version()}; others take {busy:.2f} cores"
    )


if __name__ == "__main__":
    main()

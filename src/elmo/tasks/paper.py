"""The paper's tables and figures, made anew with any biLM on public data.

A cell is one training, one probe or one search. Each finished cell is a file, so the same call
resumes; `collect` turns the cells into results.json, which `tasks/report.py` lays out.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import elmo
from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.data import LabelledTexts, read_labelled
from elmo.classify.features import FrozenFeatures, TokenizedTexts, cut_texts, tokenize_texts
from elmo.classify.metrics import LEVEL, compare, wilson
from elmo.classify.training import train as train_texts
from elmo.config import Json, check, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.files import locked_folder, read_json, remove_folder, remove_leftovers, write_json
from elmo.language_model import LanguageModel, weights_checksum
from elmo.runtime import cpu_cores, processor_name
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import PairConfig, PaperConfig, ProbeConfig, TaggerConfig, Where, WordsConfig
from elmo.tasks.data import Pairs, TaggedTexts, parse_scores, read_pairs, read_tagged
from elmo.tasks.pairs import PairClassifier, measure_scores
from elmo.tasks.probe import no_vocabulary, run_probe
from elmo.tasks.report import findings
from elmo.tasks.senses import read_semcor
from elmo.tasks.tagger import TokenTagger
from elmo.tasks.tags import measure_tags, span_counts
from elmo.text.config import ReadOptions
from elmo.text.readers import read_lines
from elmo.training.checkpoint import check_same_job

TITLES = {
    "pos": "Parts of speech (UD EWT)",
    "ner": "Names (WNUT17)",
    "sst5": "Sentiment (SST-5)",
    "snli": "Inference (SNLI)",
    "ag_news": "Topics (AG News)",
    "stsb": "Relatedness (STS-B)",
}
MEASURES = {"ner": "F1", "stsb": "Pearson"}
TEXT_TASKS = ("sst5", "ag_news")
MIXES = {
    "last layer": MixConfig(mix="top"),
    "all layers, λ = 1": MixConfig(mix_pull=1.0),
    "all layers, λ = 0.001": MixConfig(mix_pull=0.001),
}
MIX = MixConfig(mix_pull=0.001)
"""The mix of all other cells: the paper's choice for most tasks."""
FILES = {
    "pos": [f"ud_english_ewt/en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test")],
    "ner": [
        "wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated",
    ],
}  # fmt: skip
ROWS = {"ag_news": 10_000}
"""Training rows where all of them would take longer than the other tasks together."""
INPUTS = {"words": "words", "characters": "characters", "both": "words and characters"}
CELLS, RESULTS, JOB = "cells", "results.json", "job.json"
RESAMPLES = 10_000
FEWEST_DEVELOPMENT = 200
"""A fraction of the training rows comes with as many development rows, but at least this many."""
Data = tuple[Any, Any, Any]
"""Rows to train on, to choose the epoch by, and to test on."""
OnCell = Callable[[str, str, int, int], None]
"""Told the name of a cell, its state, how many are done and how many there are."""

log = logging.getLogger(__name__)


# Data.


def load_task(name: str, folder: Path, config: PaperConfig) -> Data:
    """Train, development and test rows; SST-5 and AG News take development rows from train."""
    if name in ("pos", "ner"):
        files = FILES[name]
        parts: list[Any] = [read_tagged(str(folder / file)) for file in files]
    elif name == "snli":
        options = ReadOptions(quotes=False)
        parts = [
            read_pairs(str(folder / "snli" / f"{part}.tsv.gz"), options=options)
            for part in ("train_subset", "validation", "test")
        ]
        parts[1] = cut(parts[1], 2000)
    elif name == "stsb":
        parts = [
            _read_stsb(folder / "stsb" / f"sts-{part}.csv.gz") for part in ("train", "dev", "test")
        ]
    elif name == "sst5":
        parts = [
            _read_sst(folder / "sst" / f"stsa.fine.{part}.gz") for part in ("train", "dev", "test")
        ]
    else:
        train = sorted((folder / "ag_news").glob("train*.csv*"))
        path = next((one for one in train if "partial" in one.name), train[0] if train else None)
        if path is None:
            raise UserError(f"{folder / 'ag_news'}: expected train.csv or a part of it")
        parts = [read_labelled(str(one), ReadOptions(header="no", column="2"), "0")
                 for one in (path, folder / "ag_news" / "test.csv")]  # fmt: skip
        parts.insert(1, None)
    train_rows = config.train_rows or ROWS.get(name)
    return (
        cut(parts[0], train_rows),
        None if parts[1] is None else cut(parts[1], config.train_rows),
        cut(parts[2], config.test_rows),
    )


def row_count(data: Any) -> int:
    """Sentences, pairs or texts."""
    return len(data.texts) if isinstance(data, LabelledTexts) else len(data)


def cut(data: Any, count: int | None) -> Any:
    """At most `count` rows, drawn at random by a fixed seed, in their order. Default: all."""
    total = row_count(data)
    if count is None or count >= total:
        return data
    rows = np.sort(np.random.default_rng(0).permutation(total)[: max(2, count)]).tolist()
    if isinstance(data, TaggedTexts):
        return TaggedTexts(
            [data.words[row] for row in rows],
            [data.tags[row] for row in rows],
            [data.locations[row] for row in rows],
        )
    return data.select(rows)


def _read_stsb(path: Path) -> Pairs:
    """STS-B as it is published: tabs, literal quotes, and further columns in some rows."""
    pairs = Pairs([], [], [], [], "score")
    for number, line in enumerate(read_lines(path, ReadOptions()), start=1):
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) < 7:
            raise UserError(f"'{path}', line {number}: expected 7 columns, got {len(fields)}")
        pairs.targets.append(fields[4])
        pairs.first.append(fields[5])
        pairs.second.append(fields[6])
        pairs.locations.append(f"'{path}', line {number}")
    return pairs


def _read_sst(path: Path) -> LabelledTexts:
    """SST: the label, a space, and the sentence."""
    rows = [line.rstrip("\n").partition(" ") for line in read_lines(path, ReadOptions())]
    return LabelledTexts(
        [text for _, _, text in rows],
        [label for label, _, _ in rows],
        [f"'{path}', line {number}" for number in range(1, len(rows) + 1)],
    )


# One training.


def read_layers(
    loaded: LanguageModel, data: Data, scratch: Path, settings: PaperConfig
) -> FrozenFeatures:
    """The layers of a task's training and development rows, which all of its trainings share."""
    train, development, _ = data
    if isinstance(train, TaggedTexts):
        words = [*train.words, *development.words]
    elif isinstance(train, Pairs):
        both = train + development
        sides: list[Any] = [
            text for pair in zip(both.first, both.second, strict=True) for text in pair
        ]
        words = cut_texts(tokenize_texts(loaded, sides), PairConfig().max_words)
    else:
        words = cut_texts(tokenize_texts(loaded, train.texts), NetworkConfig().max_words)
    loaded.model.requires_grad_(False)
    texts = TokenizedTexts(words, no_vocabulary())
    return FrozenFeatures.compute(
        texts, loaded.model, memory=settings.feature_memory, folder=scratch
    )


def _learning(learning: LearningConfig, config: PaperConfig, seed: int) -> LearningConfig:
    if config.epochs is None:
        return replace(learning, seed=seed)
    # All epochs: one without a better accuracy, as in SNLI without ELMo, may be early in the cycle.
    return replace(learning, seed=seed, epochs=config.epochs, patience=None)


def train_cell(
    name: str,
    loaded: LanguageModel,
    data: Data,
    config: PaperConfig,
    *,
    where: Where,
    mix: MixConfig = MIX,
    seed: int,
    fraction: float = 1.0,
    vectors: StaticVectors | None = None,
    features: FrozenFeatures | None = None,
) -> Json:
    """Train a task's model once and test it; the same model and budget with and without ELMo.

    Args:
        features: What `read_layers` returns, for all rows; a fraction of them is read anew.
    """
    started = time.process_time()
    train, development, test = data
    if fraction < 1:
        train, features = cut(train, max(8, round(fraction * row_count(train)))), None
        if development is not None:
            # Few rows mean many short epochs: each on all development rows took most of the time.
            development = cut(development, max(FEWEST_DEVELOPMENT, row_count(train)))
    words = WordsConfig(elmo=where, mix=mix)
    if vectors is not None:
        words = replace(words, task_dim=vectors.dim)
    weights: Sequence[float] | None
    rows: NDArray[Any] | None = None  # of measures that are no mean over decisions
    right: list[bool] = []
    if isinstance(train, TaggedTexts):
        settings = TaggerConfig(words=words)
        learning = _learning(settings.learning, config, seed)
        tagger = TokenTagger(config=replace(settings, learning=learning))
        history = tagger.train(
            loaded, train, development, vectors=vectors, features=features
        ).history
        predicted = tagger.predict(test.words)
        metrics = measure_tags(test.tags, predicted)
        main, weights = metrics.main, tagger.network.mix.weights
        if metrics.f1 is not None:
            rows = span_counts(test.tags, predicted)
        else:
            pairs = zip(predicted, test.tags, strict=True)
            right = [a == b for some, gold in pairs for a, b in zip(some, gold, strict=True)]
    elif isinstance(train, Pairs):
        pair_settings = PairConfig(words=words)
        learning = _learning(pair_settings.learning, config, seed)
        classifier = PairClassifier(config=replace(pair_settings, learning=learning))
        history = classifier.train(
            loaded, train, development, vectors=vectors, features=features
        ).history
        found = classifier.predict(list(zip(test.first, test.second, strict=True)))
        weights = classifier.network.mix.weights
        if classifier.config_.target == "score":
            gold = np.array(parse_scores(test))
            main, rows = measure_scores(found, gold).pearson, moments(found, gold)
        else:
            right = [a == b for a, b in zip(found, test.targets, strict=True)]
            main = wilson(sum(right), len(right))
    else:
        # gamma 0 leaves zeros of ELMo: the same network, which reads task embeddings alone.
        used = mix if where != "none" else MixConfig(mix="average", gamma=0.0)
        network = NetworkConfig(mix=used, task_min_count=2)
        text_config = ClassifierConfig(
            parts="network",
            network=network if vectors is None else replace(network, task_dim=vectors.dim),
            learning=LearningConfig(seed=seed, epochs=config.epochs),
        )
        trained = train_texts(loaded, train, text_config, word_vectors=vectors, features=features)
        history = trained.history
        labels = trained.classifier.predict(test.texts)
        right = [str(a) == b for a, b in zip(labels, test.labels or (), strict=True)]
        main = wilson(sum(right), len(right))
        assert trained.classifier.network is not None
        weights = trained.classifier.network.mix.weights
    return {
        "task": name,
        "elmo": where,
        "seed": seed,
        "fraction": fraction,
        "rows": row_count(train),
        "test_rows": row_count(test),
        "test": {"value": main.value, "low": main.low, "high": main.high},
        "right": np.packbits(np.array(right, np.bool_)).tobytes().hex(),
        "decisions": len(right),
        "totals": None if rows is None else rows.tolist(),
        "development": [report.development_accuracy for report in history],
        "layer_weights": None if where == "none" else weights,
        "cpu_seconds": time.process_time() - started,
    }


# Two arms on the same test rows.


def moments(predicted: NDArray[Any], gold: NDArray[Any]) -> NDArray[np.float64]:
    """Per row what sums to Pearson's correlation: 1, x, y, x², y², xy."""
    x, y = (some.astype(np.float64) - gold.mean() for some in (predicted, gold))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def score_of(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """F1 of sums of span counts, (…, 3), or Pearson's correlation of sums of moments, (…, 6)."""
    if totals.shape[-1] == 3:
        correct, predicted, true = np.moveaxis(totals, -1, 0)
        return 2 * correct / np.maximum(1, predicted + true)
    count, x, y, xx, yy, xy = np.moveaxis(totals, -1, 0)
    spread = np.maximum(0, xx - x * x / count) * np.maximum(0, yy - y * y / count)
    return (xy - x * y / count) / np.sqrt(np.maximum(spread, 1e-30))


def compare_arms(first: Sequence[Json], second: Sequence[Json]) -> Json:
    """By how much the first arm is better, with interval and p-value; one cell per seed in each.

    Accuracies have the exact test of `compare`. F1 and correlations are functions of sums over
    rows: the p-value is that of 10,000 random swaps of both arms' answers to a row, all seeds of it
    together; the interval is a bootstrap over rows and seeds.
    """
    if first[0]["totals"] is None:
        bits = [
            np.stack([
                np.unpackbits(np.frombuffer(bytes.fromhex(cell["right"]), np.uint8))
                [: cell["decisions"]].astype(np.bool_)
                for cell in cells
            ])
            for cells in (first, second)
        ]  # fmt: skip
        paired = compare(*bits)
        return {name: getattr(paired, name) for name in ("difference", "low", "high", "p")}
    a, b = (np.array([cell["totals"] for cell in cells], np.float64) for cells in (first, second))
    seeds, rows, size = a.shape
    sums = [part.sum(1) for part in (a, b)]  # (seeds, size)
    difference = float(score_of(sums[0]).mean() - score_of(sums[1]).mean())
    random = np.random.default_rng(0)
    flat = [np.moveaxis(part, 0, 1).reshape(rows, -1) for part in (a, b)]  # (rows, seeds * size)
    as_extreme, draws = 0, list[NDArray[np.float64]]()
    for _ in range(RESAMPLES // 500):
        swapped = (random.integers(0, 2, (500, rows)) @ (flat[1] - flat[0])).reshape(
            500, seeds, size
        )
        swaps = score_of(sums[0] + swapped).mean(1) - score_of(sums[1] - swapped).mean(1)
        as_extreme += int((np.abs(swaps) >= abs(difference) - 1e-12).sum())
        counts = random.multinomial(rows, np.full(rows, 1 / rows), 500)
        scores = [score_of((counts @ part).reshape(500, seeds, size)) for part in flat]
        chosen = random.integers(0, seeds, (2, 500, seeds))
        means = [np.take_along_axis(s, c, 1).mean(1) for s, c in zip(scores, chosen, strict=True)]
        draws.append(means[0] - means[1])
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.concatenate(draws), [tail, 100 - tail])
    p = (1 + as_extreme) / (1 + RESAMPLES)
    return {"difference": difference, "low": float(low), "high": float(high), "p": p}


# All cells.


def cells_of(config: PaperConfig) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The name of each cell, what it is, and its arguments; cells that two tables share are one."""
    first = config.seeds[0]
    for task in config.tasks:
        for seed in config.seeds:
            for where in ("none", "input"):
                yield f"{task}-{where}-{seed}", task, {"where": where, "seed": seed}
    for task in config.mix_tasks:
        for mix in MIXES.values():
            arguments = {"where": "input", "seed": first, "mix": mix}
            yield mix_cell(task, mix, first), task, arguments
    for task in config.place_tasks:
        for where in ("input", "output", "both"):
            yield f"{task}-{where}-{first}", task, {"where": where, "seed": first}
    for task in config.fraction_tasks:
        for fraction in config.fractions:
            for where in ("none", "input"):
                name = f"{task}-{where}-{first}"
                name += "" if fraction == 1 else f"-of{fraction:g}"
                yield name, task, {"where": where, "seed": first, "fraction": fraction}
    for probe in config.probes:
        yield f"probe-{probe}", "probe", {"probe": probe}
    for word in config.words:
        yield f"word-{word}", "word", {"word": word}


def mix_cell(task: str, mix: MixConfig, seed: int) -> str:
    """The name of a cell that compares mixes; the mix of all other cells has theirs."""
    return (
        f"{task}-input-{seed}" if mix == MIX else f"{task}-mix{[*MIXES.values()].index(mix)}-{seed}"
    )


def cell_folder(loaded: LanguageModel, bilm: str, kind: str, arguments: Json) -> str:
    """By what a cell is kept: the biLM's checksum or, without ELMo, what is left of the biLM then.

    That is how it cuts texts into words and, in text classifiers, how many zeros replace it.
    """
    if arguments.get("where") != "none":
        return bilm[:16]
    sizes = loaded.model.config
    zeros = [sizes.layers, sizes.width] if kind in TEXT_TASKS else []
    content = json.dumps([to_json(loaded.tokenizer), *zeros])
    return f"without-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def run_paper(
    loaded: LanguageModel,
    data: Path,
    out: Path,
    config: PaperConfig | None = None,
    *,
    vectors: StaticVectors | None = None,
    wordnet: Path | None = None,
    fresh: bool = False,
    command: str = "",
    on_cell: OnCell = lambda name, state, done, total: None,
) -> Json:
    """Compute all cells that are not there yet, and write results.json; the same call resumes.

    Another biLM in the same folder has cells of its own; those without ELMo serve both.

    Args:
        loaded: The biLM, which stays frozen.
        data: Folder of the data sets.
        out: Folder for cells and results.
        vectors: Static vectors: task embeddings start from them, and they are a control.
        fresh: Forget the cells of an earlier run.
    """
    config = config or PaperConfig()
    check(config)
    if loaded.path is None:
        raise UserError("expected a biLM that was loaded from a folder; save it first")
    bilm = weights_checksum(loaded.path)
    job: Json = {"config": to_json(config)}
    job |= {"word_vectors": None if vectors is None else [len(vectors), vectors.dim]}
    names = {name: (kind, arguments) for name, kind, arguments in cells_of(config)}
    # What is cheap comes first; cells of the same task together, so that its layers are read once.
    order = ("probe", "word", *PaperConfig().tasks)
    names = dict(sorted(names.items(), key=lambda item: order.index(item[1][0])))
    with locked_folder(out):
        remove_leftovers(out)
        if fresh and (out / CELLS).is_dir():
            remove_folder(out / CELLS)
        if (out / JOB).is_file() and not fresh:
            # Other tables may be asked for later; other settings would mix results.
            before = cast("Json", read_json(out / JOB))
            shared = ("train_rows", "test_rows", "epochs")
            check_same_job(out, *({"word_vectors": one["word_vectors"]}
                                  | {key: one["config"][key] for key in shared}
                                  for one in (before, job)))  # fmt: skip
        write_json(out / JOB, job)
        paths = {
            name: out / CELLS / cell_folder(loaded, bilm, kind, arguments) / f"{name}.json"
            for name, (kind, arguments) in names.items()
        }
        data_of: dict[str, Data] = {}
        layers_of: dict[str, FrozenFeatures] = {}
        for done, (name, (kind, arguments)) in enumerate(names.items()):
            path = paths[name]
            if path.is_file():
                on_cell(name, "cached", done + 1, len(names))
                continue
            on_cell(name, "running", done, len(names))
            if kind == "probe":
                cell = run_probe(
                    arguments["probe"],
                    loaded,
                    data,
                    ProbeConfig(train_words=config.probe_words),
                    vectors=vectors,
                    wordnet=wordnet,
                )
            elif kind == "word":
                cell = neighbours(arguments["word"], loaded, data, vectors)
            else:
                if kind not in data_of:
                    data_of, layers_of = {kind: load_task(kind, data, config)}, {}
                is_whole = arguments.get("fraction", 1) == 1
                reads = is_whole and (arguments["where"] != "none" or kind in TEXT_TASKS)
                if reads and kind not in layers_of:
                    layers_of[kind] = read_layers(loaded, data_of[kind], out, config)
                cell = train_cell(
                    kind, loaded, data_of[kind], config, vectors=vectors,
                    features=layers_of.get(kind) if reads else None, **arguments,
                )  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, cell)
            on_cell(name, "done", done + 1, len(names))
        cells = {name: cast("Json", read_json(path)) for name, path in paths.items()}
        results = collect(cells, config)
        model, words = loaded.model.config, ""
        if vectors is not None:
            words = f"Task embeddings start from {len(vectors):,} word vectors in both arms."
        results["about"] = {
            "command": command,
            "bilm": f"reads {INPUTS[model.input]}, {model.layers} layers of 2 x {model.width}",
            "bilm_sha256": bilm,
            "words": words,
            "version": elmo.__version__,
            "machine": f"{cpu_cores()} cores, {processor_name()}",
            "config": to_json(config),
        }
        write_json(out / RESULTS, results)
    return results


def neighbours(
    word: str, loaded: LanguageModel, data: Path, vectors: StaticVectors | None, k: int = 5
) -> Json:
    """Nearest words of a word in two of its sentences of SemCor, and in static vectors."""
    text = read_semcor(data / "semcor" / "semcor3.0.tsv.gz").words
    with_word = [words for words in text if word in words and 5 <= len(words) <= 25]
    embedder = Embedder(loaded)
    rows: list[Json] = []
    for sentence in with_word[:: max(1, len(with_word) // 2)][:2]:
        found = embedder.nearest(
            word, sentence, text, k, layer="top", texts=5000, distinct="phrase"
        )
        rows.append(
            {
                "sentence": " ".join(sentence),
                "nearest": [{"word": one.word, "text": " ".join(one.words)} for one in found],
            }
        )
    static = None
    if vectors is not None and word in vectors.ids:
        static = [one.word for one in vectors.nearest(word, 2 * k)]
    return {"word": word, "static": static, "contextual": rows}


# Results.


def collect(cells: Mapping[str, Json], config: PaperConfig) -> Json:
    """Tables and figures from the finished cells."""
    first = config.seeds[0]

    def test(name: str) -> Json:
        return cells[name]["test"]

    table1: list[Json] = []
    for task in config.tasks:
        arms = {
            where: [cells[f"{task}-{where}-{seed}"] for seed in config.seeds]
            for where in ("none", "input")
        }
        means = {where: fmean(one["test"]["value"] for one in some) for where, some in arms.items()}
        row: Json = {"task": task, "title": TITLES[task], "measure": MEASURES.get(task, "accuracy")}
        for where, some in arms.items():
            values = [one["test"]["value"] for one in some]
            row[where] = {
                "mean": means[where],
                "deviation": stdev(values) if len(values) > 1 else 0.0,
                "values": values,
            }
        row["error_reduction"] = (means["input"] - means["none"]) / max(1e-9, 1 - means["none"])
        row["rows"], row["test_rows"] = arms["input"][0]["rows"], arms["input"][0]["test_rows"]
        row["paired"] = compare_arms(arms["input"], arms["none"])
        table1.append(row)
    curves: list[Json] = []
    for task in config.fraction_tasks:
        for fraction in config.fractions:
            tail = "" if fraction == 1 else f"-of{fraction:g}"
            pair = [cells[f"{task}-{where}-{first}{tail}"] for where in ("none", "input")]
            best = max(pair[0]["development"])
            reached = [idx + 1 for idx, one in enumerate(pair[1]["development"]) if one >= best]
            curves.append(
                {
                    "task": task,
                    "title": TITLES[task],
                    "fraction": fraction,
                    "rows": pair[0]["rows"],
                    "none": pair[0]["test"],
                    "input": pair[1]["test"],
                    "baseline_epochs": 1 + int(np.argmax(pair[0]["development"])),
                    "elmo_epochs": reached[0] if reached else None,
                    "development": {one["elmo"]: max(one["development"]) for one in pair},
                }
            )
    results: Json = {
        "table1": table1,
        "table2": [
            {
                "task": task,
                "title": TITLES[task],
                "none": cells.get(f"{task}-none-{first}", {}).get("test"),
            }
            | {name: test(mix_cell(task, mix, first)) for name, mix in MIXES.items()}
            for task in config.mix_tasks
        ],
        "table3": [
            {"task": task, "title": TITLES[task]}
            | {where: test(f"{task}-{where}-{first}") for where in ("input", "output", "both")}
            for task in config.place_tasks
        ],
        "table4": [cells[f"word-{word}"] for word in config.words],
        "probes": {probe: cells[f"probe-{probe}"] for probe in config.probes},
        "figure1": curves,
        "figure2": [
            {
                "title": TITLES[task],
                "seeds": [
                    {"layer_weights": cells[f"{task}-input-{seed}"]["layer_weights"]}
                    for seed in config.seeds
                ],
            }
            for task in config.tasks
        ],
        "cpu_seconds": sum(one.get("cpu_seconds", 0.0) for one in cells.values()),
    }
    return results | {"findings": findings(results)}

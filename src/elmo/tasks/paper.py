"""The paper's tables and figures, made anew with any biLM on public data.

A cell is one training, one probe or one search. Each finished cell is a file, so the same call
resumes; `collect` turns the cells into results.json, and `make_report` into what a report shows.
"""

from __future__ import annotations

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
from elmo.classify.metrics import Estimate, compare, wilson
from elmo.classify.training import train as train_texts
from elmo.config import Json, check, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.files import read_json, remove_folder, remove_leftovers, write_json
from elmo.language_model import LanguageModel, weights_checksum
from elmo.runtime import cpu_cores, processor_name
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import PairConfig, PaperConfig, ProbeConfig, TaggerConfig, Where, WordsConfig
from elmo.tasks.data import Pairs, TaggedTexts, read_pairs, read_tagged
from elmo.tasks.pairs import PairClassifier, ScoreMetrics
from elmo.tasks.probe import run_probe
from elmo.tasks.senses import read_semcor
from elmo.tasks.tagger import TokenTagger
from elmo.tasks.tags import find_spans
from elmo.text.config import ReadOptions
from elmo.text.readers import read_lines
from elmo.training.checkpoint import check_same_job, locked

TITLES = {
    "pos": "Parts of speech (UD EWT)",
    "ner": "Names (WNUT17)",
    "sst5": "Sentiment (SST-5)",
    "snli": "Inference (SNLI, 9,999 pairs)",
    "ag_news": "Topics (AG News)",
    "stsb": "Relatedness (STS-B)",
}
MEASURES = {"ner": "F1", "stsb": "Pearson"}
MIXES = {
    "last layer": MixConfig(mix="top"),
    "all layers, λ = 1": MixConfig(mix_pull=1.0),
    "all layers, λ = 0.001": MixConfig(mix_pull=0.001),
}
MIX = MixConfig(mix_pull=0.001)
"""Of all other cells: the paper's choice for most tasks."""
FILES = {
    "pos": [f"ud_english_ewt/en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test")],
    "ner": [
        "wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated",
    ],
}  # fmt: skip
CELLS, RESULTS, JOB = "cells", "results.json", "job.json"
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
    return (
        parts[0] if config.train_rows is None else cut(parts[0], config.train_rows),
        parts[1]
        if config.train_rows is None or parts[1] is None
        else cut(parts[1], config.train_rows),
        parts[2] if config.test_rows is None else cut(parts[2], config.test_rows),
    )


def cut(data: Any, count: int) -> Any:
    """At most `count` rows, drawn at random by a fixed seed, in their order."""
    total = len(data.texts) if isinstance(data, LabelledTexts) else len(data)
    if count >= total:
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
) -> Json:
    """Train a task's model once and test it; the same model and budget with and without ELMo."""
    started = time.process_time()
    train, development, test = data
    if fraction < 1:
        total = len(train.texts) if isinstance(train, LabelledTexts) else len(train)
        train = cut(train, max(8, round(fraction * total)))
    words = WordsConfig(elmo=where, mix=mix)
    weights: Sequence[float] | None
    if isinstance(train, TaggedTexts):
        settings = TaggerConfig(words=words)
        learning = replace(settings.learning, seed=seed, epochs=config.epochs)
        tagger = TokenTagger(config=replace(settings, learning=learning))
        history = tagger.train(loaded, train, development, vectors=vectors).history
        predicted = tagger.predict(test.words)
        metrics = tagger.evaluate(test.words, test.tags, locations=test.locations)
        main, count, weights = metrics.main, metrics.words, tagger.network.mix.weights
        if metrics.f1 is not None:  # sentences all of whose spans are right
            right = [
                find_spans(a) == find_spans(b) for a, b in zip(predicted, test.tags, strict=True)
            ]
        else:
            pairs = zip(predicted, test.tags, strict=True)
            right = [a == b for some, gold in pairs for a, b in zip(some, gold, strict=True)]
    elif isinstance(train, Pairs):
        pair_settings = PairConfig(words=words)
        learning = replace(pair_settings.learning, seed=seed, epochs=config.epochs)
        classifier = PairClassifier(config=replace(pair_settings, learning=learning))
        history = classifier.train(loaded, train, development, vectors=vectors).history
        found = classifier.evaluate(test)
        weights, count = classifier.network.mix.weights, len(test)
        if isinstance(found, ScoreMetrics):
            main, right = found.pearson, []
        else:
            main = found.accuracy
            rows = list(zip(test.first, test.second, strict=True))
            right = [a == b for a, b in zip(classifier.predict(rows), test.targets, strict=True)]
    else:
        # gamma 0 leaves zeros of ELMo: the same network, which reads task embeddings alone.
        used = mix if where != "none" else MixConfig(mix="average", gamma=0.0)
        text_config = ClassifierConfig(
            parts="network",
            network=NetworkConfig(mix=used, task_min_count=2),
            learning=LearningConfig(seed=seed, epochs=config.epochs),
        )
        trained = train_texts(loaded, train, text_config, word_vectors=vectors)
        history = trained.history
        labels = trained.classifier.predict(test.texts)
        right = [str(a) == b for a, b in zip(labels, test.labels or (), strict=True)]
        main, count = wilson(sum(right), len(right)), len(right)
        network = trained.classifier.network
        weights = None if network is None else network.mix.weights
    return {
        "task": name,
        "elmo": where,
        "seed": seed,
        "fraction": fraction,
        "rows": len(train.texts) if isinstance(train, LabelledTexts) else len(train),
        "test": _estimate(main),
        "count": count,
        "right": np.packbits(np.array(right, np.bool_)).tobytes().hex(),
        "decisions": len(right),
        "development": [report.development_accuracy for report in history],
        "layer_weights": None if where == "none" else weights,
        "cpu_seconds": time.process_time() - started,
    }


def _estimate(one: Estimate) -> Json:
    return {"value": one.value, "low": one.low, "high": one.high}


def _right(cell: Json) -> NDArray[np.bool_]:
    packed = np.frombuffer(bytes.fromhex(cell["right"]), np.uint8)
    return np.unpackbits(packed)[: cell["decisions"]].astype(np.bool_)


# All cells.


def cells_of(config: PaperConfig) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The name of each cell, what it is, and its arguments; cells that two tables share are one."""
    first = config.seeds[0]
    for task in config.tasks:
        for seed in config.seeds:
            for where in ("none", "input"):
                yield f"{task}-{where}-{seed}", task, {"where": where, "seed": seed}
    for task in config.mix_tasks:
        for idx, mix in enumerate(MIXES.values()):
            arguments = {"where": "input", "seed": first, "mix": mix}
            yield f"{task}-mix{idx}-{first}", task, arguments
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
    job: Json = {"config": to_json(config), "bilm": weights_checksum(loaded.path)}
    job |= {"word_vectors": None if vectors is None else [len(vectors), vectors.dim]}
    names = {name: (kind, arguments) for name, kind, arguments in cells_of(config)}
    with locked(out):
        remove_leftovers(out)
        if fresh and (out / CELLS).is_dir():
            remove_folder(out / CELLS)
        if (out / JOB).is_file() and not fresh:
            # Other tables may be asked for later; other settings would mix results.
            before = cast("Json", read_json(out / JOB))
            shared = ("train_rows", "test_rows", "epochs")
            check_same_job(out, *({**one, "config": {key: one["config"][key] for key in shared}}
                                  for one in (before, job)))  # fmt: skip
        write_json(out / JOB, job)
        cache: dict[str, Data] = {}
        for done, (name, (kind, arguments)) in enumerate(names.items()):
            path = out / CELLS / f"{name}.json"
            if path.is_file():
                on_cell(name, "cached", done + 1, len(names))
                continue
            on_cell(name, "running", done, len(names))
            if kind == "probe":
                cell = run_probe(
                    arguments["probe"],
                    loaded,
                    data,
                    ProbeConfig(),
                    vectors=vectors,
                    wordnet=wordnet,
                )
            elif kind == "word":
                cell = neighbours(arguments["word"], loaded, data, vectors)
            else:
                if kind not in cache:
                    cache = {kind: load_task(kind, data, config)}
                cell = train_cell(kind, loaded, cache[kind], config, vectors=vectors, **arguments)
            write_json(path, cell)
            on_cell(name, "done", done + 1, len(names))
        cells = {name: cast("Json", read_json(out / CELLS / f"{name}.json")) for name in names}
        results = collect(cells, config)
        model = loaded.model.config
        results["about"] = {
            "command": command,
            "bilm": f"{model.input}, {model.layers} layers of 2 x {model.width}",
            "bilm_sha256": job["bilm"],
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
        if all(one["decisions"] for some in arms.values() for one in some):
            paired = compare(
                *(np.stack([_right(one) for one in arms[w]]) for w in ("input", "none"))
            )
            row["paired"] = {
                "p": paired.p,
                "difference": paired.difference,
                "low": paired.low,
                "high": paired.high,
            }
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
    return {
        "table1": table1,
        "table2": [
            {
                "task": task,
                "title": TITLES[task],
                "none": cells.get(f"{task}-none-{first}", {}).get("test"),
            }
            | {name: test(f"{task}-mix{idx}-{first}") for idx, name in enumerate(MIXES)}
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
        "findings": [],
        "cpu_seconds": sum(one.get("cpu_seconds", 0.0) for one in cells.values()),
    } | {"findings": findings(cells, config, table1, curves)}


def findings(
    cells: Mapping[str, Json], config: PaperConfig, table1: Sequence[Json], curves: Sequence[Json]
) -> list[Json]:
    """What the paper found, whether our numbers agree, and the numbers."""
    found: list[Json] = []

    def add(claim: str, agrees: bool | None, numbers: str) -> None:
        found.append({"claim": claim, "agrees": agrees, "numbers": numbers})

    for row in table1:
        p = row.get("paired", {}).get("p")
        better = row["input"]["mean"] > row["none"]["mean"]
        agrees = better if p is None or p < 0.05 else None
        shown = f"{row['none']['mean']:.4f} to {row['input']['mean']:.4f} ({row['measure']})"
        add(
            f"ELMo improves: {row['title']}",
            agrees,
            shown + ("" if p is None else f", p = {p:.2g}"),
        )
    for probe, best, claim in (
        ("pos", "layer 1", "The first layer knows parts of speech best"),
        ("senses", "layer 2", "The second layer knows senses best"),
    ):
        if probe in config.probes:
            rows = cells[f"probe-{probe}"]["rows"]
            layers = {row["name"]: row["value"] for row in rows if row["name"].startswith("layer")}
            shown = ", ".join(f"{name} {value:.4f}" for name, value in layers.items())
            context = max(value for name, value in layers.items() if name != "layer 0")
            add(f"Context layers beat layer 0: {probe}", context > layers["layer 0"], shown)
            if best in layers and "layer 2" in layers:
                add(claim, max(layers, key=lambda name: layers[name]) == best, shown)
    first = config.seeds[0]
    for task in config.mix_tasks:
        last, _, mixed = (cells[f"{task}-mix{idx}-{first}"]["test"]["value"] for idx in range(3))
        shown = f"last layer {last:.4f}, all layers {mixed:.4f}"
        add(f"All layers beat the last one: {TITLES[task]}", mixed > last, shown)
    for curve in curves:
        shown = (
            f"{curve['rows']:,} rows: {curve['none']['value']:.4f} to "
            f"{curve['input']['value']:.4f}; epochs to the baseline's best: "
            f"{curve['baseline_epochs']} to {curve['elmo_epochs']}"
        )
        agrees = curve["input"]["value"] > curve["none"]["value"]
        add(f"Fewer labels: {curve['title']}", agrees, shown)
    return found


# The report, as blocks that the templates of `elmo study` lay out.


def table(
    name: str, caption: str, columns: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1
) -> Json:
    """A table block; the first `left` columns hold text."""
    return {
        "kind": "table", "name": name, "caption": caption, "over": [], "dense": False,
        "columns": [{"title": title, "align": "left" if idx < left else "right"}
                    for idx, title in enumerate(columns)],
        "parts": [{"title": "", "group": None, "lines": [list(line) for line in lines]}],
    }  # fmt: skip


def make_report(results: Json) -> Json:
    """Title, answer and sections; a figure has `plot` and `rows` for `study.plots` to draw."""
    about, sections = results["about"], list[Json]()

    def section(name: str, title: str, *blocks: Json) -> None:
        sections.append({"name": name, "title": title, "blocks": list(blocks)})

    def one(value: Json | None) -> str:
        return "" if value is None else f"{value['value']:.4f}"

    def spread(arm: Json) -> str:
        return f"{arm['mean']:.4f} ± {arm['deviation']:.4f}"

    if rows := results["table1"]:
        section("elmo", "Table 1: with and without ELMo", table(
            "table1", "The same model with task embeddings alone and with ELMo; mean over seeds. "
            "p: permutation test over test words, rows or, for names, sentences.",
            ["", "measure", "without", "with", "error reduction", "p"],
            [[row["title"], row["measure"], spread(row["none"]), spread(row["input"]),
              f"{row['error_reduction']:.1%}",
              f"{row['paired']['p']:.2g}" if "paired" in row else ""] for row in rows], 2,
        ))  # fmt: skip
    if rows := results["table2"]:
        section("mix", "Table 2: which layers", table(
            "table2", "Last layer only, and all layers with λ = 1 and λ = 0.001; first seed.",
            ["", "baseline", *MIXES],
            [[row["title"], one(row["none"]), *(one(row[name]) for name in MIXES)] for row in rows],
        ))  # fmt: skip
    if rows := results["table3"]:
        section("place", "Table 3: where ELMo joins", table(
            "table3", "At the input, [x; ELMo], at the output, [h; ELMo], and at both; first seed.",
            ["", "input", "output", "both"],
            [[row["title"], *(one(row[key]) for key in ("input", "output", "both"))]
             for row in rows],
        ))  # fmt: skip
    if rows := results["table4"]:
        lines: list[list[str]] = []
        for row in rows:
            if row["static"]:
                lines.append([row["word"], "(word vectors)", ", ".join(row["static"])])
            for context in row["contextual"]:
                near = "; ".join(f"{hit['word']}: {hit['text']}" for hit in context["nearest"][:2])
                lines.append([row["word"], context["sentence"], near])
        caption = "Nearest words of ambiguous words, without and with context."
        columns = ["word", "in", "nearest"]
        section("words", "Table 4: neighbours", table("table4", caption, columns, lines, 3))
    for name, found in results["probes"].items():
        lines = [[row["name"], f"{row['value']:.4f}",
                  f"{row['low']:.4f} to {row['high']:.4f}" if "low" in row else "",
                  f"{row['p']:.2g}" if "p" in row else ""] for row in found["rows"]]  # fmt: skip
        number = {"senses": "Table 5: ", "pos": "Table 6: "}.get(name, "Probe: ")
        caption = f"By layer, on {found['count']:,} decisions."
        if "back_off" in found:
            caption += f" Unseen lemmas get the first sense of {found['back_off']}."
        columns = ["", found["measure"], "95% interval", "p"]
        section(f"probe-{name}", number + found["title"].lower(),
                table(f"probe-{name}", caption, columns, lines))  # fmt: skip
    if rows := results["figure1"]:
        figures: list[Json] = []
        for task in dict.fromkeys(row["task"] for row in rows):
            curves = [
                {"row": arm, "setting": f"{task}-rows", "points": [
                    {"value": row["rows"], "development_accuracy": row["development"][arm],
                     "test_accuracy": row[arm]["value"]} for row in rows if row["task"] == task]}
                for arm in ("none", "input")
            ]  # fmt: skip
            figures.append(
                {"kind": "figure", "name": f"samples-{task}", "plot": "sweep", "rows": curves,
                 "caption": f"{TITLES[task]}: test (full) and development (open) score by the "
                 "number of training rows.",
                 "alt": "The table below has the numbers.", "floats": False}
            )  # fmt: skip
        section(
            "samples", "Figure 1: fewer labels, fewer updates", *figures,
            table("figure1", "Test score, and epochs until the baseline's best development score.",
                  ["", "rows", "without", "with", "epochs without", "epochs with"],
                  [[row["title"], f"{row['rows']:,}", one(row["none"]), one(row["input"]),
                    str(row["baseline_epochs"]), str(row["elmo_epochs"] or "never")]
                   for row in rows]),
        )  # fmt: skip
    if rows := [row for row in results["figure2"] if row["seeds"][0]["layer_weights"]]:
        section(
            "weights", "Figure 2: learned layer weights",
            {"kind": "figure", "name": "weights", "plot": "weights", "rows": rows, "floats": False,
             "caption": "Softmax-normalised weight of each layer, one dot per seed.",
             "alt": "; ".join(
                 f"{row['title']} {row['seeds'][0]['layer_weights']}" for row in rows)},
        )  # fmt: skip
    verdicts = {True: "agrees", False: "does not agree", None: "not significant"}
    section("findings", "Where our figures agree with the paper, and where not", table(
        "findings", "Claims of the paper, checked on the numbers above.",
        ["claim", "ours", "numbers"],
        [[row["claim"], verdicts[row["agrees"]], row["numbers"]] for row in results["findings"]], 3,
    ))  # fmt: skip
    agreed = sum(row["agrees"] is True for row in results["findings"])
    seeds = len(about["config"]["seeds"])
    return {
        "title": "The tables of the ELMo paper, made anew",
        "question": "Where does context help, and which layer knows what?",
        "data": f"biLM: {about['bilm']}",
        "notes": [] if seeds > 2 else [f"Seeds: {seeds}. Differences between runs are not shown."],
        "sure": "",
        "first": [],
        "answer": [f"{agreed} of {len(results['findings'])} findings of the paper hold here."],
        "facts": f"{about['command']} · elmo {about['version']} · {about['machine']} · "
        f"{results['cpu_seconds'] / 60:,.0f} CPU minutes",
        "sections": sections,
    }

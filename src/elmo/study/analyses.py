"""Beyond the table: draws of frozen weights, fewer labels, sweeps of settings, words and senses.

The first three are cells, made here and gathered here; words and senses read the embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from elmo.config import Json, nearest
from elmo.embed.config import MixConfig, NeighbourConfig
from elmo.embed.embedder import Embedder
from elmo.embed.neighbours import cosines, find_neighbours
from elmo.errors import UserError
from elmo.static.train import WordsConfig
from elmo.static.vectors import StaticVectors
from elmo.study.config import StudyConfig
from elmo.study.news import NewsItem, sense_accuracy
from elmo.study.results import spread
from elmo.study.rows import (
    CANDIDATES,
    ELMO,
    METHODS,
    ONE_LAYER,
    Cell,
    Outcome,
    Row,
    Settings,
    analysis_cell,
    best_static,
    row_cells,
)

if TYPE_CHECKING:
    from elmo.study.data import StudyData

DRAWS, SAMPLES, SWEEPS = "Draws of frozen λs", "Fewer labels", "Settings varied"
WHOLE = ("window", "dim", "min-count", "hidden", "layers", "bilm-epochs", "function-hidden")
SWEPT = (*WHOLE, "learning-rate", "dropout", "mix-pull")
OF_BILM, OF_STATIC = ("hidden", "layers", "bilm-epochs"), ("window", "dim", "min-count")
NEIGHBOURS, AROUND = 6, 6
MOST_OCCURRENCES, LEAST_OCCURRENCES = 100, 4
SEARCHED = 1_500

Outcomes = Mapping[str, Outcome]


# Draws of frozen weights.


def draw_cells(config: StudyConfig, settings: Settings = CANDIDATES[0]) -> list[Cell]:
    """One training per draw, and one of learned weights on the same rows with the same seed."""
    mixes = {f"draws-{n}": MixConfig(mix="frozen", mix_seed=n) for n in range(config.draws)}
    if mixes:
        mixes["draws-trainable"] = MixConfig()
    return [analysis_cell(name, DRAWS, config, mix, settings) for name, mix in mixes.items()]


def gather_draws(config: StudyConfig, data: StudyData, outcomes: Outcomes) -> Json | None:
    """What the draws gave; those that failed are left out."""
    learned = outcomes.get("draws-trainable")
    draws: list[Json] = [
        {
            "seed": seed,
            "layer_weights": outcome.layer_weights,
            "development_accuracy": outcome.development_accuracy,
            "test_accuracy": outcome.test.accuracy.value,
        }
        for seed in range(config.draws)
        if (outcome := outcomes.get(f"draws-{seed}"))
    ]
    if not draws or learned is None:
        return None
    return {
        "train_rows": min(config.analysis_rows, len(data.split.train)),
        "draws": draws,
        "trainable_test_accuracy": learned.test.accuracy.value,
        "best_of": best_of(
            [draw["development_accuracy"] for draw in draws],
            [draw["test_accuracy"] for draw in draws],
        ),
    }


def best_of(development: Sequence[float], test: Sequence[float]) -> list[float]:
    """The expected test accuracy of the best on development rows of 1, 2, … n draws.

    Exact: of all choices of k draws, comb(rank - 1, k - 1) have the draw of this rank as the best.
    """
    order = sorted(range(len(test)), key=lambda idx: development[idx])
    total = len(order)
    return [
        sum(comb(rank, size - 1) * test[idx] for rank, idx in enumerate(order)) / comb(total, size)
        for size in range(1, total + 1)
    ]


# Accuracy against the number of labels.


def curve_rows(
    rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]] | None = None
) -> dict[str, Row]:
    """The rows of the curve by role: TF-IDF, the best skip-gram on development rows, trainable λs.

    Without outcomes, as when a study is planned, the first skip-gram stands for the best.
    """
    present = [row for row in rows if outcomes is None or row.name in outcomes]
    curves = {row.name: row for row in present if row.name in ("tfidf", "trainable")}
    skip_grams = [row for row in present if row.name.startswith("skipgram-")]
    best = best_static(skip_grams, outcomes) if outcomes else next(iter(skip_grams), None)
    roles = {"tfidf": curves.get("tfidf"), "skipgram": best, "trainable": curves.get("trainable")}
    return {role: row for role, row in roles.items() if row is not None}


def sample_cells(
    config: StudyConfig, data: StudyData, curves: Mapping[str, Row], chosen: Mapping[str, Settings]
) -> list[Cell]:
    """Trainings with few labels per class, as far as the smallest class has as many."""
    cells: list[Cell] = []
    for role, row in curves.items():
        base = row_cells(config, row, "alone", chosen.get(row.name, CANDIDATES[0]))
        for per_class in _sizes(config, data):
            for idx, seed in enumerate(config.seeds):
                changes = {"seed": seed, "per_class": per_class, "measures_train": False}
                name = f"samples-{role}-{per_class}-seed{seed}"
                cell = base[0] if row.kind == "tfidf" else base[idx]
                cells.append(replace(cell, name=name, row=SAMPLES, **changes))
    return cells


def gather_samples(
    config: StudyConfig,
    data: StudyData,
    curves: Mapping[str, Row],
    outcomes: Outcomes,
    rows: Sequence[Json],
) -> list[Json]:
    """The points of the curves; each ends with what its row reaches with all labels."""
    full = {row["name"]: row["alone"]["test_accuracy"] for row in rows if row["alone"]}
    points: list[Json] = []
    for role, row in curves.items():
        for per_class in _sizes(config, data):
            names = [f"samples-{role}-{per_class}-seed{seed}" for seed in config.seeds]
            reached = [outcomes[name].test.accuracy.value for name in names if name in outcomes]
            if reached:
                point = {"row": row.name, "per_class": per_class}
                point |= {"train_rows": per_class * len(data.labels)}
                points.append(point | {"test_accuracy": spread(reached, len(data.test))})
        if points and row.name in full:
            point = {"row": row.name, "per_class": None, "train_rows": len(data.split.train)}
            points.append(point | {"test_accuracy": full[row.name]})
    return points


def _sizes(config: StudyConfig, data: StudyData) -> list[int]:
    counts = np.bincount(data.classes[data.split.train], minlength=len(data.labels))
    return [number for number in config.samples if 2 <= number <= counts.min()]


# Sweeps: one setting varied, all others unchanged.


@dataclass(frozen=True)
class SweepPoint:
    setting: str
    row: str
    value: float
    cell: Cell


def sweep_points(config: StudyConfig) -> list[SweepPoint]:
    """Read setting=value,value,… and make one cell per value and row that has the setting."""
    points: list[SweepPoint] = []
    # The vectors that take least time and are made anyway: skip-gram with window 8 takes three
    # times as long as with window 2.
    window = min(config.windows, default=WordsConfig().window)
    for text in config.sweeps:
        setting, equals, values = text.partition("=")
        if not equals or setting not in SWEPT:
            raise UserError(
                f"--sweeps: expected setting=value,value,… with a setting out of "
                f"{', '.join(SWEPT)}; got {text!r}{nearest(setting, SWEPT)}"
            )
        for value in (_number(setting, word, text) for word in values.split(",")):
            rows = {"trainable": ELMO}
            mix = ONE_LAYER if setting in OF_STATIC else MixConfig()
            settings = dict(CANDIDATES[0])
            if setting == "window":
                rows = {method: f"{method}-{value:g}" for method in METHODS}
            elif setting in OF_STATIC:
                usual = {"dim": config.static_dim, "min-count": WordsConfig().min_count}[setting]
                other = "" if value == usual else f"-{setting.replace('-', '_')}-{value:g}"
                rows = {method: f"{method}-{window}{other}" for method in METHODS}
            elif setting in OF_BILM:
                rows = {"trainable": f"{ELMO}-{setting}{value:g}"}
            elif setting == "function-hidden":
                rows = {"function": ELMO}
                mix = MixConfig(mix="function", function_hidden=int(value))
            elif setting == "mix-pull":
                mix = MixConfig(mix_pull=value)
            else:
                settings[setting.replace("-", "_")] = value
            for row, embedding in rows.items():
                name = f"sweep-{setting}-{row}-{value:g}"
                cell = analysis_cell(name, SWEEPS, config, mix, settings, embedding=embedding)
                points.append(SweepPoint(setting, row, value, cell))
    return points


def gather_sweeps(
    config: StudyConfig,
    data: StudyData,
    points: Sequence[SweepPoint],
    outcomes: Outcomes,
    notes: Mapping[str, str],
) -> list[Json]:
    """One curve per setting and row; `notes` say more of an embedding."""
    curves: dict[tuple[str, str], Json] = {}
    rows = min(config.analysis_rows, len(data.split.train))
    for point in points:
        if outcome := outcomes.get(point.cell.name):
            curve = curves.setdefault(
                (point.setting, point.row),
                {"setting": point.setting, "row": point.row, "train_rows": rows, "points": []},
            )
            curve["points"].append(
                {
                    "value": point.value,
                    "development_accuracy": outcome.development_accuracy,
                    "test_accuracy": outcome.test.accuracy.value,
                    "layer_weights": outcome.layer_weights,
                    "note": notes.get(point.cell.embedding),
                }
            )
    return list(curves.values())


def _number(setting: str, value: str, text: str) -> float:
    whole = setting in WHOLE
    try:
        number = int(value) if whole else float(value)
    except ValueError:
        kind = "whole numbers" if whole else "numbers"
        raise UserError(
            f"--sweeps: expected {kind} after {setting}=, got {value!r} in {text!r}"
        ) from None
    largest = 0.99 if setting == "dropout" else 1e9
    may_be_zero = setting in ("mix-pull", "dropout")
    if not (0 <= number <= largest) or (number == 0 and not may_be_zero):
        raise UserError(f"--sweeps: {setting} cannot be {value} (in {text!r})")
    return number


# Words with several senses.


def ambiguous_words(
    words: Sequence[str],
    data: StudyData,
    embedder: Embedder,
    static: Row,
    vectors: StaticVectors,
    *,
    shows_texts: bool,
) -> Iterator[Json | None]:
    """Each word in the two contexts farthest apart; none for one that test texts hardly have.

    Its nearest words by a static vector are always the same; those in context need not be.
    """
    # The same training texts for every word.
    drawn = np.random.default_rng(0).permutation(data.train_count)[:SEARCHED]
    searched: list[int] = np.sort(drawn).tolist()
    for word in words:
        rows = [int(row) for row in data.test if word in data.words[int(row)]][:MOST_OCCURRENCES]
        if len(rows) < LEAST_OCCURRENCES or word not in vectors.ids:
            yield None
            continue
        texts = [data.words[row] for row in rows]
        layers = embedder.encode(texts, output="tokens", layer="top")
        vectors_of = [layer[t.index(word)] for layer, t in zip(layers, texts, strict=True)]
        seen = np.stack(vectors_of)
        similar = np.stack([cosines(seen, vector) for vector in seen])  # (texts, texts)
        pair = np.unravel_index(int(similar.argmin()), similar.shape)
        nearest_words = vectors.nearest(word, NEIGHBOURS)
        yield {
            "word": word,
            "static_row": static.name,
            "static": [{"word": n.word, "similarity": n.similarity} for n in nearest_words],
            "contexts": [
                _in_context(word, rows[int(idx)], data, embedder, searched, shows_texts)
                for idx in pair
            ],
        }


def _in_context(
    word: str,
    row: int,
    data: StudyData,
    embedder: Embedder,
    searched: Sequence[int],
    shows_texts: bool,
) -> Json:
    search = find_neighbours(
        embedder,
        data.words[row].index(word),
        data.words[row],
        [data.words[other] for other in searched],
        NeighbourConfig(count=NEIGHBOURS, distinct="word", texts=SEARCHED),
    )
    neighbours: list[Json] = []
    for near in search.neighbours:
        first, last = max(0, near.position - AROUND), near.position + AROUND + 1
        before, after = "… " if first else "", " …" if last < len(near.words) else ""
        neighbours.append(
            {
                "word": near.word,
                "similarity": near.similarity,
                "text": before + " ".join(near.words[first:last]) + after if shows_texts else None,
                "row": searched[near.text_number],
            }
        )
    text = " ".join(data.words[row]) if shows_texts else None
    return {"text": text, "row": row - data.train_count, "neighbours": neighbours}


def sense_accuracies(
    data: StudyData,
    items: Sequence[NewsItem],
    embedder: Embedder | None,
    static: Mapping[str, StaticVectors],
) -> list[Json]:
    """How well embeddings tell senses apart: static vectors, which cannot, then a biLM's layers.

    Args:
        items: the test texts, with the senses of ambiguous words.
        static: vectors by their title.
    """
    marks = [(row, mark) for row, item in enumerate(items) for mark in item.senses]
    words = [mark.word for _, mark in marks]
    embeddings = {title: vectors.embed(words) for title, vectors in static.items()}
    if embedder is not None:
        rows = sorted({row for row, _ in marks})
        texts = [data.words[data.train_count + row] for row in rows]
        layers = dict(zip(rows, embedder.encode(texts, output="tokens", layer="all"), strict=True))
        marked = np.stack([layers[row][:, mark.place] for row, mark in marks], axis=1)
        embeddings |= {f"ELMo layer {layer}": vectors for layer, vectors in enumerate(marked)}
    senses, texts_of = [mark.sense for _, mark in marks], [row for row, _ in marks]
    return [
        {"embedding": title, **sense_accuracy(vectors, words, senses, texts_of)}
        for title, vectors in embeddings.items()
    ]

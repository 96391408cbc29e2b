"""The tables of a report, and how its numbers are written.

A table is plain data: `columns`, and `parts` of lines under a heading. The first `left` columns
hold text, the others numbers; `over` is (title, width) above several columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, Literal

from elmo.classify.metrics import wilson
from elmo.config import Json
from elmo.study.plots import GROUPS

SIGNIFICANT = 0.05
CLASSES_PER_TABLE = 4
MOST_PAIRS, MOST_EXAMPLES = 6, 2
LONGEST_TEXT, LONGEST_SNIPPET = 125, 90

Line = Sequence[str]
Names = Mapping[str, tuple[str, str]]
"""Title and group by the name of a row."""


def table(
    columns: Sequence[str],
    lines: Sequence[Line] = (),
    *,
    parts: Sequence[Json] = (),
    left: int = 1,
    over: Sequence[tuple[str, int]] = (),
    dense: bool = False,
) -> Json:
    """One part of these lines, or several."""
    return {
        "columns": [
            {"title": title, "align": "left" if idx < left else "right"}
            for idx, title in enumerate(columns)
        ],
        "parts": list(parts) or [part(lines)],
        "over": [{"title": title, "width": width} for title, width in over],
        "dense": dense,
    }


def part(lines: Sequence[Line], title: str = "", group: str | None = None) -> Json:
    """Lines under a heading."""
    return {"title": title, "group": group, "lines": [list(line) for line in lines]}


def by_group(rows: Sequence[Json], line: Callable[[Json], Line]) -> list[Json]:
    """One part per group of rows."""
    return [
        part([line(row) for row in members], title, group)
        for group, title in GROUPS.items()
        if (members := [row for row in rows if row["group"] == group])
    ]


def plain(columns: Sequence[str], items: Sequence[Json], keys: str, left: int = 1) -> Json:
    """Some values of every item."""
    return table(columns, [[value(item[key]) for key in keys.split()] for item in items], left=left)


def column(rows: Sequence[Json], name: str) -> list[Json]:
    """The rows that have this column, its values beside those of the row."""
    return [row | row[name] for row in rows if row[name]]


def reference(rows: Sequence[Json]) -> Json | None:
    """The row that the others of a column are compared with."""
    names = {row["compared"]["against"] for row in rows if row["compared"]}
    return next((row for row in rows if row["name"] in names), None)


def verdict(compared: Json | None) -> Literal["above", "below", "unclear"]:
    """Whether a difference is more than chance: after correction, and over rows and seeds."""
    if compared is None or compared["holm"] >= SIGNIFICANT:
        return "unclear"
    return "above" if compared["low"] > 0 else "below" if compared["high"] < 0 else "unclear"


# The comparison.


def main(rows: Sequence[Json]) -> Json:
    """Accuracy of every row in both columns, and the comparisons."""
    references = [reference(column(rows, name)) for name in ("alone", "beside")]

    def cells(values: Json | None, other: Json | None, name: str) -> Line:
        if values is None:
            return ("", "", "")
        compared, mark = values["compared"], {"above": "↑ ", "below": "↓ ", "unclear": ""}
        test = over_seeds(values["test_accuracy"], len(values["seeds"]))
        if compared is None:
            return (test, "reference" if other and other["name"] == name else "", "")
        p = mark[verdict(compared)] + p_value(compared["holm"])
        return (test, difference(compared), p)

    def line(row: Json) -> Line:
        return (
            row["title"],
            *cells(row["alone"], references[0], row["name"]),
            *cells(row["beside"], references[1], row["name"]),
        )

    both = any(row["beside"] for row in rows)
    columns = ["", *["test accuracy", "difference (95% interval)", "p, Holm"] * (1 + both)]
    over = [("", 1), ("embedding alone", 3), *([("beside task embeddings", 3)] * both)]
    parts = by_group(rows, lambda row: line(row)[: len(columns)])
    return table(columns, parts=parts, over=over, dense=True)


def sizes(rows: Sequence[Json]) -> Json:
    """Macro F1, train accuracy, time and size of every row of a column."""

    def line(row: Json) -> Line:
        speed, first = row["texts_per_second"], row["seeds"][0]
        return (
            row["title"],
            f"{score(row['test_accuracy']['low'])}–{score(row['test_accuracy']['high'])}",
            score(row["test_macro_f1"]["mean"]),
            score(row["train_accuracy"]["mean"]),
            f"{first['train_rows']:,}",
            mean([seed["epochs"] for seed in row["seeds"]], 0) if first["epochs"] else "",
            "" if row["embedding_seconds"] is None else duration(row["embedding_seconds"]),
            duration(fmean(seed["training_seconds"] for seed in row["seeds"])),
            f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}",
            f"{row['parameters']:,}",
            f"{row['embedding_parameters']:,}" if row["embedding_parameters"] else "",
        )

    return table(
        ["", "95% interval", "macro F1", "train accuracy", "rows", "epochs", "embedding",
         "training", "texts/s", "learned", "embedding"],
        parts=by_group(rows, line),
        over=[("", 6), ("time", 2), ("", 1), ("parameters", 2)],
        dense=True,
    )  # fmt: skip


def published(rows: Sequence[Json]) -> Json:
    """Published figures on AG News beside those of this study."""

    def best(start: str) -> str:
        some = [row for row in rows if row["name"].startswith(start)]
        top = max(some, key=lambda row: row["development_accuracy"]["mean"], default=None)
        return score(top["test_accuracy"]["mean"]) if top else ""

    names = ("svd", "skipgram", "frozen", "trainable", "function")
    lines: list[Line] = [
        ("published ELMos of course projects", "", "", "0.88", "0.91", "0.88"),
        ("", "", "", "0.85", "0.91", "0.90"),
        ("", "", "", "0.836", "0.834", "0.849"),
        ("published static embeddings of two of them", "0.89", "0.88", "", "", ""),
        ("", "0.87", "0.90", "", "", ""),
        ("this study, embeddings alone", *(best(name) for name in names)),
    ]
    heads = ["", "SVD", "skip-gram", "frozen λs", "trainable λs", "learned function"]
    return table(heads, lines)


def classes(rows: Sequence[Json], labels: Sequence[str], split: str) -> Iterator[tuple[int, Json]]:
    """Precision, recall and F1 of every row; a few classes per table, the mean in the first."""
    columns: list[int | None] = [None, *range(len(labels))]
    for first in range(0, len(columns), CLASSES_PER_TABLE + 1):
        some = columns[first : first + CLASSES_PER_TABLE + 1]

        def line(row: Json, some: Sequence[int | None] = some) -> Line:
            metrics = [seed[split] for seed in row["seeds"]]
            by_class = [
                [seed["macro"] if idx is None else seed["classes"][idx] for seed in metrics]
                for idx in some
            ]
            return (
                row["title"],
                *(
                    score(fmean(seed[name] for seed in seeds))
                    for seeds in by_class
                    for name in ("precision", "recall", "f1")
                ),
            )

        names = ["mean of classes" if idx is None else labels[idx] for idx in some]
        yield (
            first,
            table(
                ["", *["P", "R", "F1"] * len(some)],
                parts=by_group(rows, line),
                over=[("", 1), *((name, 3) for name in names)],
                dense=True,
            ),
        )


def pairs(rows: Sequence[Json], labels: Sequence[str]) -> Json:
    """How often each row makes the mistakes that are most frequent over all embeddings."""
    counts: Counter[tuple[int, int]] = Counter()
    for row in [row for row in rows if row["group"] != "control"] or rows:
        for label, line_of in enumerate(row["seeds"][0]["test"]["confusion"]):
            counts.update({(label, other): n for other, n in enumerate(line_of) if other != label})
    most = [pair for pair, count in counts.most_common(MOST_PAIRS) if count]

    def line(row: Json) -> Line:
        matrix = row["seeds"][0]["test"]["confusion"]
        return (row["title"], *(f"{matrix[label][other]:,}" for label, other in most))

    columns = ["", *(f"{labels[label]} → {labels[other]}" for label, other in most)]
    return table(columns, parts=by_group(rows, line), dense=True)


def mistakes(row: Json) -> Json:
    """The most frequent mistakes of a row, with texts."""
    parts = [
        part(
            [
                (f"{example['row']:,}", shortened(example["text"] or "", LONGEST_TEXT))
                for example in confusion["examples"][:MOST_EXAMPLES]
            ],
            f"{confusion['label']} taken for {confusion['predicted']}: {confusion['count']:,}",
        )
        for confusion in row["confusions"]
    ]
    return table(["row", "text"], parts=parts, left=2)


# The analyses.


def weights(rows: Sequence[Json]) -> Json:
    """Layer weights and γ of rows that sum layers."""
    lines: list[Line] = []
    layers = max(len(row["seeds"][0]["layer_weights"]) for row in rows)
    for row in rows:
        by_seed = [seed["layer_weights"] for seed in row["seeds"]]
        cells = [mean(layer) for layer in zip(*by_seed, strict=True)]
        cells += [""] * (layers - len(cells))
        gammas = [seed["gamma"] for seed in row["seeds"] if seed["gamma"] is not None]
        lines.append((row["title"], str(len(by_seed)), *cells, mean(gammas) if gammas else ""))
    return table(["", "seeds", *(f"layer {layer}" for layer in range(layers)), "γ"], lines)


def draws(results: Json) -> Json:
    """Every draw of frozen weights, the best on development rows first."""
    ordered = sorted(results["draws"], key=lambda draw: -draw["development_accuracy"])
    lines = [
        (
            str(draw["seed"]),
            *map(score, draw["layer_weights"]),
            score(draw["development_accuracy"]),
            score(draw["test_accuracy"]),
        )
        for draw in ordered
    ]
    layers = [f"layer {layer}" for layer in range(len(ordered[0]["layer_weights"]))]
    return table(["seed", *layers, "development", "test"], lines)


def samples(points: Sequence[Json], names: Names) -> Json:
    """Test accuracy by row and number of labels."""
    sizes = sorted({(point["train_rows"], point["per_class"] or 0) for point in points})
    tests = {(point["row"], point["train_rows"]): point["test_accuracy"] for point in points}

    def cell(row: str, size: int) -> str:
        test = tests.get((row, size))
        return "" if test is None else over_seeds(test, 2 if test["deviation"] else 1)

    return table(
        ["", *(f"{per_class:,} per class" if per_class else "all" for _, per_class in sizes)],
        [
            (names[row][0], *(cell(row, size) for size, _ in sizes))
            for row in dict.fromkeys(point["row"] for point in points)
        ],
    )


SETTINGS = {
    "window": "Context window of static embeddings",
    "dim": "Dimension of static embeddings",
    "hidden": "Hidden size of a small biLM",
    "layers": "Layers of a small biLM",
    "bilm-epochs": "Epochs of pre-training of a small biLM",
    "learning-rate": "Learning rate of the classifier",
    "dropout": "Dropout of the classifier",
    "mix-pull": "λ regularisation",
    "function-hidden": "Hidden units of the learned function",
}


def sweeps(curves: Sequence[Json], names: Names) -> Json:
    """Accuracy by value of each setting."""
    parts: list[Json] = []
    for curve in curves:
        title, group = names[curve["row"]]
        lines = [
            (
                value(point["value"]),
                score(point["development_accuracy"]),
                score(point["test_accuracy"]),
                ", ".join(map(score, point["layer_weights"] or ())),
                point["note"] or "",
            )
            for point in curve["points"]
        ]
        heading = f"{SETTINGS[curve['setting']]}: {title}, {curve['train_rows']:,} rows"
        parts.append(part(lines, heading, group))
    return table(["value", "development", "test", "layer weights", "note"], parts=parts)


def sweep_sentence(curves: Sequence[Json], names: Names, test_rows: int) -> str:
    """What the numbers of one setting carry: the best value, and whether the range is noise."""
    sentences: list[str] = []
    for curve in curves:
        points, (title, _) = curve["points"], names[curve["row"]]
        if len(points) < 2:
            continue
        best = max(points, key=lambda point: point["development_accuracy"])
        tests = [point["test_accuracy"] for point in points]
        low, high = min(tests), max(tests)
        # Two accuracies on the same rows, as if they were independent: a cautious bound.
        noise = 1.96 * (2 * high * (1 - high) / test_rows) ** 0.5
        judged = "more than" if high - low > noise else "no more than"
        sentences.append(
            f"{title}: {value(best['value'])} is best on development rows; test accuracy goes from "
            f"{score(low)} to {score(high)}, {judged} chance explains (± {score(noise)})."
        )
    return " ".join(sentences)


def word(analysis: Json, names: Names) -> Json:
    """The static neighbours of a word and its neighbours in two contexts."""
    titles = [f"always ({names[analysis['static_row']][0]})"]
    lists = [[f"{near['word']} {near['similarity']:.2f}" for near in analysis["static"]]]
    for context in analysis["contexts"]:
        text, cells = context["text"], list[str]()
        for near in context["neighbours"]:
            where = f"training row {near['row']:,}"
            if near["text"] is not None:
                where = around(near["text"], near["word"], LONGEST_SNIPPET)
            cells.append(f"{near['word']} {near['similarity']:.2f} · {where}")
        lists.append(cells)
        titles.append(
            f"in test row {context['row']:,}"
            if text is None
            else f"in “{around(text, analysis['word'], LONGEST_TEXT)}”"
        )
    longest = max(map(len, lists))
    padded = [[*cells, *[""] * (longest - len(cells))] for cells in lists]
    lines = [(str(rank), *cells) for rank, cells in enumerate(zip(*padded, strict=True), 1)]
    return table(["", *titles], lines, left=len(titles) + 1)


def senses(embeddings: Sequence[Json]) -> Json:
    """How well embeddings tell senses apart."""
    lines: list[Line] = []
    for sense in embeddings:
        count, accuracy = sense["occurrences"], sense["accuracy"]
        sure = wilson(round(accuracy * count), count)
        interval = f"{score(sure.low)}–{score(sure.high)}"
        chance = score(sense["chance"])
        lines.append((sense["embedding"], score(accuracy), interval, chance, f"{count:,}"))
    return table(["", "accuracy", "95% interval", "chance", "occurrences"], lines)


# Pre-training.


def language_model(metrics: Json) -> Json:
    """How well both directions predict text."""
    columns = [metrics[name] for name in ("forward", "backward", "average")]
    lines: list[Line] = [("perplexity", *(f"{m['perplexity']:,.2f}" for m in columns))]
    for key, title in (("accuracy", "accuracy"), ("top5_accuracy", "top-5 accuracy")):
        lines.append((title, *(score(m[key]) for m in columns)))
    for average in ("macro", "weighted"):
        for key, title in (("precision",) * 2, ("recall",) * 2, ("f1", "F1")):
            lines.append((f"{title}, {average}", *(score(m[average][key]) for m in columns)))
    lines.append(("predictions", *(f"{m['targets']:,}" for m in columns)))
    return table(["", "forward", "backward", "average"], lines)


def word_confusions(confusions: Sequence[Json]) -> Json:
    """The words that are confused most often, in two halves side by side."""
    half = -(-len(confusions) // 2)
    cells = [(pair["true"], pair["predicted"], f"{pair['count']:,}") for pair in confusions]
    cells += [("", "", "")] * (2 * half - len(cells))
    lines = [(*first, *second) for first, second in zip(cells[:half], cells[half:], strict=True)]
    aligned = table(["true word", "predicted", "times"] * 2, lines)
    for idx in (1, 3, 4):
        aligned["columns"][idx]["align"] = "left"
    return aligned


# How it was done.


def chosen(rows: Sequence[Json]) -> Json:
    """The settings that development rows chose."""
    lines = [
        (
            row["title"],
            settings(row["chosen"]) or "the default",
            str(len(row["candidates"])),
            score(row["development_accuracy"]["mean"]),
        )
        for row in rows
    ]
    return table(["", "chosen", "tried", "development"], lines, left=2)


def candidates(rows: Sequence[Json]) -> Json:
    """All settings that were tried."""
    parts = [
        part(
            [
                (
                    settings(candidate["settings"]),
                    score(candidate["development_accuracy"]),
                    "chosen" if candidate["settings"] == row["chosen"] else "",
                )
                for candidate in row["candidates"]
            ],
            row["title"],
            row["group"],
        )
        for row in rows
        if row["candidates"]
    ]
    return table(["settings", "development accuracy", "chosen"], parts=parts)


# How values are written: the same everywhere.


def score(accuracy: float) -> str:
    """An accuracy, an F1 or a weight."""
    return f"{accuracy:.4f}"


def number(count: int) -> str:
    """A count."""
    return f"{count:,}"


def over_seeds(spread: Json, seeds: int) -> str:
    """The mean of {"mean", "deviation", …}, with the deviation if there are several seeds."""
    return score(spread["mean"]) + (f" ± {score(spread['deviation'])}" if seeds > 1 else "")


def mean(values: Sequence[float], digits: int = 4) -> str:
    """The mean, with the deviation if there are several values."""
    text = f"{fmean(values):.{digits}f}"
    return text + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def difference(compared: Json) -> str:
    """A difference of accuracies and its interval, with signs."""
    values = (compared["difference"], compared["low"], compared["high"])
    value, low, high = (f"{number:+.4f}".replace("-", "−") for number in values)
    return f"{value} ({low} to {high})"


def p_value(p: float) -> str:
    """A p-value, never rounded across the line between significant and not."""
    if p < 1e-300:
        return "< 1e-300"
    if p < 0.001:
        digit, exponent = f"{p:.0e}".split("e")
        return f"{digit}e{int(exponent)}"
    texts = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in texts if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT))


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days: the two largest units that matter."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if (rounded := round(seconds)) < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    if (minutes := round(seconds / 60)) < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def around(text: str, word: str, longest: int) -> str:
    """Whole words of a text, at most `longest` characters, with `word` if the text has it."""
    if len(text) <= longest:
        return text
    position = max(0, f" {text} ".find(f" {word} "))
    first = max(0, min(position - (longest - len(word)) // 2, len(text) - longest))
    cut = text[first : first + longest]
    if first and text[first - 1] != " ":
        cut = cut.partition(" ")[2] or cut
    if first + longest < len(text) and text[first + longest] != " ":
        cut = cut.rpartition(" ")[0] or cut
    return f"{'… ' * (first > 0)}{cut.strip()}{' …' * (first + longest < len(text))}"


def shortened(text: str, longest: int) -> str:
    """At most this many characters."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def settings(named: Sequence[Json]) -> str:
    """Names and values in a row."""
    return ", ".join(f"{setting['name']} {value(setting['value'])}" for setting in named)


def value(setting: Any) -> str:
    """A setting."""
    if setting is None or isinstance(setting, bool):
        return {None: "none", True: "yes", False: "no"}[setting]
    return f"{setting:g}" if isinstance(setting, float) else str(setting)

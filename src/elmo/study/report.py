"""The report of a study: results.json as one page of HTML and as a PDF.

`make_report` turns the values of results.json into plain blocks (dicts and lists: texts, tables,
figures); templates/report.html.jinja and templates/report.typ lay them out. Nothing in a block is
markup: jinja escapes it, typst receives it as data.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, cast

from elmo.classify.metrics import wilson
from elmo.config import Json
from elmo.errors import require_extra
from elmo.files import write_text, written_whole
from elmo.study import plots
from elmo.study.plots import GROUPS

PAGE, PAPER = "report.html", "report.pdf"
TEMPLATES = Path(__file__).parent / "templates"
SIGNIFICANT = 0.05
METHODS = {"svd": "SVD", "skipgram": "Skip-gram"}
DATA_NAMES = {"ag_news": "AG News", "generated": "the generated corpus that comes with elmo"}
CLASSES_PER_TABLE = 4
MOST_PAIRS, MOST_EXAMPLES = 6, 2
LONGEST_TEXT, LONGEST_SNIPPET = 125, 90

Line = Sequence[str]


def write_report(results: Json, folder: Path) -> None:
    """Write report.html and report.pdf into a folder."""
    report = make_report(results)
    write_text(folder / PAGE, render_html(report))
    with written_whole(folder / PAPER) as temporary:
        temporary.write_bytes(render_pdf(report))


def render_html(report: Json) -> str:
    """Fill the template; the page needs no other file."""
    jinja: Any = require_extra("jinja2", "study")
    markup: Any = require_extra("markupsafe", "study")

    def inline(svg: str) -> Any:
        return markup.Markup(plots.inline(svg))

    environment = jinja.Environment(
        loader=jinja.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja").render(
        report=report,
        light=plots.css_variables(dark=False),
        dark=plots.css_variables(dark=True),
        inline=inline,
    )


def render_pdf(report: Json) -> bytes:
    """Set the report on A4."""
    typst: Any = require_extra("typst", "study")
    matplotlib: Any = require_extra("matplotlib", "study")
    inputs = {"report": json.dumps(report), "colours": json.dumps(plots.LIGHT)}
    # The font of the figures, wherever this runs.
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return typst.compile(TEMPLATES / "report.typ", sys_inputs=inputs, font_paths=[fonts])


def make_report(results: Json) -> Json:
    """What the page and the PDF show; sections without content are left out."""
    results = printable(results)
    about = results["about"]
    name = DATA_NAMES.get(about["data"], about["data"])
    data = f"This study ran on {name}."
    if about["data"] == "generated":
        data += (
            " Its texts are made by a program: these figures say that everything works, not how "
            "embeddings fare on real text."
        )
    sections: tuple[tuple[str, str, Callable[[Json], Iterable[Json]]], ...] = (
        ("comparison", "The comparison", _comparison),
        ("failed", "Rows that failed", _failed),
        ("classes", "Precision, recall and F1 by class", _classes),
        ("confusion", "Confusion matrices", _confusion),
        ("weights", "Weights of the layers", _weights),
        ("draws", "How much depends on the frozen draw", _draws),
        ("samples", "Fewer labels", _samples),
        ("sweeps", "Settings varied", _sweeps),
        ("mistakes", "Where each embedding errs", _mistakes),
        ("words", "Words with several senses", _words),
        ("senses", "Senses told apart", _senses),
        ("pretraining", "Pre-training", _pretraining),
        ("how", "How it was done", _how),
    )
    return {
        "title": f"ELMo and static embeddings, compared on {name}",
        "data": data,
        "answer": answer(results),
        "facts": f"{about['train_rows']:,} training rows, {about['development_rows']:,} of them to "
        f"choose settings and epochs; {about['test_rows']:,} test rows; {len(about['labels'])} "
        f"labels; seeds: {', '.join(map(str, about['seeds']))}; preset {about['preset']}; finished "
        f"{about['finished']} UTC after {duration(about['seconds'])}",
        "sections": [
            {"name": name, "title": title, "blocks": blocks}
            for name, title, make in sections
            if (blocks := list(make(results)))
        ],
    }


def answer(results: Json) -> list[str]:
    """Two or three sentences: the best ELMo row, what it is compared with, and how sure that is."""
    rows: list[Json] = results["rows"]
    other = reference(results)
    elmo = best([row for row in rows if row["group"] == "elmo"])
    leader = elmo or best(rows)
    if leader is None:
        return ["No row of the comparison could be computed."]
    test = leader["test_accuracy"]
    count = f"{results['about']['test_rows']:,}"
    sentences = [
        f"{leader['title']}, best of {'the ELMo' if elmo else 'all'} rows on the development rows, "
        f"labels {score(test['mean'])} of the {count} test rows correctly (95% interval "
        f"{score(test['low'])} to {score(test['high'])})."
    ]
    if elmo and other and elmo["paired"]:
        text = (
            f"{other['title']}, the best static embedding, reaches "
            f"{score(other['test_accuracy']['mean'])}: "
        )
        p = _p(elmo["paired"]["p"])
        if (found := verdict(elmo, other)) == "unclear":
            text += f"no difference that {count} rows can show ({p})."
        else:
            text += f"ELMo is {found} it by more than chance explains ({p})."
        verdicts = Counter(
            verdict(row, other) for row in rows if row["group"] == "elmo" and row["paired"]
        )
        if verdicts.total() > 1:
            text += f" Of {verdicts.total()} ELMo rows, {verdicts['above']} are above it, "
            text += f"{verdicts['below']} below, {verdicts['unclear']} not to be told apart."
        sentences.append(text)
    control = best([row for row in rows if row["group"] == "control"])
    if elmo and control:
        sentences.append(
            f"Without a pre-trained embedding, {control['title']} reaches "
            f"{score(control['test_accuracy']['mean'])}."
        )
    return sentences


def verdict(row: Json, other: Json) -> Literal["above", "below", "unclear"]:
    """Whether a row differs from the reference, in the first seed and in the mean over seeds."""
    paired = row["paired"]
    if paired is None or paired["p"] >= SIGNIFICANT:
        return "unclear"
    first_seed = paired["only_this"] - paired["only_other"]
    all_seeds = row["test_accuracy"]["mean"] - other["test_accuracy"]["mean"]
    if first_seed > 0 and all_seeds > 0:
        return "above"
    return "below" if first_seed < 0 and all_seeds < 0 else "unclear"


def best(rows: Sequence[Json]) -> Json | None:
    """The best on development rows: test rows must not choose."""
    return max(rows, key=lambda row: row["development_accuracy"]["mean"], default=None)


def reference(results: Json) -> Json | None:
    """The row that the others are compared with."""
    names = {row["paired"]["against"] for row in results["rows"] if row["paired"]}
    return next((row for row in results["rows"] if row["name"] in names), None)


# The sections, in their order.


def _comparison(results: Json) -> Iterator[Json]:
    rows: list[Json] = results["rows"]
    if not rows:
        return
    other = reference(results)
    tests = sum(row["paired"] is not None for row in rows)
    caption = (
        "Means over seeds ± standard deviation; Wilson's 95% interval of the mean over the "
        f"{results['about']['test_rows']:,} test rows. "
    )
    if other:
        caption += (
            f"Paired p: McNemar's test of the first seed against {other['title']}, the static "
            f"embedding that was best on development rows; ↑ above, ↓ below it where p < "
            f"{SIGNIFICANT}. These are {tests} tests, uncorrected: to be sure of all at once, "
            f"count only p < {SIGNIFICANT / max(1, tests):.2g}. "
        )
    caption += "Time: to make the embedding, and to train one classifier. Texts/s: words to labels."

    def line(row: Json) -> Line:
        test, paired = row["test_accuracy"], row["paired"]
        p = "reference" if row is other else ""
        if paired and other:
            arrow = {"above": "↑ ", "below": "↓ ", "unclear": ""}[verdict(row, other)]
            p = arrow + p_value(paired["p"])
        made = row["embedding_seconds"]
        speed = row["texts_per_second"]
        return (
            row["title"],
            over_seeds(test, len(row["seeds"])),
            f"{score(test['low'])}–{score(test['high'])}",
            score(row["test_macro_f1"]["mean"]),
            score(row["train_accuracy"]["mean"]),
            p,
            "" if made is None else duration(made),
            duration(fmean(seed["training_seconds"] for seed in row["seeds"])),
            f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}",
            f"{row['parameters']:,}",
            f"{row['embedding_parameters']:,}" if row["embedding_parameters"] else "",
        )

    yield _table(
        "main",
        caption,
        ["", "test accuracy", "95% interval", "macro F1", "train accuracy", "paired p",
         "embedding", "training", "texts/s", "learned", "embedding"],
        _by_group(rows, line),
        over=[("", 6), ("time", 2), ("", 1), ("parameters", 2)],
        dense=True,
    )  # fmt: skip
    yield _figure(
        "accuracy",
        "Test accuracy: mean over seeds and its 95% interval"
        + (f"; dashed: {other['title']}." if other else ".")
        + " An arrow: further to the left.",
        "; ".join(f"{row['title']} {score(row['test_accuracy']['mean'])}" for row in rows),
        plots.accuracy(results),
        floats=True,
    )


def _failed(results: Json) -> Iterator[Json]:
    if results["failed"]:
        lines = [(row["title"], row["message"]) for row in results["failed"]]
        caption = "Rows that could not be computed, with the message of each."
        yield _table("failed", caption, ["row", "message"], _one(lines), left=2)


def _classes(results: Json) -> Iterator[Json]:
    """Precision, recall and F1 of every row; a few classes per table, the mean in the first."""
    labels: list[str] = results["about"]["labels"]

    def cells(row: Json, split: str, label: int | None) -> Iterator[str]:
        metrics = [seed[split] for seed in row["seeds"]]
        found = [one["macro"] if label is None else one["classes"][label] for one in metrics]
        for figure in ("precision", "recall", "f1"):
            yield score(fmean(one[figure] for one in found))

    for split, title in (("test", "Test rows"), ("train", "Training rows")):
        tables: list[Json] = []
        columns: list[int | None] = [None, *range(len(labels))]
        for first in range(0, len(columns), CLASSES_PER_TABLE + 1):
            some = columns[first : first + CLASSES_PER_TABLE + 1]
            names = ["mean of classes" if idx is None else labels[idx] for idx in some]
            tables.append(
                _table(
                    f"classes-{split}-{first}",
                    f"{title}: precision (P), recall (R) and F1; means over seeds.",
                    ["", *["P", "R", "F1"] * len(some)],
                    _by_group(
                        results["rows"],
                        lambda row, split=split, some=some: (
                            row["title"],
                            *(cell for idx in some for cell in cells(row, split, idx)),
                        ),
                    ),
                    over=[("", 1), *((name, 3) for name in names)],
                    dense=True,
                )
            )
        if results["rows"]:
            yield _details(f"{title}, by class", *tables)


def _confusion(results: Json) -> Iterator[Json]:
    if not results["rows"]:
        return
    for split, what in (("test", "Test rows"), ("train", "Training rows")):
        figure = _figure(
            f"confusion-{split}",
            f"{what}, first seed: a line is a label, a column what was predicted. Mistakes are "
            f"coloured, fully from {plots.FULL_COLOUR:.0%} of a class.",
            "; ".join(
                f"{row['title']} {_trace(row['seeds'][0][split]['confusion'])}"
                for row in results["rows"]
            ),
            plots.confusion(results, split),
        )
        yield figure if split == "test" else _details("The same on training rows", figure)


def _weights(results: Json) -> Iterator[Json]:
    # Rows that sum layers with weights that were learned or drawn; a static row is one layer.
    rows = [
        row
        for row in results["rows"]
        if len(row["seeds"][0]["layer_weights"] or ()) > 1
        and row["name"].split("-")[0] not in ("average", "layer")
    ]
    if not rows:
        return
    lines: list[Line] = []
    layers = max(len(row["seeds"][0]["layer_weights"]) for row in rows)
    for row in rows:
        by_seed = [seed["layer_weights"] for seed in row["seeds"]]
        cells = [_mean(list(layer)) for layer in zip(*by_seed, strict=True)]
        gammas = [seed["gamma"] for seed in row["seeds"] if seed["gamma"] is not None]
        cells += [""] * (layers - len(cells))
        lines.append((row["title"], str(len(by_seed)), *cells, _mean(gammas) if gammas else ""))
    yield _figure(
        "weights",
        "Normalised weights of the layers, one dot per seed, a line through the means. Dashed: a "
        "plain average. Layer 0 is the word alone; frozen weights are drawn anew by every seed.",
        "The table below has the numbers.",
        plots.weights(rows),
    )
    yield _table(
        "weights-table",
        "Means over seeds ± standard deviation; γ scales the sum.",
        ["", "seeds", *(f"layer {layer}" for layer in range(layers)), "γ"],
        _one(lines),
    )


def _draws(results: Json) -> Iterator[Json]:
    draws = results["draws"]
    if not draws or not draws["draws"]:
        return
    reached = [draw["test_accuracy"] for draw in draws["draws"]]
    learned = draws["trainable_test_accuracy"]
    # The rank of the learned weights among the draws: how probable one more draw is to be as high.
    p = (sum(one >= learned for one in reached) + 1) / (len(reached) + 1)
    yield _text(
        f"Draws of frozen weights reach {score(min(reached))} to {score(max(reached))} (mean "
        f"{_mean(reached)}); learned weights reach {score(learned)} on the same rows, more than "
        f"{sum(one < learned for one in reached)} of {len(reached)} draws ({_p(p)})."
    )
    yield _figure(
        "draws",
        "Test accuracy of each draw against the weight it gives to a layer. Dashed: weights "
        f"learned on the same {draws['train_rows']:,} rows.",
        "The table below has the numbers.",
        plots.draws(draws),
    )
    ordered = sorted(draws["draws"], key=lambda draw: -draw["development_accuracy"])
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
    columns = ["seed", *layers, "development", "test"]
    caption = "Draws of frozen weights, the best on development rows first."
    yield _details("Every draw", _table("draws-table", caption, columns, _one(lines)))


def _samples(results: Json) -> Iterator[Json]:
    points: list[Json] = results["samples"]
    if not points:
        return
    names = _names(results, [point["row"] for point in points])
    yield _figure(
        "samples",
        "Test accuracy against the number of labelled rows; bands are 95% intervals.",
        "The table below has the numbers.",
        plots.samples(points, names),
    )
    sizes = sorted({(point["train_rows"], point["per_class"] or 0) for point in points})
    found = {(point["row"], point["train_rows"]): point["test_accuracy"] for point in points}

    def cell(row: str, size: int) -> str:
        test = found.get((row, size))
        return "" if test is None else over_seeds(test, 2 if test["deviation"] else 1)

    yield _table(
        "samples-table",
        "Test accuracy by number of labels; means over seeds ± standard deviation.",
        ["", *(f"{per_class:,} per class" if per_class else "all" for _, per_class in sizes)],
        _one([(names[row][0], *(cell(row, size) for size, _ in sizes)) for row in names]),
    )


def _sweeps(results: Json) -> Iterator[Json]:
    sweeps = [sweep for sweep in results["sweeps"] if sweep["points"]]
    if not sweeps:
        return
    names = _names(results, [sweep["row"] for sweep in sweeps])
    yield _figure(
        "sweeps",
        "Accuracy against the values of a setting, all others unchanged. Filled: test; open: "
        "development.",
        "The table below has the numbers.",
        plots.sweeps(sweeps, names),
    )
    parts = [
        _part(
            [
                (
                    _value(point["value"]),
                    score(point["development_accuracy"]),
                    score(point["test_accuracy"]),
                    point["note"] or "",
                )
                for point in sweep["points"]
            ],
            f"{sweep['setting']}, {names[sweep['row']][0]}, {sweep['train_rows']:,} rows",
            names[sweep["row"]][1],
        )
        for sweep in sweeps
    ]
    columns = ["value", "development", "test", "note"]
    yield _details("Every value", _table("sweeps-table", "Accuracy by value.", columns, parts))


def _mistakes(results: Json) -> Iterator[Json]:
    rows = [row for row in results["rows"] if row["confusions"]]
    if not rows:
        return
    labels: list[str] = results["about"]["labels"]
    counts: Counter[tuple[int, int]] = Counter()
    for row in [row for row in rows if row["group"] != "control"] or rows:
        matrix: list[list[int]] = row["seeds"][0]["test"]["confusion"]
        for label, found in enumerate(matrix):
            counts.update({(label, other): n for other, n in enumerate(found) if other != label})
    pairs = [pair for pair, count in counts.most_common(MOST_PAIRS) if count]

    def line(row: Json) -> Line:
        matrix = row["seeds"][0]["test"]["confusion"]
        return (row["title"], *(f"{matrix[label][other]:,}" for label, other in pairs))

    yield _table(
        "pairs",
        "Test rows of one class (left of the arrow) taken for another, first seed; the mistakes "
        "that are most frequent over all embeddings.",
        ["", *(f"{labels[label]} → {labels[other]}" for label, other in pairs)],
        _by_group(results["rows"], line),
        dense=True,
    )
    for row in rows:
        parts = [
            _part(
                [
                    (f"{example['row']:,}", _shortened(example["text"] or "", LONGEST_TEXT))
                    for example in confusion["examples"][:MOST_EXAMPLES]
                ],
                f"{confusion['label']} taken for {confusion['predicted']}: {confusion['count']:,}",
            )
            for confusion in row["confusions"]
        ]
        caption = f"{row['title']}: the most frequent mistakes, with test rows, counted from 0."
        columns = ["row", "text"]
        table = _table(f"mistakes-{row['name']}", caption, columns, parts, left=2)
        yield _details(row["title"], table)


def _words(results: Json) -> Iterator[Json]:
    """The static neighbours of a word beside its neighbours in two contexts."""
    for idx, word in enumerate(results["words"]):
        static = [f"{near['word']} {near['similarity']:.2f}" for near in word["static"]]
        lists = [static]
        titles = [f"always ({_names(results, [word['static_row']])[word['static_row']][0]})"]
        for context in word["contexts"]:
            text = context["text"]
            titles.append(
                f"in test row {context['row']:,}"
                if text is None
                else f"in “{around(text, word['word'], LONGEST_TEXT)}”"
            )
            lists.append(
                [
                    f"{near['word']} {near['similarity']:.2f} · "
                    + (
                        f"training row {near['row']:,}"
                        if near["text"] is None
                        else around(near["text"], near["word"], LONGEST_SNIPPET)
                    )
                    for near in context["neighbours"]
                ]
            )
        longest = max(map(len, lists))
        padded = [[*cells, *[""] * (longest - len(cells))] for cells in lists]
        lines = [(str(rank), *cells) for rank, cells in enumerate(zip(*padded, strict=True), 1)]
        table = _table(
            f"word-{idx}",
            f"“{word['word']}”: its nearest words, with their cosine.",
            ["", *titles],
            _one(lines),
            left=1 + len(lists) + 1,
        )
        yield _details(f"“{word['word']}”", table, is_open=idx == 0)


def _senses(results: Json) -> Iterator[Json]:
    lines: list[Line] = []
    for sense in results["senses"]:
        count = sense["occurrences"]
        sure = wilson(round(sense["accuracy"] * count), count)
        lines.append(
            (
                sense["embedding"],
                score(sense["accuracy"]),
                f"{score(sure.low)}–{score(sure.high)}",
                score(sense["chance"]),
                f"{count:,}",
            )
        )
    if lines:
        yield _table(
            "senses",
            "How often the nearest occurrence of an ambiguous word, in another text, has the same "
            "sense, with Wilson's 95% interval; chance: a random occurrence.",
            ["", "accuracy", "95% interval", "chance", "occurrences"],
            _one(lines),
        )


def _pretraining(results: Json) -> Iterator[Json]:
    model = results["language_model"]
    if not model:
        return
    text = (
        f"The biLM ({model['source']}) has {model['layers']} LSTM layers of {model['width']:,} "
        f"units per direction, {model['parameters']:,} parameters and a vocabulary of "
        f"{model['vocabulary']:,} words."
    )
    if model["perplexity"] is not None:
        text += f" Perplexity on held-out text: {model['perplexity']:,.2f}."
    if model["accuracy"] is not None:
        text += f" Accuracy of the next word: {score(model['accuracy'])}."
    if model["seconds"] is not None:
        text += f" Training took {duration(model['seconds'])}."
    yield _text(text)
    history: list[Json] = model["history"]
    if len(history) > 1:
        yield _figure(
            "perplexity",
            "Perplexity of the biLM on held-out text after each epoch.",
            "; ".join(f"epoch {one['epoch']:g} {one['perplexity']:,.2f}" for one in history),
            plots.perplexity(history),
        )
        keys = ("forward_perplexity", "backward_perplexity", "perplexity")
        lines = [(f"{one['epoch']:g}", *(f"{one[key]:,.2f}" for key in keys)) for one in history]
        columns = ["epoch", "forward", "backward", "both"]
        table = _table("history", "Perplexity on held-out text.", columns, _one(lines))
        yield _details("Every epoch", table)


def _how(results: Json) -> Iterator[Json]:
    about = results["about"]
    yield _text(
        "Every embedding has the same kind of classifier above it and the same rows to learn from. "
        "Settings and epochs are chosen by development rows, taken from the training rows; the "
        "first settings of a network stay unless others are better by more than a standard error. "
        "The test rows choose nothing."
    )
    settings = {one["name"]: one["value"] for one in about["settings"]}
    if settings.get("own_words"):
        text = f"Beside each embedding, the classifier learns {settings['own_words']} numbers per "
        text += "word for the task ([x; ELMo] in the paper)"
        vectors = settings.get("word_vectors")
        text += f", initialised from {Path(str(vectors)).name}." if vectors else "."
        yield _text(text)
    yield {"kind": "code", "text": about["command"]}
    facts = {
        "machine": about["machine"],
        "finished": f"{about['finished']} UTC",
        "time in all": duration(about["seconds"]),
    }
    yield _table("machine", "Where and when.", ["name", "value"], _one(list(facts.items())), left=2)
    rows = results["rows"]
    if rows:
        lines = [
            (
                row["title"],
                _settings(row["chosen"]) or "none to choose",
                str(len(row["candidates"])),
                score(row["development_accuracy"]["mean"]),
            )
            for row in rows
        ]
        caption = (
            "Settings chosen on development rows; development accuracy is the mean over seeds."
        )
        columns = ["", "chosen", "tried", "development"]
        yield _table("chosen", caption, columns, _one(lines), left=2)
    parts = [
        _part(
            [
                (
                    _settings(one["settings"]),
                    score(one["development_accuracy"]),
                    "chosen" if one["settings"] == row["chosen"] else "",
                )
                for one in row["candidates"]
            ],
            row["title"],
            row["group"],
        )
        for row in rows
        if row["candidates"]
    ]
    if parts:
        columns = ["settings", "development accuracy", "chosen"]
        table = _table("candidates", "All settings tried on development rows.", columns, parts)
        yield _details("All settings tried", table)
    for name, heading in (
        ("settings", "All settings of the study"),
        ("fingerprints", "Fingerprints (SHA-256) of the data and of the biLM"),
        ("versions", "Versions"),
    ):
        lines = [(one["name"], _value(one["value"])) for one in about[name]]
        if lines:
            table = _table(name, f"{heading}.", ["name", "value"], _one(lines), left=2)
            yield _details(heading, table)


# Blocks.


def _text(text: str) -> Json:
    return {"kind": "text", "text": text}


def _details(title: str, *blocks: Json, is_open: bool = False) -> Json:
    """Closed on a page, open on paper."""
    return {"kind": "details", "title": title, "blocks": list(blocks), "open": is_open}


def _figure(name: str, caption: str, alt: str, svg: str, *, floats: bool = False) -> Json:
    alt = f"{caption} {alt}"
    return {
        "kind": "figure",
        "name": name,
        "caption": caption,
        "alt": alt,
        "svg": svg,
        "floats": floats,
    }


def _table(
    name: str,
    caption: str,
    columns: Sequence[str],
    parts: Sequence[Json],
    *,
    left: int = 1,
    over: Sequence[tuple[str, int]] = (),
    dense: bool = False,
) -> Json:
    """The first `left` columns hold text, the others numbers; `over`: (title, width) above them."""
    return {
        "kind": "table",
        "name": name,
        "caption": caption,
        "columns": [
            {"title": title, "align": "left" if idx < left else "right"}
            for idx, title in enumerate(columns)
        ],
        "parts": list(parts),
        "over": [{"title": title, "width": width} for title, width in over],
        "dense": dense,
    }


def _part(lines: Sequence[Line], title: str = "", group: str | None = None) -> Json:
    return {"title": title, "group": group, "lines": [list(line) for line in lines]}


def _one(lines: Sequence[Line]) -> list[Json]:
    return [_part(lines)]


def _by_group(rows: Sequence[Json], line: Callable[[Json], Line]) -> list[Json]:
    return [
        _part([line(row) for row in members], title, group)
        for group, title in GROUPS.items()
        if (members := [row for row in rows if row["group"] == group])
    ]


def _names(results: Json, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Title and group of rows, or of methods of which there are several rows."""
    rows = {row["name"]: (row["title"], row["group"]) for row in results["rows"]}
    failed = {row["name"]: (row["title"], "control") for row in results["failed"]}
    methods = {name: (title, "static") for name, title in METHODS.items()}
    known = methods | failed | rows
    return {name: known.get(name, (name, "control")) for name in dict.fromkeys(names)}


# How values are written: the same everywhere.


def score(value: float) -> str:
    """An accuracy, an F1 or a weight."""
    return f"{value:.4f}"


def over_seeds(spread: Json, seeds: int) -> str:
    """The mean of {"mean", "deviation", …}, with the deviation if there are several seeds."""
    return score(spread["mean"]) + (f" ± {score(spread['deviation'])}" if seeds > 1 else "")


def p_value(p: float) -> str:
    """A p-value, never rounded across the line between significant and not."""
    if p < 1e-300:
        return "< 1e-300"
    if p < 0.001:
        digit, exponent = f"{p:.0e}".split("e")
        return f"{digit}e{int(exponent)}"
    texts = (f"{p:.{digits}g}" for digits in range(2, 18))
    return next(text for text in texts if (float(text) < SIGNIFICANT) == (p < SIGNIFICANT))


def _p(p: float) -> str:
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


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
    part = text[first : first + longest]
    if first and text[first - 1] != " ":
        part = part.partition(" ")[2] or part
    if first + longest < len(text) and text[first + longest] != " ":
        part = part.rpartition(" ")[0] or part
    return f"{'… ' * (first > 0)}{part.strip()}{' …' * (first + longest < len(text))}"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _mean(values: Sequence[float]) -> str:
    return score(fmean(values)) + (f" ± {score(stdev(values))}" if len(values) > 1 else "")


def _trace(matrix: Sequence[Sequence[int]]) -> str:
    right = sum(line[idx] for idx, line in enumerate(matrix))
    return f"{right:,} of {sum(map(sum, matrix)):,} right"


def _settings(settings: Sequence[Json]) -> str:
    return ", ".join(f"{one['name']} {_value(one['value'])}" for one in settings)


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def printable(value: Any) -> Any:
    """The same values, with each character that XML or UTF-8 cannot hold replaced."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(map(_printable, value))
    if isinstance(value, dict):
        return {key: printable(item) for key, item in cast("Json", value).items()}
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in cast("list[Any]", value)]
    return value


def _printable(character: str) -> str:
    if character in "\t\n\r":
        return " "
    lost = unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE
    return "\N{REPLACEMENT CHARACTER}" if lost else character

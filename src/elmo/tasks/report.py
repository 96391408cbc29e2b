"""The report of `elmo study paper`: the paper's findings checked on our numbers, and all tables.

Results are plain JSON; the report is blocks that the templates of `elmo study` lay out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import fmean

from elmo.config import Json

LEVEL = 0.05
"""Level of significance."""
VERDICTS = {True: "agrees", False: "does not agree", None: "not significant"}
PAPER_NUMBERS = {"senses": "Table 5: ", "pos": "Table 6: "}
MIX_NAMES = ("last layer", "all layers, λ = 1", "all layers, λ = 0.001")
PLACES = ("input", "output", "both")


# What the paper found, and whether our numbers agree.


def findings(results: Json) -> list[Json]:
    """Claims of the paper: whether our numbers agree (None: not significantly), and the numbers."""
    every = (_improvements, _layers, _word_vectors, _mixes, _samples)
    return [
        {"claim": claim, "agrees": agrees, "numbers": numbers}
        for part in every
        for claim, agrees, numbers in part(results)
    ]


Finding = tuple[str, bool | None, str]


def _significant(better: bool, p: float) -> bool | None:
    return better if p < LEVEL else None


def _improvements(results: Json) -> Iterator[Finding]:
    for row in results["table1"]:
        paired = row["paired"]
        yield (
            f"ELMo improves: {row['title']}",
            _significant(paired["difference"] > 0, paired["p"]),
            f"{row['none']['mean']:.4f} to {row['input']['mean']:.4f} ({row['measure']}), "
            f"{_errors(row['error_reduction'])}, p = {paired['p']:.2g}",
        )


def _errors(reduction: float) -> str:
    return f"{abs(reduction):.0%} {'fewer' if reduction >= 0 else 'more'} errors"


def layer_values(probe: Json) -> dict[str, float]:
    """The value of each layer of the biLM by name; neither their average nor controls."""
    rows = (row for row in probe["rows"] if row["name"].startswith("layer "))
    return {row["name"]: row["value"] for row in rows}


def _layers(results: Json) -> Iterator[Finding]:
    for name, best, what in (
        ("pos", "layer 1", "first layer knows parts of speech"),
        ("senses", "layer 2", "second layer knows senses"),
    ):
        if name not in results["probes"]:
            continue
        probe = results["probes"][name]
        layers = layer_values(probe)
        shown = ", ".join(f"{layer} {value:.4f}" for layer, value in layers.items())
        context = max(value for layer, value in layers.items() if layer != "layer 0")
        title = f"Context layers beat layer 0: {probe['title']}"
        yield title, context > layers["layer 0"], shown
        if "layer 2" in layers:
            yield f"The {what} best", max(layers, key=layers.__getitem__) == best, shown
    if (probe := results["probes"].get("senses")) is not None:
        first, *others = probe["rows"]
        of_elmo = [row for row in others if row["name"].startswith("layer ")]
        best_row = max(of_elmo, key=lambda row: row["value"])
        with_frequency = max(
            (row["with_frequency"] | {"name": row["name"]} for row in of_elmo),
            key=lambda row: row["value"],
        )
        yield (
            "The better layer is above the first sense",
            _significant(best_row["difference"] > 0, best_row["p"]),
            f"first sense {first['value']:.4f}, {best_row['name']} {best_row['value']:.4f}, "
            f"p = {best_row['p']:.2g}; with the frequency of senses, {with_frequency['name']} "
            f"{with_frequency['value']:.4f}, p = {with_frequency['p']:.2g}",
        )


def _word_vectors(results: Json) -> Iterator[Finding]:
    for probe in results["probes"].values():
        against = [
            (row["name"], row.get("against_words", row))
            for row in probe["rows"]
            if row["name"] in layer_values(probe)
        ]
        against = [(name, row) for name, row in against if row.get("against") == "layer 0"]
        if against:
            name, row = max(against, key=lambda one: one[1]["difference"])
            yield (
                f"Context adds to the word alone: {probe['title']}",
                _significant(row["difference"] > 0, row["p"]),
                f"{name} above layer 0 by {row['difference']:+.4f}, p = {row['p']:.2g}",
            )


def _mixes(results: Json) -> Iterator[Finding]:
    for row in results["table2"]:
        last, _, mixed = (row[name]["value"] for name in MIX_NAMES)
        shown = f"last layer {last:.4f}, all layers {mixed:.4f}; one seed"
        yield f"All layers beat the last one: {row['title']}", mixed > last, shown


def _samples(results: Json) -> Iterator[Finding]:
    for task in dict.fromkeys(row["task"] for row in results["figure1"]):
        rows = [row for row in results["figure1"] if row["task"] == task]
        better = [row["input"]["value"] > row["none"]["value"] for row in rows]
        whole = max(rows, key=lambda row: row["rows"])
        enough = [r["rows"] for r in rows if r["input"]["value"] >= whole["none"]["value"]]
        reached = f"{min(enough):,} rows" if enough else "no number of rows"
        yield (
            f"Fewer labels: {whole['title']}",
            all(better),
            f"better with {sum(better)} of {len(rows)} numbers of rows; what the baseline reaches "
            f"with {whole['rows']:,} rows takes ELMo {reached}",
        )
        epochs = whole["elmo_epochs"]
        yield (
            f"Fewer updates: {whole['title']}",
            epochs is not None and epochs < whole["baseline_epochs"],
            f"the baseline is best on development rows after {whole['baseline_epochs']} epochs; "
            + (f"ELMo is there after {epochs}" if epochs else "ELMo never gets there"),
        )


# The report.


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
    about, verdicts = results["about"], [row["agrees"] for row in results["findings"]]
    sections = [
        {"name": name, "title": title, "blocks": blocks}
        for part in (_table1, _table2, _table3, _table4, _probe_tables, _figure1, _figure2)
        for name, title, blocks in part(results)
    ]
    seeds, answer = len(about["config"]["seeds"]), list[str]()
    if verdicts:
        answer = [
            f"Of {len(verdicts)} findings of the paper, these numbers agree with "
            f"{verdicts.count(True)} and disagree with {verdicts.count(False)}; for "
            f"{verdicts.count(None)} the difference is not significant."
        ]
    caption = "Where our figures agree with the findings of Peters et al. (2018), and where not."
    lines = [[VERDICTS[row["agrees"]], row["claim"], row["numbers"]] for row in results["findings"]]
    first = table("findings", caption, ["here", "finding of the paper", "numbers"], lines, 3)
    return {
        "title": "The tables of the ELMo paper, made anew",
        "question": "Where does context help, and which layer knows what?",
        "data": f"biLM: {about['bilm']}. {about.get('words', '')}".strip(),
        "notes": [] if seeds > 2 else [f"Seeds: {seeds}. Differences between runs are not shown."],
        "sure": "",
        "first": [first] if lines else [],
        "answer": answer,
        "facts": f"{about['command']} · elmo {about['version']} · {about['machine']} · "
        f"{results['cpu_seconds'] / 60:,.0f} CPU minutes",
        "sections": sections,
    }


Section = tuple[str, str, list[Json]]


def _shown(value: Json | None) -> str:
    return "" if value is None else f"{value['value']:.4f}"


def _table1(results: Json) -> Iterator[Section]:
    def spread(arm: Json) -> str:
        several = len(arm["values"]) > 1
        return f"{arm['mean']:.4f}" + (f" ± {arm['deviation']:.4f}" if several else "")

    lines = [
        [row["title"], row["measure"], f"{row['rows']:,}", spread(row["none"]),
         spread(row["input"]), f"{row['error_reduction']:.1%}",
         f"{row['paired']['low']:+.4f} to {row['paired']['high']:+.4f}",
         f"{row['paired']['p']:.2g}"]
        for row in results["table1"]
    ]  # fmt: skip
    caption = (
        "The same model with task embeddings alone and with ELMo: mean and standard deviation over "
        "seeds; fraction of the errors that ELMo removes; interval of the difference over test "
        "rows and seeds; p of a permutation test over test rows (of sentences for names)."
    )
    columns = ["", "measure", "rows", "without", "with ELMo", "fewer errors", "95% interval", "p"]
    if lines:
        yield (
            "elmo",
            "Table 1: with and without ELMo",
            [table("table1", caption, columns, lines, 2)],
        )


def _table2(results: Json) -> Iterator[Section]:
    caption = "Last layer only, and all layers with λ = 1 and λ = 0.001; first seed."
    lines = [
        [row["title"], _shown(row["none"]), *(_shown(row[name]) for name in MIX_NAMES)]
        for row in results["table2"]
    ]
    if lines:
        columns = ["", "without ELMo", *MIX_NAMES]
        yield "mix", "Table 2: which layers", [table("table2", caption, columns, lines)]


def _table3(results: Json) -> Iterator[Section]:
    caption = "At the input, [x; ELMo], at the output, [h; ELMo], and at both; first seed."
    lines = [[row["title"], *(_shown(row[key]) for key in PLACES)] for row in results["table3"]]
    if lines:
        block = table("table3", caption, ["", *PLACES], lines)
        yield "place", "Table 3: where ELMo joins", [block]


def _table4(results: Json) -> Iterator[Section]:
    lines: list[list[str]] = []
    for row in results["table4"]:
        if row["static"]:
            lines.append([row["word"], "(word vectors)", ", ".join(row["static"])])
        for context in row["contextual"]:
            near = "; ".join(f"{hit['word']}: {hit['text']}" for hit in context["nearest"][:2])
            lines.append([row["word"], context["sentence"], near])
    if lines:
        caption = "Nearest words of ambiguous words: by word vectors, and by the last layer of the "
        caption += "biLM, with the sentence that each was found in."
        block = table("table4", caption, ["word", "in", "nearest"], lines, 3)
        yield "words", "Table 4: neighbours of ambiguous words", [block]


def _probe_tables(results: Json) -> Iterator[Section]:
    for name in sorted(results["probes"], key=lambda name: PAPER_NUMBERS.get(name, "Z")):
        probe = results["probes"][name]
        columns = ["", probe["measure"]]
        has_interval = any("low" in row for row in probe["rows"])
        has_p = any("p" in row for row in probe["rows"])
        has_frequency = any("with_frequency" in row for row in probe["rows"])
        columns += ["95% interval"] * has_interval + ["p"] * has_p
        columns += ["with frequency", "p"] * has_frequency
        lines: list[list[str]] = []
        for row in probe["rows"]:
            line = [row["name"], f"{row['value']:.4f}"]
            if has_interval:
                line.append(f"{row['low']:.4f} to {row['high']:.4f}" if "low" in row else "")
            if has_p:
                line.append(f"{row['p']:.2g}" if "p" in row else "")
            if has_frequency:
                other = row.get("with_frequency")
                line += [f"{other['value']:.4f}", f"{other['p']:.2g}"] if other else ["", ""]
            lines.append(line)
        counted = "distinct words" if name == "similarity" else "test decisions"
        caption = f"By layer, on {probe['count']:,} {counted}."
        if against := {row["against"] for row in probe["rows"] if "against" in row}:
            over = f"{probe.get('p_count', probe['count']):,}"
            caption += f" p: paired test against {', '.join(against)}, over {over} decisions."
        if has_frequency:
            caption += " With frequency: the cosine, weighted, added to the sense's log-frequency."
        if "back_off" in probe:
            caption += f" Unseen lemmas get the first sense of {probe['back_off']}."
        title = PAPER_NUMBERS.get(name, "") + probe["title"]
        yield f"probe-{name}", title, [table(f"probe-{name}", caption, columns, lines)]


def _figure1(results: Json) -> Iterator[Section]:
    rows, blocks = results["figure1"], list[Json]()
    for task in dict.fromkeys(row["task"] for row in rows):
        some = [row for row in rows if row["task"] == task]
        points = [
            {"row": arm, "train_rows": row["rows"],
             "test_accuracy": {"mean": row[arm]["value"], "low": row[arm]["low"],
                               "high": row[arm]["high"]}}
            for row in some for arm in ("none", "input")
        ]  # fmt: skip
        caption = f"{some[0]['title']}: test score by the number of training rows, first seed."
        blocks.append(
            {"kind": "figure", "name": f"samples-{task}", "plot": "samples", "rows": points,
             "caption": caption, "alt": "The table below has the numbers.", "floats": False}
        )  # fmt: skip
    if rows:
        lines = [
            [row["title"], f"{row['rows']:,}", _shown(row["none"]), _shown(row["input"]),
             str(row["baseline_epochs"]), str(row["elmo_epochs"] or "never")]
            for row in rows
        ]  # fmt: skip
        caption = "Test score; and after how many epochs the baseline has its best development "
        caption += "score, and ELMo one as good."
        columns = ["", "rows", "without", "with ELMo", "epochs without", "epochs with ELMo"]
        blocks.append(table("figure1", caption, columns, lines))
        yield "samples", "Figure 1: fewer labels, fewer updates", blocks


def _figure2(results: Json) -> Iterator[Section]:
    if rows := [row for row in results["figure2"] if row["seeds"][0]["layer_weights"]]:
        alt = "; ".join(f"{row['title']} {row['seeds'][0]['layer_weights']}" for row in rows)
        caption = "Softmax-normalised weight of each layer in the mix of each task; mean over "
        caption += "seeds. Equal weights would be one colour."
        block = {"kind": "figure", "name": "weights", "plot": "weights", "rows": rows,
                 "floats": False, "caption": caption, "alt": alt}  # fmt: skip
        yield "weights", "Figure 2: learned layer weights", [block]


def heat_map(rows: Sequence[Json], colours: Mapping[str, str]) -> str:
    """Mean layer weights as SVG: one line per task, one column per layer.

    Written by hand, since it is rectangles with a number each.
    """
    seeds = [[seed["layer_weights"] for seed in row["seeds"]] for row in rows]
    means = [[fmean(weights) for weights in zip(*some, strict=True)] for some in seeds]
    most, columns = max(max(some) for some in means), len(means[0])
    left, width, height = 150, 360 / columns, 22
    size = f"{left + 360} {height * (len(rows) + 1)}"
    text = 'font-family="sans-serif" font-size="9"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">']
    for line, (row, some) in enumerate(zip(rows, means, strict=True)):
        y, title = line * height, escape(row["title"])
        parts.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end" {text} '
            f'fill="{colours["ink"]}">{title}</text>'
        )
        for layer, weight in enumerate(some):
            x, strength = left + layer * width, weight / most
            ink = colours["on-strong" if strength > 0.55 else "ink"]
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{y + 1}" width="{width - 2:.1f}" height="{height - 2}" '
                f'fill="{colours["elmo"]}" fill-opacity="{strength:.3f}"/>'
                f'<text x="{x + width / 2:.1f}" y="{y + 14}" text-anchor="middle" {text} '
                f'fill="{ink}">{weight:.3f}</text>'
            )
    for layer in range(columns):
        x, y = left + (layer + 0.5) * width, len(rows) * height + 14
        parts.append(
            f'<text x="{x:.1f}" y="{y}" text-anchor="middle" {text} '
            f'fill="{colours["faint"]}">layer {layer}</text>'
        )
    return "".join([*parts, "</svg>"])

"""elmo check: inspect a corpus before training on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from elmo.cli.display import ProgressDisplay, print_json, print_table, say
from elmo.cli.main import SOURCES, Arguments, Command, add_preset

if TYPE_CHECKING:
    from elmo.text.inspect import CorpusReport, Finding, VocabularyPoint
    from elmo.training.estimate import Estimate


def check_command() -> Command:
    page = f"""
        Inspect a corpus: what is wrong with it, its words, and the time and memory that training
        on it takes. The exit code is 1 if something prevents a training.

        elmo check ag_news
        elmo check 'corpus/*.jsonl' --column body --preset characters --epochs 2

        SOURCE ...  {SOURCES}
        --no-estimate  Do not time a few training steps.
    """
    command = Command("check", run_check, page)
    add_preset(command, "epochs hidden window min_count max_vocabulary held_out_share column")
    return command


def run_check(args: Arguments) -> int:
    from elmo.text.inspect import find, inspect
    from elmo.text.sources import resolve
    from elmo.training.estimate import estimate

    config = args.config
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        report = inspect(
            resolve(args.sources), read=config.read, tokenizer=config.tokenizer,
            held_out_share=config.vocabulary.held_out_share, window=config.batching.window,
            min_count=config.vocabulary.min_count, max_vocabulary=config.vocabulary.max_vocabulary,
            progress=lambda lines: display.show(f"{lines:,} texts read"),
        )  # fmt: skip
        display.show("timing a few training steps")
        train_tokens = report.tokens - report.held_out_tokens
        train_documents = report.documents - report.held_out_documents
        costs = None if args.no_estimate else estimate(
            config,
            vocabulary=report.vocabulary.size,
            targets=train_tokens + train_documents,  # words, and one end per text
            length=report.median_length,
        )  # fmt: skip
    findings = find(report)
    if args.json:
        found = [finding._asdict() for finding in findings]
        facts = {"corpus": asdict(report), "estimate": None if costs is None else asdict(costs)}
        print_json({**facts, "findings": found})
    else:
        _print_report(report, costs, findings)
    return int(any(finding.kind == "problem" for finding in findings))


def _print_report(
    report: CorpusReport, costs: Estimate | None, findings: Sequence[Finding]
) -> None:
    rows = [
        ["files", f"{report.files:,}"],
        ["documents", f"{report.documents:,} ({report.held_out_documents:,} held out)"],
        ["tokens", f"{report.tokens:,} ({report.held_out_tokens:,} held out)"],
        [
            "tokens per document",
            f"median {report.median_length:,}, 95% {report.percentile_95:,}, "
            f"99% {report.percentile_99:,}, longest {report.longest:,} ({report.longest_at})",
        ],
        [f"longer than a window of {report.window}", f"{report.over_window.documents:,}"],
        [
            "duplicates",
            f"{report.exact_duplicates:,} exact, about {report.near_duplicates:,} near duplicates",
        ],
        ["with lost characters", f"{report.replaced.documents:,}"],
        ["with control characters", f"{report.control.documents:,}"],
        ["with HTML", f"{report.html.documents:,}"],
        ["distinct words", f"{report.types:,}"],
        ["vocabulary", f"{report.vocabulary.size:,}, {_unknown(report.vocabulary)} unknown"],
    ]
    if report.blank_lines is not None:
        rows.insert(2, ["blank lines", f"{report.blank_lines:,}"])
    print_table(rows)

    by_count = [(f"seen {point.min_count} or more times", point) for point in report.by_min_count]
    by_size = [(f"the {point.max_size:,} most frequent", point) for point in report.by_max_size]
    curve = [[name, f"{point.size:,}", _unknown(point)] for name, point in [*by_count, *by_size]]
    print()
    print_table(curve, ["vocabulary", "words", "unknown in held-out text"])
    if costs is not None:
        print()
        print_table(_cost_rows(costs))
    print()
    if not findings:
        print("nothing stands out: continue with elmo pretrain")
    for finding in findings:
        say(f"{finding.kind}: {finding.what}")
        say(f"  -> {finding.advice}")


def _cost_rows(costs: Estimate) -> list[list[str]]:
    sizes = {
        "weights and optimizer": costs.weights_bytes,
        "a batch": costs.activations_bytes,
        "Python and PyTorch": costs.runtime_bytes,
    }
    parts = ", ".join(f"{name} {_size(value)}" for name, value in sizes.items())
    minutes = round(costs.seconds / 60)
    duration = f"{minutes // 60} h {minutes % 60} min" if minutes >= 120 else f"{minutes} min"
    duration = duration if minutes else f"{costs.seconds:.0f} s"
    return [
        ["parameters", f"{costs.parameters:,}"],
        ["memory, about", f"{_size(costs.memory_bytes)} ({parts})"],
        ["words to predict", f"{costs.targets:,} in each direction, all epochs"],
        ["words per second", f"{costs.tokens_per_second:,.0f} (measured here)"],
        ["training time, about", f"{duration}, evaluations not counted"],
    ]


def _unknown(point: VocabularyPoint) -> str:
    return "–" if point.unknown_rate is None else f"{point.unknown_rate:.2%}"


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"

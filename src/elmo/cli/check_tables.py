"""How elmo check shows what it found: sizes, words, the estimate, and last what to do."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.cli.output import print_table
from elmo.pretrain.estimate import Estimate
from elmo.text.corpus_report import CorpusReport, VocabularyPoint, Words
from elmo.text.findings import Finding


def print_check(
    report: CorpusReport, estimate: Estimate | None, findings: Sequence[Finding]
) -> None:
    """Print all tables."""
    print_table([*_text_rows(report), *_word_rows(report.words)])
    print()
    print_table(_curve_rows(report.words), ["vocabulary", "words", "unknown in held-out text"])
    if report.words.growth:
        print()
        rows = [[f"{point.tokens:,}", f"{point.types:,}"] for point in report.words.growth]
        print_table(rows, ["running words", "distinct ones"])
    if estimate is not None:
        print()
        print_table(_estimate_rows(estimate))
    print()
    _print_findings(findings)


def _text_rows(report: CorpusReport) -> list[list[str]]:
    lengths, copies = report.lengths, report.duplicates
    rows = [
        ["files", f"{report.files:,}"],
        ["documents", f"{report.documents:,} ({report.held_out.documents:,} held out)"],
        ["tokens", f"{report.tokens:,} ({report.held_out.tokens:,} held out)"],
        [
            "tokens a document",
            f"median {lengths.median:,}, 95% {lengths.percentile_95:,}, "
            f"99% {lengths.percentile_99:,}, longest {lengths.longest:,} ({lengths.longest_at})",
        ],
        [f"longer than a window of {lengths.window}", f"{lengths.over_window.documents:,}"],
        ["copies", f"{copies.exact:,} exact, about {copies.near:,} near ones"],
        ["with lost characters", f"{report.replaced.documents:,}"],
        ["with control characters", f"{report.control.documents:,}"],
        ["with HTML", f"{report.html.documents:,}"],
    ]
    if report.blank_lines is not None:
        rows.insert(2, ["blank lines", f"{report.blank_lines:,}"])
    return rows


def _word_rows(words: Words) -> list[list[str]]:
    rows = [
        ["distinct words", f"{words.types:,}"],
        ["vocabulary", f"{words.chosen.size:,}, {_unknown(words.chosen)} unknown"],
    ]
    if words.heaps_exponent is not None:
        law = f"distinct words grow with the text to the power {words.heaps_exponent:.2f}"
        rows.append(["growth", law])
    return rows


def _curve_rows(words: Words) -> list[list[str]]:
    by_count = [(f"seen {point.min_count} or more times", point) for point in words.by_min_count]
    by_size = [(f"the {point.max_size:,} most frequent", point) for point in words.by_max_size]
    return [[name, f"{point.size:,}", _unknown(point)] for name, point in [*by_count, *by_size]]


def _unknown(point: VocabularyPoint) -> str:
    return "–" if point.unknown_rate is None else f"{point.unknown_rate:.2%}"


def _estimate_rows(estimate: Estimate) -> list[list[str]]:
    how = "measured here" if estimate.measured else "as given"
    parts = ", ".join(
        f"{name} {_size(value)}"
        for name, value in (
            ("weights and optimizer", estimate.weights_bytes),
            ("a batch", estimate.activations_bytes),
            ("Python and PyTorch", estimate.runtime_bytes),
        )
    )
    return [
        ["parameters", f"{estimate.parameters:,}"],
        ["memory, about", f"{_size(estimate.memory_bytes)} ({parts})"],
        ["words to predict", f"{estimate.targets:,} in each direction, all epochs"],
        ["words a second", f"{estimate.tokens_per_second:,.0f} ({how})"],
        ["training time, about", f"{_duration(estimate.seconds)}, evaluations not counted"],
    ]


def _print_findings(findings: Sequence[Finding]) -> None:
    if not findings:
        print("nothing stands out: go on with elmo pretrain")
    for finding in findings:
        print(f"{finding.kind}: {finding.what}\n  -> {finding.advice}")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"

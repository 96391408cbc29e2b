"""elmo check SOURCE…: look through a corpus before training on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from elmo.bilm.config import BiLMConfig
from elmo.cli import options as arguments
from elmo.cli.display import print_table
from elmo.cli.options import ArgumentsPositional as Positional
from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.inspect import CorpusReport, Finding, VocabularyPoint, Words
from elmo.text.tokenizer import TokenizerConfig

if TYPE_CHECKING:
    from elmo.training.config import PretrainConfig
    from elmo.training.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class CheckArguments:
    """Look through a corpus: what is wrong with it, its words, and what training on it takes.

    The exit code is 0 if nothing stops a training, 1 if something does.
    """

    sources: Positional[tuple[str, ...]]
    """Files, patterns, folders, '-' for standard input, or ag_news."""
    min_count: int | None = None
    """Words seen less often are unknown; none: as in elmo pretrain."""
    max_vocabulary: int | None = None
    """At most so many words, the most frequent ones; none: as in elmo pretrain."""
    held_out_share: float | None = None
    """Share of the texts kept apart for validation; none: as in elmo pretrain."""
    window: int | None = None
    """Longest stretch read in one step; none: as in elmo pretrain."""
    epochs: int | None = None
    """How often the text would be read; none: as in elmo pretrain."""
    estimate: bool = True
    """Time a few training steps, to estimate how long a training takes and how much memory."""
    speed: float | None = None
    """Words a second, where you know it; none: measured in a few seconds."""
    json: bool = False
    """Print one JSON object."""
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: BiLMConfig = field(default_factory=BiLMConfig)


def parse_check(given: Sequence[str]) -> CheckArguments:
    """Read the flags."""
    return arguments.parse(CheckArguments, "check", given)


def run_check(given: CheckArguments) -> int:
    """Look through the text, estimate the training, print both and what to do."""
    from elmo.cli.display import print_json
    from elmo.text.inspect import find

    config = _settings(given)
    report = _inspected(given, config)
    estimate = _estimated(given, config, report) if given.estimate else None
    findings = find(report)
    if given.json:
        content: dict[str, Any] = {
            "corpus": asdict(report),
            "estimate": None if estimate is None else asdict(estimate),
            "findings": [asdict(finding) for finding in findings],
        }
        print_json(content)
    else:
        print_check(report, estimate, findings)
    return int(any(finding.kind == "problem" for finding in findings))


def _settings(given: CheckArguments) -> PretrainConfig:
    """The settings of a training, with what the flags change."""
    from elmo.config import check
    from elmo.training.config import PretrainConfig

    default = PretrainConfig()
    config = replace(
        default,
        read=given.read,
        tokenizer=given.tokenizer,
        model=given.model,
        vocabulary=_changed(default.vocabulary, given),
        batching=_changed(default.batching, given),
        training=_changed(default.training, given),
    )
    check(config)
    if given.speed is not None and not given.speed > 0:
        raise UserError(f"--speed: expected words a second, got {given.speed}")
    return config


def _changed(settings: Any, given: CheckArguments) -> Any:
    """Settings with the values of the flags that were given and bear the same name."""
    names = ("min_count", "max_vocabulary", "held_out_share", "window", "epochs")
    values = {name: getattr(given, name) for name in names if hasattr(settings, name)}
    return replace(settings, **{name: value for name, value in values.items() if value is not None})


def _inspected(given: CheckArguments, config: PretrainConfig) -> CorpusReport:
    from rich.console import Console

    from elmo.text.inspect import CheckRequest, inspect
    from elmo.text.sources import resolve

    request = CheckRequest(
        sources=resolve(given.sources),
        read=config.read,
        tokenizer=config.tokenizer,
        held_out_share=config.vocabulary.held_out_share,
        window=config.batching.window,
        min_count=config.vocabulary.min_count,
        max_vocabulary=config.vocabulary.max_vocabulary,
    )
    with Console(stderr=True).status("reading") as status:
        return inspect(request, lambda lines: status.update(f"{lines:,} texts read"))


def _estimated(given: CheckArguments, config: PretrainConfig, report: CorpusReport) -> Estimate:
    from rich.console import Console

    from elmo.training.estimate import estimate

    with Console(stderr=True).status("timing a few training steps"):
        return estimate(
            config,
            vocabulary=report.words.chosen.size,
            # Each text asks for its words and for one boundary.
            targets=report.train.tokens + report.train.documents,
            length=report.lengths.median,
            speed=given.speed,
        )


# How elmo check shows what it found: sizes, words, the estimate, and last what to do.


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

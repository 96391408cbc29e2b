"""elmo check SOURCE…: look through a corpus before training on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from elmo.bilm.config import BiLMConfig
from elmo.cli import arguments
from elmo.cli.arguments import Positional
from elmo.errors import UserError
from elmo.text.readers.options import ReadOptions
from elmo.text.tokenizers import TokenizerConfig

if TYPE_CHECKING:
    from elmo.pretrain.config import PretrainConfig
    from elmo.pretrain.estimate import Estimate
    from elmo.text.corpus_report import CorpusReport


@dataclass(frozen=True, kw_only=True)
class Arguments:
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


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "check", given)


def run(given: Arguments) -> int:
    """Look through the text, estimate the training, print both and what to do."""
    from elmo.cli.check_tables import print_check
    from elmo.cli.output import print_json
    from elmo.text.findings import find

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


def _settings(given: Arguments) -> PretrainConfig:
    """The settings of a training, with what the flags change."""
    from elmo.config import check
    from elmo.pretrain.config import PretrainConfig

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


def _changed(settings: Any, given: Arguments) -> Any:
    """Settings with the values of the flags that were given and bear the same name."""
    names = ("min_count", "max_vocabulary", "held_out_share", "window", "epochs")
    values = {name: getattr(given, name) for name in names if hasattr(settings, name)}
    return replace(settings, **{name: value for name, value in values.items() if value is not None})


def _inspected(given: Arguments, config: PretrainConfig) -> CorpusReport:
    from rich.console import Console

    from elmo.text.check import CheckRequest, inspect
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


def _estimated(given: Arguments, config: PretrainConfig, report: CorpusReport) -> Estimate:
    from rich.console import Console

    from elmo.pretrain.estimate import estimate

    with Console(stderr=True).status("timing a few training steps"):
        return estimate(
            config,
            vocabulary=report.words.chosen.size,
            # Each text asks for its words and for one boundary.
            targets=report.train.tokens + report.train.documents,
            length=report.lengths.median,
            speed=given.speed,
        )

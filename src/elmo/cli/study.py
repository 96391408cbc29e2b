"""elmo study [SOURCE…]: the whole comparison, from text to a report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from elmo.classify.labelled import LabelOptions
from elmo.cli import arguments
from elmo.cli.texts import Flag
from elmo.study.config import PRESETS, StudyConfig
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.cli.studying import StudyDisplay
    from elmo.study.results import StudyResults

Preset = Literal["quick", "standard", "full"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Compare ELMo with static embeddings and TF-IDF on labelled texts, and write a report.

    elmo study

    elmo study ag_news --out runs/study --model runs/news

    elmo study mail.csv --label-column folder --rows tfidf svd mixes --seeds 0 1

    Without texts, the study runs on a corpus of news-like items that elmo generates itself. A study
    that was stopped goes on where it was: give the same command again.
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="[SOURCE ...]")] = ()
    """Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news; none: generated ones."""
    out: Path = Path("study")
    """Folder for the report and for all finished steps."""
    test: tuple[str, ...] = ()
    """Labelled texts to test on; none: those of AG News, or a part cut off the sources."""
    model: Path | None = None
    """A biLM's folder, or official files; none: one is trained on the training texts."""
    preset: Preset | None = None
    """Settings to start from: quick (the default for generated texts), standard or full."""
    report_only: Flag = False
    """Draw the report again from results.json in the folder; nothing is computed."""
    no_texts: Flag = False
    """Show row numbers instead of sentences, where texts may not be published."""
    feature_memory: float | None = None
    """Gigabytes that the biLM's layers of all texts may take, beyond which they are kept on disk;
    none: half of the machine's."""
    json: Flag = False
    """Print results as one JSON object."""
    config: StudyConfig = field(default_factory=StudyConfig)
    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags on top of a preset."""
    first = arguments.parse(Arguments, "study", given)
    return arguments.parse(Arguments, "study", given, Arguments(config=PRESETS[preset_of(first)]))


def preset_of(given: Arguments) -> Preset:
    """The preset asked for; generated texts are few, and quickly studied."""
    return given.preset or ("standard" if given.sources else "quick")


def run(given: Arguments) -> int:
    """Run the study, show a live table, write the report, print the main table."""
    from elmo.cli.output import print_json
    from elmo.cli.studying import StudyDisplay, show_results
    from elmo.config import to_json
    from elmo.study.report.results_file import read_results
    from elmo.study.report.write import write_report

    if given.report_only:
        results = read_results(given.out / "results.json")
    else:
        with StudyDisplay() as display:
            results = _studied(given, display)
    write_report(results, given.out)
    if given.json:
        print_json(to_json(results))
    else:
        show_results(results, given.out)
    return 1 if results.failed else 0


def _studied(given: Arguments, display: StudyDisplay) -> StudyResults:
    from elmo.study.begin import begin_study
    from elmo.study.run import run_study

    request = begin_study(
        given.sources,
        given.out,
        given.config,
        test=given.test,
        model=given.model,
        read=given.read,
        label_column=given.labels.label_column,
        preset=preset_of(given),
        feature_memory=given.feature_memory,
        shows_texts=not given.no_texts,
        command=shlex.join(["elmo", *sys.argv[1:]]),
    )
    display.begin(request)
    return run_study(request, display.show)

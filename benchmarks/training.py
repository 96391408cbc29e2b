"""Tokens a second of pre-training: our presets against a plain course-project implementation.

    python benchmarks/training.py [--repeats 5] [--seconds 20]

The plain one (plain_bilm.py) has the same LSTM size, a softmax over 78,717 words and products in
fp32. Ours are the presets as `elmo pretrain` uses them, in fp32 and, where the processor has units
for it, in bf16; and once more beside a process that takes a core. All are measured in turn. A token
counts once, although both directions read it. Writes docs/performance/training.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from elmo.training.config import CHARACTERS, DEFAULT
from measuring import Case, flags, in_turn, refuse_busy, write_found
from plain_bilm import WORDS
from timed_training import our_speed, plain_speed, precisions, prepared, with_precision

UNIT = "tokens/s"
PLAIN = "plain"
CORE_TAKEN = "one core taken"


def main(command: Sequence[str] | None = None) -> None:
    """Measure, and write what was found."""
    parser = flags(__doc__)
    parser.add_argument("--plain-words", type=int, default=WORDS, help="of the plain one's softmax")
    given = parser.parse_args(command)
    before = refuse_busy(anyway=given.anyway)
    text = prepared(given.source, given.scratch / "cache")
    figures = in_turn(cases(given, text), given.repeats, anyway=given.anyway)
    write_found("training", given.folder, before, figures)


def cases(given: argparse.Namespace, text: Path) -> list[Case[float]]:
    """What is measured."""
    for_all = (text, given.seconds, given.threads)
    found = [Case(name=PLAIN, unit=UNIT, work=plain_speed, arguments=(given.plain_words, *for_all))]
    for preset, config in (("default", DEFAULT), ("characters", CHARACTERS)):
        for precision in precisions():
            settings = (with_precision(config, precision), *for_all)
            name = preset_name(preset, precision)
            found.append(Case(name=name, unit=UNIT, work=our_speed, arguments=settings))
    fastest = precisions()[-1]
    found.append(
        Case(
            name=preset_name("default", fastest, CORE_TAKEN),
            unit=UNIT,
            work=our_speed,
            arguments=(with_precision(DEFAULT, fastest), *for_all),
            one_core_taken=True,
        )
    )
    return found


def preset_name(preset: str, precision: str, *circumstances: str) -> str:
    """What a case is called in the results."""
    return ", ".join((preset, precision, *circumstances))


if __name__ == "__main__":
    main()

"""elmo generate MODEL [PROMPT…]: text that the model writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from elmo.cli import arguments
from elmo.cli.texts import ModelAndTexts, open_model, read_given
from elmo.language.generation_config import GenerationConfig


@dataclass(frozen=True, kw_only=True)
class Arguments(ModelAndTexts):
    """Write on from a prompt, or what comes before it; without a prompt, write a whole text.

    elmo generate runs/news "Oil prices" --temperature 0.8 --top-p 0.9

    elmo generate runs/news "on Monday ." --direction backward --seed 7
    """

    generation: GenerationConfig = field(default_factory=GenerationConfig)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "generate", given)


def run(given: Arguments) -> int:
    """Print a text or an object a prompt."""
    from elmo.cli.output import print_json
    from elmo.config import check
    from elmo.language.generate import generate

    check(given.generation)
    prompts = read_given(given) or [""]
    loaded = open_model(given.model, given.tokenizer)
    for prompt in prompts:
        made = generate(loaded, prompt, given.generation)
        if given.json:
            print_json({"words": made.words, **asdict(made)})
        else:
            print(" ".join(made.words))
    return 0

"""The rows of the comparison: what each one's classifier reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from elmo.config import nearest
from elmo.contextual.mix_config import MixConfig
from elmo.errors import UserError
from elmo.study.config import StudyConfig
from elmo.study.results import Group

Kind = Literal["majority", "tfidf", "network", "fine-tuned"]
NOTHING, ELMO = "nothing", "elmo"
"""Names of embeddings; a static one is named by its method and window."""
METHODS = {"svd": "SVD", "skipgram": "Skip-gram"}


@dataclass(frozen=True)
class Row:
    """One row of the comparison."""

    name: str
    title: str
    group: Group
    kind: Kind = "network"
    embedding: str = NOTHING
    mix: MixConfig = field(default_factory=MixConfig)

    @property
    def is_static(self) -> bool:
        """Whether its vectors are the same in every sentence."""
        return self.group == "static"


def all_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """Every row there can be, over a biLM of so many layers above the words."""
    return (
        Row("majority", "Majority class", "control", "majority"),
        Row("tfidf", "TF-IDF, linear SVM", "control", "tfidf"),
        Row("own", "Own word vectors alone", "control"),
        *(_static(method, window) for method in METHODS for window in config.windows),
        *(_layer(number) for number in range(layers + 1)),
        _elmo("average", "average", "ELMo, average"),
        _elmo("frozen", "frozen", "ELMo, frozen λs"),
        _elmo("trainable", "trainable", "ELMo, trainable λs"),
        _elmo("function", "function", "ELMo, learned function"),
        Row("fine-tuned", "ELMo, fine-tuned", "elmo", "fine-tuned", ELMO),
    )


def chosen_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """The rows asked for by name or kind, in the order of the comparison."""
    rows = all_rows(config, layers)
    if not config.rows:
        return rows
    kinds = _kinds(rows)
    wanted: set[str] = set()
    for name in config.rows:
        if name not in kinds:
            raise UserError(
                f"no row is named {name!r}{nearest(name, kinds)}; there are: {', '.join(kinds)}; "
                "windows other than these are named with --windows"
            )
        wanted |= kinds[name]
    return tuple(row for row in rows if row.name in wanted)


def _kinds(rows: Sequence[Row]) -> dict[str, set[str]]:
    """The rows that a name stands for."""
    kinds = {row.name: {row.name} for row in rows}
    for row in rows:
        kinds.setdefault(row.group, set()).add(row.name)
        if row.is_static:
            kinds.setdefault(row.name.split("-")[0], set()).add(row.name)
    return kinds | {"mixes": {"frozen", "trainable", "function"}}


def _static(method: str, window: int) -> Row:
    name = f"{method}-{window}"
    return Row(name, f"{METHODS[method]}, window {window}", "static", embedding=name)


def _layer(number: int) -> Row:
    what = " (the word alone)" if number == 0 else ""
    mix = MixConfig(mix="layer", mix_layer=number)
    return Row(f"layer-{number}", f"ELMo, layer {number}{what}", "elmo", embedding=ELMO, mix=mix)


def _elmo(name: str, mix: Literal["average", "frozen", "trainable", "function"], title: str) -> Row:
    return Row(name, title, "elmo", embedding=ELMO, mix=MixConfig(mix=mix))

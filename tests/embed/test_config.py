"""All that is wrong with the settings is told at once."""

from __future__ import annotations

from typing import Any

import pytest

from elmo.config import check
from elmo.embed.config import NeighbourConfig
from elmo.errors import ConfigError


@pytest.mark.parametrize("layer", [0, 2, "top", "average", "mix"])
@pytest.mark.parametrize("distinct", ["phrase", "word", "none"])
def test_what_is_right_passes(layer: Any, distinct: Any) -> None:
    check(NeighbourConfig(layer=layer, distinct=distinct, count=1, texts=1))


def test_every_problem_is_told() -> None:
    wrong: Any = {"layer": "all", "distinct": "text", "count": 0, "texts": 0, "occurrence": 0}
    with pytest.raises(ConfigError) as error:
        check(NeighbourConfig(**wrong, batch_tokens=1))
    told = [problem.partition(":")[0] for problem in error.value.problems]
    assert sorted(told) == sorted([*wrong, "batch_tokens"])

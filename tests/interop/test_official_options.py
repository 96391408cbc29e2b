"""options.json is read strictly where it says what a model is, and all problems at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.interop.golden_elmo import golden

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.config import to_json
from elmo.errors import ConfigError, UserError
from elmo.interop.official_names import names_of
from elmo.interop.official_options import config_of, options_of, read_options

MANY = [f"dataset_{number}" for number in range(20)]


def read(options: dict[str, Any]) -> BiLMConfig:
    return config_of(options, MANY, "options.json")


@pytest.mark.parametrize(
    ("cells", "width", "highways", "published"),
    [(1024, 128, 1, 13_593_312), (2048, 256, 1, 28_027_744), (4096, 512, 2, 93_600_864)],
)
def test_published_models_have_their_published_sizes(
    cells: int, width: int, highways: int, published: int
) -> None:
    options = golden(highways=highways).options
    options["lstm"] |= {"dim": cells, "projection_dim": width}
    filters = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    options["char_cnn"] |= {"filters": filters, "embedding": {"dim": 16}}
    rows = names_of(read(options), 3)
    # Published numbers count a row of the characters for padding, which is not in the file.
    assert sum(math.prod(row.shape) for row in rows) == published - 16


def test_what_options_say_is_what_the_model_is() -> None:
    config = read(golden(activation="tanh", highways=2).options)
    assert config == BiLMConfig(
        input="characters",
        word_dim=4,
        characters=CharacterConfig(
            char_dim=3, filters=((1, 2), (3, 5)), highways=2, activation="tanh"
        ),
        hidden=6,
        projection=4,
        skip=True,
        cell_clip=0.6,
        projection_clip=0.9,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    assert to_json(read(options_of(config))) == to_json(config)


def test_all_problems_are_told_at_once() -> None:
    options = golden().options
    options["lstm"] |= {"dim": 3, "cell_clip": -1}
    options["char_cnn"] |= {"n_characters": 260, "max_characters_per_token": 20, "n_highway": -1}
    options["bidirectional"] = False
    with pytest.raises(ConfigError) as raised:
        read(options)
    message = str(raised.value)
    for part in (
        "bidirectional", "projection_dim: 4 is more than the 3 cells", "cell_clip",
        "n_characters: expected 261 or 262", "max_characters_per_token: expected 50", "highways",
    ):  # fmt: skip
        assert part in message
    assert len(raised.value.problems) == 6


def test_unknown_keys_and_wrong_types_are_told_at_once() -> None:
    options = golden().options
    options["lstm"] |= {"n_layer": 2, "dim": "six"}
    del options["char_cnn"]["filters"]
    with pytest.raises(ConfigError) as raised:
        read(options)
    assert "unknown key 'n_layer' (did you mean 'n_layers'?)" in str(raised.value)
    assert "lstm.dim: expected int, got 'six'" in str(raised.value)
    assert "key 'filters' is missing" in str(raised.value)


def test_how_a_model_was_trained_is_no_problem() -> None:
    training = {"n_epochs": 10, "all_clip_norm_val": 10.0, "n_tokens_vocab": 793471}
    assert read({**golden().options, **training}) == read(golden().options)
    assert read({**golden().options, "dropout": 0.5}).dropout == 0.5


@pytest.mark.parametrize("text", ["", "hello", "[]", "{}", '{"model_type": "bert"}', "null"])
def test_a_text_that_is_no_model_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "options.json").write_text(text)
    with pytest.raises(UserError, match=r"options\.json: (expected JSON|not the options)"):
        read_options(tmp_path / "options.json")

"""Errors say everything at once, and which command would mend them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elmo.errors import ConfigError, UserError, require_extra


def test_all_problems_are_in_one_message() -> None:
    error = ConfigError(["layers: must be positive", "hidden: must be positive"])
    assert str(error) == (
        "2 problems in the settings:\n  - layers: must be positive\n  - hidden: must be positive"
    )
    assert error.problems == ("layers: must be positive", "hidden: must be positive")
    assert str(ConfigError(["one"])).startswith("1 problem in the settings:")
    assert isinstance(error, UserError)


def test_a_module_that_is_there_is_given() -> None:
    assert require_extra("json", "none") is sys.modules["json"]


def test_a_missing_extra_names_the_install_command() -> None:
    with pytest.raises(UserError) as raised:
        require_extra("no_such_module.part", "official")
    assert "'no_such_module'" in str(raised.value)
    assert str(raised.value).endswith("pip install 'elmo-embeddings[official]'")


def test_a_module_broken_by_another_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elmo_test_broken.py").write_text("import elmo_test_absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="elmo_test_absent"):
        require_extra("elmo_test_broken", "study")

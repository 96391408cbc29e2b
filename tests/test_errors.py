"""All problems of a configuration are said at once."""

from __future__ import annotations

from elmo.errors import ConfigError, UserError


def test_all_problems_are_in_one_message() -> None:
    error = ConfigError(["layers: must be positive", "hidden: must be positive"])
    assert str(error) == (
        "2 problems in the settings:\n  - layers: must be positive\n  - hidden: must be positive"
    )
    assert error.problems == ("layers: must be positive", "hidden: must be positive")
    assert str(ConfigError(["one"])).startswith("1 problem in the settings:")
    assert isinstance(error, UserError)

"""Results to report on, with every analysis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

STORED = Path(__file__).parent / "results.json"
"""Of a toy study (`toys.run_toy`) with every row, column and analysis."""
TEXTS = (
    'Shares of <b>Google</b> & Yahoo fell $3.50 on Monday, as "search" spending slowed.',
    "SAN FRANCISCO - The chip maker's new processor will run at 4 GHz, twice as fast as now.",
    "The central bank left interest rates where they were, citing oil prices and hurricanes.",
)


def full_results() -> dict[str, Any]:
    """The stored results with texts as they occur, senses, a failure and accuracies far apart."""
    results = json.loads(STORED.read_text(encoding="utf-8"))
    columns = [row[name] for row in results["rows"] for name in ("alone", "beside") if row[name]]
    for confusion in (confusion for column in columns for confusion in column["confusions"]):
        for example in confusion["examples"]:
            example["text"] = TEXTS[example["row"] % 3]
    for context in (context for word in results["words"] for context in word["contexts"]):
        context["text"] = TEXTS[context["row"] % 3]
        for near in context["neighbours"]:
            near["text"] = f"… near the {near['word']} of the river …"
    message = "needs 31.2 GB of memory, 24 GB are there; use a smaller --window"
    results["failed"] = [{"name": "svd-12", "title": "SVD, window 12", "message": message}]
    results["senses"] = [
        {"embedding": name, "accuracy": accuracy, "chance": 0.503, "occurrences": 840}
        for name, accuracy in (("Skip-gram, window 8", 0.503), ("ELMo layer 1", 0.871))
    ]
    history = results["language_model"]["history"]
    history += [{key: value * 0.9 for key, value in history[0].items()} | {"epoch": 2.0}]
    return results


@pytest.fixture
def results() -> dict[str, Any]:
    """A copy for each test, which may change it."""
    return full_results()

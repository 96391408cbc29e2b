"""Results to report on (the published study, with every analysis), and one generated corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elmo.study.news import NewsItem, generate_news

PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "results.json"
TEXTS = (
    'Shares of <b>Google</b> & Yahoo fell $3.50 on Monday, as "search" spending slowed.',
    "SAN FRANCISCO - The chip maker's new processor will run at 4 GHz, twice as fast as now.",
    "The central bank left interest rates where they were, citing oil prices and hurricanes.",
)


def full_results() -> dict[str, Any]:
    """The published results, and what that study did not have: texts, sweeps, senses, a failure."""
    results = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    results["about"]["shows_texts"] = True
    for row in results["rows"]:
        for confusion in row["confusions"]:
            for example in confusion["examples"]:
                example["text"] = TEXTS[example["row"] % 3]
    for context in (context for word in results["words"] for context in word["contexts"]):
        context["text"] = TEXTS[context["row"] % 3]
        for near in context["neighbours"]:
            near["text"] = f"… near the {near['word']} of the river …"
    message = "needs 31.2 GB of memory, 24 GB are there; use a smaller --window"
    results["failed"] = [{"name": "svd-12", "title": "SVD, window 12", "message": message}]
    values = {"dim": ("skipgram", (50, 100)), "mix-pull": ("trainable", (0, 0.001, 1))}
    results["sweeps"] = [
        {
            "setting": setting,
            "row": row,
            "train_rows": 20_000,
            "points": [
                {
                    "value": value,
                    "development_accuracy": 0.87 + idx / 300,
                    "test_accuracy": 0.88 + idx / 300,
                    "note": "perplexity 101.7" if setting == "dim" else None,
                }
                for idx, value in enumerate(some)
            ],
        }
        for setting, (row, some) in values.items()
    ]
    results["senses"] = [
        {"embedding": name, "accuracy": accuracy, "chance": 0.503, "occurrences": 840}
        for name, accuracy in (("Skip-gram, window 8", 0.503), ("ELMo layer 1", 0.871))
    ]
    return results


@pytest.fixture
def results() -> dict[str, Any]:
    """A copy for each test, which may change it."""
    return full_results()


@pytest.fixture(scope="session")
def train_news() -> list[NewsItem]:
    return generate_news(6000, seed=0)


@pytest.fixture(scope="session")
def test_news() -> list[NewsItem]:
    return generate_news(1000, seed=0, part="test")

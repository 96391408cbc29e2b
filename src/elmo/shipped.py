"""The news model that comes with the package, a biLM and a classifier, used where none is named."""

from __future__ import annotations

from pathlib import Path

CLASSIFIER = Path(__file__).parent / "news_model"
BILM = CLASSIFIER / "bilm"

"""Deep contextual word embeddings: train your own ELMo, and trust it.

What is named here is imported when it is first used, so that `import elmo` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo.classify.classifier import TextClassifier, load_classifier
    from elmo.classify.training import train_classifier
    from elmo.embed.embedder import Embedder
    from elmo.embed.neighbours import find_neighbours
    from elmo.language_model import (
        LanguageModel,
        evaluate_text,
        generate,
        open_model,
        predict,
        score,
    )
    from elmo.study.runner import run_study
    from elmo.text.sources import read_documents, resolve


__version__ = "0.1.0"
__all__ = [
    "Embedder",
    "LanguageModel",
    "TextClassifier",
    "evaluate_text",
    "find_neighbours",
    "generate",
    "load_classifier",
    "open_model",
    "predict",
    "read_documents",
    "resolve",
    "run_study",
    "score",
    "train_classifier",
]

_HOMES = {
    "Embedder": "elmo.embed.embedder",
    "LanguageModel": "elmo.language_model",
    "TextClassifier": "elmo.classify.classifier",
    "evaluate_text": "elmo.language_model",
    "find_neighbours": "elmo.embed.neighbours",
    "generate": "elmo.language_model",
    "load_classifier": "elmo.classify.classifier",
    "open_model": "elmo.language_model",
    "predict": "elmo.language_model",
    "read_documents": "elmo.text.sources",
    "resolve": "elmo.text.sources",
    "run_study": "elmo.study.runner",
    "score": "elmo.language_model",
    "train_classifier": "elmo.classify.training",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

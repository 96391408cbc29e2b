"""Deep contextual word embeddings: train your own ELMo, and trust it.

What is named here is imported when it is first used, so that `import elmo` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo.classify.classifier import TextClassifier
    from elmo.classify.folder import load_classifier
    from elmo.classify.train_run import train_classifier
    from elmo.contextual.embedder import Embedder
    from elmo.contextual.neighbours import find_neighbours
    from elmo.interop.models import open_model
    from elmo.language.evaluate_text import evaluate_text
    from elmo.language.generate import generate
    from elmo.language.predict import predict
    from elmo.language.score import score
    from elmo.study.begin import begin_study
    from elmo.study.run import run_study
    from elmo.text.sources import read_documents, resolve

__version__ = "0.1.0"
__all__ = [
    "Embedder",
    "TextClassifier",
    "begin_study",
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
    "Embedder": "elmo.contextual.embedder",
    "TextClassifier": "elmo.classify.classifier",
    "begin_study": "elmo.study.begin",
    "evaluate_text": "elmo.language.evaluate_text",
    "find_neighbours": "elmo.contextual.neighbours",
    "generate": "elmo.language.generate",
    "load_classifier": "elmo.classify.folder",
    "open_model": "elmo.interop.models",
    "predict": "elmo.language.predict",
    "read_documents": "elmo.text.sources",
    "resolve": "elmo.text.sources",
    "run_study": "elmo.study.run",
    "score": "elmo.language.score",
    "train_classifier": "elmo.classify.train_run",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Deep contextual word embeddings: train your own ELMo, and trust it.

What is named here is imported when it is first used, so that `import elmo` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo.api import pretrain, run_study, train_static
    from elmo.classify.classifier import TextClassifier
    from elmo.classify.config import ClassifierConfig
    from elmo.embed.config import MixConfig
    from elmo.embed.embedder import Embedder
    from elmo.embed.files import load_vectors
    from elmo.embed.layer import ElmoLayer
    from elmo.embed.mix import LayerMix
    from elmo.embed.vectorizer import ElmoVectorizer
    from elmo.errors import ConfigError, UserError
    from elmo.language_model import LanguageModel
    from elmo.static.vectors import StaticVectors
    from elmo.tasks.pairs import PairClassifier
    from elmo.tasks.tagger import TokenTagger
    from elmo.training.config import PretrainConfig


__version__ = "0.2.0"
__all__ = [
    "ClassifierConfig",
    "ConfigError",
    "ElmoLayer",
    "ElmoVectorizer",
    "Embedder",
    "LanguageModel",
    "LayerMix",
    "MixConfig",
    "PairClassifier",
    "PretrainConfig",
    "StaticVectors",
    "TextClassifier",
    "TokenTagger",
    "UserError",
    "load_vectors",
    "pretrain",
    "run_study",
    "train_static",
]

_HOMES = {
    "ClassifierConfig": "elmo.classify.config",
    "ConfigError": "elmo.errors",
    "ElmoLayer": "elmo.embed.layer",
    "ElmoVectorizer": "elmo.embed.vectorizer",
    "Embedder": "elmo.embed.embedder",
    "LanguageModel": "elmo.language_model",
    "LayerMix": "elmo.embed.mix",
    "MixConfig": "elmo.embed.config",
    "PairClassifier": "elmo.tasks.pairs",
    "PretrainConfig": "elmo.training.config",
    "StaticVectors": "elmo.static.vectors",
    "TextClassifier": "elmo.classify.classifier",
    "TokenTagger": "elmo.tasks.tagger",
    "UserError": "elmo.errors",
    "load_vectors": "elmo.embed.files",
    "pretrain": "elmo.api",
    "run_study": "elmo.api",
    "train_static": "elmo.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

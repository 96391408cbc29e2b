"""Deep contextual word embeddings: train your own ELMo, and trust it.

What is named here is imported when it is first used, so that `import elmo` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING
from warnings import warn

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
_FORMER = {
    "ElmoEmbedding": ("elmo.embed.layer", "ElmoLayer"),
    "evaluate_text": ("elmo.language_model", "LanguageModel.evaluate"),
    "find_neighbours": ("elmo.embed.neighbours", "Embedder.nearest"),
    "generate": ("elmo.language_model", "LanguageModel.generate"),
    "load_classifier": ("elmo.classify.classifier", "TextClassifier.from_pretrained"),
    "open_model": ("elmo.language_model", "LanguageModel.from_pretrained"),
    "predict": ("elmo.language_model", "LanguageModel.fill"),
    "read_documents": ("elmo.text.sources", "elmo.text.sources.read_documents"),
    "resolve": ("elmo.text.sources", "elmo.text.sources.resolve"),
    "score": ("elmo.language_model", "LanguageModel.score"),
    "train_classifier": ("elmo.classify.training", "TextClassifier.fit"),
}
"""Names of 0.1: where they are, and what to use instead; to be removed in 0.3."""


def __getattr__(name: str) -> object:
    if name in _FORMER:
        home, instead = _FORMER[name]
        warn(f"elmo.{name} is now {instead}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Deep contextual word embeddings: train your own ELMo, and trust it."""

__version__ = "0.1.0"

"""ELMo as a component of spaCy: contextual vectors of the tokens of a Doc.

    import spacy

    nlp = spacy.blank("en")       # or any pipeline
    nlp.add_pipe("elmo")          # config={"model": "runs/mine", "layer": 1}
    doc = nlp("The bank raised its rates.")
    doc.tensor.shape              # (6, 512): one vector per token
    doc[1].vector, doc.vector     # of the token, and the mean over the Doc

The tokens are spaCy's. A model that was trained with `--tokenizer spacy:en` has seen the same ones.
An installed elmo is found by spaCy through its entry point; nothing has to be imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from elmo.config import SHIPPED
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Vectors
from elmo.errors import UserError

NAME = "elmo"


class ElmoComponent:
    """Sets `Doc.tensor`, and the vectors of tokens, spans and Docs.

    Args:
        model: a model folder; "default" ships with elmo.
        layer: "mix", "top", "average", or the number of a layer.
        device: "cpu", "cuda", …
    """

    def __init__(self, model: str = SHIPPED, layer: str | int = "mix", device: str = "cpu") -> None:
        if layer == "all":
            raise UserError("layer: expected one vector per token; 'all' gives one per layer")
        self.embedder = Embedder.from_pretrained(model, device=device)
        chosen: Any = int(layer) if str(layer).isdigit() else layer
        self._encoder = self.embedder.encoder(EncodeConfig(output="tokens", layer=chosen))

    def __call__(self, doc: Any) -> Any:
        """Add the vectors to a Doc."""
        self._embed([doc])
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 128) -> Iterator[Any]:
        """Add the vectors to any number of Docs, batch by batch."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            self._embed(batch)
            yield from batch

    def _embed(self, docs: list[Any]) -> None:
        # White space is a token to spaCy, but no word to a language model: its vector is zeros.
        positions = [[token.i for token in doc if not token.is_space] for doc in docs]
        words = [
            self.embedder.loaded.words([doc[i].text for i in words])
            for doc, words in zip(docs, positions, strict=True)
        ]
        for doc, rows, vectors in zip(docs, positions, self._encoder.encode(words), strict=True):
            doc.tensor = np.zeros((len(doc), self._encoder.dim), np.float32)
            doc.tensor[rows] = vectors
            doc.user_hooks["vector"] = doc_vector
            doc.user_hooks["has_vector"] = has_vector
            doc.user_token_hooks["vector"] = token_vector
            doc.user_token_hooks["has_vector"] = has_vector
            doc.user_span_hooks["vector"] = span_vector
            doc.user_span_hooks["has_vector"] = has_vector


def token_vector(token: Any) -> Vectors:
    """The contextual vector of a token."""
    return token.doc.tensor[token.i]


def span_vector(span: Any) -> Vectors:
    """The mean over the tokens of a span."""
    return span.doc.tensor[span.start : span.end].mean(axis=0)


def doc_vector(doc: Any) -> Vectors:
    """The mean over all tokens, zeros if there are none."""
    size = int(doc.tensor.shape[1])
    return doc.tensor.mean(axis=0) if len(doc) else np.zeros(size, np.float32)


def has_vector(_: Any) -> bool:
    """Every token, span and Doc has one."""
    return True


def create_component(
    nlp: Any, name: str, model: str, layer: str | int, device: str
) -> ElmoComponent:
    """What `nlp.add_pipe("elmo")` calls."""
    return ElmoComponent(model, layer, device)


if find_spec("spacy") is not None:  # without spaCy there is nothing to register with
    language: Any = import_module("spacy.language")
    language.Language.factory(
        NAME,
        default_config={"model": SHIPPED, "layer": "mix", "device": "cpu"},
        assigns=["doc.tensor"],
        func=create_component,
    )

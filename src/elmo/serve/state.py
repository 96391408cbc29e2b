"""What a server holds: models, a classifier, and the corpus of the explorer."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.classify.classifier import TextClassifier
from elmo.config import BILM, CLASSIFIER, SHIPPED, Json
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Progress, Vectors
from elmo.errors import UserError
from elmo.explore.config import IndexConfig
from elmo.explore.index import (
    DESCRIPTION,
    CorpusIndex,
    CorpusText,
    build_index,
    model_digest,
    read_corpus,
)
from elmo.explore.sentences import MIX
from elmo.files import cache_folder, remove_leftovers
from elmo.language_model import describe
from elmo.model_folder import CARD, parameter_count
from elmo.runtime import set_device
from elmo.serve.config import ServeConfig
from elmo.serve.engine import Engine, Key, Words
from elmo.text.sources import resolve
from elmo.text.tokenizer import tokenize_words
from elmo.text.vocabulary import SPECIAL_WORDS, chunked

NEWS_ITEMS = 1500
BACKGROUND_WORDS = 1024
"""Words of the corpus that are encoded at a time: a request waits for no more than these."""
CARD_LENGTH = 20_000
WARM_WORDS = 40
log = logging.getLogger(__name__)


@dataclass
class CorpusState:
    """The corpus of the explorer and how far its index is."""

    name: str
    state: str = "waiting"
    """waiting, building, ready, failed or none."""
    progress: float = 0.0
    message: str = ""
    index: CorpusIndex | None = None
    means: dict[str, Vectors] | None = None
    """The mean vector by layer, and of their mix."""


class ServerState:
    """Models by name; loaded in the engine's thread after the server has started."""

    def __init__(self, config: ServeConfig, engine: Engine) -> None:
        self.config, self.engine = config, engine
        self.embedders: dict[str, Embedder] = {}
        self.classifier: TextClassifier | None = None
        self.default = next(iter(config.named_models()), SHIPPED)
        self.ready = False
        self.draining = False
        self.failure: str | None = None
        self.started = time.time()
        self.corpus = CorpusState(_corpus_name(config), "waiting" if config.explorer else "none")
        self._cards: dict[str, Json] = {}
        self._stopping = threading.Event()

    def load(self) -> None:
        """Load everything and run each model once; the explorer's corpus comes later."""
        config = self.config
        set_device(config.device, config.threads)
        named = config.named_models() or {SHIPPED: str(BILM)}
        for name, path in named.items():
            self.embedders[name] = Embedder.from_pretrained(path, device=config.device)
        classifier = config.classifier
        if classifier is None and not config.models:
            classifier = str(CLASSIFIER)
        if classifier is not None:
            self.classifier = TextClassifier.from_pretrained(classifier, device=config.device)
        for name, path in named.items():
            self._cards[name] = _card(name, path, self.embedders[name])
        for embedder in self.embedders.values():
            embedder.encode(["Warm up .", "The first call is slower ."])
            # As large as a batch can be: what it needs of memory is taken before the first client.
            words = embedder.model.vocabulary.words[len(SPECIAL_WORDS) :][:WARM_WORDS]
            embedder.encode([words] * max(1, config.batch_words // max(1, len(words))))
        if self.classifier is not None:
            self.classifier.predict_proba(["Warm up ."])
        self.ready = True

    def start(self) -> Future[Any]:
        """Load in the engine's thread, then index the corpus from a thread of its own."""
        loading = self.engine.submit(self.load, [], seconds=3600, cost=0)

        def then() -> None:
            try:
                loading.result()
            except Exception as error:
                self.failure = str(error)
                log.error("cannot serve: %s", error)
                return
            if self.config.explorer:
                self.prepare_corpus()

        threading.Thread(target=then, name="elmo-corpus", daemon=True).start()
        return loading

    def stop(self) -> None:
        """Give up indexing; what is done is resumed by the next server."""
        self._stopping.set()

    # The corpus.

    def prepare_corpus(self) -> None:
        """Open the index of the corpus, or make it: news are generated, texts are read."""
        corpus, config = self.corpus, self.config
        try:
            embedder = self.embedders[self.default]
            corpus.state = "building"
            path = Path(config.corpus or "")
            if config.corpus is not None and (path / DESCRIPTION).is_file():
                index = CorpusIndex.open(path)
                index.check_model(embedder)
            else:
                index = self._cached_index(embedder)
            corpus.means = self.engine.call(lambda: layer_means(index, embedder), [], seconds=600)
            corpus.index = index
            for module in ("sklearn.cluster", "sklearn.metrics"):
                import_module(module)  # so that the first word map need not wait for it
            corpus.state, corpus.progress = "ready", 1.0
            log.info("corpus: %s", index)
        except UserError as error:
            corpus.state, corpus.message = "failed", str(error)
            log.warning("corpus: %s", error)
        except Exception as error:  # a stopped engine cancels the call
            if not self._stopping.is_set():
                corpus.state, corpus.message = "failed", "the corpus could not be indexed"
                log.exception("corpus: %s", error)

    def _cached_index(self, embedder: Embedder) -> CorpusIndex:
        """The index in the cache folder, made now if need be; the same command resumes."""
        config, corpus = self.config, self.corpus
        if config.corpus is None:
            identity = f"news {NEWS_ITEMS}"
        else:
            identity = " ".join(one.fingerprint() for one in resolve([config.corpus]))
        key = f"{model_digest(embedder)} {identity} {config.corpus_words}"
        folder = cache_folder() / "serve"
        out = folder / hashlib.sha256(key.encode()).hexdigest()[:20]
        if not (out / DESCRIPTION).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder, out.name)
            encode = Key("corpus", embedder.encoder(_all_layers()).encode)

            def in_engine(texts: list[Words]) -> list[Vectors]:
                vectors: list[Vectors] = []
                for chunk in chunked(texts, len, BACKGROUND_WORDS):
                    if self._stopping.is_set():
                        raise UserError("stopped")
                    vectors += self.engine.call(encode, chunk, seconds=3600)
                return vectors

            def listen(progress: Progress) -> None:
                corpus.progress = progress.texts / max(1, progress.total or 1)

            texts = generated_news() if config.corpus is None else read_corpus([config.corpus])
            settings = IndexConfig(max_words=config.corpus_words)
            build_index(embedder, texts, out, settings, encode=in_engine, progress=listen)
        return CorpusIndex.open(out)

    def require_corpus(self) -> CorpusIndex:
        """The index, or a message why there is none."""
        if self.corpus.index is None:
            reason = {
                "none": "this server has no corpus; start it with the explorer",
                "failed": f"the corpus cannot be used: {self.corpus.message}",
            }.get(self.corpus.state, "the corpus is still being indexed; try again in a moment")
            raise UserError(reason)
        return self.corpus.index

    # What clients are told.

    def info(self) -> Json:
        """Models, classifier, corpus and limits; no path of this machine."""
        corpus, classifier = self.corpus, self.classifier
        about = corpus.index.description if corpus.index is not None else None
        return {
            "models": list(self._cards.values()),
            "default_model": self.default,
            "classifier": None if classifier is None else _about_classifier(classifier),
            "corpus": {
                "name": corpus.name,
                "state": corpus.state,
                "progress": round(corpus.progress, 3),
                "message": corpus.message,
                "texts": 0 if about is None else about.texts,
                "words": 0 if about is None else about.occurrences,
                "sampled_from_words": 0 if about is None else about.corpus_words,
                "labels": [] if about is None else list(about.labels),
                "ambiguous": [] if corpus.index is None else corpus.index.ambiguous()[:40],
                "frequent": [] if corpus.index is None else corpus.index.frequent(60),
            },
        }


def layer_means(index: CorpusIndex, embedder: Embedder) -> dict[str, Vectors]:
    """The mean vector of each stored layer, and of the mix if all layers are stored."""
    means = {str(layer): index.mean(layer) for layer in index.layers}
    if len(index.layers) == 1 + embedder.num_layers and embedder.mix.is_sum:
        stacked = torch.from_numpy(np.stack([means[str(one)] for one in index.layers]))
        with torch.no_grad():
            means[MIX] = embedder.mix(stacked[:, None].to(embedder.model.device))[0].cpu().numpy()
    return means


def generated_news() -> list[CorpusText]:
    """Invented news with known labels and senses."""
    from elmo.study.news import read_news

    return [
        CorpusText(
            tokenize_words(item.text), item.label, {mark.place: mark.sense for mark in item.senses}
        )
        for item in read_news("train")[:NEWS_ITEMS]
    ]


def _all_layers() -> EncodeConfig:
    return EncodeConfig(output="tokens", layer="all")


def _corpus_name(config: ServeConfig) -> str:
    return "generated news" if config.corpus is None else Path(config.corpus).name


def _card(name: str, path: str, embedder: Embedder) -> Json:
    """What a client may know about a model."""
    described, config = describe(path), embedder.model.config
    text = Path(path) / CARD
    card = text.read_text("utf-8", "replace")[:CARD_LENGTH] if text.is_file() else ""
    mix = embedder.mix
    return {
        "name": name,
        "input": config.input,
        "layers": config.layers,
        "cells": config.hidden,
        "width": embedder.width,
        "dim": embedder.dim,
        "vocabulary": len(embedder.model.vocabulary),
        "parameters": parameter_count(embedder.model),
        "predicts": config.softmax.loss != "none",
        "tokenizer": embedder.loaded.tokenizer.tokenizer,
        "training_tokens": described.training_tokens,
        "unknown_rate": described.unknown_rate,
        "held_out_perplexity": described.held_out_perplexity,
        "mix": {"weights": mix.weights, "gamma": mix.gamma},
        "card": card,
    }


def _about_classifier(classifier: TextClassifier) -> Json:
    network = classifier.network
    mix: Any = None if network is None else network.mix
    return {
        "labels": list(classifier.labels),
        "parts": dict(classifier.part_weights),
        "mix": None if mix is None else {"weights": mix.weights, "gamma": mix.gamma},
    }

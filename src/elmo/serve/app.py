"""The routes: thin shells around library functions, with limits, deadlines and errors that help."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, cast

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

import elmo
from elmo.config import to_json as settings_to_json
from elmo.embed.config import EncodeConfig
from elmo.embed.embedder import Embedder, Vectors
from elmo.errors import ConfigError, UserError
from elmo.explore.index import Occurrence
from elmo.explore.sentences import similarities, surprisal
from elmo.explore.shapley import Contributions, contributions
from elmo.explore.word_map import principal_components, word_map
from elmo.serve import schemas as s
from elmo.serve.config import ServeConfig
from elmo.serve.engine import Engine, Key, TooBusyError, Words
from elmo.serve.guard import Guard, Metrics, problem
from elmo.serve.state import ServerState
from elmo.study.news import sense_accuracy
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN

LONG_TEXT = 20_000
"""Characters that are tokenized in a thread, so that other requests need not wait."""
WATCH_AFTER = 0.05
"""Seconds between checks whether a request's client is still connected."""
WORDS_AROUND = 14
AGREEMENT_POINTS = 1000
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
log = logging.getLogger(__name__)


class ApiError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param


def create_app(config: ServeConfig | None = None, token: str | None = None) -> FastAPI:
    """The ASGI application: models are loaded when it starts up.

    Args:
        config: What to serve; default: the shipped models and generated news.
        token: What clients must send; default: none.
    """
    config = config or ServeConfig()
    engine = Engine(
        batch_words=config.batch_words,
        batch_wait=config.batch_wait_ms / 1000,
        queue_words=config.limits.queue_words,
    )
    metrics = Metrics(lambda: engine.waiting_words)
    engine.observe = metrics.observe
    state = ServerState(config, engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        engine.start()
        loading = state.start()
        if config.workers > 1:
            # A process accepts connections only afterwards: once one worker answers, no client
            # meets another that is still loading.
            await asyncio.wait([asyncio.wrap_future(loading)])
        yield
        state.stop()
        engine.stop()

    app = FastAPI(
        title="elmo serve",
        version=elmo.__version__,
        description="Contextual word embeddings, their language model, and a corpus to explore.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.server = state
    _add_errors(app)
    handlers = Handlers(state, config)
    _add_system_routes(app, state, metrics)
    _add_model_routes(app, handlers)
    _add_explorer_routes(app, handlers)
    if config.explorer:
        _add_page(app)

    def arriving(change: int) -> None:
        engine.arriving += change

    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=config.limits.body_bytes)
    if config.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.allow_origin),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    app.add_middleware(Guard, config=config, token=token, metrics=metrics, arriving=arriving)
    app.add_middleware(
        TrustedHostMiddleware, allowed_hosts=config.allowed_hosts, www_redirect=False
    )
    return app


def _add_errors(app: FastAPI) -> None:
    """Every error in one of two shapes, and never a traceback."""

    async def answer(request: Request, error: Exception) -> Response:
        path, param = request.url.path, None
        if isinstance(error, RequestValidationError):
            status, message = 422, _explained(error)
        elif isinstance(error, ApiError):
            status, message, param = error.status, str(error), error.param
        elif isinstance(error, HTTPException):
            status, message = error.status_code, str(error.detail)
        elif isinstance(error, TooBusyError):
            busy = problem(path, 429, str(error))
            busy.headers["retry-after"] = str(error.seconds)
            return busy
        elif isinstance(error, UserError):
            status, message = 422, str(error)
            if isinstance(error, ConfigError):
                message = "; ".join(error.problems)
        else:
            status, message = 500, "the server failed; its log says why"
        if path.startswith("/v1/") and status == 422:
            status = 400  # what OpenAI's clients expect of a mistake in a request
        return problem(path, status, message, param=param)

    kinds = (RequestValidationError, ApiError, HTTPException, TooBusyError, UserError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, answer)


def _explained(error: RequestValidationError) -> str:
    """Where a request is wrong and how; without its content, which may be long or private."""
    problems: list[str] = []
    for one in error.errors()[:5]:
        where = ".".join(str(part) for part in one["loc"] if part != "body")
        problems.append(f"{where}: {one['msg']}" if where else str(one["msg"]))
    return "; ".join(problems)


class Handlers:
    """What routes have in common: models by name, words within limits, results in time."""

    def __init__(self, state: ServerState, config: ServeConfig) -> None:
        self.state, self.limits = state, config.limits
        self._explaining = asyncio.Lock()
        self._keys: dict[Any, Key] = {}

    def embedder(self, name: str | None) -> tuple[str, Embedder]:
        """A model by its name; the default one without."""
        self.require_ready()
        name = name or self.state.default
        if name not in self.state.embedders:
            known = ", ".join(self.state.embedders)
            raise ApiError(404, f"there is no model {name!r:.80}; this server has {known}", "model")
        return name, self.state.embedders[name]

    def require_ready(self) -> None:
        """Refuse requests while models are being loaded."""
        if not self.state.ready:
            raise ApiError(503, self.state.failure or "the models are still being loaded")

    async def words(
        self, model: Any, texts: Sequence[str | list[str]], *, truncate: bool = False
    ) -> list[Words]:
        """The words of texts, within the limits."""
        limits = self.limits
        if len(texts) > limits.texts:
            raise UserError(f"expected at most {limits.texts:,} texts, got {len(texts):,}")

        def tokenize() -> list[Words]:
            for number, text in enumerate(texts):
                try:
                    (text if isinstance(text, str) else " ".join(text)).encode()
                except UnicodeEncodeError:
                    raise UserError(f"text {number} is not valid Unicode text") from None
            return [model.words(text) for text in texts]

        length = sum(map(len, texts))
        words = tokenize() if length < LONG_TEXT else await asyncio.to_thread(tokenize)
        for number, text in enumerate(words):
            if len(text) > limits.words_per_text:
                if not truncate:
                    raise UserError(
                        f"text {number} has {len(text):,} words, more than the "
                        f"{limits.words_per_text:,} allowed; shorten it, or send truncate: true"
                    )
                words[number] = text[: limits.words_per_text]
        total = sum(map(len, words))
        if total > limits.words:
            raise UserError(
                f"the texts have {total:,} words, more than the {limits.words:,} allowed per "
                "request; send fewer texts"
            )
        return words

    async def run(
        self,
        request: Request,
        work: Key | Callable[[], Any],
        words: list[Words] | None = None,
        *,
        cost: int | None = None,
    ) -> Any:
        """Queue work and wait; nothing is computed for a client that has disconnected."""
        request.scope["elmo.body"].done()
        future = self.state.engine.submit(work, words or [], seconds=self.limits.seconds, cost=cost)
        return await self.result(request, future)

    async def result(self, request: Request, future: Future[Any]) -> Any:
        """The result of a future, unless the deadline passes or the client leaves before."""
        wrapped = asyncio.wrap_future(future)
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        done, _ = await asyncio.wait({wrapped}, timeout=WATCH_AFTER)
        if not done:
            gone = asyncio.create_task(_disconnected(request))
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            try:
                await asyncio.wait(
                    {wrapped, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                gone.cancel()
        if not wrapped.done():
            future.cancel()
            wrapped.cancel()
            raise ApiError(504, f"no answer within {self.limits.seconds:g} s; send less at a time")
        try:
            return wrapped.result()
        except (CancelledError, asyncio.CancelledError):
            if self.state.draining or not self.state.ready:
                raise ApiError(503, "the server is shutting down") from None
            raise ApiError(504, f"no answer within {self.limits.seconds:g} s") from None

    async def encode(
        self, request: Request, name: str, words: list[Words], config: EncodeConfig
    ) -> list[Vectors]:
        """Vectors of texts, computed together with those of other requests."""
        embedder = self.state.embedders[name]
        identity = (name, config)
        key = self._keys.get(identity)
        if key is None:
            encoder = embedder.encoder(config)  # checks the settings
            key = Key(identity, encoder.encode)
            if len(self._keys) < 256:
                self._keys[identity] = key
        return await self.run(request, key, words) if words else []

    def classify_key(self) -> Key:
        """What requests for probabilities have in common."""
        classifier = self.state.classifier
        assert classifier is not None

        def probabilities(texts: list[Words]) -> list[Any]:
            return list(classifier.predict_proba(texts))

        return Key("classify", probabilities)

    async def explain(
        self, request: Request, words: Words, body: s.ClassifyRequest
    ) -> Contributions:
        """Contributions, one text at a time; other requests are served between the steps."""
        limits, classifier = self.limits, self.state.classifier
        assert classifier is not None
        if len(words) > limits.explained_words:
            raise UserError(
                f"expected a text of at most {limits.explained_words} words to explain, got "
                f"{len(words):,}; shorten it"
            )
        request.scope["elmo.body"].done()
        deadline = time.monotonic() + limits.seconds
        key = self.classify_key()
        given_up = False

        def predict(texts: list[Words]) -> Any:
            left = deadline - time.monotonic()
            if given_up or left <= 0:
                raise ApiError(504, f"no answer within {limits.seconds:g} s; shorten the text")
            rows = self.state.engine.call(key, texts, seconds=left, background=False)
            return np.stack(rows)

        async with self._explaining:
            if await request.is_disconnected() or time.monotonic() > deadline:
                raise ApiError(504, f"no answer within {limits.seconds:g} s")
            try:
                return await asyncio.to_thread(
                    contributions,
                    classifier,
                    words,
                    body.label,
                    permutations=body.permutations,
                    predict=predict,
                )
            except CancelledError:
                raise ApiError(504, f"no answer within {limits.seconds:g} s") from None
            finally:
                given_up = True


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(content: object, status: int = 200) -> Response:
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def _errors(*, openai: bool) -> dict[int | str, dict[str, Any]]:
    """What the schema says about answers other than 200."""
    model = s.OpenAIProblem if openai else s.Problem
    statuses = (400, 401, 403, 404, 408, 413, 422, 429, 503, 504)
    media = "application/json" if openai else "application/problem+json"
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {
        status: {"description": f"Error {status}", "content": {media: {"schema": schema}}}
        for status in statuses
    }


def _route(app: FastAPI, path: str, answer: type, *, openai: bool = False) -> Callable[[Any], Any]:
    """A POST route that builds its own answer; the schema still says what it is."""
    return app.post(path, response_model=answer, responses=_errors(openai=openai))


def _add_system_routes(app: FastAPI, state: ServerState, metrics: Metrics) -> None:
    @app.get("/health", response_model=s.Status)
    async def health() -> Any:
        """Whether the process is alive."""
        return _json({"status": "ok"})

    @app.get("/ready", response_model=s.Status, responses={503: {"model": s.Status}})
    async def ready() -> Any:
        """Whether models are loaded, and the server is not shutting down."""
        if state.draining:
            return _json({"status": "shutting down"}, 503)
        if not state.ready:
            return _json({"status": state.failure or "loading"}, 503)
        return _json({"status": "ready"})

    @app.get("/metrics", include_in_schema=False)
    async def counters() -> Response:
        """Prometheus."""
        return metrics.page()

    @app.get("/api/info", responses=_errors(openai=False))
    async def info() -> Any:
        """Models, classifier, corpus, limits."""
        if not state.ready:
            raise ApiError(503, state.failure or "the models are still being loaded")
        content = state.info() | {"limits": settings_to_json(state.config.limits)}
        return _json(content | {"version": elmo.__version__})

    made = app.openapi

    @cache
    def openapi() -> dict[str, Any]:
        # Routes name the schema of errors by reference; FastAPI adds only those of its own.
        schema = made()
        components = schema.setdefault("components", {}).setdefault("schemas", {})
        for model in (s.Problem, s.OpenAIProblem, s.OpenAIError):
            reference = "#/components/schemas/{model}"
            described = model.model_json_schema(ref_template=reference)
            described.pop("$defs", None)
            components[model.__name__] = described
        return schema

    cast("Any", app).openapi = openapi


def _add_model_routes(app: FastAPI, handlers: Handlers) -> None:
    state = handlers.state

    @app.get("/v1/models", response_model=s.ModelList, responses=_errors(openai=True))
    async def models() -> Any:
        """The models served, in OpenAI's shape."""
        handlers.require_ready()
        entry = {"object": "model", "created": int(state.started), "owned_by": "elmo"}
        return _json(
            {"object": "list", "data": [{"id": name, **entry} for name in state.embedders]}
        )

    @_route(app, "/v1/embeddings", s.EmbeddingAnswer, openai=True)
    async def embeddings(body: s.EmbeddingRequest, request: Request) -> Any:
        """One vector per text, in OpenAI's shape."""
        texts = [body.input] if isinstance(body.input, str) else body.input
        if any(not isinstance(text, str) for text in texts):
            raise ApiError(
                400,
                "input: expected texts, got token ids, which belong to another model's tokenizer; "
                "with LangChain, use OpenAIEmbeddings(check_embedding_ctx_length=False)",
                "input",
            )
        name, embedder = handlers.embedder(body.model)
        if body.dimensions not in (None, embedder.dim):
            raise ApiError(
                400, f"dimensions: vectors have {embedder.dim} numbers; leave it out", "dimensions"
            )
        if not texts:
            raise ApiError(400, "input: expected one text or more, got none", "input")
        words = await handlers.words(embedder.loaded, cast("list[str]", texts))
        vectors = await handlers.encode(request, name, words, EncodeConfig())
        data = [
            {"object": "embedding", "index": idx, "embedding": _encoded(one, body.encoding_format)}
            for idx, one in enumerate(vectors)
        ]
        total = sum(map(len, words))
        usage = {"prompt_tokens": total, "total_tokens": total}
        return _json({"object": "list", "data": data, "model": name, "usage": usage})

    @_route(app, "/api/embed", s.EmbedAnswer)
    async def embed(body: s.EmbedRequest, request: Request) -> Any:
        """Vectors of texts or of their words, of any layer."""
        name, embedder = handlers.embedder(body.model)
        config = EncodeConfig(
            output=body.output, layer=body.layer, pooling=body.pooling, normalize=body.normalize
        )
        encoder = embedder.encoder(config)
        words = await handlers.words(embedder.loaded, body.texts, truncate=body.truncate)
        rows = sum(map(len, words)) if body.output == "tokens" else len(words)
        numbers = rows * int(np.prod(encoder.row_shape))
        if numbers > handlers.limits.numbers:
            raise UserError(
                f"the answer would have {numbers:,} numbers, more than the "
                f"{handlers.limits.numbers:,} allowed; send fewer texts"
            )
        vectors = await handlers.encode(request, name, words, config)
        answer = {
            "model": name,
            "dim": encoder.dim,
            "words": words if body.output == "tokens" else None,
            "vectors": [_encoded(one, body.encoding_format) for one in vectors],
            "shapes": [list(one.shape) for one in vectors],
        }
        return await asyncio.to_thread(_json, answer) if numbers > 100_000 else _json(answer)

    @_route(app, "/api/tokenize", s.TokenizeAnswer)
    async def tokenize(body: s.TokenizeRequest) -> Any:
        """Words as the model sees them, with their counts in its vocabulary."""
        name, embedder = handlers.embedder(body.model)
        (words,) = await handlers.words(embedder.loaded, [body.text])
        vocabulary, special = embedder.model.vocabulary, len(SPECIAL_WORDS)
        entries: list[dict[str, Any]] = []
        for word in words:
            word_id = vocabulary.id(word)
            known = word_id != UNKNOWN
            count = vocabulary.counts[word_id] if known else 0
            rank = word_id - special + 1 if known else None
            entries.append({"word": word, "known": known, "count": count, "rank": rank})
        return _json({"model": name, "words": entries})

    @_route(app, "/api/classify", s.ClassifyAnswer)
    async def classify(body: s.ClassifyRequest, request: Request) -> Any:
        """Probabilities of labels, and the contributions of words if asked for."""
        handlers.require_ready()
        classifier = state.classifier
        if classifier is None:
            raise UserError("this server has no classifier; start it with --classifier FOLDER")
        words = await handlers.words(classifier.language_model, body.texts, truncate=body.truncate)
        labels = list(classifier.labels)
        if body.label is not None and body.label not in labels:
            raise UserError(f"label: expected one of {', '.join(labels)}; got {body.label!r:.60}")
        if body.explain and len(words) != 1:
            raise UserError(f"explain: expected one text, got {len(words)}")
        explained: Any = None
        if body.explain:
            result = await handlers.explain(request, words[0], body)
            rows: list[dict[str, float]] = [result.probabilities]
            fields = ("words", "label", "base", "values", "errors", "log_probability")
            explained = {name: getattr(result, name) for name in fields}
        else:
            found: list[Any] = []
            if words:
                found = await handlers.run(request, handlers.classify_key(), words)
            rows = [dict(zip(labels, row.tolist(), strict=True)) for row in found]
        results = [
            {"label": max(row, key=lambda name: row[name]), "probabilities": row} for row in rows
        ]
        return _json({"labels": labels, "results": results, "contributions": explained})

    @_route(app, "/api/score", s.ScoreAnswer)
    async def score(body: s.ScoreRequest, request: Request) -> Any:
        """Surprisal of each word in bits, forward, backward and both."""
        name, embedder = handlers.embedder(body.model)
        words = await handlers.words(embedder.loaded, body.texts)
        for number, text in enumerate(words):
            if not text:
                raise UserError(f"text {number} has no words; leave it out")
        results: list[Any] = []
        for text in words:  # one after the other, so that short requests get between them

            def one(text: Words = text) -> Any:
                return surprisal(embedder.loaded, text, body.alternatives)

            results.append(await handlers.run(request, one, cost=len(text)))
        return _json({"model": name, "texts": results})

    @_route(app, "/api/predict", s.PredictAnswer)
    async def predict(body: s.PredictRequest, request: Request) -> Any:
        """Words for blanks."""
        name, embedder = handlers.embedder(body.model)
        (words,) = await handlers.words(embedder.loaded, [body.text])
        texts = [body.text]

        def fill() -> Any:
            return embedder.loaded.fill(texts, body.k, blank=body.blank)[0]

        result = await handlers.run(request, fill, cost=len(words))
        blanks = [
            {
                "position": one.place,
                "forward": one.forward,
                "backward": one.backward,
                "both": one.combined,
            }
            for one in result.blanks
        ]
        return _json({"model": name, "words": result.words, "blanks": blanks})


def _encoded(vector: Vectors, how: str) -> Any:
    if how == "base64":
        return base64.b64encode(vector.astype("<f4", copy=False).tobytes()).decode()
    return vector.tolist()


def _add_explorer_routes(app: FastAPI, handlers: Handlers) -> None:
    state = handlers.state

    @_route(app, "/api/similarity", s.SimilarityAnswer)
    async def similarity(body: s.SimilarityRequest, request: Request) -> Any:
        """Cosines of the words of two sentences, in every layer."""
        name, embedder = handlers.embedder(body.model)
        left, right = await handlers.words(embedder.loaded, [body.left, body.right])
        numbers = 2 * (embedder.num_layers + 2) * len(left) * len(right)
        if numbers > handlers.limits.numbers // 4:
            raise UserError(f"{len(left)} x {len(right)} words are too many; shorten the texts")
        means = state.corpus.means if name == state.default else None
        result = await handlers.run(
            request,
            lambda: similarities(embedder, left, right, means),
            cost=len(left) + len(right),
        )
        rounded = {
            kind: {layer: matrix.round(4).tolist() for layer, matrix in matrices.items()}
            for kind, matrices in (("raw", result.raw), ("centred", result.centred))
        }
        answer = {"left": left, "right": right, "centre": result.centre}
        return _json({"model": name, **answer, **rounded})

    @_route(app, "/api/neighbours", s.NeighboursAnswer)
    async def neighbours(body: s.NeighboursRequest, request: Request) -> Any:
        """Words of the corpus nearest to a word of a sentence, one list per layer."""
        name, embedder = handlers.embedder(None)
        index = state.require_corpus()
        (words,) = await handlers.words(embedder.loaded, [body.sentence])
        if body.position >= len(words):
            raise UserError(
                f"position: the sentence has {len(words)} words, counted from 0; got "
                f"{body.position}"
            )
        encoder = embedder.encoder(EncodeConfig(output="tokens", layer="all"))

        def search() -> dict[str, Any]:
            vectors = encoder.encode([words])[0][:, body.position]  # (layers, dim)
            return {
                str(layer): index.nearest(
                    vectors[layer],
                    layer=layer,
                    k=body.k,
                    distinct=body.distinct,
                    word=words[body.position] if body.same_word else None,
                    exclude=words,
                )
                for layer in index.layers
            }

        result = await handlers.run(request, search, cost=len(words))
        layers = {name: [_shown(one) for one in some.items] for name, some in result.items()}
        answer = {"corpus": state.corpus.name, "words": words, "position": body.position}
        return _json({"model": name, **answer, "layers": layers})

    @_route(app, "/api/occurrences", s.OccurrencesAnswer)
    async def occurrences(body: s.OccurrencesRequest, request: Request) -> Any:
        """Occurrences of a word as points, one plane per layer."""
        name, _ = handlers.embedder(None)
        index = state.require_corpus()

        def project() -> dict[str, Any]:
            found = word_map(
                index,
                body.word,
                limit=body.limit,
                clusters=body.clusters,
                ignore_case=body.ignore_case,
            )
            items = found.occurrences.items
            rows = np.array([item.row for item in items])
            senses = [item.sense or item.label or "" for item in items]
            agreement, chance = _agreement(index, rows, senses, [one.text_number for one in items])
            components = {
                str(layer): principal_components(index.vectors(rows, layer), body.components)[0]
                for layer in (index.layers if body.components else ())
            }
            return {
                "total": found.occurrences.total,
                "occurrences": [_shown(one) for one in items],
                "layers": found.layers,
                "points": {name: some.round(4).tolist() for name, some in found.points.items()},
                "explained": found.explained,
                "clusters": found.clusters.tolist(),
                "agreement": agreement,
                "chance": chance,
                "components": {name: one.round(4).tolist() for name, one in components.items()},
            }

        result = await handlers.run(request, project, cost=1000)
        about = {"model": name, "corpus": state.corpus.name, "word": body.word}
        return await asyncio.to_thread(_json, about | result)


def _agreement(
    index: Any, rows: Any, groups: list[str], texts: list[int]
) -> tuple[dict[str, float], float | None]:
    """How often the nearest occurrence has the same sense or label, by layer; and chance."""
    named = [place for place, group in enumerate(groups) if group][:AGREEMENT_POINTS]
    kinds = [groups[place] for place in named]
    if len(set(kinds)) < 2:
        return {}, None
    agreement: dict[str, float] = {}
    chance = 0.0
    for layer in index.layers:
        vectors = index.vectors(rows[named], layer)
        measured = sense_accuracy(vectors, [""] * len(named), kinds, [texts[one] for one in named])
        agreement[str(layer)], chance = measured["accuracy"], measured["chance"]
    return agreement, chance


def _shown(occurrence: Occurrence) -> dict[str, Any]:
    """An occurrence with the words around it, not a whole document."""
    first = max(0, occurrence.position - WORDS_AROUND)
    end = occurrence.position + WORDS_AROUND + 1
    similarity = occurrence.similarity
    return {
        "word": occurrence.word,
        "words": occurrence.words[first:end],
        "position": occurrence.position - first,
        "text_number": occurrence.text_number,
        "label": occurrence.label,
        "sense": occurrence.sense,
        "similarity": None if similarity is None else round(similarity, 4),
    }


@cache
def static_files() -> dict[str, tuple[bytes, bytes, str, str]]:
    """Content, gzipped content, type and tag of each file of the page, by its path."""
    found: dict[str, tuple[bytes, bytes, str, str]] = {}

    def visit(folder: Any, prefix: str) -> None:
        for entry in folder.iterdir():
            name = f"{prefix}{entry.name}"
            if entry.is_dir():
                visit(entry, f"{name}/")
            elif (kind := TYPES.get(f".{name.rpartition('.')[2]}")) is not None:
                content = entry.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                found[name] = (content, gzip.compress(content, 9, mtime=0), kind, tag)

    visit(files("elmo.serve") / "static", "")
    return found


def _add_page(app: FastAPI) -> None:
    """The page: files by their exact names, so that no path can lead elsewhere."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        file = static_files().get(name)
        if file is None:
            raise HTTPException(404, "there is no such file")
        content, packed, kind, tag = file
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=headers | {"content-encoding": "gzip"}, media_type=kind)
        return Response(content, headers=headers, media_type=kind)

    handler = cast("Callable[[Request], Awaitable[Response]]", page)
    app.add_route("/", handler, include_in_schema=False)
    app.add_route("/static/{name:path}", handler, include_in_schema=False)

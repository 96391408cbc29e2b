"""Routes against the library, through a real server: values, limits, errors, many clients."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import numpy as np
import pytest
from openai import BadRequestError, NotFoundError, OpenAI
from tests.serve.conftest import SOAK, TEXTS, Running, running, wait_until

from elmo.classify.classifier import TextClassifier
from elmo.embed.embedder import Embedder
from elmo.explore.sentences import surprisal
from elmo.explore.shapley import contributions
from elmo.serve.config import Limits, ServeConfig

TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def openai(server: Running) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_openai_client(openai: OpenAI, embedder: Embedder, encoding: Any) -> None:
    settings = {} if encoding is None else {"encoding_format": encoding}
    answer = openai.embeddings.create(model="default", input=TEXTS, **settings)
    expected = embedder.encode(TEXTS)
    assert [one.index for one in answer.data] == list(range(len(TEXTS)))
    for one, vector in zip(answer.data, expected, strict=True):
        value = one.embedding
        if isinstance(value, str):
            value = np.frombuffer(base64.b64decode(value), "<f4")
        assert np.abs(np.array(value) - vector).max() < TOLERANCE
    words = sum(len(embedder.loaded.words(text)) for text in TEXTS)
    assert answer.usage.total_tokens == words
    alone = openai.embeddings.create(model="default", input=TEXTS[0])
    assert np.abs(np.array(alone.data[0].embedding) - expected[0]).max() < TOLERANCE


def test_openai_models_and_mistakes(openai: OpenAI) -> None:
    assert [model.id for model in openai.models.list()] == ["default"]
    with pytest.raises(NotFoundError, match="this server has default") as missing:
        openai.embeddings.create(model="gpt", input="x")
    assert missing.value.code == "model_not_found"
    with pytest.raises(BadRequestError, match="check_embedding_ctx_length=False"):
        openai.embeddings.create(model="default", input=[[1, 2, 3]])
    with pytest.raises(BadRequestError, match="check_embedding_ctx_length=False"):
        openai.embeddings.create(model="default", input=[1, 2, 3])
    with pytest.raises(BadRequestError, match="vectors have 512 numbers"):
        openai.embeddings.create(model="default", input="x", dimensions=12)
    with pytest.raises(BadRequestError, match="expected one text or more"):
        openai.embeddings.create(model="default", input=[])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output": "tokens", "layer": "all"},
        {"layer": 0, "normalize": True},
        {"pooling": "max+first"},
        {"output": "tokens", "layer": "top"},
    ],
)
def test_embed(server: Running, embedder: Embedder, options: dict[str, Any]) -> None:
    expected = list(embedder.encode(TEXTS, **options))
    for how in ("float", "base64"):
        answer = server.post("/api/embed", texts=TEXTS, encoding_format=how, **options).json()
        assert answer["shapes"] == [list(vector.shape) for vector in expected]
        for value, vector in zip(answer["vectors"], expected, strict=True):
            if how == "base64":
                value = np.frombuffer(base64.b64decode(value), "<f4").reshape(vector.shape)
            difference = np.abs(np.array(value, np.float32).reshape(vector.shape) - vector)
            assert difference.max(initial=0) < TOLERANCE
    if options.get("output") == "tokens":
        assert answer["words"] == [embedder.loaded.words(text) for text in TEXTS]


def test_words_instead_of_texts(server: Running, embedder: Embedder) -> None:
    words = ["two words", "and", "."]
    answer = server.post("/api/embed", texts=[words], output="tokens").json()
    expected = embedder.encode([words], output="tokens")[0]
    assert np.abs(np.array(answer["vectors"][0]) - expected).max() < TOLERANCE


def test_classify_and_explain(server: Running, classifier: TextClassifier) -> None:
    answer = server.post("/api/classify", texts=TEXTS).json()
    expected = classifier.predict_proba(TEXTS)
    for result, row in zip(answer["results"], expected, strict=True):
        values = [result["probabilities"][label] for label in classifier.labels]
        assert np.abs(np.array(values) - row).max() < 1e-5
    explained = server.post("/api/classify", texts=[TEXTS[0]], explain=True, label="World").json()
    found, direct = explained["contributions"], contributions(classifier, TEXTS[0], "World")
    assert np.allclose(found["values"], direct.values, atol=1e-4)
    total = found["base"] + sum(found["values"])
    assert total == pytest.approx(found["log_probability"], abs=1e-9)


def test_score_and_predict(server: Running, embedder: Embedder) -> None:
    answer = server.post("/api/score", texts=TEXTS[:2], alternatives=3).json()
    for scored, text in zip(answer["texts"], TEXTS, strict=False):
        direct = surprisal(embedder.loaded, text, 3)
        for word, expected in zip(scored["words"], direct.words, strict=True):
            assert word["forward"] == pytest.approx(expected.forward, abs=1e-4)
            assert word["both"] == pytest.approx(expected.both, abs=1e-4)
            assert [one["word"] for one in word["both_best"]] == [
                one.word for one in expected.both_best
            ]
    answer = server.post("/api/predict", text="Oil ___ fell ___ .", k=4).json()
    direct = embedder.loaded.fill("Oil ___ fell ___ .", 4)
    assert answer["words"] == list(direct.words)
    for blank, expected in zip(answer["blanks"], direct.blanks, strict=True):
        assert blank["position"] == expected.place
        assert [one["word"] for one in blank["both"]] == [one.word for one in expected.combined]


def test_explorer_routes(server: Running) -> None:
    info = server.client.get("/api/info").json()
    assert info["corpus"]["state"] == "ready"
    assert info["corpus"]["name"] == "generated news"
    assert str(server.state.corpus.index.path) not in json.dumps(info)  # type: ignore[union-attr]
    word = info["corpus"]["ambiguous"][0][0]
    answer = server.post("/api/occurrences", word=word, components=3).json()
    count = len(answer["occurrences"])
    assert count == answer["total"] == len(answer["points"]["2"]) == len(answer["clusters"])
    assert len(answer["components"]["1"][0]) == 3
    assert all(one["words"][one["position"]].lower() == word for one in answer["occurrences"])
    assert answer["agreement"]["2"] >= answer["chance"]
    sentence = "The central bank raised its key rate ."
    near = server.post("/api/neighbours", sentence=sentence, position=2, k=4).json()
    assert list(near["layers"]) == ["0", "1", "2"]
    assert near["layers"]["0"][0]["similarity"] == pytest.approx(1, abs=1e-3)
    assert near["words"] == sentence.split()
    similar = server.post("/api/similarity", left="The bank .", right="A bank .").json()
    assert similar["centre"] == "corpus"
    assert similar["raw"]["0"][1][1] == pytest.approx(1, abs=1e-4)
    tokens = server.post("/api/tokenize", text="The quuxly bank").json()["words"]
    assert [one["known"] for one in tokens] == [True, False, True]


# Limits: at, below, above.

SMALL = Limits(
    body_bytes=4000, texts=3, words_per_text=6, words=10, numbers=8000, explained_words=4
)


@pytest.fixture(scope="module")
def strict(cache: object) -> Any:
    with running(ServeConfig(port=0, explorer=False, limits=SMALL)) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/embed", {"texts": ["a"] * 2}, 200, ""),
        ("/api/embed", {"texts": ["a"] * 3}, 200, ""),
        ("/api/embed", {"texts": ["a"] * 4}, 422, "at most 3 texts, got 4"),
        ("/api/embed", {"texts": ["a b c d e f"]}, 200, ""),
        ("/api/embed", {"texts": ["a b c d e f g"]}, 422, "text 0 has 7 words"),
        ("/api/embed", {"texts": ["a b c d e f g"], "truncate": True}, 200, ""),
        ("/api/embed", {"texts": ["a b c d e", "a b c d e"]}, 200, ""),
        ("/api/embed", {"texts": ["a b c d e f", "a b c d e"]}, 422, "have 11 words"),
        ("/api/embed", {"texts": ["a b c d e"], "output": "tokens", "layer": "all"}, 200, ""),
        (
            "/api/embed",
            {"texts": ["a b c d e f"], "output": "tokens", "layer": "all"},
            422,
            "would have 9,216 numbers",
        ),
        ("/api/classify", {"texts": ["a b c d"], "explain": True}, 200, ""),
        ("/api/classify", {"texts": ["a b c d e"], "explain": True}, 422, "at most 4 words"),
        ("/api/classify", {"texts": ["a", "b"], "explain": True}, 422, "expected one text"),
        ("/api/embed", {"texts": []}, 200, ""),
        ("/v1/embeddings", {"input": ["a"] * 4}, 400, "at most 3 texts"),
    ],
)
def test_limits(
    strict: Running, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = strict.post(path, **body)
    assert answer.status_code == status, answer.text
    assert message in answer.text


def test_body_limit(strict: Running) -> None:
    for size, status in ((3999, 422), (4000, 422), (4001, 413)):
        body = b'{"texts": ["' + b"a" * (size - 15) + b'"]]'  # not JSON, on purpose
        assert len(body) == size
        answer = strict.client.post("/api/embed", content=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


def test_truncation_is_that_of_the_library(strict: Running, embedder: Embedder) -> None:
    answer = strict.post("/api/embed", texts=["a b c d e f g h"], truncate=True).json()
    expected = embedder.encode(["a b c d e f"])[0]
    assert np.abs(np.array(answer["vectors"][0]) - expected).max() < TOLERANCE


# Errors.


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/embed", {"texts": "one"}, 422, "texts"),
        ("/api/embed", {"texts": ["a"], "layre": 1}, 422, "layre"),
        ("/api/embed", {"texts": ["a"], "layer": 9}, 422, "layers 0 to 2"),
        ("/api/embed", {"texts": ["a"], "pooling": "median"}, 422, "pooling: expected mean"),
        ("/api/embed", {"texts": ["a </S> b"]}, 200, ""),
        ("/api/embed", {"texts": [["</S>"]]}, 200, ""),  # an unknown word
        ("/api/embed", {"texts": ["a"], "model": "../../etc"}, 404, "there is no model"),
        ("/api/score", {"texts": [" "]}, 422, "has no words"),
        ("/api/predict", {"text": "no blank"}, 422, "with a blank"),
        ("/api/classify", {"texts": ["a"], "label": "Weather"}, 422, "expected one of World"),
        ("/api/neighbours", {"sentence": "a b", "position": 2}, 422, "has 2 words"),
        ("/api/occurrences", {"word": "xylophone"}, 422, "does not occur"),
        ("/api/similarity", {"left": "", "right": "a"}, 422, "has none"),
        ("/api/nothing", {}, 404, "Not Found"),
    ],
)
def test_mistakes(
    server: Running, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = server.post(path, **body)
    assert answer.status_code == status, answer.text
    assert message in answer.text
    if status != 200:
        content = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert content["status"] == status
        assert content["title"]
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"texts": ["\\ud800"]}',
        b'{"texts": [' + b"[" * 5000 + b"]" * 5000 + b"]}",
        b'{"texts": ["a"], "texts": 3}',
        b'{"texts": [NaN]}',
        b'{"texts": [1e999]}',
    ],
)
@pytest.mark.parametrize("path", ["/api/embed", "/v1/embeddings"])
def test_malformed_bodies(server: Running, path: str, body: bytes) -> None:
    answer = server.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert "Traceback" not in answer.text
    assert answer.json().get("error" if path.startswith("/v1") else "detail")


def test_long_texts(server: Running) -> None:
    answer = server.post("/api/embed", texts=["word " * 100_000])
    assert (answer.status_code, "100,000 words" in answer.text) == (422, True)
    answer = server.post("/api/embed", texts=["x" * 500_000])  # one word
    assert answer.status_code == 200


# Many clients at once: each gets the library's answer, and its own.


def test_answers_under_concurrency(server: Running, embedder: Embedder) -> None:
    chance = random.Random(0)
    words = [word for text in TEXTS for word in text.split()]
    texts = [" ".join(chance.choices(words, k=chance.randint(0, 40))) for _ in range(120)]
    expected = {text: embedder.encode(text) for text in texts}
    requests = [[*chance.sample(texts, chance.randint(1, 6))] for _ in range(100)]

    def ask(batch: list[str]) -> float:
        answer = server.post("/v1/embeddings", input=batch).json()
        vectors = [np.array(one["embedding"]) for one in answer["data"]]
        return max(
            float(np.abs(vector - expected[text]).max())
            for vector, text in zip(vectors, batch, strict=True)
        )

    with ThreadPoolExecutor(16) as pool:
        assert max(pool.map(ask, requests)) < TOLERANCE
    metrics = server.client.get("/metrics").text
    assert 'elmo_requests_total{route="/v1/embeddings",status="200"}' in metrics
    assert "elmo_queue_words 0.0" in metrics


def test_many_clients_each_get_their_own_vectors(server: Running, embedder: Embedder) -> None:
    clients, seconds = (200, 60) if SOAK else (32, 2)
    texts = [f"{number} shares of company {number} fell ." for number in range(clients)]
    expected = embedder.encode(texts)
    end = time.monotonic() + seconds

    def client(number: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        with httpx2.Client(base_url=server.url, timeout=90) as own:
            while not statuses or time.monotonic() < end:
                answer = own.post("/v1/embeddings", json={"input": texts[number]})
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    vector = np.array(answer.json()["data"][0]["embedding"])
                    assert np.abs(vector - expected[number]).max() < TOLERANCE
        return statuses

    with ThreadPoolExecutor(clients) as pool:
        statuses = sum(pool.map(client, range(clients)), Counter[int]())
    assert set(statuses) <= {200, 429, 503, 504}
    assert statuses[200] >= clients // 2


# Deadlines, a full queue, clients that leave.


def test_deadline_queue_and_gone_clients(cache: object) -> None:
    limits = Limits(seconds=0.6, queue_words=20)
    with running(ServeConfig(port=0, explorer=False, limits=limits)) as server:
        release = threading.Event()
        server.state.engine.submit(lambda: release.wait(20), [], seconds=20, cost=0)
        wait_until(lambda: server.state.engine.waiting_words == 0)
        with ThreadPoolExecutor(4) as pool:
            slow = pool.submit(server.post, "/api/embed", texts=["one two three four five"] * 3)
            wait_until(lambda: server.state.engine.waiting_words > 0)
            busy = server.post("/api/embed", texts=["one two three"])
            assert busy.status_code == 429
            assert int(busy.headers["retry-after"]) >= 1
            assert slow.result().status_code == 504
        release.set()
        assert server.post("/api/embed", texts=["works again"]).status_code == 200

        release.clear()
        wait_until(lambda: words_computed(server) >= 3)  # counted just after the answer
        before = words_computed(server)
        server.state.engine.submit(lambda: release.wait(20), [], seconds=20, cost=0)
        with pytest.raises(httpx2.TimeoutException):
            server.client.post("/api/embed", json={"texts": ["nobody waits"]}, timeout=0.2)
        wait_until(lambda: server.state.engine.waiting_words > 0)
        wait_until(lambda: all(job.future.cancelled() for job in server.state.engine._waiting))
        release.set()
        wait_until(lambda: server.state.engine.waiting_words == 0)
        assert server.post("/api/embed", texts=["x"]).status_code == 200
        wait_until(lambda: words_computed(server) > before)
        assert words_computed(server) - before <= 2  # that of "x" alone


def words_computed(server: Running) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith("elmo_words_total ")]
    return float(line.split()[1])


def test_several_models_and_none_to_predict(
    cache: object, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from elmo.config import BILM

    official = tmp_path_factory.mktemp("official") / "small"
    tiny = tmp_path_factory.mktemp("tiny") / "tiny"
    from tests.tiny_models import make_model

    pytest.importorskip("h5py")
    make_model("characters").save_official(official)
    make_model("words").save_pretrained(tiny)
    models = (f"news={BILM}", f"small={official}", str(tiny))
    with running(ServeConfig(port=0, explorer=False, models=models)) as server:
        names = [one["id"] for one in server.client.get("/v1/models").json()["data"]]
        assert names == ["news", "small", "tiny"]
        text = "the cat sat on a mat"
        for name in names:
            expected = server.state.embedders[name].encode(text)
            answer = server.post("/v1/embeddings", input=text, model=name).json()
            found = np.array(answer["data"][0]["embedding"])
            assert np.abs(found - expected).max() < TOLERANCE
        answer = server.post("/api/score", texts=[text], model="small")
        assert answer.status_code == 422
        assert "softmax" in answer.text
        answer = server.post("/api/classify", texts=[text])
        assert (answer.status_code, "no classifier" in answer.text) == (422, True)

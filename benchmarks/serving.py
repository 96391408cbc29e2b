"""How fast and how steady `elmo serve` is, as ratios within one run.

    python benchmarks/serving.py [--seconds 10] [--soak-seconds 60] [--occurrences 1000000]

The shipped model, one torch thread, base64, one sentence per request. Clients are coroutines of
this process, the server is a process of its own. Measured: the library call; requests at 1, 8 and
32 clients; 200 clients at once, each of which checks every vector against the library's; the time
to be ready, beyond that of importing torch; a query of an index of random vectors. On a machine
that others use, wall-clock time measures the others, so processor time is told beside it. Writes
docs/performance/serving.json.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.embed.embedder import Embedder, Vectors
from elmo.explore.config import IndexConfig
from elmo.explore.index import CorpusIndex, build_index
from elmo.files import write_json
from elmo.runtime import processor_name
from elmo.study.news import read_news

OUT = Path(__file__).parent.parent / "docs" / "performance" / "serving.json"
CLIENTS = (1, 8, 32)
TOLERANCE = 2e-6
ALLOWED = {200, 429, 503, 504}
QUERIES = 20


class Client:
    """One connection that is kept open; as little work as possible, since it shares the cores."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def embed(self, text: str) -> tuple[int, bytes]:
        """Status and body."""
        body = json.dumps({"input": text, "encoding_format": "base64"}).encode()
        head = (
            "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        for attempt in range(2):
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_connection(*self._address)
                reader, writer = self._streams
                writer.write(head.encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                lines = answer.decode("latin-1").lower().split("\r\n")
                (length,) = [one[15:] for one in lines if one.startswith("content-length:")]
                content = await reader.readexactly(int(length))
                if "connection: close" in lines:
                    self.close()
                return int(lines[0].split()[1]), content
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()  # an idle connection was closed meanwhile: once more
                if attempt:
                    raise
        raise AssertionError

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def vector_of(content: bytes) -> Vectors:
    """The vector in an answer."""
    encoded = json.loads(content)["data"][0]["embedding"]
    return np.frombuffer(base64.b64decode(encoded), "<f4")


async def load(
    process: subprocess.Popen[str],
    port: int,
    clients: int,
    seconds: float,
    texts: Sequence[str],
    expected: dict[str, Vectors],
) -> dict[str, Any]:
    """Let clients ask for some time; every vector is compared if `expected` has it."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    wrong = 0
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal wrong
        client = Client("127.0.0.1", port)
        own = cycle(texts[number:] + texts[:number])
        while time.perf_counter() < end:
            text = next(own)
            started = time.perf_counter()
            status, content = await client.embed(text)
            times.append(time.perf_counter() - started)
            statuses[status] += 1
            if status == 200 and text in expected:
                wrong += bool(np.abs(vector_of(content) - expected[text]).max() > TOLERANCE)
            elif status != 200:
                await asyncio.sleep(0.05)
        client.close()

    started, busy = time.perf_counter(), cpu_seconds(process)
    await asyncio.gather(*(work(number) for number in range(clients)))
    spent = time.perf_counter() - started
    ordered = sorted(times)
    return {
        "clients": clients,
        "requests_per_second": statuses[200] / spent,
        "p50_ms": 1000 * ordered[len(ordered) // 2],
        "server_cpu_ms": 1000 * (cpu_seconds(process) - busy) / max(1, statuses[200]),
        "p99_ms": 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "statuses": {str(status): count for status, count in statuses.items()},
        "wrong_vectors": wrong,
    }


def library_ms(embedder: Embedder, texts: Sequence[str], seconds: float) -> dict[str, float]:
    """The median of one call after the other, and the mean of its processor time."""
    times: list[float] = []
    busy = time.process_time()
    end = time.perf_counter() + seconds
    for text in cycle(texts):
        started = time.perf_counter()
        embedder.encode(text)
        times.append(time.perf_counter() - started)
        if time.perf_counter() > end:
            spent = 1000 * (time.process_time() - busy) / len(times)
            return {"p50_ms": 1000 * statistics.median(times), "cpu_ms": spent}
    raise AssertionError


def start_server() -> tuple[subprocess.Popen[str], int, float]:
    """The process, its port, and the seconds from the start until it was ready."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", "--no-explorer", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(json.loads(process.stdout.readline())["url"].split(":")[2].strip("/"))
    while asyncio.run(status_of(port, "/ready")) != 200:
        time.sleep(0.02)
    return process, port, time.perf_counter() - started


async def status_of(port: int, path: str) -> int:
    """The status that a path answers; 0 if nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        )
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])
    except (OSError, IndexError):
        return 0


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Processor time that a process has used so far (Linux)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(process: subprocess.Popen[str]) -> float:
    """Memory of a process now (Linux)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (line,) = [one for one in status.splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def importing_torch() -> tuple[float, float]:
    """Seconds, and processor seconds, of an empty process that imports torch and ends."""
    started, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = os.times()
    busy = after.children_user + after.children_system
    return time.perf_counter() - started, busy - before.children_user - before.children_system


def query_ms(embedder: Embedder, occurrences: int, folder: Path) -> dict[str, float]:
    """A search among random vectors, and the occurrences of a word; medians."""
    chance = np.random.default_rng(0)
    words = [f"word{n}" for n in range(20_000)]
    texts = (
        [words[one] for one in chance.integers(0, len(words), 50)]
        for _ in range(-(-occurrences // 50))
    )

    def encode(chunk: list[list[str]]) -> list[Vectors]:
        shapes = [(1, len(text), embedder.width) for text in chunk]
        made = (chance.standard_normal(shape, np.float32) for shape in shapes)
        return [np.broadcast_to(one, (3, *one.shape[1:])) for one in made]

    config = IndexConfig(layers=(2,), max_words=occurrences)
    index = build_index(embedder, texts, folder / "random.index", config, encode=encode)
    index = CorpusIndex.open(index.path)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(QUERIES + 1):
        query = chance.standard_normal(embedder.width, np.float32)
        calls = {
            "nearest": lambda query=query: index.nearest(query, layer=2, k=10),
            "nearest_by_word": lambda query=query: index.nearest(
                query, layer=2, k=10, distinct="word"
            ),
            "occurrences": lambda number=number: index.occurrences(index.words[number]),
        }
        for name, call in calls.items():
            started, busy = time.perf_counter(), time.process_time()
            call()
            if number:  # the first reads the file
                found[name].append(1000 * (time.perf_counter() - started))
                found[f"{name}_cpu"].append(1000 * (time.process_time() - busy))
    return {name: statistics.median(values) for name, values in found.items()}


def main(command: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="per number of clients")
    parser.add_argument("--soak-seconds", type=float, default=60.0, help="of 200 clients")
    parser.add_argument("--soak-clients", type=int, default=200)
    parser.add_argument("--occurrences", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(command)
    torch.set_num_threads(1)
    embedder = Embedder.from_pretrained()
    texts = [item.text for item in read_news("train")[:200]]
    expected = {text: embedder.encode(text) for text in texts}
    result: dict[str, Any] = {
        "machine": processor_name(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "command": " ".join(["python", "benchmarks/serving.py", *(command or sys.argv[1:])]),
    }
    torch_seconds, torch_cpu = importing_torch()
    process, port, ready = start_server()
    try:
        result["ready_seconds"] = ready
        result["ready_beyond_torch_seconds"] = ready - torch_seconds
        result["ready_beyond_torch_cpu_seconds"] = cpu_seconds(process) - torch_cpu
        asyncio.run(load(process, port, 4, 1.0, texts, {}))  # warm up
        result["library"] = library_ms(embedder, texts, given.seconds / 2)
        result["load"] = [
            asyncio.run(load(process, port, clients, given.seconds, texts, {}))
            for clients in CLIENTS
        ]
        result["library_after"] = library_ms(embedder, texts, given.seconds / 2)
        one, *_, many = result["load"]
        result["throughput_ratio"] = many["requests_per_second"] / one["requests_per_second"]
        result["throughput_ratio_cpu"] = one["server_cpu_ms"] / many["server_cpu_ms"]
        library = [result["library"], result["library_after"]]
        for clock, name in (("p50_ms", "p50_ms"), ("server_cpu_ms", "cpu_ms")):
            mean = statistics.mean(run[name] for run in library)
            result[f"http_beyond_library_{name}"] = one[clock] - mean
        before = megabytes(process)
        result["soak"] = asyncio.run(
            load(process, port, given.soak_clients, given.soak_seconds, texts, expected)
        )
        result["soak"]["memory_growth_megabytes"] = megabytes(process) - before
        unexpected = {int(status) for status in result["soak"]["statuses"]} - ALLOWED
        result["soak"]["unexpected_statuses"] = sorted(unexpected)
    finally:
        process.terminate()
        process.communicate(timeout=120)
    if given.occurrences:
        with tempfile.TemporaryDirectory() as folder:
            result["index_occurrences"] = given.occurrences
            result["query_ms"] = query_ms(embedder, given.occurrences, Path(folder))
    result["load_after"] = os.getloadavg()[0]
    write_json(given.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

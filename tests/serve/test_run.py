"""Starting and stopping: exposure, tokens, ports, signals, worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from tests.serve.conftest import SOAK, TOKEN, wait_until

from elmo.cli.main import main
from elmo.config import check
from elmo.errors import ConfigError, UserError
from elmo.serve.config import ServeConfig
from elmo.serve.run import address, bind, check_exposure, read_token


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("example.org", False),
    ],
)
def test_exposure_needs_a_token(host: str, loopback: bool) -> None:
    config = ServeConfig(host=host)
    assert config.is_loopback == loopback
    check_exposure(config, TOKEN)
    if loopback:
        check_exposure(config, None)
        assert "*" not in config.allowed_hosts
    else:
        with pytest.raises(UserError, match="no token protects it"):
            check_exposure(config, None)


def test_the_command_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "--token-file" in capsys.readouterr().err
    short = tmp_path / "token"
    short.write_text("short\n", encoding="utf-8")
    assert main(["serve", "--token-file", str(short)]) == 2
    assert "at least 16" in capsys.readouterr().err
    assert main(["serve", "--port", "70000"]) == 2
    assert "expected 0 to 65,535" in capsys.readouterr().err
    with bind(ServeConfig(port=0)) as taken:
        taken.listen()
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another --port" in capsys.readouterr().err


def test_settings() -> None:
    named = ServeConfig(models=("runs/mine/", "other=runs/x")).named_models()
    assert named == {"mine": "runs/mine/", "other": "runs/x"}
    for config, message in (
        (ServeConfig(models=("a/x", "b/x")), "same name"),
        (ServeConfig(models=("=x",)), "NAME=FOLDER"),
        (ServeConfig(allow_origin=("example.org",)), r"https://example\.org"),
    ):
        with pytest.raises(ConfigError, match=message):
            check(config)


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMO_SERVE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ELMO_SERVE_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}-two\n", encoding="utf-8")
    assert read_token(path) == f"{TOKEN}-two"
    with bind(ServeConfig(port=0)) as listener:
        link = address(ServeConfig(), listener, TOKEN)
        assert link.endswith(f"/#token={TOKEN}")


def started(*arguments: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    environment = {**os.environ, "ELMO_CACHE": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", "--json", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


def is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}ready", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def test_sigterm_finishes_what_runs(tmp_path: Path) -> None:
    process, url = started("--no-explorer", folder=tmp_path)
    try:
        wait_until(lambda: is_ready(url), 90)
        assert httpx2.get(url).status_code == 404  # no page
        with httpx2.Client(base_url=url, timeout=30) as client:
            client.get("/ready")
            process.send_signal(signal.SIGTERM)
            end = time.monotonic() + 20
            while client.get("/ready").status_code != 503:
                assert time.monotonic() < end
            answer = client.post("/v1/embeddings", json={"input": "still here"})
            assert answer.status_code == 200
        assert process.wait(30) in (0, 128 + signal.SIGTERM, -signal.SIGTERM)
        assert "Traceback" not in (process.stderr.read() if process.stderr else "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(not SOAK, reason="two processes load the models: make soak")
def test_workers(tmp_path: Path) -> None:
    process, url = started("--no-explorer", "--workers", "2", folder=tmp_path)
    try:
        wait_until(lambda: is_ready(url), 120)
        for _ in range(20):  # a connection each: no worker that is still loading takes one
            answer = httpx2.post(f"{url}v1/embeddings", json={"input": "hello"}, timeout=30)
            assert answer.status_code == 200
        metrics = httpx2.get(f"{url}metrics").text
        assert 'elmo_requests_total{route="/v1/embeddings",status="200"} 20.0' in metrics
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

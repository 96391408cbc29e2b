"""From a name to vectors: downloaded once, checked ever after, safe with others at work."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.registry.conftest import Register, Server, tiny_model, zipped

import elmo
from elmo.config import CLASSIFIER
from elmo.errors import UserError
from elmo.language_model import LanguageModel, describe, download_model, model_path

TEXT = ["It", "rained", "."]


def vectors(model: Any) -> np.ndarray[Any, Any]:
    return elmo.Embedder.from_pretrained(model).encode([TEXT], layer="all", output="tokens")[0]


def served(server: Server, folder: Path, prefix: str = "/m/") -> dict[str, list[str]]:
    return {
        name: [server.serve(prefix + name, (folder / name).read_bytes())]
        for name in ("options.json", "weights.hdf5")
    }


def test_two_files_by_name(
    server: Server, register: Register, official: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("tiny/en", served(server, official), licence="MIT")
    np.testing.assert_array_equal(vectors("tiny/en"), vectors(official))
    assert len(server.requests) == 2
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    vectors("Tiny/EN")
    assert len(server.requests) == 2
    source = json.loads((cache / "tiny--en" / "source.json").read_text())
    assert (source["name"], source["licence"]) == ("tiny/en", "MIT")
    assert {path.name for path in (cache / "tiny--en" / "model").iterdir()} == {
        "options.json", "weights.hdf5"
    }  # fmt: skip
    assert not list((cache / "downloads").iterdir())


def test_everything_accepts_a_name(server: Server, register: Register, official: Path) -> None:
    register("tiny/en", served(server, official))
    expected = elmo.Embedder.from_pretrained(official).encode([TEXT])
    vectorizer = elmo.ElmoVectorizer("tiny/en", layer="mix", pooling="mean")
    np.testing.assert_array_equal(vectorizer.fit([]).transform(["It rained ."]), expected)
    assert elmo.ElmoLayer.from_pretrained("tiny/en")([TEXT]).vectors.shape == (1, 3, 8)
    assert describe("tiny/en").parameters == describe(official).parameters
    embedder = elmo.Embedder.from_pretrained("tiny/en")
    import pickle

    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.encode([TEXT]), expected)
    assert len(server.requests) == 2


def test_offline(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register("tiny/en", {"archive": ["http://127.0.0.1:9/x.zip"]})
    for variable in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "true")
            for name in ("tiny/en", "hf:user/repo", "https://example.org/x.zip"):
                with pytest.raises(UserError, match=f"not in the cache .* and {variable} forbids"):
                    model_path(name)


def test_dead_addresses_name_the_alternatives(server: Server, register: Register) -> None:
    register(
        "tiny/en",
        {"archive": [server.address + "/gone.zip", server.address + "/gone2.zip"]},
        pages=["https://example.org/page"],
        dead=["http://example.org/old"],
        status="gone since 2020",
    )
    with pytest.raises(UserError) as told:
        model_path("tiny/en")
    for part in ("/gone.zip: HTTP 404", "/gone2.zip: HTTP 404", "https://example.org/page",
                 "reported dead: http://example.org/old", "gone since 2020"):  # fmt: skip
        assert part in str(told.value)
    register("by/hand", {"archive": []}, pages=["https://example.org/page"])
    with pytest.raises(UserError, match=r"Download it by hand.*https://example.org/page"):
        model_path("by/hand")


def test_mirrors(server: Server, register: Register, official: Path) -> None:
    right = server.serve("/x.zip", zipped(official))
    broken = server.serve("/broken.zip", b"<html>sorry")
    register("tiny/en", {"archive": [server.address + "/gone.zip", broken, right]})
    np.testing.assert_array_equal(vectors("tiny/en"), vectors(official))


def test_trust_on_first_use(
    server: Server, register: Register, official: Path, tmp_path: Path, cache: Path
) -> None:
    address = server.serve("/x.zip", zipped(official))
    register("tiny/en", {"archive": [address]})
    first = vectors("tiny/en")
    record = json.loads((cache / "checksums.json").read_text())
    digest = hashlib.sha256(server.files["/x.zip"]).hexdigest()
    assert record["tiny/en archive"]["sha256"] == digest
    # Another model under the same address, after the cache was cleared of this one.
    tiny_model(seed=1).save_official(tmp_path / "other")
    server.serve("/x.zip", zipped(tmp_path / "other"))
    np.testing.assert_array_equal(vectors("tiny/en"), first)
    shutil.rmtree(cache / "tiny--en")
    with pytest.raises(UserError, match=f"expected {digest}") as told:
        vectors("tiny/en")
    assert "recorded at first use" in str(told.value)
    download_model("tiny/en", forget=True)
    np.testing.assert_array_equal(vectors("tiny/en"), vectors(tmp_path / "other"))
    assert json.loads((cache / "checksums.json").read_text())["tiny/en archive"]["sha256"] != digest


def test_an_error_that_comes_as_a_file_is_not_trusted(
    server: Server, register: Register, official: Path, cache: Path
) -> None:
    """Nothing is recorded before the model is whole: the right files may come later."""
    right = zipped(official)
    register("zip/en", {"archive": [server.serve("/x.zip", b"please try again later")]})
    with pytest.raises(UserError, match=r"zip/en, from .*damaged, or not an archive"):
        model_path("zip/en")
    server.serve("/x.zip", right)
    assert model_path("zip/en").is_dir()
    files = served(server, official)
    register("two/en", files)
    for name in files:
        content = server.files["/m/" + name]
        server.serve("/m/" + name, b"please try again later")
        with pytest.raises(UserError, match="gives another file than expected"):
            model_path("two/en")
        server.serve("/m/" + name, content)
    assert model_path("two/en").is_dir()
    assert set(json.loads((cache / "checksums.json").read_text())) == {
        "zip/en archive", "two/en options.json", "two/en weights.hdf5"
    }  # fmt: skip


def test_published_checksums(server: Server, register: Register, official: Path) -> None:
    files = served(server, official)
    register("bad/en", files, checksums={"weights.hdf5": {"md5": "0" * 32}})
    with pytest.raises(UserError, match="gives another file: its md5 is"):
        model_path("bad/en")
    digest = hashlib.sha1((official / "weights.hdf5").read_bytes()).hexdigest()
    register("good/en", files, checksums={"weights.hdf5": {"sha1": digest}})
    assert model_path("good/en").is_dir()


def test_files_in_the_cache_are_checked(
    server: Server, register: Register, official: Path, cache: Path
) -> None:
    register("tiny/en", served(server, official))
    weights = model_path("tiny/en") / "weights.hdf5"
    content = weights.read_bytes()
    os.utime(weights)  # another date, the same file
    assert model_path("tiny/en")
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match="not the file that was downloaded"):
        model_path("tiny/en")
    assert download_model("tiny/en", fresh=True)
    assert weights.read_bytes() == content


def test_a_local_archive(official: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.zip"
    path.write_bytes(zipped(official, "nested/folder/"))
    np.testing.assert_array_equal(vectors(path), vectors(official))
    np.testing.assert_array_equal(vectors(str(path)), vectors(official))
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match="damaged, or not an archive"):
        vectors(path)


def test_an_archive_of_a_classifier(tmp_path: Path) -> None:
    shutil.copytree(CLASSIFIER, tmp_path / "topics")
    (tmp_path / "topics.zip").write_bytes(zipped(tmp_path / "topics", "topics/"))
    loaded = elmo.TextClassifier.from_pretrained(tmp_path / "topics.zip")
    shipped = elmo.TextClassifier.from_pretrained()
    texts = ["Oil prices fell .", "The team won ."]
    np.testing.assert_array_equal(loaded.predict_proba(texts), shipped.predict_proba(texts))


def test_an_address(server: Server, official: Path) -> None:
    address = server.serve("/some/model.zip", zipped(official))
    np.testing.assert_array_equal(vectors(address + "?download=1"), vectors(official))
    vectors(address + "?download=1")
    assert len(server.requests) == 1
    with pytest.raises(UserError, match="expected the address of an archive"):
        vectors(server.address + "/weights.hdf5")


def test_two_files_by_address(server: Server, official: Path) -> None:
    """What AllenNLP's users have: options_file and weight_file."""
    files = served(server, official)
    for _ in range(2):
        model = LanguageModel.from_official(files["options.json"][0], files["weights.hdf5"][0])
        found = elmo.Embedder(model).encode([TEXT], layer="all", output="tokens")[0]
        np.testing.assert_array_equal(found, vectors(official))
    assert len(server.requests) == 2


def test_a_hub(server: Server, official: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    siblings: list[dict[str, Any]] = [{"rfilename": "run.py"}, {"rfilename": "../evil.json"}]
    for name in ("options.json", "weights.hdf5"):
        content = (official / name).read_bytes()
        server.serve(f"/user/repo/resolve/{commit}/{name}", content)
        lfs = {"sha256": hashlib.sha256(content).hexdigest()} if name.endswith("5") else None
        siblings.append({"rfilename": name, "lfs": lfs})
    listing = json.dumps({"sha": commit, "siblings": siblings}).encode()
    for revision in ("main", "v1"):
        server.serve(f"/api/models/user/repo/revision/{revision}", listing)
    for name in ("hf:user/repo", "hf:user/repo@v1", "hf:user/repo"):
        np.testing.assert_array_equal(vectors(name), vectors(official))
    assert len(server.requests) == 6
    siblings[-1]["lfs"] = {"sha256": "0" * 64}
    listing = json.dumps({"sha": commit, "siblings": siblings}).encode()
    server.serve("/api/models/user/repo/revision/v2", listing)
    with pytest.raises(UserError, match="gives another file: its sha256"):
        vectors("hf:user/repo@v2")
    with pytest.raises(UserError, match=r"HTTP 404.*check the name of the repository"):
        vectors("hf:user/gone")
    server.serve("/api/models/user/odd/revision/main", b"{}")
    with pytest.raises(UserError, match="does not answer as a hub does"):
        vectors("hf:user/odd")
    for wrong in ("hf:user", "hf:user/repo@", "hf:user/re po", "hf:../x"):
        with pytest.raises(UserError, match=r"expected hf:USER/REPO|HTTP 404"):
            vectors(wrong)


# Two processes at once, one that is killed, and no network where none was asked for.

SCRIPT = """
import sys
from pathlib import Path
from elmo.registry import cache, catalogue
catalogue.MODELS = Path(sys.argv[1])
print(cache.fetch("tiny/en", lambda folder: folder))
"""


def process(registry: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(registry)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_processes_at_once(
    server: Server, register: Register, official: Path, tmp_path: Path, cache: Path
) -> None:
    address = server.serve("/x.zip", zipped(official), "slow:0.1")
    register("tiny/en", {"archive": [address]})
    both = [process(tmp_path / "models.json") for _ in range(2)]
    for one in both:
        out, error = one.communicate(timeout=60)
        assert one.returncode == 0, error
        assert out.strip() == str(cache / "tiny--en" / "model")
    assert len(server.requests) == 1
    assert model_path("tiny/en").is_dir()


def test_a_killed_download_resumes(
    server: Server, register: Register, official: Path, tmp_path: Path, cache: Path
) -> None:
    (official / "vocab.txt").write_text("".join(f"{os.urandom(6).hex()}\n" for _ in range(50_000)))
    content = zipped(official)
    assert len(content) > 300_000
    register("tiny/en", {"archive": [server.serve("/x.zip", content, "slow:0.2")]})
    running = process(tmp_path / "models.json")
    partial = cache / "downloads" / "tiny--en--archive.part"
    for _ in range(600):
        if partial.exists() and partial.stat().st_size:
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    received = partial.stat().st_size
    assert 0 < received < len(content)
    assert not (cache / "tiny--en").exists()
    assert model_path("tiny/en").is_dir()
    assert server.requests[-1] == ("/x.zip", f"bytes={received}-")
    assert not [path for path in cache.iterdir() if path.name.endswith(".partial")]


def test_no_network_unless_a_name_asks_for_it(
    official: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    vectors(official)
    elmo.Embedder.from_pretrained().encode("It rained .")
    for path in ("runs/none", "tiny", str(tmp_path / "none"), "model.zip"):
        with pytest.raises(UserError, match="expected a model folder, but there is none"):
            LanguageModel.from_pretrained(path)
    with pytest.raises(UserError, match="neither a folder nor a public model"):
        LanguageModel.from_pretrained("manylangs/xx")


# An ELMoForManyLangs archive becomes one of our folders.


def test_many_langs_by_name(
    server: Server, register: Register, tmp_path: Path, cache: Path
) -> None:
    data = os.environ.get("ELMO_DATA")
    if data is None:
        pytest.skip("set ELMO_DATA to a folder with many_langs")
    fixture = Path(data) / "many_langs" / "cnn_word_elmo"
    shutil.copytree(fixture, tmp_path / "142", copy_function=shutil.copyfile)
    (tmp_path / "142").chmod(0o755)
    (tmp_path / "142" / "expected.npz").unlink()
    address = server.serve("/142.zip", zipped(tmp_path / "142"))
    register("manylangs/tlh", {"archive": [address]}, format="many-langs", aliases=["nlpl/142"])
    np.testing.assert_array_equal(vectors("nlpl/142"), vectors(fixture))
    files = {path.name for path in (cache / "manylangs--tlh" / "model").rglob("*")}
    assert files == {
        "config.json", "model.safetensors", "vocabulary.txt", "spelling.json", "README.md"
    }  # fmt: skip


@pytest.mark.parametrize("address", ["http://[", "https://\x1b[31m/x.zip"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UserError, match="expected an address"):
        download_model(address)

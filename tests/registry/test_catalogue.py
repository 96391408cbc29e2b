"""The list of public models: complete, consistent, and found by name and language."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from elmo.cli.main import main
from elmo.errors import UserError
from elmo.registry.catalogue import ARCHIVE, choose_models, find_model, public_models


def test_counts() -> None:
    """As docs/public-models.md and the list it was made from count them."""
    models = public_models().values()
    assert Counter(model.format for model in models) == {"bilm-tf": 42, "many-langs": 45}
    families = Counter(model.name.partition("/")[0] for model in models)
    assert families["manylangs"] == 45
    assert families["nlpl"] == 12
    assert (families["crosslingual"], families["embeddia"], families["allenai"]) == (7, 7, 8)
    assert len({model.language for model in models}) >= 40


def test_every_entry() -> None:
    names: list[str] = []
    for model in public_models().values():
        names += [model.name, *model.aliases]
        assert set(model.files) in ({ARCHIVE}, {"options.json", "weights.hdf5"})
        addresses = [address for file in model.files.values() for address in file]
        assert addresses or model.pages, f"{model.name}: nowhere to get it"
        for address in (*addresses, *model.dead, *model.pages):
            parts = urlsplit(address)
            assert parts.scheme in ("http", "https")
            assert parts.netloc
        assert set(model.checksums) <= set(model.files)
        for checksums in model.checksums.values():
            lengths = {name: len(digest) for name, digest in checksums.items()}
            assert lengths == {"md5": 32, "sha1": 40}
    assert len(set(names)) == len(names)
    assert all(name.islower() or name == "allenai/5.5B" for name in names)


def test_names() -> None:
    for name in ("allenai/small", "nlpl/195", "manylangs/de", "embeddia/sl", "allenai/5.5b"):
        model = find_model(name)
        assert model is not None
        assert model.name.lower() == name
    assert find_model("nlpl/142") == find_model("manylangs/de") == find_model("ManyLangs/DE")
    assert find_model("manylangs/no_bokmaal") == find_model("manylangs/nb")


def test_what_is_no_name() -> None:
    for path in ("runs/news", "manylangs", "/tmp/x", "manylangs/de/model", "", "news"):
        assert find_model(path) is None
    with pytest.raises(UserError, match="did you mean 'allenai/small'"):
        find_model("allenai/smal")


def test_languages() -> None:
    assert [model.name for model in choose_models("de")] == [
        "t-systems/de", "crosslingual/de", "nlpl/201", "manylangs/de"
    ]  # fmt: skip
    assert choose_models("german") == choose_models("de")
    assert {model.name for model in choose_models("zh")} == {
        "manylangs/zh-hant",
        "manylangs/zh-hans",
    }
    assert {model.language for model in choose_models("no")} == {"no", "nb", "nn"}
    assert all("wikipedia" in str(model).lower() for model in choose_models(text="Wikipedia"))
    assert len(choose_models(family="manylangs")) == 45
    assert choose_models("tlh") == []


def test_the_documentation_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "public-models.md"
    assert main(["models", "--markdown"]) == 0
    table = capsys.readouterr().out
    assert page.read_text(encoding="utf-8").endswith(table), "run elmo models --markdown"
    models = public_models().values()
    languages = len({model.language for model in models})
    assert f"{len(models)} ELMo models" in page.read_text(encoding="utf-8")
    assert f"in {languages} languages" in page.read_text(encoding="utf-8")

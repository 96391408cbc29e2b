"""Settings come back from JSON as they were, and every mistake is told at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.classify.classifier import TextClassifier
from elmo.classify.data import read_labelled
from elmo.cli.main import main
from elmo.config import BILM, CLASSIFIER, Count, Range, check, from_json, nearest, to_json
from elmo.embed.embedder import Embedder
from elmo.errors import ConfigError
from elmo.model_folder import COMPANIONS


@dataclass(frozen=True, kw_only=True)
class Inner:
    pairs: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    kind: Literal["round", "square"] = "round"
    count: Count | None = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    size: int
    share: float = 0.5
    bound: float | None = None
    open: bool = True
    name: str = ""
    fact: str | int | float | bool | None = None
    rate: Annotated[float, Range(0, 1, "[)")] = 0.1
    inner: Inner = field(default_factory=Inner)

    def problems(self) -> Iterable[str]:
        if self.size < 1:
            yield f"size: must be positive, got {self.size}"
        if self.share > 1:
            yield f"share: too large, got {self.share}"


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
INNERS = st.builds(
    Inner,
    pairs=st.lists(st.tuples(INTEGERS, INTEGERS), max_size=3).map(tuple),
    names=st.lists(st.text(), max_size=3).map(tuple),
    kind=st.sampled_from(["round", "square"]),
)
OUTERS = st.builds(
    Outer,
    size=st.integers(1, 2**63 - 1),
    share=st.floats(max_value=1, allow_infinity=False),
    bound=st.none() | FLOATS,
    open=st.booleans(),
    name=st.text(),
    fact=st.none() | st.text() | INTEGERS | FLOATS | st.booleans(),
    inner=INNERS,
)


@given(OUTERS)
def test_settings_survive_json(settings: Outer) -> None:
    assert from_json(Outer, json.loads(json.dumps(to_json(settings))), "it") == settings


@pytest.mark.parametrize("fact", [True, 1, 1.0, "1", None])
def test_a_value_of_several_types_keeps_its_own(fact: object) -> None:
    found = from_json(Outer, {"size": 3, "fact": fact}, "it").fact
    assert (found, type(found)) == (fact, type(fact))


def test_a_model_config_survives_json() -> None:
    config = BiLMConfig(
        input="both",
        characters=CharacterConfig(filters=((1, 4), (3, 8)), activation="tanh"),
        projection=7,
        cell_clip=3.0,
        softmax=SoftmaxConfig(loss="adaptive", cutoffs=(5, 9), tied=False),
    )
    assert from_json(BiLMConfig, json.loads(json.dumps(to_json(config))), "model") == config


def test_what_is_left_out_takes_its_default() -> None:
    assert from_json(Outer, {"size": 3}, "it") == Outer(size=3)


def test_a_whole_number_is_a_float_where_one_is_expected() -> None:
    share = from_json(Outer, {"size": 3, "share": 1}, "it").share
    assert isinstance(share, float)
    assert share == 1.0


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"size": 1, "shaer": 0.1}, "it: unknown key 'shaer' (did you mean 'share'?)"),
        ({}, "it: key 'size' is missing"),
        ({"size": True}, "it.size: expected int, got True"),
        ({"size": 1.5}, "it.size: expected int, got 1.5"),
        ({"size": None}, "it.size: expected int, got None"),
        ({"size": 2**63}, "it.size: expected at most 9,223,372,036,854,775,807, got more"),
        ({"size": 1, "name": ["x" * 99]}, f"it.name: expected str, got ['{'x' * 58}"),
        ({"size": 0}, "it.size: must be positive, got 0"),
        ({"size": 1, "rate": 1}, "it.rate: expected 0 to below 1, got 1"),
        ({"size": 1, "inner": {"count": 0}}, "it.inner.count: expected at least 1, got 0"),
        ({"size": 1, "share": float("nan")}, "it.share: expected float, got nan"),
        ({"size": 1, "bound": float("inf")}, "it.bound: expected float, got inf"),
        ({"size": 1, "open": 1}, "it.open: expected bool, got 1"),
        ({"size": 1, "name": 3}, "it.name: expected str, got 3"),
        ({"size": 1, "fact": [1]}, "it.fact: expected one of str, int, float, bool; got [1]"),
        ({"size": 1, "fact": float("nan")}, "it.fact: expected float, got nan"),
        ({"size": 1, "inner": []}, "it.inner: expected an object, got list"),
        ({"size": 1, "inner": {"pairs": "ab"}}, "it.inner.pairs: expected a list, got str"),
        ({"size": 1, "inner": {"pairs": [[1]]}}, "it.inner.pairs[0]: expected 2 values, got 1"),
        ({"size": 1, "inner": {"names": ["a", 3]}}, "it.inner.names[1]: expected str, got 3"),
        (
            {"size": 1, "inner": {"pairs": [[1, 2], [3, "4"]]}},
            "it.inner.pairs[1][1]: expected int, got '4'",
        ),
        (
            {"size": 1, "inner": {"kind": "rond"}},
            "it.inner.kind: expected one of round, square; got 'rond' (did you mean 'round'?)",
        ),
        ([], "it: expected an object, got list"),
        (None, "it: expected an object, got NoneType"),
    ],
)
def test_a_mistake_is_named_with_its_place(data: object, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        from_json(Outer, data, "it")
    assert raised.value.problems == (problem,)


def test_all_mistakes_are_told_together() -> None:
    data = {"shrae": 1, "open": "yes", "inner": {"kind": 3, "knid": 1}}
    with pytest.raises(ConfigError) as raised:
        from_json(Outer, data, "it")
    assert len(raised.value.problems) == 5


def test_check_collects_the_problems_of_all_settings() -> None:
    with pytest.raises(ConfigError) as raised:
        check(Outer(size=0, share=2.0), Outer(size=1), Outer(size=-1))
    assert raised.value.problems == (
        "size: must be positive, got 0",
        "share: too large, got 2.0",
        "size: must be positive, got -1",
    )
    check(Outer(size=1), Outer(size=2))


def test_check_finds_what_json_would_not_be_read_from() -> None:
    with pytest.raises(ConfigError) as raised:
        check(Outer(size="3", share=float("nan")))  # pyright: ignore[reportArgumentType]
    assert raised.value.problems == (
        "size: expected int, got '3'",
        "share: expected float, got nan",
    )
    with pytest.raises(ConfigError) as raised:
        check(Outer(size=0, rate=-1.0, inner=Inner(count=0)))
    assert raised.value.problems == (
        "rate: expected 0 to below 1, got -1.0",
        "inner.count: expected at least 1, got 0",
        "size: must be positive, got 0",
    )


def test_nearest_is_silent_about_strangers() -> None:
    assert nearest("dropuot", ["dropout", "hidden"]) == " (did you mean 'dropout'?)"
    assert nearest("zzz", ["dropout", "hidden"]) == ""


def test_defaults_contradict_nothing() -> None:
    check(BiLMConfig())


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (BiLMConfig(layers=0, hidden=0, word_dim=0), ["word_dim", "layers", "hidden"]),
        (BiLMConfig(dropout=1.0), ["dropout"]),
        (BiLMConfig(projection=0, word_dim=0), ["word_dim", "projection"]),
        (BiLMConfig(projection_clip=1.0), ["projection_clip"]),
        (BiLMConfig(cell_clip=-1.0), ["cell_clip"]),
        (BiLMConfig(input="characters"), ["tied"]),
        (BiLMConfig(word_dim=8), ["tied"]),
        (BiLMConfig(freeze_words=True), ["freeze_words"]),
        (BiLMConfig(softmax=SoftmaxConfig(loss="adaptive")), ["tied"]),
        (BiLMConfig(softmax=SoftmaxConfig(samples=0)), ["softmax.samples"]),
        (BiLMConfig(softmax=SoftmaxConfig(cutoffs=(9, 5))), ["cutoffs"]),
        (BiLMConfig(softmax=SoftmaxConfig(cutoffs=(2,))), ["cutoffs"]),
        (BiLMConfig(characters=CharacterConfig(filters=((51, 3),))), ["filters"]),
        (BiLMConfig(characters=CharacterConfig(filters=())), ["filters"]),
        (
            BiLMConfig(characters=CharacterConfig(char_dim=0, highways=-1)),
            ["characters.char_dim", "characters.highways"],
        ),
    ],
)
def test_contradictions_of_a_model_are_named(config: BiLMConfig, names: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        check(config)
    assert [problem.partition(":")[0] for problem in raised.value.problems] == names


# What comes with the package: small, sound, licensed, and as good as its card says.


NEWS = {
    "World": "The president met rebel leaders in the capital for peace talks on Sunday .",
    "Sports": "He scored twice in the second half as the champions won the final 3-1 .",
    "Business": "Oil prices fell on Monday as supply fears eased and shares rose .",
    "Sci/Tech": "The software maker released a security patch for its Web browser .",
}


def test_they_are_small_and_hold_no_text() -> None:
    for folder, megabytes in ((BILM, 40), (CLASSIFIER, 25)):
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= megabytes * 1e6
    assert {path.name for path in BILM.iterdir()} == {
        "LICENSE.md", "README.md", "config.json", "corpus.json", "model.safetensors",
        "vocabulary.txt", *COMPANIONS,
    }  # fmt: skip
    assert {path.name for path in CLASSIFIER.iterdir()} == {
        "LICENSE.md", "README.md", "bilm", "classifier.json", "classifier.safetensors",
        "metrics_test.json", "own_words.txt",
    }  # fmt: skip


def test_the_licences_of_the_weights_say_what_the_texts_allow() -> None:
    sources = json.loads((BILM / "corpus.json").read_text())["sources"]
    licence = (BILM / "LICENSE.md").read_text()
    assert all(source["licence"] in licence and source["origin"] in licence for source in sources)
    free = ("public domain", "CC0", "CC BY", "free for any use")
    assert all(source["licence"].startswith(free) for source in sources)
    assert "Public Domain Dedication and License" in licence  # GloVe's vectors
    assert "non-commercial" in (CLASSIFIER / "LICENSE.md").read_text()


def test_words_that_the_bilm_does_not_know_have_vectors_of_their_own() -> None:
    embedder = Embedder.from_pretrained()
    words = ["zyxwvut", "qwertzuiop"]
    assert not any(word in embedder.loaded.vocabulary.words for word in words)
    first, second = (embedder.encode([[word]], layer=0)[0] for word in words)
    assert np.abs(first - second).max() > 0.01


def test_news_of_today_are_told_apart() -> None:
    assert TextClassifier.from_pretrained().predict(list(NEWS.values())).tolist() == list(NEWS)


def test_the_commands_work_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", "predict", NEWS["Sports"], "--json", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "Sports"
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npz"
    texts.write_text("\n".join(NEWS.values()))
    assert main(["embed", str(texts), "--out", str(out), "--threads", "1"]) == 0
    capsys.readouterr()
    vectors = Embedder.from_pretrained(BILM).encode(list(NEWS.values()))
    with np.load(out) as stored:
        np.testing.assert_allclose(stored["vectors"], vectors, rtol=0, atol=1e-5)


def test_it_is_as_good_as_its_card_says() -> None:
    if "ELMO_DATA" not in os.environ:
        pytest.skip("ELMO_DATA does not name a folder with AG News")
    data = read_labelled("ag_news:test")
    texts, labels = data.texts[:1000], (data.labels or [])[:1000]
    accuracy = TextClassifier.from_pretrained().evaluate(texts, labels).metrics.accuracy
    claimed = json.loads((CLASSIFIER / "metrics_test.json").read_text())["accuracy"]["value"]
    assert accuracy.low <= claimed <= accuracy.high


def test_it_is_loaded_without_torchs_compiler() -> None:
    # Which takes seconds to load, and comes along with any sum of tensors that have no memory.
    load = "from elmo import TextClassifier; TextClassifier.from_pretrained()"
    code = f"import sys; {load}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "torch._dynamo" not in done.stdout.split()

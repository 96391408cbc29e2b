"""Probes on texts whose answers are known, and readers of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.classify.toy import toy_model
from tests.tasks.toy import toy_tags

from elmo.errors import UserError
from elmo.static.vectors import StaticVectors
from elmo.tasks.config import ProbeConfig
from elmo.tasks.probe import (
    Layers,
    Static,
    best_threshold,
    probe_pos,
    probe_scws,
    probe_senses,
    probe_similarity,
    probe_wic,
    random_bilm,
    read_scws,
    read_similarity,
    read_wic,
    representations,
)
from elmo.tasks.senses import (
    AnnotatedText,
    first_senses,
    lemma_of,
    most_frequent_senses,
    read_semcor,
    read_test_set,
)

SEMCOR = """# document\tsentence\ttoken\tlemma\tpos\tsense_key(s)
d\t1\tThe\tthe\tDT\t_
d\t1\tcat\tcat\tNN\tcat%1:05:00::
d\t1\ttook_place\ttake_place\tVB\ttake_place%2:30:00::
d\t1\t.\t\t\t_

d\t2\tcat\tcat\tNN\tcat%1:18:01::;cat%1:05:00::
"""
XML = """<corpus><text id="d"><sentence id="s">
<wf lemma="the" pos="DET">the</wf>
<instance id="t0" lemma="cat" pos="NOUN">cat</instance>
<instance id="t1" lemma="run" pos="VERB">ran</instance>
</sentence></text></corpus>"""


def test_layers_are_those_of_the_model() -> None:
    loaded = toy_model()
    sentences = [["the", "cat"], ["dog"], ["a", "cow", "was", "on"]]
    found = dict(Layers(loaded).read(sentences, [[(1, 2)], [], [(0, 2), (3, 4)]]))
    assert set(found) == {0, 2}
    from elmo.embed.embedder import Embedder

    layers = Embedder(loaded).encode(sentences, output="tokens", layer="all")  # (layers, words, d)
    np.testing.assert_allclose(found[0][0, :-1], layers[0][:, 1], atol=1e-5)
    np.testing.assert_allclose(found[2][0, :-1], layers[2][:, :2].mean(1), atol=1e-5)
    np.testing.assert_allclose(found[2][1, -1], layers[2][:, 3].mean(0), atol=1e-5)
    assert Layers(loaded).names == ["layer 0", "layer 1", "layer 2", "average"]


def test_controls() -> None:
    loaded = toy_model()
    vectors = StaticVectors(("cat", "dog"), np.eye(2, dtype=np.float32))
    found = representations(loaded, ProbeConfig(), vectors)
    assert [one.group for one in found] == ["elmo", "control", "static"]
    assert found[1].names[0] == "random biLM, layer 0"
    first, second = random_bilm(loaded, 0), random_bilm(loaded, 0)
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert (a == b).all()
    ((_, cat),) = Static(vectors).read([["CAT", "unknown"]], [[(0, 1), (1, 2)]])
    assert cat[:, 0].tolist() == [[1, 0], [0, 0]]


def test_parts_of_speech_by_layer() -> None:
    train, test = toy_tags(40), toy_tags(20, seed=1)
    found = representations(toy_model(), ProbeConfig())
    result = probe_pos(found, train, test, ProbeConfig(epochs=20, learning_rate=0.3))
    rows = {row["name"]: row for row in result["rows"]}
    assert rows["layer 0"]["value"] > 0.9  # the word alone tells its topic
    assert "p" not in rows["layer 0"]
    assert 0 <= rows["layer 2"]["p"] <= 1
    assert result["count"] == sum(map(len, test.words))


def annotated(*rows: tuple[str, str]) -> AnnotatedText:
    """One sentence per row: a context word and "bank", with the sense given."""
    text = AnnotatedText()
    for context, key in rows:
        text.add([(context, None, ()), ("cat", lemma_of(key), (key,))])
    return text


class ByContext:
    """Vectors that know the word before, and nothing else."""

    names, group = ["context"], "elmo"

    def read(self, sentences, spans):
        for row, some in enumerate(spans):
            before = sentences[row][0]
            vector = np.array([before == "on", before == "was", 0.1], np.float32)
            yield row, np.stack([vector[None] for _ in some])


def test_the_nearest_sense_and_the_first_for_unseen_lemmas() -> None:
    train = annotated(("on", "cat%1:05:00::"), ("on", "cat%1:05:00::"), ("was", "cat%1:18:01::"))
    test = annotated(("was", "cat%1:18:01::"), ("on", "cat%1:05:00::"), ("on", "dog%1:05:00::"))
    back_off = {("dog", "n"): "dog%1:05:00::", ("cat", "n"): "cat%1:05:00::"}
    result = probe_senses([ByContext()], train, {"toy": test}, back_off, "WordNet")
    values = {row["name"]: row["value"] for row in result["rows"]}
    assert values == {"first sense": pytest.approx(2 / 3), "context": 1}
    assert result["rows"][1]["by_set"] == {"toy": 1}
    # Without WordNet there is no answer for "dog": recall falls, precision does not.
    result = probe_senses([ByContext()], train, {"toy": test}, most_frequent_senses(train), "text")
    values = {row["name"]: row["value"] for row in result["rows"]}
    assert values["context"] == pytest.approx(2 * 2 / (2 + 3))


def test_files_of_senses(tmp_path: Path) -> None:
    (tmp_path / "semcor.tsv").write_text(SEMCOR)
    text = read_semcor(tmp_path / "semcor.tsv")
    assert text.words == [["The", "cat", "took", "place", "."], ["cat"]]
    assert text.spans == [[(1, 2), (2, 4)], [(0, 1)]]
    assert text.keys[1] == [("cat%1:18:01::", "cat%1:05:00::")]
    assert text.lemmas[0][1] == ("take_place", "v")
    (tmp_path / "a.xml").write_text(XML)
    (tmp_path / "a.txt").write_text("t0 cat%1:05:00::\nt1 run%2:38:00::\n")
    test = read_test_set(tmp_path / "a.xml", tmp_path / "a.txt")
    assert test.lemmas == [[("cat", "n"), ("run", "v")]]
    (tmp_path / "index.sense").write_text(
        "cat%1:05:00:: 02121620 1 18\ncat%1:18:01:: 09900153 2 0\n"
    )
    assert first_senses(tmp_path) == {("cat", "n"): "cat%1:05:00::"}
    (tmp_path / "semcor.tsv").write_text("a\tb\n")
    with pytest.raises(UserError, match="line 1: expected 6 columns"):
        read_semcor(tmp_path / "semcor.tsv")
    (tmp_path / "a.xml").write_text("<corpus>")
    with pytest.raises(UserError, match="expected XML"):
        read_test_set(tmp_path / "a.xml", tmp_path / "a.txt")
    with pytest.raises(UserError, match="--wordnet"):
        first_senses(tmp_path / "nowhere")


class Angles:
    """A vector whose angle is the first word, a number."""

    names, group = ["angle"], "elmo"

    def read(self, sentences, spans):
        for row, some in enumerate(spans):
            angle = float(sentences[row][0])
            yield row, np.stack([np.float32([[np.cos(angle), np.sin(angle)]]) for _ in some])


def test_no_pair_chooses_its_own_threshold() -> None:
    random = np.random.default_rng(0)

    def pairs(count: int, flip: bool = False) -> list[dict[str, Any]]:
        angles = random.random(count)
        labels = (angles + random.normal(scale=0.3, size=count) < 0.5) != flip
        return [
            {"sentences": [["0"], [str(angle)]], "spans": [(0, 1)] * 2, "label": bool(label)}
            for angle, label in zip(angles, labels, strict=True)
        ]

    train, test = pairs(50), pairs(40)
    row = probe_wic([Angles()], train, test)["rows"][1]
    flipped = [pair | {"label": not pair["label"]} for pair in test]
    other = probe_wic([Angles()], train, flipped)["rows"][1]
    assert row["value"] > 0.6
    assert other["value"] == pytest.approx(1 - row["value"])
    with pytest.raises(UserError, match="two training pairs"):
        probe_wic([Angles()], train[:1], test)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12))
def test_the_threshold_is_that_of_a_search(values: list[tuple[int, bool]]) -> None:
    cosines = np.array([value for value, _ in values], np.float32)
    labels = np.array([label for _, label in values])
    candidates = [*sorted(set(cosines.tolist())), 99.0]
    best = max(((cosines >= one) == labels).sum() for one in candidates)
    assert ((cosines >= best_threshold(cosines, labels)) == labels).sum() == best


def test_words_in_two_contexts(tmp_path: Path) -> None:
    header = "index\tword\tsentence1\tsentence2\tstart1\tstart2\tend1\tend2\tlabel\n"
    (tmp_path / "wic.tsv").write_text(header + "0\tcat\tthe cat was\tcat\t4\t0\t7\t3\t1\n" * 4)
    pairs = read_wic(tmp_path / "wic.tsv", toy_model())
    assert pairs[0]["sentences"] == [["the", "cat", "was"], ["cat"]]
    assert pairs[0]["spans"] == [(1, 2), (0, 1)]
    found = [Layers(toy_model())]
    result = probe_wic(found, pairs, pairs)
    assert {row["value"] for row in result["rows"]} == {1.0}
    (tmp_path / "wic.tsv").write_text(header + "0\tcat\ta\tb\tx\t0\t7\t3\t1\n")
    with pytest.raises(UserError, match="row 1"):
        read_wic(tmp_path / "wic.tsv", toy_model())
    scws = "1\tcat\tn\tdog\tn\tthe <b> cat </b> was\t<b> {} </b> on\t{}\t0\n"
    text = "".join(
        scws.format(word, rating) for word, rating in (("cat", 9), ("dog", 4), ("rain", 1))
    )
    (tmp_path / "scws.txt").write_text(text)
    rated = read_scws(tmp_path / "scws.txt")
    assert rated[1]["sentences"] == [["the", "cat", "was"], ["dog", "on"]]
    result = probe_scws(found, rated)
    assert all(-1 <= row["value"] <= 1 for row in result["rows"])
    (tmp_path / "scws.txt").write_text("1\tno marks\n")
    with pytest.raises(UserError, match="line 1"):
        read_scws(tmp_path / "scws.txt")


def test_similarity_of_means(tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text("Cat\tdog\t9\ncat\train\t1\ndog\train\t2\n")
    pairs = read_similarity(tmp_path / "set.txt")
    assert pairs[0] == ("cat", "dog", 9.0)
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1]], np.float32)
    static = Static(StaticVectors(("cat", "dog", "rain"), vectors))
    text = [["the", "cat"], ["dog", "Cat"], ["rain"]]
    result = probe_similarity([static], text, {"toy": pairs, "none": [("x", "y", 1.0)]})
    (row,) = result["rows"]
    assert row["by_set"]["toy"] == {"value": pytest.approx(1), "pairs": 3, "of": 3}
    assert row["by_set"]["none"]["pairs"] == 0
    (tmp_path / "set.txt").write_text("cat dog\n")
    with pytest.raises(UserError, match="line 1: expected two words and a rating"):
        read_similarity(tmp_path / "set.txt")


def test_empty_data_sets_and_ratings_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("")
    for read in (read_scws, read_similarity, lambda path: read_wic(path, toy_model())):
        with pytest.raises(UserError, match="there are none"):
            read(path)
    path.write_text("oil\tgas\tnan\n")
    with pytest.raises(UserError, match="line 1: expected two words and a rating"):
        read_similarity(path)
    path.write_text("1\ta\tn\tb\tn\tthe <b> oil </b>\tthe <b> gas </b>\tinf\n")
    with pytest.raises(UserError, match="line 1: expected two contexts"):
        read_scws(path)

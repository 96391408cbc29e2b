"""The index of a corpus, compared with what the embedder says about each text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmo.embed.embedder import Embedder, Vectors
from elmo.errors import UserError
from elmo.explore import index as module
from elmo.explore.config import IndexConfig
from elmo.explore.index import CorpusIndex, CorpusText, build_index, read_corpus
from elmo.files import locked


def everything(embedder: Embedder, news: list[CorpusText]) -> tuple[list[str], Vectors]:
    """All words in order, and their vectors by the embedder alone, (layers, words, dim)."""
    texts = [list(text.text) for text in news]
    vectors = embedder.encode(texts, output="tokens", layer="all")
    return [word for text in texts for word in text], np.concatenate(vectors, axis=1)


def test_vectors_words_labels_and_senses(
    embedder: Embedder, news: list[CorpusText], index: CorpusIndex
) -> None:
    words, vectors = everything(embedder, news)
    assert len(index) == len(words) == vectors.shape[1]
    for layer in range(3):
        stored = index.vectors(np.arange(len(words)), layer)
        assert np.abs(stored - vectors[layer]).max() < 2e-3  # half precision
        assert np.abs(index.mean(layer) - vectors[layer].mean(0)).max() < 2e-4
    row = 0
    for number, text in enumerate(news):
        for position, word in enumerate(text.text):
            if row % 97 == 0 or (text.senses and position in text.senses):
                found = index.at(row)
                assert (found.word, found.words) == (word, tuple(text.text))
                assert (found.position, found.text_number) == (position, number)
                assert (found.label, found.sense) == (text.label, (text.senses or {}).get(position))
            row += 1


def test_occurrences(index: CorpusIndex, news: list[CorpusText]) -> None:
    expected = sum(word.lower() == "the" for text in news for word in text.text)
    found = index.occurrences("the")
    assert found.total == len(found) == expected
    assert {one.word for one in found.items} == {"the", "The"}
    assert {one.word for one in index.occurrences("The", ignore_case=False).items} == {"The"}
    some = index.occurrences("the", limit=7)
    assert (some.total, len(some)) == (expected, 7)
    assert some == index.occurrences("the", limit=7)
    assert "<b>the</b>" in index.occurrences("the", limit=3, ignore_case=False)._repr_html_()
    with pytest.raises(UserError, match="does not occur in the corpus"):
        index.occurrences("xylophone")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_nearest_equals_brute_force(
    embedder: Embedder, news: list[CorpusText], index: CorpusIndex, layer: int
) -> None:
    words, _ = everything(embedder, news)
    query = embedder.encode(
        ["The central bank raised its key rate ."], output="tokens", layer="all"
    )
    rows = index.vectors(np.arange(len(words)), layer) - index.mean(layer)
    vector = query[0][layer, 2] - index.mean(layer)
    cosines = (rows @ vector) / np.linalg.norm(rows, axis=1) / np.linalg.norm(vector)
    found = index.nearest(query[0][layer, 2], layer=layer, k=8, distinct="none")
    similarities = [one.similarity for one in found.items]
    assert np.allclose(similarities, np.sort(cosines)[::-1][:8], atol=1e-5)
    best: dict[str, float] = {}
    for word, cosine in zip(words, cosines.tolist(), strict=True):
        best[word] = max(cosine, best.get(word, -1))
    by_word = index.nearest(query[0][layer, 2], layer=layer, k=8, distinct="word")
    expected = sorted(best.values(), reverse=True)[:8]
    assert np.allclose([one.similarity for one in by_word.items], expected, atol=1e-5)
    assert len({one.word for one in by_word.items}) == 8


def test_nearest_leaves_out_the_query_and_other_words(
    embedder: Embedder, news: list[CorpusText], index: CorpusIndex
) -> None:
    words = list(news[5].text)
    vector = embedder.encode([words], output="tokens", layer=2)[0][3]
    assert index.nearest(vector, layer=2, k=3).items[0].words == tuple(words)
    others = index.nearest(vector, layer=2, k=3, exclude=words, word=words[3]).items
    assert all(one.words != tuple(words) and one.word == words[3] for one in others)
    phrases = index.nearest(vector, layer=2, k=20, distinct="phrase").items
    around = {tuple(one.words[max(0, one.position - 2) : one.position + 3]) for one in phrases}
    assert len(around) == len(phrases)


def test_a_killed_build_resumes(
    embedder: Embedder,
    news: list[CorpusText],
    index: CorpusIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_WORDS", 1000)
    encoder = embedder.encoder(module.EncodeConfig(output="tokens", layer="all"))
    calls: list[int] = []

    def dying(texts: list[list[str]]) -> list[Vectors]:
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encoder.encode(texts)

    out = tmp_path / "news.index"
    with pytest.raises(KeyboardInterrupt):
        build_index(embedder, news, out, encode=dying)
    assert not out.exists()
    with pytest.raises(UserError, match="another corpus, model or settings"):
        build_index(embedder, news[:50], out)
    done = sum(calls[:2])
    again: list[int] = []

    def counting(texts: list[list[str]]) -> list[Vectors]:
        again.append(len(texts))
        return encoder.encode(texts)

    resumed = build_index(embedder, news, out, encode=counting)
    assert sum(again) == len(news) - done
    rows = np.arange(len(index))
    for layer in range(3):
        assert np.abs(resumed.vectors(rows, layer) - index.vectors(rows, layer)).max() < 1e-3
    with pytest.raises(UserError, match="exists already"):
        build_index(embedder, news, out)
    leftovers = [path.name for path in tmp_path.iterdir() if path.name != "news.index"]
    assert leftovers == []


def test_a_refused_process_leaves_the_lock_to_the_one_at_work(
    tmp_path: Path, embedder: Embedder, news: list[CorpusText]
) -> None:
    """It deleted the lock of the other, so that a third one wrote into the same folder."""
    with locked(tmp_path / ".index.lock", ""):
        for _ in range(2):
            with pytest.raises(UserError, match="another process"):
                build_index(embedder, news[:5], tmp_path / "index")
    assert not (tmp_path / "index").exists()
    build_index(embedder, news[:5], tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_lock_that_a_kill_left_next_to_a_finished_index_is_removed(
    tmp_path: Path, embedder: Embedder, news: list[CorpusText]
) -> None:
    build_index(embedder, news[:5], tmp_path / "index")
    (tmp_path / ".index.lock").touch()  # nobody holds it
    with pytest.raises(UserError, match="exists already"):
        build_index(embedder, news[:5], tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("fresh", [False, True])
def test_an_unfinished_folder_of_the_user_is_left_alone(
    tmp_path: Path, embedder: Embedder, news: list[CorpusText], fresh: bool
) -> None:
    notes = tmp_path / "index.unfinished" / "progress.json"
    notes.parent.mkdir()
    notes.write_text("mine")
    with pytest.raises(UserError, match="did not write"):
        build_index(embedder, news[:5], tmp_path / "index", fresh=fresh)
    assert [path.name for path in tmp_path.rglob("*")] == ["index.unfinished", "progress.json"]
    assert notes.read_text() == "mine"


def test_a_mistake_leaves_no_folder(tmp_path: Path, embedder: Embedder) -> None:
    with pytest.raises(UserError):
        build_index(embedder, [], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_large_corpus_is_sampled(
    embedder: Embedder, news: list[CorpusText], tmp_path: Path
) -> None:
    config = IndexConfig(max_words=500, layers=(2,))
    small = build_index(embedder, news, tmp_path / "a", config)
    assert 400 <= len(small) <= 500
    assert small.description.corpus_words == sum(len(text.text) for text in news)
    assert small.layers == (2,)
    same = build_index(embedder, news, tmp_path / "b", config)
    assert (same.description.content, len(same)) == (small.description.content, len(small))
    other = build_index(embedder, news, tmp_path / "c", IndexConfig(max_words=500, seed=1))
    assert other.description.content != small.description.content


def test_damage_and_other_models_are_told(
    embedder: Embedder, news: list[CorpusText], tmp_path: Path
) -> None:
    index = build_index(embedder, news[:3], tmp_path / "x")
    index.check_model(embedder)
    with pytest.raises(UserError, match="layer 7 is not in the index"):
        index.vectors([0], 7)
    (tmp_path / "x" / "layer_1.f16").write_bytes(b"short")
    with pytest.raises(UserError, match=r"layer_1\.f16: expected .* bytes, found 5"):
        CorpusIndex.open(tmp_path / "x")
    with pytest.raises(UserError, match=r"has no index\.json"):
        CorpusIndex.open(tmp_path)
    for texts, message in (([], "there are none"), (["", " "], "there are none")):
        with pytest.raises(UserError, match=message):
            build_index(embedder, texts, tmp_path / "y")
    with pytest.raises(UserError, match="put it in a list"):
        build_index(embedder, "one text", tmp_path / "y")


def test_labels_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "mail.csv"
    table.write_text("label,text\nspam,Buy now\nham,See you\nham,\n", encoding="utf-8")
    assert list(read_corpus([str(table)])) == [("Buy now", "spam", None), ("See you", "ham", None)]
    plain = tmp_path / "plain.txt"
    plain.write_text("One .\nTwo .\n", encoding="utf-8")
    assert [text.label for text in read_corpus([str(plain)])] == [None, None]

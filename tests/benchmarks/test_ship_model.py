"""The card and the licence of a shipped model say where its text came from and how good it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import torch
from tests.training.conftest import tiny_config, write_corpus

import ship_model
from elmo.language_model import LanguageModel
from elmo.training.pretrain import pretrain

ROW = dict.fromkeys(ship_model.SETS, 0.5)
TABLES = {
    "sentences": {"layer 0, mean": ROW},
    "words": {"layer 0": {"WiC": 0.5, "SCWS": 0.25}},
}


def test_card_and_licence(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", documents=30)
    pretrain([str(corpus)], tmp_path / "run", tiny_config(), cache=tmp_path / "cache")
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("heldout.txt.gz", "wikitext2-test.txt.gz"):
        with gzip.open(folder / name, "wt", encoding="utf-8") as stream:
            stream.write(corpus.read_text(encoding="utf-8"))
    source = {
        "name": "talks", "licence": "CC0", "origin": "a town hall", "weight": 2.0,
        "written_words": 1234, "dropped_for_evaluation": 7,
    }  # fmt: skip
    manifest = {"sources": [source], "ngram": 8, "dropped_by_evaluation_set": {"MR": 7}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "table.json").write_text(json.dumps(TABLES))
    table = str(tmp_path / "table.json")
    out = tmp_path / "shipped"
    ship_model.main(
        [str(tmp_path / "run"), "--out", str(out), "--corpus", str(folder), "--transfer", table,
         "--glove", table, "--tokens", "4321", "--command", "elmo pretrain x"]
    )  # fmt: skip
    card, licence = (out / "README.md").read_text(), (out / "LICENSE.md").read_text()
    assert "| talks | 1,234 | 2 | CC0 |" in card
    assert "4,321 tokens" in card
    assert "7 documents" in card
    assert "| GloVe 6B: layer 0 | 0.500 | 0.250 |" in card
    assert "| talks | 1,234 | CC0 | a town hall |" in licence
    assert "vectors of 0 words" in card
    digest = json.loads((tmp_path / "run" / "config.json").read_text())["run"]["digest"]
    assert f"Corpus fingerprint `{digest[:16]}`" in card
    assert LanguageModel.from_pretrained(out).model.config.hidden == tiny_config().model.hidden


def test_frequent_words_stay_and_static_vectors_come_along(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.txt", documents=60)
    pretrain([str(corpus)], tmp_path / "run", tiny_config(), cache=tmp_path / "cache")
    model = LanguageModel.from_pretrained(tmp_path / "run").model
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("the 1 0\ncat 0 1\ndog 1 1\n", encoding="utf-8")
    out = tmp_path / "shipped"
    ship_model.main(
        [str(tmp_path / "run"), "--out", str(out), "--words", "8",
         "--word-vectors", str(vectors), "--companions", "2"]
    )  # fmt: skip
    shipped = LanguageModel.from_pretrained(out)
    words = model.vocabulary.words
    pairs = sorted(zip(model.vocabulary.counts[3:], words[3:], strict=True), reverse=True)
    kept = [word for _, word in pairs[:5]]
    assert set(shipped.vocabulary.words[3:]) == set(kept)
    assert sum(shipped.vocabulary.counts) == sum(model.vocabulary.counts)
    before, after = (one.layers(one.pack([kept])).words() for one in (model, shipped.model))
    torch.testing.assert_close(after, before, rtol=0.02, atol=0.02)  # rounded to bf16
    assert shipped.word_vectors is not None
    assert shipped.word_vectors.words == ("the", "cat")
    assert shipped.config["vocabulary"]["max_vocabulary"] == 100_000

"""A corpus gives the ids that its texts have by hand, without what is held out."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.errors import UserError
from elmo.static.config import WordsConfig
from elmo.static.documents import CorpusDocuments, corpus_vocabulary, encode_texts
from elmo.text.corpus import Corpus, CorpusRequest, prepare
from elmo.text.sources import resolve
from elmo.text.vocabulary import SPECIAL_WORDS

TEXTS = ["a b a c", "b a", "a", "rare b"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path, held_out = tmp_path / "text.txt", tmp_path / "held_out.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    held_out.write_text("a c c c c\n", encoding="utf-8")
    request = CorpusRequest(sources=resolve([str(path)]), held_out_sources=resolve([str(held_out)]))
    return prepare(request, cache=tmp_path / "cache")


def test_a_corpus_gives_its_training_texts_as_often_as_asked(corpus: Corpus) -> None:
    vocabulary = corpus_vocabulary(corpus, WordsConfig(min_count=2))
    assert vocabulary.words == (*SPECIAL_WORDS, "a", "b")
    documents = CorpusDocuments(corpus, vocabulary)
    wanted = [[3, 4, 3, 2], [4, 3], [3], [2, 4]]
    assert len(documents) == len(TEXTS)
    assert [document.tolist() for document in documents] == wanted
    assert [document.tolist() for document in documents] == wanted
    given = encode_texts([text.split() for text in TEXTS], vocabulary)
    assert [document.tolist() for document in given] == wanted


def test_the_vocabulary_has_at_most_so_many_words(corpus: Corpus) -> None:
    vocabulary = corpus_vocabulary(corpus, WordsConfig(min_count=1, max_vocabulary=4))
    assert vocabulary.words == (*SPECIAL_WORDS, "a")


def test_too_little_text_is_told(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="no word is seen 9 times; lower --min-count"):
        corpus_vocabulary(corpus, WordsConfig(min_count=9))

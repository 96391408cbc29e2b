"""A report on a corpus holds what an independent count finds, and says what stops a training."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from elmo.errors import UserError
from elmo.text import inspect as copies
from elmo.text import inspect as coverage
from elmo.text.config import ReadOptions
from elmo.text.corpus import CorpusRequest, is_held_out, prepare
from elmo.text.inspect import CorpusReport, Sightings, VocabularyPoint, find, inspect
from elmo.text.sources import resolve
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import build_vocabulary

AT_SPACES = TokenizerConfig(tokenizer="whitespace")
SHARE = 0.3


def documents(number: int, seed: int = 0, longest: int = 40) -> list[list[str]]:
    source = random.Random(seed)
    words = [f"w{rank}" for rank in range(400)]
    weights = [1 / (rank + 1) for rank in range(400)]
    return [source.choices(words, weights, k=source.randint(1, longest)) for _ in range(number)]


def write(path: Path, texts: list[list[str]]) -> Path:
    path.write_text("".join(" ".join(text) + "\n" for text in texts), encoding="utf-8")
    return path


def check(*paths: Path, **settings: object) -> CorpusReport:
    given = {"tokenizer": AT_SPACES, "held_out_share": SHARE, **settings}
    sources = resolve([str(path) for path in paths])
    return inspect(sources, **given)  # pyright: ignore


def numbers(sightings: Sightings) -> list[int]:
    return [int(where.rpartition(" ")[2]) for where in sightings.first]


def kinds(report: CorpusReport) -> list[str]:
    return [finding.kind for finding in find(report)]


def said(report: CorpusReport) -> str:
    return "\n".join(f"{finding.what}: {finding.advice}" for finding in find(report))


def test_sizes_and_lengths_are_those_counted(tmp_path: Path) -> None:
    texts = documents(300)
    report = check(write(tmp_path / "a.txt", texts), window=30)
    lengths = [len(text) for text in texts]
    held_out = [text for text in texts if is_held_out(text, SHARE)]
    assert (report.documents, report.tokens) == (300, sum(lengths))
    assert report.held_out_documents == len(held_out)
    assert report.held_out_tokens == sum(map(len, held_out))
    found = (report.median_length, report.percentile_95, report.percentile_99)
    assert list(found) == np.percentile(lengths, [50, 95, 99], method="inverted_cdf").tolist()
    assert report.longest == max(lengths)
    assert report.longest_at.endswith(f", line {lengths.index(max(lengths)) + 1}")
    # A window of 30 holds the boundary and 29 words.
    assert report.over_window.documents == sum(length > 29 for length in lengths)


def test_the_unknown_curve_is_that_of_the_vocabularies_training_would_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "MAX_SIZES", (10, 50, 200, 100_000))
    path = write(tmp_path / "a.txt", documents(400))
    words = check(path, min_count=2, max_vocabulary=120)
    corpus = prepare(
        CorpusRequest(sources=resolve([str(path)]), tokenizer=AT_SPACES, held_out_share=SHARE),
        cache=tmp_path / "cache",
    )
    held_out = Counter(
        corpus.words[place] for shard in corpus.held_out for place in shard.ids if place > 1
    )

    def expected(point: VocabularyPoint) -> tuple[int, float]:
        vocabulary = build_vocabulary(
            corpus.words[3:],
            corpus.counts[3:].tolist(),
            boundaries=1,
            min_count=point.min_count,
            max_size=point.max_size,
        )
        unknown = sum(times for word, times in held_out.items() if word not in vocabulary.ids)
        return len(vocabulary), unknown / held_out.total()

    points = (words.vocabulary, *words.by_min_count, *words.by_max_size)
    assert [(point.size, point.unknown_rate) for point in points] == list(map(expected, points))
    assert [point.min_count for point in words.by_min_count] == [1, 2, 3, 5, 10]
    assert [point.max_size for point in words.by_max_size] == [10, 50, 200]
    assert words.types == len(corpus.words) - 3


def test_copies_are_counted(tmp_path: Path) -> None:
    # Words of their own, since common words make common phrases.
    texts = [[f"t{number}w{place}" for place in range(60)] for number in range(300)]
    near = [[*text[:30], "other", *text[31:]] for text in texts[:100]]
    report = check(write(tmp_path / "a.txt", [*texts, *texts[:50], *texts[:20], *near]))
    assert report.compared == 470
    assert report.exact_duplicates == 70
    # Copies have 51 of 61 phrases in common; four deviations of such a draw are 15.
    assert abs(report.near_duplicates - 100 * 51 / 61) < 15
    assert "70 of 470 documents (14.9%) repeat another" in said(report)


def test_comparing_stops_where_memory_would_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "LARGEST_COMPARED", 10)
    report = check(write(tmp_path / "a.txt", [["same"]] * 30), held_out_share=0.0)
    assert (report.compared, report.exact_duplicates) == (10, 9)
    assert "only the first 10 documents" in said(report)


def test_words_beyond_the_largest_lexicon_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "LARGEST_LEXICON", 2)
    report = check(write(tmp_path / "a.txt", [["a", "b"], ["c", "a"], ["b"]]), held_out_share=0.0)
    assert (report.types, report.capped) == (2, True)
    assert report.by_min_count[1].size == 3 + 2
    assert report.tokens == 5


def test_bytes_that_are_not_utf8_stop_training_unless_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good line\n\ncaf\xe9 here\nfine\nna\xefve\n" + b"good line\n" * 3)
    report = check(path)
    assert report.replaced.documents == 2
    assert numbers(report.replaced) == [3, 5]
    assert kinds(report)[0] == "problem"
    assert "line 3: expected UTF-8" in said(report)
    assert "--errors replace" in said(report)
    assert report.blank_lines == 1
    replaced = check(path, read=ReadOptions(errors="replace"))
    assert "problem" not in kinds(replaced)
    assert "U+FFFD" in said(replaced)


def test_replacement_characters_that_the_file_itself_holds_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("lost \ufffd long ago\n" * 4, encoding="utf-8")
    report = check(path, held_out_share=0.0)
    assert report.replaced.documents == 4
    assert report.not_utf8 == []
    assert "problem" not in kinds(report)


def test_strange_characters_and_html_are_seen(tmp_path: Path) -> None:
    texts = ["plain < text & more; a<b", "bell \x07", "zero\u200bwidth", "tab\there"]
    html = ["a <b>bold</b> word", "x &amp; y", "it #39;s", "<a href='x'>link</a>", "the <unk> word"]
    path = tmp_path / "a.txt"
    path.write_text("\n".join([*texts, *html]) + "\n", encoding="utf-8")
    report = check(path)
    assert numbers(report.control) == [2, 3]
    assert numbers(report.html) == [5, 6, 7, 8]


def test_special_words_in_the_text_are_told(tmp_path: Path) -> None:
    report = check(write(tmp_path / "a.txt", [["a", "<UNK>", "</S>"]] * 4), held_out_share=0.0)
    assert report.special == ["</S>", "<UNK>"]
    assert report.vocabulary.size == 3 + 1
    assert "holds </S>, <UNK>" in said(report)


def test_a_file_that_cannot_be_read_is_a_problem_beside_those_that_can(tmp_path: Path) -> None:
    good = write(tmp_path / "good.txt", documents(50))
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_text("\n \n")
    binary.write_bytes(b"word\n\0\1\2\n")
    report = check(good, empty, binary)
    assert report.documents == 51
    assert len(report.unreadable) == 2
    assert kinds(report)[:2] == ["problem", "problem"]
    assert "holds no text" in report.unreadable[0]
    assert "NUL byte" in report.unreadable[1]


def test_text_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    with pytest.raises(UserError, match="holds no text"):
        check(empty)


def test_settings_that_leave_nothing_to_learn_are_problems(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", [["one", "two"], ["three"]])
    assert "no training word is seen 3 times" in said(check(path, held_out_share=0.0))
    assert "all text is held out" in said(check(path, held_out_share=1.0))


def test_rows_are_documents_and_blank_lines_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,n\n"one\ntwo",1\nlonger than the rest,2\n')
    report = check(path)
    assert (report.documents, report.tokens, report.blank_lines) == (2, 6, None)
    assert report.longest_at == f"'{path}', document 2"


def test_a_report_is_json(tmp_path: Path) -> None:
    report = check(write(tmp_path / "a.txt", documents(20)))
    assert json.loads(json.dumps(asdict(report)))["tokens"] == report.tokens


def test_ten_times_the_text_takes_little_more_memory(tmp_path: Path) -> None:
    def peak(path: Path) -> int:
        tracemalloc.start()
        check(path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small = write(tmp_path / "small.txt", documents(300))
    large = write(tmp_path / "large.txt", documents(3000))
    peak(small)
    # The sixteen bytes a document that find copies, sorted, are all that may grow.
    assert peak(large) - peak(small) < 100 * 2700


def test_ag_news() -> None:
    data = os.environ.get("ELMO_DATA")
    if not data:
        pytest.skip("ELMO_DATA names no folder with AG News")
    assert (Path(data) / "ag_news" / "test.csv").is_file(), "ELMO_DATA is set but has no AG News"
    report = inspect(resolve(["ag_news:test"]))
    assert report.documents == 7600
    assert 30 < report.median_length < 40
    assert 0 < report.exact_duplicates < 50
    rates = [point.unknown_rate for point in report.by_min_count]
    assert rates == sorted(rates, key=float)  # pyright: ignore
    assert "problem" not in kinds(report)

"""What reaches the corpus of the general model, and what does not."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import general_corpus

REVIEW = "a film so slow that even the closing titles seemed to want to leave"


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        (" = = Service history = = ", ""),
        (" a well @-@ known ship of 1 @,@ 200 tons , it 's said .", None),
        ("America¡¦s hopes¡Xand fears", "America's hopes -- and fears"),
        ("I _never_ said snake_case was *bad*\ufeff", "I never said snake_case was bad"),
        ("They do n't ( yet ) pay $ 5 .", "They don't (yet) pay $5."),
        ("[!NOTE] Do this.", "Do this."),
    ],
)
def test_cleaning(raw: str, cleaned: str | None):
    expected = "a well-known ship of 1,200 tons, it's said." if cleaned is None else cleaned
    assert general_corpus.clean(raw) == expected


def test_chunks_are_whole_sentences_and_lose_no_word():
    text = "Mr. Smith left. He was tired. " + "Word " * 30 + "end. Then silence fell."
    pieces = list(general_corpus.chunks(text, 8))
    assert pieces[0] == "Mr. Smith left. He was tired."
    assert " ".join(pieces).split() == text.split()
    assert max(len(piece.split()) for piece in pieces) <= 16


def test_turns_of_a_conversation_are_joined_within_a_document():
    lines = [
        "Yes.",
        "No, it is not like that at all.",
        "",
        "Hm.",
        "",
        "A whole sentence is here.",
    ]
    found = list(general_corpus.paragraphs(lines, dialogue=True, shortest=4))
    expected = ["Yes. No, it is not like that at all.", "Hm.", "A whole sentence is here."]
    assert found == expected


def test_hashes_are_equal_exactly_for_equal_ngrams():
    hashes = general_corpus.NgramHashes()
    first, second = hashes(list("abcdefghijk")), hashes(list("xabcdefghy"))
    shared = np.intersect1d(first, second)
    assert (len(first), len(second), len(shared)) == (4, 3, 1)  # abcdefgh
    assert not len(hashes(list("abcdefg")))


def make_data(folder: Path) -> None:
    """One line or more for every source and evaluation set."""
    for source in general_corpus.SOURCES:
        for name in source.files:
            lines = [
                f"Document {name.rpartition('/')[2].replace('.', ' ')} number {row} is about "
                f"things that nobody else has written about, {'very ' * (row % 5)}quietly."
                for row in range(50)
            ]
            write(folder / name, [*lines, lines[0]])
    write(folder / "text/masc/masc_tagged.txt.gz", [
        f"They wrote : {REVIEW} .",
        "Another line that is only here and nowhere else .",
        "From : someone@example.com , a header that nobody wants to read",
    ])  # fmt: skip
    for pattern, reader in general_corpus.EVALUATION_SETS.values():
        path = folder / pattern.replace("*[!.md]", "train.conll").replace("t*.csv*", "test.csv")
        path = path.with_name(path.name.replace("*", "x"))
        if reader is general_corpus.wsd_sentences:
            write(path, ["<corpus><sentence><wf>Bells</wf><wf>ring</wf></sentence></corpus>"])
        elif reader is general_corpus.json_strings:
            write(path, [json.dumps({"text": "Prices fell", "number": 3})])
        else:
            write(path, ["1\tsome text\there"])
    write(folder / "sentence_classification/rt-polarity.all.gz", [f"0 {REVIEW} ."])


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_a_corpus_from_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(general_corpus.Overlap, "BITS", 16)
    data = tmp_path / "data"
    make_data(data)
    for name in ("one", "two"):
        flags = ["--data", str(data), "--out", str(tmp_path / name), "--held-out", "0"]
        general_corpus.main([*flags, "--lowercase", "0.5"])
    manifest = json.loads((tmp_path / "one/manifest.json").read_text())
    assert manifest == json.loads((tmp_path / "two/manifest.json").read_text())

    packed = (tmp_path / "one/corpus-00.txt.gz").read_bytes()
    assert manifest["sha256"]["corpus-00.txt.gz"] == hashlib.sha256(packed).hexdigest()
    lines = gzip.decompress(packed).decode().splitlines()
    assert len(lines) == manifest["documents"]
    assert 0.3 < sum(line == line.lower() for line in lines) / len(lines) < 0.7

    masc = next(source for source in manifest["sources"] if source["name"] == "masc")
    assert masc["in_evaluation_sets"] == {"MR": 1}
    assert (masc["noise"], masc["documents"], masc["written_documents"]) == (1, 1, 5)
    assert not any("closing titles" in line for line in lines)
    changelog = next(source for source in manifest["sources"] if source["name"] == "changelog")
    assert (changelog["duplicates"], changelog["written_documents"]) == (1, 50)


def test_held_out_blocks_are_not_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(general_corpus.Overlap, "BITS", 16)
    monkeypatch.setattr(general_corpus, "BLOCK", 5)
    data, out = tmp_path / "data", tmp_path / "corpus"
    make_data(data)
    flags = ["--data", str(data), "--out", str(out), "--held-out", "0.3", "--lowercase", "0"]
    general_corpus.main(flags)
    train = set(gzip.decompress((out / "corpus-00.txt.gz").read_bytes()).decode().splitlines())
    held_out = gzip.decompress((out / "heldout.txt.gz").read_bytes()).decode().splitlines()
    assert held_out
    assert train.isdisjoint(held_out)

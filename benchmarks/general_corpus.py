"""The corpus of the general model: free English text, cleaned, de-duplicated, mixed by weight.

    python benchmarks/general_corpus.py --data "$ELMO_DATA" --out corpus

Only text that is in the public domain or under CC0, CC BY, CC BY-SA or an equally free licence is
read (`SOURCES`). Every paragraph that shares eight consecutive words with an evaluation set
(`EVALUATION_SETS`) is dropped. The folder gets

    corpus-00.txt.gz …   training text, shuffled, one document per line
    heldout.txt.gz       held-out text: blocks of consecutive documents of each source
    wikitext2-*.txt.gz   validation and test text of WikiText-2, cleaned like the training text
    manifest.json        sources, licences, weights, counts, what was dropped and why, SHA-256

The same data, seed and options give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

NGRAM = 8
"""Consecutive words that a paragraph may not share with an evaluation set."""
SHORT = 4
"""A paragraph of SHORT to NGRAM - 1 words is dropped if it equals a whole evaluation text."""
BLOCK = 50
"""Consecutive documents held out together: few of them have neighbours in the training text."""
CHARACTERS_PER_FILE = 32_000_000


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text collection and how often its documents are read in one epoch of the corpus."""

    name: str
    files: tuple[str, ...]
    licence: str
    origin: str
    weight: float
    """Copies of each document; the fraction of a copy is drawn document by document."""
    dialogue: bool = False
    """Whether short paragraphs are turns of a conversation, joined with the next one."""


OLD_FICTION = 0.7
SOURCES = (
    Source(
        name="classic_books",
        files=("text/classic_books/classic_books.txt.gz",),
        licence="public domain",
        origin="GitHub mlschmitt/classic-books-markdown",
        weight=OLD_FICTION,
        dialogue=True,
    ),
    Source(
        name="english_novels",
        files=("text/english_novels/novels100_not_in_classic_books.txt.gz",),
        licence="public domain (novels of 1840-1930)",
        origin="GitHub computationalstylistics/100_english_novels",
        weight=OLD_FICTION,
        dialogue=True,
    ),
    Source(
        name="changelog",
        files=("text/changelog_transcripts/changelog.txt.gz",),
        licence="CC BY-SA 4.0",
        origin="GitHub thechangelog/transcripts",
        weight=1.0,
        dialogue=True,
    ),
    Source(
        name="wikitext2",
        files=("wikitext2/wiki.train.raw.gz",),
        licence="CC BY-SA 3.0",
        origin="WikiText-2, training part (Wikipedia)",
        weight=5.0,
    ),
    Source(
        name="masc",
        files=("text/masc/masc_tagged.txt.gz",),
        licence="free for any use, including commercial",
        origin="MASC 3, Open American National Corpus",
        weight=5.0,
    ),
    Source(
        name="mdn",
        files=("text/mdn_docs/mdn_en.txt.gz",),
        licence="CC BY-SA 2.5",
        origin="GitHub mdn/content",
        weight=1.0,
    ),
    Source(
        name="common_voice",
        files=("text/common_voice_sentences/sentence_collector_en.txt.gz",),
        licence="CC0",
        origin="Common Voice sentence collector",
        weight=4.0,
    ),
    Source(
        name="speeches",
        files=("text/speeches/state_union.txt.gz", "text/speeches/inaugural.txt.gz"),
        licence="public domain",
        origin="US presidents' addresses, NLTK corpora",
        weight=3.0,
    ),
    Source(
        name="factbook",
        files=("text/world_factbook/factbook.txt.gz",),
        licence="public domain",
        origin="CIA World Factbook",
        weight=1.0,
    ),
)

Reader = Callable[[Iterable[str]], Iterator[str]]


@dataclass(kw_only=True)
class Counts:
    """What became of the paragraphs of a source."""

    paragraphs: int = 0
    words: int = 0
    noise: int = 0
    duplicates: int = 0
    in_evaluation_sets: dict[str, int] = field(default_factory=dict)
    dropped_for_evaluation: int = 0
    held_out_documents: int = 0
    documents: int = 0
    """Distinct training documents."""
    written_documents: int = 0
    written_words: int = 0


# ---------------------------------------------------------------------------------------------
# Cleaning

# Big5 punctuation that was decoded as Latin-1, as in the State of the Union addresses.
_MOJIBAKE = {"¡¦": "'", "¡¥": "'", "¡§": '"', "¡¨": '"', "¡X": " -- ", "¡K": "...", "¡V": "-"}
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060\ufeff\ufffd]")
_WIKITEXT_JOIN = re.compile(r" @([-,.])@ ")
_CALLOUT = re.compile(r"\[!(?:NOTE|WARNING|CALLOUT|TIP|IMPORTANT)\]\s*", re.IGNORECASE)
_EMPHASIS = re.compile(r"(?<![\w_])_([^_\n]{1,200}?)_(?![\w_])")
_HEADING = re.compile(r"^\s*= .* =\s*$")
_EMAIL = re.compile(r"\S@\S+\.\w")
_BEFORE = re.compile(r" +(?=[,;:.!?%)\]](?: |$)|'(?:s|re|ve|ll|d|m)\b|n't\b)")
_AFTER = re.compile(r"(?<=[(\[$£])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_NO_END = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Gen|Col|Capt|Lt|Rev|Hon|No|vs|[A-Z])\.$")
_WORD = re.compile(r"[a-z0-9]+")
_APOSTROPHE = re.compile(r"\s*['’]\s*")


def clean(paragraph: str) -> str:
    """Markup, mis-decoded and invisible characters removed; spaces as in running text."""
    if _HEADING.match(paragraph):
        return ""
    text = _INVISIBLE.sub("", paragraph)
    if "¡" in text:
        for wrong, right in _MOJIBAKE.items():
            text = text.replace(wrong, right)
    if "@" in text:
        text = _WIKITEXT_JOIN.sub(r"\1", text)
    if "_" in text:
        text = _EMPHASIS.sub(r"\1", text)
    text = _CALLOUT.sub("", text).replace("<unk>", "").replace("*", "")
    text = text.replace("``", '"').replace("''", '"')
    return _AFTER.sub("", _BEFORE.sub("", " ".join(text.split())))


def is_noise(text: str) -> bool:
    """Whether a paragraph is no prose: tables, mail headers, formulas, one or two words."""
    words = text.split()
    alphabetic = sum(word.strip(".,;:!?\"'()[]-“”‘’").replace("'", "").isalpha() for word in words)
    return len(words) < 3 or alphabetic < 0.6 * len(words) or bool(_EMAIL.search(text))


def sentences(paragraph: str) -> list[str]:
    """Sentences of a paragraph, good enough to cut long paragraphs at."""
    result: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(paragraph):
        head = paragraph[start : match.end()].rstrip()
        if not _NO_END.search(head):
            result.append(head)
            start = match.end()
    return [*result, paragraph[start:]] if paragraph[start:].strip() else result


def chunks(paragraph: str, limit: int) -> Iterator[str]:
    """Whole sentences, at most `limit` words of them together; a longer sentence is cut."""
    held: list[str] = []
    for sentence in sentences(paragraph):
        words = sentence.split()
        if held and len(held) + len(words) > limit:
            yield " ".join(held)
            held = []
        held += words
        while len(held) > 2 * limit:
            yield " ".join(held[:limit])
            held = held[limit:]
    if held:
        yield " ".join(held)


def paragraphs(lines: Iterable[str], *, dialogue: bool, shortest: int) -> Iterator[str]:
    """Cleaned paragraphs; with `dialogue`, turns shorter than `shortest` join the next one."""
    pending = ""
    for line in lines:
        text = clean(line)
        if not text:
            if pending:
                yield pending
            pending = ""
            continue
        text = f"{pending} {text}" if pending else text
        pending = ""
        if dialogue and len(text.split()) < shortest:
            pending = text
        else:
            yield text
    if pending:
        yield pending


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a plain or gzip file."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        for line in stream:
            yield line.decode("utf-8", "replace").rstrip("\r\n")


# ---------------------------------------------------------------------------------------------
# Evaluation sets


def whole_lines(lines: Iterable[str]) -> Iterator[str]:
    """Each line; labels and numbers in other columns do no harm."""
    yield from lines


def tab_fields(lines: Iterable[str]) -> Iterator[str]:
    """Each field of a tab-separated file."""
    for line in lines:
        yield from line.split("\t")


def labelled(lines: Iterable[str]) -> Iterator[str]:
    """Lines whose first word is a label."""
    for line in lines:
        yield line.partition(" ")[2]


def json_strings(lines: Iterable[str]) -> Iterator[str]:
    """String values of JSON lines."""
    for line in lines:
        record: dict[str, Any] = json.loads(line)
        yield from (value for value in record.values() if isinstance(value, str))


def token_lines(lines: Iterable[str]) -> Iterator[str]:
    """CoNLL files: one token per line, first column; an empty line ends a sentence."""
    tokens: list[str] = []
    for line in lines:
        if line.strip():
            tokens.append(line.split()[0])
        else:
            yield " ".join(tokens)
            tokens = []
    yield " ".join(tokens)


def conllu_texts(lines: Iterable[str]) -> Iterator[str]:
    """The `# text = …` lines of CoNLL-U."""
    return (line.removeprefix("# text = ") for line in lines if line.startswith("# text = "))


def semcor_sentences(lines: Iterable[str]) -> Iterator[str]:
    """SemCor as a table: document, sentence, token."""
    tokens: list[str] = []
    current: tuple[str, ...] = ()
    for line in lines:
        fields = line.split("\t")
        if len(fields) < 3:
            continue
        if tuple(fields[:2]) != current:
            yield " ".join(tokens)
            tokens, current = [], tuple(fields[:2])
        tokens.append(fields[2].replace("_", " "))
    yield " ".join(tokens)


def wsd_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Sentences of the unified WSD framework's XML."""
    root = ElementTree.fromstring("\n".join(lines))
    for sentence in root.iter("sentence"):
        yield " ".join(word.text or "" for word in sentence)


EVALUATION_SETS: dict[str, tuple[str, Reader]] = {
    "MR": ("sentence_classification/rt-polarity.all.gz", labelled),
    "CR": ("sentence_classification/custrev.all.gz", labelled),
    "SUBJ": ("sentence_classification/subj.all.gz", labelled),
    "TREC": ("sentence_classification/TREC.*.gz", labelled),
    "SST": ("sst/stsa.*.gz", labelled),
    "AG News": ("ag_news/t*.csv*", whole_lines),
    "20 Newsgroups": ("twenty_newsgroups/*.jsonl.gz", json_strings),
    "Reuters-21578": ("reuters21578/*.jsonl.gz", json_strings),
    "SNLI": ("snli/*.tsv.gz", tab_fields),
    "STS-B": ("stsb/*.csv.gz", tab_fields),
    "SemCor": ("semcor/*.tsv.gz", semcor_sentences),
    "WSD": ("wsd_eval/*.data.xml.gz", wsd_sentences),
    "WiC": ("wic/*.tsv", tab_fields),
    "SCWS": ("scws/ratings.txt.gz", tab_fields),
    "CoNLL-2000": ("conll2000/*.txt.gz", token_lines),
    "UD English EWT": ("ud_english_ewt/*.conllu.gz", conllu_texts),
    "WNUT-17": ("wnut17/*[!.md]", token_lines),
    "WikiText-2 valid": ("wikitext2/wiki.valid.raw.gz", whole_lines),
    "WikiText-2 test": ("wikitext2/wiki.test.raw.gz", whole_lines),
}


def normalised_words(text: str) -> list[str]:
    """Lower-case words and numbers; contractions as one word, however they were tokenised."""
    lowered = text.lower().replace(" n't", "n't").replace("<b>", " ").replace("</b>", " ")
    return _WORD.findall(_APOSTROPHE.sub("", lowered))


Hashes = NDArray[np.uint64]
_ODD = 0x9E3779B97F4A7C15
_POWERS = [np.uint64(pow(_ODD, power, 2**64)) for power in reversed(range(NGRAM))]


class NgramHashes:
    """64-bit hashes of all runs of NGRAM words of a text."""

    def __init__(self) -> None:
        self._hash_of: dict[str, int] = {}

    def __call__(self, words: list[str]) -> Hashes:
        known = self._hash_of
        for word in words:
            if word not in known:
                digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
                known[word] = int.from_bytes(digest, "little")
        ids = np.array([known[word] for word in words], np.uint64)
        count = len(words) - NGRAM + 1
        if count < 1:
            return np.empty(0, np.uint64)
        total = np.zeros(count, np.uint64)
        for offset, power in enumerate(_POWERS):
            total += ids[offset : offset + count] * power
        return total ^ (total >> np.uint64(29))


class Overlap:
    """Tells which evaluation sets a paragraph shares NGRAM consecutive words with."""

    BITS = 30

    def __init__(self, data: Path, sets: dict[str, tuple[str, Reader]]) -> None:
        self._ngrams = NgramHashes()
        self._hashes: dict[str, Hashes] = {}
        self._short: dict[str, set[str]] = {}
        # A table of the top bits answers "in no set" for nearly every n-gram of the corpus.
        self._table = np.zeros(1 << self.BITS, np.bool_)
        for name, (pattern, reader) in sets.items():
            files = sorted(data.glob(pattern))
            if not files:
                raise SystemExit(f"{name}: no file {data / pattern}")
            hashes = [np.empty(0, np.uint64)]
            self._short[name] = set()
            for path in files:
                for text in reader(read_lines(path)):
                    words = normalised_words(text)
                    hashes.append(self._ngrams(words))
                    if SHORT <= len(words) < NGRAM:
                        self._short[name].add(" ".join(words))
            self._hashes[name] = np.unique(np.concatenate(hashes))
            self._table[self._slots(self._hashes[name])] = True

    def _slots(self, hashes: Hashes) -> NDArray[np.int64]:
        return (hashes >> np.uint64(64 - self.BITS)).astype(np.int64)

    def sets_of(self, words: list[str]) -> list[str]:
        """Names of the evaluation sets that hold some of this text."""
        if len(words) < NGRAM:
            text = " ".join(words)
            return [name for name, short in self._short.items() if text in short]
        hashes = self._ngrams(words)
        hashes = hashes[self._table[self._slots(hashes)]]
        if not len(hashes):
            return []
        return [name for name, known in self._hashes.items() if holds_any(known, hashes)]


def holds_any(ascending: Hashes, wanted: Hashes) -> bool:
    """Whether a sorted array holds one of some values."""
    if not len(ascending):
        return False
    nearest = np.minimum(ascending.searchsorted(wanted), len(ascending) - 1)
    return bool((ascending[nearest] == wanted).any())


# ---------------------------------------------------------------------------------------------
# Mixing and writing


def fraction(*parts: object) -> float:
    """A number from 0 to 1 that depends on nothing but the arguments."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def source_documents(
    source: Source, args: argparse.Namespace, overlap: Overlap, seen: set[bytes], counts: Counts
) -> tuple[list[str], list[str]]:
    """Training and held-out documents of a source, each once."""
    train: list[str] = []
    held_out: list[str] = []
    sets: Counter[str] = Counter()
    for name in source.files:
        lines = read_lines(args.data / name)
        texts = paragraphs(lines, dialogue=source.dialogue, shortest=args.shortest)
        index = 0  # of a document, whatever becomes of it
        for paragraph in texts:
            counts.paragraphs += 1
            counts.words += len(paragraph.split())
            for document in chunks(paragraph, args.longest):
                is_held_out = fraction(args.seed, name, index // BLOCK) < args.held_out
                index += 1
                if is_noise(document):
                    counts.noise += 1
                    continue
                words = normalised_words(document)
                key = hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest()
                if key in seen:
                    counts.duplicates += 1
                    continue
                seen.add(key)
                if shared := overlap.sets_of(words):
                    sets.update(shared)
                    counts.dropped_for_evaluation += 1
                    continue
                (held_out if is_held_out else train).append(document)
    counts.in_evaluation_sets = dict(sorted(sets.items()))
    counts.documents, counts.held_out_documents = len(train), len(held_out)
    return train, held_out


def copies(documents: list[str], weight: float, rng: random.Random) -> Iterator[str]:
    """Each document `weight` times, on average exactly so."""
    for document in documents:
        yield from [document] * (int(weight) + (rng.random() < weight % 1))


def write_corpus(documents: list[str], out: Path, lowercase: float, rng: random.Random) -> None:
    """Shuffled documents in files of about equal size, some of them in lower case."""
    rng.shuffle(documents)
    size = sum(map(len, documents))
    files = max(1, round(size / CHARACTERS_PER_FILE))
    per_file = -(-len(documents) // files)
    for number in range(files):
        shard = documents[number * per_file : (number + 1) * per_file]
        lines = (text.lower() if rng.random() < lowercase else text for text in shard)
        write_lines(out / f"corpus-{number:02}.txt.gz", lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """A gzip file whose bytes depend on the lines only: no time, no name in its header."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=5, mtime=0) as packed,
    ):
        packed.writelines(f"{line}\n".encode() for line in lines)


def evaluation_text(path: Path) -> Iterator[str]:
    """Validation or test text, cleaned like the training text, nothing dropped but headings."""
    return (text for text in map(clean, read_lines(path)) if text)


def build(args: argparse.Namespace) -> dict[str, Any]:
    """Write the corpus; gives the manifest."""
    rng = random.Random(args.seed)
    overlap = Overlap(args.data, EVALUATION_SETS)
    seen: set[bytes] = set()
    mixed: list[str] = []
    held_out: list[str] = []
    described: list[dict[str, Any]] = []
    for source in SOURCES:
        counts = Counts()
        train, kept_apart = source_documents(source, args, overlap, seen, counts)
        chosen = list(copies(train, source.weight, rng))
        counts.written_documents = len(chosen)
        counts.written_words = sum(len(text.split()) for text in chosen)
        mixed += chosen
        held_out += kept_apart
        described.append(asdict(source) | asdict(counts))
        print(
            f"{source.name}: {counts.words:,} words read, {counts.written_words:,} written "
            f"(x {source.weight}), {counts.dropped_for_evaluation:,} documents in evaluation sets",
            flush=True,
        )
    args.out.mkdir(parents=True, exist_ok=True)
    write_corpus(mixed, args.out, args.lowercase, rng)
    rng.shuffle(held_out)
    write_lines(args.out / "heldout.txt.gz", held_out)
    for part in ("valid", "test"):
        lines = evaluation_text(args.data / f"wikitext2/wiki.{part}.raw.gz")
        write_lines(args.out / f"wikitext2-{part}.txt.gz", lines)
    total = sum(source["written_words"] for source in described)
    for source in described:
        source["fraction_of_words"] = round(source["written_words"] / total, 4)
    dropped: Counter[str] = Counter()
    for source in described:
        dropped.update(source["in_evaluation_sets"])
    return {
        "seed": args.seed,
        "longest": args.longest,
        "shortest": args.shortest,
        "held_out": args.held_out,
        "lowercase": args.lowercase,
        "ngram": NGRAM,
        "documents": len(mixed),
        "words": total,
        "held_out_documents": len(held_out),
        "held_out_words": sum(len(text.split()) for text in held_out),
        "dropped_by_evaluation_set": dict(sorted(dropped.items())),
        "sources": described,
        "sha256": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(args.out.glob("*.txt.gz"))
        },
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=int, default=64, help="words per document")
    parser.add_argument("--shortest", type=int, default=8, help="words; shorter turns are joined")
    parser.add_argument("--held-out", type=float, default=0.004, help="fraction of the text")
    parser.add_argument(
        "--lowercase", type=float, default=0.15, help="fraction of documents put in lower case"
    )
    args = parser.parse_args(argv)
    if args.data is None:
        parser.error("--data: expected the folder with the texts, or set ELMO_DATA")
    args.data = Path(args.data)
    manifest = build(args)
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (args.out / "manifest.json").write_text(text + "\n", encoding="utf-8")
    print(f"{args.out}: {manifest['documents']:,} documents, {manifest['words']:,} words")


if __name__ == "__main__":
    main()

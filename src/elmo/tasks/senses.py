"""Sense-annotated text: SemCor, the all-words test sets of Raganato et al. (2017), and WordNet.

WordNet is read from its own file, index.sense; nothing else of it is needed.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.text.readers import open_bytes, read_lines

WORDNET = Path("/usr/share/wordnet")
"""Where Debian's packages wordnet-base and wordnet-sense-index put it."""
TEST_SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
_KEY = re.compile(r"[^\s;%]+%[1-5]:\d\d:\d\d:[^:;\s]*:\d*")
_PARTS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # of a key; satellites are adjectives
_TAGS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
Lemma = tuple[str, str]
"""A lemma in lower case, and n, v, a or r."""


@dataclass
class AnnotatedText:
    """Sentences in which some words have a sense."""

    words: list[list[str]] = field(default_factory=list[list[str]])
    spans: list[list[tuple[int, int]]] = field(default_factory=list[list[tuple[int, int]]])
    """For each sentence the annotated words, from start up to end: a term may have several."""
    lemmas: list[list[Lemma]] = field(default_factory=list[list[Lemma]])
    keys: list[list[tuple[str, ...]]] = field(default_factory=list[list[tuple[str, ...]]])
    """The sense keys of WordNet that are right."""

    def add(self, tokens: Iterable[tuple[str, Lemma | None, tuple[str, ...]]]) -> None:
        """Add a sentence of (token, lemma, senses); `_` in a token joins several words."""
        words: list[str] = []
        annotated: list[tuple[tuple[int, int], Lemma, tuple[str, ...]]] = []
        for token, lemma, keys in tokens:
            pieces = [piece for piece in re.split(r"[_\s]+", token) if piece] or [token]
            if lemma is not None and keys:
                annotated.append(((len(words), len(words) + len(pieces)), lemma, keys))
            words += pieces
        self.words.append(words)
        self.spans.append([span for span, _, _ in annotated])
        self.lemmas.append([lemma for _, lemma, _ in annotated])
        self.keys.append([keys for _, _, keys in annotated])

    @property
    def count(self) -> int:
        """Annotated words."""
        return sum(map(len, self.spans))


def lemma_of(key: str) -> Lemma:
    """The lemma and part of speech in a sense key.

    >>> lemma_of("bank%1:17:01::")
    ('bank', 'n')
    """
    lemma, _, rest = key.partition("%")
    return lemma.lower(), _PARTS[rest[0]]


def read_semcor(path: Path) -> AnnotatedText:
    """Read SemCor as tab-separated rows: document, sentence, token, lemma, part of speech, keys."""
    text = AnnotatedText()
    sentence: list[tuple[str, Lemma | None, tuple[str, ...]]] = []
    for number, line in enumerate(read_lines(path, ReadOptions()), start=1):
        row = line.rstrip("\r\n")
        if row.startswith("# ") and number == 1:
            continue
        if not row.strip():
            if sentence:
                text.add(sentence)
            sentence = []
            continue
        fields = row.split("\t")
        if len(fields) != 6:
            raise UserError(f"'{path}', line {number}: expected 6 columns, got {len(fields)}")
        keys = tuple(key.lstrip("_").lower() for key in _KEY.findall(fields[5]))
        sentence.append((fields[2], lemma_of(keys[0]) if keys else None, keys))
    if sentence:
        text.add(sentence)
    return text


def read_test_set(data: Path, gold: Path) -> AnnotatedText:
    """Read one of the test sets: an XML file, and the keys of its instances."""
    keys: dict[str, tuple[str, ...]] = {}
    for line in read_lines(gold, ReadOptions()):
        if fields := line.split():
            keys[fields[0]] = tuple(key.lower() for key in fields[1:])
    text = AnnotatedText()
    with open_bytes(data) as file:
        try:
            # expat itself limits how far entities expand.
            root = ElementTree.parse(file).getroot()  # noqa: S314
        except ElementTree.ParseError as error:
            raise UserError(f"'{data}': expected XML; {error}") from None
    for sentence in root.iter("sentence"):
        tokens: list[tuple[str, Lemma | None, tuple[str, ...]]] = []
        for token in sentence:
            name = token.get("id", "")
            lemma = (token.get("lemma", "").lower(), _TAGS.get(token.get("pos", ""), ""))
            is_instance = token.tag == "instance" and name in keys
            tokens.append((token.text or "", lemma if is_instance else None, keys.get(name, ())))
        text.add(tokens)
    return text


def first_senses(wordnet: Path) -> dict[Lemma, str]:
    """The first sense, the most frequent one, of every lemma of WordNet."""
    path = wordnet / "index.sense"
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; name the folder of WordNet 3.0 with --wordnet, or install "
            "Debian's wordnet-sense-index"
        )
    found: dict[Lemma, str] = {}
    for number, line in enumerate(read_lines(path, ReadOptions()), start=1):
        fields = line.split()
        if len(fields) != 4:
            raise UserError(f"'{path}', line {number}: expected 4 columns, got {len(fields)}")
        if fields[2] == "1":
            found[lemma_of(fields[0])] = fields[0].lower()
    return found


def most_frequent_senses(text: AnnotatedText) -> dict[Lemma, str]:
    """The same from annotated text, without WordNet: its lemmas alone, by frequency."""
    counts: defaultdict[Lemma, Counter[str]] = defaultdict(Counter)
    for lemmas, keys in zip(text.lemmas, text.keys, strict=True):
        for lemma, some in zip(lemmas, keys, strict=True):
            counts[lemma][some[0]] += 1
    return {lemma: some.most_common(1)[0][0] for lemma, some in counts.items()}

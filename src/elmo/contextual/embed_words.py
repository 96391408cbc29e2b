"""From a vocabulary to a file of its words' vectors, each word for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.bilm.model import BiLM
from elmo.bilm.token_vectors import token_vectors
from elmo.contextual.embedder import Embedder
from elmo.contextual.encoder import Vectors
from elmo.contextual.progress import Listener, Pace
from elmo.contextual.word_files import WordVectors, check_word_file, write_word_file
from elmo.errors import UserError
from elmo.interop.official_vocabulary import read_any_words
from elmo.text.vocabulary import UNKNOWN


@dataclass(frozen=True)
class EmbeddedWords:
    """A file of token vectors that was written."""

    path: Path
    words: int
    dim: int


def embed_words(
    embedder: Embedder,
    out: Path | str,
    words: Path | str | Sequence[str] | None = None,
    *,
    progress: Listener | None = None,
) -> EmbeddedWords:
    """Write the token layer's vectors of words to .npz, .parquet, .h5 or .hdf5.

    The words are those of a vocabulary file, a word a line, or those given, or else the model's
    own. Official programs, and `Embedder.from_official`, take them from .hdf5 (or .h5).
    """
    out = Path(out)
    check_word_file(out)
    model = embedder.model
    chosen = _words(words, model)
    portions = _counted(token_vectors(model, chosen), progress, len(chosen))
    write_word_file(out, WordVectors(chosen, model.config.width, portions))
    return EmbeddedWords(out, len(chosen), model.config.width)


def _words(words: Path | str | Sequence[str] | None, model: BiLM) -> tuple[str, ...]:
    if words is None:
        return model.vocabulary.words
    given = read_any_words(Path(words)) if isinstance(words, Path | str) else words
    chosen = tuple(given)
    if not chosen:
        raise UserError("no word was given whose vector could be written")
    for word in chosen:
        if not word or word != word.strip() or "\n" in word or "\t" in word:
            raise UserError(f"expected words, without white space around them; got {word!r:.80}")
    if not model.config.spelled:
        _require_known(chosen, model)
    return chosen


def _require_known(words: Sequence[str], model: BiLM) -> None:
    """A model of words has nothing to say of others, and must not seem to have."""
    unknown = [
        word
        for word, place in zip(words, model.vocabulary.encode(words).tolist(), strict=True)
        if place == UNKNOWN and word != model.vocabulary.words[UNKNOWN]
    ]
    if unknown:
        shown = ", ".join(map(repr, unknown[:5]))
        raise UserError(
            f"{len(unknown):,} of {len(words):,} words are unknown to this model, which reads no "
            f"characters: {shown}; leave them out, or use its own vocabulary"
        )


def _counted(
    portions: Iterator[Vectors], progress: Listener | None, total: int
) -> Iterator[Vectors]:
    pace = None if progress is None else Pace(progress, total)
    for portion in portions:
        yield portion
        if pace is not None:
            pace.add(len(portion), len(portion))

"""From texts in files to a file of vectors, in parts, so that a stopped job goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo.config import Json, to_json
from elmo.contextual.embedder import Embedder
from elmo.contextual.encode_config import EncodeConfig
from elmo.contextual.encoder import Encoder
from elmo.contextual.portions import TokenisedText, portions, tell_empty, tokenised
from elmo.contextual.progress import Listener, Pace
from elmo.contextual.start_state import state_tensors
from elmo.contextual.vector_files import check_vector_file, write_vector_file
from elmo.contextual.vector_parts import PARTS_FORMAT, PartsFolder, PartTexts, end_to_end
from elmo.text.sources import ReadOptions, Source, read_documents, resolve

TOKENS_A_PART = 1 << 16
"""What a job that is killed loses at most, and about what it holds in memory."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddedFile:
    """A file of vectors that was written."""

    path: Path
    texts: int
    tokens: int
    dim: int
    empty: tuple[int, ...]
    """The numbers, counted from 0, of the texts without words."""


@dataclass(frozen=True)
class EmbedJob:
    """Which texts become which vectors of which model, in which file."""

    embedder: Embedder
    sources: Sequence[Source]
    out: Path
    config: EncodeConfig
    read: ReadOptions

    @property
    def parts(self) -> PartsFolder:
        """Where the vectors are until the file is whole."""
        return PartsFolder(self.out.with_name(f"{self.out.name}.parts"))

    def identity(self) -> Json:
        """All that decides what the vectors are: parts of another job must not be taken for it."""
        embedder = self.embedder
        warm = state_tensors(embedder.warm_state) if self.config.start == "warm" else {}
        settings: Json = {
            "model": _digest(embedder.model.state_dict(), embedder.model.vocabulary.words),
            "model_settings": to_json(embedder.model.config),
            "mix": _digest(embedder.mix.state_dict()),
            "mix_settings": to_json(embedder.mix.config),
            "start_state": _digest(warm),
            "tokenizer": to_json(embedder.loaded.tokenizer),
            "precision": str(embedder.model.compute_dtype),
            "texts": [source.fingerprint() for source in self.sources],
            "read": to_json(self.read),
            "parts_format": PARTS_FORMAT,
            "tokens_a_part": TOKENS_A_PART,
            **to_json(self.config),
        }
        return json.loads(json.dumps(settings))


def _digest(tensors: Mapping[str, Tensor], words: Sequence[str] = ()) -> str:
    """A name for these tensors and words that no others have."""
    whole = hashlib.sha256(json.dumps([list(tensors), words]).encode())
    for tensor in tensors.values():
        whole.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def embed_text(
    embedder: Embedder,
    sources: Sequence[str] | str,
    out: Path | str,
    config: EncodeConfig | None = None,
    *,
    read: ReadOptions | None = None,
    progress: Listener | None = None,
) -> EmbeddedFile:
    """Write the vectors of files, folders, patterns, '-' or 'ag_news' to .npz, .parquet or .h5.

    Given again after it was stopped, it goes on where it was, and the file is the same.
    """
    check_vector_file(Path(out))
    found = resolve([sources] if isinstance(sources, str) else sources)
    job = EmbedJob(
        embedder,
        found,
        Path(out),
        config or EncodeConfig(),
        read or ReadOptions(),
    )
    encoder = embedder.encoder(job.config)
    job.parts.open(job.identity())
    _encode_rest(job, encoder, progress)
    write_vector_file(job.out, job.parts, pooled=job.config.output == "pooled")
    result = _result(job, encoder.dim)
    shutil.rmtree(job.parts.path)
    return result


def _encode_rest(job: EmbedJob, encoder: Encoder, progress: Listener | None) -> None:
    """Encode and write what is not yet in the parts."""
    done = len(job.parts.lengths())
    if done:
        log.info("going on behind the %s texts of an earlier run", f"{done:,}")
    carried = job.config.start == "carry"
    if carried:
        encoder.state = job.parts.last_state(encoder.model)
    pace = None if progress is None else Pace(progress, _count(job), done)
    for portion in _portions(job, done):
        tell_empty(portion)
        words = [text.words for text in portion]
        vectors = encoder.encode(words, None if pace is None else pace.add)
        rows = end_to_end(vectors, pooled=job.config.output == "pooled")
        texts = PartTexts(tuple(str(one.text) for one in portion), tuple(map(tuple, words)))
        job.parts.add(texts, rows, encoder.state if carried else None)


def _portions(job: EmbedJob, done: int) -> Iterator[list[TokenisedText]]:
    documents = islice(read_documents(job.sources, job.read), done, None)
    texts = tokenised(job.embedder.loaded, documents, first=done)
    return portions(texts, TOKENS_A_PART, job.config.slots)


def _count(job: EmbedJob) -> int:
    return sum(1 for _ in read_documents(job.sources, job.read))


def _result(job: EmbedJob, dim: int) -> EmbeddedFile:
    lengths = job.parts.lengths()
    empty: list[int] = np.flatnonzero(lengths == 0).tolist()
    return EmbeddedFile(job.out, len(lengths), int(lengths.sum()), dim, tuple(empty))

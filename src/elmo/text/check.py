"""A look through a corpus before training on it: one pass, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from elmo.errors import UserError
from elmo.text.corpus_report import CorpusReport, Place
from elmo.text.readers.options import ReadOptions
from elmo.text.readers.plain import read_plain
from elmo.text.sources import Source, read_documents
from elmo.text.survey import Survey
from elmo.text.tokenizers import TokenizerConfig, build_tokenizer

LINES_BETWEEN_REPORTS = 1000


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What to look through, and the settings with which it would be trained on."""

    sources: Sequence[Source]
    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    held_out_share: float = 0.02
    window: int = 256
    min_count: int = 3
    max_vocabulary: int | None = 100_000


def inspect(request: CheckRequest, progress: Callable[[int], None] | None = None) -> CorpusReport:
    """Read a corpus once and report on it; `progress` is told the lines or rows read so far.

    Files that cannot be read to their end are part of the report, unless nothing can be read.
    """
    tokenize = build_tokenizer(request.tokenizer)
    survey = Survey(held_out_share=request.held_out_share, window=request.window)
    unreadable: list[str] = []
    for source in request.sources:
        try:
            for place, text in _lenient(source, request.read):
                survey.add(place, text, tokenize(text))
                if progress and survey.lines % LINES_BETWEEN_REPORTS == 0:
                    progress(survey.lines)
        except UserError as error:
            unreadable.append(str(error))
    if survey.is_empty:
        raise UserError("\n".join(unreadable) or "there is not one word in this text")
    suspects = [source for source in request.sources if source.name in survey.replaced_in]
    return CorpusReport(
        files=len(request.sources),
        unreadable=tuple(unreadable),
        blank_lines=survey.blank_lines if _any_plain(request.sources) else None,
        train=survey.train,
        held_out=survey.held_out,
        lengths=survey.lengths,
        replaced=survey.replaced,
        not_utf8=tuple(_faults(suspects, request.read)),
        replaces_errors=request.read.errors == "replace",
        control=survey.control,
        html=survey.html,
        duplicates=survey.copies.count(),
        words=survey.words.describe(request.min_count, request.max_vocabulary),
    )


def _lenient(source: Source, read: ReadOptions) -> Iterator[tuple[Place, str]]:
    """The documents of a source and where they are, whatever their bytes; also blank lines."""
    read = replace(read, errors="replace")
    if source.format == "plain":
        yield from _lines(source, read)
        return
    for number, text in enumerate(read_documents([source], read), start=1):
        yield Place(source=source.name, unit="document", number=number), text


def _lines(source: Source, read: ReadOptions) -> Iterator[tuple[Place, str]]:
    is_blank = True
    for number, (text,) in enumerate(read_plain(source.path, None, read), start=1):
        is_blank = is_blank and not text.strip()
        yield Place(source=source.name, unit="line", number=number), " ".join(text.splitlines())
    if is_blank:
        raise UserError(f"'{source.name}' holds no text; leave it out, or check how it was written")


def _faults(suspects: Sequence[Source], read: ReadOptions) -> Iterator[str]:
    """What stops a strict reading; nothing if a file holds U+FFFD itself."""
    for source in suspects:
        try:
            for _ in read_documents([source], replace(read, errors="strict")):
                pass
        except UserError as error:
            yield str(error)


def _any_plain(sources: Sequence[Source]) -> bool:
    return any(source.format == "plain" for source in sources)

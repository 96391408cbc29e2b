"""An embedder as a function of batches of rows, for `map` of Hugging Face's datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from elmo.config import check
from elmo.contextual.encode_config import EncodeConfig
from elmo.errors import UserError

if TYPE_CHECKING:
    from elmo.contextual.embedder import Embedder


@dataclass(frozen=True)
class MapFunction:
    """Columns of a batch in, a column of vectors out."""

    embedder: Embedder
    config: EncodeConfig
    column: str
    into: str

    def __post_init__(self) -> None:
        check(self.config)
        if self.config.start == "carry":
            raise UserError("start: batches may come in any order, so no state can be carried")

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The vectors of a batch's texts."""
        if self.column not in rows:
            raise UserError(
                f"the rows have no column {self.column!r}, but {', '.join(sorted(rows))}; name the "
                "one that holds the text: as_map_fn(column=…), and give map batched=True"
            )
        settings = asdict(self.config)
        return {self.into: list(self.embedder.encode_iter(rows[self.column], **settings))}

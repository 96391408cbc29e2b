"""Settings of the way through a corpus; apart, so that they can be shown without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How text is cut into batches."""

    batching: Literal["documents", "stream"] = "documents"
    """documents: texts of like length together; stream: running text in windows, state carried."""
    batch_tokens: int = 4096
    """Tokens a batch, padding included; 1024 or so for a text of less than a million words."""
    window: int = 256
    """Longest stretch read in one step; longer texts go on in the next, with the state carried."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.window < 2:
            yield f"window: at least 2 tokens are needed, got {self.window}"
        if self.batch_tokens < self.window:
            yield (
                f"batch_tokens ({self.batch_tokens}) must be at least window ({self.window}): "
                "a batch holds at least one text"
            )

"""A linear-chain conditional random field over the tags of a sentence.

By hand: pytorch-crf and TorchCRF have had no release since 2019 and 2020. Tested against the sum
and the maximum over all tag sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from elmo.tasks.config import Scheme

FORBIDDEN = -1e4
"""Score of a transition that the scheme does not allow; finite, so that no gradient is NaN."""


class LinearChainCRF(nn.Module):
    """Scores a sequence of tags by what each word says and by which tag follows which.

    Args:
        tags: How many tags there are.
        allowed: Which tag, column, may follow which, row: (tags + 1, tags + 1). The last row says
            which tags may come first, the last column which may come last. Default: all.
    """

    forbidden: Tensor

    def __init__(self, tags: int, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.tags = tags
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from row to column
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))
        allowed = torch.ones(tags + 1, tags + 1, dtype=torch.bool) if allowed is None else allowed
        self.register_buffer("forbidden", (~allowed).float() * FORBIDDEN)

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
        forbidden = self.forbidden.to(self.transitions.dtype)
        return (
            self.transitions + forbidden[:-1, :-1],
            self.starts + forbidden[-1, :-1],
            self.ends + forbidden[:-1, -1],
        )

    def log_likelihood(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Log-probability of each sentence's tags, (batch,); 0 for an empty sentence.

        Args:
            emissions: Score of each tag at each word, (batch, words, tags).
            tags: The correct ones, (batch, words); any valid index at padding.
            lengths: Words per sentence, (batch,).
        """
        transitions, starts, ends = self._scores()
        batch, words, _ = emissions.shape
        if not words:
            return emissions.new_zeros(batch)
        rows = torch.arange(batch, device=emissions.device)
        inside = torch.arange(words, device=lengths.device) < lengths[:, None]  # (batch, words)
        picked = emissions.gather(2, tags[:, :, None])[:, :, 0]  # (batch, words)
        score = starts[tags[:, 0]] + (picked * inside).sum(1)
        moves = transitions[tags[:, :-1], tags[:, 1:]]  # (batch, words - 1)
        score = score + (moves * inside[:, 1:]).sum(1)
        score = score + ends[tags[rows, (lengths - 1).clamp(min=0)]]

        total = starts + emissions[:, 0]  # (batch, tags): all sequences that end with a tag
        for idx in range(1, words):
            longer = (total[:, :, None] + transitions).logsumexp(1) + emissions[:, idx]
            total = torch.where(inside[:, idx, None], longer, total)
        found = score - (total + ends).logsumexp(1)
        return torch.where(lengths > 0, found, torch.zeros_like(found))

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor) -> list[list[int]]:
        """The most probable sequence of tags of each sentence (Viterbi)."""
        transitions, starts, ends = self._scores()
        batch, words, _ = emissions.shape
        if not words:
            return [[] for _ in range(batch)]
        inside = torch.arange(words, device=lengths.device) < lengths[:, None]
        best = starts + emissions[:, 0]  # (batch, tags)
        # Padding keeps each tag as it is, so that one walk back serves all lengths.
        same = torch.arange(self.tags, device=emissions.device).expand(batch, -1)
        pointers: list[Tensor] = []  # per step (batch, tags): the tag before
        for idx in range(1, words):
            scores, before = (best[:, :, None] + transitions).max(1)
            now = inside[:, idx, None]
            best = torch.where(now, scores + emissions[:, idx], best)
            pointers.append(torch.where(now, before, same))
        tag = (best + ends).argmax(1)  # (batch,)
        reverse = [tag]
        for pointer in reversed(pointers):
            tag = pointer.gather(1, tag[:, None])[:, 0]
            reverse.append(tag)
        found = cast("list[list[int]]", torch.stack(reverse[::-1], dim=1).tolist())
        ends_at = cast("list[int]", lengths.tolist())
        return [some[:length] for some, length in zip(found, ends_at, strict=True)]


def allowed_transitions(tags: Sequence[str], scheme: Scheme) -> Tensor:
    """Which tag may follow which in a scheme, as `LinearChainCRF` takes it."""
    size = len(tags)
    allowed = torch.ones(size + 1, size + 1, dtype=torch.bool)
    split = [(prefix, kind) for prefix, _, kind in (tag.partition("-") for tag in tags)]
    outside = ("O", "")
    for row, (before, kind) in enumerate([*split, outside]):
        for column, (after, other) in enumerate([*split, outside]):
            same = kind == other
            if scheme == "iob2":
                fits = after != "I" or (before in "BI" and same)
            elif scheme == "iob1":
                fits = after != "B" or (before in "BI" and same)
            else:
                is_open = before in ("B", "I")
                fits = (same and after in ("I", "E")) if is_open else after not in ("I", "E")
            allowed[row, column] = fits
    return allowed

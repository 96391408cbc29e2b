"""Where a run stands: everything, besides tensors, that it needs to go on exactly as before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elmo.pretrain.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Position:
    """What lies behind a run. Random numbers need no place here: they follow from seed and step."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch already read."""
    targets: int = 0
    """Words each direction has been asked for."""
    evaluations: int = 0
    best_perplexity: float | None = None
    best_step: int = 0
    worse_evaluations: int = 0
    """Evaluations since the best one."""
    frozen_perplexity: float | None = None
    """Of the held-out text when the softmax alone had learned: what the biLM is trained on from."""
    finished: bool = False

    def after_batch(self, targets: int) -> Position:
        """One step further."""
        return replace(
            self, step=self.step + 1, batch=self.batch + 1, targets=self.targets + targets
        )

    def after_epoch(self, settings: TrainingConfig) -> Position:
        """At the start of the next epoch, or at the end."""
        epoch = self.epoch + 1
        finished = epoch >= settings.epochs or self.has_lost_patience(settings.patience)
        return replace(self, epoch=epoch, batch=0, finished=finished)

    def has_lost_patience(self, patience: int | None) -> bool:
        """Whether enough evaluations in a row were worse than the best one."""
        return patience is not None and self.worse_evaluations >= patience

    def after_evaluation(self, perplexity: float, *, ends_freeze: bool = False) -> Position:
        """With one more evaluation, which may be the best one, or the last of a frozen biLM."""
        frozen = perplexity if ends_freeze else self.frozen_perplexity
        seen = replace(self, evaluations=self.evaluations + 1, frozen_perplexity=frozen)
        if self.best_perplexity is None or perplexity < self.best_perplexity:
            return replace(
                seen, best_perplexity=perplexity, best_step=self.step, worse_evaluations=0
            )
        return replace(seen, worse_evaluations=self.worse_evaluations + 1)

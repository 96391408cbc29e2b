"""The first part of a run in which the biLM stays as it is and only the softmax learns."""

from __future__ import annotations

from elmo.bilm.model import BiLM
from elmo.pretrain.position import Position


class FrozenStart:
    """Freezes all but the softmax until so many words have been predicted a direction."""

    def __init__(self, model: BiLM, targets: float) -> None:
        self._targets = targets
        self._is_on = False
        self._parameters = [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and not name.startswith("output.")
        ]

    def set_at(self, position: Position) -> None:
        """Freeze or thaw the biLM for the next step: the position alone decides, so runs resume."""
        self._is_on = position.targets < self._targets
        for parameter in self._parameters:
            parameter.requires_grad_(not self._is_on)

    def ended_at(self, position: Position) -> bool:
        """Whether the step that led here was the last one with the biLM frozen."""
        return self._is_on and position.targets >= self._targets

    def lift(self) -> None:
        """Leave the model as it was found."""
        for parameter in self._parameters:
            parameter.requires_grad_(True)

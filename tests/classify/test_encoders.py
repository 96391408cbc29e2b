"""What an encoder makes of a text does not depend on what stands beside it or behind its end."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from elmo.classify.config import NetworkConfig
from elmo.classify.encoders import build_encoder


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_each_text_as_if_alone(kind: Any) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NetworkConfig(encoder=kind, encoder_dim=8), inputs=5)
    assert encoder is not None
    encoder = encoder.double().eval()
    lengths = torch.tensor([4, 1, 0, 3])
    vectors = torch.randn(4, 6, 5, dtype=torch.float64)
    together = encoder(vectors, lengths)
    assert together.shape == (4, 6, encoder.output_dim)
    assert torch.isfinite(together).all()
    for row, length in enumerate(lengths.tolist()):
        if length:
            alone = encoder(vectors[row : row + 1, :length], lengths[row : row + 1])
            torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_words_see_each_other(kind: Any) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NetworkConfig(encoder=kind, encoder_dim=8), inputs=5)
    assert encoder is not None
    vectors = torch.randn(1, 3, 5)
    before = encoder(vectors, torch.tensor([3]))
    vectors[0, 2] += 1
    assert not torch.allclose(before[0, 0], encoder(vectors, torch.tensor([3]))[0, 0])


def test_none_is_none() -> None:
    assert build_encoder(NetworkConfig(encoder="none"), inputs=5) is None

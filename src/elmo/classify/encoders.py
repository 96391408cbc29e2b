"""What reads a text's vectors in order before they are pooled: an LSTM, or attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.classify.config import NetworkConfig

HEADS = 4


class LSTMEncoder(nn.Module):
    """An LSTM in both directions; what is read ends with the text, not with its padding."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, units, bidirectional=True, batch_first=True)
        self.output_dim = 2 * units

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Encode (batch, words, inputs)."""
        # A text without words is read as one of zeros; pooling does not count it.
        packed = pack_padded_sequence(
            vectors, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, _ = self.lstm(packed)
        return pad_packed_sequence(encoded, batch_first=True, total_length=vectors.shape[1])[0]


class AttentionEncoder(nn.Module):
    """Each word attends to all words of its text, and adds what it finds to itself."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.project = nn.Linear(inputs, units)
        self.block = nn.TransformerEncoderLayer(
            units, HEADS, 2 * units, dropout=0.0, batch_first=True, norm_first=True
        )
        self.output_dim = units

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Encode (batch, words, inputs)."""
        places = torch.arange(vectors.shape[1], device=vectors.device)
        # A text without words attends to its padding: no word at all would give no number.
        padding = places[None] >= lengths.clamp(min=1)[:, None]
        return self.block(self.project(vectors), src_key_padding_mask=padding)


def build_encoder(config: NetworkConfig, inputs: int) -> LSTMEncoder | AttentionEncoder | None:
    """The encoder that the settings ask for."""
    if config.encoder == "none":
        return None
    kind = LSTMEncoder if config.encoder == "lstm" else AttentionEncoder
    return kind(inputs, config.encoder_dim)

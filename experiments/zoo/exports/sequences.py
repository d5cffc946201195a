"""Models of sequences other than text transformers: models of sound, and recurrent models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.exports.parts import Attention, FeedForward


class _WhisperEncoder(nn.Module):
    """Two convolutions along time, positions, and an encoder that normalises first."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)
        self.positions = nn.Parameter(0.02 * torch.randn(1500, width))
        self.attention = nn.ModuleList(Attention(width, heads, key_bias=False) for _ in range(layers))
        self.forwards = nn.ModuleList(FeedForward(width, 4 * width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.act = nn.GELU()

    def forward(self, sound: Tensor) -> Tensor:
        x = self.act(self.second(self.act(self.first(sound)))).transpose(1, 2) + self.positions
        for number, (attention, forward) in enumerate(zip(self.attention, self.forwards, strict=True)):
            x = x + attention(self.norms[2 * number](x))
            x = x + forward(self.norms[2 * number + 1](x))
        return self.norms[-1](x)


def whisper_tiny_encoder() -> nn.Module:
    """Return the encoder of Whisper tiny (arXiv 2212.04356)."""
    return _WhisperEncoder(384, 6, 4)


class _Recurrent(nn.Module):
    """Words, recurrent layers, and scores for every position."""

    def __init__(self, words: int, width: int, recurrent: nn.Module, outputs: int, labels: int) -> None:
        super().__init__()
        self.words, self.recurrent = nn.Embedding(words, width), recurrent
        self.labels = nn.Linear(outputs, labels)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.labels(self.recurrent(self.words(tokens))[0])


def lstm_language_model() -> nn.Module:
    """Return the medium LSTM language model of the Penn Treebank (arXiv 1409.2329)."""
    return _Recurrent(10000, 650, nn.LSTM(650, 650, 2, batch_first=True), 650, 10000)


def lstm_tagger() -> nn.Module:
    """Return a tagger of two LSTMs, forwards and backwards (arXiv 1508.01991)."""
    recurrent = nn.LSTM(100, 100, batch_first=True, bidirectional=True)
    return _Recurrent(20000, 100, recurrent, 200, 9)


def gru_tagger() -> nn.Module:
    """Return a tagger of two layers of GRUs, forwards and backwards (arXiv 1406.1078)."""
    recurrent = nn.GRU(100, 128, 2, batch_first=True, bidirectional=True)
    return _Recurrent(20000, 100, recurrent, 256, 17)

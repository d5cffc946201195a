"""Small torch models as people export them, with dynamic batch, sequence, height and width."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
nn, F = torch.nn, torch.nn.functional
WIDTH, HEADS, WORDS, POSITIONS = 32, 4, 50, 64


def _heads(y: Any) -> Any:
    return y.view(y.size(0), y.size(1), HEADS, y.size(2) // HEADS).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention written out, with a mask added to the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = _heads(self.q(x)), _heads(self.k(x)), _heads(self.v(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous()
        return self.o(y.view(y.size(0), y.size(1), WIDTH))


class Block(nn.Module):
    """A transformer's layer after BERT (norms last) or GPT-2 (norms first)."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first, self.attention = first, Attention()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any, mask: Any) -> Any:
        if self.first:
            x = x + self.attention(self.one(x), mask)
            return x + self.down(F.gelu(self.up(self.two(x)), approximate="tanh"))
        x = self.one(x + self.attention(x, mask))
        return self.two(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT: positions cut from a stored table, an attention mask of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.register_buffer("position_ids", torch.arange(POSITIONS).expand((1, -1)))
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList([Block(False) for _ in range(2)])

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.words(ids) + self.places(self.position_ids[:, : ids.size(1)])
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, added)
        return x


class Gpt2(nn.Module):
    """GPT-2: positions by arange, a causal mask cut from a stored table, tied output weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        causal = torch.tril(torch.ones(POSITIONS, POSITIONS, dtype=torch.bool))
        self.register_buffer("causal", causal.view(1, 1, POSITIONS, POSITIONS))
        self.blocks = nn.ModuleList([Block(True) for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Any) -> Any:
        n = ids.size(1)
        x = self.words(ids) + self.places(torch.arange(n, device=ids.device))
        mask = torch.where(self.causal[:, :, :n, :n], 0.0, -1e4)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.words.weight.T


class Vit(nn.Module):
    """ViT: patches by a convolution, a class token repeated for the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 17, WIDTH))
        self.blocks = nn.ModuleList([Block(True) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, image: Any) -> Any:
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x, torch.zeros(()))
        return self.head(x[:, 0])


class Llama(nn.Module):
    """LLaMA: rotary positions, grouped keys and values, RMS norms, a gated unit."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        size = WIDTH // HEADS
        self.register_buffer("frequency", 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size))
        self.q, self.o = nn.Linear(WIDTH, WIDTH, False), nn.Linear(WIDTH, WIDTH, False)
        self.k, self.v = (nn.Linear(WIDTH, WIDTH // 2, False) for _ in range(2))
        self.one, self.two = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))
        self.gate, self.up = nn.Linear(WIDTH, 64, False), nn.Linear(WIDTH, 64, False)
        self.down = nn.Linear(64, WIDTH, False)

    @staticmethod
    def _norm(x: Any, weight: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    @staticmethod
    def _rotated(x: Any, cos: Any, sin: Any) -> Any:
        half = x.size(-1) // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, ids: Any) -> Any:
        batch, n = ids.shape
        x = self.words(ids)
        angle = torch.arange(n).float()[:, None] * self.frequency[None, :]
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos(), angle.sin()
        mask = torch.full((n, n), -1e4).triu(1)
        y = self._norm(x, self.one)
        q = self.q(y).view(batch, n, HEADS, -1).transpose(1, 2)
        k = self.k(y).view(batch, n, HEADS // 2, -1).transpose(1, 2)
        v = self.v(y).view(batch, n, HEADS // 2, -1).transpose(1, 2)
        q, k = self._rotated(q, cos, sin), self._rotated(k, cos, sin)
        k, v = (
            t[:, :, None].expand(batch, HEADS // 2, 2, n, t.size(-1)).reshape(batch, HEADS, n, -1)
            for t in (k, v)
        )
        y = (q @ k.transpose(2, 3) / math.sqrt(q.size(-1)) + mask).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(batch, n, WIDTH))
        y = self._norm(x, self.two)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Unet(nn.Module):
    """A UNet: two halvings, nearest upsampling, skips joined."""

    def __init__(self) -> None:
        super().__init__()

        def pair(a: int, b: int) -> Any:
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

        self.one, self.two, self.three = pair(3, 8), pair(8, 16), pair(16, 32)
        self.four, self.five, self.head = pair(48, 16), pair(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, image: Any) -> Any:
        a = self.one(image)
        b = self.two(F.max_pool2d(a, 2))
        c = self.three(F.max_pool2d(b, 2))
        b = self.four(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.five(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.head(a)


_TEXT = {0: "batch", 1: "sequence"}
_IDS = torch.randint(0, WORDS, (2, 11))
#: Model, example inputs, names, dynamic axes.
CASES: dict[str, tuple[Any, tuple[Any, ...], list[str], dict[str, dict[int, str]]]] = {
    "bert": (
        Bert,
        (_IDS, torch.ones(2, 11, dtype=torch.int64)),
        ["ids", "mask"],
        {"ids": _TEXT, "mask": _TEXT},
    ),
    "gpt2": (Gpt2, (_IDS,), ["ids"], {"ids": _TEXT}),
    "llama": (Llama, (_IDS,), ["ids"], {"ids": _TEXT}),
    "vit": (Vit, (torch.randn(2, 3, 32, 32),), ["image"], {"image": {0: "batch"}}),
    "unet": (Unet, (torch.randn(2, 3, 32, 48),), ["image"], {"image": {0: "batch", 2: "height", 3: "width"}}),
}


def exported(name: str, *, dynamo: bool) -> bytes:
    """Return a model as torch's exporter writes it: the old one, or the one by torch.export."""
    torch.manual_seed(0)
    make, inputs, names, axes = CASES[name]
    model = make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 1.5)
    target = io.BytesIO()
    log = logging.getLogger("torch.onnx")
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if dynamo:
            dynamic = tuple(
                {
                    a: torch.export.Dim(n, min=2, max=POSITIONS - 1)
                    if n in ("batch", "sequence")
                    else 4 * torch.export.Dim(f"q{n}", min=2, max=64)
                    for a, n in axes[i].items()
                }
                for i in names
            )
            program = torch.onnx.export(
                model,
                inputs,
                input_names=names,
                output_names=["y"],
                dynamic_shapes=dynamic,
                dynamo=True,
                verbose=False,
                optimize=True,
            )
            return program.model_proto.SerializeToString()
        torch.onnx.export(
            model,
            inputs,
            target,
            input_names=names,
            output_names=["y"],
            dynamo=False,
            dynamic_axes={**axes, "y": axes[names[0]]},
            opset_version=17,
        )
    return target.getvalue()

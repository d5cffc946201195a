"""Chains of pointwise operators, some with a reduction over rows, as they occur in models.

The study ``experiments/composites.yaml`` runs them in ONNX Runtime and as one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from workbench.graph import Graph, GraphBuilder

#: Rows and columns of the values: tokens and features of a small transformer.
ROWS, COLUMNS = 256, 768


def _gated(b: GraphBuilder) -> int:
    """Return silu(x) * z, the gate of LLaMA's feed-forward block."""
    x, z = b.input("x", (ROWS, COLUMNS)), b.input("z", (ROWS, COLUMNS))
    return b.op("mul", b.op("mul", x, b.op("sigmoid", x)), z)


def _number(b: GraphBuilder, value: float) -> int:
    return b.op("scalar", value=value, dtype="float32")


def _tanh_gelu(b: GraphBuilder) -> int:
    """Return gelu in its tanh approximation after a bias, as GPT-2 writes it out."""
    x = b.op("add", b.input("x", (ROWS, COLUMNS)), b.weight((COLUMNS,)))
    cube = b.op("mul", b.op("mul", x, b.op("mul", x, x)), _number(b, 0.044715))
    inner = b.op("tanh", b.op("mul", b.op("add", x, cube), _number(b, math.sqrt(2 / math.pi))))
    return b.op("mul", b.op("mul", x, b.op("add", inner, _number(b, 1.0))), _number(b, 0.5))


def _mish(b: GraphBuilder) -> int:
    """Return mish(x) = x * tanh(log(1 + exp(x))), as YOLOv4 writes it out."""
    x = b.input("x", (ROWS, COLUMNS))
    return b.op("mul", x, b.op("tanh", b.op("log", b.op("add", b.op("exp", x), _number(b, 1.0)))))


def _residual_rms(b: GraphBuilder) -> int:
    """Return a root-mean-square norm of a residual sum, as exported: squares, mean, root, quotient."""
    x = b.op("add", b.input("x", (ROWS, COLUMNS)), b.input("z", (ROWS, COLUMNS)))
    mean = b.op("reduce_mean", b.op("mul", x, x), axes=(-1,), keepdims=1)
    root = b.op("sqrt", b.op("add", mean, _number(b, 1e-5)))
    return b.op("mul", b.op("div", x, root), b.weight((COLUMNS,)))


def _residual_norm(b: GraphBuilder) -> int:
    """Return a layer norm of a residual sum with a bias."""
    x = b.op("add", b.input("x", (ROWS, COLUMNS)), b.weight((COLUMNS,)))
    total = b.op("add", x, b.input("z", (ROWS, COLUMNS)))
    return b.op("layernorm", total, b.weight((COLUMNS,)), b.weight((COLUMNS,)), axis=-1, eps=1e-5)


def _capped_softmax(b: GraphBuilder) -> int:
    """Return softmax of attention scores with a soft cap and a mask, as in Gemma 2."""
    x, mask = b.input("x", (8, 128, 128)), b.input("mask", (128, 128))
    capped = b.op("mul", b.op("tanh", b.op("div", x, _number(b, 50.0))), _number(b, 50.0))
    return b.op("softmax", b.op("add", capped, mask), axis=-1)


def _hard_swish(b: GraphBuilder) -> int:
    """Return hardswish, written out, of a scaled and shifted image, as in MobileNet v3."""
    x = b.input("x", (1, 64, 56, 56))
    x = b.op("mul", x, b.weight((64, 1, 1)))
    x = b.op("add", x, b.weight((64, 1, 1)))
    six = b.op("clip", b.op("add", x, _number(b, 3.0)), low=0.0, high=6.0)
    return b.op("div", b.op("mul", x, six), _number(b, 6.0))


def _masked_softmax(b: GraphBuilder) -> int:
    """Return softmax of attention scores divided by the root of the width, with a mask."""
    x, mask = b.input("x", (8, 128, 128)), b.input("mask", (128, 128))
    return b.op("softmax", b.op("add", b.op("div", x, _number(b, 8.0)), mask), axis=-1)


def _clamped_gate(b: GraphBuilder) -> int:
    """Return min(x, 7) * sigmoid(1.702 min(x, 7)) * (clip(z, -7, 7) + 1), the gate of gpt-oss."""
    x = b.op("clip", b.input("x", (ROWS, COLUMNS)), low=-math.inf, high=7.0)
    z = b.op("clip", b.input("z", (ROWS, COLUMNS)), low=-7.0, high=7.0)
    gate = b.op("mul", x, b.op("sigmoid", b.op("mul", x, _number(b, 1.702))))
    return b.op("mul", gate, b.op("add", z, _number(b, 1.0)))


def _modulated_norm(b: GraphBuilder) -> int:
    """Return a layer norm with a scale and a shift that are computed, as in diffusion transformers."""
    ones, zeros = b.op("ones", shape=(COLUMNS,), dtype="float32"), b.weight((COLUMNS,))
    x = b.op("layernorm", b.input("x", (ROWS, COLUMNS)), ones, zeros, axis=-1, eps=1e-6)
    scale = b.op("add", b.input("scale", (1, COLUMNS)), _number(b, 1.0))
    return b.op("add", b.op("mul", x, scale), b.input("shift", (1, COLUMNS)))


def _cell(b: GraphBuilder) -> int:
    """Return the output of an LSTM cell from its four gates and its state."""
    forget, enter, leave, new, state = (b.input(n, (ROWS, COLUMNS)) for n in "fiogc")
    kept = b.op("mul", b.op("sigmoid", forget), state)
    state = b.op("add", kept, b.op("mul", b.op("sigmoid", enter), b.op("tanh", new)))
    return b.op("mul", b.op("sigmoid", leave), b.op("tanh", state))


CHAINS: Final[Mapping[str, Callable[[GraphBuilder], int]]] = {
    "gated": _gated,
    "tanh-gelu": _tanh_gelu,
    "mish": _mish,
    "residual-rms": _residual_rms,
    "residual-norm": _residual_norm,
    "capped-softmax": _capped_softmax,
    "masked-softmax": _masked_softmax,
    "hard-swish": _hard_swish,
    "clamped-gate": _clamped_gate,
    "modulated-norm": _modulated_norm,
    "lstm-cell": _cell,
}


def chain(name: str) -> Graph:
    """Return a chain as a graph; raise LookupError for an unknown name.

    >>> chain("mish").operators()
    {'exp': 1, 'scalar': 1, 'add': 1, 'log': 1, 'tanh': 1, 'mul': 1}
    """
    if name not in CHAINS:
        raise LookupError(f"no chain is called {name!r}; there are {', '.join(CHAINS)}")
    builder = GraphBuilder(name)
    return builder.graph({"y": CHAINS[name](builder)})

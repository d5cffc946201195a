"""What the composites of the library compute, written by hand in numpy, and shapes to try them at."""

import numpy as np
from scipy.special import erf

#: Extents that are tried: one, odd, prime and large ones.
EXTENTS = (1, 2, 3, 5, 7, 8, 9, 13, 16, 31, 64, 97)


def _norm(x, g, b, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _rotary(x, c, s):
    h = x.shape[-1] // 2
    turned = np.concatenate([-x[..., h:], x[..., :h]], -1)
    return x * np.concatenate([c, c], -1) + turned * np.concatenate([s, s], -1)


def _windows(x, u=3, v=3):
    return np.lib.stride_tricks.sliding_window_view(x, (u, v), (2, 3)).transpose(0, 1, 4, 5, 2, 3)


def _conv(x, w):
    return np.einsum("ncuvij,ocuv->noij", _windows(x, *w.shape[2:]), w)


REFERENCES = {
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "clamp": lambda x: np.clip(x, 0, 6),
    "leaky": lambda x: np.where(x < 0, 0.01 * x, x),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "sine": np.sin,
    "swiglu": lambda a, b: a * _sigmoid(a) * b,
    "add_relu": lambda a, b: np.maximum(a + b, 0),
    "row_sum": lambda x: x.sum(-1),
    "logsumexp": lambda x: np.log(np.exp(x).sum(-1)),
    "softmax": _softmax,
    "rms": lambda x, g: x * g / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    "layer_norm": _norm,
    "add_norm": lambda x, r, g, b: _norm(x + r, g, b),
    "rotary": _rotary,
    "gemm": np.matmul,
    "batched": np.matmul,
    "linear": lambda x, w, b: x @ w.T + b,
    "outer": np.outer,
    "attention": lambda q, k, v: _softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v,
    "conv": _conv,
    "im2col": _windows,
    "transposed": lambda x: x.swapaxes(-1, -2),
    "strided": lambda x: x[..., ::2],
    "reversed": lambda x: x[..., ::-1],
    "diagonal": lambda x: np.diagonal(x, axis1=-2, axis2=-1),
    "flattened": lambda x: x.reshape(*x.shape[:-2], -1),
    "taken": lambda t, at: t[at],
    "lower": np.tril,
    "max_pool": lambda x: np.maximum(
        x[..., : x.shape[-1] // 2 * 2 : 2], x[..., 1::2][..., : x.shape[-1] // 2]
    ),
}
#: The least extents with which a composite has a result, by the name of the extent.
LEAST = {"im2col": {"H": 3, "W": 3}, "conv": {"H": 8, "W": 8}, "max_pool": {"N": 2}}
#: The largest extents: those of a convolution make six loops.
MOST = {"conv": 9, "im2col": 13, "attention": 31, "batched": 31}


def drawn(composite, rng, rank=None):
    """Return operands in float64 of drawn extents, all of one number of leading axes."""
    from workbench.kernels.composites.expressions import computed, extent_names

    names = sorted({n for t in composite.inputs for d in t.dims for n in extent_names(d)})
    most = MOST.get(composite.name, EXTENTS[-1])
    sizes = {}
    for n in names:
        least = LEAST.get(composite.name, {}).get(n, 1)
        top = 3 if n in ("U", "V") else most
        sizes[n] = int(rng.choice([e for e in EXTENTS if least <= e <= top]))
    leading = tuple(int(n) for n in rng.choice((1, 2, 3, 5), rng.integers(0, 3) if rank is None else rank))
    operands = []
    for t in composite.inputs:
        shape = (leading if t.leading else ()) + tuple(computed(d, sizes) for d in t.dims)
        if "int" in t.dtype:
            operands.append(rng.integers(0, sizes["V"], shape))
        else:
            operands.append(rng.uniform(-2, 2, shape))
    return operands

"""What the composites of ``strangers.composite`` compute, written by hand in numpy."""

from pathlib import Path

import numpy as np
from scipy import linalg, special
from scipy.special import logsumexp, softmax

FILE = Path(__file__).with_suffix(".composite")
windows = np.lib.stride_tricks.sliding_window_view


def standard(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def per_channel(x, gain, shift):
    return x * gain[:, None, None] + shift[:, None, None]


def group_norm(x, g, b, G, eps):
    n, c, h, w = x.shape
    return per_channel(standard(x.reshape(n, G, c // G, h, w), (2, 3, 4), eps).reshape(x.shape), g, b)


def cosine(a, b, eps):
    lengths = np.linalg.norm(a, axis=-1)[..., :, None] * np.linalg.norm(b, axis=-1)[..., None, :]
    return a @ b.swapaxes(-1, -2) / np.maximum(lengths, eps)


def apart(a, b):
    return a[..., :, None, :] - b[..., None, :, :]


def depthwise(x, w, S, P):
    x = np.pad(x, ((0, 0), (0, 0), (P, P), (P, P)))
    return np.einsum("ncijuv,cuv->ncij", windows(x, w.shape[1:], (2, 3))[:, :, ::S, ::S], w)


def dilated(x, w, R):
    count = w.shape[2]
    length = x.shape[2] - R * (count - 1)
    return sum(np.einsum("ncl,oc->nol", x[:, :, k * R : k * R + length], w[:, :, k]) for k in range(count))


def pooled(reduce):
    return lambda x, K, S: reduce(windows(x, (K, K), (-2, -1))[..., ::S, ::S, :, :], (-2, -1))


def huber(x, t, delta):
    d = np.abs(x - t)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def geglu(x):
    a, b = np.split(x, 2, -1)
    return a * b * 0.5 * (1 + special.erf(b / np.sqrt(2)))


def toeplitz(c, r):
    i, j = np.indices((len(c), len(r)))
    return np.where(j <= i, c[np.clip(i - j, 0, None)], r[np.clip(j - i, 0, None)])


def causal(q, k, v, slope):
    i = np.arange(q.shape[-2])
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) - slope * (i[:, None] - i)
    return softmax(np.where(i <= i[:, None], scores, -1e9), -1) @ v


def rope_pairs(x, c, s):
    y = np.empty_like(x)
    a, b = x[..., ::2], x[..., 1::2]
    y[..., ::2], y[..., 1::2] = a * c - b * s, b * c + a * s
    return y


def pixel_shuffle(x, R):
    n, c, h, w = x.shape
    parts = x.reshape(n, c // R // R, R, R, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // R // R, h * R, w * R)


def conv_transposed(x, w, S):
    n, _, length = x.shape
    y = np.zeros((n, w.shape[1], (length - 1) * S + w.shape[2]))
    for i in range(length):
        y[:, :, i * S : i * S + w.shape[2]] += np.einsum("nc,cok->nok", x[:, :, i], w)
    return y


def conv3d(x, w):
    return np.einsum("ncijkuvz,ocuvz->noijk", windows(x, w.shape[2:], (2, 3, 4)), w)


def chamfer(a, b):
    d = (apart(a, b) ** 2).sum(-1)
    return d.min(-1).mean(-1) + d.min(-2).mean(-1)


REFERENCES = {
    "weighted_mean": lambda x, w: (x * w).sum(-1) / w.sum(),
    "triangular_sum": lambda x: np.cumsum(x, -1),
    "cosine": cosine,
    "group_norm": group_norm,
    "instance_norm": lambda x, g, b, eps: per_channel(standard(x, (-2, -1), eps), g, b),
    "pairwise_distance": lambda a, b: np.sqrt((apart(a, b) ** 2).sum(-1)),
    "depthwise": depthwise,
    "dilated": dilated,
    "avg_pool": pooled(np.mean),
    "max_pool2": pooled(np.max),
    "softplus": lambda x: np.logaddexp(0, x),
    "log_softmax": lambda x: x - logsumexp(x, -1, keepdims=True),
    "huber": huber,
    "geglu": geglu,
    "l2_normalise": lambda x, eps: x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps),
    "kron": np.kron,
    "trace": lambda x: np.trace(x, axis1=-2, axis2=-1),
    "toeplitz": toeplitz,
    "bilinear": lambda x, A, y: np.einsum("...m,kmn,...n->...k", x, A, y),
    "one_hot_rows": lambda t, at: t[at],
    "clash": lambda a, b: a @ b,
    "causal": causal,
    "rope_pairs": rope_pairs,
    "pixel_shuffle": pixel_shuffle,
    "upsample": lambda x, S: x.repeat(S, -1).repeat(S, -2),
    "roll": lambda x, S: np.roll(x, -S, -1),
    "segment_sum": lambda x, at, K: np.stack([x[at == k].sum(0) for k in range(K)]),
    "unbiased": lambda x: x.var(-1, ddof=1),
    "cumprod": lambda x: np.cumprod(x, -1),
    "entropy": lambda x: -(softmax(x, -1) * np.log(softmax(x, -1))).sum(-1),
    "rbf": lambda a, b, gamma: np.exp(-gamma * (apart(a, b) ** 2).sum(-1)),
    "conv_transposed": conv_transposed,
    "block_diagonal": lambda x: linalg.block_diag(*x),
    "block_mean": lambda x, K: x - x.reshape(*x.shape[:-1], -1, K).mean(-1).repeat(K, -1),
    "triple": lambda a, b, c: np.einsum("ir,jr,kr->ijk", a, b, c),
    "conv3d": conv3d,
    "masked_mean": lambda x, m: (m[..., None] * x).sum(-2) / np.maximum(m.sum(-1), 1)[..., None],
    "poly": lambda x, a: sum(c * x**k for k, c in enumerate(a)),
    "chamfer": chamfer,
}

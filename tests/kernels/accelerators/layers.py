"""Graphs of single layers whose weights are inputs, so that they can be computed in whole numbers."""

import numpy as np

from workbench.graph import GraphBuilder


def conv_graph(layers):
    """Return a graph of unrelated convolutions (x shape, w shape, attributes), one output each."""
    b = GraphBuilder("layers")
    outputs = {}
    for i, (x, w, attrs) in enumerate(layers):
        outputs[f"y{i}"] = b.op("conv2d", b.input(f"x{i}", x), b.input(f"w{i}", w), **attrs)
    return b.graph(outputs)


def whole_numbers(graph, seed=0):
    random = np.random.default_rng(seed)
    return {n: random.integers(-4, 5, k.shape).astype(np.int64) for n, k in graph.input_types.items()}


def convolved(x, w, strides=(1, 1), pads=(0, 0, 0, 0), groups=1):
    """Convolve whole numbers one tap of the kernel at a time, without windows and without matrices."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, _, height, width = x.shape
    out, per, kh, kw = w.shape
    rows, columns = (height - kh) // strides[0] + 1, (width - kw) // strides[1] + 1
    y = np.zeros((n, out, rows, columns), np.int64)
    for g in range(groups):
        mine = slice(g * out // groups, (g + 1) * out // groups)
        for i, j in np.ndindex(kh, kw):
            part = x[
                :, g * per : (g + 1) * per,
                i : i + rows * strides[0] : strides[0], j : j + columns * strides[1] : strides[1],
            ][:, :, :rows, :columns]  # fmt: skip
            y[:, mine] += np.einsum("ncij,oc->noij", part, w[mine, :, i, j])
    return y

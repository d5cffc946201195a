"""Random small graphs to which many rewrite rules apply, for property tests."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from workbench.graph import Graph, GraphBuilder
from workbench.ops import TypeMismatch


def random_graph(seed: int, size: int = 12) -> Graph:
    """Return a graph of about ``size`` operators, determined by the seed.

    The graphs contain images, matrices and batches of them with odd and even shapes; convolutions with
    uneven pads, strides, dilations and groups, up to depthwise; several operators on one operand; biases,
    scales and batch normalisation; sums and concats of similar operators; broadcasting; weights used twice;
    constant parts; and several outputs, some of which are operands of other operators.
    """
    return _Random(seed).build(size)


class _Random:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = GraphBuilder(f"random-{seed}", seed=seed * 1000)
        self.images: list[int] = []
        self.matrices: list[int] = []
        self.kernels: list[int] = []

    def build(self, size: int) -> Graph:
        rng = self.rng
        channels = rng.choice((2, 3, 4, 6, 8))
        batch = rng.choice((1, 1, 2))
        self.images.append(self.b.input("image", (batch, channels, rng.randint(3, 9), rng.randint(3, 9))))
        rows, width = rng.randint(1, 5), rng.choice((4, 6, 8))
        lead = rng.choice(((), (), (2,)))
        self.matrices.append(self.b.input("matrix", (*lead, rows, width)))
        steps: list[Callable[[], None]] = [
            self.convolution, self.convolution, self.siblings, self.siblings, self.grouped_siblings,
            self.normalised, self.sum_of_convolutions, self.concat_of_convolutions, self.pooling,
            self.image_elementwise, self.products, self.products, self.sum_of_products,
            self.matrix_elementwise, self.transposed, self.reshaped, self.sliced, self.attention,
            self.reduced, self.constants,
        ]  # fmt: skip
        made = 0
        while made < size:
            before = len(self.b.nodes)
            try:
                rng.choice(steps)()
            except TypeMismatch:
                continue
            made += sum(n.op not in ("weight", "input") for n in self.b.nodes[before:])
        return self.b.graph(self.outputs())

    def outputs(self) -> list[tuple[str, int]]:
        read = {j for node in self.b.nodes for j in node.inputs}
        last = [i for i in range(len(self.b.nodes)) if i not in read and i not in self.b.inputs]
        values = [i for i in last if self.b.nodes[i].op != "weight"]
        inner = [i for i in read if self.b.nodes[i].op not in ("weight", "input")]
        if inner and self.rng.random() < 0.5:
            values.append(self.rng.choice(sorted(inner)))
        return [(f"y{k}", value) for k, value in enumerate(values)]

    # -- pieces -----------------------------------------------------------------------------------
    def image(self) -> int:
        return self.rng.choice(self.images[-4:])

    def matrix(self) -> int:
        return self.rng.choice(self.matrices[-4:])

    def act(self, value: int) -> int:
        op = self.rng.choice(("relu", "relu", "sigmoid", "tanh", None, None))
        return self.b.op(op, value) if op else value

    def bias(self, value: int) -> int:
        if self.rng.random() < 0.5:
            return value
        channels = self.b.type(value).shape[1]
        shape = self.rng.choice(((1, channels, 1, 1), (channels, 1, 1)))
        order = [value, self.b.weight(shape)]
        if self.rng.random() < 0.3:
            order.reverse()
        return self.b.op("add", *order)

    def settings(self) -> dict[str, tuple[int, ...]]:
        rng = self.rng
        pad = rng.choice((0, 1))
        pads = (pad,) * 4 if rng.random() < 0.7 else tuple(rng.randint(0, 2) for _ in range(4))
        return {
            "strides": (rng.choice((1, 1, 2)), rng.choice((1, 1, 2))),
            "pads": pads,
            "dilations": (rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 1, 2))),
        }

    def kernel(self, x: int, groups: int, size: tuple[int, int] | None = None) -> int:
        rng = self.rng
        channels = self.b.type(x).shape[1]
        size = size or rng.choice(((1, 1), (3, 3), (1, 3), (3, 1), (2, 2)))
        shape = (groups * rng.choice((1, 2, 3)), channels // groups, *size)
        if rng.random() < 0.35:
            known = [
                w
                for w in self.kernels
                if self.b.type(w).shape[1] == shape[1]
                and self.b.type(w).shape[0] % groups == 0
                and self.b.type(w).shape[2:] in (shape[2:], size)
            ]
            if known:
                return rng.choice(known)
        weight = self.b.weight(shape)
        self.kernels.append(weight)
        return weight

    def groups(self, x: int) -> int:
        channels = self.b.type(x).shape[1]
        options = [g for g in range(1, channels + 1) if channels % g == 0]
        return self.rng.choice(options) if self.rng.random() < 0.5 else 1

    def keep(self, value: int) -> None:
        shape = self.b.type(value).shape
        (self.images if len(shape) == 4 and min(shape[2:]) > 0 else self.matrices).append(value)

    # -- steps ------------------------------------------------------------------------------------
    def convolution(self) -> None:
        x = self.image()
        groups = self.groups(x)
        y = self.b.op("conv2d", x, self.kernel(x, groups), groups=groups, **self.settings())
        self.keep(self.act(self.bias(y)))

    def siblings(self) -> None:
        """Add two or three convolutions of one kernel size on one image."""
        x, settings = self.image(), self.settings()
        size = self.rng.choice(((1, 1), (3, 3)))
        activated = self.rng.random() < 0.5
        for _ in range(self.rng.randint(2, 3)):
            if self.rng.random() < 0.25:
                # A 1x1 kernel without pads, next to kernels of the other size.
                y = self.b.op("conv2d", x, self.kernel(x, 1, (1, 1)))
            else:
                y = self.b.op("conv2d", x, self.kernel(x, 1, size), **settings)
            y = self.bias(y)
            self.keep(self.b.op("relu", y) if activated else y)

    def grouped_siblings(self) -> None:
        """Add convolutions that must not be merged as if they had one group."""
        x = self.image()
        channels = self.b.type(x).shape[1]
        groups = self.rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
        for _ in range(2):
            weight = self.kernel(x, groups, (3, 3))
            self.keep(self.b.op("conv2d", x, weight, pads=(1, 1, 1, 1), groups=groups))

    def normalised(self) -> None:
        x = self.image()
        y = self.bias(self.b.op("conv2d", x, self.kernel(x, 1), **self.settings()))
        channels = self.b.type(y).shape[1]
        scale, shift, mean = (self.b.weight((channels,)) for _ in range(3))
        rng = np.random.default_rng(self.rng.getrandbits(32))
        variance = self.b.weight(data=rng.uniform(0.5, 2.0, channels).astype(np.float32))
        self.keep(self.act(self.b.op("batchnorm", y, scale, shift, mean, variance, eps=1e-3)))

    def sum_of_convolutions(self) -> None:
        x = self.image()
        z = self.image()
        out = self.rng.randint(1, 4)
        parts = []
        for value in (x, z if self.b.type(z).shape[2:] == self.b.type(x).shape[2:] else x):
            size = self.rng.choice(((1, 1), (3, 3)))
            weight = self.b.weight((out, self.b.type(value).shape[1], *size))
            pad = size[0] // 2
            parts.append(self.b.op("conv2d", value, weight, pads=(pad,) * 4))
        self.keep(self.act(self.b.op("add", *parts)))

    def concat_of_convolutions(self) -> None:
        x = self.image()
        groups = self.groups(x)
        parts = [
            self.b.op("conv2d", x, self.kernel(x, groups, (3, 3)), pads=(1, 1, 1, 1), groups=groups)
            for _ in range(self.rng.randint(2, 3))
        ]
        if self.rng.random() < 0.5:
            parts = [self.b.op("relu", p) for p in parts]
        self.keep(self.b.op("concat", *parts, axis=-3))

    def pooling(self) -> None:
        rng = self.rng
        settings = {
            "kernel": rng.choice(((2, 2), (3, 3), (2, 3))),
            "strides": rng.choice(((1, 1), (2, 2))),
            "pads": rng.choice(((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0))),
            "ceil": rng.randint(0, 1),
        }
        if rng.random() < 0.5:
            settings["include_pad"] = rng.randint(0, 1)
            self.keep(self.b.op("avgpool", self.image(), **settings))
        else:
            self.keep(self.b.op("maxpool", self.image(), **settings))

    def image_elementwise(self) -> None:
        x = self.image()
        n, c, h, w = self.b.type(x).shape
        other = self.rng.choice(
            [
                x,
                self.image(),
                self.b.weight(self.rng.choice(((1, c, 1, 1), (c, 1, 1), (w,), (h, 1), (), (n, c, h, w)))),
            ]
        )
        op = self.rng.choice(("add", "mul", "sub", "max"))
        self.keep(self.act(self.b.op(op, x, other)))

    def products(self) -> None:
        """Add one to four products on one matrix, some with a bias."""
        x = self.matrix()
        width = self.b.type(x).shape[-1]
        out = self.rng.randint(1, 6)
        biased = self.rng.random() < 0.4
        for _ in range(self.rng.randint(1, 4)):
            y = self.b.op("matmul", x, self.b.weight((width, out if biased else self.rng.randint(1, 6))))
            if biased:
                y = self.b.op("add", y, self.b.weight((out,)))
            self.keep(self.act(y))

    def sum_of_products(self) -> None:
        x, z = self.matrix(), self.matrix()
        out = self.rng.randint(1, 5)
        left = self.b.op("matmul", x, self.b.weight((self.b.type(x).shape[-1], out)))
        right = self.b.op("matmul", z, self.b.weight((self.b.type(z).shape[-1], out)))
        self.keep(self.act(self.b.op("add", left, right)))

    def matrix_elementwise(self) -> None:
        x = self.matrix()
        shape = self.b.type(x).shape
        other = self.rng.choice(
            [x, self.matrix(), self.b.weight(shape[-1:]), self.b.weight((*shape[-2:-1], 1))]
        )
        self.keep(self.act(self.b.op(self.rng.choice(("add", "mul", "sub")), x, other)))

    def transposed(self) -> None:
        x = self.rng.choice(self.images + self.matrices)
        perm = list(range(self.b.type(x).rank))
        self.rng.shuffle(perm)
        y = self.act(self.b.op("transpose", x, perm=tuple(perm)))
        self.keep(self.b.op("transpose", y, perm=tuple(np.argsort(perm).tolist())))

    def reshaped(self) -> None:
        x = self.image()
        n, c, h, w = self.b.type(x).shape
        self.keep(
            self.act(self.b.op("reshape", self.b.op("reshape", x, shape=(n, c, h * w)), shape=(n * c, h * w)))
        )

    def sliced(self) -> None:
        """Cut a value and concatenate the parts again, with an activation on all parts or on none."""
        x = self.rng.choice(self.images + self.matrices)
        axis = -self.rng.randint(1, self.b.type(x).rank)
        extent = self.b.type(x).shape[axis]
        if extent < 2:
            raise TypeMismatch("nothing to cut")
        cut = self.rng.randint(1, extent - 1)
        parts = self.b.split(x, axis, (cut, extent - cut))
        if self.rng.random() < 0.5:
            parts = [self.b.op("relu", p) for p in parts]
        if self.rng.random() < 0.3:
            parts.reverse()
        self.keep(self.b.op("concat", *parts, axis=axis))

    def attention(self) -> None:
        x = self.matrix()
        width = self.b.type(x).shape[-1]
        q, k, v = (self.b.op("matmul", x, self.b.weight((width, 4))) for _ in range(3))
        rank = self.b.type(k).rank
        perm = (*range(rank - 2), rank - 1, rank - 2)
        scores = self.b.op("softmax", self.b.op("matmul", q, self.b.op("transpose", k, perm=perm)), axis=-1)
        y = self.b.op("matmul", scores, v)
        self.keep(self.b.op("layernorm", y, self.b.weight((4,)), self.b.weight((4,)), axis=-1))

    def reduced(self) -> None:
        x = self.image()
        op = self.rng.choice(("reduce_mean", "reduce_max", "reduce_sum"))
        keep = self.rng.randint(0, 1)
        y = self.b.op(op, x, axes=(-2, -1), keepdims=keep)
        if keep:
            self.images.append(y)
        else:
            self.matrices.append(y)

    def constants(self) -> None:
        x = self.matrix()
        width = self.b.type(x).shape[-1]
        w = self.b.op("matmul", self.b.weight((width, 3)), self.b.weight((3, width)))
        self.keep(self.b.op("matmul", x, self.b.op("transpose", w, perm=(1, 0))))

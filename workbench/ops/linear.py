"""Matrix multiplication, batched and broadcast, with an optional fused activation; Einstein sums are read as such.

An Einstein sum is read as transposes, reshapes, a sum and a product: then the laws of those apply.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod

import numpy as np

from workbench.ops.activations import activate, activate_torch, exact_product, export_activation
from workbench.ops.locality import product
from workbench.ops.onnx_form import NotModelled, OnnxNode, imports
from workbench.ops.registry import register
from workbench.ops.spec import Attr, OpSpec
from workbench.ops.traits import Trait
from workbench.ops.typing import Attrs, N, T, Typing


def _type(t: Typing[T, N], xs: Sequence[T], attrs: Attrs) -> T:
    a, b = xs
    t.require_float(a)
    t.require_same_dtype(a, b)
    t.require(t.rank(a) >= 2, "the left operand must have two axes or more")
    t.require(t.rank(b) >= 2, "the right operand must have two axes or more")
    t.require(t.dim(a, -1) == t.dim(b, -2), f"inner extents differ in {a} @ {b}")
    return t.with_dim(t.broadcast(a, b, keep=2), -1, t.dim(b, -1))


def _evaluate(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    # numpy multiplies bfloat16 in float32, so the result is converted back.
    product = np.matmul(xs[0], xs[1]).astype(xs[0].dtype, copy=False)
    return activate(product, attrs["act"])


register(
    OpSpec(
        "matmul",
        2,
        _type,
        _evaluate,
        (Attr("act", "act", "none"),),
        lambda a, inputs, out: 2.0 * out.elements * inputs[0].shape[-1],
        Trait.PRODUCT | Trait.BROADCASTS | Trait.LINEAR,
        exact=exact_product(_evaluate, sum, lambda b, shapes, a: b[0] * b[1] * shapes[0][-1]),
        export=lambda e, xs, a, types, out: export_activation(e, e.node("MatMul", xs), a["act"], out),
        torch=lambda torch, xs, a: activate_torch(torch, torch.matmul(xs[0], xs[1]), a["act"]),
        parts=product,
        doc="act(a @ b), batch axes broadcast",
    )
)


@imports("MatMul")
def _import_matmul(n: OnnxNode) -> int:
    # A vector is a row on the left side and a column on the right; its axis is dropped from the result.
    left, right = n.operand(0), n.operand(1)
    a, b = n.type(0).shape, n.type(1).shape
    if len(a) >= 2 and len(b) >= 2:
        return n.op("matmul", left, right)
    if not a or not b:
        raise NotModelled("a product with a scalar")
    if len(a) == 1:
        left = n.op("reshape", left, shape=(1, *a))
    if len(b) == 1:
        right = n.op("reshape", right, shape=(*b, 1))
    product = n.op("matmul", left, right)
    shape = n.type_of(product).shape
    rows = shape[-2:-1] if len(a) > 1 else ()
    columns = shape[-1:] if len(b) > 1 else ()
    return n.op("reshape", product, shape=(*shape[:-2], *rows, *columns))


def _scaled(n: OnnxNode, value: int, factor: float) -> int:
    scalar = np.asarray(factor, dtype=n.type_of(value).numpy_dtype())
    return value if factor == 1 else n.op("mul", value, n.constant(scalar))


@imports("Gemm")
def _import_gemm(n: OnnxNode) -> int:
    """Import ``alpha * A @ B + beta * C`` as transposes, a product and a sum."""
    if n.attr("broadcast") is not None:
        raise NotModelled("broadcasting of operator sets before 7")
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    sides = [
        n.op("transpose", n.operand(i), perm=(1, 0)) if n.attr(flag, 0) else n.operand(i)
        for i, flag in enumerate(("transA", "transB"))
    ]
    # A factor on a constant side is folded; on the product it would be computed in every run.
    constant_side = next((i for i in (1, 0) if n.is_constant(i)), None)
    if constant_side is not None:
        sides[constant_side] = _scaled(n, sides[constant_side], alpha)
    product = n.op("matmul", *sides)
    if constant_side is None:
        product = _scaled(n, product, alpha)
    return n.op("add", product, _scaled(n, n.operand(2), beta)) if n.has(2) and beta != 0 else product


# -- Einstein sums ------------------------------------------------------------------------------------
Indices = tuple[str, ...]


@imports("Einsum")
def _import_einsum(n: OnnxNode) -> int:
    operands = n.operands()
    shapes = [n.type_of(x).shape for x in operands]
    inputs, out = equation(n.attr("equation"), [len(s) for s in shapes])
    if len(operands) > 2:
        raise NotModelled("an einsum of more than two operands")
    if any(n.type_of(x).dtype == "bfloat16" for x in operands):
        # ONNX Runtime has a kernel for such an einsum, but none for the product that it would become.
        raise NotModelled("an einsum of bfloat16")
    extents: dict[str, int] = {}
    for indices, shape in zip(inputs, shapes, strict=True):
        if len(set(indices)) < len(indices):
            raise NotModelled("an einsum in which an operand has an index twice")
        for index, extent in zip(indices, shape, strict=True):
            if extents.setdefault(index, extent) != extent:
                raise NotModelled("an einsum that repeats an operand along an axis")
    sums = _Sums(n, extents)
    found = [
        sums.kept(x, indices, {*out, *(i for other in inputs if other is not indices for i in other)})
        for x, indices in zip(operands, inputs, strict=True)
    ]
    return sums.arranged(*found[0], out) if len(found) == 1 else sums.product(found[0], found[1], out)


def equation(text: str, ranks: Sequence[int]) -> tuple[list[Indices], Indices]:
    """Return the indices of the operands and of the result; an ellipsis stands for indices of its own.

    >>> equation("...ij,jk", [3, 2])
    ([('.1', 'i', 'j'), ('j', 'k')], ('.1', 'i', 'k'))
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not set(text) <= {*string.ascii_letters, *" ,.->"}:
        raise NotModelled(f"the equation {text!r}")
    inputs = [_indices(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    every = [i for indices in inputs for i in indices]
    hidden = sorted({i for i in every if i.startswith(".")}, reverse=True)
    if arrow:
        out = _indices(right, len(hidden) + len(right.replace("...", "")))
        if "..." not in right and hidden:
            raise NotModelled("an einsum that sums over an ellipsis")
    else:
        out = (*hidden, *sorted(i for i in set(every) if every.count(i) == 1 and not i.startswith(".")))
    if len(set(out)) < len(out) or not set(out) <= set(every):
        raise NotModelled(f"the equation {text!r}")
    return inputs, out


def _indices(term: str, rank: int) -> Indices:
    before, ellipsis, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not ellipsis) or "." in before + after:
        raise NotModelled(f"the indices {term!r} of a rank-{rank} tensor")
    # The axes of an ellipsis are counted from the last, as in broadcasting.
    return (*before, *(f".{hidden - k}" for k in range(hidden)), *after)


class _Sums:
    """The steps of an einsum; a value comes with the indices of its axes."""

    def __init__(self, n: OnnxNode, extents: dict[str, int]) -> None:
        self.n, self.extents = n, extents

    def kept(self, x: int, indices: Indices, wanted: set[str]) -> tuple[int, Indices]:
        """Return a value summed over the indices that nothing else has."""
        gone = tuple(k - len(indices) for k, i in enumerate(indices) if i not in wanted)
        if not gone:
            return x, indices
        return self.n.op("reduce_sum", x, axes=gone, keepdims=0), tuple(i for i in indices if i in wanted)

    def arranged(self, x: int, indices: Indices, order: Sequence[str]) -> int:
        """Return a value with its axes in another order."""
        perm = tuple(indices.index(i) for i in order)
        return x if perm == tuple(range(len(perm))) else self.n.op("transpose", x, perm=perm)

    def shaped(self, x: int, shape: tuple[int, ...]) -> int:
        """Return a value in another shape."""
        return x if self.n.type_of(x).shape == shape else self.n.op("reshape", x, shape=shape)

    def size(self, *groups: Sequence[str]) -> tuple[int, ...]:
        """Return the number of elements along each group of axes."""
        return tuple(prod(self.extents[i] for i in group) for group in groups)

    def product(self, a: tuple[int, Indices], b: tuple[int, Indices], out: Indices) -> int:
        """Return the product of two values, summed over the indices that the result does not have."""
        both = [i for i in a[1] if i in b[1]]
        batch, summed = [i for i in both if i in out], [i for i in both if i not in out]
        left, right = [i for i in a[1] if i not in both], [i for i in b[1] if i not in both]
        if not summed:
            sides = [self.spread(x, indices, out) for x, indices in (a, b)]
            return self.n.op("mul", *sides)
        extents = self.extents
        outer = tuple(extents[i] for i in batch)
        x, y = self.arranged(*a, [*batch, *left, *summed]), self.arranged(*b, [*batch, *summed, *right])
        # Without common axes, those of the left operand but the last are a batch that the right one repeats.
        rows = self.size(left) if batch or len(left) < 2 else tuple(extents[i] for i in left)
        made = self.n.op(
            "matmul",
            self.shaped(x, (*outer, *rows, *self.size(summed))),
            self.shaped(y, (*outer, *self.size(summed, right))),
        )
        order = (*batch, *left, *right)
        return self.arranged(self.shaped(made, tuple(extents[i] for i in order)), order, out)

    def spread(self, x: int, indices: Indices, out: Indices) -> int:
        """Return a value with its axes in the order of the result, of extent 1 for an index that it lacks."""
        kept = [i for i in out if i in indices]
        shape = tuple(self.extents[i] if i in indices else 1 for i in out)
        while shape and shape[0] == 1 and out[len(out) - len(shape)] not in indices:
            shape = shape[1:]  # broadcasting supplies leading axes
        return self.shaped(self.arranged(x, indices, kept), shape)

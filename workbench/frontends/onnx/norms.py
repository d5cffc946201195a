"""Normalisations that exporters write in parts.

Before ONNX had layer norms, an exporter wrote each as nine operators; most still do so for root mean squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.frontends.onnx.pattern_reader import Reader
from workbench.graph import GraphBuilder


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation along the last axis: its operator, operand, epsilon, and scale and shift if any."""

    op: str
    x: int
    eps: float
    scale: int | None = None
    shift: int | None = None

    @property
    def read(self) -> tuple[int, ...]:
        """Return the nodes that it reads."""
        return tuple(i for i in (self.x, self.scale, self.shift) if i is not None)

    def built(self, builder: GraphBuilder, place: Mapping[int, int]) -> int:
        """Add the operator, with a scale of ones if it has none."""
        x = place[self.x]
        kind = builder.type(x)
        scale = (
            builder.op("ones", shape=kind.shape[-1:], dtype=kind.dtype)
            if self.scale is None
            else place[self.scale]
        )
        more = () if self.shift is None else (place[self.shift],)
        return builder.op(self.op, x, scale, *more, axis=-1, eps=self.eps)


def norms(reader: Reader) -> dict[int, Norm]:
    """Return the nodes that are normalisations, each with all of its scale and shift that it includes."""
    found: dict[int, Norm] = {}
    for i, node in enumerate(reader.nodes):
        norm = _normalised(reader, i)
        if node.op in ("mul", "add") and norm is None:
            for a, b in reader.sides(i):
                if a in found and norm is None and _row(reader, b, i):
                    norm = _extended(found[a], node.op, b)
        if norm is not None and reader.nodes[norm.x].type == node.type:
            found[i] = norm
    return found


def _row(reader: Reader, i: int, of: int) -> bool:
    """Return whether a node is a constant with one number for every column of another."""
    return reader.constant[i] and reader.nodes[i].tensor.shape == reader.nodes[of].tensor.shape[-1:]


def _mean(reader: Reader, i: int) -> int | None:
    """Return what a node is the mean of along the last axis, which it keeps."""
    x = reader.operand(i, "reduce_mean")
    last = reader.nodes[i].named_attrs() == {"axes": (-1,), "keepdims": 1}
    return x if x is not None and last else None


def _square(reader: Reader, i: int) -> int | None:
    """Return what a node is the square of."""
    op = reader.nodes[i].op
    if op not in ("mul", "pow"):
        return None
    a, b = (reader.at(j) for j in reader.nodes[i].inputs)
    squared = a == b if op == "mul" else reader.numbers.get(b) == 2
    return a if squared else None


def _inverse(reader: Reader, i: int) -> int | None:
    """Return what a node is the inverse root of."""
    node = reader.nodes[i]
    if node.op == "reciprocal":
        return reader.operand(reader.at(node.inputs[0]), "sqrt")
    if node.op in ("pow", "div"):
        a, b = (reader.at(j) for j in node.inputs)
        if node.op == "pow":
            return a if reader.numbers.get(b) == -0.5 else None
        return reader.operand(b, "sqrt") if reader.numbers.get(a) == 1 else None
    return None


def _normalised(reader: Reader, i: int) -> Norm | None:
    """Return the normalisation that a node is, without scale and shift."""
    if reader.nodes[i].op == "div":
        top, bottom = (reader.at(j) for j in reader.nodes[i].inputs)
        return _divided(reader, top, reader.operand(bottom, "sqrt"))
    if reader.nodes[i].op == "mul":
        for a, b in reader.sides(i):
            if (found := _divided(reader, a, _inverse(reader, b))) is not None:
                return found
    return None


def _divided(reader: Reader, d: int, variance: int | None) -> Norm | None:
    """Return the normalisation that divides a node by the root of another one."""
    if variance is None or reader.nodes[variance].op != "add":
        return None
    for a, b in reader.sides(variance):
        square = _mean(reader, a)
        if square is None or b not in reader.numbers or _square(reader, square) != d:
            continue
        if reader.nodes[d].op == "sub":
            x, mean = (reader.at(j) for j in reader.nodes[d].inputs)
            if _mean(reader, mean) == x:
                return Norm("layernorm", x, reader.numbers[b])
        return Norm("rmsnorm", d, reader.numbers[b])
    return None


def _extended(norm: Norm, op: str, by: int) -> Norm | None:
    """Return a normalisation followed by a scale or a shift, or None if it takes no more of them."""
    if op == "mul":
        return replace(norm, scale=by) if norm.scale is None and norm.shift is None else None
    return replace(norm, shift=by) if norm.shift is None and norm.op == "layernorm" else None

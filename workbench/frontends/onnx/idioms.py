"""Operators that exporters write in parts, read as the operators that they are: layer norms, RMS norms and gelus.

Rules recognise them too (``recognition.rules``), but only after other rules have taken scales, shifts and
quotients apart. Until then, every scale of a part that moves to a neighbour makes a variant, and a layer has
hundreds of them. The laws cannot be matched here as they are: they state one form of each product, in the order
that those other rules bring about, with exact numbers, and here products come in any order with their numbers
multiplied together and rounded to the element type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from workbench.graph import Builder, Graph, Node
from workbench.graph.graph import numbers_in
from workbench.support.orders import postorder

#: The number of products that are taken apart at most in search of a factor.
DEPTH: Final = 4
#: The factor of the cube in the gelu by tanh, from section 2 of arXiv 1606.08415.
CUBIC: Final = 0.044715
#: The floating-point types that have the numbers of a gelu with a known rounding.
_FLOATS: Final = frozenset({"float16", "float32", "float64"})


@dataclass(frozen=True, slots=True)
class Idiom:
    """An operator of a node, and for a normalisation along the last axis its scale and shift if any."""

    op: str
    x: int
    attrs: Mapping[str, float]
    scale: int | None = None
    shift: int | None = None

    @property
    def read(self) -> tuple[int, ...]:
        """Return the nodes that it reads."""
        return tuple(i for i in (self.x, self.scale, self.shift) if i is not None)

    def built(self, builder: Builder, place: Mapping[int, int]) -> int:
        """Add the operator; ``place`` maps the nodes that it reads. A norm without a scale has one of ones."""
        operands = [place[i] for i in self.read]
        if self.op != "gelu" and self.scale is None:
            kind = builder.type(operands[0])
            operands.insert(1, builder.op("ones", shape=kind.shape[-1:], dtype=kind.dtype))
        return builder.op(self.op, *operands, **self.attrs)


def whole(graph: Graph) -> Graph:
    """Return the graph with one operator in place of every norm and every gelu that is written in parts."""
    reader = Reader(graph)
    found = norms(reader) | gelus(reader)
    if not found:
        return graph
    place: dict[int, int] = {}

    def made(builder: Builder, i: int, node: Node, inputs: list[int]) -> int:
        if i in found:
            place[i] = found[i].built(builder, place)
        elif node.op == "input":
            place[i] = builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
        else:
            place[i] = builder.apply(node.op, inputs, node.attrs)
        return place[i]

    needed = postorder(graph.output_ids, lambda i: found[i].read if i in found else graph.nodes[i].inputs)
    return graph.copied(made, keep=set(needed))


class Reader:
    """A reader of a graph's operators."""

    def __init__(self, graph: Graph) -> None:
        self.nodes, self.numbers, self.constant = graph.nodes, numbers_in(graph), graph.constant()

    def sides(self, i: int) -> Iterator[tuple[int, int]]:
        """Yield the two operands of a node in both orders."""
        a, b = self.nodes[i].inputs
        yield from ((a, b), (b, a))

    def operand(self, i: int, op: str) -> int | None:
        """Return the operand of an operator of one operand, or None if a node is another one."""
        return self.nodes[i].inputs[0] if self.nodes[i].op == op else None


# -- normalisations: exporters wrote each as nine operators before ONNX had layer norms -----------------
def norms(reader: Reader) -> dict[int, Idiom]:
    """Return the nodes that are normalisations, each with all of its scale and shift that it includes."""
    found: dict[int, Idiom] = {}
    for i, node in enumerate(reader.nodes):
        norm = _normalised(reader, i)
        if node.op in ("mul", "add") and norm is None:
            for a, b in reader.sides(i):
                row = reader.constant[b] and reader.nodes[b].tensor.shape == node.tensor.shape[-1:]
                known = found.get(a)
                if known is None or norm is not None or not row or known.shift is not None:
                    continue
                if node.op == "mul" and known.scale is None:
                    norm = replace(known, scale=b)
                elif node.op == "add" and known.op == "layernorm":
                    norm = replace(known, shift=b)
        if norm is not None and reader.nodes[norm.x].type == node.type:
            found[i] = norm
    return found


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
    a, b = reader.nodes[i].inputs
    squared = a == b if op == "mul" else reader.numbers.get(b) == 2
    return a if squared else None


def _inverse(reader: Reader, i: int) -> int | None:
    """Return what a node is the inverse root of."""
    node = reader.nodes[i]
    if node.op == "reciprocal":
        return reader.operand(node.inputs[0], "sqrt")
    if node.op == "pow":
        return node.inputs[0] if reader.numbers.get(node.inputs[1]) == -0.5 else None
    one = node.op == "div" and reader.numbers.get(node.inputs[0]) == 1
    return reader.operand(node.inputs[1], "sqrt") if one else None


def _normalised(reader: Reader, i: int) -> Idiom | None:
    """Return the normalisation that a node is, without scale and shift."""
    node = reader.nodes[i]
    if node.op == "div":
        return _divided(reader, node.inputs[0], reader.operand(node.inputs[1], "sqrt"))
    sides = reader.sides(i) if node.op == "mul" else ()
    return next((found for a, b in sides if (found := _divided(reader, a, _inverse(reader, b)))), None)


def _divided(reader: Reader, d: int, variance: int | None) -> Idiom | None:
    """Return the normalisation that divides a node by the root of another one."""
    if variance is None or reader.nodes[variance].op != "add":
        return None
    for a, b in reader.sides(variance):
        square = _mean(reader, a)
        if square is None or b not in reader.numbers or _square(reader, square) != d:
            continue
        attrs = {"axis": -1, "eps": reader.numbers[b]}
        if reader.nodes[d].op == "sub":
            x, mean = reader.nodes[d].inputs
            if _mean(reader, mean) == x:
                return Idiom("layernorm", x, attrs)
        return Idiom("rmsnorm", d, attrs)
    return None


# -- gelus: x·(1 + erf(x/√2))/2, or by tanh x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 --------------------
def gelus(reader: Reader) -> dict[int, Idiom]:
    """Return the nodes that are Gaussian error linear units of others, exact or by tanh (arXiv 1606.08415)."""
    found: dict[int, Idiom] = {}
    if not any(node.op in ("erf", "tanh") for node in reader.nodes):
        return found
    for i, node in enumerate(reader.nodes):
        if node.op not in ("mul", "div") or node.tensor.dtype not in _FLOATS:
            continue
        gelu = _Products(reader, node.tensor.dtype).gelu(i)
        if gelu is not None and reader.nodes[gelu.x].type == node.type:
            found[i] = gelu
    return found


class _Products:
    """A reader of products, with numbers as exact as an element type has them."""

    def __init__(self, reader: Reader, dtype: str) -> None:
        self.reader, self.nodes = reader, reader.nodes
        self.rounding = 2 * float(np.finfo(dtype).eps)

    def gelu(self, i: int) -> Idiom | None:
        """Return the gelu that a node is, if it is one."""
        for number, factors in self.split(i):
            if len(factors) == 2 and self.close(number, 0.5):
                for x, tail in (factors, factors[::-1]):
                    curve = self.after(tail, 1.0)
                    if curve is None:
                        continue
                    erf, tanh = (self.reader.operand(curve, op) for op in ("erf", "tanh"))
                    if erf is not None and self.times(erf, math.sqrt(0.5), [x]):
                        return Idiom("gelu", x, {"tanh": 0})
                    if tanh is not None and self.approximates(tanh, x):
                        return Idiom("gelu", x, {"tanh": 1})
        return None

    def approximates(self, i: int, x: int) -> bool:
        """Return whether a node is √(2/π)·(x + 0.044715·x³), or √(2/π)·x·(1 + 0.044715·x²)."""
        for number, factors in self.split(i):
            if not self.close(number, math.sqrt(2 / math.pi)):
                continue
            if len(factors) == 1 and self.nodes[factors[0]].op == "add":
                if any(a == x and self.times(b, CUBIC, [x] * 3) for a, b in self.reader.sides(factors[0])):
                    return True
            elif len(factors) == 2 and x in factors:
                (other,) = factors[:1] if factors[1] == x else factors[1:]
                square = self.after(other, 1.0)
                if square is not None and self.times(square, CUBIC, [x] * 2):
                    return True
        return False

    def after(self, i: int, number: float) -> int | None:
        """Return what a node adds to a number."""
        if self.nodes[i].op == "add":
            for a, b in self.reader.sides(i):
                if b in self.reader.numbers and self.close(self.reader.numbers[b], number):
                    return a
        return None

    def times(self, i: int, number: float, factors: list[int]) -> bool:
        """Return whether a node is the product of a number and factors."""
        return any(found == factors and self.close(n, number) for n, found in self.split(i))

    def split(self, i: int) -> Iterator[tuple[float, list[int]]]:
        """Yield forms of a node as a number and ordered factors, with more and more products taken apart."""
        forms: dict[tuple[int, ...], float] = {(i,): 1.0}
        for _ in range(DEPTH + 1):
            apart: dict[tuple[int, ...], float] = {}
            for form, number in forms.items():
                by, kept = self.gathered(form)
                yield number * by, kept
                for j in dict.fromkeys(kept):
                    if (taken := self.factors(j)) is not None:
                        rest = [*kept]
                        rest.remove(j)
                        apart.setdefault(tuple(sorted([*rest, *taken[1]])), number * by * taken[0])
            forms = apart

    def gathered(self, factors: Sequence[int]) -> tuple[float, list[int]]:
        """Return the product of those factors that are numbers, and the others."""
        numbers = self.reader.numbers
        return math.prod(numbers.get(j, 1.0) for j in factors), [j for j in factors if j not in numbers]

    def factors(self, i: int) -> tuple[float, list[int]] | None:
        """Return the number and the factors of which a node is the product, if it is one."""
        node = self.nodes[i]
        if node.op not in ("mul", "div", "pow"):
            return None
        a, b = self.nodes[i].inputs
        if node.op == "mul":
            return 1.0, [a, b]
        number = self.reader.numbers.get(b)
        if number is None or not math.isfinite(number) or number == 0:
            return None
        if node.op == "div":
            return 1 / number, [a]
        return (1.0, [a] * int(number)) if number in (2.0, 3.0) else None

    def close(self, a: float, b: float) -> bool:
        """Return whether two numbers are equal but for rounding."""
        return math.isclose(a, b, rel_tol=self.rounding)

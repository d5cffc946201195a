"""Gaussian error linear units that exporters write in parts, exact or by tanh (arXiv 1606.08415)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workbench.frontends.onnx.pattern_reader import Reader
from workbench.graph import GraphBuilder

#: The number of products that are taken apart at most in search of a factor.
DEPTH: Final = 4
#: The factor of the cube, from section 2 of the paper.
CUBIC: Final = 0.044715
#: The floating-point types that have these numbers with a known rounding.
_FLOATS: Final = frozenset({"float16", "float32", "float64"})


@dataclass(frozen=True, slots=True)
class Gelu:
    """A Gaussian error linear unit of a node; ``tanh`` says whether it is the approximation by tanh."""

    x: int
    tanh: bool

    @property
    def read(self) -> tuple[int, ...]:
        """Return the nodes that it reads."""
        return (self.x,)

    def built(self, builder: GraphBuilder, place: Mapping[int, int]) -> int:
        """Add the operator."""
        return builder.op("gelu", place[self.x], tanh=int(self.tanh))


def gelus(reader: Reader) -> dict[int, Gelu]:
    """Return the nodes that are gelus of others.

    A gelu is ``x·(1 + erf(x/√2))/2``, or by tanh ``x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2``.
    """
    found: dict[int, Gelu] = {}
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

    def gelu(self, i: int) -> Gelu | None:
        """Return the gelu that a node is, if it is one."""
        for number, factors in self.split(i):
            if len(factors) == 2 and self.close(number, 0.5):
                for x, tail in (factors, factors[::-1]):
                    curve = self.after(tail, 1.0)
                    if curve is None:
                        continue
                    erf, tanh = (self.reader.operand(curve, op) for op in ("erf", "tanh"))
                    if erf is not None and self.times(erf, math.sqrt(0.5), [x]):
                        return Gelu(x, tanh=False)
                    if tanh is not None and self.approximates(tanh, x):
                        return Gelu(x, tanh=True)
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
        a, b = (self.reader.at(j) for j in node.inputs)
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

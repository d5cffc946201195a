"""Composites as laws: a call equals an expression of the workbench's own operators.

The walk over the notation writes the right-hand side of a rule. Sums over the last axes, functions and matrix
products hold for any leading axes. If an axis moves, the law is for one number of axes, which is a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from workbench.kernels.composites.binding import plain
from workbench.kernels.composites.composite import Composite, Equation
from workbench.kernels.composites.evaluate import Value, matrix_product, run
from workbench.kernels.composites.expressions import ExtentName, IndexArith, IndexExpr, Number, Whole, product

#: The scalar functions of index notation that are operators of graphs, by the same names.
OPERATORS: Final = frozenset({
    "add", "sub", "mul", "div", "pow", "max", "min", "neg", "abs", "sqrt", "exp", "log", "tanh", "erf", "sin",
    "cos",
})  # fmt: skip
#: The number of leading axes for which laws that move axes are written.
LEADING: Final = (0, 1, 2)


class NoLaw(ValueError):
    """Raised when a composite is not an expression of the workbench's operators; the message says why."""


@dataclass(frozen=True, slots=True)
class _Term:
    """An expression of a rule.

    ``kept`` is the expression in which reductions leave axes of extent 1 at the places ``ghosts``, ``gone``
    the one in which they disappear. ``dims`` are the extents of the last axes without ghosts. ``summed`` are
    the operand, the axes and the extents of a sum, and ``whole`` is the extent whose value it is.
    """

    gone: str
    dims: tuple[IndexExpr, ...] = ()
    leading: bool = False
    kept: str = ""
    ghosts: tuple[int, ...] = ()
    summed: tuple[str, tuple[int, ...], tuple[IndexExpr, ...]] | None = None
    whole: IndexExpr | None = None


def laws(composite: Composite, *, found: bool = False) -> str:
    r"""Return the laws of a composite as the text of a file of rules.

    With ``found`` they find the composite in a graph, instead of replacing it by operators. Raise NoLaw if it is not
    an expression of the workbench's operators.

    >>> from workbench.kernels.composites import parse
    >>> gemm = parse("gemm", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]")
    >>> laws(gemm)
    'gemm-is: gemm(a, b) => matmul(a, b)\n'
    """
    if not plain(composite):
        raise NoLaw(f"{composite.name} has no law: it reads at computed places or part of an axis")
    try:
        return _law(composite, None, found) + "\n"
    except _NeedsRank:
        return "\n".join(_law(composite, rank, found) for rank in LEADING) + "\n"


class _NeedsRank(Exception):
    """Raised when an axis moves behind leading axes, whose number a permutation must state."""


def _law(composite: Composite, leading: int | None, found: bool) -> str:
    arrays = _RuleArrays(composite, leading)
    run(composite, arrays, arrays.terms.__setitem__)
    name = composite.name.replace("_", "-").lower()
    given = ", ".join(f"{a.name}={a.name}" for a in composite.attributes)
    head = f"{composite.name}{f'[{given}]' if given else ''}({', '.join(arrays.variables.values())})"
    suffix, condition = "", ""
    if leading is not None:
        inputs = [t for t in composite.inputs if t.leading]
        ranks = [f"rank({arrays.variables[t.name]}) = {leading + len(t.dims)}" for t in inputs]
        suffix, condition = f"-{leading}", f" where {', '.join(ranks)}" if ranks else ""
    meaning = arrays.terms[composite.output.name].gone
    if not found:
        return f"{name}-is{suffix}: {head} => {meaning}{condition}"
    if "dtype=" in meaning:
        raise NoLaw(f"{composite.name} cannot be found in a graph: an extent is a value in it")
    return f"{name}-found{suffix}: {meaning} => {head}{condition}"


@dataclass(slots=True)
class _RuleArrays:
    """Expressions of rules."""

    composite: Composite
    lead: int | None
    variables: dict[str, str] = field(default_factory=dict)
    terms: dict[str, _Term] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for k, t in enumerate(self.composite.inputs):
            name, taken = t.name.lower(), {*self.variables.values(), *self.composite.defaults}
            self.variables[t.name] = name if name.isidentifier() and name not in taken else f"x{k}"
            self.terms[t.name] = _Term(self.variables[t.name], t.dims, t.leading)

    # -- the interface of the walk --------------------------------------------------------------------
    def begin(self, e: Equation) -> None:
        """Start an equation."""

    def tensor(self, name: str) -> _Term:
        return self.terms[name]

    def number(self, value: float) -> _Term:
        return _Term(str(Number(value)) if value >= 0 else f"neg({Number(-value)})")

    def parameter(self, name: str) -> _Term:
        return _Term(f"scalar[value={name}]()")

    def whole(self, e: IndexExpr) -> _Term:
        """Return an extent, which is the sum of as many ones."""
        if isinstance(e, Whole):
            return replace(self.number(e.value), whole=e)
        size = self._extent(e)
        like = next(iter(self.variables.values()))
        ones = f"ones[shape=({size}), dtype=dtype({like})]()"
        return _Term(f"reduce_sum[axes=(-1), keepdims=0]({ones})", whole=e)

    def _extent(self, e: IndexExpr) -> str:
        match e:
            case Whole(value):
                return str(value)
            case IndexArith(op, left, right):
                return f"({self._extent(left)} {op} {self._extent(right)})"
            case ExtentName(name):
                for t in self.composite.inputs:
                    for k, d in enumerate(t.dims):
                        if d == e:
                            return f"dim({self.variables[t.name]}, {k - len(t.dims)})"
                if any(a.name == name for a in self.composite.attributes):
                    return name
        raise NoLaw(f"{self.composite.name} has no law: {e} is not an extent of an operand")

    def _refused(self, *given: object) -> NoReturn:
        """Refuse: no operator of graphs computes with places, and plain composites read at indices alone."""
        raise NoLaw(
            f"{self.composite.name} has no law: it computes with indices, or reads at computed places"
        )

    count = integer = prefix = clipped = inside = take = _refused

    def as_number(self, x: _Term) -> _Term:
        return x

    def apply(self, function: str, operands: Sequence[_Term]) -> _Term:
        if function not in OPERATORS:
            raise NoLaw(f"{self.composite.name} has no law: no known operator {function}")
        first = operands[0]
        if function == "div" and first.summed and operands[1].whole == product(list(first.summed[2])):
            kept, gone = self._reduced("reduce_mean", *first.summed[:2])
            return replace(first, kept=kept, gone=gone, summed=None)
        dims = max((x.dims for x in operands), key=len)
        made = _Term(
            f"{function}({', '.join(x.gone for x in operands)})", dims, any(x.leading for x in operands)
        )
        # A function of reductions over the same axes keeps the choice between both forms.
        main = next((x for x in operands if x.ghosts), None)
        others = [x for x in operands if x.dims or x.leading or x.ghosts]  # all but numbers
        if main is None or any((x.ghosts, x.dims) != (main.ghosts, main.dims) for x in others):
            return made
        kept = f"{function}({', '.join(x.kept or x.gone for x in operands)})"
        return replace(made, kept=kept, ghosts=main.ghosts)

    def _reduced(self, name: str, inner: str, axes: Sequence[int]) -> tuple[str, str]:
        listed = ", ".join(map(str, axes))
        kept, gone = (f"{name}[axes=({listed}), keepdims={keep}]({inner})" for keep in (1, 0))
        return kept, gone

    def fold(self, function: str, x: _Term, axes: Sequence[int]) -> _Term:
        if function not in ("sum", "max"):
            raise NoLaw(f"{self.composite.name} has no law: no known operator for {function} over an axis")
        places = tuple(axes)
        extents = tuple(x.dims[a] for a in places)
        dims = tuple(d for k, d in enumerate(x.dims) if k - len(x.dims) not in places)
        summed = (x.gone, places, extents) if function == "sum" else None
        kept, gone = self._reduced(f"reduce_{function}", x.gone, places)
        return _Term(gone, dims, x.leading, kept, places, summed)

    def unsqueeze(self, x: _Term, axes: Sequence[int]) -> _Term:
        """Return the form that has axes of extent 1, or leave out those before the first axis."""
        dims = list(x.dims)
        for axis in sorted(axes):
            dims.insert(len(dims) + 1 + axis, Whole(1))
        if x.ghosts and set(axes) == set(x.ghosts):
            return _Term(x.kept, tuple(dims), x.leading)
        if not x.leading and max(axes) < -len(x.dims):
            return replace(x, dims=x.dims, kept="", ghosts=())
        if not x.leading and not x.dims:
            return x
        raise NoLaw(f"{self.composite.name} has no law: it puts an axis into the middle of an operand")

    def permute(self, x: _Term, order: Sequence[int], leading: bool) -> _Term:
        """Write a transpose, which states how many leading axes there are."""
        if leading and self.lead is None:
            raise _NeedsRank
        first = (self.lead or 0) if leading else 0
        perm = ", ".join(map(str, (*range(first), *(first + k for k in order))))
        dims = tuple(x.dims[k] for k in order)
        return _Term(f"transpose[perm=({perm})]({x.gone})", dims, leading)

    def contract(self, a: Value[_Term], b: Value[_Term], out: Sequence[str]) -> _Term:
        """Write a matrix product; its operands are transposed if their axes are in another order."""
        sides = matrix_product(self, a, b, out)
        if sides is None:
            raise NoLaw(f"{self.composite.name} has no law: a sum of products is not a matrix product")
        x, y = sides
        return _Term(f"matmul({x.gone}, {y.gone})", (*x.dims[:-1], y.dims[-1]), a.leading or b.leading)

    def spread(self, x: _Term, e: Equation, full: bool) -> _Term:
        """Return the result; refuse one that would have to be repeated along an axis."""
        if not full:
            raise NoLaw(f"{self.composite.name} has no law: {e.target} is the same along an axis")
        return x if x.ghosts else replace(x, dims=tuple(b.extent for b in e.indices))

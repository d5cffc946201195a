"""Express a term's extents and ranks by those of its variables, for rules that state no sizes.

Expressions are kept in a normal form (sums sorted, equal summands collected), so that two numbers are equal
if their expressions are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Final

from workbench.rules.language import RuleSyntaxError
from workbench.rules.pattern import (
    App,
    Arith,
    AttrExpr,
    AttrVar,
    DimOf,
    IntExpr,
    Literal,
    RankOf,
    Term,
    Var,
    Vector,
    format_expr,
    subterms,
)


class Inexpressible(RuleSyntaxError):
    """Raised when a law that is well-formed in another system has no form in the pattern language."""


# -- integer expressions --------------------------------------------------------------------------
def _order(expr: IntExpr) -> tuple[int, str]:
    # Shorter names come first, so that i4 precedes i10.
    text = format_expr(expr)
    return len(text), text


def _summands(expr: IntExpr) -> Counter[IntExpr]:
    """Return the terms of a sum with their factors; that of 1 is the number in it."""
    found: Counter[IntExpr] = Counter()
    match expr:
        case Literal(int(number)):
            found[Literal(1)] = number
        case Arith("+" | "-" as sign, left, right):
            found = _summands(left)
            for term, factor in _summands(right).items():
                found[term] += factor if sign == "+" else -factor
        case Arith("*", Literal(int(times)), rest) | Arith("*", rest, Literal(int(times))):
            found.update({term: factor * times for term, factor in _summands(rest).items()})
        case _:
            found[expr] = 1
    return found


def normal(expr: IntExpr) -> IntExpr:
    """Return an expression with its sums sorted and equal summands collected."""
    terms = _summands(expr)
    number = terms.pop(Literal(1), 0)
    ordered = sorted((t for t, f in terms.items() if f), key=lambda t: (terms[t] < 0, _order(t)))
    parts = [(terms[t], t if abs(terms[t]) == 1 else Arith("*", Literal(abs(terms[t])), t)) for t in ordered]
    total: IntExpr = Literal(number)
    if parts and parts[0][0] > 0:
        total = parts.pop(0)[1]
        parts.append((number, Literal(abs(number))))
    for factor, part in parts:
        if factor:
            total = Arith("+" if factor > 0 else "-", total, part)
    return total


def plus(*summands: IntExpr) -> IntExpr:
    """Return a sum."""
    zero: IntExpr = Literal(0)
    return normal(reduce(partial(Arith, "+"), summands, zero))


def minus(left: IntExpr, right: IntExpr) -> IntExpr:
    """Return a difference."""
    return normal(Arith("-", left, right))


def times(factor: int, expr: IntExpr) -> IntExpr:
    """Return a multiple."""
    return normal(Arith("*", Literal(factor), expr))


def over(left: IntExpr, right: IntExpr) -> IntExpr:
    """Return a quotient of extents, rounded down."""
    if right == Literal(1):
        return left
    if left == right:
        return Literal(1)
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Literal(left.value // right.value)  # type: ignore[operator]
    return Arith("//", left, right)


def largest(*exprs: IntExpr) -> IntExpr:
    """Return the largest of several expressions."""
    flat: set[IntExpr] = set()
    for expr in exprs:
        while isinstance(expr, Arith) and expr.operator == "max":
            flat.add(expr.left)
            expr = expr.right
        flat.add(expr)
    numbers = [e.value for e in flat if isinstance(e, Literal) and isinstance(e.value, int)]
    if len(numbers) > 1:
        flat = {e for e in flat if not isinstance(e, Literal)} | {Literal(max(numbers))}
    *rest, result = sorted(flat, key=_order)
    for expr in reversed(rest):
        result = Arith("max", expr, result)
    return result


def vector(*items: IntExpr) -> AttrExpr:
    """Return a tuple of expressions, as a literal if all of them are numbers."""
    if all(isinstance(i, Literal) for i in items):
        return Literal(tuple(i.value for i in items if isinstance(i, Literal)))  # type: ignore[misc]
    return Vector(items)


# -- terms ----------------------------------------------------------------------------------------
ELEMENTWISE: Final = ("add", "mul")
UNARY: Final = ("relu", "sigmoid", "tanh")
POOLS: Final = ("maxpool", "avgpool")
_FOUR_AXES: Final = ("conv2d", *POOLS, "enlarge", "merge_gconv", "identity_kernel", "mean_kernel")


def attribute(term: App, name: str) -> AttrExpr:
    """Return the value of an attribute that a term names."""
    return dict(term.attrs)[name]


def _number(term: App, name: str) -> int | None:
    value = attribute(term, name)
    return value.value if isinstance(value, Literal) and isinstance(value.value, int) else None


def _numbers(term: App, name: str) -> tuple[int, ...]:
    value = attribute(term, name)
    assert isinstance(value, Literal)
    assert isinstance(value.value, tuple)
    return value.value


@dataclass(slots=True)
class Shapes:
    """Knowledge about a rule's terms beyond their attributes, with which their extents are computed.

    ``scalars`` are operands without axes. ``same`` are windows with such pads that at stride 1 the result is
    as large as the input. ``kernels`` are the last two extents of enlarged weights. ``known`` maps attribute
    variables to their values, ``ranks`` variables to their ranks if known. ``alias`` maps a variable and an
    axis to another variable with the same extent whenever the law is well-typed.
    """

    scalars: set[Term] = field(default_factory=set)
    same: set[App] = field(default_factory=set)
    kernels: dict[App, tuple[IntExpr, IntExpr]] = field(default_factory=dict)
    known: dict[str, IntExpr] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    alias: dict[tuple[str, int], str] = field(default_factory=dict)

    def _resolved(self, value: AttrExpr) -> IntExpr:
        if isinstance(value, AttrVar):
            return self.known.get(value.name, value)
        if not isinstance(value, Literal | DimOf | RankOf | Arith):
            raise Inexpressible("a tuple in place of a number")
        return value

    def _broadcast(self, term: App, measure: Callable[[Term], IntExpr], unit: int) -> IntExpr:
        # Ones of any shape take their shape from the other operand.
        sized = [a for a in term.args if a not in self.scalars and not self._shapeless(a)]
        if not sized:
            raise Inexpressible("the operands of an elementwise operator are all without a shape")
        found = [m for m in (measure(a) for a in sized) if m != Literal(unit)]
        return largest(*found) if found else Literal(unit)

    def _shapeless(self, term: Term) -> bool:
        if not isinstance(term, App):
            return False
        if term.op in ELEMENTWISE:
            return all(a in self.scalars or self._shapeless(a) for a in term.args)
        return term.op == "ones" and isinstance(attribute(term, "shape"), AttrVar)

    def extent(self, term: Term, axis: int) -> IntExpr:
        """Return the extent of an axis (-1 is the last); raise :class:`Inexpressible` if it is open.

        >>> product = App("matmul", (Var("x"), App("concat", (Var("w"), Var("v")), (("axis", Literal(-1)),))))
        >>> format_expr(Shapes().extent(product, -1))
        'dim(v, -1) + dim(w, -1)'
        """
        if isinstance(term, Var):
            return DimOf(self.alias.get((term.name, axis), term.name), axis)
        op, args = term.op, term.args
        own = _number(term, "axis") if op in ("concat", "slice") else axis
        if own is None:
            raise Inexpressible("an extent along an axis that depends on the rank")
        if (source := self._source(term, axis)) is not None:
            return self.extent(*source)
        if op in ELEMENTWISE:
            return self._broadcast(term, lambda a: self.extent(a, axis), 1)
        if op == "slice":
            start, stop = (self._resolved(attribute(term, n)) for n in ("start", "stop"))
            return minus(stop, start)
        if op == "concat":
            extents = [self.extent(a, axis) for a in args]
            # Off its axis, all operands of a well-typed concatenation agree, so any of them can be used.
            return plus(*extents) if own == axis else min(extents, key=_order)
        if op == "matmul":
            return largest(self.extent(args[0], axis), self.extent(args[1], axis))
        if op == "transpose":
            return Literal(1)
        if op in ("conv2d", *POOLS):
            return self._window(term, axis)
        if op == "enlarge":
            return self.kernels[term][axis]
        if op == "merge_gconv":
            inner = self.extent(args[0], axis)
            count = _number(term, "count") if axis == -3 else None
            return inner if count is None else times(count, inner)
        return self._constant(term, axis)

    def _source(self, term: App, axis: int) -> tuple[Term, int] | None:
        """Return the operand and its axis that are a term's axis, or None if it is that of no single operand."""
        op, args = term.op, term.args
        if op in UNARY or (op == "slice" and _number(term, "axis") != axis):
            return args[0], axis
        if op == "matmul" and axis in (-1, -2):
            return args[1 if axis == -1 else 0], axis
        if op == "transpose":
            perm = _numbers(term, "perm")
            return (args[0], perm[axis] - len(perm)) if -axis <= len(perm) else None
        if op == "conv2d" and axis == -3:
            return args[1], -4
        if op in ("conv2d", *POOLS, "enlarge") and axis not in (-1, -2):
            return args[0], axis
        return (args[0], axis) if op == "merge_gconv" and axis == -4 else None

    def _window(self, term: App, axis: int) -> IntExpr:
        whole, stride = self.extent(term.args[0], axis), _numbers(term, "strides")[axis]
        if term in self.same:
            return whole if stride == 1 else plus(over(minus(whole, Literal(1)), Literal(stride)), Literal(1))
        pool = term.op in POOLS
        kernel = Literal(_numbers(term, "kernel")[axis]) if pool else self.extent(term.args[1], axis)
        return plus(over(minus(whole, kernel), Literal(stride)), Literal(1))

    def _constant(self, term: App, axis: int) -> IntExpr:
        if term.op == "eye":
            return self._resolved(attribute(term, "size")) if axis in (-1, -2) else Literal(1)
        if term.op in ("identity_kernel", "mean_kernel"):
            if axis in (-1, -2):
                return Literal(_numbers(term, "kernel")[axis])
            dense = axis == -4 or (axis == -3 and term.op == "identity_kernel")
            return self._resolved(attribute(term, "channels")) if dense else Literal(1)
        shape = attribute(term, "shape") if term.op == "ones" else None
        if isinstance(shape, Vector):
            return shape.items[axis] if -axis <= len(shape.items) else Literal(1)
        raise Inexpressible(f"the extents of {term.op} are open")

    def rank(self, term: Term) -> IntExpr:
        """Return the number of axes."""
        if isinstance(term, Var):
            return Literal(self.ranks[term.name]) if term.name in self.ranks else RankOf(term.name)
        if term.op in _FOUR_AXES:
            return Literal(4)
        if term.op == "eye":
            return Literal(2)
        if term.op == "transpose":
            return Literal(len(_numbers(term, "perm")))
        if term.op in ELEMENTWISE:
            return self._broadcast(term, self.rank, 0)
        if term.op == "matmul":
            # A product has at least two axes, so a matrix on one side does not determine the rank.
            found = {self.rank(a) for a in term.args}
            return largest(*(found - {Literal(2)} or found))
        if term.op == "concat":
            ranks = [self.rank(a) for a in term.args]
            return next((r for r in ranks if isinstance(r, Literal)), min(ranks, key=_order))
        if term.op == "ones":
            shape = attribute(term, "shape")
            if not isinstance(shape, Vector):
                raise Inexpressible("the rank of ones is open")
            return Literal(len(shape.items))
        return self.rank(term.args[0])

    def cut(self, term: Term, axis: int) -> tuple[IntExpr, IntExpr]:
        """Return the two extents between which the last concatenation along an axis left a mark.

        A system whose tensors record where they were joined splits them there.
        """
        found = self._marks(term, axis)
        if found is None:
            raise Inexpressible(f"nothing was joined along axis {axis} of the operand of a split")
        return found

    def _marks(self, term: Term, axis: int) -> tuple[IntExpr, IntExpr] | None:
        if isinstance(term, Var) or not term.args:
            return None
        op, args = term.op, term.args
        if op == "concat" and _number(term, "axis") == axis:
            *first, last = (self.extent(a, axis) for a in args)
            return plus(*first), last
        if op == "concat" or op in ELEMENTWISE:
            marks = {self._marks(a, axis) for a in args if a not in self.scalars}
            if op in ELEMENTWISE:
                marks.discard(None)
            # Operands that were joined at different places, or only some of them, leave no common mark.
            return marks.pop() if len(marks) == 1 else None
        source = self._source(term, axis)
        return None if source is None else self._marks(*source)

    def learn(self, roots: Sequence[Term]) -> None:
        """Record the ranks that variables have whenever the terms are well-typed."""
        terms = [t for root in roots for t in subterms(root) if isinstance(t, App)]
        before = -1
        while before != len(self.ranks):
            before = len(self.ranks)
            for term in terms:
                if term.op in (*POOLS, "enlarge", "merge_gconv", "conv2d"):
                    expected: IntExpr = Literal(4)
                elif term.op in ("transpose", "concat"):
                    expected = self.rank(term)
                else:
                    continue
                if isinstance(expected, Literal) and isinstance(expected.value, int):
                    for arg in term.args:
                        self._expect(arg, expected.value)

    def _expect(self, term: Term, rank: int) -> None:
        if isinstance(term, Var):
            self.ranks.setdefault(term.name, rank)
        elif term.op in UNARY or term.op in ("concat", "slice"):
            for arg in term.args:
                self._expect(arg, rank)
        elif term.op in ELEMENTWISE:
            sized = [a for a in term.args if a not in self.scalars]
            if len(sized) == 1:
                self._expect(sized[0], rank)

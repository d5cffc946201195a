"""Laws of TASO and its descendants in a form that does not depend on a file format.

A term applies an operator of TASO's vocabulary to terms and variables. Its parameters are numbers in
TASO's coding: ``pad`` is 0 (same) or 1 (valid), ``act`` counts none, sigmoid, relu, tanh, and axes count
from the first. :mod:`workbench.laws.foreign.translation` translates such laws to the rule language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from workbench.laws.foreign.extents import POOLS, UNARY, Inexpressible
from workbench.ops import TASO_ACTIVATIONS
from workbench.rules.language import RuleSyntaxError

Param = int | tuple[int, ...]
#: The values of ``pad``.
SAME: Final = 0
VALID: Final = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """Any tensor."""

    name: str


@dataclass(frozen=True, slots=True)
class Term:
    """An application of an operator of TASO's vocabulary; :func:`make` checks its operands and parameters."""

    op: str
    params: tuple[tuple[str, Param], ...]
    args: tuple[Foreign, ...]

    def has(self, name: str) -> bool:
        """Return whether a parameter is given."""
        return name in dict(self.params)

    def number(self, name: str, default: int = 0) -> int:
        """Return the value of a parameter that is a number."""
        value = dict(self.params).get(name, default)
        assert isinstance(value, int)
        return value

    def pair(self, name: str) -> tuple[int, int]:
        """Return the parameters of rows and columns: ``stride_h`` and ``stride_w``."""
        return self.number(f"{name}_h"), self.number(f"{name}_w")

    def perm(self) -> tuple[int, ...]:
        """Return the order of the axes in a transpose."""
        value = dict(self.params)["perm"]
        assert isinstance(value, tuple)
        return value


Foreign = Variable | Term


class _Signature(NamedTuple):
    least: int
    most: int
    needed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


_WINDOW: Final = ("stride_h", "stride_w", "pad")
_KERNEL: Final = ("kernel_h", "kernel_w")
#: Operators with their numbers of operands and their parameters. A part is one result of a split:
#: ``index`` of ``count``.
_VOCABULARY: Final[dict[str, _Signature]] = {
    "conv2d": _Signature(2, 2, (*_WINDOW, "act")),
    **{op: _Signature(1, 1, (*_KERNEL, *_WINDOW), ("act",)) for op in POOLS},
    **{op: _Signature(1, 1) for op in UNARY},
    "add": _Signature(2, 2),
    "mul": _Signature(2, 2),
    "scale": _Signature(2, 2),
    "matmul": _Signature(2, 2, (), ("act",)),
    "concat": _Signature(2, 64, ("axis",), ("rank",)),
    "part": _Signature(1, 1, ("axis", "index", "count")),
    "transpose": _Signature(1, 1, ("perm",)),
    "enlarge": _Signature(1, 2, (), _KERNEL),
    "merge": _Signature(1, 1, ("count",)),
    "eye": _Signature(0, 0),
    "ones": _Signature(0, 0),
    "identity_kernel": _Signature(0, 0, _KERNEL),
    "mean_kernel": _Signature(0, 0, _KERNEL),
}
_FITTED: Final = ("eye", "ones", "identity_kernel", "mean_kernel", "merge")
_MANY: Final = 1 << 20
#: Largest size of a term. Published laws have up to ten operators per side, but shared operands could
#: expand to any number.
_LARGEST: Final = 100
#: The least and the largest value of a parameter; TASO's tensors have at most eight axes.
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "pad": (0, 1),
    "act": (0, len(TASO_ACTIVATIONS) - 1),
    "axis": (0, 7),
    "rank": (1, 8),
    "index": (0, _MANY),
    "count": (1, _MANY),
    **{f"{name}_{way}": (1, _MANY) for name in ("stride", "kernel") for way in "hw"},
}


def make(op: str, params: Mapping[str, Param], args: Sequence[Foreign]) -> Term:
    """Return a term of TASO's vocabulary.

    Raise :class:`RuleSyntaxError` if operands or parameters do not fit the operator.

    >>> make("relu", {}, [Variable("x"), Variable("y")])
    Traceback (most recent call last):
    workbench.rules.language.RuleSyntaxError: relu takes 1 input, got 2
    """
    least, most, needed, allowed = _VOCABULARY[op]
    if not least <= len(args) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise RuleSyntaxError(f"{op} takes {wanted} input{'s' * (most != 1)}, got {len(args)}")
    if missing := [name for name in needed if name not in params]:
        raise RuleSyntaxError(f"{op} must have the parameter {missing[0]}, got none")
    for name, value in params.items():
        if name not in needed + allowed:
            raise RuleSyntaxError(f"{op} has no parameter {name}")
        if isinstance(value, tuple):
            if sorted(value) != list(range(len(value))):
                raise RuleSyntaxError(f"{op}: the order of axes must be a permutation, got {value}")
        elif not _RANGES[name][0] <= value <= _RANGES[name][1]:
            low, high = _RANGES[name]
            raise RuleSyntaxError(f"{op}: {name} must be from {low} to {high}, got {value}")
    term = Term(op, tuple(params.items()), tuple(args))
    if term.has("rank") and term.number("axis") >= term.number("rank"):
        raise RuleSyntaxError(f"{op}: axis must be below {term.number('rank')}, got {term.number('axis')}")
    if op == "enlarge" and [n in params for n in _KERNEL] != [len(args) == 1] * 2:
        raise RuleSyntaxError("enlarge must have one input and a kernel, or two inputs")
    if op == "part" and term.number("index") >= term.number("count"):
        raise RuleSyntaxError(f"part: index must be below {term.number('count')}, got {term.number('index')}")
    if sum(1 for _ in below(term)) > _LARGEST:
        raise Inexpressible(f"a term of more than {_LARGEST} operators and variables")
    return term


#: The terms of both sides of a law.
Sides = tuple[list[Foreign], list[Foreign]]


def handwritten() -> tuple[list[Sides], list[Sides]]:
    """Return the laws of TASO's and Tensat's sources: a kernel enlarged to the size of another, and merged groups.

    The first are without an activation and with relu; the others so at stride 1, then so at stride 2.
    """
    x, w, v = Variable("x"), Variable("w"), Variable("v")

    def conv(kernel: Foreign, act: int, stride: int = 1) -> Foreign:
        return make("conv2d", {"stride_h": stride, "stride_w": stride, "pad": SAME, "act": act}, [x, kernel])

    both = make("concat", {"axis": 0, "rank": 4}, [make("enlarge", {}, [w, v]), v])
    cut = {i: {"axis": 1, "index": i, "count": 2} for i in (0, 1)}
    acts = tuple(TASO_ACTIVATIONS.index(act) for act in ("none", "relu"))
    enlarged: list[Sides] = [
        ([conv(w, act), conv(v, act)], [make("part", cut[i], [conv(both, act)]) for i in cut]) for act in acts
    ]
    merged = make("merge", {"count": 2}, [w])
    grouped = [([conv(w, act, s)], [conv(merged, act, s)]) for s in (1, 2) for act in acts]
    return enlarged, grouped


def variables(terms: Iterable[Foreign]) -> list[str]:
    """Return the names of the variables of terms in order of appearance."""
    return list(dict.fromkeys(t.name for root in terms for t in below(root) if isinstance(t, Variable)))


def below(term: Foreign) -> Iterator[Foreign]:
    """Yield all terms inside a term, then the term."""
    if isinstance(term, Term):
        for arg in term.args:
            yield from below(arg)
    yield term


def fitted(term: Foreign) -> bool:
    """Return whether the meaning of a term depends on its place, because its constants fit their operands."""
    return any(isinstance(t, Term) and t.op in _FITTED for t in below(term))


@dataclass(slots=True)
class Ranks:
    """Ranks of a law's terms, inferred from each other if its operators do not determine them.

    If ``planar``, products and transposes are of matrices, as in the generator of the law. ``declared`` are
    ranks of variables that apply if nothing else determines them.
    """

    planar: bool = False
    declared: Mapping[str, int] = field(default_factory=dict)
    _parents: dict[object, object] = field(default_factory=dict)
    _ranks: dict[object, int] = field(default_factory=dict)

    def note(self, sources: Sequence[Foreign], targets: Sequence[Foreign]) -> None:
        """Add a law; raise :class:`Inexpressible` if a tensor would have two ranks."""
        roots = [t for pair in zip(sources, targets, strict=True) for t in pair]
        terms = [t for root in roots for t in below(root) if isinstance(t, Term)]
        for term in terms:
            self._facts(term)
        for source, target in zip(sources, targets, strict=True):
            self._same(source, target)
        # Last, because an operand may broadcast: an equation that contradicts the others is ignored.
        for term in terms:
            if term.op in ("add", "mul"):
                for arg in term.args:
                    self._same(term, arg, firmly=False)
        for name, rank in self.declared.items():
            self._ranks.setdefault(self.root(Variable(name)), rank)

    def of(self, term: Foreign) -> int | None:
        """Return a term's rank, or None if it is open."""
        return self._ranks.get(self.root(term))

    def _facts(self, term: Term) -> None:
        op, args = term.op, term.args
        if op in ("conv2d", *POOLS, "enlarge", "merge", "identity_kernel", "mean_kernel"):
            self._is(4, term, *args)
        elif op in ("concat", "part", "matmul", "transpose", *UNARY):
            for arg in args:
                self._same(term, arg)
            if term.has("rank"):
                self._is(term.number("rank"), term)
            if op == "transpose":
                self._is(len(term.perm()), term)
            if op == "matmul" and self.planar:
                self._is(2, term)
        elif op == "scale":
            self._same(term, args[0])
            self._is(0, args[1])
        elif op == "eye":
            self._is(2, term)

    def root(self, term: Foreign) -> object:
        """Return a key that terms of the same rank share."""
        # Two constants that look alike may have different ranks.
        key: object = id(term) if fitted(term) else term
        while key in self._parents:
            key = self._parents[key]
        return key

    def _is(self, rank: int, *terms: Foreign) -> None:
        for term in terms:
            if self._ranks.setdefault(self.root(term), rank) != rank:
                raise Inexpressible(f"a tensor would have {self.of(term)} axes and {rank}")

    def _same(self, left: Foreign, right: Foreign, *, firmly: bool = True) -> None:
        one, other = self.root(left), self.root(right)
        if one == other:
            return
        ranks = {self._ranks[r] for r in (one, other) if r in self._ranks}
        if len(ranks) > 1:
            if firmly:
                few, many = sorted(ranks)
                raise Inexpressible(f"a tensor would have {few} axes and {many}")
            return
        self._parents[one] = other
        if ranks:
            self._ranks[other] = ranks.pop()

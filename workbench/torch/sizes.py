"""Symbolic sizes of a torch graph as the workbench's symbols; what torch guards of them are facts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.numbers import int_oo

from workbench.frontends.model import Model, Symbol
from workbench.graph import Graph
from workbench.symbolic import Generic
from workbench.symbolic.generic import prime_below
from workbench.symbolic.integers import Atom, Int, div, largest, mod, num, smallest, sym, symbols

#: Where the search for generic extents begins: attention over the pixels of images needs small ones.
BEGINNINGS: Final = (23_000, 3_400, 1_300)
#: Generic extents are this part of themselves apart: halves of near primes, rounded, would be equal.
_APART: Final = 8

#: Relations that are facts, as what is at least 0 if they hold.
_FACTS: Final[Mapping[Any, Callable[[Int, Int], Int]]] = {
    sympy.Ge: lambda a, b: a - b,
    sympy.Gt: lambda a, b: a - b - 1,
    sympy.Le: lambda a, b: b - a,
    sympy.Lt: lambda a, b: b - a - 1,
}
#: Operations of sympy on integers over symbols.
_OPERATIONS: Final[Mapping[Any, Callable[..., Int]]] = {
    sympy.Add: lambda *xs: reduce(operator.add, xs),
    sympy.Mul: lambda *xs: reduce(operator.mul, xs),
    FloorDiv: div,
    Mod: mod,
    PythonMod: mod,
    Max: largest,
    Min: smallest,
}
#: How symbolic integers are computed in a torch graph.
_CALLS: Final = {"div": operator.floordiv, "mod": operator.mod, "max": torch.sym_max}


class NotSized(ValueError):
    """Raised when a size is not an integer over symbols that torch guards."""


def is_number(value: object) -> bool:
    """Return whether the value of a torch node is a number, such as a size, and not a tensor."""
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float)


def integer(value: int | torch.SymInt) -> Int:
    """Return a size as an integer over symbols; raise :class:`NotSized` if an operation in it has no form there."""
    return num(value) if isinstance(value, int) else _integer(value.node.expr)


def _integer(e: Any) -> Int:
    if isinstance(e, sympy.Integer):
        return num(int(e))
    if isinstance(e, sympy.Symbol) and e.is_integer:
        return sym(f"+{e.name}")
    parts = [] if isinstance(e, sympy.Symbol) else [_integer(a) for a in e.args]
    if isinstance(e, sympy.Pow) and (times := parts[1].value) is not None and times > 0:
        return reduce(operator.mul, [parts[0]] * times)
    for kind, operation in _OPERATIONS.items():
        if isinstance(e, kind):
            return operation(*parts)
    raise NotSized(f"a size of the form {e}")


def _in(values: Iterable[object]) -> Iterator[int | torch.SymInt]:
    """Yield the integers of torch values."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield from _in((*value.shape,))
        elif isinstance(value, tuple | list):
            yield from _in(value)
        elif isinstance(value, int | torch.SymInt):
            yield value


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The symbols of a torch graph: generic extents, the sizes at hand, and torch's guards.

    Attributes:
        generic: The meaning of the generic extents.
        hints: The sizes at hand, by the names of torch.
        shapes: Torch's own environment of shapes, with its guards; None if a graph has none.
    """

    generic: Generic
    hints: Mapping[str, int]
    shapes: Any = None

    @classmethod
    def of(cls, module: fx.GraphModule, beginning: int = BEGINNINGS[0]) -> Sizes:
        """Return the symbols of a torch graph, with generic extents below a bound.

        Raise :class:`NotSized` if a size has no form, or depends on data.
        """
        found = list(_in((n.args, n.meta.get("val")) for n in module.graph.nodes))
        open_ = [v for v in found if isinstance(v, torch.SymInt) and not v.node.expr.is_number]
        if not open_:
            return cls(Generic({}), {})
        shapes: Any = open_[0].node.shape_env
        known = {s.name: int(v) for s, v in shapes.backed_var_to_val.items() if s.is_integer}
        names = sorted({name[1:] for v in open_ for name in symbols(integer(v))})
        if unknown := [n for n in names if n not in known]:
            raise NotSized(f"sizes that depend on data: {', '.join(unknown)}")
        numbers = frozenset(abs(v) for v in found if isinstance(v, int))
        primes: dict[str, int] = {}
        for i, name in enumerate(names):
            taken = frozenset(primes.values())
            primes[f"+{name}"] = prime_below(beginning * _APART // (_APART + i), numbers, taken)
        generic = Generic(primes, {n: sym(f"+{n}") for n in names}, set(numbers))
        for s, bounds in shapes.var_to_range.items():
            if s.name in names:
                generic.facts.add(sym(f"+{s.name}") - int(bounds.lower))
                if bounds.upper not in (int_oo, sympy.oo):
                    generic.facts.add(num(int(bounds.upper)) - sym(f"+{s.name}"))
        for guard in shapes.guards:
            e = shapes.replace(guard.expr)
            if (fact := _FACTS.get(type(e))) and {s.name for s in e.free_symbols} <= {*names}:
                try:
                    generic.facts.add(fact(*map(_integer, e.args)))
                except NotSized:
                    continue
        return cls(generic, {n: known[n] for n in names}, shapes)

    def number(self, value: int | torch.SymInt) -> int:
        """Return the extent that stands for a size."""
        return self.generic.number(integer(value)) if self.hints else int(value)

    def sum(self, extent: int, by: int) -> int:
        """Return the extent that stands for the sum of what two numbers stand for."""
        if not self.hints:
            return extent + by
        return self.generic.number(self.generic.expression(extent) + self.generic.expression(by))

    def depends(self, *numbers: int) -> bool:
        """Return whether one of some numbers depends on a symbol."""
        return any(map(self.generic.depends, numbers)) if self.hints else False

    def model(self, graph: Graph) -> Model:
        """Return a graph of generic extents as a model that is priced at the sizes at hand."""
        names = tuple(Symbol(name, (), "other", True, 0) for name in self.hints)
        return Model(graph, graph, symbols=names, generic=self.generic)

    def others(self) -> list[dict[str, int]]:
        """Return up to two other bindings of the symbols that torch's guards accept: smaller ones, and larger ones."""
        least, most = self.generic.facts.least, self.generic.facts.most
        found = []
        for part, more in ((2, 1), (1, 3)):
            moved = {n: size // part + more + i for i, (n, size) in enumerate(sorted(self.hints.items()))}
            inside = {n: max(least.get(f"+{n}", 1), min(k, most.get(f"+{n}", k))) for n, k in moved.items()}
            if inside != self.hints and inside not in found and self._accepted(inside):
                found.append(inside)
        return found

    def _accepted(self, binding: Mapping[str, int]) -> bool:
        for guard in self.shapes.guards:
            e = self.shapes.replace(guard.expr)
            values = {s: sympy.Integer(binding[s.name]) for s in e.free_symbols if s.name in binding}
            if e.xreplace(values) != sympy.true:
                return False
        return True


def arguments_at(
    module: fx.GraphModule, arguments: Sequence[Any], binding: Mapping[str, int]
) -> tuple[Any, ...]:
    """Return arguments like those of a torch graph whose symbolic sizes are bound otherwise.

    A tensor's elements are those of the given one, cut or repeated, so that they stay valid.
    """
    values = {f"+{name}": size for name, size in binding.items()}
    places = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    return tuple(_at(a, kind, values) for a, kind in zip(arguments, places, strict=True))


def _at(given: Any, kind: Any, values: Mapping[str, int]) -> Any:
    if isinstance(kind, torch.SymInt):
        return integer(kind).at(values)
    if not isinstance(given, torch.Tensor):
        return given
    made = given.detach()
    for axis, extent in enumerate(kind.shape):
        if isinstance(extent, torch.SymInt) and not extent.node.expr.is_number:
            size = integer(extent).at(values)
            picked = torch.arange(size, device=given.device) % given.shape[axis]
            made = made.index_select(axis, picked)
    return given if made is given or made.shape == given.shape else made.requires_grad_(given.requires_grad)


def symbol_nodes(module: fx.GraphModule) -> dict[str, tuple[fx.Node, int | None]]:
    """Return where each symbol of a torch graph is given: an argument, or an axis of one."""
    found: dict[str, tuple[fx.Node, int | None]] = {}
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        extents = value.shape if isinstance(value, torch.Tensor) else (value,)
        for axis, extent in enumerate(extents):
            if isinstance(extent, torch.SymInt) and isinstance(extent.node.expr, sympy.Symbol):
                place = (node, axis) if isinstance(value, torch.Tensor) else (node, None)
                found.setdefault(f"+{extent.node.expr.name}", place)
    return found


def write_integer(graph: fx.Graph, x: Int, symbol: Callable[[str], fx.Node]) -> int | fx.Node:
    """Add the computation of an integer over symbols to a torch graph and return its node, or the number.

    Raise :class:`NotSized` if it has an operation without a form in torch.
    """

    def atom(a: Atom) -> Any:
        if a.head == "sym":
            return symbol(str(a.args[0]))
        if a.head not in _CALLS:
            raise NotSized(f"a size of the form {a.text}")
        parts = [write_integer(graph, i, symbol) for i in a.args]
        return reduce(lambda p, q: graph.call_function(_CALLS[a.head], (p, q)), parts)

    total: int | fx.Node = 0
    for m, c in x.terms:
        factors = [*map(atom, m), *([c] if c != 1 or not m else [])]
        product = reduce(lambda p, q: graph.call_function(operator.mul, (p, q)), factors)
        total = product if total == 0 else graph.call_function(operator.add, (total, product))
    return total

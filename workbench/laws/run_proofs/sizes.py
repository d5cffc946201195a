"""Models for proofs: graphs whose extents may be integers over symbols, and types that hold at every size.

A graph of generic extents (:mod:`workbench.symbolic`) is read as terms over symbols: nothing is concluded from the
numbers. A type rule then runs on these integers, and what it requires must follow from the facts of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from workbench.egraph.at_sizes import COUNTED, Extent, SizedType, attrs_at, graph_at, plain
from workbench.frontends.model import DimensionError, Model
from workbench.frontends.onnx.file import Source, names_as_text, read_tensors
from workbench.frontends.onnx.importer import Opening, import_prepared
from workbench.frontends.onnx.prepare import prepare
from workbench.graph import Graph
from workbench.ops import AttrValue, TensorType, TupleType, TypeMismatch, ValueType, spec_of
from workbench.symbolic import Generic
from workbench.symbolic.facts import Facts
from workbench.symbolic.integers import Int, atoms, num, written

#: The type of a term: of numbers, or with integers over symbols.
Kind: TypeAlias = "ValueType | SizedType"
#: Signs in names of dimensions that could make the text of a symbol that of another integer.
_SIGNS: Final = frozenset("*(),")
#: The operations of which integers in a proof may be made.
_HEADS: Final = frozenset(("sym", "div", "max", "ite"))


@dataclass(frozen=True, slots=True)
class Sized:
    """A graph for a proof, and the meaning of its generic extents."""

    graph: Graph
    generic: Generic

    @classmethod
    def of(cls, model: Graph | Model) -> Sized:
        """Return a graph without symbols, or the searched graph of a model."""
        if isinstance(model, Graph):
            return cls(model, Generic({}))
        return cls(model.searched, model.generic)

    def at(self, generic: Generic) -> Sized:
        """Return the graph with the numbers of other generic extents; raise ValueError if they have none."""
        if not generic.primes:
            return self
        return Sized(graph_at(self.graph, lambda n: generic.number(self.generic.expression(n))), generic)

    def extent(self, given: AttrValue) -> object:
        """Return what a number, or a tuple of numbers, of the graph stands for; other values stay as they are."""
        if isinstance(given, tuple):
            return tuple(map(self.extent, given))
        return plain(self.generic.expression(given)) if type(given) is int and self.generic.primes else given

    def kind(self, kind: ValueType) -> Kind:
        """Return a type of the graph over symbols."""
        if isinstance(kind, TupleType):
            return replace(kind, elements=tuple(map(self.kind, kind.elements)))  # type: ignore[arg-type]
        shape: Any = self.extent(kind.shape)
        return tensor(kind.dtype, shape)

    def attrs(self, op: str, attrs: Sequence[AttrValue]) -> tuple[Any, ...]:
        """Return attributes of the graph over symbols."""
        return (
            attrs_at(op, attrs, lambda n: plain(self.generic.expression(n)))
            if self.generic.primes
            else tuple(attrs)
        )

    def check_names(self) -> None:
        """Raise TypeMismatch for a dimension whose name could be read as an operation on others."""
        for name in self.generic.primes:
            if _SIGNS & set(name):
                raise TypeMismatch(
                    f"a dimension must have a name without {' '.join(sorted(_SIGNS))}, got {name[1:]}"
                )

    def check_words(self, values: Iterable[object]) -> None:
        """Raise TypeMismatch for an integer, also in a tuple, that is not made of the symbols."""
        for x in values:
            if isinstance(x, tuple):
                self.check_words(x)
            for a in atoms(x) if isinstance(x, Int) else ():
                if a.head not in _HEADS or (a.head == "sym" and a.args[0] not in self.generic.primes):
                    raise TypeMismatch(f"no size of the model: {x}")

    def covered(self) -> str:
        """Return the sizes of which a proof speaks, in words; empty if all are numbers."""
        generic, names = self.generic, [n for n, s in self.generic.sizes.items() if s.value is None]
        if not names:
            return ""
        found = []
        single = {name: (symbol, k, c) for symbol, (name, k, c) in generic.own.items()}
        for name in names:
            if name not in single:
                found.append(f"{name} = {written(generic.named(generic.sizes[name]))}")
                continue
            symbol, factor, addend = single[name]
            least = generic.facts.least.get(symbol, 1) * factor + addend
            text = f"{name} >= {least}"
            if symbol in generic.facts.most:
                text = f"{least} <= {name} <= {generic.facts.most[symbol] * factor + addend}"
            if factor > 1:
                text += f" in steps of {factor}"
            found.append(text)
        own = {x for x in generic.facts.known if len({a.text for a in atoms(x) if a.head == "sym"}) > 1}
        found += sorted(f"{written(generic.named(x))} >= 0" for x in own)
        return ", ".join(found)


def read_plainly(source: Source, dims: Mapping[str, int] | None = None, like: Sized | None = None) -> Sized:
    """Return an ONNX file as a graph, operator by operator; dimensions without a size in ``dims`` stay symbols.

    It is the import of the optimiser without what that changes afterwards: nothing is recognised as an idiom, left out
    as neutral, or computed, except shapes and the arithmetic on them, which the types decide. A result is read with
    what its original, ``like``, says of the sizes. Raise ModelError if the file is not a valid model, and OSError if it
    cannot be read.
    """
    with names_as_text():
        try:
            prepared = prepare(read_tensors(source), dims or {}, open_dimensions=True)
        except DimensionError:
            if like is None:
                raise
            # A result may have the sizes already.
            prepared = prepare(read_tensors(source), {}, open_dimensions=True)
        prepared = replace(prepared, plain=True)
        if not prepared.symbols:
            return Sized.of(import_prepared(prepared).graph)
        opening = Opening(prepared)
        if like is not None:
            known, facts = like.generic, like.generic.facts
            opening.sizes = {name: known.sizes.get(name, size) for name, size in opening.sizes.items()}
            opening.facts = Facts(list(facts.known), dict(facts.least), dict(facts.most))
            opening.kinds = dict.fromkeys(known.primes, "other") | opening.kinds
        return Sized.of(opening.run())


def tensor(dtype: str, shape: Sequence[Extent]) -> TensorType | SizedType:
    """Return the type of a tensor, with integers over symbols only if it has some."""
    return SizedType(dtype, tuple(shape)) if is_open(shape) else TensorType(dtype, tuple(shape))  # type: ignore[arg-type]


def is_open(values: Sequence[Any]) -> bool:
    """Return whether values, or the entries of tuples among them, depend on a symbol."""
    return any(isinstance(v, Int) or (isinstance(v, tuple) and is_open(v)) for v in values)


def packed(op: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes in declared order, checked as numbers are, if one of them has integers over symbols."""
    spec = spec_of(op)
    if not is_open(tuple(given.values())):
        return spec.pack(given)

    def closed(v: Any) -> Any:
        return tuple(map(closed, v)) if isinstance(v, tuple) else 1 if isinstance(v, Int) else v

    found: list[Any] = list(spec.pack({name: closed(v) for name, v in given.items()}))
    for k, attr in enumerate(spec.attrs):
        value: Any = given.get(attr.name)
        if not is_open((value,)):
            continue
        if attr.kind not in COUNTED:
            raise TypeMismatch(f"{op}: {attr.name} must not depend on a size, got {value}")
        if isinstance(found[k], tuple):
            values: Any = value if isinstance(value, tuple) else (value,) * len(found[k])
            found[k] = tuple(map(plain, values))
        else:
            found[k] = value
    return tuple(found)


def check_elements(kind: Kind, facts: Facts) -> None:
    """Raise TypeMismatch for a tensor that may have no elements: of these theorems say nothing."""
    if not isinstance(kind, TupleType) and not all(facts.at_least(whole(d), 1) for d in kind.shape):
        raise TypeMismatch(f"a tensor must have elements at every size, got {kind}")


def whole(x: object) -> Int:
    """Return a size as an integer over symbols; raise TypeMismatch if it is not a whole number."""
    if isinstance(x, Int):
        return x
    if type(x) is not int:
        raise TypeMismatch(f"a size must be a whole number, got {x!r}")
    return num(x)

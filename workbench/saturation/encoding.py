"""The encoding of graphs in egglog: one constructor per operator and arity, attributes as columns.

A tensor's type is one opaque vector ``[dtype, rank, d...]``, whose extents are aligned at the right and
filled with 1 up to the largest rank of the run. Comparing two types is therefore one primitive test, and an
extent never becomes a join column (measured: 15 to 50 times slower). No identifier ends in a digit, because
egglog 13.2 makes fresh names by appending a counter and would confuse them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from workbench.graph import Graph
from workbench.ops import Attr, AttrValue, TensorType, Trait, TupleType, spec_of
from workbench.ops.inputs_and_opaque import RUNTIME
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES
from workbench.saturation.program import literal, vector

#: Birth records from this number on are fresh: their step is not written yet.
UNSTAMPED: Final = 1 << 40
#: A birth record is ``step * BIRTH_BASE + rule number``; 0 is the start graph.
BIRTH_BASE: Final = 4096

_VECTOR_KINDS: Final = frozenset({"axes", "perm", "shape"})


@dataclass(frozen=True, slots=True, order=True)
class Constructor:
    """An operator at an arity; ``many`` means that its value is a tuple."""

    op: str
    arity: int
    many: bool = False

    @property
    def name(self) -> str:
        """Return the egglog name."""
        return f"{self.op}_n{self.arity}{'_t' if self.many else ''}_"

    @property
    def born(self) -> str:
        """Return the name of the function of the birth records."""
        return f"born_{self.name}"

    def columns(self) -> list[str]:
        """Return the sorts of the attribute columns."""
        return [sort for attr in spec_of(self.op).attrs for sort in column_sorts(attr)]

    def sorts(self) -> list[str]:
        """Return the sorts of the attribute columns and of the operands."""
        return self.columns() + ["TT" if self.op == "project" else "T"] * self.arity

    def variables(self) -> tuple[list[str], list[str]]:
        """Return names of the attribute columns and of the operands in a rule."""
        return [f"c{i}_" for i in range(len(self.columns()))], [f"x{i}_" for i in range(self.arity)]

    def declaration(self) -> str:
        """Return the egglog declarations of the constructor and its birth records."""
        sorts, value = " ".join(self.sorts()), "TT" if self.many else "T"
        born = f"(function {self.born} ({sorts}) i64 :merge (min old new))"
        return f"(constructor {self.name} ({sorts}) {value})\n{born}"

    def stamp(self, number: int) -> str:
        """Return the rule that writes the step into fresh birth records."""
        columns = " ".join(f"c{i}_" for i in range(len(self.columns()) + self.arity))
        return (
            f"(rule ((clock_ t_) (= b_ ({self.born} {columns})) (>= b_ {UNSTAMPED}))"
            f" ((set ({self.born} {columns}) (+ (- b_ {UNSTAMPED}) (* t_ {BIRTH_BASE}))))"
            f' :ruleset stamp_ :name "stamp {number}")'
        )

    def dependence(self) -> list[str]:
        """Return rules that derive whether a result depends on an input (``runs_``) or on weights alone."""
        if self.many:
            return []
        columns, operands = self.variables()
        found = f"(= e_ ({self.name} {' '.join(columns + operands)}))"
        if self.op in RUNTIME:
            return [_rule(found, "(runs_ e_)", "depends_")]
        constant = " ".join([found, *(f"(constant_ {x})" for x in operands)])
        running = [_rule(f"{found} (runs_ {x})", "(runs_ e_)", "depends_") for x in operands]
        return [_rule(constant, "(constant_ e_)", "depends_"), *running]

    def demand(self) -> list[str]:
        """Return rules that derive whether a value from which a part is taken is needed whole (``whole_``).

        It is if it has the same elements as another that is, in another order.
        """
        traits = spec_of(self.op).traits
        if not traits & (Trait.CUTS | Trait.REARRANGES):
            return []
        found = f"(= e_ ({self.name} {' '.join(self.variables()[0])} x_))"
        if Trait.CUTS in traits:
            return [_rule(found, "(set (whole_ x_) 0)", "depends_")]
        pairs = (("x_", "e_"), ("e_", "x_"))
        return [_rule(f"{found} (= 1 (whole_ {a}))", f"(set (whole_ {b}) 1)", "depends_") for a, b in pairs]

    def loops(self) -> list[str]:
        """Return rules that exclude e-nodes from matching that read their own e-class, as ``x + 0`` in that of ``x``.

        Such an e-node says nothing that its e-class does not say without it, and other rules would multiply it:
        ``(x + 0)W = xW + 0W`` reads its own e-class again.
        """
        if self.many or self.op == "project":
            return []
        columns, operands = self.variables()
        rules = []
        for at in range(self.arity):
            one = f"({self.name} {' '.join([*columns, *operands[:at], 'e_', *operands[at + 1 :]])})"
            rules.append(_rule(f"(= e_ {one})", f"(subsume {one})", "loops_"))
        return rules

    def numbers(self) -> list[str]:
        """Return rules that compute the number of a term of numbers, if 64-bit floats show what it consists of.

        A sum in which one number is lost beside the other, or a product too small or too large for floats,
        stays a term: ``1 + 1e17`` is not ``1e17``.
        """
        if self.op not in _OF_NUMBERS:
            return []
        operands = " ".join(self.variables()[1])
        facts = [f"(= e_ ({self.name} {operands}))", f"(= r_ {_OF_NUMBERS[self.op]})", "(< (abs r_) 1e300)"]
        facts += [f"(= u{i}_ (uniform_ x{i}_))" for i in range(self.arity)]
        if self.op in ("add", "sub"):
            facts += [f"(<= (abs u{i}_) (* 1e6 (abs u{1 - i}_)))" for i in (0, 1)]
        else:
            facts.append("(> (abs r_) 1e-300)")
        return [_rule(" ".join(facts), "(set (uniform_ e_) r_)", "depends_")]

    def duplicates(self) -> list[str]:
        """Return rules that exclude e-nodes from matching that differ from an older one in weights alone.

        Two e-nodes of one e-class that apply an operator to the same running operands but to different
        weights compute the same value at the same cost, so rules need to rewrite only one of them.

        If the weights turn out to be equal, the two e-nodes become one, and egglog excludes it, because one
        of them was excluded. It is then deleted and made anew: rules must be able to match it.
        """
        if self.many or self.arity < 2 or spec_of(self.op).variadic:
            return []
        columns, operands = self.variables()
        sorts = " ".join([*self.columns(), *["T"] * self.arity])
        alike, lost = f"alike_{self.name}", f"lost_{self.name}"
        one = f"{self.name} {' '.join(columns + operands)}"
        gone = f"{lost} {' '.join(columns + operands)} e_"
        same = f"({alike} {' '.join(columns + operands + operands)} e_)"
        rules = [
            f"(relation {alike} ({sorts} {' '.join(['T'] * self.arity)} T)) (relation {lost} ({sorts} T))",
            _rule(same, f"(delete {same}) (delete ({one})) ({gone})", "lost_"),
            _rule(f"({gone})", f"(union e_ ({one})) (delete ({gone}))", "found_"),
        ]
        if self.op in ("add", "mul"):
            # (x·a)·b goes once its e-class has x·c: rules see one form for each beginning of a chain of weights.
            facts = f"(= y_ ({self.name} x_ a_)) (constant_ a_) (= e_ ({self.name} y_ b_)) (constant_ b_) (!= x_ y_)"
            facts += f" (= e_ ({self.name} x_ c_)) (constant_ c_) (runs_ x_) (!= e_ y_)"
            rules.append(_rule(facts, f"(subsume ({self.name} y_ b_))", "duplicates_"))
        for constant in [range(1, self.arity)] + ([range(1)] if self.arity == 2 else []):
            for first in constant:
                older = operands
                newer = [f"y{i}_" if i in constant and i >= first else f"x{i}_" for i in range(self.arity)]
                given = [f"(= e_ ({self.name} {' '.join(columns + side)}))" for side in (older, newer)]
                given += [f"(constant_ {side[i]})" for i in constant for side in (older, newer)]
                a, b = older[first], newer[first]
                given += [f"(!= {a} {b})", f"(= {a} (ordering-min {a} {b}))"]
                subsumed = f"(subsume ({self.name} {' '.join(columns + newer)}))"
                both = f"({alike} {' '.join(columns + older + newer)} e_)"
                rules.append(_rule(" ".join(dict.fromkeys(given)), f"{subsumed} {both}", "duplicates_"))
        return rules


def _rule(facts: str, actions: str, ruleset: str) -> str:
    return f"(rule ({facts}) ({actions}) :ruleset {ruleset})"


def column_sorts(attr: Attr) -> list[str]:
    """Return the sorts of the columns of an attribute."""
    if attr.kind == "ints":
        return ["i64"] * attr.length
    if attr.kind in _VECTOR_KINDS:
        return ["VI"]
    return [{"float": "f64", "str": "String"}.get(attr.kind, "i64")]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The layout of type vectors, which is determined by the largest rank of a run."""

    rank: int

    def slot(self, axis: int) -> int:
        """Return the position in a type vector of the extent of an axis (counted from the last)."""
        return self.rank + 2 + axis

    def type_vector(self, kind: TensorType) -> list[int]:
        """Return ``[dtype, rank, extents aligned at the right]``."""
        fill = [1] * (self.rank - len(kind.shape))
        return [DTYPE_CODES[kind.dtype], len(kind.shape), *fill, *kind.shape]

    def type_of(self, vec: Sequence[int]) -> TensorType:
        """Return the type that a vector represents."""
        dims = vec[2 + self.rank - vec[1] :] if vec[1] else []
        return TensorType(DTYPE_NAMES[vec[0]], tuple(dims))

    def perm_vector(self, perm: Sequence[int]) -> list[int]:
        """Return for every slot of a permuted type vector its source slot; slot 1 is the rank."""
        fill = self.rank - len(perm)
        return [0, len(perm), *range(2, 2 + fill), *(2 + fill + p for p in perm)]

    def vector_of(self, attr: Attr, value: Sequence[int], dtype: str = "float32") -> list[int]:
        """Return the vector of an attribute of a vector kind."""
        if attr.kind == "perm":
            return self.perm_vector(value)
        return self.type_vector(TensorType(dtype, tuple(value))) if attr.kind == "shape" else list(value)

    def value_of(self, attr: Attr, vec: Sequence[int]) -> tuple[int, ...]:
        """Return the attribute that a vector represents."""
        if attr.kind == "perm":
            fill = 2 + self.rank - vec[1]
            return tuple(v - fill for v in vec[fill:])
        return self.type_of(vec).shape if attr.kind == "shape" else tuple(vec)

    def attr_literals(self, op: str, values: Sequence[AttrValue], dtype: str) -> list[str]:
        """Return the attribute columns of an e-node as literals."""
        columns: list[str] = []
        for attr, value in zip(spec_of(op).attrs, values, strict=True):
            if attr.kind in _VECTOR_KINDS:
                columns.append(vector(self.vector_of(attr, value, dtype)))  # type: ignore[arg-type]
            elif attr.kind == "ints":
                columns += [str(v) for v in value]  # type: ignore[union-attr]
            elif attr.names:
                columns.append(str(attr.names.index(str(value))))
            elif attr.kind == "dtype":
                columns.append(str(DTYPE_CODES[str(value)]))
            else:
                columns.append(literal(value))  # type: ignore[arg-type]
        return columns

    def decode_attr(self, attr: Attr, columns: Sequence[Any]) -> AttrValue:
        """Return the attribute that its decoded columns (ints, floats, strings, vectors) represent."""
        if attr.kind == "ints":
            return tuple(columns)
        (raw,) = columns
        if attr.kind in _VECTOR_KINDS:
            return self.value_of(attr, raw)
        if attr.names:
            return attr.names[raw]
        return DTYPE_NAMES[raw] if attr.kind == "dtype" else raw

    def decode_attrs(self, op: str, columns: Sequence[Any]) -> tuple[AttrValue, ...]:
        """Return the attributes that the decoded columns of an operator represent."""
        attrs, rest = spec_of(op).attrs, iter(columns)
        return tuple(self.decode_attr(attr, list(islice(rest, len(column_sorts(attr))))) for attr in attrs)


def constructor_of(graph: Graph, i: int) -> Constructor:
    """Return the constructor of a graph's node."""
    node = graph.nodes[i]
    return Constructor(node.op, len(node.inputs), isinstance(node.type, TupleType))


def encoding_for(graph: Graph) -> Encoding:
    """Return the encoding for a graph, with its largest rank but at least 4."""
    ranks = [len(n.type.shape) for n in graph.nodes if isinstance(n.type, TensorType)]
    return Encoding(max(4, *ranks, 0))


#: Terms of numbers in egglog.
_OF_NUMBERS: Final = {
    "add": "(+ u0_ u1_)", "sub": "(- u0_ u1_)", "mul": "(* u0_ u1_)", "div": "(/ u0_ u1_)",
    "reciprocal": "(/ 1.0 u0_)", "neg": "(- 0.0 u0_)",
}  # fmt: skip
PRELUDE: Final = """(sort T) (sort TT) (sort VI (Vec i64))
(function ty_ (T) VI :no-merge)
(function h_ (i64) T :merge old)
(function ht_ (i64) TT :merge old)
(relation clock_ (i64))
(ruleset loops_) (ruleset stamp_) (ruleset tick_) (ruleset depends_)
(ruleset duplicates_) (ruleset lost_) (ruleset found_)
(relation runs_ (T)) (relation constant_ (T)) (function whole_ (T) i64 :merge (max old new))
(function uniform_ (T) f64 :merge old)
(rule ((= n_ (uniform_ x_)) (= n_ (uniform_ y_)) (= k_ (ty_ x_)) (= k_ (ty_ y_)) (!= x_ y_)) ((union x_ y_))
    :ruleset depends_ :name "same numbers")
(rule ((clock_ t_)) ((delete (clock_ t_))) :ruleset tick_ :name "tick")"""


def declarations(constructors: Iterable[Constructor]) -> str:
    """Return the program text that declares sorts, constructors and bookkeeping."""
    ordered = sorted(set(constructors))
    lines = [PRELUDE]
    lines += [c.declaration() for c in ordered]
    lines += [c.stamp(i) for i, c in enumerate(ordered)]
    return "\n".join(lines)


def load_graph(
    graph: Graph, encoding: Encoding, numbers: Mapping[int, float], whole: Collection[int] = ()
) -> str:
    """Return the program text that inserts a graph; node ``i`` becomes ``(h_ i)``.

    Args:
        graph: The graph.
        encoding: The encoding of types and attributes.
        numbers: The nodes whose elements are all one number, and these numbers.
        whole: The nodes that are needed whole in any case.
    """
    lines: list[str] = []
    for i, node in enumerate(graph.nodes):
        constructor = constructor_of(graph, i)
        dtype = node.type.dtype if isinstance(node.type, TensorType) else "float32"
        columns = encoding.attr_literals(node.op, node.attrs, dtype)
        columns += [
            f"({'ht_' if isinstance(graph.nodes[j].type, TupleType) else 'h_'} {j})" for j in node.inputs
        ]
        text = " ".join(columns)
        handle = f"({'ht_' if constructor.many else 'h_'} {i})"
        lines.append(f"(set {handle} ({constructor.name} {text}))")
        lines.append(f"(set ({constructor.born} {text}) 0)")
        if isinstance(node.type, TensorType):
            lines.append(f"(set (ty_ {handle}) {vector(encoding.type_vector(node.type))})")
        if i in whole and not constructor.many:
            lines.append(f"(set (whole_ {handle}) 1)")
        if i in numbers:
            lines.append(f"(set (uniform_ {handle}) {literal(numbers[i])})")
    return "\n".join(lines)

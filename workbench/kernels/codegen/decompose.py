"""Operators split into formulas: the cheapest form that saturation with the laws of splitting finds.

The laws are the definitions among the axioms, and ``rules/splitting.rules``. An operator is saturated alone,
on a row that stands for every row, and exact extraction takes the form of functions and reductions with the
least work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from workbench.egraph import EGraph
from workbench.egraph.rebuild import rebuild
from workbench.extraction import NoExtraction
from workbench.extraction.extract import extract
from workbench.graph import Graph, GraphBuilder, Node
from workbench.kernels.composites.composite import Composite, Equation, Tensor
from workbench.kernels.composites.define import known
from workbench.kernels.composites.equations import parse
from workbench.kernels.composites.index import ExtentName, IndexName
from workbench.kernels.composites.lowering import OPERATORS
from workbench.kernels.composites.scalar import (
    FUNCTIONS,
    Apply,
    Bound,
    IndexValue,
    Number,
    Read,
    Reduce,
    Scalar,
)
from workbench.kernels.composites.simplify import COSTS
from workbench.ops import TensorType, Trait, TypeMismatch, spec_of, with_trait
from workbench.rules import RuleSet
from workbench.rules.pattern import Rule, Var
from workbench.rules.ruleset import load_rules
from workbench.rules.verdicts import TRUSTED, library, verdict_of
from workbench.saturation import Limits, Saturation

#: Functions of index notation by the operator of graphs.
FUNCTION_OF: Final = {op: function for function, op in OPERATORS.items()}

#: Reductions of index notation by the operator of graphs.
REDUCTION_OF: Final = {f"reduce_{name}": name for name in ("sum", "mean", "max")}

#: The extents of the row and of the rows before it on which an operator is split.
_ROW, _ROWS = 8, 4

#: Names of indices that reductions bind.
_INDICES: Final = "efghijklmnopqrstuvw"

#: Laws of the axioms that are definitions have this provenance.
_DEFINITION: Final = "definition"

_NUMBERS: Final = with_trait(Trait.NUMBER)
_D: Final = ExtentName("D")


@lru_cache(maxsize=1)
def laws() -> RuleSet:
    """Return the laws of splitting: definitions of operators, each tested or a theorem."""
    own = load_rules(library() / "splitting.rules")
    axioms = load_rules(library() / "axioms.rules")
    known = (r for r in axioms if _DEFINITION in r.provenance and _splits(r))
    return RuleSet("splitting", tuple(r for r in (*own, *known) if verdict_of(r) in TRUSTED))


def _splits(rule: Rule) -> bool:
    """Return whether a law is about an operator of any operands."""
    return all(isinstance(x, Var) for x in rule.sources[0].args)


@lru_cache(maxsize=1)
def _splittable() -> frozenset[str]:
    return frozenset(rule.sources[0].op for rule in laws() if _splits(rule))


@cache
def split(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return the formula of an operator by the laws of splitting, or None if they find none.

    The axes of a row are one axis called D, the last one.

    Args:
        op: The operator's name.
        operands: The number of its operands.
        attrs: Its attributes by name.
    """
    if op not in _splittable():
        return None
    given = dict(attrs)
    by_rows = "axis" in given
    if by_rows:
        given["axis"] = -1
    builder = GraphBuilder(op)
    whole, row = (_ROWS, _ROW), (_ROW,)
    shapes = [row if by_rows and k else whole for k in range(operands)]
    try:
        y = builder.op(op, *(builder.input(f"x{k}", s) for k, s in enumerate(shapes)), **given)
    except TypeMismatch:
        return None
    graph = builder.graph({"y": y})
    found = _cheapest(graph)
    return None if found is None else _composite(op, found, operands, by_rows)


def _cheapest(graph: Graph) -> Graph | None:
    with Saturation(graph, laws(), Limits(iterations=8, seconds=20.0, e_nodes=2000)) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    costs = np.array([_cost(egraph, i) for i in range(len(egraph))])
    try:
        return rebuild(graph, egraph, extract(egraph, costs).choice)
    except NoExtraction:
        return None


def _cost(egraph: EGraph, node: int) -> float:
    """Return the work of an e-node in additions; an operator without a function of its own is excluded."""
    op = egraph.ops[node]
    if op == "input" or op in _NUMBERS:
        return 0.0
    kinds = [egraph.types[c] for c in (int(egraph.eclass[node]), *egraph.operands(node).tolist())]
    elements = max(kind.elements if isinstance(kind, TensorType) else 1 for kind in kinds)
    if elements == 1:  # of numbers: computed once, in the text
        return 1e-3
    if op in REDUCTION_OF:
        return float(elements)
    return float(elements * COSTS.get(FUNCTION_OF[op], 1)) if op in FUNCTION_OF else np.inf


def _composite(name: str, graph: Graph, operands: int, by_rows: bool) -> Composite:
    dims = (_D,) if by_rows else ()
    (root,) = graph.output_ids
    place = IndexName("d") if by_rows else None
    bound = (Bound("d", _D),) if by_rows else ()
    equation = Equation("y", True, bound, _value(graph, root, place))
    inputs = tuple(Tensor(f"x{k}", "T", True, dims) for k in range(operands))
    return Composite(name, inputs, (Tensor("y", "T", True, dims),), (), (equation,))


def _value(graph: Graph, i: int, place: IndexName | None) -> Scalar:
    """Return the value of an element of a node at a place of the row; ``None`` if there are no rows."""
    node = graph.nodes[i]
    if node.op == "input":
        return Read(node.attr("name"), True, () if place is None else (place,))
    if node.op in _NUMBERS:
        return Number(_number(node))
    if node.op in REDUCTION_OF:
        function, index = REDUCTION_OF[node.op], _INDICES[sum(n.op in REDUCTION_OF for n in graph.nodes[:i])]
        total = "sum" if function == "mean" else function
        found = Reduce(total, (Bound(index, _D),), _value(graph, node.inputs[0], IndexName(index)))
        return Apply("div", (found, IndexValue(_D))) if function == "mean" else found
    return _folded(FUNCTION_OF[node.op], [_value(graph, j, place) for j in node.inputs])


def _folded(function: str, operands: Sequence[Scalar]) -> Scalar:
    numbers = [e.value for e in operands if isinstance(e, Number)]
    if len(numbers) == len(operands):
        return Number(float(FUNCTIONS[function].numpy(*map(np.float64, numbers))))
    return Apply(function, tuple(operands))


def _number(node: Node) -> float:
    evaluate = spec_of(node.op).evaluate
    assert evaluate is not None
    named: Mapping[str, Any] = node.named_attrs()
    wide = {**named, "dtype": "float64"} if "dtype" in named else named
    return float(np.asarray(evaluate([], wide)).reshape(()))


def definition(op: str, operands: int, attrs: tuple[tuple[str, Any], ...] = ()) -> Composite | None:
    """Return an operator in index notation, or None if it has none.

    Args:
        op: The operator's name.
        operands: The number of its operands.
        attrs: Its attributes by name.
    """
    if Trait.CARRIED in spec_of(op).traits:
        return declared(op)
    return _function(op, operands) or _reduction(op) or split(op, operands, attrs)


def declared(op: str) -> Composite | None:
    """Return a declared composite if it computes single elements, or rows of an extent called D; or None."""
    found = known().get(op)
    if found is None or any(a.whole for a in found.attributes):
        return None
    tensors = (*found.inputs, *found.outputs)
    plain = all(t.dims in ((), (_D,)) and t.dtype == "T" for t in tensors)
    return found if plain and all(e.leading for e in found.equations) else None


@cache
def _function(op: str, operands: int) -> Composite | None:
    function = FUNCTION_OF.get(op)
    if function is None or FUNCTIONS[function].arity != operands:
        return None
    inputs = tuple(Tensor(f"x{k}", "T", True, ()) for k in range(operands))
    value = Apply(function, tuple(Read(t.name, True, ()) for t in inputs))
    output = Tensor("y", "T", True, ())
    return Composite(op, inputs, (output,), (), (Equation("y", True, (), value),))


@cache
def _reduction(op: str) -> Composite | None:
    found = REDUCTION_OF.get(op)
    text = f"y[~] = {found}(e) x[~ e]"
    return parse(op, "x{T}[~ D] -> y{T}[~]", text, composites=None, doc="") if found else None

"""Read an e-graph of egglog-python into columns, and write a selection as one of its typed expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import NoExtraction
from workbench.support.orders import postorder

if TYPE_CHECKING:
    import egglog


#: The module that egglog-python names for its primitive sorts and containers.
_BUILTIN: Final = "egglog.builtins"


@dataclass(frozen=True, slots=True)
class TypedEGraph:
    """An e-graph of egglog-python as columns.

    ``calls`` are the e-nodes as egglog-python's declarations, whose operands are values of e-classes.
    Values of primitive sorts, and the containers around e-classes, are part of the e-node.
    """

    source: egglog.EGraph
    egraph: EGraph
    costs: np.ndarray
    calls: tuple[Any, ...]
    classes: dict[Any, int]

    def expression(self, choice: np.ndarray) -> egglog.Expr:
        """Return the term that a selection makes, as a typed expression."""
        from egglog.declarations import CallDecl, TypedExprDecl
        from egglog.runtime import RuntimeExpr

        made: dict[int, Any] = {}

        def filled(part: Any) -> Any:
            if _is_eclass(part):
                return made[self.classes[part.expr.value]]
            return TypedExprDecl(part.tp, call_of(part.expr)) if isinstance(part.expr, CallDecl) else part

        def call_of(call: Any) -> Any:
            return CallDecl(call.callable, tuple(map(filled, call.args)), call.bound_tp_params)

        for c in postorder(
            self.egraph.roots[:1], lambda c: self.egraph.operands(int(choice[c])).tolist()[::-1]
        ):
            typed = self.calls[int(choice[c])]
            made[c] = TypedExprDecl(typed.tp, call_of(typed.expr))
        return RuntimeExpr.__from_values__(self.source.__egg_decls__, made[self.egraph.roots[0]])


def read_typed(
    source: egglog.EGraph, expr: object, cost: Callable[[Any], float] | None = None
) -> TypedEGraph:
    """Return an e-graph of egglog-python as columns, with an expression's e-class as root.

    The expression is registered if the e-graph does not have it, as egglog's own extraction does. ``cost`` maps an
    e-node, as a typed expression whose operands are values, to its cost; by default it is egglog's own: what
    ``set_cost`` or the declaration says, otherwise 1, and 1 for every primitive value in it. Raise
    :class:`NoExtraction` if the expression is of a primitive sort, or a cost is not a number.
    """
    from egglog.declarations import ConstantDecl, ConstructorDecl, TypedExprDecl
    from egglog.runtime import RuntimeExpr

    source.register(expr)
    state: Any = source._state
    decls = source.__egg_decls__
    frozen: Any = state.egraph.freeze()
    rows: list[tuple[Any, Any, bool, int | None]] = []
    classes: dict[Any, int] = {}
    set_costs = _set_costs(state, frozen)
    for name, function in frozen.functions.items():
        refs = state.egg_fn_to_callable_refs.get(name, ())
        if function.is_let_binding or not refs:
            continue
        ref = next(iter(refs))
        decl = decls.get_callable_decl(ref)
        builtin = isinstance(decl, ConstantDecl) and decl.type_ref.ident.module == _BUILTIN
        if not isinstance(decl, ConstructorDecl | ConstantDecl) or builtin:
            continue
        closed = isinstance(decl, ConstructorDecl) and decl.unextractable
        declared = decl.cost if isinstance(decl, ConstructorDecl) else None
        for row in function.rows:
            runtime: Any = source._values_to_expr(row.inputs, name)
            classes.setdefault(row.output, len(classes))
            own = set_costs.get((ref, tuple(row.inputs)), declared)
            rows.append((runtime.__egg_typed_expr__, row.output, row.subsumed or closed, own))
    asked: Any = expr
    root = state.typed_expr_to_value(asked.__egg_typed_expr__)
    if asked.__egg_typed_expr__.tp.ident.module == _BUILTIN or root not in classes:
        raise NoExtraction(f"an expression must be of a sort with e-classes to be extracted, got {expr}")
    children: list[int] = []
    start, costs = [0], []
    for typed, _, closed, own in rows:
        children += [classes.setdefault(value, len(classes)) for value in _values(typed)]
        start.append(len(children))
        if closed:
            costs.append(math.inf)
        elif cost is None:
            costs.append((1 if own is None else own) + _literals(typed))
        else:
            costs.append(float(cost(RuntimeExpr.__from_values__(decls, TypedExprDecl(typed.tp, typed.expr)))))
    egraph = EGraph(
        ops=tuple(str(_name(typed)) for typed, *_ in rows),
        attrs=((),) * len(rows),
        child_start=np.array(start, dtype=np.int64),
        children=np.array(children, dtype=np.int64),
        eclass=np.array([classes[output] for _, output, _, _ in rows], dtype=np.int64),
        n_classes=len(classes),
        roots=(classes[root],),
        types=(None,) * len(classes),
        birth_rule=np.full(len(rows), -1, dtype=np.int32),
        birth_step=np.zeros(len(rows), dtype=np.int32),
    )
    return TypedEGraph(source, egraph, np.array(costs, float), tuple(row[0] for row in rows), classes)


def _name(typed: Any) -> str:
    ref = typed.expr.callable
    parts = [getattr(getattr(ref, "ident", None), "name", ""), getattr(ref, "method_name", "")]
    return ".".join(filter(None, (*parts, getattr(ref, "name", "")))) or str(ref)


def _set_costs(state: Any, frozen: Any) -> dict[tuple[Any, tuple[Any, ...]], int]:
    """Return the costs that ``set_cost`` gave to e-nodes, by callable and operands."""
    found: dict[tuple[Any, tuple[Any, ...]], int] = {}
    for ref in state.cost_callables:
        table = frozen.functions.get(state.cost_table_name(ref))
        for row in table.rows if table is not None else ():
            found[ref, tuple(row.inputs)] = state.egraph.value_to_i64(row.output)
    return found


def _values(typed: Any) -> Iterator[Any]:
    """Yield the e-classes in the operands of a call, also those inside containers."""
    from egglog.declarations import CallDecl

    stack = list(reversed(typed.expr.args))
    while stack:
        part = stack.pop()
        if _is_eclass(part):
            yield part.expr.value
        elif isinstance(part.expr, CallDecl):
            stack += reversed(part.expr.args)


def _is_eclass(part: Any) -> bool:
    """Return whether an operand is an e-class; a primitive value may have the same number as one."""
    from egglog.declarations import ValueDecl

    return isinstance(part.expr, ValueDecl) and part.tp.ident.module != _BUILTIN


def _literals(typed: Any) -> int:
    """Return the number of primitive values in the operands of a call."""
    from egglog.declarations import CallDecl, LitDecl, PyObjectDecl

    return sum(
        isinstance(part.expr, LitDecl | PyObjectDecl) or (isinstance(part.expr, CallDecl) and _literals(part))
        for part in typed.expr.args
    )


#: Terms of more operators than this are written with names for their shared parts.
LONGEST: Final = 100_000


def s_expressions(egraph: EGraph, choice: np.ndarray) -> tuple[str, ...]:
    """Return the terms of an acyclic selection, one S-expression for each root in the e-graph's order.

    Shared parts are repeated. If all terms together would have more than :data:`LONGEST` operators, each part
    that is read twice is written once, in front of the first term that needs it:
    ``(let s7 (neg y)) (add s7 s7)``. The number is that of the e-class.
    """
    rows = {c: (egraph.ops[i], egraph.operands(i).tolist()) for c, i in enumerate(choice.tolist()) if i >= 0}
    order = postorder(egraph.roots, lambda c: rows[c][1])
    sizes: dict[int, int] = {}
    readers = dict.fromkeys(order, 0)
    for c in order:
        sizes[c] = min(LONGEST + 1, 1 + sum(sizes[d] for d in rows[c][1]))
        for d in rows[c][1]:
            readers[d] += 1
    named: dict[int, None] = {}
    if sum(sizes[r] for r in egraph.roots) > LONGEST:
        named = {c: None for c in order if readers[c] > 1 and rows[c][1]}
    terms: list[str] = []
    known: set[int] = set()
    for root in egraph.roots:
        needed = set(postorder((root,), lambda c: rows[c][1])) - known if named else set()
        known |= needed
        parts = [f"(let s{c} {_text(rows, named, c)})" for c in named if c in needed]
        terms.append(" ".join([*parts, f"s{root}" if root in named else _text(rows, named, root)]))
    return tuple(terms)


def _text(rows: dict[int, tuple[str, list[int]]], named: dict[int, None], root: int) -> str:
    """Return the term of an e-class, with names for the shared parts below it."""
    parts: list[str] = []
    left: list[int | str] = [root]
    while left:
        at = left.pop()
        if isinstance(at, str):
            parts.append(at)
        elif at in named and at != root:
            parts.append(f" s{at}")
        else:
            op, operands = rows[at]
            parts.append(f" ({op}" if operands else f" {op}")
            if operands:
                left.append(")")
                left += reversed(operands)
    return "".join(parts).strip()

"""The terms of a selection as S-expressions."""

from __future__ import annotations

from typing import Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.support.orders import postorder

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

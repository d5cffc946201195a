"""Methods of extraction by name: those built in, the user's own, and the check of their choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from graphlib import CycleError
from typing import Any, Final

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.extraction.problem import NoExtraction
from workbench.support.orders import topological
from workbench.support.plugins import Named

#: One line on each method that is built in.
METHODS: Final = {
    "exact": "greedy, local search, then cutting planes and branch and bound until an optimum is proved",
    "auto": "as exact, but the solver stops when it makes no progress worth waiting for",
    "dag": "the least cost of each term with shared parts counted once, greedily",
    "local": "greedy, then local search: switches, and shared parts that pay only together",
    "tree": "the least cost of each term with shared parts counted every time",
    "filtered": "as exact, on the cycle-free part left after breaking cycles, as Tensat does",
    "tensat": "Tensat's program by itself, with real order variables, in HiGHS",
    "tensat-integer": "Tensat's program by itself, with integer order variables",
    "tensat-filtered": "Tensat's program by itself, without order variables, cycles broken first",
}

#: The methods that run Tensat's program by itself.
TENSAT: Final = ("tensat", "tensat-integer", "tensat-filtered")

#: ``(e-graph, costs of the e-nodes, seconds=…) -> the e-node of every e-class that is needed``: a mapping, or
#: an array with -1 for the other e-classes.
Extractor = Callable[..., Any]

OWN: Final = Named[Extractor](
    "extractor", "workbench.extractors", "workbench.extraction.registry:OWN", lambda: METHODS
)


class BadExtraction(NoExtraction):
    """Raised when a user's extractor chose e-nodes that make no term; the message says which."""


def methods() -> list[str]:
    """Return the names of all methods of extraction."""
    return OWN.names()


def checked_choice(name: str, egraph: EGraph, costs: np.ndarray, given: object) -> np.ndarray:
    """Return the choice of a user's extractor, without the e-classes that are not needed.

    Raise :class:`BadExtraction` if it is neither a mapping nor an array of the right length, if a needed e-class
    has no e-node, one of another e-class, or one of infinite cost, or if the term is cyclic.

    Args:
        name: The name of the extractor, for messages.
        egraph: The e-graph.
        costs: One cost per e-node.
        given: The result of the extractor: an e-node by e-class.
    """
    if isinstance(given, Mapping):
        picked = {int(c): int(i) for c, i in given.items()}
    else:
        array = np.asarray(given)
        if array.shape != (egraph.n_classes,) or array.dtype.kind not in "iu":
            shape = f" of shape {array.shape} and type {array.dtype}" if array.dtype != object else ""
            raise BadExtraction(
                f"the extractor {name!r} must return a mapping from e-classes to e-nodes or an array of "
                f"{egraph.n_classes} integers, one per e-class, got {type(given).__name__}{shape}"
            )
        picked = dict(enumerate(array.tolist()))
    choice = np.full(egraph.n_classes, -1, dtype=np.int64)
    reader = dict.fromkeys(egraph.roots, -1)

    def operands(c: int) -> list[int]:
        if choice[c] < 0:
            choice[c] = _member(name, egraph, costs, picked.get(c, -1), c, reader[c])
        row: list[int] = egraph.operands(int(choice[c])).tolist()
        for d in row:
            reader.setdefault(d, c)
        return row

    try:
        topological(egraph.roots, operands)
    except CycleError as error:
        loop = " → ".join(map(egraph.class_name, reversed(error.args[1])))
        why = f"the extractor {name!r} must choose an acyclic term, got the loop {loop}"
        raise BadExtraction(why) from None
    return choice


def _member(name: str, egraph: EGraph, costs: np.ndarray, i: int, c: int, reader: int) -> int:
    """Return the e-node chosen for an e-class that ``reader`` (-1: a root) needs; raise BadExtraction for others."""
    if 0 <= i < len(egraph) and int(egraph.eclass[i]) == c and np.isfinite(costs[i]):
        return i
    by = f", an operand in {egraph.class_name(reader)}" if reader >= 0 else ", a root"
    where = f"e-class {egraph.class_name(c)}{by}"
    if not 0 <= i < len(egraph):
        why = f"an e-node for {where}, got {'none' if i < 0 else f'{i}, and there are {len(egraph)}'}"
    elif (other := int(egraph.eclass[i])) != c:
        why = f"an e-node of {where}, got {egraph.node_name(i)} of {egraph.class_name(other)}"
    else:
        why = f"e-nodes of finite cost, got {egraph.node_name(i)} for {where}"
    raise BadExtraction(f"the extractor {name!r} must choose {why}")

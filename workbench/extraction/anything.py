"""Extraction from any form of an e-graph: the workbench's columns, egglog-python, or a JSON file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.egraph.serialize import load_json
from workbench.extraction.alternatives import k_best
from workbench.extraction.extract import extract as extract_columns
from workbench.extraction.solution import Solution, Status

if TYPE_CHECKING:
    import egglog

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extracted(Generic[T]):
    """A cheapest term with its cost and its bound.

    ``expr`` is the term: a typed expression for egglog-python, an S-expression for a file. ``cost`` counts
    every chosen e-node once, and no term costs less than ``bound``. ``best`` are the ``k`` cheapest terms
    with their costs, the cheapest first. ``solution`` is the selection itself.
    """

    expr: T
    cost: float
    bound: float
    status: Status
    best: tuple[tuple[T, float], ...]
    solution: Solution

    @property
    def gap(self) -> float:
        """Return the relative distance from the bound."""
        return self.solution.gap


@overload
def extract(egraph: EGraph, costs: np.ndarray, method: str = ..., **options: Any) -> Solution: ...


@overload
def extract(
    egraph: egglog.EGraph,
    costs: T,
    method: str = ...,
    *,
    cost: Callable[[Any], float] | None = ...,
    k: int = ...,
    seconds: float = ...,
) -> Extracted[T]: ...


@overload
def extract(
    egraph: str | os.PathLike[str],
    *,
    method: str = ...,
    cost: Callable[[str], float] | None = ...,
    k: int = ...,
    seconds: float = ...,
) -> Extracted[str]: ...


def extract(
    egraph: EGraph | egglog.EGraph | str | os.PathLike[str],
    costs: object = None,
    method: str = "exact",
    *,
    cost: Callable[[Any], float] | None = None,
    k: int = 1,
    seconds: float = 60.0,
    **options: Any,
) -> Solution | Extracted[Any]:
    """Return the cheapest term that a method finds in an e-graph.

    - ``extract(egraph, costs)`` takes an :class:`~workbench.egraph.EGraph` and one cost per e-node, and
      returns a :class:`Solution`; see :func:`workbench.extraction.extract.extract`.
    - ``extract(egraph, expr, cost=…)`` takes an e-graph of egglog-python as it is, and returns
      :class:`Extracted` with a typed expression equal to ``expr``.
    - ``extract(path, cost=…)`` takes a file of egraph-serialize JSON, as egg and egglog write it, and
      returns :class:`Extracted` with an S-expression; of several roots, the first counts.

    Args:
        egraph: The e-graph, or the path of a file.
        costs: One cost per e-node, or the expression to extract.
        method: A name of :data:`~workbench.extraction.METHODS`, such as ``"exact"``, ``"dag"`` or ``"tree"``.
        cost: A function from an e-node to its cost, 0 or more: a typed expression whose operands are values,
            or the operator's name of a file. By default the costs that the e-graph or the file has.
        k: Number of terms in ``best``; more than one are searched exactly.
        seconds: Time limit.
        **options: Other arguments of :func:`workbench.extraction.extract.extract`.

    Raises:
        ValueError: For an unknown method, a limit that is not positive, or a ``k`` below 1.
        NoExtraction: (a ValueError) for costs that cannot be used or a root without a finite term.
        EGraphFormatError: (a ValueError) if a file is not an e-graph.
    """
    if isinstance(egraph, EGraph):
        return extract_columns(egraph, np.asarray(costs), method, seconds=seconds, **options)
    if isinstance(egraph, str | os.PathLike):
        columns, values = load_json(egraph)
        if cost is not None:
            values = np.where(np.isinf(values), values, [float(cost(op)) for op in columns.ops])
        return _extracted(columns, values, lambda choice: s_expression(columns, choice), method, k, seconds)
    if not hasattr(egraph, "_state"):
        raise TypeError(
            f"an e-graph must be columns, egglog-python's EGraph or a path, got {type(egraph).__name__}"
        )
    from workbench.extraction.typed import read_typed

    typed = read_typed(egraph, costs, cost)
    return _extracted(typed.egraph, typed.costs, typed.expression, method, k, seconds)


def _extracted(
    egraph: EGraph,
    costs: np.ndarray,
    written: Callable[[np.ndarray], T],
    method: str,
    k: int,
    seconds: float,
) -> Extracted[T]:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if k == 1:
        found = [extract_columns(egraph, costs, method, seconds=seconds)]
    else:
        found = k_best(egraph, costs, k, seconds=seconds)
    best = tuple((written(s.choice), s.cost) for s in found)
    first = found[0]
    return Extracted(best[0][0], first.cost, first.bound, first.status, best, first)


def s_expression(egraph: EGraph, choice: np.ndarray) -> str:
    """Return the term of a selection below the first root; shared parts are repeated."""
    texts: dict[int, str] = {}
    stack = [egraph.roots[0]]
    while stack:
        c = stack[-1]
        operands = egraph.operands(int(choice[c])).tolist()
        open_ = [d for d in operands if d not in texts]
        if open_:
            stack += open_
            continue
        stack.pop()
        op = egraph.ops[int(choice[c])]
        texts[c] = f"({' '.join([op, *(texts[d] for d in operands)])})" if operands else op
    return texts[egraph.roots[0]]

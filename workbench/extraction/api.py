"""Extraction from any form of an e-graph (columns, egglog-python, a JSON file), and extractors by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import numpy as np

from workbench.egraph.egraph import EGraph
from workbench.egraph.serialize import load_json
from workbench.extraction.alternatives import k_best
from workbench.extraction.egglog_python import read_typed, s_expressions
from workbench.extraction.extract import extract as extract_columns
from workbench.extraction.registry import METHODS, OWN, Extractor
from workbench.extraction.result import Solution, Status

if TYPE_CHECKING:
    import egglog

T = TypeVar("T")
#: The share of the time limit that an extraction from a file has at least, however long reading takes.
LEAST: Final = 0.05


@dataclass(frozen=True, slots=True)
class Extracted(Generic[T]):
    """A cheapest term with its cost and its bound.

    ``expr`` is the term: a typed expression for egglog-python, an S-expression for a file. ``exprs`` has one term for
    each root of a file, and ``expr`` is then a text with one line for each. ``cost`` counts every chosen e-node once,
    and no selection costs less than ``bound``. ``best`` are the ``k`` cheapest terms with their costs, the cheapest
    first.
    """

    expr: T
    exprs: tuple[T, ...]
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
    method: str | Extractor = ...,
    *,
    cost: Callable[[Any], float] | None = ...,
    k: int = ...,
    seconds: float = ...,
) -> Extracted[T]: ...


@overload
def extract(
    egraph: str | os.PathLike[str],
    *,
    method: str | Extractor = ...,
    cost: Callable[[str], float] | None = ...,
    k: int = ...,
    seconds: float = ...,
) -> Extracted[str]: ...


def extract(
    egraph: EGraph | egglog.EGraph | str | os.PathLike[str],
    costs: object = None,
    method: str | Extractor = "exact",
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
      returns :class:`Extracted` with one S-expression for each root; see
      :func:`~workbench.extraction.egglog_python.s_expressions`.

    Args:
        egraph: The e-graph, or the path of a file.
        costs: One cost per e-node, or the expression to extract.
        method: A name of :data:`~workbench.extraction.METHODS`, such as ``"exact"``, ``"dag"`` or ``"tree"``, or a
            user's own extractor.
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
        began = time.perf_counter()
        columns, values = load_json(egraph)
        if cost is not None:
            values = np.where(np.isinf(values), values, [float(cost(op)) for op in columns.ops])
        if seconds > 0:
            seconds = max(LEAST * seconds, seconds - (time.perf_counter() - began))
        return _extracted(columns, values, lambda choice: s_expressions(columns, choice), method, k, seconds)
    if not hasattr(egraph, "_state"):
        raise TypeError(
            f"an e-graph must be columns, egglog-python's EGraph or a path, got {type(egraph).__name__}"
        )
    typed = read_typed(egraph, costs, cost)
    return _extracted(typed.egraph, typed.costs, lambda one: (typed.expression(one),), method, k, seconds)


def _extracted(
    egraph: EGraph,
    costs: np.ndarray,
    written: Callable[[np.ndarray], tuple[Any, ...]],
    method: str | Extractor,
    k: int,
    seconds: float,
) -> Extracted[Any]:
    if k == 1:
        found = [extract_columns(egraph, costs, method, seconds=seconds)]
    else:
        found = k_best(egraph, costs, k, seconds=seconds)
    terms, first = [written(s.choice) for s in found], found[0]
    whole = [one[0] if len(one) == 1 else "\n".join(one) for one in terms]
    best = tuple((term, s.cost) for term, s in zip(whole, found, strict=True))
    return Extracted(whole[0], terms[0], first.cost, first.bound, first.status, best, first)


class _Extractors:
    """The extractors by name.

    A user's own is a function ``(egraph, costs, *, seconds)`` that returns an e-node for every e-class that the
    roots need: a mapping, or an array with -1 for the other e-classes; ``extractor=`` and ``--extractor`` then know
    its name. The result is checked (:class:`~workbench.extraction.registry.BadExtraction`).
    """

    register, forget, names = OWN.register, OWN.forget, OWN.names

    def __call__(self, name: str | Extractor) -> Callable[..., Solution]:
        """Return an extraction ``(egraph, costs, seconds=…)`` by a method's name or a function; raise UnknownName."""
        method = OWN.named(name)
        if method not in METHODS and OWN.find(method) is None:
            raise OWN.unknown(method)
        return partial(extract, method=method)


#: Return an extractor by name: ``extractor("exact")``.
extractor: Final = _Extractors()

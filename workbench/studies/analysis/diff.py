"""The difference of two models of any origin: their operators related by the values that they compute, not by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from workbench.certification.inputs import random_inputs
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import node_instances
from workbench.frontends import load_model, opaque_runner
from workbench.graph import Graph
from workbench.graph.evaluate import OpaqueRunner, node_values
from workbench.studies.analysis.comparison import Comparison, Side

if TYPE_CHECKING:
    from workbench.frontends.model import ModelLike

#: The largest difference of the figures of values that look equal: weights that were folded are rounded.
CLOSE: Final = 1e-5


def diff(
    a: ModelLike | Graph,
    b: ModelLike | Graph,
    *,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare two models, operator by operator.

    Both run once on the same random inputs in float64. Operators of one value correspond, whatever they are called;
    that two values look equal on these inputs is no proof (:func:`workbench.certify` compares models). Costs are
    those of a roofline of a CPU.

    Args:
        a: The first model.
        b: The second model, with inputs of the same types: of the same names, or in the same order.
        dims: Sizes of symbolic dimensions.
        sizes: Sizes of symbolic dimensions, as ``dims``: the graphs are shown at them.
        seed: The seed of the inputs.

    Raises:
        ValueError: If a model cannot be read, or their inputs differ.
        OSError: If a file cannot be read.
    """
    first, second = (m if isinstance(m, Graph) else load_model(m, dims=dims, sizes=sizes) for m in (a, b))
    graphs = [first, second]
    inputs = _inputs(first, second, seed)
    opaque = opaque_runner() if any(g.opaques for g in graphs) else None
    numbers = _completed(graphs, _related(graphs, inputs, opaque), inputs)
    terms = [
        [(n.op, n.attrs, tuple(found[j] for j in n.inputs)) for n in graph.nodes]
        for graph, found in zip(graphs, numbers, strict=True)
    ]
    before, after = (
        _side(graphs[k], numbers[k], terms[k], numbers[1 - k], terms[1 - k], alone)
        for k, alone in enumerate(("removed", "added"))
    )
    names = _name(a, first), _name(b, second)
    return Comparison(before, after, None, _PRICES.source, names[0], sides=names, by="value")


_PRICES: Final = AnalyticCost("cpu")


def _name(model: object, graph: Graph) -> str:
    return Path(model).name if isinstance(model, str | Path) else graph.name


def _inputs(a: Graph, b: Graph, seed: int) -> dict[str, Any]:
    """Return inputs of both graphs, paired by name or by order."""
    found, ours, theirs = random_inputs(a, seed, 0), a.input_types, b.input_types
    pairs = [(n, n) for n in ours] if {*ours} == {*theirs} else list(zip(ours, theirs, strict=False))
    if len(ours) != len(theirs) or any(ours[n] != theirs[m] for n, m in pairs):
        listed = ("; ".join(f"{n}: {kind}" for n, kind in g.items()) for g in (ours, theirs))
        raise ValueError(f"both models must have inputs of the same types, got {' and '.join(listed)}")
    return found | {m: found[n] for n, m in pairs}


def _related(graphs: list[Graph], inputs: Mapping[str, Any], opaque: OpaqueRunner | None) -> list[list[int]]:
    """Return a number for every node, equal if values look equal; -1 if a value does not vary or no output needs it."""
    sizes = Counter(node.type for graph in graphs for node in graph.nodes)
    known = {kind: (np.full((n, 4), np.inf), [0]) for kind, n in sizes.items()}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    sides = []
    for graph in graphs:
        found = [-1] * len(graph)
        for i, value in node_values(graph, inputs, precise=True, opaque=opaque):
            figures, kind = _figures(value), graph.nodes[i].type
            if figures is None:
                continue
            rows, count = known[kind]
            off = np.abs(rows[: count[0]] - figures).max(axis=1)
            nearest = int(off.argmin()) if len(off) else 0
            if not len(off) or off[nearest] > CLOSE:
                nearest, count[0] = count[0], count[0] + 1
                rows[nearest] = figures
            found[i] = first[kind] + nearest
        sides.append(found)
    return sides


def _figures(value: object) -> np.ndarray | None:
    """Return four figures of a value, of the order of 1 but for its norm; None for a value that does not vary."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.size < 2:
        return None
    data = value.reshape(-1).astype(np.float64)
    norm = float(np.sqrt(data @ data))
    if not np.isfinite(norm) or norm == 0 or float(np.ptp(data)) <= CLOSE * norm / np.sqrt(data.size):
        return None
    places = np.arange(data.size, dtype=np.float64)
    sums = (data @ np.cos(0.7 * places), data @ np.sin(1.3 * places), data @ np.cos(2.1 * places + 1))
    return np.array([np.log(norm), *(float(s) / norm for s in sums)])


def _completed(graphs: list[Graph], known: list[list[int]], inputs: Mapping[str, Any]) -> list[list[int]]:
    """Return the numbers of both graphs, with numbers for values that do not vary: of equal terms, equal ones."""
    table: dict[Any, int] = {}
    first = 1 + max((n for side in known for n in side), default=-1)
    for graph, found in zip(graphs, known, strict=True):
        for i, node in enumerate(graph.nodes):
            if found[i] >= 0:
                continue
            key: Any = (node.op, node.attrs, node.type, tuple(found[j] for j in node.inputs))
            if node.op == "input":
                key = (node.op, node.type, inputs[str(node.attr("name"))].tobytes())
            elif node.op == "weight":
                data = graph.weights[str(node.attr("name"))].value()
                key = (node.op, node.type, blake2b(np.ascontiguousarray(data).data).digest())
            elif -1 in key[-1]:
                continue
            found[i] = table.setdefault(key, first + len(table))
    return known


def _side(
    graph: Graph, numbers: list[int], terms: list[Any], there: list[int], others: list[Any], alone: str
) -> Side:
    values, same = {*there}, Counter(zip(there, others, strict=True))
    marks = []
    for node, number, term in zip(graph.nodes, numbers, terms, strict=True):
        leaf = node.op in ("input", "weight")
        kept = number >= 0 and number in values and (leaf or (number, term) in same)
        marks.append("kept" if kept else "rewritten" if number in values and number >= 0 else alone)
    instances = node_instances(graph)
    prices = dict(zip(instances, _PRICES.price(list(instances.values())).tolist(), strict=True))
    nothing = (-1,) * len(graph)
    costs = tuple(float(prices.get(i, 0.0)) for i in range(len(graph)))
    return Side(graph, tuple(numbers), nothing, tuple(marks), costs, (None,) * len(graph))

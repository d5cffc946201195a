"""The difference of two models of any origin: their operators related by the values that they compute, not by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workbench.certification.inputs import random_inputs
from workbench.certification.regions import Correspondence, matched
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import node_instances
from workbench.frontends import load_model, opaque_runner
from workbench.graph import Graph
from workbench.studies.analysis.comparison import Comparison, Side

if TYPE_CHECKING:
    from workbench.frontends.model import ModelLike

#: Weights of at most so many bytes are compared whole if they are all equal numbers, as others are by their sums.
SMALL: Final = 1 << 12


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
    numbers = _completed(graphs, matched(first, second, inputs, opaque), inputs)
    terms = [_terms(graph, found) for graph, found in zip(graphs, numbers, strict=True)]
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


def _completed(graphs: list[Graph], known: Correspondence, inputs: Mapping[str, Any]) -> list[list[int]]:
    """Return the numbers of both graphs, with numbers for values that do not vary: of equal terms, equal ones."""
    table: dict[Any, int] = {}
    first = 1 + max((*known.original, *known.optimised), default=-1)
    sides = []
    for graph, given in zip(graphs, (known.original, known.optimised), strict=True):
        found = list(given)
        for i, node in enumerate(graph.nodes):
            if found[i] >= 0:
                continue
            key: Any = (node.op, node.attrs, node.type, tuple(found[j] for j in node.inputs))
            if node.op == "input":
                key = (node.op, node.type, inputs[str(node.attr("name"))].tobytes())
            elif node.op == "weight":
                data = graph.weights[str(node.attr("name"))].value()
                key = (node.op, node.type, data.tobytes() if data.nbytes <= SMALL else node.attrs)
            elif -1 in key[-1]:
                continue
            found[i] = table.setdefault(key, first + len(table))
        sides.append(found)
    return sides


def _terms(graph: Graph, numbers: list[int]) -> list[Any]:
    """Return the operator, attributes and operands' numbers of every node."""
    return [(n.op, n.attrs, tuple(numbers[j] for j in n.inputs)) for n in graph.nodes]


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

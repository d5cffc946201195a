"""Constants that import computes or takes apart.

Constants that are the same numbers twice, side by side, are read as such: tables of rotary positions are.

Arithmetic on weights alone is computed in float64 when a graph is written, and rounded once. If its result
is used in a comparison, a rounding or an index, the last digit decides; if it overflows, the model's own
infinity is the right result. Such constants are computed at import by ONNX Runtime, exactly as in the model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

import numpy as np

from workbench.frontends.model import ModelError
from workbench.frontends.onnx.opaque import payload_of
from workbench.frontends.onnx.prepare import walk
from workbench.frontends.onnx.traits import OnnxTrait, has
from workbench.frontends.runtime import RuntimeFailure, run_model
from workbench.graph import Builder, Graph, Node, evaluate
from workbench.graph.evaluate import Constants
from workbench.ops import Trait, with_trait
from workbench.ops.types import FLOAT_DTYPES, TensorType

#: Operators that round nothing, and those of them that only move elements; a conversion counts as both.
_EXACT: Final = with_trait(Trait.UNROUNDED) | {"weight", "cast"}
_MOVING: Final = with_trait(Trait.SELECTS) | {"weight", "cast"}
#: Operators whose result may be infinite although their operands are finite; larger ones are not examined.
_GROWING: Final = with_trait(Trait.GROWS)
_LOOKED_AT: Final = 1 << 22
#: Rows that are compared at once.
_ROWS: Final = 256
#: Larger constants are never computed at import.
_LARGEST: Final = 1 << 27


def settled(graph: Graph) -> Graph:
    """Return the graph with constants in place of the computations that are rounded later or overflow."""
    constant = graph.constant()
    made = [(i, node) for i, node in enumerate(graph.nodes) if constant[i]]
    floats = {i for i, node in made if node.op not in _EXACT and _is_float(node.type)}
    inexact = [i for i, _ in made if i in floats or _discrete(graph, i)]
    if not inexact:
        return graph
    rounded = _rounded(graph)
    sizes = _sizes(graph, constant)
    values = _computed(graph, [i for i in inexact if rounded[i] and sizes[i] <= _LARGEST])
    looked = [i for i in inexact if graph.nodes[i].op in _GROWING and sizes[i] <= _LOOKED_AT]
    rest = [i for i in looked if i not in values]
    plain = _computed(graph, rest, runtime=False)
    strange = {i: v for i, v in plain.items() if not np.isfinite(v.astype(np.float64)).all()}
    # Values computed from infinities or NaNs depend on how a runtime orders and rounds.
    after = set(strange)
    for i, node in enumerate(graph.nodes):
        if not _is_float(node.type):
            continue
        if node.op == "weight" and node.tensor.elements <= _LOOKED_AT:
            value = graph.weights[node.attr("name")].value().astype(np.float64)
            after |= set() if np.isfinite(value).all() else {i}
        elif constant[i] and not after.isdisjoint(node.inputs) and sizes[i] <= _LOOKED_AT:
            after.add(i)
    later = [i for i in sorted(after) if i not in values and graph.nodes[i].op not in _MOVING]
    values |= strange | _computed(graph, later)

    def stored(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if i not in values:
            return None
        label = graph.labels.get(i)
        name = label.value if label is not None else f"settled_{i}"
        return builder.weight(data=values[i], name=builder.unused(name))

    return graph.copied(stored) if values else graph


def _is_float(kind: object) -> bool:
    return isinstance(kind, TensorType) and kind.dtype in FLOAT_DTYPES


def _discrete(graph: Graph, i: int) -> bool:
    node = graph.nodes[i]
    return node.op == "cast" and not _is_float(node.type) and _is_float(graph.nodes[node.inputs[0]].type)


def _sizes(graph: Graph, constant: list[bool]) -> list[int]:
    """Return for every constant the largest number of elements of a value that its computation makes."""
    sizes: list[int] = []
    for i, node in enumerate(graph.nodes):
        own = node.tensor.elements if constant[i] and node.op != "weight" else 0
        sizes.append(max([own, *(sizes[j] for j in node.inputs)]) if constant[i] else 0)
    return sizes


def _rounded(graph: Graph) -> list[bool]:
    """Return for every node whether an operator that rounds depends on it."""
    smooth = {
        key: not record.domain
        and bool(record.payload)
        and all(has(node, OnnxTrait.CONTINUOUS) for node in walk(payload_of(record).graph.node))
        for key, record in graph.opaques.items()
    }
    seen = [False] * len(graph)
    if graph.info is not None and graph.info.tail:
        for i in graph.output_ids:
            seen[i] = True
    for i in range(len(graph) - 1, -1, -1):
        node = graph.nodes[i]
        seen[i] |= _discrete(graph, i) or (node.op == "opaque" and not smooth[node.attr("key")])
        converted = node.inputs if node.op == "cast" else ()
        sizes = [graph.nodes[j].tensor.numpy_dtype().itemsize for j in converted]
        # A longer mantissa exposes the rounding.
        if seen[i] or any(node.tensor.numpy_dtype().itemsize > size for size in sizes):
            for j in node.inputs:
                seen[j] = True
    return seen


def _computed(graph: Graph, chosen: Iterable[int], *, runtime: bool = True) -> dict[int, np.ndarray]:
    """Return the values of constants in the model's arithmetic, by ONNX Runtime or otherwise by numpy."""
    names = {f"constant {i}": i for i in chosen}
    if not names:
        return {}
    part = Graph(graph.nodes, (), tuple(names.items()), graph.weights, graph.opaques)
    part = part.copied(keep={i for i, live in enumerate(part.reachable()) if live}, share=False)
    if runtime:
        from workbench.frontends.onnx.exporter import to_onnx

        with contextlib.suppress(RuntimeFailure, ModelError):
            found = run_model(to_onnx(part, fold=False), {}, threads=1, optimise=False)
            return {i: found[name] for name, i in names.items()}
    try:
        found = evaluate(part, {})
    except IndexError:
        return {}
    kinds = {i: graph.nodes[i].tensor.numpy_dtype() for i in names.values()}
    return {i: np.asarray(found[name]).astype(kinds[i], copy=False) for name, i in names.items()}


def doubled(graph: Graph) -> Graph:
    """Return the graph with two copies of its left half in place of every constant whose halves are equal.

    The halves are those of the last axis. Only what the rest of the graph reads is replaced. A constant of
    one row or of one number everywhere stays as it is: its halves may be equal for no reason.
    """
    constant = graph.constant()
    read = {j for i, node in enumerate(graph.nodes) if not constant[i] for j in node.inputs if constant[j]}
    made = _from_copies(graph, constant)
    values = Constants(graph)
    asked = [i for i in sorted(read) if made[i] and graph.nodes[i].op != "concat" and _fits(graph, i)]
    found = {i for i in asked if _twice(graph, values, i)}
    if not found:
        return graph
    copies: dict[int, int] = {}

    def made_twice(builder: Builder, i: int, node: Node, inputs: list[int]) -> int | None:
        if node.op == "input":
            return None
        operands = inputs if constant[i] else [copies.get(j, j) for j in inputs]
        value = builder.apply(node.op, operands, node.attrs)
        if i in found:
            half = builder.op("slice", value, axis=-1, start=0, stop=node.tensor.shape[-1] // 2)
            copies[value] = builder.op("concat", half, half, axis=-1)
        return value

    return graph.copied(made_twice)


def _from_copies(graph: Graph, constant: list[bool]) -> list[bool]:
    """Return for every node whether it is a constant that comes from a tensor written twice."""
    made: list[bool] = []
    for i, node in enumerate(graph.nodes):
        twice = node.op == "concat" and len(node.inputs) == 2 and len(set(node.inputs)) == 1
        data = graph.weights[str(node.attrs[0])].data if node.op == "weight" else None
        if data is not None and _fits(graph, i):  # most differ in their first row already
            twice = _equal_halves(data[(0,) * (data.ndim - 1)])
        made.append(constant[i] and (twice or any(made[j] for j in node.inputs)))
    return made


def _fits(graph: Graph, i: int) -> bool:
    kind = graph.nodes[i].type
    if not isinstance(kind, TensorType) or kind.dtype not in FLOAT_DTYPES or kind.elements > _LOOKED_AT:
        return False
    return kind.rank >= 2 and kind.shape[-2] > 1 and kind.shape[-1] >= 4 and kind.shape[-1] % 2 == 0


def _twice(graph: Graph, values: Constants, i: int) -> bool:
    node = graph.nodes[i]
    try:  # a stored weight, which may be large, is read up to the first row that differs
        value = graph.weights[str(node.attrs[0])].value() if node.op == "weight" else values.precise(i)
    except IndexError:  # a place that an axis does not have: running the model says so
        return False
    return _equal_halves(value) and not bool((value == value.flat[0]).all())


def _equal_halves(value: np.ndarray) -> bool:
    halves = value.reshape(-1, 2, value.shape[-1] // 2)
    parts = (halves[at : at + _ROWS] for at in range(0, len(halves), _ROWS))
    return all(part[:, 0].tobytes() == part[:, 1].tobytes() for part in parts)

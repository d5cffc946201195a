"""Graphs in records: a result is kept with its run, so that it can be timed later, and again elsewhere."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from workbench.costs.keys import parse_type, type_key
from workbench.graph import Graph, Node, Weight
from workbench.ops import TensorType, spec_of
from workbench.ops.types import FLOAT_DTYPES

#: Weights up to this size are kept with their data; larger float weights are drawn anew by the reader.
SMALL_BYTES: Final = 1 << 16


def pack(graph: Graph) -> str:
    """Return a graph as text, compressed; large float weights are drawn anew from it."""
    return base64.b64encode(zlib.compress(json.dumps(graph_record(graph)).encode(), 9)).decode()


def unpack(text: str) -> Graph:
    """Return the graph of a text; raise ValueError if it is none."""
    try:
        return read_graph(json.loads(zlib.decompress(base64.b64decode(text))))
    except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as error:
        raise ValueError(f"the text must be a packed graph, got one that is wrong: {error}") from None


def graph_record(graph: Graph) -> dict[str, Any]:
    """Return a graph as plain data; raise ValueError if it has opaque operators.

    Large float weights are kept as type and name. The reader draws data for them, the same for the same
    name: the graph is as fast, but computes other values.
    """
    if graph.opaques:
        names = sorted({o.op_type for o in graph.opaques.values()})
        raise ValueError(f"{graph.name!r} cannot be kept, it has opaque operators: {', '.join(names)}")
    return {
        "name": graph.name,
        "nodes": [
            {"op": n.op, "attrs": n.named_attrs(), "inputs": list(n.inputs), "type": type_key(n.type)}
            for n in graph.nodes
        ],
        "inputs": list(graph.inputs),
        "outputs": [[name, i] for name, i in graph.outputs],
        "weights": {name: _weight_record(name, w) for name, w in graph.weights.items()},
    }


def _weight_record(name: str, weight: Weight) -> dict[str, Any]:
    kind = {"type": type_key(weight.type)}
    if weight.data is None:
        return kind | {"seed": weight.seed}
    if weight.type.dtype in FLOAT_DTYPES and weight.type.nbytes > SMALL_BYTES:
        return kind | {"seed": zlib.crc32(name.encode()), "drawn": True}
    data = np.ascontiguousarray(weight.data)
    return kind | {"data": base64.b64encode(zlib.compress(data.tobytes())).decode()}


def read_graph(record: Mapping[str, Any]) -> Graph:
    """Return the graph of a record; all types in it are checked."""
    nodes = (
        Node(n["op"], tuple(n["inputs"]), spec_of(n["op"]).pack(n["attrs"]), parse_type(n["type"]))
        for n in record["nodes"]
    )
    return Graph(
        tuple(nodes),
        tuple(record["inputs"]),
        tuple((str(name), int(i)) for name, i in record["outputs"]),
        {name: _read_weight(w) for name, w in record["weights"].items()},
        name=str(record["name"]),
    )


def _read_weight(record: Mapping[str, Any]) -> Weight:
    kind = parse_type(record["type"])
    if not isinstance(kind, TensorType):
        raise ValueError(f"a weight must be a tensor, got {kind}")
    if "data" not in record:
        return Weight(kind, seed=int(record["seed"]))
    content = zlib.decompress(base64.b64decode(record["data"]))
    return Weight(kind, np.frombuffer(content, kind.numpy_dtype()).reshape(kind.shape))


def in_half(graph: Graph) -> Graph:
    """Return a graph with float16 in the place of float32, in types, weights and the attributes that name a type."""

    def half(kind: Any) -> Any:
        return (
            replace(kind, dtype="float16")
            if isinstance(kind, TensorType) and kind.dtype == "float32"
            else kind
        )

    def converted(weight: Weight) -> Weight:
        data = (
            weight.data
            if weight.data is None or half(weight.type) is weight.type
            else weight.data.astype("f2")
        )
        return replace(weight, type=half(weight.type), data=data)

    nodes = tuple(
        replace(n, type=half(n.type), attrs=tuple("float16" if a == "float32" else a for a in n.attrs))
        for n in graph.nodes
    )
    return replace(graph, nodes=nodes, weights={name: converted(w) for name, w in graph.weights.items()})

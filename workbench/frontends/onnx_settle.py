"""Compute at import what the model must have in its own arithmetic: constants that somebody rounds.

Arithmetic on weights alone is computed in float64 when a graph is written, and rounded once. Where its
result goes into a comparison, a rounding or an index, the last digit decides; and where it overflows, the
model's own infinity is right. Such constants are computed as the model computes them, by ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from workbench.frontends.onnx_file import walk
from workbench.frontends.onnx_opaque import payload_of
from workbench.graph import Graph, GraphBuilder, Opaque, evaluate
from workbench.ops.types import FLOAT_DTYPES, TensorType

#: Operators that are kept as they came and are continuous in their operands; all others may round.
_SMOOTH_NAMES: Final = """
    Acos Acosh Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Celu Concat Conv ConvTranspose
    Cos Cosh CumSum DepthToSpace Dropout Einsum Elu Expand Flatten GRU Gather GatherElements GatherND Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization HardSigmoid HardSwish Identity
    InstanceNormalization LRN LSTM LayerNormalization LogSoftmax LpNormalization LpPool MatMul MaxPool Mean
    MeanVarianceNormalization Mish PRelu Pad RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape
    ReverseSequence RotaryEmbedding ScatterElements ScatterND Selu Sin Sinh Slice Softmax Softplus Softsign
    SpaceToDepth Split Squeeze Swish Tan ThresholdedRelu Tile Transpose Unsqueeze Where
"""
_SMOOTH: Final = frozenset(_SMOOTH_NAMES.split()) - {"ThresholdedRelu"}

#: Operators that move elements or make 0 and 1: they round nothing.
_EXACT: Final = frozenset(
    {
        "weight",
        "cast",
        "concat",
        "enlarge",
        "expand",
        "gather",
        "identity",
        "merge_gconv",
        "pad",
        "reshape",
        "slice",
    }
    | {"transpose", "eye", "identity_kernel", "ones", "neg", "abs", "relu", "max", "min"}
)
_MOVING: Final = ("cast", "concat", "expand", "gather", "identity", "reshape", "slice", "transpose")
#: Operators whose result may be infinite where their operands are not; larger ones are not looked at.
_GROWING: Final = frozenset({"add", "sub", "mul", "div", "pow", "exp", "reciprocal"})
_LOOKED_AT: Final = 1 << 22
#: Larger constants are not made at import at all.
_LARGEST: Final = 1 << 27


def settled(graph: Graph) -> Graph:
    """Return the graph with the constants that somebody rounds, or that overflow, in place of their parts."""
    constant = graph.constant()
    inexact = [
        i
        for i, node in enumerate(graph.nodes)
        if constant[i] and ((node.op not in _EXACT and _is_float(node.type)) or _discrete(graph, i))
    ]
    if not inexact:
        return graph
    rounded = _rounded(graph)
    sizes = _sizes(graph, constant)
    values = _computed(graph, [i for i in inexact if rounded[i] and sizes[i] <= _LARGEST])
    looked = [i for i in inexact if graph.nodes[i].op in _GROWING and sizes[i] <= _LOOKED_AT]
    rest = [i for i in looked if i not in values]
    plain = _computed(graph, rest, runtime=False)
    strange = {i: v for i, v in plain.items() if not np.isfinite(v.astype(np.float64)).all()}
    # What follows an infinity or no number depends on how a runtime orders and rounds those.
    after = set(strange) | {i for i, node in enumerate(graph.nodes) if node.op == "weight" and _odd(graph, i)}
    for i, node in enumerate(graph.nodes):
        if not constant[i] or after.isdisjoint(node.inputs):
            continue
        if _is_float(node.type) and sizes[i] <= _LOOKED_AT:
            after.add(i)
    later = [i for i in sorted(after) if i not in values and graph.nodes[i].op not in ("weight", *_MOVING)]
    values |= strange | _computed(graph, later)
    return _replaced(graph, values) if values else graph


def _is_float(kind: object) -> bool:
    return isinstance(kind, TensorType) and kind.dtype in FLOAT_DTYPES


def _discrete(graph: Graph, i: int) -> bool:
    node = graph.nodes[i]
    return node.op == "cast" and not _is_float(node.type) and _is_float(graph.nodes[node.inputs[0]].type)


def _wider(graph: Graph, i: int) -> bool:
    node = graph.nodes[i]
    return node.tensor.numpy_dtype().itemsize > graph.nodes[node.inputs[0]].tensor.numpy_dtype().itemsize


def _sizes(graph: Graph, constant: list[bool]) -> list[int]:
    """Return for every constant how many elements the largest value has that is made on the way to it."""
    sizes: list[int] = []
    for i, node in enumerate(graph.nodes):
        own = node.tensor.elements if constant[i] and node.op != "weight" else 0
        sizes.append(max([own, *(sizes[j] for j in node.inputs)]) if constant[i] else 0)
    return sizes


def _odd(graph: Graph, i: int) -> bool:
    """Say whether a small weight holds an infinity or no number."""
    if not _is_float(graph.nodes[i].type) or not _small(graph, i):
        return False
    return not np.isfinite(graph.weights[graph.nodes[i].attr("name")].value().astype(np.float64)).all()


def _small(graph: Graph, i: int) -> bool:
    return graph.nodes[i].tensor.elements <= _LOOKED_AT


def _rounded(graph: Graph) -> list[bool]:
    """Say for every node whether something that rounds depends on it."""
    smooth = {key: _is_smooth(record) for key, record in graph.opaques.items()}
    seen = [False] * len(graph)
    if graph.info is not None and graph.info.tail:
        for i in graph.output_ids:
            seen[i] = True
    for i in range(len(graph) - 1, -1, -1):
        node = graph.nodes[i]
        rounds = _discrete(graph, i) or (node.op == "opaque" and not smooth[node.attr("key")])
        seen[i] |= rounds
        if seen[i] or (node.op == "cast" and _wider(graph, i)):  # a longer mantissa shows the rounding
            for j in node.inputs:
                seen[j] = True
    return seen


def _is_smooth(record: Opaque) -> bool:
    if record.domain or not record.payload:
        return False
    return all(node.domain == "" and node.op_type in _SMOOTH for node in walk(payload_of(record).graph.node))


def _computed(graph: Graph, chosen: Iterable[int], *, runtime: bool = True) -> dict[int, np.ndarray]:
    """Return the values of constants in the model's own arithmetic: by ONNX Runtime, or else by numpy."""
    names = {f"constant {i}": i for i in chosen}
    if not names:
        return {}
    part = Graph(graph.nodes, graph.inputs, tuple(names.items()), graph.weights, graph.opaques)
    part = _without_inputs(part)
    if runtime:
        from workbench.frontends.onnx_export import to_onnx
        from workbench.frontends.onnx_file import ModelError
        from workbench.frontends.runtime import RuntimeFailure, run_model

        try:
            found = run_model(to_onnx(part, fold=False), {}, threads=1, optimise=False)
            return {i: found[name] for name, i in names.items()}
        except (RuntimeFailure, ModelError):
            pass
    try:
        found = evaluate(part, {})
    except IndexError:
        return {}
    return {
        i: np.asarray(found[name]).astype(graph.nodes[i].tensor.numpy_dtype(), copy=False)
        for name, i in names.items()
    }


def _without_inputs(graph: Graph) -> Graph:
    builder = GraphBuilder(graph.name, share=False)
    builder.weights = dict(graph.weights)
    live, place = graph.reachable(), dict[int, int]()
    for i, node in enumerate(graph.nodes):
        if live[i]:
            place[i] = builder.apply(node.op, [place[j] for j in node.inputs], node.attrs)
    return builder.graph([(name, place[i]) for name, i in graph.outputs])


def _replaced(graph: Graph, values: dict[int, np.ndarray]) -> Graph:
    builder = GraphBuilder(graph.name)
    builder.weights, builder.opaques, builder.info = dict(graph.weights), dict(graph.opaques), graph.info
    place: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            place[i] = builder.input(node.attr("name"), node.tensor.shape, node.tensor.dtype)
        elif i in values:
            label = graph.labels.get(i)
            name = label.value if label is not None else f"settled_{i}"
            while name in builder.weights:
                name += "_"
            place[i] = builder.weight(data=values[i], name=name)
        else:
            place[i] = builder.apply(node.op, [place[j] for j in node.inputs], node.attrs)
            if i in graph.labels:
                builder.labels[place[i]] = graph.labels[i]
    return builder.graph([(name, place[i]) for name, i in graph.outputs])

"""Operators that TASO has and the core does not model, added by their ONNX definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.graph import GraphBuilder


def splice(
    builder: GraphBuilder, op_type: str, operands: Sequence[int], count: int, attrs: Mapping[str, Any]
) -> list[int]:
    """Append an ONNX operator to a graph under construction.

    Args:
        builder: The builder of the graph.
        op_type: The operator's name in ONNX.
        operands: The operands' values in the builder.
        count: The number of results.
        attrs: The attributes; ``axes`` become an input of the operator.

    Returns:
        The results' values in the builder.

    Raises:
        ValueError: The operands do not fit the operator; the message has the reason.
    """
    import onnx
    from onnx import TensorProto, helper

    from workbench.frontends import import_onnx
    from workbench.ops.types import DTYPE_CODES

    axes = attrs.get("axes")
    plain = {k: v for k, v in attrs.items() if k != "axes"}
    names = [f"x{k}" for k in range(len(operands))]
    constants = []
    if axes is not None:  # the axes are an input since operator set 18
        constants.append(helper.make_tensor("axes", TensorProto.INT64, [len(axes)], list(axes)))
    node = helper.make_node(
        op_type, names + [c.name for c in constants], [f"y{k}" for k in range(count)], **plain
    )
    inputs = [
        helper.make_tensor_value_info(n, DTYPE_CODES[builder.type(i).dtype], list(builder.type(i).shape))
        for n, i in zip(names, operands, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=f"y{k}") for k in range(count)]
    model = helper.make_model(
        helper.make_graph([node], op_type, inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", 18)],
    )
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    inner = import_onnx(inferred).graph
    place = dict(zip(inner.inputs, operands, strict=True))
    for i, item in enumerate(inner.nodes):
        if i in place:
            continue
        if item.op == "weight":
            name = f"{op_type.lower()}_{len(builder.weights)}"
            builder.weights[name] = inner.weights[str(item.attrs[0])]
            place[i] = builder.apply("weight", (), (name,))
        elif item.op == "opaque":
            key = str(item.attrs[0])
            builder.opaques.setdefault(key, inner.opaques[key])
            place[i] = builder.apply("opaque", [place[j] for j in item.inputs], (key,))
        else:
            place[i] = builder.apply(item.op, [place[j] for j in item.inputs], item.attrs)
    return [place[i] for i in inner.output_ids]

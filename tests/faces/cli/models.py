"""A small ONNX model for the tests of the command line."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def two_matmuls(first=8, opset=17, batch=4):
    """Two products with one operand: merging them is what the rules are for."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((first, 16)).astype(np.float32), name) for name in "wv"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("MatMul", ["x", "v"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 16])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

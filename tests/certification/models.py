"""Small ONNX models that the tests of certification alter and rewrite."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs, outputs, weights=(), *, opset=17, extra=(), functions=(), info=()):
    """Return a model; inputs and outputs are (name, element type, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights],
        value_info=[helper.make_tensor_value_info(*i) for i in info],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*e) for e in extra)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def network(*, pads=1, epsilon=1e-5, swapped=False, axis=1, entry=0.0, batch="n"):
    """Return convolution, batch norm, relu, a difference from the mean, and a softmax."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, 3, 3)).astype("f4")
    w[1, 2, 0, 1] += entry
    norm = [(n, (1 + rng.random(4)).astype("f4")) for n in ("scale", "shift", "mean", "var")]
    operands = ["r", "m"][:: -1 if swapped else 1]
    nodes = [
        helper.make_node(
            "Conv", ["x", "w"], ["c"], name="conv", pads=[pads] * 4 if pads < 2 else [0, 0, 2, 2]
        ),
        helper.make_node(
            "BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"], name="norm", epsilon=epsilon
        ),
        helper.make_node("Relu", ["b"], ["r"], name="relu"),
        helper.make_node("ReduceMean", ["r"], ["m"], name="mean", axes=[2, 3], keepdims=1),
        helper.make_node("Sub", operands, ["d"], name="sub"),
        helper.make_node("Softmax", ["d"], ["y"], name="soft", axis=axis),
    ]
    return model(nodes, [("x", 1, [batch, 3, 6, 6])], [("y", 1, [batch, 4, 6, 6])], [("w", w), *norm])


def chain(ops, dtype=TensorProto.FLOAT, shape=(3, 5)):
    """Return unary operators one after the other, from x to y."""
    names = ["x", *(f"v{i}" for i in range(1, len(ops))), "y"]
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(ops, names, names[1:], strict=False)]
    return model(nodes, [("x", dtype, list(shape))], [("y", dtype, list(shape))])

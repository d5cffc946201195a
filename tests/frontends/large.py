"""Models whose files count as large in a test with lowered limits."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench.frontends.onnx import file as onnx_mapped

N = 96


def product(layers=3, dtype=np.float32):
    """Return a chain of products with weights of 36 KiB each, and a sum with a small weight."""
    random = np.random.default_rng(0)
    weights = [(random.standard_normal((N, N)) / N**0.5).astype(dtype) for _ in range(layers)]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"]) for i in range(layers)
    ]
    nodes.append(helper.make_node("Add", [f"h{layers}", "b"], ["y"], name="last"))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", code, ["n", N])],
        [helper.make_tensor_value_info("y", code, ["n", N])],
        [
            *(numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)),
            numpy_helper.from_array(np.ones(N, dtype), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def small_limits(monkeypatch):
    """Lower the limits above which files are mapped."""
    monkeypatch.setattr(onnx_mapped, "MAP_BEYOND", 1 << 12)
    monkeypatch.setattr(onnx_mapped, "MAPPED_TENSOR", 1 << 12)


def places(model):
    """Return the external-data entries of an initializer."""
    return {t.name: t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer}

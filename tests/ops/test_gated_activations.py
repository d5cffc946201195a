"""Gates: ONNX Runtime runs each as one kernel of its own if it has one."""

import onnx
import onnxruntime
import pytest

from workbench.frontends import to_onnx
from workbench.graph import GraphBuilder


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize(
    ("op", "attrs", "kernels"),
    [
        ("gelu", {"tanh": 0}, {"Gelu"}),
        ("gelu", {"tanh": 1}, {"Gelu", "FastGelu"}),
        ("swish", {}, {"QuickGelu"}),
        ("swish", {"alpha": 1.702}, {"QuickGelu"}),
    ],
)
def test_the_runtime_fuses_what_is_written_in_parts(op, attrs, kernels, opset, tmp_path):
    b = GraphBuilder()
    gate = b.op(op, b.op("matmul", b.input("x", (4, 8)), b.weight((8, 8))), **attrs)
    graph = b.graph({"y": b.op("relu", gate)})  # the runtime fuses some only if the value is read
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        to_onnx(graph, opset=opset).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (first, fused, last) = [n.op_type for n in onnx.load(tmp_path / "fused.onnx").graph.node]
    assert (first, last) == ("MatMul", "Relu")
    assert fused in kernels

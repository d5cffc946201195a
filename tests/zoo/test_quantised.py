"""Quantised models run, have 8-bit weights, and stay near the original."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from workbench.frontends import to_onnx
from workbench.graph import GraphBuilder
from zoo.quantised import quantise


def test_a_convolution_gets_8_bit_weights_and_stays_near(tmp_path):
    b = GraphBuilder("net")
    x = b.input("x", (1, 3, 8, 8))
    made = b.op("conv2d", x, b.weight((4, 3, 3, 3)), pads=(1, 1, 1, 1))
    onnx.save_model(to_onnx(b.graph({"y": b.op("relu", made)})), tmp_path / "m.onnx")
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx", seed=1)
    given, found = onnx.load(tmp_path / "m.onnx"), onnx.load(tmp_path / "q.onnx")
    assert {n.op_type for n in found.graph.node} >= {"QuantizeLinear", "DequantizeLinear", "Conv"}
    assert TensorProto.INT8 in {t.data_type for t in found.graph.initializer}
    assert all(numpy_helper.to_array(t).size for t in found.graph.initializer)
    feeds = {"x": np.random.default_rng(2).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    # As the file says it: fused, a processor without VNNI adds two products in 16 bits, which overflow.
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [onnxruntime.InferenceSession(m.SerializeToString(), plain) for m in (given, found)]
    (expected,), (near,) = (s.run(None, feeds) for s in sessions)
    assert 0 < float(np.abs(near - expected).max()) < 0.1 * float(np.abs(expected).max())

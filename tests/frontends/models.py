"""Small ONNX models for the tests, and the check that import and export preserve their values."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workbench.frontends import import_onnx, opaque_runner, run_model, to_onnx
from workbench.graph import evaluate

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, data, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(data, dtype), name)


def normal(name, *shape, seed=0, scale=1.0, dtype=np.float32):
    random = np.random.default_rng([seed, *name.encode()])
    return numpy_helper.from_array((scale * random.standard_normal(shape)).astype(dtype), name)


def node(op_type, inputs, outputs, **attrs):
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=f"{op_type}_{outputs}", **attrs)


def model(nodes, inputs, outputs, weights=(), opset=17, extra=(), functions=(), **more):
    imports = [helper.make_opsetid("", opset), *extra]
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(weights), **more)
    needed = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    return helper.make_model(
        graph, opset_imports=imports, functions=functions, ir_version=max(needed, 10 if functions else 4)
    )


def random_inputs(graph, seed=0):
    random = np.random.default_rng(seed)
    feeds = {}
    for name, kind in graph.input_types.items():
        if kind.dtype in ("int64", "int32"):
            feeds[name] = random.integers(0, 2, kind.shape).astype(kind.dtype)
        elif kind.dtype == "bool":
            feeds[name] = random.integers(0, 2, kind.shape).astype(bool)
        else:
            feeds[name] = random.standard_normal(kind.shape).astype(kind.numpy_dtype())
    return feeds


def check(original, *, dims=None, opset=None, rtol=1e-4, atol=1e-5, seed=0, against=None):
    """Import, evaluate, export and run; all must agree with ONNX Runtime on the original."""
    imported = import_onnx(original, dims=dims)
    graph = imported.graph
    feeds = random_inputs(graph, seed)
    expected = against(feeds) if against else run_model(original, feeds)
    written = to_onnx(graph, opset=opset)
    onnx.checker.check_model(written, full_check=True)
    assert [i.name for i in written.graph.input] == list(graph.input_types)
    assert [o.name for o in written.graph.output] == [o.name for o in original.graph.output]
    for label, found in (
        ("evaluate", evaluate(graph, feeds, opaque=opaque_runner())),
        ("exported", run_model(written, feeds)),
    ):
        assert list(found) == list(expected)
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, (label, name)
            assert found[name].shape == array.shape, (label, name)
            np.testing.assert_allclose(found[name], array, rtol=rtol, atol=atol, err_msg=f"{label} {name}")
    return imported


def ops(graph):
    """Return the operators of a graph in order, without leaves."""
    return [n.op for n in graph.nodes if n.op not in ("input", "weight")]

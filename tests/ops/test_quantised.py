"""Quantisation: its types in three readings, its numbers, its laws, and what becomes of models with it."""

import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workbench import optimize
from workbench.frontends import import_onnx
from workbench.graph import GraphBuilder, evaluate
from workbench.laws.verification.instances.linear import Inconsistent, System
from workbench.laws.verification.instances.typings import Menu, RandomChoices, SpaceType, SpaceTyping
from workbench.laws.verification.verify import Verification
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.rules import parse_rules
from workbench.saturation.encoding import Encoding
from workbench.saturation.symbolic import SymbolicTyping, SymType

FLOATS, SCALE = TensorType("float32", (2, 3)), TensorType("float32", ())
WHOLE, ZERO = TensorType("int8", (2, 3)), TensorType("int8", ())
TYPES = [("quantize", [FLOATS, SCALE, ZERO], WHOLE), ("dequantize", [WHOLE, SCALE, ZERO], FLOATS)]


@pytest.mark.parametrize(("op", "kinds", "expected"), TYPES, ids=["quantize", "dequantize"])
def test_three_readings_agree_on_the_type(op, kinds, expected):
    spec, encoding = spec_of(op), Encoding(4)
    packed = spec.pack({})
    assert spec.result_type(kinds, packed) == expected
    symbolic = SymbolicTyping(encoding, assuming=False)
    operands = [SymType("", dict(enumerate(encoding.type_vector(k)))) for k in kinds]
    found = spec.infer(symbolic, operands, spec.unpack(packed))
    assert [symbolic.get(found, i) for i in range(6)] == encoding.type_vector(expected)
    assert symbolic.guards == []
    reading = SpaceTyping(System(), RandomChoices(random.Random(1)), Menu())
    spaces = [SpaceType(k.rank, (1,) * (4 - k.rank) + k.shape) for k in kinds]
    found = spec.infer(reading, spaces, spec.unpack(packed))
    while reading.pending:
        assert reading.forced()
    assert [s.element.name for s in (*spaces, found)] == [k.dtype for k in (*kinds, expected)]


@pytest.mark.parametrize(
    ("op", "kinds", "attrs", "message"),
    [
        ("quantize", [WHOLE, SCALE, ZERO], {}, "floating-point"),
        ("quantize", [FLOATS, SCALE, ZERO], {"to": "uint8"}, "element types differ"),
        ("quantize", [FLOATS, SCALE, SCALE], {"to": "float32"}, "small whole numbers"),
        ("quantize", [FLOATS, TensorType("float32", (4,)), ZERO], {}, "broadcast"),
        ("dequantize", [FLOATS, SCALE, SCALE], {}, "small whole numbers"),
        ("dequantize", [WHOLE, SCALE, ZERO], {"to": "float16"}, "element types differ"),
        ("dequantize", [WHOLE, SCALE, TensorType("int8", (4, 2, 3))], {}, "zero must broadcast"),
    ],
)
def test_what_does_not_fit_is_refused(op, kinds, attrs, message):
    spec = spec_of(op)
    with pytest.raises(TypeMismatch, match=message):
        spec.result_type(kinds, spec.pack(attrs))


def test_contradicting_element_types_have_no_instance():
    reading = SpaceTyping(System(), RandomChoices(random.Random(1)), Menu())
    x = SpaceType(1, (1, 1, 1, 2))
    reading.require_float(x)
    with pytest.raises(Inconsistent):
        reading.require_integer(x)


def quantized(values, scale, zero, to):
    spec = spec_of("quantize")
    operands = [np.asarray(values, np.float32), np.asarray(scale, np.float32), np.asarray(zero, to)]
    return spec.evaluate(operands, {"to": to}).tolist()


def test_halves_are_rounded_to_even_and_results_limited():
    assert quantized([0.5, 1.5, -0.5, -1.5, 2.4], 1, 0, "int8") == [0, 2, 0, -2, 2]
    assert quantized([1e9, -1e9, 3], 1, 10, "uint8") == [255, 0, 13]
    assert quantized([1e30, -1e30], 1, -1, "int32") == [2**31 - 1, -(2**31)]


def model(nodes, weights, kind, shape, out):
    graph = helper.make_graph(
        nodes,
        "q",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, out)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(found)
    return found


NUMBERS = {"s": np.float32(0.1), "z": np.int8(3)}


def test_a_transpose_of_quantised_data_needs_no_floats():
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1]),
        node("QuantizeLinear", ["b", "s", "z"], ["y"]),
    ]
    graph = import_onnx(model(nodes, NUMBERS, TensorProto.INT8, (1, 8, 4, 5), (1, 4, 5, 8))).graph
    assert [n.op for n in graph.nodes if n.op not in ("weight", "input")] == [
        "dequantize",
        "transpose",
        "quantize",
    ]
    found = optimize(graph, cost="analytic", time=False)
    assert found.certificate.passed
    assert [n.op for n in found.graph.nodes] == ["input", "transpose"]


def test_a_weight_stays_quantised():
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["w", "s", "z"], ["v"]),
        node("MatMul", ["x", "v"], ["y"]),
    ]
    weights = NUMBERS | {"w": np.ones((4, 4), np.int8)}
    imported = import_onnx(model(nodes, weights, TensorProto.FLOAT, (2, 4), (2, 4)))
    assert dict(imported.coverage.opaque) != {}
    assert "dequantize" not in imported.graph.operators()


def test_parameters_along_an_axis_are_read():
    weights = {"s": np.float32([0.1, 0.2, 0.5]), "z": np.int8([0, 1, 2])}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"], axis=1),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["y"], axis=1),
    ]
    graph = import_onnx(model(nodes, weights, TensorProto.INT8, (2, 3, 4), (2, 3, 4))).graph
    given = np.random.default_rng(0).integers(-100, 100, (2, 3, 4)).astype(np.int8)
    np.testing.assert_array_equal(evaluate(graph, {"x": given})["y"], given)
    found = optimize(graph, cost="analytic", time=False)
    assert found.certificate.passed
    assert "quantize" not in found.graph.operators()


@pytest.mark.slow
def test_wrong_laws_are_refuted():
    text = """
    again: quantize[to=d](dequantize[c](q, s, z), s, y) => q
    exact: dequantize[c](quantize[to=d](x, s, z), s, z) => x
    scales: concat[axis=a](dequantize[c](q, s, z), dequantize[c](r, t, z)) => \\
        dequantize[c](concat[axis=a](q, r), s, z)
    """
    run = Verification(parse_rules(text))
    run.run()
    assert [v.verdict for v in run.verdicts] == ["refuted"] * 3


def test_a_graph_is_built_of_whole_numbers():
    b = GraphBuilder()
    q = b.input("q", (2, 3), "int8")
    zero = b.weight(data=np.int8(0))
    graph = b.graph({"y": b.op("dequantize", q, b.weight(data=np.float32(2)), zero)})
    given = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(evaluate(graph, {"q": given})["y"], 2.0 * given)

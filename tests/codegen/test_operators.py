import numpy as np
import pytest

from tests.codegen.needs import compiler
from workbench.codegen.clusters import Member, as_graph, cluster_of
from workbench.codegen.kernel import kernel
from workbench.codegen.operators import DEFINITIONS
from workbench.graph import evaluate
from workbench.graph.typed import result_type
from workbench.ops import TensorType, spec_of

ATTRS = {
    "leakyrelu": [{"alpha": 0.1}],
    "clip": [{"low": -0.5, "high": 0.5}, {"low": 0.0}],
    "gelu": [{"tanh": 0}, {"tanh": 1}],
    "swish": [{}, {"alpha": 1.702}],
    "softmax": [{"axis": -1}],
    "layernorm": [{"axis": -1, "eps": 1e-5}, {"axis": -2, "eps": 1e-3}],
    "rmsnorm": [{"axis": -1, "eps": 1e-5}],
    "reduce_sum": [{"axes": (-1,), "keepdims": 1}, {"axes": (-2, -1), "keepdims": 0}],
    "reduce_mean": [{"axes": (-1,), "keepdims": 0}, {"axes": (-2, -1), "keepdims": 1}],
    "reduce_max": [{"axes": (-1,), "keepdims": 1}],
}
CASES = [(op, n, attrs) for op, n in DEFINITIONS for attrs in ATTRS.get(op, [{}])]


@compiler
@pytest.mark.parametrize(("op", "operands", "given"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_operator_in_index_notation_is_the_operator(op, operands, given, dtype):
    spec = spec_of(op)
    attrs = spec.pack(given)
    axes = -spec.unpack(attrs).get("axis", -1) if op == "layernorm" else 1
    shapes = [(3, 4, 5), *[(4, 5)[-axes:] if "norm" in op else (4, 1)] * (operands - 1)]
    random = np.random.default_rng(0)
    values = [random.standard_normal(s).astype(dtype) for s in shapes]
    if op in ("log", "sqrt", "pow"):
        values[0] = np.abs(values[0]) + values[0].dtype.type(0.1)
    types = {i: TensorType.of(v) for i, v in enumerate(values)}
    kind = result_type(op, list(types.values()), attrs)
    member = Member(operands, op, attrs, tuple(types), kind)
    cluster = cluster_of([member], types | {operands: kind}, {})
    assert cluster is not None
    seen = [values[j].reshape(s) for j, s in zip(cluster.inputs, cluster.shapes, strict=True)]
    (y,) = kernel(cluster.composite, cluster.types)(*seen)
    expected = evaluate(as_graph(cluster), {f"x{k}": values[j] for k, j in enumerate(cluster.inputs)})["y"]
    near = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=near, atol=near)


@compiler
@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.7])
def test_a_power_with_a_known_exponent_is_a_product_or_a_root(exponent):
    kind, number = TensorType("float32", (4, 6)), TensorType("float32", ())
    member = Member(2, "pow", spec_of("pow").pack({}), (0, 1), kind)
    cluster = cluster_of([member], {0: kind, 1: number, 2: kind}, {1: exponent})
    x = np.random.default_rng(0).uniform(0.1, 3.0, kind.shape).astype(np.float32)
    made = kernel(cluster.composite, cluster.types)
    assert ("powf" in made.text) == (exponent == 1.7)
    np.testing.assert_allclose(made(x)[0], x**exponent, rtol=1e-6)

import numpy as np
import pytest

from tests.codegen.needs import compiler
from workbench.codegen.clusters import Member, cluster_of, reference
from workbench.codegen.kernel import kernel
from workbench.codegen.operators import DEFINITIONS
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
    expected = reference(cluster, [values[j] for j in cluster.inputs])
    near = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=near, atol=near)

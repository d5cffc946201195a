"""The formulas of operators that clusters are made of."""

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from tests.sampled import in_turn
from workbench.graph import evaluate
from workbench.graph.graph import result_type
from workbench.kernels.codegen.clusters import (
    REDUCTION_OF,
    Member,
    as_graph,
    cluster_of,
    definition,
    laws,
    split,
)
from workbench.kernels.codegen.kernel import kernel
from workbench.kernels.composites.lowering import OPERATORS
from workbench.ops import TensorType, spec_of
from workbench.rules.verdicts import verdict_of


def attrs(op, **given):
    spec = spec_of(op)
    return tuple(sorted(spec.unpack(spec.pack(given)).items()))


def formula(op, operands=1, **given):
    return str(split(op, operands, attrs(op, **given)).equations[0])


def test_every_law_of_splitting_was_judged():
    assert {verdict_of(law) for law in laws()} <= {"tested", "theorem"}
    assert {"softmax-is", "layernorm-is", "gelu-is", "hardswish-is", "sigmoid-is"} <= {r.name for r in laws()}


def test_an_operator_is_split_into_functions_and_reductions():
    assert formula("relu") == "y[~] = max(x0[~], 0)"
    assert formula("hardswish") == "y[~] = ((x0[~] * min(max((x0[~] + 3), 0), 6)) / 6)"
    assert formula("rmsnorm", 2, eps=0.5) == (
        "y[~ d] = ((x0[~ d] * (1 / sqrt((((sum(e < D) (x0[~ e] * x0[~ e])) / D) + 0.5)))) * x1[~ d])"
    )


def test_of_two_laws_the_one_with_less_work_is_taken():
    assert "erf((x0[~] * 0.7071067811865476))" in formula("gelu")  # gelu-is divides by the root of two


def test_the_axes_of_a_row_are_one():
    assert formula("layernorm", 3, axis=-2) == formula("layernorm", 3, axis=-1)


@pytest.mark.parametrize(("op", "operands"), [("matmul", 2), ("concat", 2), ("softmax", 2)])
def test_an_operator_that_no_law_splits_has_no_formula(op, operands):
    given = {"axis": 0} if op == "concat" else {}
    assert split(op, operands, attrs(op, **given)) is None


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
OPERANDS = {"layernorm": (2, 3), "rmsnorm": (2,)}
SPLIT = sorted({rule.sources[0].op for rule in laws()})
OPS = [
    *((op, 2 if op in ("add", "sub", "mul", "div", "max", "min", "pow") else 1) for op in sorted(OPERATORS))
]
OPS += [(op, 1) for op in REDUCTION_OF] + [(op, n) for op in SPLIT for n in OPERANDS.get(op, (1,))]
CASES = [(op, n, attrs) for op, n in OPS for attrs in ATTRS.get(op, [{}])]


@compiler
@pytest.mark.parametrize(("op", "operands", "given"), in_turn(CASES, 1, quick=3))
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


@compiler
def test_declared_composites_are_operators_of_clusters():
    import workbench

    workbench.kernels.composite(
        "rms_in_cluster",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )
    workbench.kernels.composite(
        "gemm_in_cluster", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]"
    )
    kind, row = TensorType("float32", (3, 4, 6)), TensorType("float32", (6,))
    attrs = spec_of("rms_in_cluster").pack({"eps": 0.5})
    assert definition("gemm_in_cluster", 2) is None
    members = [
        Member(2, "add", spec_of("add").pack({}), (0, 0), kind),
        Member(3, "rms_in_cluster", attrs, (2, 1), kind),
    ]
    cluster = cluster_of(members, {0: kind, 1: row, 2: kind, 3: kind}, {})
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(t.shape).astype(np.float32) for t in (kind, row))
    (y,) = kernel(cluster.composite, cluster.types)(
        *(v.reshape(s) for v, s in zip((x, g), cluster.shapes, strict=True))
    )
    expected = evaluate(as_graph(cluster), {"x0": x, "x1": g})["y"]
    np.testing.assert_allclose(y.reshape(kind.shape), expected, rtol=1e-5)

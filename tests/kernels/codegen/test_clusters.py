import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler, free
from tests.sampled import in_turn
from workbench.egraph import EGraph
from workbench.graph import GraphBuilder, evaluate, fold_constants
from workbench.kernels.codegen.clusters import Member, as_graph, cluster_of, fusible
from workbench.kernels.codegen.fusion import Beside, egraph_of, fused, numbers_of, written
from workbench.kernels.codegen.kernel import kernel
from workbench.ops import TensorType
from zoo.chains import CHAINS, chain

X = TensorType("float32", (4, 6))


def member(place, op, operands, kind=X, **attrs):
    from workbench.ops import spec_of

    return Member(place, op, spec_of(op).pack(attrs), operands, kind)


def test_operators_with_a_form_in_index_notation_are_fusible():
    assert fusible(Member(1, "exp", (), (0,), X))
    assert not fusible(Member(2, "matmul", ("none",), (0, 1), X))
    assert fusible(Member(1, "exp", (), (0,), TensorType("float16", (4, 6))))
    assert not fusible(Member(1, "abs", (), (0,), TensorType("int32", (4, 6))))
    # no other runtime computes it
    assert not fusible(Member(1, "exp", (), (0,), TensorType("bfloat16", (4, 6))))


def test_operators_of_different_rows_make_no_cluster():
    types = {0: X, 1: X, 2: X}
    softmax, norm = member(1, "softmax", (0,), axis=-1), member(2, "softmax", (1,), axis=-2)
    assert cluster_of([softmax], types, {}) is not None
    assert cluster_of([softmax, norm], types, {}) is None
    assert cluster_of([norm], types, {}) is None


def test_known_numbers_are_in_the_text_and_not_among_the_operands():
    types = {0: X, 1: TensorType("float32", ()), 2: X}
    cluster = cluster_of([member(2, "mul", (0, 1))], types, {1: 0.5})
    assert cluster.inputs == (0,)
    assert "0.5" in str(cluster.composite)


@compiler
@pytest.mark.parametrize("name", in_turn(CHAINS, 1, quick=3))
def test_a_whole_chain_is_one_cluster_and_computes_the_same(name):
    graph = fold_constants(chain(name))
    egraph, numbers = egraph_of(graph), numbers_of(graph)
    found = fused(egraph, np.full(len(egraph), 1e6), numbers, free)
    choice = found.solve().choice
    (out,) = graph.output_ids
    cluster = found.clusters[int(choice[out])]
    assert {m.place for m in cluster.members} >= {i for i, n in enumerate(graph.nodes) if n.inputs} or (
        name == "modulated-norm"  # the scale is a row of its own
    )
    random = np.random.default_rng(0)
    operands = [
        random.standard_normal(graph.nodes[j].tensor.shape).astype(np.float32) for j in cluster.inputs
    ]
    seen = [x.reshape(s) for x, s in zip(operands, cluster.shapes, strict=True)]
    (y,) = kernel(cluster.composite, cluster.types)(*seen)
    expected = evaluate(as_graph(cluster), {f"x{k}": x for k, x in enumerate(operands)})["y"]
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_exact_extraction_takes_a_cluster_only_if_it_is_cheaper():
    b = GraphBuilder()
    x = b.input("x", (64, 64))
    graph = b.graph({"y": b.op("exp", b.op("tanh", b.op("neg", x)))})
    egraph = egraph_of(graph)
    costs = np.array([0.0, 20.0, 20.0, 20.0])
    cheap = fused(egraph, costs, {}, lambda c: Beside(60.0, 10.0))
    assert cheap.solve().cost == pytest.approx(10.0)
    expensive = fused(egraph, costs, {}, lambda c: Beside(60.0, 100.0))
    assert expensive.solve().cost == pytest.approx(60.0)
    again = written(graph, cheap, cheap.solve().choice)
    assert again.structural_hash() == graph.structural_hash()


def test_an_activation_after_a_convolution_is_left_to_the_other_runtime():
    b = GraphBuilder()
    x = b.op("conv2d", b.input("x", (1, 4, 32, 32)), b.weight((4, 4, 1, 1)))
    graph = b.graph({"y": b.op("exp", b.op("relu", x))})
    egraph = egraph_of(graph)
    found = fused(egraph, np.full(len(egraph), 100.0), {}, free)
    assert {tuple(m.op for m in c.members) for c in found.clusters.values()} == {("exp",)}


@pytest.mark.parametrize("name", CHAINS)
def test_a_fused_chain_is_written_back_with_its_numbers(name):
    graph = chain(name)
    egraph = egraph_of(graph)
    found = fused(egraph, np.full(len(egraph), 1e3), numbers_of(graph), free)
    again = written(graph, found, found.solve().choice)
    assert again.structural_hash() == graph.structural_hash()


def with_alternatives():
    """An e-graph in which ``exp(u)`` and ``tanh(u)`` are one e-class; ``neg`` of it is asked for."""
    values = TensorType("float32", (64, 64))
    return EGraph(
        ops=("input", "abs", "exp", "tanh", "neg"),
        attrs=(("x",), (), (), (), ()),
        child_start=np.array([0, 0, 1, 2, 3, 4]),
        children=np.array([0, 1, 1, 2]),
        eclass=np.array([0, 1, 2, 2, 3]),
        n_classes=4,
        roots=(3,),
        types=(values,) * 4,
        original=np.arange(5),
    )


@pytest.mark.parametrize("liked", ["exp", "tanh"])
def test_clusters_are_grown_from_every_operator_of_an_e_class(liked):
    def measure(cluster):
        return Beside(30.0, 1.0 if liked in [m.op for m in cluster.members] else 25.0)

    found = fused(with_alternatives(), np.array([0.0, 10.0, 10.0, 10.0, 10.0]), {}, measure)
    taken = found.clusters[int(found.solve().choice[3])]
    assert [m.op for m in taken.members] == ["abs", liked, "neg"]


def test_operators_that_the_other_runtime_computes_together_are_priced_together():
    measure = lambda c: Beside(5.0, 50.0)  # noqa: E731
    found = fused(with_alternatives(), np.array([0.0, 10.0, 10.0, 10.0, 10.0]), {}, measure)
    assert not found.clusters
    assert found.solve().cost == pytest.approx(5.0)


def test_an_error_of_measurement_is_not_a_gain():
    assert Beside(10.0, 8.9).pays
    assert not Beside(10.0, 9.5).pays

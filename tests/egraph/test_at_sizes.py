import pytest

from workbench.egraph.at_sizes import attrs_at, attrs_depend, depends, graph_at, type_at
from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TupleType, TypeMismatch
from workbench.symbolic import Generic

GENERIC = Generic({"batch": 14_489, "sequence": 51_991})


def heads():
    b = GraphBuilder("heads")
    x = b.input("x", (14_489, 51_991, 8))
    y = b.op("reshape", b.op("matmul", x, b.weight((8, 8))), shape=(14_489, 51_991, 2, 4))
    y = b.op("transpose", y, perm=(0, 2, 1, 3))
    return b.graph({"y": y, "last": b.op("slice", x, axis=-2, start=51_990, stop=51_991)})


def test_types_and_attributes_are_brought_to_other_sizes():
    sizes = {"batch": 3, "sequence": 7}
    kind = TensorType("float32", (14_489, 12, 51_991))
    assert type_at(kind, GENERIC, sizes).shape == (3, 12, 7)
    assert type_at(TupleType((kind, kind)), GENERIC, sizes).elements[1].shape == (3, 12, 7)
    assert attrs_at("reshape", ((14_489 * 51_991, 8),), GENERIC, sizes) == ((21, 8),)
    assert attrs_at("transpose", ((1, 0),), GENERIC, sizes) == ((1, 0),)


def test_a_graph_is_the_same_node_by_node():
    graph = heads()
    small = graph_at(graph, GENERIC, {"batch": 3, "sequence": 7})
    assert [n.op for n in small] == [n.op for n in graph]
    assert {k: t.shape for k, t in small.output_types.items()} == {"y": (3, 2, 7, 4), "last": (3, 1, 8)}
    assert small.weights == graph.weights


def test_what_does_not_fit_at_a_size_is_refused():
    b = GraphBuilder("square")
    x = b.input("x", (14_489, 51_991))
    graph = b.graph({"y": b.op("slice", x, axis=-1, start=9, stop=51_991)})
    with pytest.raises(TypeMismatch, match="slice"):
        graph_at(graph, GENERIC, {"batch": 3, "sequence": 7})


def test_dependence_on_a_symbol_is_seen_in_types_and_attributes():
    assert depends(TensorType("float32", (2, 51_991)), GENERIC)
    assert not depends(TensorType("float32", (2, 8)), GENERIC)
    assert not depends(None, GENERIC)
    assert attrs_depend("expand", ((14_489, 1),), GENERIC)
    assert not attrs_depend("expand", ((3, 1),), GENERIC)

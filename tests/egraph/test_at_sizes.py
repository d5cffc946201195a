"""Graphs of generic extents at other sizes, and what fits at every size."""

import pytest

from workbench.egraph.at_sizes import attrs_at, attrs_depend, depends, graph_at, type_at, typed, unproved
from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TupleType, TypeMismatch
from workbench.symbolic import Generic
from workbench.symbolic.integers import div, smallest, sym

GENERIC = Generic({"batch": 14_489, "sequence": 51_991})


def heads():
    b = GraphBuilder("heads")
    x = b.input("x", (14_489, 51_991, 8))
    y = b.op("reshape", b.op("matmul", x, b.weight((8, 8))), shape=(14_489, 51_991, 2, 4))
    y = b.op("transpose", y, perm=(0, 2, 1, 3))
    return b.graph({"y": y, "last": b.op("slice", x, axis=-2, start=51_990, stop=51_991)})


def test_types_and_attributes_are_brought_to_other_sizes():
    value = GENERIC.at({"batch": 3, "sequence": 7})
    kind = TensorType("float32", (14_489, 12, 51_991))
    assert type_at(kind, value).shape == (3, 12, 7)
    assert type_at(TupleType((kind, kind)), value).elements[1].shape == (3, 12, 7)
    assert attrs_at("reshape", ((14_489 * 51_991, 8),), value) == ((21, 8),)
    assert attrs_at("transpose", ((1, 0),), value) == ((1, 0),)


def test_a_graph_is_the_same_node_by_node():
    graph = heads()
    small = graph_at(graph, GENERIC.at({"batch": 3, "sequence": 7}))
    assert [n.op for n in small] == [n.op for n in graph]
    assert {k: t.shape for k, t in small.output_types.items()} == {"y": (3, 2, 7, 4), "last": (3, 1, 8)}
    assert small.weights == graph.weights


def test_what_does_not_fit_at_a_size_is_refused():
    b = GraphBuilder("square")
    x = b.input("x", (14_489, 51_991))
    graph = b.graph({"y": b.op("slice", x, axis=-1, start=9, stop=51_991)})
    with pytest.raises(TypeMismatch, match="slice"):
        graph_at(graph, GENERIC.at({"batch": 3, "sequence": 7}))


def test_dependence_on_a_symbol_is_seen_in_types_and_attributes():
    assert depends(TensorType("float32", (2, 51_991)), GENERIC)
    assert not depends(TensorType("float32", (2, 8)), GENERIC)
    assert not depends(None, GENERIC)
    assert attrs_depend("expand", ((14_489, 1),), GENERIC)
    assert not attrs_depend("expand", ((3, 1),), GENERIC)


P, S = sym("+past"), sym("+seq")


def generic():
    return Generic({"+past": 27_997, "+seq": 51_991}, {"past": P, "seq": S})


def of(*shape):
    return TensorType("float32", shape)


def test_a_slice_inside_a_join_is_not_one_inside_its_first_part():
    known = generic()
    past, both = 27_997, known.number(P + S)
    first, last = known.number(P + S - 1), both
    typed("slice", (-1, 0, 1, 1), [of(past)], of(1), known)
    typed("slice", (-1, first, last, 1), [of(both)], of(1), known)
    with pytest.raises(TypeMismatch, match="inside its axis"):  # past may be shorter, though 27997 is not
        typed("slice", (-1, 0, 64, 1), [of(past)], of(64), known)
    least = known.number(smallest(P, P * 0 + 64))
    typed("slice", (-1, 0, least, 1), [of(past)], of(least), known)


def test_extents_that_a_type_rule_finds_are_learnt():
    known = generic()
    height = (51_991 - 3) // 2 + 1
    known.facts.add(S - 3)
    attrs = ((2, 1), (0, 0, 0, 0), (1, 1), 1, "none")
    typed("conv2d", attrs, [of(1, 3, 51_991, 8), of(4, 3, 3, 1)], of(1, 4, height, 8), known)
    assert known.expression(height) == div(S - 3, S * 0 + 2) + 1


def test_two_symbols_do_not_broadcast():
    with pytest.raises(TypeMismatch, match="does not broadcast"):
        typed("add", (), [of(27_997), of(51_991)], of(51_991), generic())


def test_a_graph_is_proved_node_by_node():
    b = GraphBuilder()
    x = b.input("x", (51_991, 8))
    graph = b.graph({"y": b.op("slice", b.op("relu", x), axis=-2, start=0, stop=1)})
    assert unproved(graph, generic()) == ""
    b = GraphBuilder()
    x = b.input("x", (51_991, 8))
    graph = b.graph({"y": b.op("slice", x, axis=-2, start=1, stop=51_991)})
    assert "must not be empty" in unproved(graph, generic())

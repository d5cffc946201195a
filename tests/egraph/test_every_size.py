"""Type rules with integers over symbols: what fits at every size, and what only at generic extents."""

import pytest

from workbench.egraph.every_size import typed, unproved
from workbench.graph import GraphBuilder
from workbench.ops import TensorType, TypeMismatch
from workbench.symbolic import Generic
from workbench.symbolic.integers import div, smallest, sym

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

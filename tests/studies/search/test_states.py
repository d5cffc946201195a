import random

import numpy as np
import pytest

from tests.random_graphs import random_graph
from tests.sampled import in_turn
from workbench.costs import graph_cost
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.ops import TensorType
from workbench.rules import parse_rules, rule_set
from workbench.studies.benchmarks import benchmark
from workbench.studies.search.candidates import Candidates
from workbench.studies.search.states import PER_MICROSECOND, Cyclic, Edit, NodeTable, State, digest_of


def started(graph, rules, *, exclusive=False, ordered=True):
    table = NodeTable(AnalyticCost())
    return State.of(graph, table), Candidates(list(rules), table, exclusive=exclusive, ordered=ordered)


def agrees(state, edit, graph):
    """Check what an edit would change against the edited graph; return whether there is one."""
    change = state.change(edit)
    try:
        after = state.edited(edit)
    except Cyclic:
        assert change is None
        return False
    if change is None:
        # Nothing changes, or what replaces a root depends on it.
        return False
    assert change.cost == after.cost - state.cost
    assert change.size == after.size - state.size
    assert change.digest() == after.key
    rebuilt = State.of(after.graph(graph), state.table)
    assert (rebuilt.key, rebuilt.cost, rebuilt.size) == (after.key, after.cost, after.size)
    assert after.cost / PER_MICROSECOND == pytest.approx(
        graph_cost(after.graph(graph), AnalyticCost()), abs=1e-3
    )
    return True


@pytest.mark.parametrize("seed", in_turn(range(30), 1, quick=3))
def test_what_an_edit_would_change_is_what_it_changes(seed):
    graph = random_graph(seed)
    state, candidates = started(graph, rule_set("all"))
    chance, compared = random.Random(seed), 0
    for _ in range(4):
        edits = list(candidates.edits(state))
        compared += sum(agrees(state, edit, graph) for edit in chance.sample(edits, min(len(edits), 25)))
        ways = [p for p in edits if state.change(p) is not None]
        if not ways:
            break
        state = state.edited(chance.choice(ways))
    assert compared or not edits


def test_pairs_in_a_chain_of_relus():
    # Any two relus of one shape may be merged, unless one feeds the other.
    rules = parse_rules(
        "pair: relu(x) ; relu(y) => slice[axis=-1, start=0, stop=dim(x, -1)](relu(concat[axis=-1](x, y))) ; "
        "slice[axis=-1, start=dim(x, -1), stop=dim(x, -1) + dim(y, -1)](relu(concat[axis=-1](x, y)))"
    )
    b = GraphBuilder("relus")
    x, y = b.input("x", (2, 3)), b.input("y", (2, 5))
    chain = b.op("relu", b.op("tanh", b.op("relu", x)))
    graph = b.graph({"a": chain, "b": b.op("relu", y)})
    state, candidates = started(graph, rules)
    edits = list(candidates.edits(state))
    assert len(edits) == 6  # ordered pairs of three
    assert sum(agrees(state, edit, graph) for edit in edits) == 4


def test_independent_roots_may_be_above_each_other():
    rules = parse_rules("two: relu(x) ; tanh(y) => relu(abs(x)) ; tanh(abs(y)) where rank(x) = rank(y)")
    b = GraphBuilder("tower")
    graph = b.graph({"y": b.op("relu", b.op("sigmoid", b.op("tanh", b.input("x", (4,)))))})
    state, candidates = started(graph, rules)
    (edit,) = candidates.edits(state)
    assert agrees(state, edit, graph)
    after = state.edited(edit).graph(graph)
    assert [n.op for n in after.nodes] == ["input", "abs", "tanh", "sigmoid", "abs", "relu"]


def test_a_result_that_contains_what_it_replaces():
    rules = parse_rules("grow: relu(x) => relu(relu(x))")
    b = GraphBuilder("grow")
    graph = b.graph({"y": b.op("relu", b.op("relu", b.input("x", (4,))))})
    state, candidates = started(graph, rules)
    for edit in candidates.edits(state):
        assert agrees(state, edit, graph)
        assert state.edited(edit).graph(graph).operators() == {"relu": 3}


def test_readers_that_become_equal_are_merged():
    rules = parse_rules("once: relu(relu(x)) => relu(x)")
    b = GraphBuilder("merge")
    once = b.op("relu", b.input("x", (64, 64)))
    twice = b.op("relu", once)
    graph = b.graph({"a": b.op("exp", b.op("tanh", once)), "b": b.op("exp", b.op("tanh", twice))})
    state, candidates = started(graph, rules)
    (edit,) = candidates.edits(state)
    assert agrees(state, edit, graph)
    after = state.edited(edit)
    assert after.graph(graph).operators() == {"relu": 1, "tanh": 1, "exp": 1}
    assert len(set(after.outputs)) == 1


def test_what_comes_to_depend_on_weights_alone_is_free():
    b = GraphBuilder("folds")
    x, w = b.input("x", (4, 4)), b.weight((4, 4))
    part = b.op("slice", b.op("concat", w, x, axis=-1), axis=-1, start=0, stop=4)
    graph = b.graph({"y": b.op("matmul", x, b.op("tanh", b.op("relu", part)))})
    state, candidates = started(graph, rule_set("layout").select("slice-first"))
    (edit,) = candidates.edits(state)
    assert agrees(state, edit, graph)
    after = state.edited(edit)
    kinds = after.table.kinds
    assert {kinds[n].op: kinds[n].constant for n in after.inputs} == {
        "input": False, "weight": True, "relu": True, "tanh": True, "matmul": False,
    }  # fmt: skip


def test_an_edit_that_changes_nothing_is_none():
    b = GraphBuilder("same")
    x, y = b.input("x", (4,)), b.input("y", (4,))
    graph = b.graph({"y": b.op("add", x, x), "z": b.op("add", x, y)})
    state, candidates = started(graph, rule_set("ac").select("add-commutes"))
    changes = [state.change(p) for p in candidates.edits(state)]
    assert [c is None for c in changes] == [True, False]


def test_a_cycle_is_refused():
    b = GraphBuilder("cycle")
    graph = b.graph({"y": b.op("tanh", b.op("relu", b.input("x", (4,))))})
    state = State.of(graph, NodeTable(AnalyticCost()))
    x, relu, tanh = state.inputs
    edit = Edit("turned", (), ((x, tanh),), (frozenset({tanh}),))
    with pytest.raises(Cyclic):
        state.edited(edit)
    assert relu in state.around.above(x)[0]


def test_programs_keep_graphs():
    graph = benchmark("squeezenet", image=64)
    state = State.of(graph, NodeTable(AnalyticCost()))
    assert state.graph(graph).structural_hash() == graph.structural_hash()
    assert state.size == len(graph)
    assert state.cost / PER_MICROSECOND == pytest.approx(graph_cost(graph, AnalyticCost()), abs=1e-3)


def test_opaque_operators_pass_through():
    from workbench.graph import Opaque
    from workbench.ops import TensorType

    kind = TensorType("float32", (4,))
    b = GraphBuilder("opaque")
    record = Opaque("Twice", "test", (kind, kind), b"")
    first, second = b.opaque(record, [b.op("relu", b.op("relu", b.input("x", (4,))))])
    graph = b.graph({"a": first, "b": b.op("relu", second)})
    state, candidates = started(graph, rule_set("elementwise").select("relu-twice"))
    (edit,) = candidates.edits(state)
    assert agrees(state, edit, graph)
    assert state.edited(edit).graph(graph).operators() == {"relu": 2, "opaque": 1}


FLOATS = TensorType("float32", (4, 4))


class Counting(AnalyticCost):
    asked = 0

    def price(self, instances):
        self.asked += len(instances)
        return super().price(instances)


def test_an_instance_is_priced_once_and_folded_work_is_free():
    model = Counting()
    table = NodeTable(model)
    x, w = table.kind("input", ("x",), FLOATS, []), table.kind("weight", ("w",), FLOATS, [])
    assert (x.constant, w.constant, x.price, w.price) == (False, True, 0, 0)
    first = table.kind("add", (), FLOATS, [x, w])
    assert table.kind("add", (), FLOATS, [x, w]) is first
    assert model.asked == 1
    assert first.price > 0
    assert not first.constant
    folded = table.kind("add", (), FLOATS, [w, w])
    assert folded.constant
    assert folded.price == 0
    assert folded.symbol == first.symbol
    # Whether an operand is a weight is part of what is priced.
    table.kind("add", (), FLOATS, [x, x])
    assert model.asked == 2


def test_prices_are_whole_picoseconds():
    class Fixed(AnalyticCost):
        def price(self, instances):
            return np.full(len(instances), 1.23456789)

    table = NodeTable(Fixed())
    x = table.kind("input", ("x",), FLOATS, [])
    assert table.kind("relu", (), FLOATS, [x]).price == 1234568
    assert PER_MICROSECOND == 1_000_000


def test_digests_tell_structure_attributes_and_types_apart():
    table = NodeTable(AnalyticCost())
    x, y = table.kind("input", ("x",), FLOATS, []), table.kind("input", ("y",), FLOATS, [])
    wide = table.kind("input", ("x",), TensorType("float32", (4, 8)), [])
    heads = [k.head for k in (x, y, wide)]
    assert len(set(heads)) == 3
    a, b = digest_of(x.head, []), digest_of(y.head, [])
    add = table.kind("add", (), FLOATS, [x, y])
    assert digest_of(add.head, [a, b]) != digest_of(add.head, [b, a])
    assert len(digest_of(add.head, [a, b])) == 16

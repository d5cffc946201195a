import random

import pytest

from tests.random_graphs import random_graph
from workbench.costs import graph_cost
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.rules import parse_rules, rule_set
from workbench.studies.benchmarks import benchmark
from workbench.studies.search.candidates import Candidates
from workbench.studies.search.nodes import PER_MICROSECOND, NodeTable
from workbench.studies.search.program import Cyclic, Plan, Program


def started(graph, rules, *, exclusive=False, ordered=True):
    table = NodeTable(AnalyticCost())
    return Program.of(graph, table), Candidates(list(rules), table, exclusive=exclusive, ordered=ordered)


def agrees(program, plan, graph):
    """Check what an edit would change against the edited graph; return whether there is one."""
    change = program.change(plan)
    try:
        after = program.edited(plan)
    except Cyclic:
        assert change is None
        return False
    if change is None:
        # Nothing changes, or what replaces a root depends on it.
        return False
    assert change.cost == after.cost - program.cost
    assert change.size == after.size - program.size
    assert change.digest() == after.key
    rebuilt = Program.of(after.graph(graph), program.table)
    assert (rebuilt.key, rebuilt.cost, rebuilt.size) == (after.key, after.cost, after.size)
    assert after.cost / PER_MICROSECOND == pytest.approx(
        graph_cost(after.graph(graph), AnalyticCost()), abs=1e-3
    )
    return True


@pytest.mark.parametrize("seed", range(30))
def test_what_an_edit_would_change_is_what_it_changes(seed):
    graph = random_graph(seed)
    program, candidates = started(graph, rule_set("all"))
    chance, compared = random.Random(seed), 0
    for _ in range(4):
        plans = list(candidates.plans(program))
        compared += sum(agrees(program, plan, graph) for plan in chance.sample(plans, min(len(plans), 25)))
        ways = [p for p in plans if program.change(p) is not None]
        if not ways:
            break
        program = program.edited(chance.choice(ways))
    assert compared or not plans


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
    program, candidates = started(graph, rules)
    plans = list(candidates.plans(program))
    assert len(plans) == 6  # ordered pairs of three
    assert sum(agrees(program, plan, graph) for plan in plans) == 4


def test_independent_roots_may_be_above_each_other():
    rules = parse_rules("two: relu(x) ; tanh(y) => relu(abs(x)) ; tanh(abs(y)) where rank(x) = rank(y)")
    b = GraphBuilder("tower")
    graph = b.graph({"y": b.op("relu", b.op("sigmoid", b.op("tanh", b.input("x", (4,)))))})
    program, candidates = started(graph, rules)
    (plan,) = candidates.plans(program)
    assert agrees(program, plan, graph)
    after = program.edited(plan).graph(graph)
    assert [n.op for n in after.nodes] == ["input", "abs", "tanh", "sigmoid", "abs", "relu"]


def test_a_result_that_contains_what_it_replaces():
    rules = parse_rules("grow: relu(x) => relu(relu(x))")
    b = GraphBuilder("grow")
    graph = b.graph({"y": b.op("relu", b.op("relu", b.input("x", (4,))))})
    program, candidates = started(graph, rules)
    for plan in candidates.plans(program):
        assert agrees(program, plan, graph)
        assert program.edited(plan).graph(graph).operators() == {"relu": 3}


def test_readers_that_become_equal_are_merged():
    rules = parse_rules("once: relu(relu(x)) => relu(x)")
    b = GraphBuilder("merge")
    once = b.op("relu", b.input("x", (64, 64)))
    twice = b.op("relu", once)
    graph = b.graph({"a": b.op("exp", b.op("tanh", once)), "b": b.op("exp", b.op("tanh", twice))})
    program, candidates = started(graph, rules)
    (plan,) = candidates.plans(program)
    assert agrees(program, plan, graph)
    after = program.edited(plan)
    assert after.graph(graph).operators() == {"relu": 1, "tanh": 1, "exp": 1}
    assert len(set(after.outputs)) == 1


def test_what_comes_to_depend_on_weights_alone_is_free():
    b = GraphBuilder("folds")
    x, w = b.input("x", (4, 4)), b.weight((4, 4))
    part = b.op("slice", b.op("concat", w, x, axis=-1), axis=-1, start=0, stop=4)
    graph = b.graph({"y": b.op("matmul", x, b.op("tanh", b.op("relu", part)))})
    program, candidates = started(graph, rule_set("layout").select("slice-first"))
    (plan,) = candidates.plans(program)
    assert agrees(program, plan, graph)
    after = program.edited(plan)
    kinds = after.table.kinds
    assert {kinds[n].op: kinds[n].constant for n in after.inputs} == {
        "input": False, "weight": True, "relu": True, "tanh": True, "matmul": False,
    }  # fmt: skip


def test_an_edit_that_changes_nothing_is_none():
    b = GraphBuilder("same")
    x, y = b.input("x", (4,)), b.input("y", (4,))
    graph = b.graph({"y": b.op("add", x, x), "z": b.op("add", x, y)})
    program, candidates = started(graph, rule_set("ac").select("add-commutes"))
    changes = [program.change(p) for p in candidates.plans(program)]
    assert [c is None for c in changes] == [True, False]


def test_a_cycle_is_refused():
    b = GraphBuilder("cycle")
    graph = b.graph({"y": b.op("tanh", b.op("relu", b.input("x", (4,))))})
    program = Program.of(graph, NodeTable(AnalyticCost()))
    x, relu, tanh = program.inputs
    plan = Plan("turned", (), ((x, tanh),), (frozenset({tanh}),))
    with pytest.raises(Cyclic):
        program.edited(plan)
    assert relu in program.around.above(x)[0]


def test_programs_keep_graphs():
    graph = benchmark("squeezenet", image=64)
    program = Program.of(graph, NodeTable(AnalyticCost()))
    assert program.graph(graph).structural_hash() == graph.structural_hash()
    assert program.size == len(graph)
    assert program.cost / PER_MICROSECOND == pytest.approx(graph_cost(graph, AnalyticCost()), abs=1e-3)


def test_opaque_operators_pass_through():
    from workbench.graph import Opaque
    from workbench.ops import TensorType

    kind = TensorType("float32", (4,))
    b = GraphBuilder("opaque")
    record = Opaque("Twice", "test", (kind, kind), b"")
    first, second = b.opaque(record, [b.op("relu", b.op("relu", b.input("x", (4,))))])
    graph = b.graph({"a": first, "b": b.op("relu", second)})
    program, candidates = started(graph, rule_set("elementwise").select("relu-twice"))
    (plan,) = candidates.plans(program)
    assert agrees(program, plan, graph)
    assert program.edited(plan).graph(graph).operators() == {"relu": 2, "opaque": 1}

from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, rule_set
from workbench.rules.pattern import joined_axes
from workbench.studies.search.nodes import NodeTable
from workbench.studies.search.patterns import Source
from workbench.studies.search.plans import group_key, plan_merge, plan_rule
from workbench.studies.search.program import Program


def planned(text, graph):
    """Return the plans of a rule of one source, one for each match."""
    (rule,) = parse_rule(text)
    program = Program.of(graph, NodeTable(AnalyticCost()))
    source = Source(rule, rule.sources[0])
    found = [source.match(n, program.table.kinds, program.inputs) for n in program.inputs]
    return [plan_rule(rule, (m,), program.table) for m in found if m is not None]


def sums(left, right):
    b = GraphBuilder("sums")
    return b.graph({"y": b.op("add", b.input("x", left), b.input("y", right))})


def test_a_rule_applies_only_where_the_type_stays():
    text = "first: add(x, y) => x"
    assert planned(text, sums((2, 3), (3,)))[0] is not None
    assert planned(text, sums((3,), (2, 3))) == [None]


def test_a_rule_applies_only_where_its_result_has_a_type():
    text = "mm: add(x, y) => matmul(x, y)"
    assert planned(text, sums((3, 3), (3, 3)))[0] is not None
    assert planned(text, sums((3,), (3,))) == [None]


def test_conditions_hold_and_numbers_that_do_not_fit_apply_nowhere():
    text = "c: add(x, y) => add(y, x) where dim(x, -1) % {} = 0"
    assert planned(text.format(3), sums((2, 3), (3,)))[0] is not None
    assert planned(text.format(2), sums((2, 3), (3,))) == [None]
    assert planned(text.format(0), sums((2, 3), (3,))) == [None]


def test_equal_parts_of_results_are_made_once():
    (plan,) = planned("d: add(x, y) => add(mul(x, y), mul(x, y))", sums((2,), (2,)))
    assert [m.kind.op for m in plan.made] == ["mul", "add"]
    assert plan.made[1].inputs == (~0, ~0)
    assert plan.roots == ((2, ~1),)
    assert plan.leaves == (frozenset({0, 1}),)


def products(sizes=(4, 6), depth=8):
    b = GraphBuilder("products")
    x = b.input("x", (2, depth))
    return b.graph({f"y{n}": b.op("matmul", x, b.weight((depth, n))) for n in sizes})


def merged(rule, graph):
    program = Program.of(graph, NodeTable(AnalyticCost()))
    source = Source(rule, rule.sources[0])
    found = [source.match(n, program.table.kinds, program.inputs) for n in program.inputs]
    matches = [m for m in found if m is not None]
    return plan_merge(rule, matches, program.table), program, matches


def test_a_group_of_any_size_is_merged_at_once():
    rule = rule_set("merge")["merge-matmuls"]
    graph = products((4, 6, 10))
    plan, program, matches = merged(rule, graph)
    after = program.edited(plan).graph(graph)
    assert after.operators() == {"concat": 1, "matmul": 1, "slice": 3}
    cuts = [(n.attr("start"), n.attr("stop")) for n in after.nodes if n.op == "slice"]
    assert sorted(cuts) == [(0, 4), (4, 10), (10, 20)]
    keys = {group_key(m, joined_axes(rule), program.table) for m in matches}
    assert len(keys) == 1


def test_members_of_one_group_share_what_is_not_starred():
    rule = rule_set("merge")["merge-matmuls-rows"]
    _, program, matches = merged(rule, products((4, 6)))
    # One operand, two weights: by rows it is the weight that is shared.
    assert len({group_key(m, joined_axes(rule), program.table) for m in matches}) == 2

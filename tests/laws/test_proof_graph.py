"""The proof graph: equalities with reasons, chains of them, and patterns matched among equal terms."""

import random

import pytest

from workbench.laws.matching import compiled
from workbench.laws.proof_graph import Index, NotAStep, ProofGraph, Reason, Terms, replay, sides
from workbench.ops import TensorType
from workbench.rules import parse_rules
from workbench.rules.interpret import number_key

KIND = TensorType("float32", (4, 4))


def leaf(graph, name):
    return graph.add("weight", (name,), (), None)


def test_equal_operands_make_equal_operators_and_the_chain_says_so():
    graph = ProofGraph()
    a, b = leaf(graph, "a"), leaf(graph, "b")
    f, g = (graph.add("relu", (), (x,), None) for x in (a, b))
    assert graph.find(f) != graph.find(g)
    assert graph.union(a, b, Reason("law"))
    assert graph.find(f) == graph.find(g)
    assert [(k.before, k.after, k.law, k.forwards) for k in graph.chain(f, g)] == [(a, b, "law", True)]
    assert [(k.before, k.forwards) for k in graph.chain(g, f)] == [(b, False)]


def test_a_term_added_later_joins_by_congruence():
    graph = ProofGraph()
    a, b = leaf(graph, "a"), leaf(graph, "b")
    f = graph.add("relu", (), (a,), None)
    graph.union(a, b, Reason("law"))
    assert graph.find(graph.add("relu", (), (b,), None)) == graph.find(f)


def test_terms_that_are_not_equal_have_no_chain():
    graph = ProofGraph()
    with pytest.raises(ValueError, match="must be equal"):
        graph.chain(leaf(graph, "a"), leaf(graph, "b"))


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_random_equalities_are_made_of_given_ones_and_connect(seed):
    rng = random.Random(seed)
    graph = ProofGraph()
    terms = [leaf(graph, str(i)) for i in range(6)]
    for _ in range(30):
        terms.append(graph.add(rng.choice(["relu", "tanh"]), (), (rng.choice(terms),), None))
    given = {}
    for i in range(12):
        a, b = rng.sample(terms, 2)
        graph.union(a, b, Reason(f"law{i}"))
        given[f"law{i}"] = (a, b)
    for _ in range(40):
        a, b = rng.sample(terms, 2)
        if graph.find(a) != graph.find(b):
            continue
        for step in graph.chain(a, b):
            ends = (step.before, step.after) if step.forwards else (step.after, step.before)
            assert ends == given[step.law]


def collection():
    graph = ProofGraph()
    x, y = (graph.add("input", (name,), (), KIND) for name in "xy")
    total = graph.add("add", (), (x, y), KIND)
    return graph, x, y, total, graph.add("relu", (), (total,), KIND)


def test_a_pattern_matches_through_equal_terms():
    graph, x, y, total, top = collection()
    (rule,) = parse_rules("r: relu(add(a, b)) => add(b, a)")
    (pattern,) = sides(rule, forward=True)
    index = Index(graph, 1000)
    index.begin()
    assert index.at(pattern, graph.find(top)) == [{"a": x, "b": y}]
    assert index.at(pattern, graph.find(total)) == []
    other = graph.add("tanh", (), (x,), KIND)
    assert graph.union(other, top, Reason("law"))
    index = Index(graph, 1000)
    index.begin()
    assert len(index.at(pattern, graph.find(other))) == 1


def test_a_variable_that_occurs_twice_needs_equal_terms():
    graph, x, y, total, _ = collection()
    (rule,) = parse_rules("twice: add(a, a) => mul(a, 2)")
    (pattern,) = sides(rule, forward=True)
    for equal in (False, True):
        if equal:
            graph.union(x, y, Reason("law"))
        index = Index(graph, 1000)
        index.begin()
        assert bool(index.at(pattern, graph.find(total))) is equal


def test_a_number_matches_a_tensor_of_that_number_alone():
    graph, x, y, *_ = collection()
    product = graph.add("mul", (), (x, y), KIND)
    (rule,) = parse_rules("half: mul(a, 0.5) => a")
    (pattern,) = sides(rule, forward=True)
    for value, wanted in ((0.5, 1), (0.25, 0)):
        graph.numbers = {y: value}
        index = Index(graph, 1000)
        index.begin()
        found = index.at(pattern, graph.find(product))
        assert len(found) == wanted
        assert all(bound[number_key(rule.sources[0].args[1])] == y for bound in found)


def test_a_side_that_is_a_variable_is_not_searched():
    (rule,) = parse_rules("none: relu(relu(x)) => relu(x)")
    assert len(sides(rule, forward=False)) == 1
    (rule,) = parse_rules("gone: transpose[perm=(0, 1)](x) => x")
    assert sides(rule, forward=False) == ()
    assert compiled(rule.sources[0]).fixed == ((0, (0, 1)),)


def test_matching_ends_when_its_work_is_done():
    graph, *_, top = collection()
    (rule,) = parse_rules("r: relu(add(a, b)) => add(b, a)")
    index = Index(graph, 0)
    index.begin()
    assert index.at(sides(rule, forward=True)[0], graph.find(top)) == []


def test_both_sides_of_a_rule_are_made_equal_with_its_name():
    graph, _, _, total, _ = collection()
    (rule,) = parse_rules("turn: add(a, b) => add(b, a)")
    index = Index(graph, 1000)
    forward, backward = graph.applications(rule, index, {graph.find(total)}, backward=True)
    assert forward.holds
    assert backward.holds
    assert graph.record(forward)
    turned = forward.pairs[0][1]
    assert [k.law for k in graph.chain(total, turned)] == ["turn"]


def test_a_result_without_a_type_is_a_misfit():
    graph = ProofGraph()
    x = graph.add("input", ("x",), (), TensorType("float32", (4, 8)))
    top = graph.add("relu", (), (x,), TensorType("float32", (4, 8)))
    (rule,) = parse_rules("bad: relu(a) => matmul(a, a)")
    index = Index(graph, 1000)
    (applied,) = graph.applications(rule, index, {top}, backward=False)
    assert applied.misfit
    assert applied.pairs == ()


def test_a_chain_rewrites_a_part_at_each_of_its_places_and_a_replay_checks_it():
    rules = parse_rules("double: relu(a) => relu(relu(a))\nturn: add(a, b) => add(b, a)")
    laws = {r.name: r for r in rules}
    graph = ProofGraph()
    x, y = (graph.add("input", (name,), (), KIND) for name in "xy")
    one = graph.build("relu", (), (x,))
    two = graph.build("relu", (), (one,))
    left = graph.build("add", (), (graph.build("add", (), (one, one)), y))
    right = graph.build("add", (), (y, graph.build("add", (), (two, two))))
    assert graph.run(rules, [(left, right)])
    steps = graph.chain(left, right, everywhere=True)
    doubled = [s.place for s in steps if s.law == "double"]
    assert doubled in ([(0, 0), (0, 1)], [(1, 0), (1, 1)])
    assert len(graph.chain(left, right)) < len(steps)
    passed = replay(Terms(graph.entries), left, steps, laws)
    assert (passed[0], passed[-1], len(passed)) == (left, right, len(steps) + 1)
    with pytest.raises(NotAStep, match="does not make"):
        replay(Terms(graph.entries), left, steps, laws | {"double": laws["turn"]})
    with pytest.raises(NotAStep, match="another part"):
        replay(Terms(graph.entries), right, steps, laws)

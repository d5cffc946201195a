"""Questions with known answers: why a term, a graph or a rule's right-hand side is not in an e-graph."""

import pytest

from workbench.graph import GraphBuilder
from workbench.laws.explain.api import TargetError
from workbench.laws.explain.report import Cause, Outcome
from workbench.rules import parse_rules, rule_set
from workbench.run.trace import StopReason
from workbench.saturation import Limits, Saturation

ASSOCIATE = "associate: matmul(matmul(x, y), z) => matmul(x, matmul(y, z))"
BACK = "associate-back: matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)"
COMMUTE = "commute: add(x, y) => add(y, x)"
REGROUP = "regroup: add(add(x, y), z) => add(x, add(y, z))"
TARGET = "relu(matmul(x, matmul(w, v)))"


def product():
    b = GraphBuilder("product")
    x = b.input("x", (4, 8))
    w, v = (b.weight((8, 8), name=name) for name in "wv")
    return b.graph({"y": b.op("relu", b.op("matmul", b.op("matmul", x, w), v))})


def total(leaves):
    b = GraphBuilder("total")
    found = b.input("x0", (2, 3))
    for i in range(1, leaves):
        found = b.op("add", found, b.input(f"x{i}", (2, 3)))
    return b.graph({"y": found})


def pair():
    b = GraphBuilder("pair")
    x = b.input("x", (4, 8))
    y = [b.op("matmul", x, b.weight((8, 8), name=name)) for name in "wv"]
    return b.graph({"p": y[0], "q": y[1]})


def asked(graph, rules, target, *, equals=None, more="", limits=None):
    with Saturation(graph, parse_rules(rules), limits) as run:
        run.run()
        return run.why_not(target, equals=equals, more=parse_rules(more) if more else ())


def test_a_guard_that_says_no_is_named_with_its_values():
    answer = asked(product(), f"{ASSOCIATE} where dim(y, -1) < dim(x, -2)", TARGET)
    assert (answer.cause, answer.rule) == (Cause.GUARD, "associate")
    (guard,) = answer.guards
    assert (guard.condition, guard.left, guard.right) == ("dim(y, -1) < dim(x, -2)", 8, 4)
    assert answer.missing.present == "matmul(matmul(x, w), v)"
    assert answer.missing.wanted == "matmul(x, matmul(w, v))"
    assert [(t.rule, t.outcome) for t in answer.tried] == [("associate", Outcome.GUARD)]


@pytest.mark.parametrize(("outputs", "cause"), [("y", Cause.REPRESENTED), ("yz", Cause.WHOLE)])
def test_a_part_of_what_is_needed_whole_says_so(outputs, cause):
    b = GraphBuilder()
    z = b.op("relu", b.input("x", (6, 4)))
    y = b.op("slice", z, axis=-2, start=0, stop=1)
    graph = b.graph({name: {"y": y, "z": z}[name] for name in outputs})
    law = "phase movement\nbent: slice[axis=-2, r](relu(x)) => relu(slice[axis=-2, r](x))"
    answer = asked(graph, law, "relu(slice[axis=-2, start=0, stop=1](x))")
    assert answer.cause is cause


def test_a_restriction_to_useful_cases_is_a_guard():
    answer = asked(product(), f"{ASSOCIATE} where constant(x)", TARGET)
    assert (answer.cause, [g.condition for g in answer.guards]) == (Cause.GUARD, ["constant(x)"])


def test_a_rule_of_another_set_is_found():
    answer = asked(product(), "idle: relu(relu(x)) => relu(x)", TARGET, more=ASSOCIATE)
    assert (answer.cause, answer.rule) == (Cause.RULE, "associate")


def test_without_any_rule_the_smallest_missing_equality_is_reported():
    answer = asked(product(), "idle: relu(relu(x)) => relu(x)", TARGET)
    assert answer.cause is Cause.UNKNOWN
    assert answer.missing.wanted == "matmul(x, matmul(w, v))"
    assert answer.stop_reason is StopReason.SATURATED


def test_a_rule_in_the_wrong_direction_is_reported():
    answer = asked(product(), BACK, TARGET)
    assert (answer.cause, answer.rule) == (Cause.DIRECTION, "associate-back")
    assert not answer.chain[0].forward
    assert not answer.chain[0].held


def test_a_limit_on_iterations_is_reported():
    rules = f"{COMMUTE}\n{REGROUP}"
    target = "add(add(x0, x2), add(x1, x3))"
    limited = asked(total(4), rules, target, limits=Limits(iterations=1))
    assert limited.cause is Cause.LIMIT
    assert limited.stop_reason is StopReason.ITERATION_LIMIT
    assert not all(m.held for m in limited.chain)
    assert asked(total(4), rules, target).represented


def test_a_limit_on_e_nodes_is_reported():
    rules = f"{COMMUTE}\n{REGROUP}"
    answer = asked(total(4), rules, "add(add(x0, x2), add(x1, x3))", limits=Limits(e_nodes=11))
    assert answer.cause is Cause.LIMIT
    assert answer.stop_reason is StopReason.E_NODE_LIMIT


def test_merges_that_were_not_allowed_are_reported():
    target = "slice[axis=-1, start=0, stop=8](matmul(x, concat[axis=-1](w, v)))"
    with Saturation(pair(), rule_set("merge"), Limits(k_multi=0)) as run:
        run.run()
        answer = run.why_not(target, equals="p")
    assert (answer.cause, answer.rule) == (Cause.MULTI, "merge-matmuls")


def test_a_rule_that_matches_nothing_is_reported_with_the_parts_that_match():
    rules = "fold: relu(add(matmul(x, y), z)) => add(z, matmul(x, y))"
    answer = asked(product(), rules, "fold")
    assert answer.cause is Cause.NO_MATCH
    assert [p.term for p in answer.parts] == ["matmul(x, y)"]


def test_the_largest_parts_are_those_of_the_target():
    answer = asked(product(), ASSOCIATE, "relu(add(matmul(x, matmul(w, v)), matmul(x, w)))")
    assert answer.cause is Cause.UNKNOWN
    assert [(p.term, p.operators) for p in answer.parts] == [
        ("matmul(x, matmul(w, v))", 2),
        ("matmul(x, w)", 1),
    ]


def test_the_end_of_a_chain_may_lie_steps_away():
    # Two steps: the product is regrouped by no rule, the activation is fused by one.
    rules = "fuse: relu(matmul[act=none](x, y)) => matmul[act=relu](x, y)"
    answer = asked(product(), rules, "matmul[act=relu](x, matmul(w, v))", more=ASSOCIATE)
    assert (answer.cause, answer.rule) == (Cause.RULE, "associate")
    assert {m.rule: m.held for m in answer.chain}["associate"] is False


def test_what_is_represented_is_said_to_be():
    assert asked(product(), ASSOCIATE, TARGET).represented
    assert asked(product(), ASSOCIATE, "associate").represented
    assert asked(product(), ASSOCIATE, product()).represented


def test_a_rule_of_another_set_may_be_the_target():
    answer = asked(total(3), COMMUTE, parse_rules(REGROUP)[0])
    assert (answer.cause, answer.rule) == (Cause.RULE, "regroup")


def test_a_graph_is_compared_output_by_output():
    b = GraphBuilder("other")
    x = b.input("x", (4, 8))
    w, v = (b.weight((8, 8), name=name) for name in "wv")
    graph = b.graph({"y": b.op("relu", b.op("matmul", x, b.op("matmul", w, v)))})
    assert asked(product(), ASSOCIATE, graph).represented
    assert asked(product(), BACK, graph).cause is Cause.DIRECTION


def test_a_term_that_is_there_but_in_another_class_is_distinguished():
    answer = asked(product(), BACK, "matmul(x, w)", equals="matmul(matmul(x, w), v)")
    assert answer.elsewhere
    assert answer.cause is Cause.UNKNOWN


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("relu(z)", "must be an input, a weight or an output"),
        ("relu(matmul(w, x))", "well-typed"),
        ("matmul(w, v)", "the type of an output"),
        ("transpose[perm=p](x)", "no value for 'p'"),
    ],
)
def test_a_target_that_cannot_be_read_is_refused(target, words):
    with pytest.raises(TargetError, match=words):
        asked(product(), ASSOCIATE, target)


@pytest.mark.slow
def test_twenty_thousand_e_nodes_change_no_answer():
    # The sum of nine has all but a few of them. The product beside it is what is asked for.
    b = GraphBuilder("large")
    xs = [b.input(f"x{i}", (4, 8)) for i in range(9)]
    found = xs[0]
    for x in xs[1:]:
        found = b.op("add", found, x)
    w, v = (b.weight((8, 8), name=name) for name in "wv")
    graph = b.graph({"s": found, "y": b.op("relu", b.op("matmul", b.op("matmul", found, w), v))})
    rules = parse_rules(f"{COMMUTE}\n{REGROUP}\n{ASSOCIATE} where dim(y, -1) < dim(x, -2)")
    with Saturation(graph, rules, Limits(match_limit=10**6)) as run:
        run.run()
        assert run.e_nodes > 18_000
        answer = run.why_not("relu(matmul(s, matmul(w, v)))", equals="y")
        assert (answer.cause, answer.rule) == (Cause.GUARD, "associate")
        assert run.why_not(
            "add(x8, add(x7, add(x6, add(x5, add(x4, add(x3, add(x2, add(x1, x0))))))))"
        ).represented


def test_a_rule_that_nobody_knows_is_reported_with_the_nearest():
    with Saturation(product(), parse_rules(BACK)) as run:
        run.run()
        with pytest.raises(
            TargetError, match="no rule is called 'asociate-back'; did you mean associate-back"
        ):
            run.why_not("asociate-back")

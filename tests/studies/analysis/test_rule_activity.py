"""What rules did in a run: verdicts and evidence, firings, and what the best graph owes to whom."""

import pytest

import workbench
from workbench.laws.verification import Verification
from workbench.rules import parse_rules
from workbench.rules.verdicts import is_theorem
from workbench.run.trace import RuleStep, Step, StepKind, Trace
from workbench.studies.analysis.rule_activity import (
    contributions,
    evidence,
    phases,
    profile,
    rule_table,
    used_by_step,
)


def sums():
    """Two products of one operand, added and rectified."""
    b = workbench.GraphBuilder("sums")
    x = b.input("x", (4, 8))
    left, right = (b.op("matmul", x, b.weight((8, 8))) for _ in range(2))
    return b.graph({"y": b.op("relu", b.op("add", left, right))})


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(sums(), certify=False)


@pytest.fixture(scope="module")
def table(result):
    return rule_table(workbench.rule_set("default"), result)


def test_contributions_count_the_e_nodes_of_the_best_graph(result):
    found = contributions(result)
    assert tuple(c.rule for c in found) == result.rules
    egraph, chosen = result.egraph, {int(i) for i in result.solution.choice if i >= 0}
    made = [i for i in chosen if egraph.birth_rule[i] >= 0]
    assert sum(c.e_nodes for c in found) == len(made)
    for c in found:
        assert sum(c.operators.values()) == c.e_nodes
        assert str(c).endswith(f"in step {', '.join(map(str, c.steps))}")


def test_the_e_nodes_of_the_best_graph_by_step_add_up_to_contributions(result):
    found = used_by_step(result)
    for c in contributions(result):
        own = {step: count for (step, rule), count in found.items() if rule == c.rule}
        assert sum(own.values()) == c.e_nodes
        assert tuple(sorted(own)) == c.steps
    assert {rule for _, rule in found} == set(result.rules)


def test_an_original_that_stays_owes_nothing():
    b = workbench.GraphBuilder("one")
    graph = b.graph({"y": b.op("relu", b.input("x", (4,)))})
    kept = workbench.optimize(graph, certify=False)
    assert contributions(kept) == ()
    assert used_by_step(kept) == {}


def test_the_sums_of_firings_are_the_traces(table, result):
    frame = result.trace.rule_frame()
    by_rule = frame.groupby("rule")[["matches", "e_nodes"]].sum()
    assert {r.rule.name for r in table.fired} == set(by_rule.index)
    for row in table.fired:
        assert row.matches == by_rule.loc[row.rule.name, "matches"]
        assert row.e_nodes == by_rule.loc[row.rule.name, "e_nodes"]
        steps = frame[frame["rule"] == row.rule.name]["step"]
        assert row.span == (steps.min(), steps.max())


def test_the_rules_of_the_best_graph_come_first(table, result):
    assert tuple(r.rule.name for r in table.fired[: len(result.rules)]) == result.rules
    rest = [r.matches for r in table.fired[len(result.rules) :]]
    assert rest == sorted(rest, reverse=True)


def test_the_frame_has_every_rule_with_law_verdict_and_evidence(table):
    frame = table.frame()
    assert len(frame) == len(workbench.rule_set("default"))
    assert set(frame["verdict"]) <= {"theorem", "tested"}
    for row in table.rows:
        said = ("proved for all extents and ranks;", "") if is_theorem(row.rule) else ("", "; no theorem: ")
        assert row.evidence.startswith(said[0])
        assert said[1] in row.evidence
    assert frame["evidence"].str.len().min() > 0
    assert frame["matches"].sum() == sum(r.matches for r in table.fired)
    assert f"{len(table.fired)} fired in sums" in table.summary()
    assert len(repr(table).splitlines()) <= 12


def test_without_a_run_nothing_is_said_of_one():
    table = rule_table(workbench.rule_set("merge"))
    assert table.run == ""
    assert table.frame()["matches"].isna().all()
    assert "fired" not in repr(table)
    assert table["merge-convs"].tags == ("merge", "any number")
    assert table["merge-convs"].conditions == ()
    with pytest.raises(KeyError, match="did you mean merge-convs"):
        table["merge-conv"]


def test_a_trace_is_enough_and_anything_else_is_refused():
    rules = parse_rules("a: neg(neg(x)) => x\nb: relu(relu(x)) => relu(x)")
    trace = Trace(
        {"graph": "g"},
        [Step(k, StepKind.ITERATION, 0.1, 9, 9, (RuleStep("a", k, 0.01, 1),)) for k in range(3)],
    )
    table = rule_table(rules, trace)
    assert (table["a"].matches, table["a"].e_nodes, table["a"].span) == (3, 3, (0, 2))
    assert not table["b"].fired
    with pytest.raises(TypeError, match="got int"):
        rule_table(rules, 3)


def test_a_verification_brings_its_counterexamples():
    rules = parse_rules("wrong: relu(x) => x\nright: relu(relu(x)) => relu(x)")
    assert rule_table(rules)["wrong"].verdict == "unknown"
    assert "library's record" in rule_table(rules)["wrong"].evidence
    verification = Verification(rules)
    verification.run()
    table = rule_table(rules, verification=verification)
    assert (table["wrong"].verdict, table["right"].verdict) == ("refuted", "tested")
    assert "differ at" in table["wrong"].counterexample
    assert table["right"].counterexample == ""


@pytest.mark.slow
def test_an_ablation_says_the_cost_without():
    ablation = workbench.studies.ablation(sums(), certify=False)
    table = rule_table(ablation.rules, ablation=ablation)
    tried = {r.rule.name: r.without for r in table.rows if r.without is not None}
    assert tried == {row.rule: row.cost for row in ablation.rows}
    assert tried


def test_evidence_is_one_line_for_every_status():
    assert (
        evidence({"status": "tested", "draws": 12, "exhaustive": True})
        == "12 instances agree, all small ones"
    )
    refuted = {"status": "refuted", "summary": "x = 1", "region": {"condition": "groups = 1"}}
    assert evidence(refuted) == "differs on an instance; holds where groups = 1"


@pytest.mark.slow
def test_a_profile_says_what_each_rule_made_and_what_the_result_uses():
    result = workbench.optimize(workbench.benchmark("nasrnn"), profile=True, certify=False)
    table = profile(result)
    assert table["e_nodes"].sum() == (result.egraph.birth_rule >= 0).sum()
    assert table["used"].to_dict() == dict.fromkeys(table.index, 0) | {
        c.rule: c.e_nodes for c in contributions(result)
    }
    assert table["used"].sum() > 0
    assert (table["e_nodes"].diff().dropna() <= 0).all()


@pytest.mark.slow
def test_phases_add_up_to_the_iterations():
    result = workbench.optimize(workbench.benchmark("nasrnn"), certify=False)
    steps = [s for s in result.trace if s.phases]
    assert {StepKind.ITERATION} <= {s.kind for s in steps} <= {StepKind.ITERATION, StepKind.MERGE}
    for step in steps:
        assert sum(step.phases.values()) == pytest.approx(step.seconds)
    found = phases(result.trace)
    assert set(found) == {"match and apply", "merges", "bookkeeping", "copies", "own code"}
    assert list(found.values()) == sorted(found.values(), reverse=True)

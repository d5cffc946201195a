"""The rules that a user asks for."""

import pytest

import workbench
from tests.certification.test_half_precision import attention, boundary
from workbench.certification.half_precision import range_fault
from workbench.laws.verification.admission import RefutedRuleKept, RefutedRules
from workbench.optimizer.job import keeps_range, rules_for
from workbench.optimizer.summary import summary_rows
from workbench.rules import RuleSet, parse_rules, rule_set
from workbench.rules.ruleset import published, rules_of, union
from workbench.saturation import Saturation
from workbench.support.messages import UnknownName

LAW = "my-own: add(x, y) => add(y, x)\n"


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.rules"
    path.write_text(LAW)
    return path


def names(rules):
    return [r.name for r in rules]


def test_names_sets_and_rules():
    rules = rule_set("elementwise")
    assert rules_of("elementwise").rules == rules.rules
    assert rules_of(rules) is rules
    given = rules_of(list(rules)[:2])
    assert (given.name, len(given.rules)) == ("given", 2)
    (law,) = parse_rules(LAW)
    assert rules_of(law).rules == (law,)
    with pytest.raises(UnknownName, match="did you mean default"):
        rules_of("defualt")


def test_own_rules_join_the_default_ones(mine):
    parts = ["default", str(mine), mine, parse_rules(LAW), parse_rules(LAW)[0], rule_set("merge")]
    whole = rules_of(parts)
    assert names(whole) == [*names(rule_set("default")), "my-own"]
    assert whole.name.startswith("default+")
    assert whole.verdict(whole["my-own"]) == "tested"
    assert not whole.weights  # the default set leaves terms of weights alone, whatever comes with it
    assert not rules_of([mine, "default"]).weights


@pytest.mark.slow
def test_a_saturation_takes_the_same_list(mine):
    graph = attention(True)
    saturation = Saturation(graph, ["default", *parse_rules(LAW)])
    assert names(saturation.rules) == names(rules_of(["default", mine]))
    assert Saturation(graph, "merge").rules.rules == rule_set("merge").rules
    with pytest.raises(TypeError, match="rules must be names, files or rules, got 3"):
        Saturation(graph, 3)


def test_one_name_for_two_laws_is_refused(mine):
    with pytest.raises(ValueError, match="'my-own' must be the same law in all rule sets"):
        rules_of([mine, parse_rules("my-own: mul(x, y) => mul(y, x)")])
    assert len(union([rules_of(mine), rules_of(mine)])) == 1


def test_a_refuted_rule_of_a_file_needs_asking_for(tmp_path):
    path = tmp_path / "wrong.rules"
    path.write_text("wrong: relu(x) => x\n")
    with pytest.raises(RefutedRules, match="wrong"):
        rules_of(["default", path])
    with pytest.warns(RefutedRuleKept):
        kept = rules_of(["default", path], keep_refuted=True)
    assert kept.verdict(kept["wrong"]) == "refuted"
    assert isinstance(published(str(path)), RuleSet)


@pytest.mark.slow
def test_optimize_takes_several_and_refuses_refuted_ones(tmp_path, mine):
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("add", b.input("x", (2, 3)), b.op("relu", b.input("z", (2, 3))))})
    result = workbench.optimize(graph, rules=["default", mine], cost="analytic")
    assert result.certificate.rules["my-own"] == "tested"
    path = tmp_path / "wrong.rules"
    path.write_text("wrong: relu(x) => x\n")
    with pytest.raises(RefutedRules, match=r"x.*on the left"):
        workbench.optimize(graph, rules=["default", path], cost="analytic")
    with pytest.warns(RefutedRuleKept):
        kept = workbench.optimize(graph, rules=["default", path], cost="analytic", keep_refuted=True)
    assert not kept.certificate.passed
    assert kept.offending == ("wrong",)
    with pytest.raises(RefutedRules):
        workbench.studies.search_optimize(graph, rules=path)


def test_a_graph_of_short_floats_is_rewritten_by_the_rules_that_keep_them():
    rules = rule_set("default")
    assert rules_for(attention(True, "float32"), rules) == (rules, ())
    kept, left_out = rules_for(attention(True), rule_set("default"))
    assert "matmul-of-scaled" in left_out
    assert "merge-matmuls" not in left_out
    assert len(kept) + len(left_out) == len(rule_set("default"))
    assert all(keeps_range(rule, "float16") for rule in kept)


@pytest.mark.slow
def test_half_precision_attention_stays_finite_and_the_summary_says_what_was_left_out():
    result = workbench.optimize(attention(True), e_nodes=2000, seconds=300)
    assert "matmul-of-scaled" in result.settings["left_out"]
    assert range_fault(result.original, result.graph, boundary(150.0)) is None
    (row,) = [r for r in summary_rows(result) if r.what == "range"]
    assert row.figures.startswith(f"{len(result.settings['left_out'])} rules left out")
    single = workbench.optimize(attention(True, "float32"), e_nodes=2000, seconds=300)
    assert "left_out" not in single.settings

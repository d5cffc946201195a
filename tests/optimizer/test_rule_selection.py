"""The rules that a user asks for."""

import pytest

import workbench
from workbench.laws.verification.admission import RefutedRuleKept, RefutedRules
from workbench.optimizer.rule_selection import published, rules_of, union
from workbench.rules import RuleSet, UnknownRuleSet, parse_rules, rule_set

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
    with pytest.raises(UnknownRuleSet, match="did you mean default"):
        rules_of("defualt")


def test_own_rules_join_the_default_ones(mine):
    parts = ["default", str(mine), mine, parse_rules(LAW), parse_rules(LAW)[0], rule_set("merge")]
    whole = rules_of(parts)
    assert names(whole) == [*names(rule_set("default")), "my-own"]
    assert whole.name.startswith("default+")
    assert whole.verdict(whole["my-own"]) == "proved"
    assert not whole.weights  # the default set leaves terms of weights alone, whatever comes with it
    assert not rules_of([mine, "default"]).weights


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


def test_optimize_takes_several_and_refuses_refuted_ones(tmp_path, mine):
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("add", b.input("x", (2, 3)), b.op("relu", b.input("z", (2, 3))))})
    result = workbench.optimize(graph, rules=["default", mine], cost="analytic")
    assert result.certificate.rules["my-own"] == "proved"
    path = tmp_path / "wrong.rules"
    path.write_text("wrong: relu(x) => x\n")
    with pytest.raises(RefutedRules, match=r"x.*on the left"):
        workbench.optimize(graph, rules=["default", path], cost="analytic")
    with pytest.warns(RefutedRuleKept):
        kept = workbench.optimize(graph, rules=["default", path], cost="analytic", keep_refuted=True)
    assert not kept.certificate.passed
    assert kept.offending == ("wrong",)
    with pytest.raises(RefutedRules):
        workbench.search_optimize(graph, rules=path)

"""Why an e-node is there: the rules that led to it, one after another."""

import pytest

import workbench
from workbench.rules import parse_rules
from workbench.studies.analysis.comparison import Derivations


def derived(graph, rules):
    with workbench.Saturation(graph, rules) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    return egraph, Derivations(egraph, rules)


def node_of(egraph, op):
    return [i for i, name in enumerate(egraph.ops) if name == op]


def test_a_chain_of_two_rules():
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"y": b.op("relu", b.op("relu", b.op("relu", x)))})
    rules = parse_rules("to-max: relu(relu(x)) => max(relu(x), relu(x))\nto-exp: max(a, a) => abs(a)")
    egraph, derivations = derived(graph, rules)
    for i in node_of(egraph, "abs"):
        chain = derivations.chain(i)
        assert [birth.rule for birth in chain] == ["to-max", "to-exp"]
        assert chain[-1].node == i
        assert egraph.ops[chain[-1].sources[0]] == "max"
        steps = [birth.step for birth in chain]
        assert steps == sorted(steps)


@pytest.mark.slow
def test_sources_are_older_than_what_they_made():
    result = workbench.optimize(workbench.benchmark("bert", layers=2))
    derivations = Derivations(result.egraph, result.ruleset)
    explained = 0
    for i in range(len(result.egraph)):
        birth = derivations.birth(i)
        if birth is None:
            assert result.egraph.birth_rule[i] == -1
            continue
        explained += bool(birth.sources)
        assert all(result.egraph.birth_step[j] < birth.step for j in birth.sources)
    assert explained > 0.8 * (result.egraph.birth_rule >= 0).sum()


def test_the_start_graph_needs_no_rule():
    b = workbench.GraphBuilder()
    egraph, derivations = derived(b.graph({"y": b.op("relu", b.input("x", (4,)))}), ())
    assert all(derivations.chain(i) == () for i in range(len(egraph)))


@pytest.mark.parametrize("known", [True, False])
def test_a_multi_pattern_rule_is_explained_by_both_its_sides(known):
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"l": b.op("matmul", x, b.weight((4, 4))), "r": b.op("matmul", x, b.weight((4, 4)))})
    rules = workbench.rule_set("default")
    with workbench.Saturation(graph, rules) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    derivations = Derivations(egraph, rules if known else ())
    merged = [i for i in node_of(egraph, "matmul") if egraph.birth_rule[i] >= 0]
    birth = derivations.birth(merged[0])
    assert birth.rule == "merge-matmuls"
    # A rule that is not known explains nothing, but is named.
    assert bool(birth.sources) == known

"""Original and optimised compared by e-class."""

import numpy as np
import pytest

import workbench
from workbench.egraph.rebuild import eclasses_of
from workbench.studies.analysis.comparison import MARKS


@pytest.fixture(scope="module", params=[pytest.param("bert", marks=pytest.mark.slow), "squeezenet"])
def result(request):
    return workbench.optimize(workbench.benchmark(request.param))


@pytest.mark.slow
def test_every_node_is_found_in_the_e_graph(result):
    c = result.compare()
    for side in (c.before, c.after):
        assert len(side.marks) == len(side.graph)
        assert set(side.marks) <= set(MARKS)
        assert all(i >= 0 for i in side.e_nodes)
        # The e-graph knows each e-class's type.
        for node, eclass in zip(side.graph, side.classes, strict=True):
            assert result.egraph.types[eclass] == node.type


def test_marks_say_what_they_mean(result):
    c = result.compare()
    before, after = set(c.before.classes), set(c.after.classes)
    for side, other, alone in ((c.before, after, "removed"), (c.after, before, "added")):
        for eclass, mark in zip(side.classes, side.marks, strict=True):
            assert (mark == alone) == (eclass not in other)
    # A term that was kept is the same e-node on both sides.
    kept = {i for i, m in zip(c.before.e_nodes, c.before.marks, strict=True) if m == "kept"}
    assert kept == {i for i, m in zip(c.after.e_nodes, c.after.marks, strict=True) if m == "kept"}


def test_costs_add_up(result):
    c = result.compare()
    assert np.isclose(sum(c.before.costs), result.cost_before)
    assert np.isclose(sum(c.after.costs), result.cost_after)


def test_what_is_new_was_made_by_a_rule(result):
    c = result.compare()
    for i, mark in enumerate(c.after.marks):
        if mark == "added":
            assert c.after.births[i] is not None
            assert c.chain(i)[-1].rule == c.after.births[i].rule
    assert set(c.rules()) == set(result.rules)
    partners = [c.partners(i) for i, m in enumerate(c.after.marks) if m == "rewritten"]
    assert all(partners)


def test_a_graph_without_gain_is_compared_with_itself():
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    unused = b.input("unused", (2,))
    result = workbench.optimize(b.graph({"y": b.op("exp", x)}))
    c = result.compare()
    assert set(c.before.marks) == set(c.after.marks) == {"kept"}
    assert c.rules() == {}
    assert int(unused) == 1
    assert len(repr(c).splitlines()) <= 12


def test_nodes_that_are_not_in_the_e_graph_are_reported():
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    result = workbench.optimize(b.graph({"y": b.op("exp", x)}))
    other = workbench.GraphBuilder()
    z = other.op("log", other.op("exp", other.input("x", (4, 4))))
    assert [c >= 0 for c in eclasses_of(other.graph({"z": z}), result.egraph)] == [True, True, False]


def merged(family, **parameters):
    from zoo.branches import branched

    return workbench.optimize(branched(family, **parameters)).compare()


@pytest.mark.slow
def test_stories_are_of_operators_that_run_the_longest_first():
    comparison = merged("mobileone", blocks=1, channels=4, size=6)
    stories = comparison.stories()
    constant = comparison.after.graph.constant()
    assert not any(constant[i] for i, _ in stories)
    assert {comparison.after.graph.nodes[i].op for i, _ in stories} == {"conv2d"}
    lengths = [len(links) for _, links in stories]
    assert lengths == sorted(lengths, reverse=True)
    assert all(comparison.after.births[i] is not None for i, _ in stories)
    assert stories[0][1][-1].rule == "conv-takes-relu-bias"


@pytest.mark.slow
def test_a_story_for_all_that_rules_made_unless_another_holds_its_rules():
    stories = merged("affine_chain", blocks=1, hidden=64, rows=8).stories()
    rules = [{link.rule for link in links} for _, links in stories]
    assert set.union(*rules) >= {
        "layernorm-takes-scale-bias",
        "layernorm-takes-shift",
        "matmul-scales-columns",
    }
    assert not any(a <= b for i, a in enumerate(rules) for b in rules[:i])

"""Extractors of the user's own: their choice is checked, and the error names the fault."""

import numpy as np
import pytest

import workbench
from workbench.extraction import Extraction, NoExtraction, Status, extract
from workbench.extraction.api import extractor
from workbench.extraction.problem import tree_costs
from workbench.extraction.registry import OWN, BadExtraction, checked_choice
from workbench.run.trace import StepKind


@pytest.fixture(autouse=True)
def _empty():
    yield
    OWN._own.clear()


@pytest.fixture(scope="module")
def found():
    """Return an optimisation whose e-graph has a loop: relu is its own inverse on its image."""
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.op("relu", b.op("neg", b.input("x", (2, 3)))))})
    return workbench.optimize(graph, cost="analytic")


def by_tree(egraph, costs, *, seconds):
    assert seconds > 0
    return np.array(tree_costs(egraph, costs)[1])


def extracted(found, function, name="mine"):
    extractor.register(name)(function)
    return extract(found.egraph, found.costs, name)


def test_a_right_choice_is_a_solution(found):
    solution = extracted(found, by_tree)
    assert solution.cost == found.solution.cost
    assert solution.method == "mine"
    assert solution.status in (Status.OPTIMAL, Status.GREEDY)
    assert solution.bound <= solution.cost
    run = Extraction(found.egraph, found.costs, "mine")
    run.run()
    assert [s.kind for s in run.trace] == [StepKind.OWN, StepKind.SETTLED]


def test_a_mapping_will_do_and_more_than_is_needed_is_left_out(found):
    def everything(egraph, costs, *, seconds):
        return {c: i for c, i in enumerate(tree_costs(egraph, costs)[1]) if i >= 0}

    solution = extracted(found, everything)
    assert solution.cost == found.solution.cost
    assert solution.choice.tolist() == extract(found.egraph, found.costs, "tree").choice.tolist()


def test_optimize_takes_it_by_name(found):
    extractor.register("mine")(by_tree)
    again = workbench.optimize(found.original, cost="analytic", extractor="mine")
    assert again.solution.method == "mine"
    assert again.cost_after == found.cost_after
    assert again.certificate.passed


def test_an_exception_of_it_names_it(found):
    def failing(egraph, costs, *, seconds):
        raise ZeroDivisionError("no e-node")

    with pytest.raises(ZeroDivisionError, match="no e-node") as raised:
        extracted(found, failing)
    assert raised.value.__notes__ == ["in the extractor 'mine'"]


def test_what_makes_no_term_is_refused_with_the_reason(found):
    egraph = found.egraph
    right = tree_costs(egraph, found.costs)[1]
    root = egraph.roots[0]
    looping = next(i for i in range(len(egraph)) if int(egraph.eclass[i]) in egraph.operands(i).tolist())

    def choosing(eclass, enode):
        return of(dict(enumerate(right)) | {int(eclass): int(enode)})

    def of(given):
        return lambda egraph, costs, *, seconds: given

    other = next(i for i in range(len(egraph)) if int(egraph.eclass[i]) != root)
    costly = np.where(np.arange(len(egraph)) == right[root], np.inf, found.costs)
    with pytest.raises(BadExtraction, match=r"'mine' must choose an e-node for e-class .*, a root, got none"):
        extracted(found, of({}))
    with pytest.raises(BadExtraction, match=r"an array of .* integers, one per e-class, got list of shape"):
        extracted(found, of([1, 2]))
    with pytest.raises(BadExtraction, match="and there are"):
        extracted(found, choosing(root, 10_000))
    with pytest.raises(BadExtraction, match=r"must choose an e-node of e-class .*, a root, got .* of "):
        extracted(found, choosing(root, other))
    with pytest.raises(BadExtraction, match=r"must choose an acyclic term, got the loop .* → "):
        extracted(found, choosing(egraph.eclass[looping], looping))
    with pytest.raises(BadExtraction, match="of finite cost"):
        checked_choice("mine", egraph, costly, right)
    assert issubclass(BadExtraction, NoExtraction)

"""Of equally cheap selections, one whose products share an operand."""

from dataclasses import replace

import numpy as np

from tests.extraction.egraphs import egraph_of
from workbench.costs import price_egraph
from workbench.costs.analytic import AnalyticCost
from workbench.extraction import extract, tie_breaking
from workbench.extraction.tie_breaking import gathered
from workbench.graph import GraphBuilder
from workbench.rules import parse_rules
from workbench.saturation import Saturation

LAWS = """
turned: transpose[perm=(1, 0)](matmul(x, w)) => \\
    matmul(transpose[perm=(1, 0)](w), transpose[perm=(1, 0)](x)) where constant(w)
"""


def projections():
    """Return an e-graph in which a product of one operand is turned, or its operand is."""
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (8, 8)))
    q, k = (b.op("matmul", x, b.weight((8, 8))) for _ in range(2))
    y = b.op("matmul", b.op("relu", q), b.op("relu", b.op("transpose", k, perm=(1, 0))))
    saturation = Saturation(b.graph({"y": y}), parse_rules(LAWS))
    saturation.run()
    egraph = saturation.egraph()
    return egraph, price_egraph(egraph, AnalyticCost())


def products(egraph, choice):
    return [i for i in choice.tolist() if i >= 0 and egraph.ops[i] == "matmul"]


def cost(costs, choice):
    return sum(costs[i] for i in choice.tolist() if i >= 0)


def lone(egraph, costs):
    """Return the selection of least cost with the turned product, and its e-nodes."""
    best = extract(egraph, costs).choice.copy()
    (made,) = (i for i in range(len(egraph)) if egraph.birth_rule[i] >= 0 and egraph.ops[i] == "matmul")
    banned = costs.copy()
    for i in range(len(egraph)):
        if egraph.eclass[i] == egraph.eclass[made] and i != made:
            banned[i] = 1e6
    return best, extract(egraph, banned).choice.copy()


def test_a_product_takes_an_operand_that_another_reads():
    egraph, costs = projections()
    _, choice = lone(egraph, costs)
    left = [int(egraph.operands(i)[0]) for i in products(egraph, choice)]
    assert len(set(left)) == 3
    found = gathered(egraph, costs, choice)
    left = [int(egraph.operands(i)[0]) for i in products(egraph, found)]
    assert len(set(left)) == 2
    assert np.isclose(cost(costs, found), cost(costs, choice))


def test_a_more_expensive_product_is_not_taken():
    egraph, costs = projections()
    _, choice = lone(egraph, costs)
    transposes = [i for i in range(len(egraph)) if egraph.ops[i] == "transpose" and egraph.birth_rule[i] < 0]
    raised = costs.copy()
    raised[transposes] += 1.0
    assert np.array_equal(gathered(egraph, raised, choice), choice)


def test_products_that_share_an_operand_stay():
    egraph, costs = projections()
    best, choice = lone(egraph, costs)
    found = gathered(egraph, costs, choice)
    assert np.array_equal(gathered(egraph, costs, found), found)
    assert cost(costs, best) <= cost(costs, found) * (1 + 1e-9)


def test_terms_with_many_free_choices_are_not_all_tried(monkeypatch):
    """Eight e-nodes that cost nothing in each of six layers make 8^6 terms of one operand."""
    layers, wide = 6, 8
    ops, eclass, rows = (
        ["matmul", "matmul", "relu", "input", "weight"],
        [0, 0, 1, 2, 3],
        [[1, 3], [4, 3], [2], [], []],
    )
    for k in range(layers):
        ops += ["relu"] * wide
        eclass += [4 + k] * wide
        rows += [[5 + k if k + 1 < layers else 2]] * wide
    egraph = replace(egraph_of(list(zip(eclass, rows, strict=True))), ops=tuple(ops))
    tried = []
    term = tie_breaking._Selection.term
    monkeypatch.setattr(
        tie_breaking._Selection, "term", lambda self, *given: (tried.append(given), term(self, *given))[1]
    )
    choice = np.full(egraph.n_classes, -1)
    choice[:4] = [0, 2, 3, 4]
    found = gathered(egraph, np.zeros(len(egraph)), choice)
    assert np.array_equal(found, choice)
    assert len(tried) < wide**layers / 10

"""What the papers report and a second implementation found, beside ours: costs and orders of methods."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.sampled import in_turn
from workbench.costs import graph_cost, price_egraph
from workbench.costs.analytic import AnalyticCost, Device
from workbench.egraph.egraph import EGraph
from workbench.extraction import extract
from workbench.laws.foreign.tensat_file import tensat_rules
from workbench.rules import rule_set
from workbench.saturation import Limits, Saturation
from workbench.studies.benchmarks import benchmark

#: A roofline of 60 TFLOP/s and 4.8 TB/s, 3 µs a launch.
ROOFLINE = AnalyticCost(Device("toy", 60e12, 4.8e12, 3.0, half=60e12, double=60e12, efficiency=1.0))
#: Costs that a second implementation found with Tensat's rules at k_multi = 1, in µs: original, tree, dag, exact.
FOUND = {
    "bert": (320.8, 284.1, 284.1, 257.1),
    "nasrnn": (682.0, 501.9, 501.9, 452.6),
    "resnext50": (423.7, 423.7, 423.7, 420.7),
    # Its e-graph was not saturated after 15 iterations; a tree selection there came to 1694.0.
    "nasneta": (1722.3, 1693.7, 1690.5, 1431.9),
    "inceptionv3": (618.9, 618.9, 618.9, 588.9),
    "squeezenet": (212.5, 134.5, 134.5, 134.5),
    "vgg19": (910.5, 837.7, 837.7, 837.7),
    "resnet50": (407.3, 407.3, 407.3, 404.3),
    "mobilenetv2": (513.9, 516.9, 513.9, 513.9),
}
STORED = Path(__file__).parents[3] / "results" / "extraction" / "table.csv"


def saturated(name, rules):
    limits = Limits(e_nodes=60_000, seconds=120, iterations=15, k_multi=1, settle=0, match_limit=10**9)
    with Saturation(benchmark(name), rules, limits, keep=0) as run:
        run.run()
        return run.egraph()


def extracted(egraph, costs):
    return [extract(egraph, costs, method).cost for method in ("tree", "dag", "exact")]


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(FOUND, 3))
def test_costs_that_a_second_implementation_found(shared_data, name):
    egraph = saturated(name, list(tensat_rules(shared_data / "tensat")))
    costs = price_egraph(egraph, ROOFLINE)
    before = graph_cost(benchmark(name), ROOFLINE)
    original, tree, dag, exact = FOUND[name]
    ours = [round(cost, 1) for cost in (before, *extracted(egraph, costs))]
    assert (ours[0], ours[3]) == (original, exact)
    # Greedy methods depend on their order; ours try several, and must not be behind.
    assert ours[1] <= tree
    assert exact <= ours[2] <= dag


@pytest.fixture
def weights_cost_what_they_cost(monkeypatch):
    """Price work on weights alone as if it ran every time, which is what Tensat's extraction does."""
    monkeypatch.setattr(EGraph, "constant_classes", lambda self: np.zeros(self.n_classes, dtype=bool))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.usefixtures("weights_cost_what_they_cost")
def test_greedy_does_nothing_for_bert_at_tensats_prices(shared_data):
    egraph = saturated("bert", list(tensat_rules(shared_data / "tensat")))
    model = AnalyticCost("t4")
    before = graph_cost(benchmark("bert"), model)
    assert extracted(egraph, price_egraph(egraph, model)) == pytest.approx([before] * 3)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.usefixtures("weights_cost_what_they_cost")
def test_greedy_makes_nasneta_worse_at_tensats_prices(shared_data):
    egraph = saturated("nasneta", list(tensat_rules(shared_data / "tensat")))
    model = AnalyticCost("t4")
    tree, dag, exact = extracted(egraph, price_egraph(egraph, model))
    assert exact < dag < graph_cost(benchmark("nasneta"), model) < tree


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", ["resnet50", "mobilenetv2"])
def test_tensats_rules_gain_next_to_nothing(shared_data, name):
    egraph = saturated(name, list(tensat_rules(shared_data / "tensat")))
    model = AnalyticCost("t4")
    before = graph_cost(benchmark(name), model)
    assert before / 1.002 < extract(egraph, price_egraph(egraph, model)).cost <= before


@pytest.mark.slow
def test_batch_normalisation_is_what_our_rules_take_away_from_mobilenet():
    egraph = saturated("mobilenetv2", list(rule_set("default")))
    costs = price_egraph(egraph, AnalyticCost("t4"))
    solution = extract(egraph, costs)
    chosen = [egraph.ops[i] for i in solution.choice[solution.choice >= 0]]
    assert "batchnorm" not in chosen
    assert 2 * solution.cost < graph_cost(benchmark("mobilenetv2"), AnalyticCost("t4"))


@pytest.fixture(scope="module")
def stored():
    table = pd.read_csv(STORED)
    return table[table["source"] == "workbench"]


def test_exact_is_never_above_greedy(stored):
    costs = stored.pivot(index="instance", columns="method", values="cost")
    assert len(costs) >= 13
    for method in ("tree", "dag", "local"):
        assert (costs["exact"] <= costs[method] * (1 + 1e-9)).all()


def test_orders_make_tensats_program_harder(stored):
    """Without order variables, on an e-graph without cycles, it is solved wherever it is with them."""
    status = stored.pivot(index="instance", columns="method", values="status")
    solved = {
        m: set(status.index[status[m] == "optimal"]) for m in ("tensat", "tensat-integer", "tensat-filtered")
    }
    assert solved["tensat"] <= solved["tensat-filtered"]
    assert solved["tensat-integer"] <= solved["tensat-filtered"]
    assert {"extraction-gym/resnet50", "extraction-gym/vgg"} <= solved["tensat-filtered"] - solved["tensat"]


def test_bert_needs_more_than_greedy(stored):
    rows = stored[stored["instance"] == "extraction-gym/bert_acyclic"].set_index("method")["cost"]
    assert rows["exact"] <= 0.7084 + 5e-5
    assert rows["tree"] == pytest.approx(0.8270, abs=5e-5)

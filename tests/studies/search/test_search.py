"""TASO's search: its order, its limits, its modes and its trace."""

import time

import numpy as np
import pytest

import workbench
from tests.random_graphs import random_graph
from tests.studies.search.brute import least_cost, reachable_graphs
from workbench.certification import certify
from workbench.costs import graph_cost
from workbench.costs.analytic import AnalyticCost
from workbench.graph import GraphBuilder
from workbench.rules import parse_rules, rule_set
from workbench.run.trace import StepKind, StopReason, Trace
from workbench.studies.benchmarks import benchmark
from workbench.studies.search import BacktrackingSearch

DEFAULT = rule_set("default")
SMALL = {
    "bert": {"layers": 2, "sequence": 8, "hidden": 32, "heads": 4},
    "nasrnn": {"hidden": 16, "length": 2},
    "resnext50": {"image": 32, "blocks": (1, 1, 1, 1), "width": 32},
    "nasneta": {"image": 32, "channels": 8, "stages": 1, "cells": 1},
    "inceptionv3": {"image": 107, "width": 0.125},
    "squeezenet": {"image": 64},
    "vgg19": {"image": 32, "width": 0.125},
    "resnet50": {"image": 8, "blocks": (1, 1, 1, 1), "width": 8},
    "mobilenetv2": {"image": 64},
}


def search(graph, rules=DEFAULT, **options):
    return BacktrackingSearch(graph, rules, AnalyticCost(), **options)


def sums(n=4):
    """A chain of additions: associativity makes it every tree over it."""
    b = GraphBuilder("sums")
    xs = [b.input(f"x{i}", (4, 4)) for i in range(n)]
    total = xs[0]
    for x in xs[1:]:
        total = b.op("add", total, x)
    return b.graph({"y": b.op("relu", total)})


def products():
    b = GraphBuilder("products")
    x, y = b.input("x", (8, 16)), b.input("y", (8, 16))
    w, v = b.weight((16, 16)), b.weight((16, 16))
    return b.graph({"p": b.op("relu", b.op("matmul", x, w)), "q": b.op("add", b.op("matmul", x, v), y)})


def shared_scales():
    b = GraphBuilder("scales")
    x, y = b.input("x", (2, 8)), b.input("y", (2, 8))
    z = b.op("mul", b.op("add", x, y), b.weight((8,)))
    return b.graph({"z": b.op("relu", b.op("relu", z)), "t": b.op("mul", z, b.weight((8,)))})


CASES = {
    "associativity": (sums, rule_set("ac").select("add-*")),
    "pairs": (products, parse_rules("\n".join(str(r) for r in [*rule_set("pairs"), *rule_set("fusion")]))),
    "elementwise": (shared_scales, rule_set("elementwise").single),
}


# -- what it finds ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
def test_an_unbounded_search_finds_exactly_the_graphs_that_brute_force_finds(case):
    make, rules = CASES[case]
    graph = make()
    everything = reachable_graphs(graph, list(rules))
    assert len(everything) > 3
    # In the sound mode a symmetric pair is merged in one order, which costs as much as the other.
    run = BacktrackingSearch(
        graph, rules, AnalyticCost(), alpha=1e6, budget=20_000, growth=50.0,
        mode="tensat-fork" if case == "pairs" else "sound",
    )  # fmt: skip
    assert run.run() is StopReason.FINISHED
    assert run.cost == pytest.approx(least_cost(everything, AnalyticCost()))
    if case != "pairs":  # with exclusive matches fewer graphs are within reach
        assert run.found == len(everything)
    assert run.best.structural_hash() in everything
    assert run.expanded == run.found


@pytest.mark.slow
@pytest.mark.parametrize("network", SMALL)
def test_what_sound_rules_make_of_a_network_is_certified(network):
    graph = benchmark(network, **SMALL[network])
    run = search(graph, budget=30)
    run.run()
    assert run.cost == pytest.approx(graph_cost(run.best, AnalyticCost()), abs=1e-3)
    assert run.cost <= graph_cost(graph, AnalyticCost()) * (1 + 1e-9)
    assert certify(graph, run.best, draws=1).passed


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_keep_their_function(seed):
    graph = random_graph(seed)
    run = search(graph, rule_set("all"), budget=12, alpha=1.2)
    run.run()
    assert certify(graph, run.best, seed=seed).passed, run.history
    steps = run.path()
    assert len(steps) == len(run.history) + 1
    assert steps[-1].structural_hash() == run.best.structural_hash()


def test_every_graph_on_the_way_is_one_substitution_from_the_last():
    run = search(products())
    run.run()
    path = run.path()
    assert run.history
    assert path[0].structural_hash() == products().structural_hash()
    for before, after, name in zip(path[:-1], path[1:], run.history, strict=True):
        one = BacktrackingSearch(
            before, [r for r in DEFAULT if r.name == name], AnalyticCost(), budget=0, alpha=10.0, growth=9.0
        )
        one.step()
        assert after.structural_hash() in {c.state().graph(before).structural_hash() for c in one._queue}


def test_alpha_decides_whether_costs_may_rise_on_the_way():
    # Reordering alone gains nothing; only after it stand the two weights beside each other, to be folded.
    b = GraphBuilder("detour")
    x, w, v = b.input("x", (64, 64)), b.weight((64, 64)), b.weight((64, 64))
    graph = b.graph({"y": b.op("add", b.op("add", w, x), v)})
    rules = parse_rules("swap: add(x, y) => add(y, x)\nfold: add(add(x, y), z) => add(x, add(y, z))")
    greedy, patient = search(graph, rules, alpha=1.0), search(graph, rules, alpha=1.05)
    greedy.run()
    patient.run()
    assert greedy.history == ()
    assert greedy.stop_reason is StopReason.FINISHED
    assert patient.history == ("swap", "fold")
    assert patient.cost < greedy.cost


def test_graphs_met_before_are_not_taken_again():
    run = search(sums(3), rule_set("ac").select("add-commutes"))
    assert run.run() is StopReason.FINISHED
    # Two additions, each in two orders, however often a swap is undone.
    assert run.found == run.expanded == 4
    assert sum(r.matches for s in run.trace for r in s.rules) == 8


@pytest.mark.slow
def test_the_queue_keeps_what_the_budget_reaches_and_loses_nothing_by_it():
    graph = sums(5)
    rules = rule_set("ac").select("add-*")
    everything = reachable_graphs(graph, list(rules))
    run = search(graph, rules, budget=10, alpha=1.5)
    for step in run:
        assert step.e_classes <= 12 - run.taken
    assert run.stop_reason is StopReason.ITERATION_LIMIT
    assert run.expanded == 11
    assert run.taken == 12
    assert run.best.structural_hash() in everything


def test_equal_operators_are_paid_for_once():
    b = GraphBuilder("twice", share=False)
    x = b.input("x", (64, 64))
    graph = b.graph({"a": b.op("relu", x), "b": b.op("relu", x)})
    run = search(graph)
    run.run()
    assert run.cost == pytest.approx(graph_cost(graph, AnalyticCost()) / 2)
    assert run.best.output_types == graph.output_types


def test_inputs_outputs_and_their_order_stay():
    b = GraphBuilder("ends")
    x, unused = b.input("x", (4, 4)), b.input("unused", (2,))
    y = b.op("relu", b.op("relu", x))
    graph = b.graph([("second", y), ("first", x), ("third", y)])
    run = search(graph)
    run.run()
    assert list(run.best.input_types) == ["x", "unused"] == list(graph.input_types)
    assert run.best.output_types == graph.output_types
    assert run.best.operators() == {"relu": 1}
    assert unused is not None


# -- the same every time ------------------------------------------------------------------------------
def figures(run):
    return [(s.e_nodes, s.e_classes, s.cost, s.note, [(r.rule, r.matches, r.e_nodes) for r in s.rules])
            for s in run.trace]  # fmt: skip


def test_two_runs_are_one():
    runs = [search(benchmark("nasneta", **SMALL["nasneta"]), budget=20) for _ in range(2)]
    for run in runs:
        run.run()
    assert figures(runs[0]) == figures(runs[1])
    assert runs[0].history == runs[1].history


# -- stopping -----------------------------------------------------------------------------------------
class Interrupting(AnalyticCost):
    """Raise Ctrl-C once, in the middle of a step, when ``left`` is set."""

    left = 0

    def price(self, instances):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().price(instances)


@pytest.mark.parametrize("after", [1, 10, 20])
def test_an_interrupted_run_keeps_its_best_and_continues_to_the_same_end(after):
    graph = benchmark("squeezenet", image=64)
    whole = search(graph, budget=15)
    whole.run()
    model = Interrupting()
    run = BacktrackingSearch(graph, DEFAULT, model, budget=15)
    model.left = after
    assert run.run() is StopReason.INTERRUPTED
    assert run.unfinished
    assert run.cost <= graph_cost(graph, AnalyticCost())
    assert run.best.output_types == graph.output_types
    assert run.run() is StopReason.ITERATION_LIMIT
    assert (run.cost, run.history) == (whole.cost, whole.history)
    assert [s.note for s in run.trace] == [s.note for s in whole.trace]


def test_a_run_in_a_thread_stops_and_continues():
    run = search(benchmark("squeezenet", image=64), budget=60)
    seen, ended = [], []
    run.start(seen.append, lambda: ended.append(True))
    while not seen:
        time.sleep(0.001)
    run.stop()
    assert ended
    assert len(seen) <= len(run.trace)
    if run.stop_reason is StopReason.INTERRUPTED:
        assert run.unfinished
    run.run()
    assert run.stop_reason is StopReason.ITERATION_LIMIT
    assert run.taken == 62


def test_time_that_is_up_cuts_a_step_short():
    run = search(benchmark("squeezenet", image=64), seconds=1e-9)
    assert run.run() is StopReason.TIME_LIMIT
    assert "cut short" in run.trace.steps[-1].note
    assert [step.kind for step in run.trace] == [StepKind.START, StepKind.CUT]
    assert run.expanded == 0
    with pytest.raises(StopIteration, match="time limit"):
        run.step()


def test_graphs_stay_below_the_node_limit():
    graph = sums(3)
    rules = parse_rules("grow: relu(x) => relu(relu(x))")
    run = search(graph, rules, alpha=100.0, growth=2.0)
    assert run.run() is StopReason.FINISHED
    # 6 nodes at the start, and fewer than twice as many at any time.
    assert run.found == 6
    assert search(graph, rules, alpha=100.0, growth=1.0).run() is StopReason.FINISHED


def test_a_budget_of_nothing_expands_the_start_graph():
    run = search(products(), budget=0)
    run.run()
    assert run.expanded == 1
    assert run.taken == 2
    assert len(run.history) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.9}, "alpha must be 1 or more"),
        ({"alpha": float("nan")}, "alpha must be 1 or more"),
        ({"budget": -1}, "budget must be 0 or more"),
        ({"growth": 0.5}, "growth must be 1 or more"),
        ({"seconds": 0}, "time limit must be positive"),
        ({"mode": "taso_release"}, "did you mean taso-release"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        search(products(), **options)


def test_what_is_neither_a_graph_nor_a_number_is_refused():
    with pytest.raises(TypeError, match="the model must be a Graph, got str"):
        search("model.onnx")
    with pytest.raises(TypeError, match="must be a whole number of graphs"):
        search(products(), budget=2.5)


def test_prices_that_are_not_numbers_are_refused():
    class Wrong(AnalyticCost):
        def price(self, instances):
            return np.full(len(instances), np.nan)

    with pytest.raises(ValueError, match="must be a finite number"):
        BacktrackingSearch(products(), DEFAULT, Wrong())


# -- the record ---------------------------------------------------------------------------------------
def test_the_trace_says_what_was_taken_found_and_queued(tmp_path):
    run = search(products(), budget=5)
    run.run()
    frame = run.trace.frame()
    assert frame["cost"].is_monotonic_decreasing
    assert frame["e_nodes"].is_monotonic_increasing
    assert frame["cost"].iloc[0] == pytest.approx(graph_cost(products(), AnalyticCost()))
    assert frame["cost"].iloc[-1] == run.cost == run.trace.meta["cost_after"]
    made = run.trace.rule_frame()
    assert made["e_nodes"].sum() == run.found - 1
    assert {"merge-matmuls", "matmul-takes-relu"} <= set(made["rule"])
    assert all(s.note.startswith("took ") and "in the queue" in s.note for s in run.trace.steps[1:])
    kinds = [step.kind for step in run.trace]
    assert kinds == [StepKind.START, *[StepKind.EXPANSION] * run.expanded, StepKind.COMPARISON]
    run.trace.save(tmp_path / "trace.jsonl")
    assert Trace.load(tmp_path / "trace.jsonl").steps == run.trace.steps


@pytest.mark.slow
def test_faces_and_plots_take_the_trace():
    from matplotlib.figure import Figure

    from workbench.faces.plots.saturation import firing_data, plot_growth
    from workbench.faces.views.static_html import static_html
    from workbench.faces.views.steps import stepper_data

    run = search(benchmark("squeezenet", image=64), budget=70)
    run.run()
    labels = [line.get_label() for line in plot_growth(run.trace, Figure().subplots()).lines]
    assert labels == ["graphs found (1 at the start)", "graphs in the queue"]
    firing = firing_data(run.trace)
    assert firing.block == 3
    assert len(firing.iterations) == 24
    assert firing.counts.sum() + firing.left_out_count == run.found - 1
    page = static_html(run)
    assert "graphs in the queue" in page
    assert "e-nodes" not in page
    data = stepper_data(run.trace)
    assert data["columns"][2] == "graphs found"
    assert len(repr(run).splitlines()) <= 12
    assert isinstance(run, workbench.studies.BacktrackingSearch)

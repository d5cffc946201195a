"""Extraction as a whole: the optimum, its bound, limits, interrupts and the reasons for an early end."""

import math
import os
import signal
import time

import numpy as np
import pytest

from tests.extraction.egraphs import brute_force, egraph_of, random_egraph, selection_cost
from tests.extraction.problems import cost_of, problem_of, tangle
from tests.sampled import in_turn
from workbench.egraph import load_json
from workbench.extraction import Extraction, Limit, NoExtraction, Status, extract, methods
from workbench.extraction.exact.solve import solve
from workbench.extraction.exact.solver_process import SolverProcess
from workbench.extraction.exact.types import Effort, Solved
from workbench.extraction.greedy.dag import greedy
from workbench.extraction.methods import (
    IDLE_SECONDS,
    PROGRESS_SHARE,
    Incumbent,
    Search,
    early_bound,
    idling,
    in_blocks,
)
from workbench.extraction.problem import Terms, is_acyclic
from workbench.extraction.reduce.presolve import QUICK, REDUCTIONS
from workbench.run.trace import StepKind, StopReason, Trace


def greedy_cost(egraph, costs):
    problem = problem_of(egraph, costs)
    return cost_of(egraph, costs, problem, greedy(problem))


def shared():
    """Two parts of one merged operator: expensive for one of them, cheap if both are used."""
    nodes = [
        (0, [1, 2]),  # the root reads both
        (1, []), (2, []),  # separately: 6 each
        (1, [3]), (2, [3]),  # as parts of class 3
        (3, []),  # together: 9
    ]  # fmt: skip
    return egraph_of(nodes), np.array([1.0, 6, 6, 0.5, 0.5, 9])


def test_what_pays_when_it_is_shared():
    egraph, costs = shared()
    assert extract(egraph, costs, "tree").cost == 13
    assert extract(egraph, costs, "dag").cost == 13
    assert extract(egraph, costs, "local").cost == 11
    exact = extract(egraph, costs, "exact")
    assert exact.cost == 11
    assert exact.status is Status.OPTIMAL
    assert exact.bound == pytest.approx(11)
    assert exact.scope == "e-graph"


@pytest.mark.parametrize("block", in_turn(range(20), 5))
def test_against_brute_force(block):
    """Cycles, ties, free e-nodes, several roots, what is not reached: the optimum, hundreds of times."""
    for seed in range(block * 150, block * 150 + 150):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            with pytest.raises(NoExtraction):
                extract(egraph, costs)
            continue
        found = {m: extract(egraph, costs, m) for m in ("tree", "dag", "local", "filtered", "exact")}
        for solution in found.values():
            assert is_acyclic(egraph, solution.choice)
            assert selection_cost(egraph, costs, solution.choice.tolist()) == pytest.approx(solution.cost)
            assert solution.cost >= best - 1e-9
            assert solution.bound <= solution.cost
        assert found["local"].cost <= found["dag"].cost
        assert found["exact"].cost == pytest.approx(best)
        assert found["exact"].status is Status.OPTIMAL
        assert found["exact"].scope == "e-graph"


def test_most_cyclic_instances_are_solved_by_breaking_the_cycles_first_too():
    hits = total = filtered = 0
    for seed in range(300):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        solution = extract(egraph, costs, "filtered")
        total += 1
        hits += solution.cost <= best + 1e-9
        filtered += solution.scope == "cycle-free part"
    assert hits >= 0.9 * total
    assert filtered > 3


#: The published figures of these e-graphs, and what greedy extraction gives.
OPTIMA = {
    "bert": (0.704720, 0.824704),
    "resnet50": (4.385795, 4.396867),
    "vgg": (4.850757, 4.850757),
    "bert_acyclic": (0.708439, 0.827000),
    "resnet50_acyclic": (4.415993, 4.425745),
    "vgg_acyclic": (4.866775, 4.866775),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", in_turn(OPTIMA, 3))
@pytest.mark.slow
def test_tensats_e_graphs_are_solved_to_proven_optimality(shared_data, name):
    egraph, costs = load_json(shared_data / "extraction-gym" / f"{name}.json")
    optimum, greedy = OPTIMA[name]
    assert extract(egraph, costs, "dag").cost == pytest.approx(greedy, abs=1e-6)
    solution = extract(egraph, costs, seconds=240.0)
    assert solution.status is Status.OPTIMAL
    assert solution.cost == pytest.approx(optimum, abs=1e-6)
    assert selection_cost(egraph, costs, solution.choice.tolist()) == pytest.approx(solution.cost)


def shuffled(size=1500):
    """Return an e-graph whose optimum no solver proves in seconds."""
    rng = np.random.default_rng(0)
    nodes = [(c, rng.integers(0, size, rng.integers(1, 5)).tolist()) for c in range(size) for _ in range(4)]
    nodes += [(c, []) for c in range(0, size, 4)]
    roots = range(1, size, 10)
    return egraph_of(nodes, roots), np.concatenate(
        [rng.integers(1, 9, 4 * size), rng.integers(10, 40, size // 4)]
    )


@pytest.mark.slow
def test_a_time_limit_of_a_second_gives_the_greedy_answer_or_better_and_says_so():
    egraph, costs = shuffled()
    greedy = greedy_cost(egraph, costs)
    run = Extraction(egraph, costs, seconds=1.0)
    solution = run.run()
    assert solution.cost <= greedy
    assert solution.status is not Status.OPTIMAL
    assert solution.notes == ("time limit",)
    assert solution.limits == {Limit.TIME}
    assert 0 < solution.bound <= solution.cost
    assert run.stop_reason is StopReason.FEASIBLE


@pytest.mark.slow
def test_killing_the_solvers_gives_the_greedy_answer_or_better_and_says_so(monkeypatch):
    egraph, costs = shuffled()

    def kill(self, child, seconds):
        if child.running:
            os.kill(child.number, signal.SIGKILL)
        listen(self, child, seconds)

    monkeypatch.setattr(SolverProcess, "_listen", kill)
    solution = extract(egraph, costs, seconds=60.0)
    assert solution.status is Status.GREEDY
    assert solution.notes == ("highs was killed",)
    assert solution.limits == {Limit.KILLED}
    assert solution.cost <= greedy_cost(egraph, costs)


listen = SolverProcess._listen


@pytest.mark.slow
def test_the_memory_limit_reaches_the_solvers():
    egraph, costs = shuffled()
    solution = extract(egraph, costs, seconds=600.0, memory=150 << 20)
    assert solution.status is not Status.OPTIMAL  # a solver may report a bound before it has no memory left
    assert [ending.solver for ending in solution.endings] == ["highs"]
    assert solution.limits <= {Limit.MEMORY, Limit.FAILED, Limit.KILLED}
    assert all(note.startswith("highs ") for note in solution.notes)
    assert solution.cost <= greedy_cost(egraph, costs)


@pytest.mark.slow
def test_an_interrupt_keeps_the_best_and_the_bound(monkeypatch):
    egraph, costs = shuffled()

    def interrupt(self, child, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(SolverProcess, "_listen", interrupt)
    run = Extraction(egraph, costs)
    solution = run.run()
    assert run.stop_reason is StopReason.INTERRUPTED
    assert solution.limits == {Limit.INTERRUPTED}
    assert solution.notes == ("interrupted",)
    assert run.interrupt().notes == ("interrupted",)
    assert is_acyclic(egraph, solution.choice)
    assert solution.bound > 0


@pytest.mark.slow
def test_an_interrupt_without_cycles_says_what_the_bound_is_of():
    egraph, costs = shuffled()
    run = Extraction(egraph, costs, "filtered")

    def interrupt(step):
        if step.kind is StepKind.INCUMBENT:
            raise KeyboardInterrupt

    solution = run.run(interrupt)
    assert Limit.INTERRUPTED in solution.limits
    assert solution.scope == "cycle-free part"


@pytest.mark.slow
def test_auto_stops_when_nothing_moves(monkeypatch):
    monkeypatch.setattr(methods, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(methods, "PROGRESS_SHARE", 10.0)  # no solver moves cost or bound so far
    egraph, costs = shuffled()
    solution = extract(egraph, costs, "auto", seconds=600.0)
    assert solution.notes == ("no progress worth waiting for",)
    assert solution.limits == {Limit.PATIENCE}


@pytest.mark.slow
def test_presolve_is_a_step_with_its_effects():
    egraph, costs = shuffled(400)
    run = Extraction(egraph, costs, seconds=2.0)
    for step in run:
        if step.kind is StepKind.PRESOLVE:
            break
    assert 0 < step.counts["after"] < step.counts["before"] <= len(egraph)
    assert step.note == f"presolve: {step.counts['before']} → {step.counts['after']} candidates"
    assert {r.rule for r in step.rules} >= {"drop_dominated", "pull_up", "drop_expensive"}
    assert sum(r.matches for r in step.rules) > 0
    run.run()


def test_the_loop_formulas_of_all_steps_together_are_those_of_the_solver(monkeypatch):
    """The solver reports in turn how many it works with: 3, again 3, and 5."""

    def reports(problem, start, *arguments, **options):
        for cuts in (3, 3, 5):
            yield Solved(dict(start), 0.0, cuts=cuts)

    monkeypatch.setattr(methods, "solve", reports)
    run = Extraction(*shared())
    run.run()
    added = [r.matches for step in run.trace for r in step.rules if r.rule == "loop formulas"]
    assert added == [3, 2]


def test_the_start_graph_bounds_the_result():
    egraph, costs = shared()
    object.__setattr__(egraph, "original", np.array([5, 3, 4, 0]))
    steps = list(Extraction(egraph, costs, "dag"))
    assert [step.kind for step in steps] == [StepKind.ORIGINAL, StepKind.TREE, StepKind.DAG]
    assert steps[0].cost == 11
    assert steps[-1].cost == 11


def test_steps_tell_incumbents_and_bounds():
    egraph, costs = shared()
    run = Extraction(egraph, costs)
    steps = list(run)
    assert run.stop_reason is StopReason.OPTIMAL
    kept = [s.cost for s in run.trace]
    assert kept == sorted(kept, reverse=True)
    assert steps[-1].bound == pytest.approx(11)
    with pytest.raises(StopIteration):
        run.step()


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, -np.inf], r"cost of e-node 1 \(op1\) must be a number above minus infinity, got -inf"),
        ([1.0, float("nan")], "must be a number above minus infinity, got nan"),
        ([1.0], r"costs must be an array of 2, one per e-node, got shape \(1,\)"),
        ([1.0, float("inf")], "must have a finite term of finite cost, got none"),
    ],
)
def test_costs_are_checked(costs, message):
    egraph = egraph_of([(0, [1]), (1, [])])
    with pytest.raises(NoExtraction, match=message):
        extract(egraph, np.array(costs))


def test_a_root_without_a_finite_term():
    egraph = egraph_of([(0, [1]), (1, [0])])
    with pytest.raises(NoExtraction, match="root"):
        extract(egraph, np.ones(2))


def test_unknown_method_and_limit():
    egraph, costs = shared()
    with pytest.raises(ValueError, match="tree"):
        extract(egraph, costs, "magic")
    with pytest.raises(ValueError, match="time limit must be positive, got 0"):
        extract(egraph, costs, seconds=0)
    with pytest.raises(ValueError, match="memory limit must be a positive number of bytes, got 0"):
        extract(egraph, costs, memory=0)


def test_everything_free():
    egraph = egraph_of([(0, [1]), (1, []), (0, [0])])
    solution = extract(egraph, np.zeros(3))
    assert solution.cost == 0
    assert solution.status is Status.OPTIMAL


def test_a_long_chain_needs_no_deep_stack():
    n = 3_000
    egraph = egraph_of([(i, [i + 1]) for i in range(n)] + [(n, [])])
    assert extract(egraph, np.ones(n + 1)).cost == n + 1


def test_tree_costs_that_double_with_every_level_are_not_an_obstacle():
    n = 2_000
    egraph = egraph_of([(i, [i + 1, i + 1]) for i in range(n)] + [(n, [])])
    assert extract(egraph, np.ones(n + 1)).cost == n + 1


def test_a_gap_bounds_what_is_lost():
    for seed in range(100):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is not None:
            solution = extract(egraph, costs, effort=Effort(gap=0.2, nodes=10))
            assert solution.bound - 1e-9 <= best <= solution.cost <= best / 0.8 + 1e-9


def test_a_search_ends_within_its_gap_and_says_so():
    egraph, costs = shuffled(80)
    solution = extract(egraph, costs, effort=Effort(gap=0.4, nodes=1000))
    assert 0 < solution.gap <= 0.4
    assert solution.status is not Status.OPTIMAL
    assert solution.limits == {Limit.CLOSE}


@pytest.mark.slow
def test_with_a_limit_on_nodes_no_solver_has_a_process_of_its_own(monkeypatch):
    def refuse(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(SolverProcess, "run", refuse)
    egraph, costs = shuffled(100)
    found = extract(egraph, costs, effort=Effort(nodes=1))
    assert 0 < found.bound < found.cost
    assert found.limits == {Limit.NODES}


def test_with_a_limit_on_nodes_cutting_planes_prove_what_they_can():
    egraph, costs = shuffled(32)
    found = extract(egraph, costs, effort=Effort(nodes=0))
    assert found.status is Status.OPTIMAL
    assert found.cost == extract(egraph, costs).cost
    again = extract(egraph, costs, effort=Effort(nodes=0))
    assert found.choice.tolist() == again.choice.tolist(), "the result does not depend on time"


@pytest.mark.slow
def test_large_problems_against_brute_force(monkeypatch):
    """Whether a problem counts as large, and falls apart into blocks, does not change its optimum."""
    seen = []

    def blocks(problem, until):
        seen.append(in_blocks(problem, until))
        return seen[-1]

    monkeypatch.setattr(methods, "in_blocks", blocks)
    monkeypatch.setattr(methods, "MIN_LOCAL_SIZE", 3)
    monkeypatch.setattr(methods, "MIN_WHOLE_SIZE", 3)
    for seed in range(400):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        for method in ("exact", "filtered"):
            solution = extract(egraph, costs, method)
            assert selection_cost(egraph, costs, solution.choice.tolist()) == pytest.approx(solution.cost)
            assert solution.cost == pytest.approx(best) or method == "filtered"
            assert solution.status is Status.OPTIMAL
    assert seen.count(True) > 5
    assert seen.count(False) > 0


def test_a_large_problem_has_the_bound_of_an_ascent_before_its_reductions(monkeypatch):
    egraph, costs = tangle(300, seed=2)
    problem = problem_of(egraph, costs)
    optimum = extract(egraph, costs).cost
    monkeypatch.setattr(methods, "MIN_LOCAL_SIZE", 10)
    assert 0.0 < early_bound(problem, math.inf) <= optimum * (1 + 1e-9)
    assert early_bound(problem, time.perf_counter() - 1) == 0.0
    monkeypatch.setattr(methods, "MIN_LOCAL_SIZE", 10**9)
    assert early_bound(problem, math.inf) == 0.0


def test_effects_of_further_reductions_are_added_to_earlier_ones(monkeypatch):
    egraph, costs = tangle(300, seed=2)
    tree = extract(egraph, costs, "tree")
    kept = Incumbent(egraph, costs, 0.0, Trace({}), tree)
    search = Search(kept, problem_of(egraph, costs), Terms.of(egraph, costs), costs, "exact", math.inf)
    search.reduce(1.0, once=True)
    assert {e.rule for e in search.effects} == {one.__name__ for one in QUICK}
    assert search.before == len(search.problem.nodes)
    names, once = [e.rule for e in search.effects], len(search.left.nodes)
    search.reduce(1.0)
    assert [e.rule for e in search.effects] == names
    assert sum(e.matches for e in search.effects) == search.before - len(search.left.nodes)
    assert len(search.left.nodes) < once < search.before
    monkeypatch.setattr(methods, "MIN_WHOLE_SIZE", 10)
    search.left, search.before, search.effects = search.problem, len(search.problem.nodes), []
    search.reduce(1.0)
    assert {e.rule for e in search.effects} == {one.__name__ for one in REDUCTIONS}


def test_the_bounds_of_independent_parts_add_up_to_a_bound_before_they_are_solved():
    exact = 0
    for seed in range(300):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        problem = problem_of(egraph, costs)
        bound = next(solve(problem, None, 60.0)).bound
        assert bound <= best * (1 + 1e-9)
        exact += bound >= best * (1 - 1e-9)
    assert exact > 100


@pytest.mark.slow
def test_a_start_stands_for_a_greedy_selection_and_changes_no_optimum(monkeypatch):
    """Not even a bad start, such as the best selection by opposite costs."""
    for seed in range(200):
        egraph, costs = random_egraph(seed)
        best = brute_force(egraph, costs)
        if best is None:
            continue
        start = extract(egraph, 100.0 - costs).choice
        monkeypatch.setattr(methods, "greedy", None)  # it would raise TypeError
        found = extract(egraph, costs, start=start)
        monkeypatch.undo()
        assert found.cost == pytest.approx(best)
        assert found.status is Status.OPTIMAL


def test_a_problem_is_in_blocks_if_its_largest_part_is_small(monkeypatch):
    nodes = [(0, [1, 4])]
    for first in (1, 4):
        nodes += [(first, [first + 1]), (first, [first + 2]), (first + 1, []), (first + 2, [])]
    problem = problem_of(egraph_of(nodes), np.array([1.0, *[1.0, 2, 4, 3] * 2]))
    monkeypatch.setattr(methods, "MIN_WHOLE_SIZE", 5)
    assert in_blocks(problem, math.inf)
    monkeypatch.setattr(methods, "MIN_WHOLE_SIZE", 4)
    assert not in_blocks(problem, math.inf)


def test_a_bound_proves_only_without_what_all_selections_pay():
    problem = problem_of(egraph_of([(0, [1]), (1, []), (1, [])]), np.array([1e9, 1.0, 2.0]))
    best = extract(egraph_of([(0, [1]), (1, []), (1, [])]), np.array([1e9, 1.0, 2.0]), "tree")
    kept = Incumbent(problem.egraph, np.array([1e9, 1.0, 2.0]), 0.0, Trace({}), best, core=problem)
    assert kept.optimal
    kept.change(bound=best.cost - 0.5)
    assert not kept.optimal
    kept.core = None
    assert kept.optimal


def test_a_race_goes_on_while_cost_or_bound_move_and_as_long_again():
    small = PROGRESS_SHARE / 2
    patience = idling(0)
    assert patience(0.1, 100.0, 50.0)
    assert patience(IDLE_SECONDS, 100.0 * (1 - small), 50.0 + 100.0 * small)  # too little to count
    assert not patience(IDLE_SECONDS + 0.1, 100.0 * (1 - small), 50.0)
    for cost, bound in ((90.0, 50.0), (100.0, 60.0)):
        patience = idling(0)
        assert patience(0.1, 100.0, 50.0)
        assert patience(2 * IDLE_SECONDS, cost, bound)
        assert patience(3.9 * IDLE_SECONDS, cost, bound)
        assert not patience(4 * IDLE_SECONDS, cost, bound)


def test_a_large_problem_may_pause_longer():
    patience = idling(10**6)
    assert patience(0.1, 100.0, 50.0)
    assert patience(3 * IDLE_SECONDS, 100.0, 50.0)

"""Time limits and proofs on e-graphs of degenerate shapes."""

import contextlib
import itertools
import json
import math
import os
import random
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of
from workbench.egraph import load_json
from workbench.extraction import Extraction, Limit, NoExtraction, Status, extract, methods
from workbench.extraction.exact.types import Solved
from workbench.extraction.problem import Terms, is_acyclic
from workbench.extraction.reduce.dominators import must_sets
from workbench.support import deadline as deadlines

SHARED = Path(os.environ.get("WORKBENCH_SHARED", "nowhere")) / "reviews" / "repro" / "extraction"


def wide(count, leaves=150, arity=6):
    """Return an e-graph with one e-class of ``count`` e-nodes that read a few leaves each."""
    rng = random.Random(3)
    rows = [(c, []) for c in range(1, leaves + 1)]
    costs = [rng.randint(1, 1000) for _ in rows]
    rows += [(0, [rng.randint(1, leaves) for _ in range(arity)]) for _ in range(count)]
    costs += [rng.randint(1, 4000) for _ in range(count)]
    return egraph_of(rows), np.array(costs, dtype=float)


def star(count):
    """Return an e-graph in which very many e-classes without a choice read one leaf."""
    rows = [(0, list(range(2, count + 2))), (1, [])] + [(c, [1]) for c in range(2, count + 2)]
    return egraph_of(rows), np.ones(len(rows))


@pytest.mark.parametrize("shape", [lambda: wide(3000), lambda: star(6000)])
def test_degenerate_shapes_are_solved(shape):
    egraph, costs = shape()
    solution = extract(egraph, costs, seconds=60)
    assert solution.status is Status.OPTIMAL
    assert is_acyclic(egraph, solution.choice)


def test_the_cheapest_of_a_wide_eclass():
    egraph, costs = wide(2000)
    leaf = dict(zip(egraph.eclass[:150].tolist(), costs[:150].tolist(), strict=True))
    expected = min(
        costs[i] + sum(leaf[c] for c in set(egraph.operands(i).tolist())) for i in range(150, len(egraph))
    )
    assert extract(egraph, costs).cost == expected


@pytest.mark.slow
def test_a_stage_without_a_clock_is_ended_from_outside(monkeypatch):
    """Whatever a stage does, the extraction ends with its best selection and says why."""

    def stuck(*arguments, **options):
        for n in itertools.count():
            if n < 0:
                break

    monkeypatch.setattr(methods.Search, "reduce", stuck)
    rng = random.Random(0)
    rows = [(c, [rng.randrange(c + 1, min(c + 9, 300)) for _ in range(3)]) for c in range(299) for _ in "abc"]
    egraph = egraph_of([*rows, (299, [])])
    costs = np.array([rng.randint(1, 50) for _ in range(len(egraph))], dtype=float)
    run = Extraction(egraph, costs, seconds=0.2)
    solution = run.run()
    assert Limit.TIME in solution.limits
    assert is_acyclic(egraph, solution.choice)
    assert not run.unfinished
    assert solution.status is not Status.OPTIMAL
    assert run.trace.steps[-1].cost == solution.cost


def test_a_stage_may_end_by_itself_at_the_limit_before_it_is_ended_from_outside(monkeypatch):
    """A solver that ends by itself reports what it has proved; an end from outside loses what it has not reported."""
    ends = []
    monkeypatch.setattr(
        sys.modules[Extraction.__module__],
        "deadline",
        lambda end: ends.append(end) or contextlib.nullcontext(),
    )
    began = time.perf_counter()
    extract(*wide(50), seconds=1e5)
    assert ends[0] == math.inf  # nothing ends a stage before there is a selection
    assert ends[1:]
    assert min(ends[1:]) > began + 1e5


def test_no_deadline_is_left_behind(monkeypatch):
    egraph, costs = wide(50)
    sent = []
    monkeypatch.setattr(deadlines.ctypes.pythonapi, "PyThreadState_SetAsyncExc", lambda *a: sent.append(a[1]))
    extract(egraph, costs, seconds=50)
    time.sleep(0.01)
    assert set(sent) <= {None}


def test_must_sets_keep_to_their_memory(monkeypatch):
    from tests.extraction.problems import problem_of

    problem = problem_of(*wide(300))
    assert must_sets(problem) is not None
    monkeypatch.setattr("workbench.extraction.reduce.dominators.MOST_BYTES", 1000)
    assert must_sets(problem) is None


def test_one_expensive_enode_that_is_always_there_does_not_hide_differences():
    """Two parts by a leaf each, or both by a shared one: 7 or 5 beside ten thousand million."""
    rows = [(0, [1, 2]), (1, [3]), (2, [3]), (3, []), (1, []), (2, [])]
    solution = extract(egraph_of(rows), np.array([1e10, 1, 1, 3, 3.5, 3.5]))
    assert (solution.cost, solution.bound, solution.status) == (1e10 + 5, 1e10 + 5, Status.OPTIMAL)


@pytest.mark.parametrize("seed", range(30))
def test_expensive_enodes_anywhere_do_not_hide_differences(seed):
    """With one e-node of 1e10 in an e-class that is always there, the rest is still optimal."""
    from tests.extraction.egraphs import solvable_egraph

    egraph, costs, expected = solvable_egraph(seed)
    root = egraph.roots[0]
    costs = np.where(egraph.eclass == root, costs + 1e10, costs)
    solution = extract(egraph, costs)
    assert solution.cost - 1e10 == pytest.approx(expected, abs=1e-4)


def test_an_error_names_the_eclass_as_the_file_does(tmp_path):
    nodes = {
        "r": {"op": "f", "children": ["a"], "eclass": "Rx", "cost": 1},
        "a": {"op": "f", "children": ["a"], "eclass": "Alpha", "cost": 1},
    }
    file = tmp_path / "e.json"
    file.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["Rx"]}))
    with pytest.raises(NoExtraction, match="root e-class Rx must have a finite term"):
        extract(*load_json(file))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder with the files of the review is absent")
@pytest.mark.parametrize(
    ("name", "method", "cost", "scope"),
    [
        ("tol", "exact", 1e10 + 5, "e-graph"),
        ("filt", "exact", 18, "e-graph"),
        ("filt", "filtered", 20, "cycle-free part"),
        ("negunreach", "exact", 2, "e-graph"),
    ],
)
def test_files_of_the_review(name, method, cost, scope):
    solution = extract(*load_json(SHARED / f"{name}.json"), method)
    assert (solution.cost, solution.scope, solution.status) == (cost, scope, Status.OPTIMAL)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder with the files of the review is absent")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cyc2", "root e-class Rx must have a finite term"),
        ("huge", r"costs must add up to less than 1\.8e308"),
    ],
)
def test_refused_files_of_the_review(name, message):
    with pytest.raises(NoExtraction, match=message):
        extract(*load_json(SHARED / f"{name}.json"))


def test_a_bound_that_a_solver_has_proved_survives_the_deadline(monkeypatch):
    """A solver that is ended from outside leaves the bound that it has proved."""
    problem = [
        (0, [1, 2]),
        (0, [2, 3]),
        (1, [4]),
        (1, []),
        (2, [4]),
        (2, []),
        (3, [5]),
        (3, []),
        (4, []),
        (5, []),
    ]
    egraph = egraph_of(problem)
    costs = np.array([1.0, 1, 2, 3, 2, 3, 2, 3, 1.5, 1.5])
    least = extract(egraph, costs).cost

    def stopped(*arguments, **options):
        yield Solved(None, 0.0)
        yield Solved(None, least - 0.1)
        raise deadlines.TimeUp

    monkeypatch.setattr(methods, "solve", stopped)
    run = Extraction(egraph, costs, "exact", seconds=1e5)
    solution = run.run()
    assert solution.bound == pytest.approx(least - 0.1)
    assert solution.limits == {Limit.TIME}
    assert solution.status is Status.FEASIBLE  # the bound is a solver's
    assert f"bound {solution.bound:.6g}" in repr(run)
    assert "feasible (e-graph)" in repr(run)


def test_without_a_report_of_a_solver_the_status_stays_greedy(monkeypatch):
    def stopped(*arguments, **options):
        raise deadlines.TimeUp
        yield

    rng = random.Random(0)
    rows = [(c, [rng.randrange(c + 1, min(c + 9, 300)) for _ in range(3)]) for c in range(299) for _ in "abc"]
    egraph = egraph_of([*rows, (299, [])])
    costs = np.array([rng.randint(1, 50) for _ in range(len(egraph))], dtype=float)
    monkeypatch.setattr(methods, "solve", stopped)
    solution = extract(egraph, costs, seconds=1e5)
    assert solution.status is Status.GREEDY
    assert solution.limits == {Limit.TIME}


def test_the_end_of_a_block_around_an_extraction_leaves_it_unfinished(monkeypatch):
    def ended(terms):
        raise deadlines.TimeUp

    egraph = egraph_of([(0, [])])
    monkeypatch.setattr(Terms, "selection", ended)
    extraction = Extraction(egraph, np.ones(1), "dag", seconds=1e5)
    with pytest.raises(deadlines.TimeUp):
        extraction.step()
    assert extraction.solution is None

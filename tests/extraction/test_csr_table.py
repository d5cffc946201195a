"""Least costs in array operations: those of the heap, on every shape of an e-graph."""

import itertools
import math
import random
import time
from unittest.mock import patch

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of, random_egraph, solvable_egraph
from tests.extraction.problems import chain, tangle, wide
from tests.sampled import in_turn
from workbench.extraction import csr_table
from workbench.extraction import problem as core
from workbench.extraction.csr_table import Table, least, ranges
from workbench.extraction.problem import Terms, is_acyclic, tree_costs

SHAPES = {
    "tangle": lambda: tangle(400, seed=3),
    "wide": lambda: wide(600, seed=1),
    "chain": lambda: chain(300, candidates=3),
}


def table_of(egraph, costs):
    return Table.of(egraph.eclass, costs, egraph.child_start, egraph.children, egraph.n_classes)


def finished(table, **options):
    """Return least costs even if a heap would be faster."""
    with patch.multiple(csr_table, REPEATS=math.inf, ROUNDS=math.inf):
        return least(table, **options)


def check(egraph, costs):
    rows = [egraph.operands(i).tolist() for i in range(len(egraph))]
    readers = core.readers_of(rows, egraph.n_classes)
    expected = core.settle_by_heap(egraph.eclass.tolist(), rows, readers, costs.tolist()).best
    table = table_of(egraph, costs)
    best, choice, rank = finished(table)
    assert best.tolist() == pytest.approx(expected)
    for c, i in enumerate(choice.tolist()):
        assert (i < 0) == (expected[c] == math.inf)
        if i >= 0:
            assert table.eclass[i] == c
            below = table.children[table.start[i] : table.start[i + 1]].tolist()
            assert all(rank[d] < rank[c] for d in below)
    if all(expected[r] < math.inf for r in egraph.roots):
        picked = np.where(choice < 0, -1, table.nodes[choice])
        assert is_acyclic(egraph, core.below(egraph, picked))


@pytest.mark.parametrize("seed", in_turn(range(60), 4))
def test_least_costs_are_those_of_the_heap_and_acyclic(seed):
    check(*random_egraph(seed))


@pytest.mark.parametrize("shape", SHAPES)
def test_least_costs_of_larger_shapes(shape):
    check(*SHAPES[shape]())


@pytest.mark.parametrize("seed", range(10))
def test_choices_stay_acyclic_when_costs_vanish_next_to_others(seed):
    rng = random.Random(seed)
    egraph, costs = tangle(200, seed=seed)
    check(egraph, np.array([rng.choice((0.0, 1e-30, 1.0, 1e17, math.inf)) for _ in costs]))


def test_sums_beyond_the_ceiling_are_capped():
    egraph, costs = chain(1500)
    doubled = Table.of(
        egraph.eclass,
        costs,
        np.concatenate(([0], np.cumsum(2 * np.diff(egraph.child_start)))),
        np.repeat(egraph.children, 2),
        egraph.n_classes,
    )
    best, choice, _ = finished(doubled)
    assert np.isfinite(best).all()
    assert (choice >= 0).all()


def test_the_highest_child_alone_counts():
    egraph, costs = wide(600)
    height, _, _ = finished(table_of(egraph, costs), highest=True)
    for c, members in enumerate(egraph.members()):
        value = [costs[i] + max((height[d] for d in egraph.operands(i)), default=0.0) for i in members]
        assert height[c] == min(value)


def test_after_the_deadline_the_roots_have_a_cost_all_the_same():
    egraph, costs = chain(500, candidates=3)
    best, _, _ = least(table_of(egraph, costs), until=time.perf_counter() - 1, roots=egraph.roots)
    assert np.isfinite(best[list(egraph.roots)]).all()


def test_a_deep_and_narrow_egraph_is_left_to_the_heap():
    assert least(table_of(*chain(3000))) is None


@pytest.mark.parametrize("deep", [0, 200])
def test_reachable(deep, monkeypatch):
    monkeypatch.setattr("workbench.extraction.csr_table.DEEP", deep)
    egraph, costs = tangle(100, roots=1)
    seen = table_of(egraph, costs).reachable((5,))
    expected, stack = set(), [5]
    while stack:
        c = stack.pop()
        if c not in expected:
            expected.add(c)
            stack += [d for i in egraph.members()[c] for d in egraph.operands(i).tolist()]
    assert set(np.flatnonzero(seen).tolist()) == expected


@pytest.mark.parametrize("deep", [0, 200])
def test_below_keeps_what_the_roots_need(deep, monkeypatch):
    monkeypatch.setattr("workbench.extraction.csr_table.DEEP", deep)
    egraph, costs = wide(300)
    _, choice = core.tree_costs(egraph, costs)
    needed = core.below(egraph, np.array(choice))
    assert is_acyclic(egraph, needed)
    assert (needed >= 0).sum() < egraph.n_classes
    assert core.below(egraph, np.full(egraph.n_classes, -1)) is None


def test_ranges():
    entries, begin = ranges(np.array([0, 2, 2, 5]), np.array([2, 0, 1]))
    assert entries.tolist() == [2, 3, 4, 0, 1]
    assert begin.tolist() == [0, 3, 5, 5]


@pytest.mark.parametrize("seed", in_turn(range(80), 4))
def test_what_no_better_selection_can_afford_is_left_out(seed, monkeypatch):
    """Free e-nodes, cycles and several roots included, all selections of that cost remain."""
    egraph, costs, least = solvable_egraph(seed)
    best, choice = tree_costs(egraph, costs)
    monkeypatch.setattr("workbench.extraction.problem.VAST", 0)
    whole = Terms(egraph, costs, best, choice).problem()
    for most in (least, 1.3 * least):
        part = Terms(egraph, costs, best, choice).problem(most=most)
        assert set(part.nodes) <= set(whole.nodes)
        assert part.roots == whole.roots
        left = set(part.nodes)
        members = whole.members()
        for picked in itertools.product(*members.values()):
            chosen = dict(zip(members, picked, strict=True))
            if whole.cost_of(chosen) > most or whole.loops(chosen):
                continue
            needed, stack = set(), list(whole.roots)
            while stack:
                c = stack.pop()
                if c not in needed:
                    needed.add(c)
                    stack += whole.children[chosen[c]]
            assert {whole.nodes[chosen[c]] for c in needed} <= left


def test_paths_of_more_layers_than_can_be_walked_leave_everything():
    n = 2_000
    rows = [(c, [c + 1]) for c in range(n)] + [(c, [c + 1]) for c in range(n)] + [(n, [])]
    egraph = egraph_of(rows)
    table = Table.of(egraph.eclass, np.ones(len(rows)), egraph.child_start, egraph.children, n + 1)
    assert table.affordable((0,), 3 * n) is None

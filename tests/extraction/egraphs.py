"""Small e-graphs for tests, and the slow but sure way to solve them."""

import itertools
import math
import random

import numpy as np

from workbench.egraph import EGraph
from workbench.extraction.problem import Problem


def egraph_of(nodes, roots=(0,)):
    """Make an e-graph from (e-class, children) pairs."""
    start, children = [0], []
    for _, row in nodes:
        children += row
        start.append(len(children))
    n_classes = 1 + max([c for c, _ in nodes] + children + list(roots))
    return EGraph(
        ops=tuple(f"op{i}" for i in range(len(nodes))),
        attrs=((),) * len(nodes),
        child_start=np.array(start),
        children=np.array(children, dtype=np.int64),
        eclass=np.array([c for c, _ in nodes]),
        n_classes=n_classes,
        roots=tuple(roots),
        types=(None,) * n_classes,
        birth_rule=np.full(len(nodes), -1),
        birth_step=np.zeros(len(nodes), dtype=int),
    )


def random_egraph(seed, *, acyclic=False):
    """Return a small e-graph with sharing, ties, free e-nodes and, unless refused, cycles; its costs."""
    rng = random.Random(seed)
    classes = rng.randint(2, 6)
    nodes = [(c, []) for c in range(classes) if rng.random() < 0.4] or [(classes - 1, [])]
    for c in range(classes):
        nodes += [
            (c, [rng.randrange(c + 1 if acyclic else 0, classes) for _ in range(rng.randint(0, 3))])
            if c + 1 < classes or not acyclic
            else (c, [])
            for _ in range(rng.randint(0, 3))
        ]
    rng.shuffle(nodes)
    roots = tuple(rng.sample(range(classes), rng.randint(1, 2)))
    costs = np.array([rng.choice((0, 0, 1, 1, 2, 3.5, 7)) for _ in nodes], dtype=float)
    return egraph_of(nodes, roots), costs


def solvable_egraph(seed):
    """Return a small random e-graph that has a term, its costs, and the least cost of a term."""
    for number in range(100):
        egraph, costs = random_egraph(1000 * number + seed)
        least = brute_force(egraph, costs)
        if least is not None:
            return egraph, costs, least
    raise AssertionError("a hundred random e-graphs without a term")


def brute_force(egraph, costs):
    """Return the least cost of an acyclic selection, None without one."""
    members = egraph.members()
    best = None
    options = [m or [-1] for m in members]
    for picked in itertools.product(*options):
        total = selection_cost(egraph, costs, picked)
        if total is not None and (best is None or total < best):
            best = total
    return best


def selection_cost(egraph, costs, picked):
    state = {}

    def visit(c):
        if state.get(c) == 1 or picked[c] < 0:
            return False
        if state.get(c) == 2:
            return True
        state[c] = 1
        if not all(visit(d) for d in egraph.operands(picked[c]).tolist()):
            return False
        state[c] = 2
        return True

    if not all(visit(r) for r in egraph.roots):
        return None
    return sum(costs[picked[c]] for c in state)


def problem_of(egraph, costs):
    """Return the combinatorial core of an e-graph, cycles and all."""
    return Problem.of(egraph, costs)


def least(problem):
    """Return the least cost of an acyclic selection from a problem, by trying all."""
    members = problem.members()
    classes = list(members)
    best = math.inf
    for picked in itertools.product(*members.values()):
        of_class = dict(zip(classes, picked, strict=True))
        if not problem.loops(of_class):
            best = min(best, problem.cost_of(of_class))
    return best


def random_problem(seed, classes=60, arity=3, members=4, back=0.1, roots=(0,)):
    """Return a larger problem with sharing and cycles that takes a solver, not brute force."""
    rng = random.Random(seed)
    nodes, costs = [], []
    for c in range(classes):
        for _ in range(rng.randint(2, members)):
            row = {
                rng.randrange(classes) if rng.random() < back else rng.randrange(c, min(classes, c + 12))
                for _ in range(rng.randint(1, arity))
            }
            nodes.append((c, sorted(row)))
            costs.append(rng.randint(1, 9))
        if rng.random() < 0.3 or c + 1 == classes:
            nodes.append((c, []))
            costs.append(rng.randint(10, 40))
    return problem_of(egraph_of(nodes, roots), np.array(costs, dtype=float))


def hard():
    """Return a problem that no solver proves in seconds."""
    return random_problem(1, classes=1500, arity=4, members=6, back=1.0, roots=range(1, 1500, 10))

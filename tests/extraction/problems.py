"""Extraction problems of every shape for tests of the heuristics, and the judge of their answers."""

import random

import numpy as np

from tests.extraction.egraphs import egraph_of
from workbench.extraction.problem import Problem, dag_cost, is_acyclic


def problem_of(egraph, costs):
    return Problem.of(egraph, costs)


def cost_of(egraph, costs, problem, taken):
    """Return what a selection costs; fail where it is not complete and acyclic."""
    choice = problem.selection(taken)
    assert is_acyclic(egraph, choice)
    assert all(egraph.eclass[i] == c for c, i in enumerate(choice.tolist()) if i >= 0)
    return dag_cost(choice, costs)


def chain(depth, candidates=1, seed=0):
    """Return a deep e-graph: every e-class reads the next, or two a little further down."""
    rng = random.Random(seed)
    nodes = []
    for c in range(depth):
        nodes.append((c, [c + 1]))
        nodes += [(c, [min(depth, c + rng.randint(1, 20)) for _ in range(2)]) for _ in range(candidates - 1)]
    nodes.append((depth, []))
    return egraph_of(nodes), np.array([rng.choice((1.0, 2.0, 3.0)) for _ in nodes])


def wide(count, seed=0):
    """Return a shallow e-graph of about ``count`` e-nodes that read each other layer by layer."""
    rng = random.Random(seed)
    layers = 10
    width = count // layers // 2
    nodes = [(0, list(range(1, width + 1)))]
    for c in range(1, layers * width + 1):
        first = ((c - 1) // width + 1) * width + 1
        last = c > (layers - 1) * width
        nodes += [(c, [] if last else [first + rng.randrange(width) for _ in range(2)]) for _ in range(2)]
    return egraph_of(nodes), np.array([rng.choice((0.5, 1.0, 2.0, 5.0)) for _ in nodes])


def tangle(classes, roots=20, seed=0):
    """Return an e-graph full of cycles."""
    rng = random.Random(seed)
    nodes, costs = [], []
    for c in range(classes):
        if rng.random() < 0.2 or c < roots or c == classes - 1:
            nodes.append((c, []))
            costs.append(rng.choice((3.0, 8.0, 20.0)))
        for _ in range(rng.randint(1, 3)):
            near = [min(classes - 1, max(0, c + rng.randint(-10, 30))) for _ in range(rng.randint(1, 3))]
            nodes.append((c, near))
            costs.append(rng.choice((0.0, 1.0, 2.0)))
    return egraph_of(nodes, tuple(range(roots))), np.array(costs)


def merged(groups, size, seed=0):
    """Return products that pay when several are computed as one, with a little to pay for each part."""
    rng = random.Random(seed)
    nodes, costs = [(1, [])], [0.5]
    new, source = 2, 1

    def add(c, row, cost):
        nodes.append((c, row))
        costs.append(cost)

    for _ in range(groups):
        parts = list(range(new, new + size))
        new += size
        for c in parts:
            add(c, [source], 1.0)
        pool = [(c, frozenset([c])) for c in parts]
        for _ in range(4 * size):
            (a, left), (b, right) = rng.sample(pool, 2)
            if left & right:
                continue
            add(new, [source], 0.15 + 0.82 * len(left | right) * rng.uniform(0.95, 1.05))
            add(a, [new], 0.01)
            add(b, [new], 0.01)
            pool.append((new, left | right))
            new += 1
        add(new, parts, 0.2)
        source, new = new, new + 1
    add(0, [source], 0.1)
    return egraph_of(nodes), np.array(costs)

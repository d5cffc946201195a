"""Split an extraction into parts that can be solved independently.

An e-class that every solution contains is built in any case, so it does not connect its readers. Once
these needed e-classes are removed from the candidates' children, the connected components that remain are
independent. Edges within a strongly connected component are kept, because a cycle may run through a
needed e-class.
"""

from __future__ import annotations

import math

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.cycles import components
from workbench.extraction.reduce.dominators import must_sets


def split(problem: Problem, until: float = math.inf) -> list[Problem]:
    """Return the independent parts of a problem; optima of the parts together are an optimum of the whole.

    The roots of a part are its needed e-classes.
    """
    must = must_sets(problem, until)
    needed = set(problem.roots) if must is None else must.needed()
    component = components(problem)
    parent = {c: c for c in problem.eclass}

    def find(c: int) -> int:
        while parent[c] != c:
            parent[c] = parent[parent[c]]
            c = parent[c]
        return c

    children = [
        tuple(d for d in row if d not in needed or component[d] == component[c])
        for c, row in zip(problem.eclass, problem.children, strict=True)
    ]
    for c, row in zip(problem.eclass, children, strict=True):
        for d in row:
            parent[find(d)] = find(c)
    groups: dict[int, list[int]] = {}
    for i, c in enumerate(problem.eclass):
        groups.setdefault(find(c), []).append(i)
    return [
        Problem(
            [problem.nodes[i] for i in group],
            [problem.eclass[i] for i in group],
            [problem.cost[i] for i in group],
            [children[i] for i in group],
            tuple(sorted({problem.eclass[i] for i in group} & needed)),
            problem.n_classes,
            problem.fixed,
        )
        for group in groups.values()
    ]

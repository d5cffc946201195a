"""Split an extraction into parts that can be solved apart.

An e-class that every solution contains is built anyway, so it ties nothing together: once the needed
e-classes are cut out of the candidates' children, the connected parts that remain are independent.
"""

from __future__ import annotations

from workbench.extraction.presolve import must_sets
from workbench.extraction.problem import Problem


def split(problem: Problem) -> list[Problem]:
    """Return the independent parts of a problem without cycles; an optimum is one of each together.

    The roots of a part are its needed e-classes.
    """
    must = must_sets(problem)
    needed = {c for c, k in must.position.items() if must.of_roots >> k & 1}
    parent = {c: c for c in problem.eclass}

    def find(c: int) -> int:
        while parent[c] != c:
            parent[c] = parent[parent[c]]
            c = parent[c]
        return c

    children = [tuple(d for d in row if d not in needed) for row in problem.children]
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

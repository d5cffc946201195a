"""Break the cycles of an e-graph by leaving out e-nodes, the youngest or the dearest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from workbench.extraction.problem import Problem


@dataclass(frozen=True, slots=True)
class CycleFree:
    """Hold a problem without cycles and how many candidates that cost."""

    problem: Problem
    dropped: int


def components(problem: Problem) -> list[int]:
    """Return for every e-class the number of its strongly connected component."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = problem.n_classes
    rows = [c for c, row in zip(problem.eclass, problem.children, strict=True) for _ in row]
    columns = [d for row in problem.children for d in row]
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(n, n))
    return connected_components(graph, directed=True, connection="strong")[1].tolist()


def cyclic(problem: Problem, component: Sequence[int]) -> dict[int, int]:
    """Return the e-classes on cycles, each with the number of those in its strongly connected component.

    ``component`` is what :func:`components` returned. The order is that of :meth:`Problem.members`.
    """
    members = dict.fromkeys(problem.eclass)
    sizes = Counter(component[c] for c in members)
    return {c: sizes[component[c]] for c in members if sizes[component[c]] > 1}


def break_cycles(problem: Problem, keep: Set[int], rank: Sequence[float]) -> CycleFree:
    """Leave out candidates until no cycle remains; never one of the e-nodes in ``keep``.

    ``keep`` is an acyclic selection, so every cycle has another candidate on it; the one of highest
    ``rank`` goes (a number for every e-node of the e-graph: the step of its birth, its cost), then the
    one of highest number. Depth first over e-classes, as Tensat's filter does, but complete: it ends
    when no cycle is left at all.
    """
    component = components(problem)
    alive = [True] * len(problem.nodes)
    members = problem.members()
    inner = [
        tuple(d for d in row if component[d] == component[c])
        for c, row in zip(problem.eclass, problem.children, strict=True)
    ]
    dropped = 0
    done: set[int] = set()
    for start in sorted(members):
        if start in done or not any(inner[i] for i in members[start]):
            continue
        dropped += _search(problem, start, members, inner, alive, keep, rank, done)
    return CycleFree(problem.keep(alive) if dropped else problem, dropped)


def _edges(c: int, members: dict[int, list[int]], inner: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    return [(i, d) for i in members[c] for d in inner[i]]


def _search(
    problem: Problem,
    start: int,
    members: dict[int, list[int]],
    inner: list[tuple[int, ...]],
    alive: list[bool],
    keep: Set[int],
    rank: Sequence[float],
    done: set[int],
) -> int:
    dropped = 0
    path = [start]
    depth = {start: 0}
    via: list[int] = [-1]  # the candidate by which each e-class of the path was reached
    stack = [iter(_edges(start, members, inner))]
    while path:
        for i, d in stack[-1]:
            if not alive[i] or d in done:
                continue
            if d not in depth:
                depth[d] = len(path)
                path.append(d)
                via.append(i)
                stack.append(iter(_edges(d, members, inner)))
                break
            cycle = [*via[depth[d] + 1 :], i]
            free = [j for j in cycle if problem.nodes[j] not in keep]
            victim = max(free or cycle, key=lambda j: (rank[problem.nodes[j]], problem.nodes[j]))
            alive[victim] = False
            dropped += 1
            if victim == i:
                continue
            # Everything below the dropped candidate is open again.
            cut = via.index(victim)
            for e in path[cut:]:
                del depth[e]
            del path[cut:], via[cut:], stack[cut:]
            # Edges tried already stay tried: what they led to is finished or was cut.
            stack[-1] = iter(_edges(path[-1], members, inner))
            break
        else:
            done.add(path[-1])
            del depth[path[-1]]
            path.pop()
            via.pop()
            stack.pop()
    return dropped

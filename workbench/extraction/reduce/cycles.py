"""Break the cycles of an e-graph by dropping e-nodes, the youngest or the costliest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from workbench.extraction.problem import Problem
from workbench.extraction.reduce.dominators import Must, must_sets
from workbench.support.orders import strong_components


def components(problem: Problem) -> list[int]:
    """Return each e-class's strongly connected component by number, or -1, in time linear in the problem."""
    number = {c: k for k, c in enumerate(dict.fromkeys(problem.eclass))}
    below: list[list[int]] = [[] for _ in number]
    for c, row in zip(problem.eclass, problem.children, strict=True):
        for d in row:
            if d not in number:  # read, but without a candidate
                number[d] = len(number)
                below.append([])
        below[number[c]] += [number[d] for d in row]
    found = strong_components(below)
    component = [-1] * problem.n_classes
    for c, k in number.items():
        component[c] = found[k]
    return component


def cyclic(problem: Problem, component: Sequence[int]) -> dict[int, int]:
    """Return the e-classes on cycles, in the order of :meth:`Problem.members`, with their components' sizes."""
    members = dict.fromkeys(problem.eclass)
    sizes = Counter(component[c] for c in members)
    return {c: sizes[component[c]] for c in members if sizes[component[c]] > 1}


@dataclass(frozen=True, slots=True, eq=False)
class Loops:
    """The strongly connected component of every e-class: its number, and its e-classes as bits of must-sets."""

    number: list[int]
    bits: dict[int, int]
    must: Must

    @classmethod
    def of(cls, problem: Problem, must: Must) -> Loops:
        """Return the components of a problem."""
        number = components(problem)
        bits: dict[int, int] = {}
        for c in cyclic(problem, number):
            bits[number[c]] = bits.get(number[c], 0) | 1 << must.position[c]
        return cls(number, bits, must)

    def loop(self, eclass: int) -> int:
        """Return the e-classes of a component as bits."""
        return self.bits.get(self.number[eclass], 1 << self.must.position[eclass])

    def given(self, eclass: int) -> int:
        """Return the e-classes that every solution contains and that cannot need this one, as bits."""
        return self.must.of_roots & ~self.loop(eclass)


def break_cycles(problem: Problem, keep: Set[int], rank: Sequence[float]) -> Problem:
    """Return the problem without candidates that close cycles; never drop an e-node in ``keep``.

    ``keep`` is an acyclic selection, so every cycle contains a candidate outside it. Of these, the one with
    the highest ``rank`` is dropped; ties are broken by the higher e-node number. ``rank`` has one number
    per e-node of the e-graph, such as the step of its birth or its cost. The search is depth first over
    e-classes, like Tensat's filter, but complete: it ends only when no cycle is left.
    """
    component = components(problem)
    alive = [True] * len(problem.nodes)
    members = problem.members()
    inner = [
        tuple(d for d in row if component[d] == component[c])
        for c, row in zip(problem.eclass, problem.children, strict=True)
    ]
    done: set[int] = set()

    def edges(c: int) -> Iterator[tuple[int, int]]:
        return ((i, d) for i in members[c] for d in inner[i])

    def search(start: int) -> None:
        """Drop a candidate of every cycle that an e-class leads to."""
        path, depth, stack = [start], {start: 0}, [edges(start)]
        via = [-1]  # the candidate by which each e-class of the path was reached
        while path:
            for i, d in stack[-1]:
                if not alive[i] or d in done:
                    continue
                if d not in depth:
                    depth[d] = len(path)
                    path.append(d)
                    via.append(i)
                    stack.append(edges(d))
                    break
                cycle = [*via[depth[d] + 1 :], i]
                free = [j for j in cycle if problem.nodes[j] not in keep]
                victim = max(free or cycle, key=lambda j: (rank[problem.nodes[j]], problem.nodes[j]))
                alive[victim] = False
                if victim == i:
                    continue
                # E-classes below the dropped candidate must be searched again.
                cut = via.index(victim)
                for e in path[cut:]:
                    del depth[e]
                del path[cut:], via[cut:], stack[cut:]
                # Edges tried before need not be tried again: their targets are finished, or the edge was cut.
                stack[-1] = edges(path[-1])
                break
            else:
                done.add(path[-1])
                del depth[path[-1]]
                path.pop()
                via.pop()
                stack.pop()

    for start in sorted(members):
        if start not in done and any(inner[i] for i in members[start]):
            search(start)
    return problem if all(alive) else problem.keep(alive)


def split(problem: Problem, until: float = math.inf) -> list[Problem]:
    """Return the independent parts of a problem, rooted at needed e-classes; their optima are one of the whole."""
    must = must_sets(problem, until)
    needed = set(problem.roots) if must is None else must.needed()
    component = components(problem)
    children = [
        tuple(d for d in row if d not in needed or component[d] == component[c])
        for c, row in zip(problem.eclass, problem.children, strict=True)
    ]
    number = {c: k for k, c in enumerate(dict.fromkeys(problem.eclass))}
    beside: list[list[int]] = [[] for _ in number]
    for c, row in zip(problem.eclass, children, strict=True):
        for d in row:
            beside[number[c]].append(number[d])
            beside[number[d]].append(number[c])
    part = strong_components(beside)
    groups: dict[int, list[int]] = {}
    for i, c in enumerate(problem.eclass):
        groups.setdefault(part[number[c]], []).append(i)
    whole = replace(problem, children=children)
    return [
        whole.at(group, roots=tuple(sorted({problem.eclass[i] for i in group} & needed)))
        for group in groups.values()
    ]

"""Reductions of an extraction that keep an optimum; the problem must be free of cycles.

``Must(c)`` is the set of e-classes that every term of ``c`` contains: the dominators of an AND/OR
graph, kept as the bits of one integer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.extraction.problem import Problem


@dataclass(frozen=True, slots=True)
class Must:
    """Hold the must-sets: of e-classes, of candidates (children only), and of the roots together."""

    of_class: dict[int, int]
    of_node: list[int]
    of_roots: int
    position: dict[int, int]


def must_sets(problem: Problem) -> Must:
    """Return the must-sets, bottom up."""
    members = problem.members()
    position = {c: k for k, c in enumerate(members)}
    of_class: dict[int, int] = {}
    of_node = [0] * len(problem.nodes)
    stack = list(problem.roots)
    while stack:
        c = stack[-1]
        if c in of_class:
            stack.pop()
            continue
        waiting = [d for i in members[c] for d in problem.children[i] if d not in of_class]
        if waiting:
            stack += waiting
            continue
        common = -1
        for i in members[c]:
            union = 0
            for d in problem.children[i]:
                union |= of_class[d]
            of_node[i] = union
            common &= union
        of_class[c] = common | (1 << position[c])
        stack.pop()
    roots = 0
    for r in problem.roots:
        roots |= of_class[r]
    return Must(of_class, of_node, roots, position)


def drop_dominated(problem: Problem, must: Must) -> list[bool]:
    """Say which candidates stay when cheaper siblings with no more to build replace the others.

    A candidate goes if a sibling costs no more and all the sibling's children are e-classes that the
    candidate's own children contain anyway.
    """
    alive = [True] * len(problem.nodes)
    bit = {c: 1 << k for c, k in must.position.items()}
    own = [sum(bit[d] for d in row) for row in problem.children]
    for siblings in problem.members().values():
        if len(siblings) < 2:
            continue
        order = sorted(siblings, key=lambda i: (problem.cost[i], own[i].bit_count(), i))
        for k, i in enumerate(order):
            for j in order[:k]:
                if alive[j] and not own[j] & ~must.of_node[i]:
                    alive[i] = False
                    break
    return alive


def drop_expensive(problem: Problem, must: Must, incumbent: float) -> list[bool]:
    """Say which candidates stay when none may be part of a solution dearer than the incumbent."""
    members = problem.members()
    least = np.zeros(len(must.position))
    for c, k in must.position.items():
        least[k] = min(problem.cost[i] for i in members[c])
    size = (len(must.position) + 7) // 8
    memo: dict[int, float] = {}

    def weight(bits: int) -> float:
        if bits not in memo:
            raw = np.frombuffer(bits.to_bytes(size, "little"), dtype=np.uint8)
            memo[bits] = float(least @ np.unpackbits(raw, bitorder="little")[: len(least)])
        return memo[bits]

    alive = [True] * len(problem.nodes)
    slack = 1e-9 * max(1.0, incumbent)
    for i, c in enumerate(problem.eclass):
        if len(members[c]) == 1:
            continue
        k = must.position[c]
        bound = weight(must.of_roots | must.of_node[i] | (1 << k)) - least[k] + problem.cost[i]
        alive[i] = bool(bound <= incumbent + slack)
    return alive


def lower_bound(problem: Problem, must: Must) -> float:
    """Return the cost of what every solution contains, each at its cheapest."""
    members = problem.members()
    return math.fsum(
        min(problem.cost[i] for i in members[c]) for c, k in must.position.items() if must.of_roots >> k & 1
    )


def presolve(problem: Problem, incumbent: float, rounds: int = 8) -> Problem:
    """Apply the reductions until none removes a candidate any more."""
    for _ in range(rounds):
        before = len(problem.nodes)
        must = must_sets(problem)
        problem = problem.keep(drop_dominated(problem, must))
        if len(problem.nodes) < before:
            must = must_sets(problem)
        problem = problem.keep(drop_expensive(problem, must, incumbent))
        if len(problem.nodes) == before:
            break
    return problem

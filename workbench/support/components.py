"""Strongly connected components of a directed graph, without the half second that importing scipy takes."""

from __future__ import annotations

from collections.abc import Sequence


def strong_components(below: Sequence[Sequence[int]]) -> list[int]:
    """Return the number of each node's strongly connected component.

    ``below`` holds the successors of each node, in any order and with repeats. A component has a lower number
    than those that lead to it. This is Tarjan's algorithm, depth first without recursion.

    >>> strong_components([[1], [0, 2], []])
    [1, 1, 0]
    """
    component = [-1] * len(below)
    order = [-1] * len(below)  # when a node was reached
    low = [0] * len(below)  # the earliest node of its component that is known to be reachable from a node
    reached = found = 0
    open_nodes: list[int] = []
    for start in range(len(below)):
        if order[start] >= 0:
            continue
        order[start] = low[start] = reached
        reached += 1
        open_nodes.append(start)
        path = [(start, iter(below[start]))]
        while path:
            node, successors = path[-1]
            for other in successors:
                if order[other] < 0:
                    order[other] = low[other] = reached
                    reached += 1
                    open_nodes.append(other)
                    path.append((other, iter(below[other])))
                    break
                if component[other] < 0 and order[other] < low[node]:
                    low[node] = order[other]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == order[node]:
                    while True:
                        member = open_nodes.pop()
                        component[member] = found
                        if member == node:
                            break
                    found += 1
    return component

"""Orders of the nodes of a directed graph, and its strongly connected components, without the half second of scipy."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def postorder(roots: Iterable[N], children: Callable[[N], Iterable[N]]) -> list[N]:
    """Return what can be reached from the roots, each node after its children, which come in their order.

    Of a cycle, the node that is met first comes last.

    >>> postorder(["add"], {"add": ("x", "y"), "x": ("y",), "y": ()}.__getitem__)
    ['y', 'x', 'add']
    """
    order: list[N] = []
    seen: set[N] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(children(root)))]
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if child not in seen:
                    seen.add(child)
                    stack.append((child, iter(children(child))))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def topological(nodes: Iterable[N], children: Callable[[N], Iterable[N]]) -> list[N]:
    """Return nodes and what can be reached from them in postorder.

    Raise :class:`graphlib.CycleError`, whose second argument is the cycle, if no order has all children first.
    """
    nodes = list(nodes)
    order = postorder(nodes, children)
    place = {node: i for i, node in enumerate(order)}
    below = {node: tuple(children(node)) for node in dict.fromkeys([*nodes, *order])}
    if any(place[child] >= place[node] for node in order for child in below[node]):
        graphlib.TopologicalSorter(below).prepare()
    return order


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

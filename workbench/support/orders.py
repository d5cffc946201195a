"""Orders of the nodes of a directed graph that is given by a function from a node to its children."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Hashable, Iterable
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

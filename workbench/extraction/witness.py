"""Follow e-classes from one snapshot of an e-graph to a later one, by witness terms and not by number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from workbench.extraction.egraph import EGraph


def class_map(before: EGraph, after: EGraph) -> np.ndarray:
    """Return for every e-class of ``before`` the e-class of ``after`` that holds its terms.

    Numbers of e-classes mean nothing from one snapshot to the next; a term does. Saturation never
    removes one, so some term of every e-class is found again by looking up operators bottom-up. -1
    stands for an e-class whose terms ``after`` does not hold, or that holds no finite term.
    """
    known = {
        (after.ops[i], after.attrs[i], tuple(after.operands(i).tolist())): c
        for i, c in enumerate(after.eclass.tolist())
    }
    found = np.full(before.n_classes, -1, dtype=np.int64)
    operands = [before.operands(i).tolist() for i in range(len(before))]
    classes = before.eclass.tolist()
    waiting = [len(set(o)) for o in operands]
    readers: list[list[int]] = [[] for _ in range(before.n_classes)]
    for i, read in enumerate(operands):
        for c in set(read):
            readers[c].append(i)
    ready = [i for i, n in enumerate(waiting) if n == 0]
    while ready:
        i = ready.pop()
        c = classes[i]
        if found[c] >= 0:
            continue
        target = known.get((before.ops[i], before.attrs[i], tuple(int(found[d]) for d in operands[i])), -1)
        if target < 0:
            continue
        found[c] = target
        for j in readers[c]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return found


def merges(snapshots: Sequence[EGraph], final: EGraph) -> list[dict[int, int]]:
    """Return for every snapshot which e-classes of ``final`` it made by merging, and of how many.

    A merge is seen between a snapshot and the one before it; the first has none.
    """
    found: list[dict[int, int]] = [{} for _ in snapshots[:1]]
    for before, after in pairwise(snapshots):
        into, count = np.unique(class_map(before, after), return_counts=True)
        at_last = class_map(after, final)
        made: dict[int, int] = {}
        for c, n in zip(into.tolist(), count.tolist(), strict=True):
            if c >= 0 and n > 1 and at_last[c] >= 0:
                made[int(at_last[c])] = made.get(int(at_last[c]), 0) + n
        found.append(made)
    return found

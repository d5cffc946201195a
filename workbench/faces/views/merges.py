"""E-classes in a later snapshot of a run, and those that a step made by merging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from workbench.egraph.egraph import EGraph


def class_map(before: EGraph, after: EGraph) -> np.ndarray:
    """Return for every e-class of ``before`` the e-class of ``after`` that contains its terms.

    The numbers of e-classes change between snapshots, but terms do not. Saturation never removes a term,
    so a term of every e-class is found again by looking up operators bottom-up. The result is -1 for an
    e-class whose terms are not in ``after``, or that has no finite term.
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
    """Return for every snapshot the e-classes of ``final`` that it made by merging, with their sizes.

    The size is the number of merged e-classes. A merge is found by comparing a snapshot with the one before
    it, so the first snapshot has none.
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

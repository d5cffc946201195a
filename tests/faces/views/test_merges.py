"""E-classes are followed by terms: every snapshot of a run maps into every later one."""

import numpy as np
import pytest

import workbench
from tests.extraction.egraphs import random_egraph
from workbench.faces.views.egraphs import class_map, merges


@pytest.fixture(scope="module")
def run():
    b = workbench.GraphBuilder()
    x, y, z = (b.input(n, (4, 4)) for n in "xyz")
    # (x + y) + z and x + (y + z) are two e-classes until associativity is known.
    left = b.op("add", b.op("add", x, y), z)
    right = b.op("add", x, b.op("add", y, z))
    graph = b.graph({"l": b.op("relu", left), "r": b.op("relu", right)})
    with workbench.Saturation(graph, workbench.rule_set("ac")) as saturation:
        saturation.run()
        yield saturation


def test_every_step_is_kept_while_it_is_small(run):
    assert len(run.snapshots) == len(run.trace)
    assert [len(s) for s in run.snapshots] == [s.e_nodes for s in run.trace]


def test_the_map_is_a_homomorphism(run):
    for before, after in zip(run.snapshots, run.snapshots[1:], strict=False):
        to = class_map(before, after)
        assert (to >= 0).all()
        known = {
            (after.ops[i], after.attrs[i], tuple(after.operands(i).tolist())): int(after.eclass[i])
            for i in range(len(after))
        }
        for i in range(len(before)):
            key = (before.ops[i], before.attrs[i], tuple(to[before.operands(i)].tolist()))
            assert known[key] == to[before.eclass[i]]


def test_classes_that_became_one_are_seen(run):
    final = run.egraph()
    found = merges(run.snapshots, final)
    assert found[0] == {}
    assert final.roots[0] == final.roots[1]
    assert any(final.roots[0] in step for step in found)
    lost = run.snapshots[0].n_classes + sum(
        after.n_classes - before.n_classes
        for before, after in zip(run.snapshots, run.snapshots[1:], strict=False)
    )
    assert lost == final.n_classes


def test_a_snapshot_maps_onto_itself():
    egraph, _ = random_egraph(5)
    known = {}
    for i in range(len(egraph)):
        known.setdefault((egraph.ops[i], egraph.attrs[i], tuple(egraph.operands(i).tolist())), []).append(i)
    if all(len(same) == 1 for same in known.values()):
        found = class_map(egraph, egraph)
        assert set(found[found >= 0]) <= set(range(egraph.n_classes))
        assert np.array_equal(found[found >= 0], np.flatnonzero(found >= 0))


def test_what_is_not_there_is_minus_one(run):
    first, last = run.snapshots[0], run.snapshots[-1]
    back = class_map(last, first)
    assert (back == -1).any()

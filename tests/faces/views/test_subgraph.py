"""The part of an e-graph that is shown: from the roots, around an e-class, opened in place."""

import pytest

import workbench
from workbench.faces.views.subgraph import MOST_HOPS, MOST_OPENED, Part, selection


@pytest.fixture(scope="module")
def egraph():
    """Return the e-graph of a long chain with a wide e-class in it."""
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(6)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    y = xs[0]
    for _ in range(8):
        y = b.op("tanh", y)
    with workbench.Saturation(b.graph({"y": y}), tuple(workbench.rule_set("ac"))) as saturation:
        saturation.run()
        return saturation.egraph()


def neighbours(egraph, c):
    """Return the e-classes that one reads, and those that read it."""
    reads = {int(d) for i in range(len(egraph)) if egraph.eclass[i] == c for d in egraph.operands(i)}
    return reads | {int(egraph.eclass[i]) for i in range(len(egraph)) if c in egraph.operands(i)}


def test_it_starts_at_the_roots_and_keeps_the_limit(egraph):
    found = selection(egraph, Part(most=10))
    assert next(iter(found.shown)) == egraph.roots[0]
    assert found.count <= 10


def test_one_hop_is_what_it_reads_and_what_reads_it(egraph):
    c = int(egraph.eclass[next(i for i, op in enumerate(egraph.ops) if op == "tanh")])
    found = selection(egraph, Part(most=1000).around(c, 1))
    assert set(found.shown) == {c} | neighbours(egraph, c)
    two = selection(egraph, Part(most=1000).around(c, 2))
    assert set(found.shown) < set(two.shown)
    assert Part().around(c, 100).hops == MOST_HOPS


def test_an_opened_class_shows_everything_it_has_and_reads(egraph):
    sizes = [len(m) for m in egraph.members()]
    wide = max(range(egraph.n_classes), key=lambda c: sizes[c])
    before = selection(egraph, Part(most=60))
    part = Part(most=60).with_opened(wide)
    after = selection(egraph, part)
    assert len(before.shown.get(wide, ())) < sizes[wide]
    assert len(after.shown[wide]) == min(sizes[wide], MOST_OPENED)
    read = {int(d) for i in after.shown[wide] for d in egraph.operands(i)}
    assert read <= set(after.shown)
    assert set(before.shown) <= set(after.shown)
    assert part.with_opened(wide) == part


def test_the_centre_is_named():
    assert Part().centre() == "starting from the roots"
    assert Part(3).centre() == "starting from e-class 3"
    assert Part(3, 1).centre() == "at most 1 hop from e-class 3"

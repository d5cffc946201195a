"""Layouts: within their frame, in layers, in their time."""

import sys
from importlib.util import find_spec

import pytest

from workbench.faces.views import scene as module
from workbench.faces.views.scene import AT_ONCE, Box, Cluster, Edge, Scene, lay_out
from workbench.support.deadline import OutOfTime


def chain(count, clusters=False):
    boxes = tuple(
        Box(f"b{i}", (f"box {i}", "<&>"), cluster=f"c{i // 2}" if clusters else "") for i in range(count)
    )
    edges = tuple(Edge(f"b{i}", f"b{i + 1}") for i in range(count - 1))
    frames = tuple(Cluster(f"c{k}", f"class {k}") for k in range((count + 1) // 2)) if clusters else ()
    return Scene("chain", boxes, edges, frames)


@pytest.fixture(params=["graphviz", "layers"])
def way(request, monkeypatch):
    if request.param == "graphviz":
        pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    else:
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    return request.param


@pytest.mark.parametrize("count", [1, 5, AT_ONCE + 20])
@pytest.mark.parametrize("clusters", [False, True])
def test_everything_has_its_place(way, count, clusters):
    scene = chain(count, clusters)
    placed = lay_out(scene, seconds=60)
    assert list(placed.boxes) == [b.key for b in scene.boxes]
    for x, y, w, h in placed.boxes.values():
        assert -1 <= x <= placed.width - w + 1
        assert -30 <= y <= placed.height - h + 30
    tops = [y for _, y, _, _ in placed.boxes.values()]
    assert tops == sorted(tops)
    assert len(set(tops)) == count
    assert all(len(points) >= 2 for points in placed.edges)
    for box in scene.boxes:
        if box.cluster:
            x, y, w, h = placed.boxes[box.key]
            left, top, wide, high = placed.clusters[box.cluster]
            assert left <= x
            assert x + w <= left + wide
            assert top <= y
            assert y + h <= top + high


def test_cycles_and_loops_are_laid_out(way):
    scene = Scene(
        "ring", tuple(Box(k, (k,)) for k in "abc"), (Edge("a", "b"), Edge("b", "a"), Edge("c", "c"))
    )
    placed = lay_out(scene)
    assert len(placed.boxes) == 3
    assert len(placed.edges) == 3


def test_no_boxes_at_all(way):
    assert lay_out(Scene("empty", (), ())).boxes == {}


@pytest.mark.skipif(find_spec("pygraphviz") is None, reason="Graphviz is not installed")
def test_a_layout_that_takes_too_long_is_ended():
    with pytest.raises(OutOfTime, match=r"more than 0\.001 s"):
        lay_out(chain(AT_ONCE + 1), seconds=0.001)


def test_where_graphviz_fails_layers_are_simple_ones(monkeypatch):
    pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    placed = lay_out(chain(AT_ONCE + 1))
    assert len(placed.boxes) == AT_ONCE + 1
    assert all(len(points) == 2 for points in placed.edges)

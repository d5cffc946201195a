"""Graphs as scenes: their nodes, folds and statements."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

import workbench
from workbench.faces.views import graphs
from workbench.faces.views.graphs import (
    Notes,
    cost_notes,
    folded_scene,
    graph_svg,
    node_lines,
    placed_scene,
    readable_scene,
    shown_nodes,
    whole_scene,
)
from workbench.faces.views.svg import beside
from workbench.support.deadline import OutOfTime


def network(layers=1):
    b = workbench.GraphBuilder("net")
    x = first = b.input("x", (4, 8))
    for _ in range(layers):
        x = b.op(
            "relu", b.op("matmul", b.op("relu", b.op("matmul", x, b.weight((8, 16)))), b.weight((16, 8)))
        )
    return b.graph({"y": x, "x again": first})


def test_weights_are_in_their_readers():
    graph = network()
    ops = [graph.nodes[i].op for i in shown_nodes(graph)]
    assert ops == ["input", "matmul", "relu", "matmul", "relu"]
    matmul = next(i for i, n in enumerate(graph.nodes) if n.op == "matmul")
    lines = node_lines(graph, matmul, graph.constant())
    assert lines == ("matmul", "float32[4, 16]", "weight float32[8, 16]")


def test_what_is_computed_of_weights_is_not_drawn():
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 8))
    w = b.op("add", b.weight((8, 8)), b.weight((8, 8)))
    graph = b.graph({"y": b.op("matmul", x, w), "w": w})
    boxes = whole_scene(b.graph({"y": b.op("matmul", x, w)})).boxes
    assert [box.lines[0] for box in boxes] == ["x", "matmul", "y"]
    assert "computed float32[8, 8]" in boxes[1].lines
    assert any("add(weight w0, weight w1)" in value for _, value in boxes[1].facts)
    # An output is drawn whatever it is computed of.
    assert [box.lines[0] for box in whole_scene(graph).boxes] == ["x", "add", "matmul", "y", "w"]


def test_activations_are_named():
    b = workbench.GraphBuilder()
    x = b.op("matmul", b.input("x", (4, 8)), b.weight((8, 8)), act="relu")
    assert whole_scene(b.graph({"y": x})).boxes[1].lines[0] == "matmul + relu"


def test_notes_are_in_the_boxes():
    graph = network()
    last = graph.outputs[0][1]
    notes = Notes(marks={last: "added"}, groups={last: "e-class 7"}, facts={last: [("made by", "a-rule")]})
    box = next(b for b in whole_scene(graph, notes).boxes if b.key == str(last))
    assert (box.mark, box.groups) == ("added", ("e-class 7",))
    assert ("made by", "a-rule") in box.facts
    priced = next(b for b in whole_scene(graph, cost_notes(graph)).boxes if b.key == str(last))
    assert any(k == "cost" and "analytic" in v for k, v in priced.facts)


def test_repeated_layers_are_folded_and_open():
    scene = folded_scene(network(12))
    groups = [b for b in scene.boxes if b.opens]
    assert [b.lines[0] for b in groups] == [f"layer {k + 1} of 12" for k in range(12)]
    (name,) = scene.levels
    inner = scene.levels[name]
    assert [b.lines[0] for b in inner.boxes] == ["from outside", "matmul", "relu", "matmul", "relu"]
    # Nothing is lost: a chain of 12, its input and both outputs.
    assert len(scene.edges) == 12 + 2


def test_a_marked_layer_is_distinguished_from_its_like():
    graph = network(6)
    matmuls = [i for i, n in enumerate(graph.nodes) if n.op == "matmul"]
    scene = folded_scene(graph, Notes(marks={matmuls[4]: "removed"}))
    assert [b.lines[0] for b in scene.boxes if b.opens] == ["layer 1 of 2", "layer 2 of 2"] + [
        f"layer {k + 1} of 3" for k in range(3)
    ]


def test_large_graphs_are_folded_or_cut_and_say_so():
    scene = readable_scene(network(40))
    assert len(scene.boxes) == 43
    assert scene.note == "40 layers of 1 kind are one box each, 160 operators in total"
    b = workbench.GraphBuilder()
    x = b.input("x", (4,))
    for k in range(300):
        x = b.op("add" if k % 7 in (1, 2, 4) or k % 11 in (3, 8) else "mul", x, b.weight((4,)))
    cut = whole_scene(b.graph({"y": x}), most=50)
    assert len(cut.boxes) == 50
    assert cut.note == "50 of 301 operators shown"


def test_a_drawing_has_every_node():
    svg = graph_svg(network()).decode()
    assert set(re.findall(r">(x|matmul|relu|y|x again)<", svg)) == {"x", "matmul", "relu", "y", "x again"}
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_pictures_stand_side_by_side():
    one, two = graph_svg(network()), graph_svg(network(3))
    both = ElementTree.fromstring(beside(one, two))
    inner = [part for part in both if part.tag.endswith("svg")]
    assert [float(part.get("x", 0)) for part in inner] == [0.0, float(inner[0].get("width")) + 24]
    assert float(both.get("width")) == sum(float(part.get("width")) for part in inner) + 24
    assert float(both.get("height")) == max(float(part.get("height")) for part in inner)


def test_a_slow_layout_is_halved_and_says_so(monkeypatch):
    asked = []

    def slow(scene, seconds=5.0):
        asked.append(len(scene.boxes))
        if len(scene.boxes) > 90:
            raise OutOfTime("a layout took more than 5 s")
        return "placed"

    monkeypatch.setattr(graphs, "lay_out", slow)
    graph = network(60)
    scene, layout = placed_scene(lambda most: whole_scene(graph, most=most), 160)
    assert layout == "placed"
    assert asked[0] > 90 >= asked[-1]
    assert "smaller because a layout took more than 5 s" in scene.note
    monkeypatch.setattr(graphs, "lay_out", lambda scene: (_ for _ in ()).throw(OutOfTime("always")))
    with pytest.raises(OutOfTime):
        placed_scene(lambda most: whole_scene(graph, most=most), 160)

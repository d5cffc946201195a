"""Panes as plain data: complete, small, ready for JSON."""

import json

import workbench
from workbench.faces.views.graphs import cost_notes, graph_pane, viewer_data


def network(layers):
    b = workbench.GraphBuilder("net")
    x = b.input("x", (4, 8))
    for _ in range(layers):
        x = b.op("relu", b.op("matmul", x, b.weight((8, 8))))
    return b.graph({"y": x})


def test_a_small_graph_has_one_level():
    b = workbench.GraphBuilder()
    pane = graph_pane(b.graph({"y": b.op("relu", b.input("x", (4,)))}))
    assert list(pane["levels"]) == ["whole"]
    assert pane["start"] == "whole"


def test_repeated_layers_make_levels():
    pane = graph_pane(network(30))
    assert set(pane["levels"]) == {"folded", "whole", "layer0"}
    folded = pane["levels"]["folded"]
    assert {b["opens"] for b in folded["boxes"] if "opens" in b} == {"layer0"}
    assert len(pane["levels"]["whole"]["boxes"]) == 62


def test_boxes_lie_within_their_level():
    for level in graph_pane(network(3))["levels"].values():
        width, height = level["size"]
        for box in level["boxes"]:
            x, y, w, h = box["at"]
            assert 0 <= x <= x + w <= width + 1
            assert 0 <= y <= y + h <= height + 1
        keys = {box["key"] for box in level["boxes"]}
        assert all({e["from"], e["to"]} <= keys for e in level["edges"])


def test_it_is_json_and_not_large():
    graph = workbench.benchmark("nasneta")
    data = viewer_data("nasneta", [graph_pane(graph, cost_notes(graph))])
    assert len(json.dumps(data)) < 400_000
    assert {
        box.get("mark", "") for p in data["panes"] for lv in p["levels"].values() for box in lv["boxes"]
    } <= set(data["marks"])

import re
import sys

import pytest

import workbench
from workbench.views.drawing import graph_svg, node_label, shown_nodes


def network():
    b = workbench.GraphBuilder("net")
    x = b.input("x", (4, 8))
    y = b.op("relu", b.op("matmul", x, b.weight((8, 16))))
    return b.graph({"y": y, "x again": x})


def test_weights_stand_in_their_readers():
    graph = network()
    ops = [graph.nodes[i].op for i in shown_nodes(graph)]
    assert ops == ["input", "matmul", "relu"]
    matmul = next(i for i, n in enumerate(graph.nodes) if n.op == "matmul")
    assert node_label(graph, matmul) == "matmul\nfloat32[4, 16]\nweight float32[8, 16]"


@pytest.mark.parametrize("graphviz", [True, False])
def test_a_drawing_has_every_node(monkeypatch, graphviz):
    if graphviz:
        pytest.importorskip("pygraphviz")
    else:
        monkeypatch.setitem(sys.modules, "pygraphviz", None)
    svg = graph_svg(network()).decode()
    assert svg.lstrip().startswith("<?xml")
    if graphviz:
        assert set(re.findall(r">(x|matmul|relu|y|x again)<", svg)) == {"x", "matmul", "relu", "y", "x again"}


def test_too_many_nodes_are_not_drawn():
    assert graph_svg(network(), most=2) is None


def test_nodes_can_be_coloured():
    pytest.importorskip("pygraphviz")
    graph = network()
    assert "#123456" in graph_svg(graph, fill={graph.inputs[0]: "#123456"}).decode()

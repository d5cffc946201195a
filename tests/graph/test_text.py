import re
import sys

import pytest

import workbench
from workbench.graph import GraphBuilder
from workbench.graph.text import quoted
from workbench.studies.benchmarks import benchmark

pytest.importorskip("graphviz", reason="graphviz is not installed")


def small():
    b = GraphBuilder('a "graph"')
    x = b.input("x", (4, 8))
    w = b.op("transpose", b.weight((8, 8), name="w"), perm=(1, 0))
    return b.graph({"y": b.op("relu", b.op("matmul", x, w))})


def test_every_node_edge_and_output_is_drawn():
    graph = small()
    text = graph.to_dot().source
    nodes = re.findall(r"^  n(\d+) \[label=", text, re.M)
    assert [int(n) for n in nodes] == list(range(len(graph)))
    drawn = [tuple(map(int, edge)) for edge in re.findall(r"n(\d+) -> n(\d+)", text)]
    assert drawn == [(j, i) for i, node in enumerate(graph.nodes) for j in node.inputs]
    assert '[label="y", shape=plaintext]' in text
    assert "transpose[perm=(1, 0)]" in text
    assert text.count("dashed") == 2  # the weight and what is computed of it


def test_texts_are_quoted():
    assert quoted('a "b" \\ c\nd') == '"a \\"b\\" \\\\ c\\nd"'
    assert 'digraph "a \\"graph\\""' in small().to_dot().source


def test_an_e_graph_has_a_frame_for_every_class():
    result = workbench.optimize(small())
    egraph = result.egraph
    text = egraph.to_dot().source
    assert text.count("subgraph cluster_") == egraph.n_classes
    assert len(re.findall(r"-> n\d+ \[lhead=cluster_\d+\]", text)) == len(egraph.children)
    with pytest.raises(ValueError, match="at most 3 e-nodes to be drawn, got"):
        egraph.to_dot(most=3)


@pytest.mark.parametrize("drawn", ["graph", "network", "e-graph"])
def test_graphviz_reads_it_and_places_every_node(drawn):
    pygraphviz = pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    made = {
        "graph": small,
        "network": lambda: benchmark("bert", layers=1),
        "e-graph": lambda: workbench.optimize(small()).egraph,
    }[drawn]()
    read = pygraphviz.AGraph(string=made.to_dot().source)
    read.layout("dot")
    assert all("," in node.attr["pos"] for node in read.nodes())
    assert sum(node.startswith("n") for node in read.nodes()) == len(made)


def test_a_notebook_shows_it_without_the_program_dot(monkeypatch):
    pytest.importorskip("pygraphviz", reason="pygraphviz is not installed")
    monkeypatch.setattr("shutil.which", lambda _: None)
    made = small().to_dot()
    assert made._repr_mimebundle_()["image/svg+xml"].count("<polygon") >= len(small())
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert made._repr_mimebundle_() == {"text/plain": made.source}

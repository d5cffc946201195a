"""Certificates of graphs with runs of the original that were begun early, in the background."""

import numpy as np

from workbench.certification import certify, graphs
from workbench.certification.graphs import begin_early
from workbench.graph import GraphBuilder


def network():
    b = GraphBuilder("network")
    hidden = b.op("relu", b.op("matmul", b.input("x", (2, 3)), b.weight(data=np.ones((3, 4), np.float32))))
    return b.graph({"y": b.op("matmul", hidden, b.weight(data=np.ones((4, 2), np.float32)))})


def twice():
    b = GraphBuilder("network")
    hidden = b.op("matmul", b.input("x", (2, 3)), b.weight(data=np.ones((3, 4), np.float32)))
    hidden = b.op("relu", b.op("relu", hidden))
    return b.graph({"y": b.op("matmul", hidden, b.weight(data=np.ones((4, 2), np.float32)))})


def figures(certificate):
    return {k: v for k, v in certificate.summary().items() if k != "seconds"}


def test_a_certificate_is_the_same_with_early_runs(monkeypatch):
    graph = network()
    plain = certify(graph, twice())
    early = begin_early(graph)
    early.result()

    def refuse(*given, **options):
        raise AssertionError("the original ran again")

    monkeypatch.setattr(graphs, "probe", refuse)
    monkeypatch.setattr(graphs, "evaluate", refuse)
    found = certify(graph, twice(), early=early)
    assert found.passed
    assert found.regions
    assert figures(found) == figures(plain)


def test_early_runs_show_inner_values_and_no_weights():
    graph = network()
    early = begin_early(graph).result()
    np.testing.assert_allclose(early.exact["y"], early.run.outputs["y"], rtol=1e-5)
    assert early.exact["y"].dtype == np.float64
    relu = {i for i, n in enumerate(graph.nodes) if n.op == "relu"}
    assert relu <= early.run.ranges.keys()
    assert not early.shown & {i for i, n in enumerate(graph.nodes) if n.op == "weight"}


def test_a_large_model_does_not_run_in_the_background(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_WORK", 10.0)
    assert begin_early(network()) is None


def test_a_run_that_fails_early_is_made_again_by_the_certificate(monkeypatch):
    def refuse(*given, **options):
        raise RuntimeError("not now")

    graph = network()
    with monkeypatch.context() as patch:
        patch.setattr(graphs, "probe", refuse)
        early = begin_early(graph)
        assert isinstance(early.exception(), RuntimeError)
    assert figures(certify(graph, twice(), early=early)) == figures(certify(graph, twice()))


def test_a_difference_at_equal_values_alone_is_found():
    b = GraphBuilder()
    x, y = b.input("x", (4, 2)), b.input("y", (4, 2))
    before = b.graph({"differ": b.op("cast", b.op("sub", x, y), to="bool")})
    b = GraphBuilder()
    x, y = b.input("x", (4, 2)), b.input("y", (4, 2))
    apart = b.op("add", b.op("abs", b.op("sub", x, y)), b.weight(data=np.asarray(1, np.float32)))
    after = b.graph({"differ": b.op("cast", apart, to="bool")})
    assert not certify(before, after, whole=False).passed


def test_the_last_row_of_a_table_is_read():
    def rows(count):
        b = GraphBuilder("rows")
        table, places = b.input("table", (64, 3)), b.input("places", (8,), "int64")
        part = table if count == 64 else b.op("slice", table, axis=-2, start=0, stop=count)
        return b.graph({"y": b.op("gather", part, places, axis=-2)})

    assert certify(rows(64), rows(64)).passed
    assert "out of bounds" in certify(rows(64), rows(63)).reason

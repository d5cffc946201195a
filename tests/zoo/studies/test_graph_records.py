from dataclasses import replace

import numpy as np
import pytest

from tests.devices.graphs import image, products
from workbench.graph import GraphBuilder, Opaque, Weight, evaluate
from workbench.ops import TensorType
from workbench.studies.benchmarks import benchmark
from zoo.studies.graph_records import graph_record, in_half, pack, unpack


@pytest.mark.parametrize("network", ["squeezenet", "nasrnn", "mobilenetv2"])
def test_a_network_is_light_and_stays_itself(network):
    graph = benchmark(network)
    text = pack(graph)
    assert len(text) < 20_000
    assert unpack(text).structural_hash() == graph.structural_hash()


def test_a_graph_computes_the_same_after_it_was_kept():
    feeds = {"x": np.ones((4, 32), np.float32)}
    expected, got = evaluate(products(), feeds), evaluate(unpack(pack(products())), feeds)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value)


def test_small_and_integer_weights_keep_their_data_large_floats_are_drawn_by_name():
    b = GraphBuilder()
    rows = b.op("gather", b.weight(data=np.ones((300, 100), np.float32), name="table"),
                b.weight(data=np.array([7, 290]), name="rows"), axis=-2)  # fmt: skip
    bias = b.weight(data=np.arange(100, dtype=np.float32), name="bias")
    graph = b.graph({"y": b.op("add", b.op("add", rows, bias), b.input("x", (2, 100)))})
    assert graph_record(graph)["weights"]["table"]["drawn"] is True
    first, second = (unpack(pack(graph)).weights for _ in range(2))
    assert first["rows"].value().tolist() == [7, 290]
    assert first["bias"].value().tolist() == list(range(100))
    np.testing.assert_array_equal(first["table"].value(), second["table"].value())
    assert first["table"].value().std() > 0


def test_opaque_operators_cannot_be_kept():
    b = GraphBuilder()
    (y,) = b.opaque(Opaque("Twice", "own", (TensorType("float32", (4,)),)), [b.input("x", (4,))])
    with pytest.raises(ValueError, match="Twice"):
        pack(b.graph({"y": y}))


@pytest.mark.parametrize("text", ["", "AAAA", "not base 64", pack(image())[:-40]])
def test_a_text_that_is_no_graph_is_refused(text):
    with pytest.raises(ValueError, match="packed graph"):
        unpack(text)


@pytest.mark.parametrize("graph", [image(), products(), benchmark("bert", layers=1)], ids=lambda g: g.name)
def test_a_network_in_half_precision_computes_nearly_the_same(graph):
    stored = {name: Weight.of(w.value()) for name, w in graph.weights.items()}  # drawn ones differ by type
    graph = replace(graph, weights=stored)
    half = in_half(graph)
    assert {t.dtype for t in (*half.input_types.values(), *half.output_types.values())} == {"float16"}
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(t.shape).astype("f4") for n, t in graph.input_types.items()}
    expected = evaluate(graph, feeds)
    found = evaluate(half, {n: x.astype("f2") for n, x in feeds.items()})
    for name, value in expected.items():
        assert np.abs(value - found[name].astype("f4")).max() < 2e-2 * np.abs(value).max()


def test_half_precision_leaves_integers_and_their_weights():
    b = GraphBuilder()
    rows = b.weight(data=np.array([1, 0]), name="rows")
    graph = b.graph({"y": b.op("gather", b.input("x", (2, 3)), rows, axis=-2)})
    half = in_half(graph)
    assert half.weights["rows"].type.dtype == "int64"
    assert half.output_types["y"].dtype == "float16"

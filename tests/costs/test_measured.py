import threading

import numpy as np
import pytest

from workbench.costs import instances_of, node_costs
from workbench.costs.measured import MeasuredCost, same_kernel
from workbench.costs.recorded import CostTableError, RecordedCost, save_table
from workbench.costs.store import Measurement, Store, instance_key, parse_type, type_key
from workbench.graph import GraphBuilder
from workbench.ops import TensorType


def network():
    b = GraphBuilder()
    x = b.input("x", (1, 4, 12, 12))
    w, bias = b.weight((8, 4, 3, 3)), b.weight((1, 8, 1, 1))
    y = b.op("conv2d", x, w, bias, pads=(1, 1, 1, 1), act="relu")
    z = b.op("add", b.op("conv2d", x, w, pads=(1, 1, 1, 1)), y)
    return b.graph({"z": b.op("softmax", b.op("reshape", z, shape=(8, 144)), axis=-1)})


def test_figures_are_measured_once_and_kept(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, milliseconds=2)
    first = node_costs(graph, model)
    again = MeasuredCost(tmp_path, milliseconds=2)
    np.testing.assert_array_equal(first, node_costs(graph, again))
    assert again.seconds == 0
    assert "ONNX Runtime" in model.source
    assert "estimated" not in model.source
    running = [c for n, c in zip(graph.nodes, first, strict=True) if n.op in ("conv2d", "add", "softmax")]
    assert min(running) > 0


def test_variants_of_one_convolution_kernel_share_a_measurement():
    convolutions = [i for i in instances_of(network()) if i.op == "conv2d"]
    assert len(convolutions) == 2
    assert same_kernel(convolutions[0]) == same_kernel(convolutions[1])


def test_without_a_budget_costs_are_estimated_and_the_source_says_so(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, budget=-1)
    assert (node_costs(graph, model) >= 0).all()
    assert "0 instances measured" in model.source
    assert "estimated" in model.source
    assert model.measure(instances_of(graph)) >= 3
    node_costs(graph, model)
    assert "estimated" not in model.source


def test_a_broken_cache_is_set_aside(tmp_path):
    (tmp_path / "measured.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.warns(UserWarning, match="unreadable"):
        model = MeasuredCost(tmp_path, milliseconds=1)
    assert node_costs(network(), model).sum() > 0
    assert list(tmp_path.glob("measured-broken-*"))


def test_several_writers_lose_nothing(tmp_path):
    def write(k):
        store = Store(tmp_path, "device")
        for i in range(20):
            store.write({f"{k}-{i}": Measurement(1.0, 0.1, 3)})

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(Store(tmp_path, "device").read()) == 80
    assert Store(tmp_path, "another").read() == {}


def test_a_recorded_table_gives_the_same_costs_elsewhere(tmp_path):
    graph = network()
    model = MeasuredCost(tmp_path, milliseconds=2)
    costs = node_costs(graph, model)
    save_table(tmp_path / "table.parquet", model.device, model.table(), date="2026-11-21")
    table = RecordedCost.load(tmp_path / "table.parquet")
    np.testing.assert_allclose(node_costs(graph, table), costs)
    assert table.source.startswith("recorded table: ONNX Runtime")
    assert "0 estimated" in table.source


@pytest.mark.parametrize("content", [b"", b"not a parquet file", b"PAR1" + b"\0" * 50 + b"PAR1"])
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "table.parquet"
    path.write_bytes(content)
    with pytest.raises(CostTableError, match="no recorded cost table"):
        RecordedCost.load(path)


def test_keys_tell_instances_apart_and_types_survive():
    keys = {instance_key(i) for i in instances_of(network())}
    assert len(keys) == len(instances_of(network()))
    for kind in (TensorType("float32", ()), TensorType("int64", (3, 1, 7))):
        assert parse_type(type_key(kind)) == kind

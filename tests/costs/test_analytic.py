import numpy as np
import pytest

from workbench.costs import OpInstance, graph_cost, node_costs
from workbench.costs.analytic import DEVICES, AnalyticCost, work
from workbench.costs.choose import UnknownCostModel, cost_model
from workbench.graph import GraphBuilder
from workbench.ops import TensorType


def instance(op, shapes, out, attrs=()):
    kinds = tuple(TensorType("float32", s) for s in shapes)
    return OpInstance(op, attrs, kinds, TensorType("float32", out), (False,) * len(kinds))


MATMUL = instance("matmul", [(512, 1024), (1024, 256)], (512, 256), ("none",))


def test_a_matrix_product_counts_two_flop_per_multiplication():
    done = work(MATMUL)
    assert done.flops == 2 * 512 * 1024 * 256
    assert done.bytes == 4 * (512 * 1024 + 1024 * 256 + 512 * 256)


def test_roofline_and_launch():
    device = DEVICES["t4"]
    (cost,) = AnalyticCost("t4").price([MATMUL])
    done = work(MATMUL)
    expected = max(done.flops / (device.flops * device.efficiency), done.bytes / device.bandwidth)
    assert cost == pytest.approx(1e6 * expected + device.launch)
    (tiny,) = AnalyticCost("t4").price([instance("relu", [(1,)], (1,))])
    assert tiny == pytest.approx(device.launch, rel=1e-3)


def test_views_are_free_where_the_executor_makes_them_free():
    part = instance("slice", [(4, 64)], (4, 32), (-1, 0, 32, 1))
    view = instance("reshape", [(4, 64)], (256,), ((256,),))
    assert AnalyticCost("t4").price([part, view]).tolist() == [0, 0]
    on_cpu = AnalyticCost("cpu").price([part, view])
    assert on_cpu[0] > 0
    assert on_cpu[1] == 0


@pytest.mark.parametrize("device", DEVICES)
def test_more_work_never_costs_less(device):
    model = AnalyticCost(device)
    sizes = [64, 128, 512, 2048]
    costs = model.price([instance("add", [(n, n), (n, n)], (n, n)) for n in sizes])
    assert (np.diff(costs) > 0).all()


def test_weight_only_work_is_free_and_shared_instances_cost_alike():
    b = GraphBuilder()
    x = b.input("x", (8, 16))
    w = b.op("mul", b.weight((16, 16)), b.weight((16, 16)))
    y = b.op("matmul", b.op("matmul", x, w), b.weight((16, 16)))
    graph = b.graph({"y": y})
    costs = node_costs(graph, AnalyticCost())
    by_op = {n.op: c for n, c in zip(graph.nodes, costs, strict=True)}
    assert by_op["mul"] == 0
    assert by_op["weight"] == 0
    products = [c for n, c in zip(graph.nodes, costs, strict=True) if n.op == "matmul"]
    assert products[0] == products[1] > 0
    assert graph_cost(graph, AnalyticCost()) == pytest.approx(sum(products))


def test_names():
    assert cost_model("analytic").source == "analytic roofline, t4"
    assert cost_model("analytic:h200").source == "analytic roofline, h200"
    with pytest.raises(UnknownCostModel, match="analytic"):
        cost_model("analytik")
    with pytest.raises(LookupError, match="h200"):
        cost_model("analytic:h20")
    with pytest.raises(FileNotFoundError):
        cost_model("tables/nowhere.parquet")

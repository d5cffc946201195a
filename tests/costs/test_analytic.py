import numpy as np
import pytest

from tests.costs.networks import MATMUL, RELU, instance
from tests.ops.test_onnx_form import INSTANCES
from tests.ops.test_onnx_form import instance as graph_of
from workbench.costs import OpInstance, instances_of
from workbench.costs.analytic import DEVICES, AnalyticCost, Device, work
from workbench.costs.model import described
from workbench.ops import TensorType, TupleType


def test_a_matrix_product_counts_two_flop_per_multiplication():
    done = work(MATMUL)
    assert done.flops == 2 * 512 * 1024 * 256
    assert done.bytes == 4 * (512 * 1024 + 1024 * 256 + 512 * 256)


def test_roofline_and_launch_are_in_microseconds():
    device = DEVICES["t4"]
    (cost,) = AnalyticCost("t4").price([MATMUL])
    done = work(MATMUL)
    expected = max(done.flops / (device.flops * device.efficiency), done.bytes / device.bandwidth)
    assert cost == pytest.approx(1e6 * expected + device.launch)
    (tiny,) = AnalyticCost("t4").price([instance("relu", [(1,)], (1,))])
    assert tiny == pytest.approx(device.launch, rel=1e-3)


def test_element_types_have_peaks_of_their_own():
    sides = [(2048, 2048)] * 2
    costs = {
        dtype: AnalyticCost("t4").price([instance("matmul", sides, (2048, 2048), ("none",), dtype)])[0]
        for dtype in ("float16", "bfloat16", "float32", "float64")
    }
    assert costs["float16"] == costs["bfloat16"] < costs["float32"] < costs["float64"]


@pytest.mark.parametrize(
    ("op", "shapes", "out", "attrs", "moved"),
    [
        ("slice", [(4, 64)], (4, 32), (-1, 0, 32, 1), 2 * 4 * 32),
        ("concat", [(4, 64), (4, 32)], (4, 96), (-1,), 2 * 4 * 96),
        ("transpose", [(4, 64)], (64, 4), ((1, 0),), 2 * 4 * 64),
        ("expand", [(1, 64)], (4, 64), ((4, 64),), 64 + 4 * 64),
        ("pad", [(4, 64)], (6, 66), ((1, 1, 1, 1), 0.0), 4 * 64 + 6 * 66),
    ],
)
def test_what_moves_data_is_charged_for_what_it_reads_and_writes(op, shapes, out, attrs, moved):
    done = work(instance(op, shapes, out, attrs))
    assert (done.flops, done.bytes) == (0, 4 * moved)


def test_views_are_free_where_the_executor_makes_them_free():
    part = instance("slice", [(4, 64)], (4, 32), (-1, 0, 32, 1))
    every_other = instance("slice", [(4, 64)], (4, 32), (-1, 0, 64, 2))
    view = instance("reshape", [(4, 64)], (256,), ((256,),))
    on_gpu = AnalyticCost("t4").price([part, every_other, view])
    assert on_gpu[0] == on_gpu[2] == 0 < on_gpu[1]
    on_cpu = AnalyticCost("cpu").price([part, every_other, view])
    assert on_cpu[2] == 0 < on_cpu[0] == on_cpu[1]


def test_gpus_are_told_apart_by_what_limits_them():
    product = instance("matmul", [(4096, 4096)] * 2, (4096, 4096), ("none",))
    names = ["t4", "v100", "a100", "l4", "h100", "l40s"]
    costs = {name: AnalyticCost(name).price([product, RELU])[0] for name in names}
    assert sorted(names, key=costs.__getitem__) == ["l40s", "h100", "l4", "a100", "v100", "t4"]
    large = instance("relu", [(1 << 28,)], (1 << 28,))
    moved = {name: AnalyticCost(name).price([large])[0] for name in [*names, "h200"]}
    assert sorted(moved, key=moved.__getitem__) == ["h200", "h100", "a100", "v100", "l40s", "t4", "l4"]
    assert described("analytic roofline, l40s") == "by a roofline of an NVIDIA L40S, not this machine"


@pytest.mark.parametrize("device", DEVICES)
def test_more_work_never_costs_less(device):
    model = AnalyticCost(device)
    sizes = [1, 64, 128, 512, 1000, 2048, 4096, 8192]
    for op, attrs in (("add", ()), ("matmul", ("none",))):
        costs = model.price([instance(op, [(n, n), (n, n)], (n, n), attrs) for n in sizes])
        assert costs[0] > 0
        assert (np.diff(costs) > 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_fusing_and_merging_are_worth_it(device):
    plain = instance("matmul", [(64, 64), (64, 64)], (64, 64), ("none",))
    fused = instance("matmul", [(64, 64), (64, 64)], (64, 64), ("relu",))
    wide = instance("matmul", [(64, 64), (64, 128)], (64, 128), ("none",))
    relu = instance("relu", [(64, 64)], (64, 64))
    one, with_relu, two, alone = AnalyticCost(device).price([plain, fused, wide, relu])
    assert with_relu < one + alone
    assert two < 2 * one


@pytest.mark.parametrize("case", INSTANCES, ids=lambda c: c[0])
def test_every_operator_has_a_price(case):
    found = instances_of(graph_of(*case))
    for device in DEVICES:
        costs = AnalyticCost(device).price(found)
        assert len(costs) == len(found), device
        assert np.isfinite(costs).all(), device
        assert (costs >= 0).all(), device


def test_opaque_operators_count_as_memory_traffic():
    x, y = TensorType("float32", (10,)), TensorType("int64", (4,))
    opaque = OpInstance("opaque", ("TopK_0",), (x,), TupleType((x, y)), (False,))
    assert work(opaque).bytes == 40 + 40 + 32
    assert AnalyticCost("t4").price([opaque])[0] > DEVICES["t4"].launch


def test_what_fits_the_cache_moves_faster():
    device = Device("d", 1e9, 1e9, 0.0, 1e9, 1e9, cache=1000.0, cache_bandwidth=1e10)
    assert device.transfer(1000.0) == pytest.approx(1e-7)
    assert device.transfer(2000.0) == pytest.approx(1e-7 + 1e-6)


@pytest.mark.parametrize("wrong", [{"flops": 0.0}, {"bandwidth": float("nan")}, {"launch": -1.0}])
def test_a_device_with_senseless_figures_is_refused(wrong):
    figures = {"flops": 1e12, "bandwidth": 1e11, "launch": 1.0, "half": 1e12, "double": 1e12} | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Device("d", **figures)


def test_an_unknown_device_is_named_with_the_nearest():
    with pytest.raises(LookupError, match="did you mean h200"):
        AnalyticCost("h20")
    assert AnalyticCost(DEVICES["v100"]).price([RELU])[0] > 0

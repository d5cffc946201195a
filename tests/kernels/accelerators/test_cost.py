from dataclasses import replace

import pytest

from workbench.costs.model import OpInstance
from workbench.graph import GraphBuilder
from workbench.kernels.accelerators import AcceleratorCost, Tiling, unit

SYSTOLIC = unit("systolic64")


def instance(op, shapes, dtype="float32", **attrs):
    b = GraphBuilder()
    made = b.op(op, *(b.input(f"x{i}", s, dtype) for i, s in enumerate(shapes)), **attrs)
    node = b.nodes[made]
    kinds = tuple(b.type(i) for i in node.inputs)
    return OpInstance(op, node.attrs, kinds, node.type, (False,) * len(kinds))


def test_a_product_on_the_unit_takes_the_cycles_of_its_formulas():
    cost = AcceleratorCost(SYSTOLIC)
    product = instance("blocked", [(784, 256), (256, 64)], **SYSTOLIC.attrs)
    found = cost.cycles(product)
    assert found.unit == Tiling(SYSTOLIC, 1, 784, 256, 64).cycles == 4 * (64 + 784 + 64)
    assert found.vector == 0
    assert found.memory == (784 * 256 + 256 * 64 + 784 * 64) * 4 / 256
    assert found.cycles == max(found.unit, found.memory)
    assert cost.price([product]).tolist() == [found.cycles / 1000]


def test_memory_is_the_roof_of_a_product_with_little_arithmetic():
    found = AcceleratorCost(replace(SYSTOLIC, bytes_per_cycle=1.0)).cycles(
        instance("blocked", [(1, 64), (64, 64)], **SYSTOLIC.attrs)
    )
    assert found.cycles == found.memory == 4 * (64 + 64 * 64 + 64)


def test_a_product_cut_for_another_unit_runs_on_the_vector_unit():
    other = instance("blocked", [(64, 64), (64, 64)], **unit("systolic16").attrs)
    found = AcceleratorCost(SYSTOLIC).cycles(other)
    assert found.unit == 0
    assert found.vector == 32 + 64**3 / 16


@pytest.mark.parametrize("strided", [True, False])
def test_transposes_are_free_if_the_unit_addresses_by_strides(strided):
    cost = AcceleratorCost(replace(SYSTOLIC, strided=strided))
    assert (cost.cycles(instance("transpose", [(8, 9)], perm=(1, 0))).cycles == 0) == strided


def test_unfolding_moves_data_unless_windows_are_pixels_or_addressed_in_place():
    windows = instance("unfold", [(1, 8, 14, 14)], kernel=(3, 3))
    pixels = instance("unfold", [(1, 8, 14, 14)])
    assert AcceleratorCost(SYSTOLIC).cycles(windows).cycles > 0
    assert AcceleratorCost(SYSTOLIC).cycles(pixels).cycles == 0
    assert AcceleratorCost(replace(SYSTOLIC, unfolds=True)).cycles(windows).cycles == 0


def test_the_source_names_the_unit():
    cost = AcceleratorCost(SYSTOLIC)
    assert (cost.source, cost.device) == ("formulas of the accelerator systolic64", "systolic64")

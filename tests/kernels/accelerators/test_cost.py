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


# -- tiles ------------------------------------------------------------------------------------------------
#: Layers of MobileNet-v1: output channels, inner extent, places; tiles with the image stationary and with the
#: weight stationary (Glenside's issue 42).
LAYERS = [
    (32, 27, 12544, 196, 1), (64, 32, 12544, 196, 1), (128, 64, 3136, 49, 2), (128, 128, 3136, 98, 4),
    (256, 128, 784, 26, 8), (256, 256, 784, 52, 16), (512, 256, 196, 16, 32), (512, 512, 196, 32, 64),
    (1024, 512, 49, 8, 128), (1024, 1024, 49, 16, 256),
]  # fmt: skip


@pytest.mark.parametrize(("out", "inner", "places", "image", "weight"), LAYERS)
def test_the_tiles_of_mobilenet_in_both_orientations(out, inner, places, image, weight):
    assert Tiling(SYSTOLIC, 1, out, inner, places).tiles == image
    assert Tiling(SYSTOLIC, 1, places, inner, out).tiles == weight


def test_cycles_follow_the_formulas():
    first = Tiling(SYSTOLIC, 1, 12544, 27, 32)
    assert first.cycles == 64 + 12544 + 64
    assert Tiling(SYSTOLIC, 1, 32, 27, 12544).cycles == 196 * (64 + 32 + 64)


def test_a_product_that_fills_its_tiles_wastes_nothing():
    whole = Tiling(SYSTOLIC, 1, 1 << 20, 128, 128)
    assert whole.waste == 0
    assert whole.utilisation == pytest.approx(1, abs=1e-3)
    assert Tiling(SYSTOLIC, 1, 100, 64, 1).waste == 63 / 64


def test_rows_are_cut_into_calls_and_padded_if_the_unit_pads():
    amx = unit("amx_int8")
    some = Tiling(amx, 1, 37, 64, 16)
    assert (some.tiles, some.calls, some.cycles) == (1, 3, 8 + 3 * 16)
    assert some.capacity == 37 * 64 * 16
    wmma = unit("wmma16")
    padded = Tiling(wmma, 1, 37, 16, 16)
    assert padded.capacity == 48 * 256
    assert padded.cycles == 3 * 16 * 256 / 512


def test_batches_multiply_tiles():
    assert Tiling(SYSTOLIC, 12, 128, 64, 128).tiles == 24


def test_prime_extents_are_cut_too():
    odd = Tiling(replace(SYSTOLIC, inner=7, columns=13), 1, 17, 17, 17)
    assert (odd.across, odd.beside, odd.tiles) == (3, 2, 6)
    assert 0 < odd.waste < 1

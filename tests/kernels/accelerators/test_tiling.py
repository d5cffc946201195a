from dataclasses import replace

import pytest

from workbench.kernels.accelerators import Tiling, unit

SYSTOLIC = unit("systolic64")
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

import pytest

from workbench.graph import GraphBuilder
from workbench.kernels.accelerators import unit
from workbench.kernels.accelerators.operator import unit_operator
from workbench.ops import TypeMismatch


def test_a_call_takes_rows_a_tile_and_the_sums_so_far():
    amx = unit("amx_int8")
    assert unit_operator(amx) is unit_operator(amx)
    b = GraphBuilder()
    x, w = b.input("x", (7, 64), "int8"), b.input("w", (64, 16), "int8")
    y = b.op("amx_int8", x, w)
    assert str(b.type(y)) == "int32[7, 16]"
    assert str(b.type(b.op("amx_int8", x, w, y))) == "int32[7, 16]"


@pytest.mark.parametrize(
    ("rows", "tile", "message"),
    [
        ((17, 64), (64, 16), "takes at most 16 rows"),
        ((7, 63), (63, 16), "a row of amx_int8 must have 64 elements"),
        ((7, 64), (64, 15), "must have 16 columns"),
        ((1, 7, 64), (64, 16), "the rows must be a matrix"),
    ],
)
def test_other_extents_are_refused(rows, tile, message):
    unit_operator(unit("amx_int8"))
    b = GraphBuilder()
    with pytest.raises(TypeMismatch, match=message):
        b.op("amx_int8", b.input("x", rows, "int8"), b.input("w", tile, "int8"))

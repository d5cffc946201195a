"""The unit's work, counted in the program that it runs: it is what the formulas of tiles predict."""

from dataclasses import replace

import numpy as np
import pytest

from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.accelerators import Tiling, simulate, unit

UNITS = [
    unit("systolic16"),
    replace(unit("systolic16"), rows=5, inner=7, columns=3, cycles=unit("amx_int8").cycles, name="rows5"),
    replace(unit("systolic16"), rows=4, padded_rows=True, inner=4, columns=13, name="padded4"),
]
SHAPES = [((7, 13), (13, 17)), ((2, 3, 40), (40, 33)), ((4, 5, 8), (4, 8, 6)), ((1, 6, 9), (3, 9, 2))]


def played(builder, y, chosen, left, right):
    """Return the result of a product on a unit, and the unit's work for it."""
    outputs, counts = simulate(builder.graph({"y": y}), chosen, {"x": left, "w": right})
    return outputs["y"], counts[y]


@pytest.mark.parametrize("chosen", UNITS, ids=lambda u: u.name)
@pytest.mark.parametrize("shapes", SHAPES)
def test_doing_it_takes_what_the_formulas_predict(chosen, shapes):
    random = np.random.default_rng(0)
    left, right = (random.integers(-9, 10, s) for s in shapes)
    b = GraphBuilder()
    x, w = (b.input(n, s) for n, s in zip("xw", shapes, strict=True))
    y = b.op("blocked", x, w, **chosen.attrs)
    found, counts = played(b, y, chosen, left.astype(np.float32), right.astype(np.float32))
    np.testing.assert_array_equal(found, left @ right)
    tiling = Tiling.of(chosen, [b.type(x), b.type(w)], b.type(y))
    assert (counts.loads, counts.calls, counts.products) == (tiling.tiles, tiling.calls, tiling.capacity)
    assert counts.cycles == pytest.approx(tiling.cycles)


def test_a_graph_is_played_and_the_rest_runs_as_usual():
    chosen = unit("systolic16")
    b = GraphBuilder()
    x = b.input("x", (5, 20))
    y = b.op("blocked", x, b.weight((20, 18)), b.weight((18,)), **chosen.attrs, act="relu")
    graph = b.graph({"y": b.op("tanh", b.op("blocked", y, b.weight((18, 4)), **chosen.attrs))})
    feeds = {"x": np.random.default_rng(0).standard_normal((5, 20)).astype(np.float32)}
    outputs, counts = simulate(graph, chosen, feeds)
    np.testing.assert_allclose(outputs["y"], evaluate(graph, feeds)["y"], rtol=1e-5, atol=1e-6)
    assert [c.loads for c in counts.values()] == [4, 2]


def test_whole_numbers_are_added_in_the_accumulator():
    vnni = unit("vnni")
    left, right = np.full((2, 9), 255, np.uint8), np.full((9, 3), -128, np.int8)
    b = GraphBuilder()
    y = b.op("blocked", b.input("x", (2, 9), "uint8"), b.input("w", (9, 3), "int8"), **vnni.attrs)
    found, counts = played(b, y, vnni, left, right)
    assert found.dtype == np.int32
    assert (found == -255 * 128 * 9).all()
    assert counts.calls == 2 * counts.loads == 6


def test_equal_products_are_done_one_by_one():
    chosen = unit("systolic16")
    b = GraphBuilder(share=False)
    x, w = b.input("x", (5, 20)), b.weight((20, 18))
    one, two = (b.op("blocked", x, w, **chosen.attrs) for _ in range(2))
    graph = b.graph({"y": b.op("add", one, two)})
    _, counts = simulate(graph, chosen, {"x": np.ones((5, 20), np.float32)})
    assert [c.loads for c in counts.values()] == [4, 4]

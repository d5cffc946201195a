"""The products of a graph that run on a unit, and those that are left."""

import json

from workbench.graph import GraphBuilder
from workbench.kernels.accelerators import placement, unit

SYSTOLIC = unit("systolic16")


def graph():
    b = GraphBuilder()
    x = b.input("x", (5, 20))
    y = b.op("blocked", x, b.weight((20, 18)), **SYSTOLIC.attrs)
    y = b.op("blocked", b.weight((3, 5)), y, **SYSTOLIC.attrs)
    return b.graph({"y": b.op("matmul", y, b.op("transpose", y, perm=(1, 0)))})


def test_products_are_placed_with_what_stays_and_the_rest_is_named():
    found = placement(graph(), SYSTOLIC)
    assert [(layer.name, layer.stays) for layer in found.layers] == [
        ("5 × 20 × 18", "weight"),
        ("3 × 5 × 18", "image"),
    ]
    (left,) = found.left
    assert (left.what, left.count, left.products) == ("matmul", 1, 3 * 18 * 3)
    assert found.tiles == 4 + 2
    assert found.share == (5 * 20 * 18 + 3 * 5 * 18) / (5 * 20 * 18 + 3 * 5 * 18 + 3 * 18 * 3)
    assert 0 < found.utilisation < 1
    assert 0 < found.waste < 1


def test_the_figures_are_sentences_and_plain_data():
    found = placement(graph(), SYSTOLIC)
    text = "\n".join(found.lines())
    assert "2 products on systolic16: 6 tiles" in text
    assert "left to the vector unit: 1 matmul (162 multiplications)" in text
    data = json.loads(json.dumps(found.summary()))
    assert data["tiles"] == 6
    assert [layer["tiles"] for layer in data["layers"]] == [4, 2]


def test_a_graph_without_products_on_the_unit_says_so():
    b = GraphBuilder()
    found = placement(b.graph({"y": b.op("relu", b.input("x", (3, 4)))}), SYSTOLIC)
    assert found.lines()[0] == "no product runs on systolic16"
    assert (found.tiles, found.share, found.waste, found.utilisation) == (0, 0, 0, 0)

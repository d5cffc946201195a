from dataclasses import replace

import numpy as np
import pytest

import workbench
from tests.kernels.accelerators.layers import conv_graph, convolved, whole_numbers
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.accelerators import AcceleratorCost, placement, unit, unit_rules, unroll
from workbench.kernels.accelerators.lowering import unit_operator
from workbench.ops import TypeMismatch, spec_of

LAYERS = [
    ((1, 3, 17, 13), (7, 3, 3, 3), {"strides": (2, 2), "pads": (0, 0, 1, 1)}),
    ((1, 13, 7, 7), (17, 13, 1, 1), {}),
    ((2, 6, 7, 5), (6, 1, 3, 3), {"pads": (1, 1, 1, 1), "groups": 6}),
    ((1, 8, 5, 5), (4, 4, 3, 3), {"pads": (1, 0, 1, 2), "groups": 2}),
]
UNITS = {
    "systolic": unit("systolic16"),
    "rows": replace(unit("systolic16"), rows=5, inner=7, columns=3, name="rows5"),
    "padded": replace(unit("systolic16"), rows=4, padded_rows=True, inner=4, columns=13, name="padded4"),
}


def blocked(graph, chosen):
    slow = replace(chosen, lanes=1)  # nothing is worth leaving to the vector unit
    return workbench.optimize(graph, rules=unit_rules(slow), cost=AcceleratorCost(slow), certify=False)


@pytest.mark.parametrize("name", UNITS)
def test_every_layer_written_out_is_exact_in_whole_numbers(name):
    chosen = UNITS[name]
    graph = conv_graph(LAYERS)
    rolled = blocked(graph, chosen).graph
    found = placement(rolled, chosen)
    assert len(found.layers) == len(LAYERS)
    assert not found.left
    literal = unroll(rolled, chosen)
    assert "blocked" not in literal.operators()
    assert literal.operators()[chosen.name] == found.calls
    feeds = whole_numbers(graph)
    values = evaluate(literal, feeds)
    for i, (_, _, attrs) in enumerate(LAYERS):
        attrs = {k: v for k, v in attrs.items() if k != "act"}
        np.testing.assert_array_equal(
            values[f"y{i}"], convolved(feeds[f"x{i}"], feeds[f"w{i}"], **attrs), strict=True
        )


def test_the_literal_form_is_calls_slices_sums_and_zeros_alone():
    chosen = unit("systolic16")
    rolled = blocked(conv_graph(LAYERS[:2]), chosen).graph
    moves = {"unfold", "transpose", "reshape", "slice", "concat", "pad"}
    assert set(unroll(rolled, chosen).operators()) <= moves | {"add", "systolic16"}


def test_a_bias_and_an_activation_are_written_after_the_calls():
    chosen = unit("systolic16")
    b = GraphBuilder()
    x, w, c = b.input("x", (3, 20)), b.weight((20, 18)), b.weight((18,))
    y = b.op("blocked", x, w, c, **chosen.attrs, act="relu")
    graph = b.graph({"y": y})
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)}
    np.testing.assert_allclose(
        evaluate(unroll(graph, chosen), feeds)["y"], evaluate(graph, feeds)["y"], rtol=1e-5, atol=1e-6
    )


def test_whole_numbers_are_filled_with_zeros_of_their_type():
    amx = unit("amx_int8")
    b = GraphBuilder()
    x, w = b.input("x", (20, 70), "int8"), b.input("w", (70, 17), "int8")
    graph = b.graph({"y": b.op("blocked", x, w, **amx.attrs)})
    random = np.random.default_rng(0)
    feeds = {n: random.integers(-128, 128, k.shape).astype(np.int8) for n, k in graph.input_types.items()}
    exact = feeds["x"].astype(np.int64) @ feeds["w"].astype(np.int64)
    for one in (graph, unroll(graph, amx)):
        found = evaluate(one, feeds)["y"]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, exact)


def test_a_written_out_graph_is_a_model_that_runs(tmp_path):
    import onnxruntime

    chosen = unit("systolic16")
    graph = conv_graph(LAYERS[:3])
    random = np.random.default_rng(0)
    feeds = {n: random.standard_normal(k.shape).astype(np.float32) for n, k in graph.input_types.items()}
    rolled = blocked(graph, chosen).graph
    for form in (rolled, unroll(rolled, chosen)):
        model = workbench.to_onnx(form)
        assert model.functions
        session = onnxruntime.InferenceSession(model.SerializeToString())
        for name, found in zip(graph.output_types, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, evaluate(graph, feeds)[name], rtol=1e-4, atol=1e-4)


def test_the_operator_of_a_unit_takes_whole_tiles_only():
    unroll(conv_graph(LAYERS[1:2]), unit("systolic16"))
    b = GraphBuilder()
    x, w = b.input("x", (3, 16)), b.input("w", (16, 16))
    assert b.type(b.op("systolic16", x, w)).shape == (3, 16)
    with pytest.raises(TypeError, match="a row of systolic16 must have 16 elements"):
        b.op("systolic16", b.input("z", (3, 15)), w)
    assert spec_of("systolic16").doc.startswith("one call of the unit")


def test_both_forms_have_a_picture():
    from workbench.faces.views.static_html import graph_html

    chosen = unit("systolic16")
    rolled = blocked(conv_graph(LAYERS[1:2]), chosen).graph
    assert "blocked" in graph_html(rolled)
    assert "systolic16" in graph_html(unroll(rolled, chosen))


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

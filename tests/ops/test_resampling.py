"""Resizing as models state it, against ONNX Runtime; and the exchange of channels for places."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench
from workbench.frontends import import_onnx, opaque_runner, run_model, to_onnx
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import spec_of
from workbench.ops.resampling import COORDINATES, nearest, places, taps

SCALES = {"scales": np.array([1, 1, 2, 3], np.float32)}
SIZES = {"sizes": np.array([1, 2, 7, 9])}


def model(*, opset=18, shape=(1, 2, 5, 4), given=None, dtype=TensorProto.FLOAT, op="Resize", **attrs):
    """Return a model of one Resize whose last operand is given."""
    ((kind, array),) = (SIZES if given is None else given).items()
    operands = ["x", "", kind] if kind == "scales" and opset >= 11 else ["x", "", "", kind]
    stored = [numpy_helper.from_array(array, kind)]
    if opset < 11:
        operands = ["x", kind]
    elif opset < 13:
        none = numpy_helper.from_array(np.empty(0, np.float32), "none")
        operands, stored = [o or "none" for o in operands], [*stored, none]
    node = helper.make_node(op, operands, ["y"], **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(given):
    """Return the imported graph, which computes what ONNX Runtime does."""
    imported = import_onnx(given)
    kind = imported.graph.input_types["x"]
    feeds = {"x": np.random.default_rng(3).standard_normal(kind.shape).astype(kind.dtype)}
    expected = run_model(given, feeds)["y"]
    found = evaluate(imported.graph, feeds, opaque=opaque_runner())["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    again = run_model(to_onnx(imported.graph), feeds)["y"]
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-5)
    return imported


@pytest.mark.parametrize("opset", [11, 13, 18, 19])
@pytest.mark.parametrize("given", [SCALES, SIZES], ids=["scales", "sizes"])
@pytest.mark.parametrize("coords", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_resizing_is_modelled_in_every_operator_set(opset, given, coords, mode):
    imported = agrees(model(opset=opset, given=given, mode=mode, coordinate_transformation_mode=coords))
    assert imported.graph.operators() == {"resize": 1}


@pytest.mark.parametrize("op", ["Resize", "Upsample"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resizing_before_it_had_coordinates(op, mode):
    imported = agrees(model(opset=10 if op == "Resize" else 9, given=SCALES, op=op, mode=mode))
    (node,) = [n for n in imported.graph.nodes if n.op == "resize"]
    assert (node.attr("mode"), node.attr("coords")) == (mode, "asymmetric")


@pytest.mark.parametrize(("opset", "op"), [(8, "Upsample"), (9, "Upsample"), (10, "Resize")])
def test_resizing_beside_an_operator_that_holds_an_old_operator_set(opset, op):
    # An operator kept as it is keeps its operator set, so that resizing must be written in that one.
    given = model(opset=opset, given=SCALES, op=op, mode="nearest")
    kept = helper.make_node("LRN", ["y"], ["z"], size=3)
    if opset == 8:
        del given.graph.node[0].input[1], given.graph.initializer[0]
        given.graph.node[0].attribute.append(helper.make_attribute("scales", SCALES["scales"].tolist()))
        kept = helper.make_node("Upsample", ["y"], ["z"], scales=[1.0, 2.0, 1.0, 1.0])  # resizes channels
    given.graph.node.append(kept)
    given.graph.output[0].name = "z"
    written = to_onnx(import_onnx(given).graph)
    assert written.opset_import[0].version == opset
    assert [n.op_type for n in written.graph.node if n.op_type != "Constant"] == [op, kept.op_type]
    feeds = {"x": np.random.default_rng(3).standard_normal((1, 2, 5, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run_model(written, feeds)["z"], run_model(given, feeds)["z"])


def test_some_axes_may_be_named():
    given = {"sizes": np.array([9, 7])}
    imported = agrees(model(given=given, axes=[3, 2], mode="linear"))
    assert imported.graph.nodes[-1].attr("size") == (7, 9)


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("mode=cubic", {"mode": "cubic", "opset": 10, "given": SCALES}),
        ("tf_crop_and_resize", {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}),
        ("half_pixel_symmetric", {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric",
                                  "opset": 19}),
        ("antialias", {"mode": "linear", "antialias": 1}),
        ("exclude_outside", {"mode": "linear", "exclude_outside": 1}),
        ("keeps the aspect ratio", {"mode": "linear", "keep_aspect_ratio_policy": "not_larger",
                                    "given": {"sizes": np.array([8, 8])}, "axes": [2, 3]}),
        ("rank-3", {"mode": "linear", "shape": (2, 5, 4), "given": {"sizes": np.array([2, 7, 9])}}),
        ("other axes", {"mode": "linear", "given": {"sizes": np.array([1, 4, 7, 9])}}),
        ("a scale of 1.5", {"mode": "nearest", "given": {"scales": np.array([1, 1, 1.5, 1.5], np.float32)}}),
        ("float", {"mode": "nearest", "dtype": TensorProto.INT32}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_what_cannot_be_expressed_is_kept(reason, given):
    imported = import_onnx(model(**given))
    assert set(imported.coverage.opaque) == {"Resize"}
    (use,) = [u for u in imported.coverage.uses if u.fate == "opaque"]
    assert reason in use.reason


def test_a_fractional_scale_of_even_extents_is_modelled():
    given = {"scales": np.array([1, 1, 1.5, 0.5], np.float32)}
    imported = agrees(model(shape=(1, 2, 6, 4), given=given, mode="linear"))
    assert imported.graph.nodes[-1].attr("size") == (9, 2)


def test_the_usual_names_of_repeating_are_one():
    names = [
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"},
        {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"},
        {"coordinate_transformation_mode": "pytorch_half_pixel"},
    ]
    found = {agrees(model(given=SCALES, mode="nearest", **n)).graph.nodes[-1].attrs for n in names}
    assert len(found) == 1


def test_symbolic_extents_stay_symbolic(tmp_path):
    doubled = model(given={"scales": np.array([1, 1, 2, 2], np.float32)}, mode="linear")
    for dim, name in zip(doubled.graph.input[0].type.tensor_type.shape.dim, "NCHW", strict=True):
        if name != "C":
            dim.dim_param = name
    result = workbench.optimize(doubled, cost="analytic", time=False)
    assert result.graph.operators() == {"resize": 1}
    result.save(tmp_path / "m.onnx")
    saved = onnx.load(tmp_path / "m.onnx")
    assert [d.dim_param for d in saved.graph.input[0].type.tensor_type.shape.dim] == ["N", "", "H", "W"]
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 7)).astype(np.float32)
    np.testing.assert_allclose(run_model(saved, {"x": x})["y"], run_model(doubled, {"x": x})["y"], atol=1e-6)


@pytest.mark.parametrize("extents", [(2, 5), (5, 2), (1, 3), (3, 1), (7, 7)])
@pytest.mark.parametrize("coords", COORDINATES)
def test_the_weights_of_an_interpolation_sum_to_one(extents, coords):
    (first, _), (second, shares) = taps(*extents, {"mode": "linear", "coords": coords})
    assert (first >= 0).all()
    assert (second < extents[0]).all()
    assert all(0 <= share < 1 for share in shares)
    above, below = places(*extents, coords)
    middle = np.clip(above / below, 0, extents[0] - 1)
    np.testing.assert_allclose(first + np.array(shares, dtype=float), middle)


@pytest.mark.parametrize("coefficient", [-0.75, -0.5])
@pytest.mark.parametrize("coords", COORDINATES)
@pytest.mark.parametrize("extent", range(1, 6))
def test_a_cubic_is_that_of_the_runtime_between_all_small_extents(extent, coords, coefficient):
    how = {"mode": "cubic", "coordinate_transformation_mode": coords, "cubic_coeff_a": coefficient}
    for out in range(1, 7):
        given = {"sizes": np.array([1, 1, out, 3])}
        imported = agrees(model(shape=(1, 1, extent, 3), given=given, **how))
        assert imported.graph.operators() == {"resize": 1}


@pytest.mark.parametrize("extents", [(2, 5), (5, 2), (1, 3), (3, 1), (7, 7)])
@pytest.mark.parametrize("coords", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_interpolation_is_a_product_by_its_matrix_along_each_axis(extents, coords, mode):
    extent, out = extents
    how = {"mode": mode, "coords": coords, "cubic": -0.5}
    read = taps(extent, out, how)
    assert all(sum(weights) == 1 for weights in zip(*(weights for _, weights in read), strict=True))
    spec, resize = spec_of("interpolation"), spec_of("resize")
    given = {"extent": extent, "size": out, **how, "dtype": "float64"}
    matrix = spec.evaluate([], spec.unpack(spec.pack(given)))
    x = np.random.default_rng(1).standard_normal((2, 3, extent, 4))
    wanted = resize.evaluate([x], resize.unpack(resize.pack({"size": (out, 4), **how})))
    np.testing.assert_allclose(matrix @ x, wanted, atol=1e-12)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_torch_makes_the_places_and_weights_once_and_a_gradient_may_use_them(mode, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from workbench.ops import resampling

    resampling._kept.cache_clear()
    spec, x = spec_of("resize"), torch.rand(1, 2, 3, 4)
    attrs = {"size": (5, 7), "mode": mode, "coords": "asymmetric", "rounding": "ceil", "cubic": -0.5}
    with torch.inference_mode():
        first = spec.torch(torch, [x], attrs)
    made = []
    monkeypatch.setattr(torch, "as_tensor", lambda *a, **k: made.append(a))
    again = spec.torch(torch, [x.clone().requires_grad_()], attrs)
    assert not made
    again.sum().backward()
    assert torch.equal(first, again)
    np.testing.assert_allclose(first, spec.evaluate([x.numpy()], attrs), atol=1e-6)


def test_halves_are_rounded_as_asked():
    half = {"coords": "half_pixel"}
    roundings = ("round_prefer_floor", "round_prefer_ceil")
    found = {r: nearest(4, 2, {**half, "rounding": r}).tolist() for r in roundings}
    assert found == {"round_prefer_floor": [0, 2], "round_prefer_ceil": [1, 3]}


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_depth_to_space_and_back(order):
    x = np.random.default_rng(0).standard_normal((2, 12, 3, 4)).astype(np.float32)
    b = GraphBuilder()
    wide = b.op("depth_to_space", b.input("x", x.shape), block=2, order=order)
    graph = b.graph({"wide": wide, "x": b.op("space_to_depth", wide, block=2, order=order)})
    found = evaluate(graph, {"x": x})
    np.testing.assert_array_equal(found["x_1" if "x_1" in found else "x"], x)
    for c in range(3):
        for i in range(2):
            for j in range(2):
                channel = (2 * i + j) * 3 + c if order == "DCR" else c * 4 + 2 * i + j
                np.testing.assert_array_equal(found["wide"][:, c, i::2, j::2], x[:, channel])

"""Dimensions that stay symbolic: requirements of a model, and fixed dimensions."""

import numpy as np
import onnx
import pytest

from tests.frontends.models import FLOAT, model, node, normal, value, weight
from tests.frontends.symbolic_models import (
    class_token,
    heads,
    ints,
    keeps,
    linear,
    positions,
    shape_of,
    skip,
)
from workbench.frontends import ModelError, import_onnx
from workbench.frontends.model_file import open_model
from workbench.frontends.onnx.prepare import _bind_dimensions
from workbench.symbolic.integers import written as written_size

TEXT = [{"batch": 1, "sequence": 7}, {"batch": 3, "sequence": 16}, {"batch": 8, "sequence": 33}]


def test_symbols_go_through_and_are_in_inputs_and_outputs():
    opened, written = keeps(linear(), *TEXT, symbols=["batch", "sequence"])
    assert shape_of(written, "x") == ["batch", "sequence", 4]
    assert shape_of(written, "y") == ["batch", "sequence", 4]
    assert not opened.fixed
    assert not opened.left


def test_shape_arithmetic_is_computed_once_more_when_the_model_runs():
    opened, written = keeps(heads(), *TEXT, symbols=["batch", "sequence"])
    assert shape_of(written, "y") == ["batch", 2, "sequence", 2]
    assert shape_of(written, "z") == ["batch*sequence", 4]
    assert not opened.searched.opaques
    # Both shapes follow from the operand, so no size has to be computed.
    assert [n.op_type for n in written.graph.node if n.op_type in ("Shape", "Mul", "Concat")] == []


def test_a_stored_table_bounds_a_length_and_is_cut_at_run_time():
    opened, written = keeps(positions(), *TEXT, symbols=["batch", "sequence"])
    assert opened.generic.facts.most == {"+sequence": 64}
    assert {"Slice", "Range", "Shape"} <= {n.op_type for n in written.graph.node}
    stored = {t.name: list(t.dims) for t in written.graph.initializer}
    assert [64, 4] in stored.values()


def test_a_constant_that_is_repeated_for_the_batch_stays_an_operator():
    _, written = keeps(class_token(), *TEXT, symbols=["batch", "sequence"])
    assert shape_of(written, "y") == ["batch", "sequence + 1", 4]
    assert "Expand" in {n.op_type for n in written.graph.node}


def test_height_and_width_that_must_be_even_are_kept():
    sizes = [{"batch": 1, "height": 8, "width": 6}, {"batch": 3, "height": 10, "width": 16}]
    opened, written = keeps(skip(), *sizes, symbols=["batch", "height", "width"])
    assert [written_size(opened.generic.sizes[n]) for n in ("height", "width")] == ["2*+height", "2*+width"]
    assert shape_of(written, "y") == ["batch", 3, "height", "width"]


def test_a_dimension_without_a_name_stays_without_one():
    _, written = keeps(
        linear((None, None, 4)), {"x[0]": 2, "x[1]": 5}, {"x[0]": 1, "x[1]": 1}, symbols=["x[0]", "x[1]"]
    )
    assert shape_of(written, "x") == [None, None, 4]
    assert shape_of(written, "y") == [None, None, 4]


def test_symbols_that_may_broadcast_stay_two():
    m = model(
        [node("Add", "x z", "y")],
        [value("x", ["rows", 4]), value("z", ["lines", 4])],
        [value("y", ["C", 4])],
    )
    sizes = [{"rows": r, "lines": n} for r, n in ((3, 3), (1, 5), (5, 1), (8, 8))]
    opened, written = keeps(m, *sizes, symbols=["rows", "lines"])
    assert len(opened.generic.own) == 2
    assert shape_of(written, "y") == ["C", 4]


def test_symbols_that_a_join_requires_to_be_equal_are_one():
    m = model(
        [node("Concat", "x z", "y", axis=1)],
        [value("x", ["rows", 4]), value("z", ["lines", 4])],
        [value("y", None)],
    )
    opened, written = keeps(m, {"rows": 3, "lines": 3}, {"rows": 8, "lines": 8}, symbols=["rows", "lines"])
    assert len(opened.generic.own) == 1
    assert shape_of(written, "x") == ["rows", 4]
    assert shape_of(written, "z") == ["lines", 4]


def cached(total):
    """Return a model that joins cached keys with new ones, with a mask as long as both."""
    return model(
        [node("Concat", "past x", "keys", axis=1), node("MatMul", "mask keys", "y")],
        [
            value("x", ["batch", "sequence", 4]),
            value("past", ["batch", "past_sequence", 4]),
            value("mask", ["batch", 1, total]),
        ],
        [value("y", None)],
    )


@pytest.mark.parametrize("total", ["past_sequence + sequence", "total_length"])
def test_a_length_that_is_the_sum_of_two_is_kept_as_that(total):
    sizes = [{"batch": 2, "sequence": s, "past_sequence": p, total: s + p} for s, p in ((1, 4), (5, 3))]
    opened, written = keeps(cached(total), *sizes, symbols=["batch", "sequence", "past_sequence", total])
    assert written_size(opened.generic.named(opened.generic.sizes[total])) in (
        "past_sequence + sequence",
        "sequence + past_sequence",
    )
    assert shape_of(written, "mask") == ["batch", 1, total]


def test_a_symbol_in_two_inputs_is_one_symbol():
    m = model(
        [node("MatMul", "x z", "y")],
        [value("x", ["n", "k"]), value("z", ["k", "m"])],
        [value("y", None)],
    )
    opened, written = keeps(m, {"n": 2, "k": 3, "m": 5}, symbols=["n", "k", "m"])
    assert len(opened.symbols) == 3
    assert shape_of(written, "y") == ["n", "m"]


def test_a_stored_shape_fixes_the_batch_and_says_so():
    m = model(
        [node("Reshape", "x shape", "y")],
        [value("x", ["batch", 2, 3])],
        [value("y", None)],
        [ints("shape", 1, 6)],
    )
    opened = open_model(m, {}, {})
    (fixed,) = opened.fixed
    assert (fixed.name, fixed.extent) == ("batch", 1)
    assert "requires 6*batch and 6 to be equal" in str(fixed)
    assert opened.searched.output_types["y"].shape == (1, 6)


def test_a_size_that_must_divide_is_kept_and_recorded():
    m = model(
        [node("Reshape", "x shape", "r"), node("Relu", "r", "y")],
        [value("x", ["sequence", 4])],
        [value("y", None)],
        [ints("shape", -1, 8, 4)],
    )
    opened, written = keeps(m, {"sequence": 16}, {"sequence": 8}, symbols=["sequence"])
    assert written_size(opened.generic.sizes["sequence"]) == "8*+sequence"
    assert shape_of(written, "y") == ["floor(sequence/8)", 8, 4]


def test_a_product_that_must_divide_says_nothing_of_its_factors():
    m = model(
        [node("Reshape", "x shape", "r"), node("Relu", "r", "y")],
        [value("x", ["batch", "sequence", 4])],
        [value("y", None)],
        [ints("shape", -1, 8, 4)],
    )
    sizes = [{"batch": 1, "sequence": 16}, {"batch": 8, "sequence": 1}, {"batch": 6, "sequence": 4}]
    opened, _ = keeps(m, *sizes, symbols=["batch", "sequence"])
    assert opened.searched.operators() == {"opaque": 1, "relu": 1}


def square():
    """Return a product that requires a sequence of 8."""
    return model(
        [node("MatMul", "x w", "y")],
        [value("x", ["batch", "sequence"])],
        [value("y", None)],
        [normal("w", 8, 4)],
    )


def test_only_what_cannot_be_kept_is_fixed():
    opened = open_model(square(), {}, {"sequence": 8})
    (fixed,) = opened.fixed
    assert (fixed.name, fixed.extent) == ("sequence", 8)
    assert "requires sequence and 8 to be equal" in fixed.reason
    assert [s.name for s in opened.symbols] == ["batch"]


def test_dimensions_are_fixed_on_purpose_by_name_and_by_place():
    assert [s.name for s in open_model(linear(), {"batch": 8}, {}).symbols] == ["sequence"]
    assert [s.name for s in open_model(linear(), {"x[1]": 8}, {}).symbols] == ["batch"]
    assert open_model(linear(), {"batch": 2, "sequence": 3}, {}).symbols == ()
    with pytest.raises(ModelError, match="did you mean 'batch'"):
        open_model(linear(), {"bacth": 8}, {})


def test_a_model_that_fits_no_size_is_refused_as_ever():
    m = model(
        [node("MatMul", "x w", "y")], [value("x", ["batch", 5])], [value("y", None)], [normal("w", 4, 4)]
    )
    with pytest.raises(ModelError, match="MatMul"):
        open_model(m, {}, {})
    with pytest.raises(ModelError, match="MatMul"):
        import_onnx(m, dims={"batch": 2})


def test_nothing_of_generic_size_is_allocated():
    # 14 000 × 52 000 × 52 000 floats would be 150 TB.
    m = model(
        [
            node("Shape", "x", "shape"),
            node("Slice", "shape start stop", "s"),
            node("Concat", "s s", "square", axis=0),
            node("ConstantOfShape", "square", "ones", value=weight("one", [1.0])),
            node("Trilu", "ones", "mask", upper=1),
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("MatMul", "x t", "scores"),
            node("Add", "scores mask", "masked"),
            node("Softmax", "masked", "y", axis=-1),
        ],
        [value("x", ["batch", "sequence", 4])],
        [value("y", None)],
        [ints("start", 1), ints("stop", 2)],
    )
    _, written = keeps(m, *TEXT, symbols=["batch", "sequence"])
    assert sum(np.prod(t.dims) for t in written.graph.initializer) < 50


def test_inputs_of_every_kind_have_their_symbols_listed():
    given = [value("x", ["n", 3, None]), value("s", [], FLOAT)]
    symbols = _bind_dimensions(given, [], {}, frozenset())
    assert [s.name for s in symbols] == ["n", "x[2]"]
    assert len({s.marker for s in symbols}) == 2
    negative = value("x", [1, 2])
    negative.type.tensor_type.shape.dim[0].dim_value = -1
    assert [s.name for s in _bind_dimensions([negative], [], {}, frozenset())] == ["x[0]"]


def test_a_file_with_external_data_is_opened(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(linear(), path, save_as_external_data=True, size_threshold=0, location="m.data")
    opened = open_model(path, {}, {})
    assert {s.name for s in opened.symbols} == {"batch", "sequence"}


def pixel_attention():
    """Return attention of all pixels of an image to one another, behind a stride of two."""
    return model(
        [
            node("Conv", "x w", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("Shape", "c", "shape"),
            node("Gather", "shape zero", "n"),
            node("Slice", "shape two three_ends", "hw"),
            node("ReduceProd", "hw", "pixels", keepdims=1),
            node("Concat", "n channels pixels", "flat", axis=0),
            node("Reshape", "c flat", "q"),
            node("Transpose", "q", "k", perm=[0, 2, 1]),
            node("MatMul", "k q", "scores"),
            node("Softmax", "scores", "p", axis=-1),
            node("MatMul", "p k", "y"),
        ],
        [value("x", ["batch", 3, "height", "width"])],
        [value("y", None)],
        [
            normal("w", 8, 3, 3, 3),
            ints("zero", 0),
            ints("channels", 8),
            ints("two", 2),
            ints("three_ends", 4),
        ],
    )


def test_attention_over_pixels_is_modelled_and_priced_at_images_that_fit_into_memory():
    found = open_model(pixel_attention(), {}, {})
    assert found.kept == ("batch", "height", "width")
    assert not found.left
    assert sum(n.op == "matmul" for n in found.graph) == 2
    assert found.sizes == {"batch": 1, "height": 112, "width": 112}
    asked = open_model(pixel_attention(), {}, {"height": 224})
    assert asked.sizes["height"] == 224

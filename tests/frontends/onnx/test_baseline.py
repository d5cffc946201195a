"""The cleaned form of a model: its initialisers taken out of its inputs."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from workbench.frontends import ModelError, run_model
from workbench.frontends.onnx.file import MAPPED_TENSOR, write_apart
from workbench.frontends.runtime import clean

TEXT = (
    '<ir_version: 8, opset_import: ["": 17], producer_name: "somebody", model_version: 3> '
    "g (float[n,4] x, float[4,4] w, float[4] b) => (float[n,4] y) "
    "<float[4,4] w, float[4] b> {t = MatMul(x, w) \n y = Add(t, b)}"
)


def listed(ir_version=8):
    model = onnx.parser.parse_model(TEXT)
    del model.graph.initializer[:]
    random = np.random.default_rng(0)
    for name, shape in (("w", (4, 4)), ("b", (4,))):
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    model.ir_version = ir_version
    return model


def test_initialisers_leave_the_inputs_and_nothing_else_changes():
    model = listed()
    cleaned = clean(model)
    assert cleaned.removed == ("w", "b")
    assert [v.name for v in cleaned.apart.model.graph.input] == ["x"]
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    del rest.graph.input[1:]
    assert cleaned.apart.model == rest
    assert [v.name for v in model.graph.input] == ["x", "w", "b"], "the caller's model is left alone"
    assert {v.name for v in cleaned.given().model.graph.input} == {"x", "w", "b"}
    assert cleaned.given().model.graph.initializer == model.graph.initializer
    feeds = {"x": np.ones((3, 4), np.float32)}
    np.testing.assert_array_equal(run_model(cleaned.apart.model, feeds)["y"], run_model(model, feeds)["y"])


def test_what_a_caller_overrides_stays_an_input():
    kept = clean(listed(), keep_inputs=True)
    assert kept.removed == ()
    assert [v.name for v in kept.apart.model.graph.input] == ["x", "w", "b"]


def test_old_models_list_every_initialiser_and_none_can_be_overridden():
    cleaned = clean(listed(ir_version=3))
    assert cleaned.removed == ()
    assert len(cleaned.apart.model.graph.input) == 3


def test_dimensions_are_fixed_where_it_is_asked_for():
    cleaned = clean(listed(), dims={"n": 5})
    for value in (cleaned.apart.model.graph.input[0], cleaned.apart.model.graph.output[0]):
        assert value.type.tensor_type.shape.dim[0].dim_value == 5
    by_place = clean(listed(), dims={"x[0]": 7}).apart.model.graph.input[0]
    assert by_place.type.tensor_type.shape.dim[0].dim_value == 7
    free = clean(listed(), dims={"other": 5}).apart.model.graph.input[0]
    assert free.type.tensor_type.shape.dim[0].dim_param == "n"


def test_data_in_other_files_is_read_and_written(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save_model(
        listed(),
        path,
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
        convert_attribute=False,
    )
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    write_apart(clean(path).apart, folder / "c.onnx")
    feeds = {"x": np.ones((2, 4), np.float32)}
    expected = run_model(listed(), feeds)["y"]
    np.testing.assert_array_equal(run_model(onnx.load(folder / "c.onnx"), feeds)["y"], expected)


def test_small_data_in_other_files_are_part_of_the_model(tmp_path):
    path, model = tmp_path / "m.onnx", listed()
    large = np.zeros((4, MAPPED_TENSOR // 16), np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(large, "w"))
    onnx.save_model(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    apart = clean(path).apart
    assert set(apart.arrays) == {"w"}
    (small,) = (t for t in apart.model.graph.initializer if t.name == "b")
    np.testing.assert_array_equal(
        numpy_helper.to_array(small), numpy_helper.to_array(listed().graph.initializer[1])
    )


def test_what_is_not_a_model_is_refused():
    with pytest.raises(ModelError):
        clean(b"no model")

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from workbench.studies.benchmarks.light import WHOLE, demonstration, light_model, light_names, light_path


def weights(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def test_the_nine_architectures_are_there():
    assert len(light_names()) == 9
    assert {"squeezenet", "resnet50", "densenet121", "inception_v1"} <= set(light_names())


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueError, match="did you mean resnet50"):
        light_path("resnet5")


def test_weights_are_seeded_and_take_the_place_of_the_constants():
    model = light_model("squeezenet")
    onnx.checker.check_model(model, full_check=True)
    assert not any(n.op_type == "ConstantOfShape" for n in model.graph.node)
    assert [i.name for i in model.graph.input if i.name not in weights(model)] == ["data_0"]
    kernel = weights(model)["fire2/expand3x3_w_0"]
    assert kernel.shape == (64, 16, 3, 3)
    assert kernel.std() == pytest.approx((1 / (16 * 9)) ** 0.5, rel=0.05)
    again, other = light_model("squeezenet"), light_model("squeezenet", seed=1)
    np.testing.assert_array_equal(weights(again)["fire2/expand3x3_w_0"], kernel)
    assert not np.array_equal(weights(other)["fire2/expand3x3_w_0"], kernel)


def test_nodes_and_outputs_are_those_of_the_file():
    original = onnx.load(str(light_path("squeezenet")))
    model = light_model("squeezenet")
    kept = [n for n in original.graph.node if n.op_type != "ConstantOfShape"]
    assert [n.op_type for n in model.graph.node] == [n.op_type for n in kept]
    assert model.graph.output == original.graph.output


def test_variances_are_positive():
    model = light_model("densenet121")
    known = weights(model)
    variances = [known[n.input[4]] for n in model.graph.node if n.op_type == "BatchNormalization"]
    assert variances
    assert all((v > 0).all() for v in variances)


@pytest.mark.slow
def test_networks_with_branches_are_listed_with_the_light_models():
    model = demonstration("repvgg")
    onnx.checker.check_model(model)
    assert [n.op_type for n in model.graph.node].count("Conv") == 44
    assert demonstration("squeezenet").graph.name == "squeezenet"
    assert set(WHOLE) == {"repvgg", "mobileone"}


def test_another_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean repvgg"):
        demonstration("repvg")
    with pytest.raises(ValueError, match="There are: repvgg, mobileone"):
        demonstration("zzz")

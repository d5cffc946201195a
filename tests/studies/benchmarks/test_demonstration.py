import onnx
import pytest

from workbench.studies.benchmarks.demonstration import WHOLE, demonstration


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

import pytest

from tests.costs.networks import network
from tests.ops.test_onnx_form import INSTANCES
from tests.ops.test_onnx_form import instance as graph_of
from workbench.costs import OpInstance, instances_of
from workbench.costs.keys import instance_key, parse_key, parse_type, same_kernel, type_key
from workbench.ops import TensorType, TupleType


@pytest.mark.parametrize("case", INSTANCES, ids=lambda c: c[0])
def test_every_instance_is_read_back_from_its_key(case):
    for found in instances_of(graph_of(*case)):
        assert parse_key(instance_key(found)) == found


def test_keys_tell_instances_apart():
    found = instances_of(network())
    assert len({instance_key(i) for i in found}) == len(found)
    x = TensorType("float32", (3,))
    plain, weight = (OpInstance("add", (), (x, x), x, (False, c)) for c in (False, True))
    assert instance_key(plain) != instance_key(weight)
    assert instance_key(plain) != instance_key(plain, "another operator")


@pytest.mark.parametrize(
    "kind",
    [
        TensorType("float32", ()),
        TensorType("int64", (3, 1, 7)),
        TupleType((TensorType("float32", (2,)), TensorType("bool", ()))),
    ],
)
def test_types_survive(kind):
    assert parse_type(type_key(kind)) == kind


@pytest.mark.parametrize("text", ["", "relu", "[]", "{}", '["relu",[],["float32[a]"],"float32[1]","v"]', "3"])
def test_other_text_is_not_a_key(text):
    with pytest.raises(ValueError, match="must identify an operator instance"):
        parse_key(text)


def test_variants_of_one_convolution_kernel_share_a_measurement():
    convolutions = [i for i in instances_of(network()) if i.op == "conv2d"]
    assert len(convolutions) == 2
    assert same_kernel(convolutions[0]) == same_kernel(convolutions[1])
    (softmax,) = (i for i in instances_of(network()) if i.op == "softmax")
    assert same_kernel(softmax) is softmax

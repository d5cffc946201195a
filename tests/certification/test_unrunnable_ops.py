"""Results of operators that are not run are drawn in the shape and the element type that the model gives them."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.certification.models import model
from workbench.certification.model import Model
from workbench.certification.unrunnable_ops import drawn_results, set_apart

HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


def drawn(names, *, made=None, info=(), seed=0, given=(2, 3)):
    """Return what is drawn for a chain of operators that nothing runs, which begins at a half precision input x."""
    nodes = [
        helper.make_node("Mystery", [before], [name], domain="nobody.knows")
        for before, name in zip(["x", *names], names, strict=False)
    ]
    nodes.append(helper.make_node("Identity", [names[-1]], ["y"]))
    ends = [("x", HALF, ["n", "m", "k"][: len(given)])], [made or ("y", HALF, None)]
    file = Model.of(model(nodes, *ends, extra=[("nobody.knows", 1)], info=info), None, "")
    apart = set_apart(file, file, {("nobody.knows", "Mystery")})
    return drawn_results(apart, file, {"x": given}, "normal", seed)


@pytest.mark.parametrize(
    ("stated", "dtype", "shape"),
    [
        ([], "float16", (4, 3)),  # nothing is stated: type and shape of the operand
        ([("b", FLOAT, [5])], "float32", (5,)),
        ([("b", FLOAT, ["p", 7])], "float32", (4, 7)),  # an extent without a number is that of the operand
        ([("b", FLOAT, [7, "p"])], "float32", (7, 3)),
        ([("b", FLOAT, ["p", 7, "q", "r"])], "float32", (4, 7, 1, 1)),  # or 1 if the operand has no such axis
    ],
)
def test_a_result_has_the_stated_extents_and_otherwise_those_of_the_operand(stated, dtype, shape):
    found = drawn(["b"], info=stated, given=(4, 3))["b"]
    assert (str(found.dtype), found.shape) == (dtype, shape)


def test_a_result_of_a_result_has_its_shape():
    found = drawn(["b", "c"], info=[("b", FLOAT, [5])])
    assert [(str(a.dtype), a.shape) for a in found.values()] == [("float32", (5,))] * 2


def test_the_declared_shape_of_an_output_is_that_of_its_value():
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="nobody.knows")]
    ends = [("x", FLOAT, [2, 3])], [("y", HALF, [4, 5])]
    file = Model.of(model(nodes, *ends, extra=[("nobody.knows", 1)]), None, "")
    found = drawn_results(
        set_apart(file, file, {("nobody.knows", "Mystery")}), file, {"x": (2, 3)}, "normal", 0
    )
    assert (str(found["y"].dtype), found["y"].shape) == ("float16", (4, 5))


def test_equal_seeds_give_equal_results_and_others_do_not():
    first, again, other = (drawn(["b"], seed=seed)["b"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()

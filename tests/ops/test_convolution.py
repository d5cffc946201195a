"""Transposed convolution against loops, and the spellings that stay opaque."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.ops.test_semantics import run
from workbench.frontends import import_onnx
from workbench.ops import TensorType, TypeMismatch, spec_of

RNG = np.random.default_rng(0)


def test_transposed_convolution_against_loops():
    x, w, b = (RNG.standard_normal(s) for s in ((2, 4, 3, 2), (4, 3, 2, 3), (1, 6, 1, 1)))
    (sh, sw), (t, le, bo, r), (dh, dw), (eh, ew) = (3, 2), (1, 0, 2, 1), (1, 2), (1, 0)
    found = run(
        "conv_transpose", x, w, b,
        strides=(sh, sw), pads=(t, le, bo, r), dilations=(dh, dw), groups=2, extra=(eh, ew),
    )  # fmt: skip
    full = np.zeros((2, 6, 2 * sh + dh + 1 + eh, sw + 2 * dw + 1 + ew)) + b
    for n, c, i, j in np.ndindex(*x.shape):
        for o, u, v in np.ndindex(3, 2, 3):
            full[n, c // 2 * 3 + o, i * sh + u * dh, j * sw + v * dw] += x[n, c, i, j] * w[c, o, u, v]
    np.testing.assert_allclose(found, full[:, :, t : full.shape[2] - bo, le : full.shape[3] - r], atol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "attrs", "message"),
    [
        ([(1, 4, 3, 3), (3, 2, 2, 2)], {}, "channels"),
        ([(1, 4, 3, 3), (4, 2, 2, 2)], {"groups": 3}, "groups"),
        ([(1, 4, 3, 3), (4, 2, 2, 2), (1, 3, 1, 1)], {}, "bias"),
        ([(1, 4, 3, 3), (4, 2, 2, 2)], {"extra": (1, 0)}, "extra"),
        ([(1, 4, 1, 3), (4, 2, 2, 2)], {"pads": (1, 0, 1, 0)}, "pads"),
        ([(4, 3, 3), (4, 2, 2, 2)], {}, "four axes"),
    ],
)
def test_operands_must_fit(shapes, attrs, message):
    spec = spec_of("conv_transpose")
    with pytest.raises(TypeMismatch, match=message):
        spec.result_type([TensorType("float32", s) for s in shapes], spec.pack(attrs))


@pytest.mark.parametrize("attrs", [{"auto_pad": "SAME_UPPER"}, {"output_shape": [6, 6]}], ids=str)
def test_pads_that_follow_from_the_result_are_kept(attrs):
    weight = numpy_helper.from_array(np.ones((2, 3, 2, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attrs)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 3, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 6, 6))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert set(import_onnx(model).coverage.opaque) == {"ConvTranspose"}

"""Every operator computes in torch what its reference computes."""

import numpy as np
import pytest

from tests.ops.test_onnx_form import IMAGE, INSTANCES, MIXED, inputs, instance, named
from workbench.graph import evaluate
from workbench.ops import TensorType, TypeMismatch, operators

torch = pytest.importorskip("torch", reason="torch is not installed")

#: Distinctions of the forms in torch, beside those of the forms in ONNX.
MORE = [
    ("conv2d", {"pads": (1, 1, 1, 1), "groups": 2, "act": "relu"}, [IMAGE, (6, 2, 3, 3), (1, 6, 1, 1)]),
    ("conv2d", {"pads": (0, 2, 1, 0), "dilations": (2, 2), "act": "tanh"}, [IMAGE, (3, 4, 2, 2)]),
    ("conv2d", {"strides": (3, 2), "pads": (2, 1, 2, 1), "groups": 4}, [IMAGE, (8, 1, 3, 2)]),
    ("matmul", {"act": "relu"}, [(3, 4), (4, 5)]),
    ("matmul", {}, [(2, 1, 3, 4), (4, 5)]),
    ("merge_gconv", {"count": 3, "groups": 6}, [(12, 2, 3, 2)]),
    ("maxpool", {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "ceil": 1}, [IMAGE]),
    ("maxpool", {"kernel": (3, 3), "strides": (3, 2), "pads": (2, 0, 1, 2), "ceil": 1}, [IMAGE]),
    ("maxpool", {"kernel": (3, 3), "pads": (2, 2, 2, 2), "dilations": (2, 1)}, [IMAGE]),
    *(
        ("avgpool", window | {"ceil": ceil, "include_pad": include}, [IMAGE])
        for window in (
            {"kernel": (3, 3), "strides": (2, 3), "pads": (1, 1, 1, 1)},
            {"kernel": (3, 2), "strides": (2, 2), "pads": (2, 0, 1, 1)},
            {"kernel": (3, 3), "strides": (3, 3), "pads": (2, 2, 2, 2)},
            {"kernel": (2, 4), "strides": (3, 4), "pads": (0, 3, 1, 0)},
        )
        for ceil in (0, 1)
        for include in (0, 1)
    ),
    ("layernorm", {"axis": -2}, [(2, 3, 8), (1, 1, 8), (8,)]),
    ("layernorm", {"axis": -1}, [(2, 3, 8), (3, 8), (2, 1, 1)]),
    ("attention", {"heads": 2, "scale": 0.5}, [(2, 5, 8), (2, 3, 8), (2, 3, 6)]),
    ("select", {}, [("bool", (3, 1)), (2, 3, 4), ()]),
    ("is_nan", {}, [(2, 3)]),
    ("rotary", {}, [(2, 3, 5, 8), (5, 4), (5, 4)]),
    ("slice", {"axis": -3, "start": 1, "stop": 4, "step": 3}, [IMAGE]),
    ("expand", {"shape": (3, 2)}, [()]),
    ("cast", {"to": "bool"}, [(2, 3)]),
    ("cast", {"to": "float16"}, [(2, 3)]),
    ("reduce_max", {"axes": (-4, -1)}, [IMAGE]),
]  # fmt: skip


def in_torch(graph, feeds):
    (node,) = [n for n in graph.nodes if n.op != "input"]
    spec = next(s for s in operators() if s.name == node.op)
    operands = [torch.from_numpy(np.array(feeds[graph.nodes[i].attr("name")])) for i in node.inputs]
    before = [x.clone() for x in operands]
    found = spec.torch(torch, operands, node.named_attrs())
    for x, y in zip(before, operands, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), "operands stay as they are")
    return found.numpy()


def test_every_operator_with_operands_has_a_form():
    assert [s.name for s in operators() if s.max_inputs and not s.leaf and s.torch is None] == []


@pytest.mark.parametrize("case", [c for c in INSTANCES if c[2]] + MORE + MIXED, ids=named)
def test_an_operator_computes_what_its_reference_computes(case):
    graph = instance(*case)
    feeds = inputs(graph)
    expected, found = evaluate(graph, feeds)["y"], in_torch(graph, feeds)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


def test_negative_indices_count_from_the_end():
    graph = instance("gather", {"axis": -2}, [(2, 5, 3), "indices"])
    feeds = inputs(graph) | {"x1": np.array([[-1, 0], [-5, 4]])}
    np.testing.assert_array_equal(in_torch(graph, feeds), evaluate(graph, feeds)["y"])


@pytest.mark.parametrize("op", ["relu", "max", "clip", "maxpool", "abs", "leakyrelu", "is_nan"])
def test_what_is_not_finite_goes_the_same_way(op):
    attrs = {"maxpool": {"kernel": (2, 2)}, "clip": {"low": -1.0, "high": 1.0}}.get(op, {})
    shapes = [(1, 1, 2, 4)] * (2 if op == "max" else 1)
    graph = instance(op, attrs, shapes)
    odd = np.array([np.nan, 1, np.inf, -np.inf, -0.0, 0, -2, 3], np.float32).reshape(1, 1, 2, 4)
    feeds = {f"x{i}": np.roll(odd, i) for i in range(len(shapes))}
    np.testing.assert_array_equal(in_torch(graph, feeds), evaluate(graph, feeds)["y"])


def test_dtypes_are_found_by_name():
    assert TensorType("float8e4m3fn", ()).torch_dtype(torch) is torch.float8_e4m3fn
    assert TensorType("bfloat16", ()).torch_dtype(torch) is torch.bfloat16
    for name in ("string", "int4"):
        with pytest.raises(TypeMismatch, match=name):
            TensorType(name, ()).torch_dtype(type("torch", (), {"dtype": torch.dtype}))

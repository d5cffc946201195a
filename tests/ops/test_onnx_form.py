"""Every operator, written in every operator set, computes in ONNX Runtime what its reference computes."""

import math
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

from tests.sampled import in_turn
from workbench.frontends import ModelError, import_onnx, opaque_runner, run_model, to_onnx
from workbench.graph import GraphBuilder, evaluate
from workbench.ops import operators, spec_of
from workbench.ops.onnx_form import (
    NotModelled,
    OpsetTooOld,
    export_as,
    from_end,
    importable,
    importer_of,
    imports,
)
from workbench.ops.resampling import COORDINATES, ROUNDINGS

IMAGE, KERNEL = (2, 4, 7, 6), (6, 2, 3, 2)
GATES = ("relu6", "gelu", "silu", "hardswish")
#: Operator, attributes, shapes of the operands. Several per operator where its forms differ.
INSTANCES = [
    *((op, {}, [(2, 3, 4), (3, 1)]) for op in ("add", "sub", "mul", "div", "max", "min", "pow")),
    ("add", {}, [(), (2, 3)]),
    *(
        (op, {}, [(2, 3, 4)])
        for op in ("relu", "sigmoid", "tanh", "erf", "exp", "log", "cos", "sin", "sqrt", "neg", "abs")
    ),
    ("reciprocal", {}, [(2, 3, 4)]),
    ("leakyrelu", {}, [(2, 3)]),
    ("leakyrelu", {"alpha": 0.3}, [(2, 3)]),
    ("gelu", {}, [(2, 8)]),
    ("gelu", {"tanh": 1}, [(2, 8)]),
    ("swish", {}, [(2, 8)]),
    ("swish", {"alpha": 1.702}, [(2, 8)]),
    ("hardswish", {}, [(2, 8)]),
    ("clip", {"low": 0.0, "high": 0.5}, [(2, 8)]),
    ("clip", {"low": -0.5}, [(2, 8)]),
    ("clip", {"high": 0.5}, [(2, 8)]),
    ("clip", {}, [(2, 8)]),
    ("matmul", {}, [(3, 4), (4, 5)]),
    ("matmul", {"act": "relu"}, [(2, 1, 3, 4), (5, 4, 2)]),
    ("matmul", {"act": "tanh"}, [(3, 4), (4, 5)]),
    ("matmul", {"act": "sigmoid"}, [(3, 4), (4, 5)]),
    *(("matmul", {"act": act}, [(3, 4), (4, 5)]) for act in GATES),
    ("conv2d", {"groups": 2}, [IMAGE, KERNEL]),
    *(("conv2d", {"groups": 2, "act": act}, [IMAGE, KERNEL]) for act in GATES),
    ("conv2d", {"groups": 2, "strides": (2, 1), "pads": (1, 0, 2, 1), "act": "relu"}, [IMAGE, KERNEL]),
    ("conv2d", {"dilations": (2, 1), "pads": (2, 1, 2, 1)}, [IMAGE, (3, 4, 3, 2)]),
    ("conv2d", {"groups": 4, "act": "sigmoid"}, [IMAGE, (4, 1, 3, 3), (1, 4, 1, 1)]),
    ("enlarge", {"pads": (1, 0, 1, 2)}, [(3, 2, 1, 1)]),
    ("merge_gconv", {"count": 2, "groups": 4}, [(8, 2, 3, 3)]),
    ("merge_gconv", {"count": 1, "groups": 1}, [(8, 2, 3, 3)]),
    ("maxpool", {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}, [IMAGE]),
    ("maxpool", {"kernel": (2, 2), "strides": (2, 2), "ceil": 1}, [IMAGE]),
    ("maxpool", {"kernel": (2, 2), "dilations": (2, 3)}, [IMAGE]),
    ("maxpool", {"kernel": (1, 1), "strides": (2, 2), "ceil": 1}, [(1, 1, 2, 2)]),
    ("avgpool", {"kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2)}, [IMAGE]),
    ("avgpool", {"kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2), "include_pad": 1}, [IMAGE]),
    ("avgpool", {"kernel": (3, 3), "strides": (3, 2), "ceil": 1, "include_pad": 1}, [IMAGE]),
    ("avgpool", {"kernel": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 3), "ceil": 1}, [(1, 1, 4, 6)]),
    *(
        ("resize", {"size": size, "mode": mode, "coords": coords, "rounding": rounding}, [(2, 3, 5, 4)])
        for size in ((10, 8), (7, 6), (2, 3), (1, 9))
        for coords in COORDINATES
        for mode, rounding in (("linear", "floor"), ("cubic", "floor"), *(("nearest", r) for r in ROUNDINGS))
    ),
    ("conv_transpose", {"strides": (2, 3), "pads": (1, 0, 1, 2)}, [(2, 4, 3, 2), (4, 3, 4, 3)]),
    ("conv_transpose", {"strides": (2, 2), "pads": (1, 1, 1, 1)}, [(1, 4, 3, 2), (4, 3, 4, 4), (1, 3, 1, 1)]),
    ("conv_transpose", {"strides": (3, 2), "dilations": (1, 2), "groups": 2, "extra": (1, 0)},
     [(2, 4, 3, 2), (4, 3, 2, 3)]),
    ("unfold", {"kernel": (2, 3), "strides": (1, 2), "pads": (1, 0, 2, 1), "dilations": (2, 1)},
     [(2, 3, 5, 6)]),
    ("blocked", {"inner": 3, "columns": 2}, [(2, 3, 4), (4, 5)]),
    ("blocked", {"inner": 2, "columns": 3, "act": "relu"}, [(2, 1, 3, 4), (3, 4, 5), (3, 1)]),
    *(("depth_to_space", {"block": 2, "order": order}, [(2, 12, 3, 4)]) for order in ("DCR", "CRD")),
    *(("space_to_depth", {"block": 3, "order": order}, [(2, 2, 3, 6)]) for order in ("DCR", "CRD")),
    *((op, {"axes": (-2, -1)}, [IMAGE]) for op in ("reduce_sum", "reduce_mean", "reduce_max")),
    *((op, {"axes": (-3, -1), "keepdims": 0}, [IMAGE]) for op in ("reduce_sum", "reduce_mean", "reduce_max")),
    ("reduce_mean", {"axes": (-2, -1)}, [(3, 4, 5)]),
    ("reduce_max", {"axes": (-1,), "keepdims": 0}, [(5,)]),
    ("batchnorm", {"eps": 0.01}, [IMAGE, (4,), (4,), (4,), (4,)]),
    ("bn_scale", {}, [(4,), (4,)]),
    ("bn_shift", {"eps": 0.1}, [(4,), (4,), (4,), (4,)]),
    ("layernorm", {}, [(2, 3, 8), (8,), (8,)]),
    ("layernorm", {"axis": -2, "eps": 0.1}, [(2, 3, 8), (3, 8)]),
    ("rmsnorm", {}, [(2, 3, 8), (8,)]),
    ("rmsnorm", {"axis": -2, "eps": 0.1}, [(2, 3, 8), (3, 8)]),
    ("softmax", {}, [(2, 3, 4)]),
    ("softmax", {"axis": -2}, [(2, 3, 4)]),
    ("softmax", {"axis": -3}, [(2, 3, 1, 1)]),
    ("softmax", {"axis": -3}, [(2, 3, 4)]),
    ("attention", {"heads": 2, "scale": 0.5}, [(2, 5, 8), (2, 3, 8), (2, 3, 6)]),
    ("rotary", {}, [(2, 3, 5, 8), (5, 4), (5, 4)]),
    ("concat", {"axis": -2}, [(2, 3, 4), (2, 1, 4), (2, 2, 4)]),
    ("slice", {"axis": -1, "start": 1, "stop": 5}, [(2, 6)]),
    ("slice", {"axis": -2, "start": 1, "stop": 6, "step": 2}, [(6, 2)]),
    ("reshape", {"shape": (4, 6)}, [(2, 3, 4)]),
    ("reshape", {"shape": ()}, [(1, 1)]),
    ("transpose", {"perm": (2, 0, 1)}, [(2, 3, 4)]),
    ("pad", {"pads": (1, 2, 0, 3), "value": 0.5}, [(2, 3, 4)]),
    ("expand", {"shape": (2, 3, 4)}, [(3, 1)]),
    ("repeat", {"axis": -2, "times": 3}, [(2, 5, 3)]),
    ("gather", {"axis": -2}, [(2, 5, 3), "indices"]),
    ("cast", {"to": "float64"}, [(2, 3)]),
    ("cast", {"to": "int64"}, [(2, 3)]),
    ("identity", {}, [(2, 3)]),
    ("eye", {"size": 3}, []),
    ("interpolation", {"extent": 5, "size": 3, "mode": "cubic"}, []),
    ("eye", {"size": 9, "dtype": "int64"}, []),
    ("scalar", {"value": 0.5}, []),
    ("pi", {}, []),
    ("ones", {"shape": (2, 3)}, []),
    ("ones", {"shape": (), "dtype": "bool"}, []),
    ("ones", {"shape": (80, 80)}, []),
    ("identity_kernel", {"channels": 4, "groups": 2, "kernel": (3, 1)}, []),
    ("mean_kernel", {"channels": 3, "kernel": (2, 3)}, []),
]  # fmt: skip
#: Operators whose operands or results differ in element type; an operand's is named before its shape.
MIXED = [
    ("select", {}, [("bool", (2, 1, 4)), (2, 3, 1), (4,)]),
    ("select", {}, [("bool", (3, 1)), (2, 3, 4), ()]),
    ("is_nan", {}, [(2, 3)]),
    *(
        ("quantize", {"to": to}, [(2, 3, 4), scale, (to, zero)])
        for to in ("int8", "uint8", "int16", "int32")
        for scale, zero in (((), ()), ((3, 1), (3, 1)), ((4,), ()))
    ),
    *(
        ("dequantize", {}, [(q, (2, 3, 4)), scale, (q, zero)])
        for q in ("int8", "uint8", "uint16", "int32")
        for scale, zero in (((), ()), ((3, 1), (3, 1)), ((2, 1, 4), ()))
    ),
]  # fmt: skip
#: ONNX operators that are not modelled, in our forms: the blocks of a merged kernel are padded along its
#: second axis, and quantisation that ONNX Runtime has no kernel for is written out.
OPAQUE = {"merge_gconv": {"Pad"}, "quantize": {"Round"}, "dequantize": {"Sub"}}
EVERY = [*INSTANCES, *MIXED]
OPSETS = range(9, 27)


def operand(b, name, shape, dtype="float32"):
    """Return an input: of indices, of an element type and a shape, or of a shape."""
    if shape == "indices":
        return b.input(name, (2, 2), "int64")
    if shape and isinstance(shape[0], str):
        return b.input(name, shape[1], shape[0])
    return b.input(name, shape, dtype)


def instance(op, attrs, shapes):
    b = GraphBuilder()
    operands = [operand(b, f"x{i}", s) for i, s in enumerate(shapes)]
    return b.graph({"y": b.op(op, *operands, **attrs)})


def inputs(graph):
    random = np.random.default_rng(7)
    return {
        # Positive, so that logarithms, roots, powers and variances exist; some beyond every bound of a clip.
        name: random.integers(0, 5, k.shape).astype(k.dtype)
        if "int" in k.dtype
        else random.integers(0, 2, k.shape).astype(bool)
        if k.dtype == "bool"
        else random.uniform(0.1, 2, k.shape).astype(k.dtype)
        for name, k in graph.input_types.items()
    }


def named(case):
    return "-".join([case[0], *(f"{k}{v}".replace(" ", "") for k, v in case[1].items())])


def test_every_operator_is_tried():
    tried = {op for op, _, _ in EVERY}
    assert tried == {s.name for s in operators() if not s.leaf}
    assert all(spec_of(op).export for op in tried)


@pytest.mark.parametrize("case", in_turn([(case,) for case in EVERY], 1, quick=3), ids=named)
def test_an_operator_computes_the_same_in_every_operator_set(case):
    graph = instance(*case)
    feeds = inputs(graph)
    expected = evaluate(graph, feeds)["y"]
    written = 0
    for opset in OPSETS:
        try:
            model = to_onnx(graph, opset=opset)
        except ModelError as refusal:
            # Only what says from which operator set on it can be written may be refused.
            oldest = int(re.search(r"must be (\d+) or newer", str(refusal))[1])
            if opset < oldest:
                continue
            raise
        assert model.opset_import[0].version == opset
        found = run_model(model, feeds)["y"]
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=f"operator set {opset}")
        written += 1
    assert written >= 5


@pytest.mark.parametrize("case", EVERY, ids=named)
def test_what_is_written_is_read_back_as_the_same_operators(case):
    graph = instance(*case)
    feeds = inputs(graph)
    for opset in (None, 13, 9):
        try:
            imported = import_onnx(to_onnx(graph, opset=opset))
        except ValueError:
            continue
        assert set(imported.coverage.opaque) <= OPAQUE.get(case[0], set())
        found = evaluate(imported.graph, feeds, opaque=opaque_runner())["y"]
        np.testing.assert_allclose(found, evaluate(graph, feeds)["y"], rtol=2e-5, atol=2e-6)
        composed = {"enlarge", "merge_gconv", "bn_scale", "bn_shift", "layernorm", "softmax", "identity"}
        composed |= {"unfold", "blocked", "gelu", "swish", "hardswish", "rmsnorm", "quantize", "dequantize"}
        composed |= {"space_to_depth"} if case[1].get("order") == "CRD" else set()
        fused = case[1].get("act") or len(case[2]) == 3
        constant = not case[2]  # written as an initializer
        if case[0] not in composed and not constant and not fused and not (case[0] == "clip" and not case[1]):
            assert case[0] in imported.graph.operators()


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_element_types_pass_the_checker_and_their_values_agree(dtype):
    for op, attrs, shapes in INSTANCES:
        if {"to", "streamed"} & set(spec_of(op).attr_names) or "dtype" in attrs:
            continue
        if "dtype" in spec_of(op).attr_names:
            attrs = attrs | {"dtype": dtype}
        b = GraphBuilder()
        operands = [operand(b, f"x{i}", s, dtype) for i, s in enumerate(shapes)]
        graph = b.graph({"y": b.op(op, *operands, **attrs)})
        model = to_onnx(graph)  # checked by onnx with full inference
        assert (
            model.graph.output[0].type.tensor_type.elem_type
            == {"float16": 10, "float64": 11, "bfloat16": 16}[dtype]
        )
        found = evaluate(graph, inputs(graph))["y"]
        assert str(found.dtype) == dtype, op


def test_importers_are_listed_and_registered_once():
    names = list(importable())
    assert names == sorted(names)
    assert {"Conv", "Gemm", "Softmax", "Split"} <= set(names)
    assert importer_of("LSTM") is None
    with pytest.raises(ValueError, match="Conv must have one importer"):
        imports("Conv")(lambda n: 0)
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    own = {f"{schema.domain}::{schema.name}" for schema in get_all_operator_schema() if schema.domain}
    for name in names:  # ONNX knows every operator that is read, or ONNX Runtime does
        assert onnx.defs.has(name) or name in own, name


def test_operators_do_not_load_onnx():
    code = "import sys, workbench.ops, workbench.graph; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_axes_count_from_the_end():
    assert [from_end(a, 3) for a in (0, 2, -1, -3)] == [-3, -1, -1, -3]
    with pytest.raises(NotModelled, match="axis 3 of a rank-3 tensor"):
        from_end(3, 3)


def test_an_operator_that_an_operator_set_lacks_says_which_one_has_it():
    graph = instance("slice", {"axis": -1, "start": 0, "stop": 5, "step": 2}, [(2, 6)])
    with pytest.raises(ValueError, match="operator set must be 10 or newer for a slice with a step, got 9"):
        to_onnx(graph, opset=9)
    assert issubclass(OpsetTooOld, ValueError)


def test_export_as_passes_attributes_under_onnx_names():
    class Recorder:
        def node(self, op_type, inputs, **attrs):
            return op_type, tuple(inputs), attrs

    export = export_as("LeakyRelu", alpha="alpha")
    assert export(Recorder(), ["x"], {"alpha": 0.5}, [], None) == ("LeakyRelu", ("x",), {"alpha": 0.5})


def test_bounds_of_clip_may_be_infinite():
    graph = instance("clip", {"low": -math.inf, "high": 1.0}, [(2, 3)])
    clip = next(n for n in to_onnx(graph).graph.node if n.op_type == "Clip")
    assert list(clip.input)[1] == ""

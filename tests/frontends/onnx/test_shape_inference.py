"""Types and small constants of a model's values: inference, computation and limits."""

import resource

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

from tests.frontends.models import FLOAT, INT64, check, model, node, normal, ops, random_inputs, value, weight
from workbench.frontends import ModelError, import_onnx, run_model, to_onnx
from workbench.frontends.onnx.file import placeholder, type_proto
from workbench.frontends.onnx.shape_inference import KNOWN_ELEMENTS, Values, fits, show_type, static_type
from workbench.ops import TensorType


def ints(name, *numbers):
    return weight(name, numbers, np.int64)


def scalar(name, number):
    return weight(name, number, np.int64)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux


def test_shape_arithmetic_disappears():
    """Return a flattening as exporters write it: Shape, Gather, arithmetic, Concat, Reshape."""
    m = model(
        [
            node("Shape", "x", "s"), node("Gather", "s i0", "n"), node("Gather", "s i1", "c"),
            node("Mul", "c two", "c2"), node("Div", "c2 two", "c3"),
            node("Unsqueeze", "n ax", "n1"), node("Unsqueeze", "c3 ax", "c1"),
            node("Concat", "n1 c1 rest", "shape", axis=0), node("Reshape", "x shape", "r"),
            node("Cast", "c", "cf", to=FLOAT), node("Sqrt", "cf", "root"), node("Div", "r root", "y"),
        ],
        [value("x", ["n", 4, 2, 3])],
        [value("y", None)],
        [scalar("i0", 0), scalar("i1", 1), scalar("two", 2), ints("ax", 0), ints("rest", -1)],
    )  # fmt: skip
    imported = check(m, dims={"n": 2}, against=lambda feeds: {"y": feeds["x"].reshape(2, 4, 6) / 2})
    assert ops(imported.graph) == ["reshape", "div"]
    assert imported.coverage.opaque == {}
    assert imported.coverage.constant["Gather"] == 2
    assert imported.coverage.constant["Sqrt"] == 1


def test_a_shape_is_a_constant():
    m = model(
        [node("Shape", "x", "s"), node("Reshape", "x s", "y")], [value("x", [2, 3])], [value("y", [2, 3])]
    )
    assert import_onnx(m).coverage.constant == {"Shape": 1}
    check(m)


def test_every_form_of_constant_is_read():
    forms = [
        ("value", weight("", [[1.0, 2.0]])), ("value_float", 1.5), ("value_floats", [1.0, 2.0]),
        ("value_int", 3), ("value_ints", [1, 2, 3]),
    ]  # fmt: skip
    for name, content in forms:
        m = model([helper.make_node("Constant", [], ["y"], **{name: content})], [], [value("y", None, 0)])
        m.graph.output[0].ClearField("type")
        graph = import_onnx(m).graph
        expected = onnx.numpy_helper.to_array(content) if name == "value" else np.asarray(content)
        np.testing.assert_array_equal(graph.weights["y"].value(), expected)
        assert graph.output_types["y"].dtype == ("int64" if "int" in name else "float32")


def test_string_constants_stay_with_the_operators_that_read_them():
    label = helper.make_node("Constant", [], ["w"], value_strings=["a", "b"])
    m = model(
        [label, node("Equal", "x w", "y")],
        [value("x", [2], TensorProto.STRING)],
        [value("y", None, 9)],
        opset=19,
    )
    imported = import_onnx(m)
    assert imported.coverage.opaque == {"Equal": 1}
    assert not imported.graph.weights


def test_sparse_constants_are_stored_densely():
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", FLOAT, [1], [1.0]), helper.make_tensor("i", INT64, [1], [2]), [4]
    )
    constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
    m = model([constant, node("Add", "x w", "y")], [value("x", [4])], [value("y", [4])])
    (w,) = check(m).graph.weights.values()
    assert w.data.tolist() == [0, 0, 1, 0]


ABSURD = 1 << 40


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ([node("ConstantOfShape", "s", "b")], [ints("s", 3, ABSURD)]),
        ([node("Expand", "one s", "b")], [ints("s", 3, ABSURD), weight("one", [1.0])]),
        ([node("Tile", "one s", "b")], [ints("s", ABSURD), weight("one", [1.0])]),
        ([node("Range", "a s d", "c"), node("Cast", "c", "b", to=FLOAT)],
         [scalar("a", 0), scalar("s", ABSURD), scalar("d", 1)]),
        ([node("OneHot", "i s v", "b")], [ints("i", 1, 2), scalar("s", ABSURD), weight("v", [0.0, 1.0])]),
        ([node("Pad", "x s", "b")], [ints("s", 0, ABSURD)]),
    ],
    ids=lambda case: case[0].op_type if isinstance(case[0], onnx.NodeProto) else "",
)  # fmt: skip
def test_absurd_sizes_are_refused_before_anything_is_made(nodes, weights):
    m = model(
        [*nodes, node("ReduceSum", "b", "r", keepdims=0), node("Add", "x r", "y")],
        [value("x", [2])],
        [value("y", [2])],
        weights,
    )
    before = peak()
    with pytest.raises(ModelError, match=f"{nodes[0].op_type}.* must have at most"):
        import_onnx(m)
    assert peak() - before < 50_000


def test_an_input_of_absurd_size_is_refused():
    m = model([node("Relu", "x", "y")], [value("x", [ABSURD, 8])], [value("y", None)])
    with pytest.raises(ModelError, match=r"input 'x'.* must have at most"):
        import_onnx(m)


def test_large_generated_constants_take_no_memory():
    m = model(
        [node("ConstantOfShape", "s", "w", value=weight("", [0.5])), node("MatMul", "x w", "y")],
        [value("x", [1, 16000])],
        [value("y", [1, 16000])],
        [ints("s", 16000, 16000)],
    )  # 1 GiB if it were stored
    before = peak()
    imported = import_onnx(m)
    assert peak() - before < 50_000
    assert imported.graph.weights["w"].value().strides == (0, 0)
    assert imported.coverage.constant == {"ConstantOfShape": 1}


def test_large_constants_are_not_shape_arithmetic():
    big = KNOWN_ELEMENTS + 1
    m = model(
        [node("Mul", "w w", "v"), node("Add", "x v", "y")],
        [value("x", [big], INT64)],
        [value("y", [big], INT64)],
        [weight("w", np.ones(big), np.int64)],
    )
    assert import_onnx(m).coverage.opaque == {"Add": 1, "Mul": 1}


def test_random_numbers_are_not_drawn_at_import():
    m = model(
        [node("RandomNormal", "", "r", shape=[2]), node("Add", "x r", "y")],
        [value("x", [2])],
        [value("y", [2])],
    )
    graph = import_onnx(m).graph
    assert [r.deterministic for r in graph.opaques.values()] == [False]


def test_ill_typed_nodes_are_refused_with_their_operands():
    weights = [normal("w", 4, 5), ints("s", 4, -1), ints("one", 1)]
    for nodes, message in (
        (
            [node("MatMul", "x w", "y")],
            r"MatMul_y.*x: float32\[2, 3\], w: float32\[4, 5\]\): .*[Ii]ncompatible",
        ),
        ([node("Add", "x w", "y")], r"Add_y.*[Ii]ncompatible"),
        ([node("Reshape", "x s", "y")], r"Reshape_y.*x: float32\[2, 3\]"),
        ([node("Add", "x one", "y")], r"Add_y.*inconsistent type tensor\(int64\)"),
        ([node("Concat", "x w", "y", axis=0)], "Concat_y"),
        ([node("Transpose", "x", "y", perm=[0, 0])], "Transpose_y"),
        ([node("Split", "x", "y z", num_outputs=1 << 40)], "num_outputs is 1099511627776"),
        ([node("Split", "x", "y z", num_outputs=1)], "2 outputs, but num_outputs is 1"),
    ):
        m = model(nodes, [value("x", [2, 3])], [value("y", None)], weights, opset=18)
        with pytest.raises(ModelError, match=message):
            import_onnx(m)


def test_declared_types_fill_in_what_inference_does_not_know():
    thing = helper.make_node("Thing", ["x"], ["h"], domain="my.own")
    mine = [helper.make_opsetid("my.own", 1)]
    declared = model(
        [thing, node("Relu", "h", "y")], [value("x", [2, 3])], [value("y", [2, 4])], extra=mine,
        value_info=[value("h", [2, 4])],
    )  # fmt: skip
    imported = import_onnx(declared)
    assert imported.graph.operators() == {"opaque": 1, "relu": 1}
    silent = model([thing, node("Relu", "h", "y")], [value("x", [2, 3])], [value("y", [2, 4])], extra=mine)
    # Without a declaration the operator and its readers are kept together; the output's type is known.
    assert import_onnx(silent).graph.operators() == {"opaque": 1}
    silent.graph.output[0].type.tensor_type.ClearField("shape")
    assert import_onnx(silent).graph.operators() == {}  # without a known output type they form the tail


def test_a_declaration_that_contradicts_inference_does_not_count():
    m = model(
        [node("NonZero", "x", "n"), node("Cast", "n", "y", to=FLOAT)],
        [value("x", [2, 3])],
        [value("y", [2, 3, 4])],
    )
    graph = import_onnx(m).graph
    assert graph.operators() == {}
    assert [n.op_type for n in to_onnx(graph).graph.node] == ["NonZero", "Cast"]


def test_types_of_the_runtime_s_own_operators_are_asked_of_it():
    fused = helper.make_node("FusedMatMul", ["x", "w"], ["h"], domain="com.microsoft", transB=1)
    m = model(
        [fused, node("Relu", "h", "y")], [value("x", [2, 3])], [value("y", None)], [normal("w", 4, 3)],
        extra=[helper.make_opsetid("com.microsoft", 1)],
    )  # fmt: skip
    imported = check(m)
    assert imported.graph.operators() == {"opaque": 1, "relu": 1}
    assert imported.coverage.opaque == {"com.microsoft::FusedMatMul": 1}


def test_operators_that_only_the_runtime_has_in_the_default_domain_are_read():
    """Test operators that ONNX Runtime's own optimisers write into models of operator sets before 17."""
    nodes = [
        node("LayerNormalization", "x g b", "h", axis=-1),
        node("SimplifiedLayerNormalization", "h g", "s", axis=-1),
        node("Relu", "s", "y"),
    ]
    m = model(nodes, [value("x", [2, 4])], [value("y", [2, 4])], [normal("g", 4), normal("b", 4)], 14)
    graph = import_onnx(m).graph
    assert graph.operators() == {"layernorm": 1, "opaque": 1, "relu": 1}
    written = to_onnx(graph)
    feeds = random_inputs(graph)
    np.testing.assert_allclose(run_model(written, feeds)["y"], run_model(m, feeds)["y"], rtol=1e-5)


def test_types_are_compared_as_far_as_they_are_stated():
    whole = type_proto(TensorType("float32", (2, 3)))
    partial = helper.make_tensor_type_proto(FLOAT, ["n", 3])
    unknown = TypeProto()
    assert fits(whole, partial)
    assert fits(partial, unknown)
    assert not fits(whole, helper.make_tensor_type_proto(FLOAT, [2, 3, 1]))
    assert not fits(whole, helper.make_tensor_type_proto(INT64, [2, 3]))
    assert not fits(whole, helper.make_tensor_type_proto(FLOAT, [2, 4]))
    sequence = helper.make_sequence_type_proto(whole)
    assert not fits(sequence, whole)
    assert static_type(whole) == TensorType("float32", (2, 3))
    assert static_type(partial) is None
    assert static_type(sequence) is None
    assert [show_type(t) for t in (whole, partial, unknown, sequence)] == [
        "float32[2, 3]", "float32[n, 3]", "unknown", "a value that is not a tensor",
    ]  # fmt: skip


def test_evaluated_values_have_the_inferred_type():
    m = model([], [], [value("y", [1])])
    values = Values(m)
    values.add_constant("a", np.array([5, 7]))
    values.visit(node("ReduceSum", "a", "s", keepdims=0))
    assert values.known["s"] == 12
    assert values.tensor("s") == TensorType("int64", ())


def test_the_limit_on_elements_can_be_raised(monkeypatch):
    m = model([node("Relu", "x", "y")], [value("x", [10**9])], [value("y", None)])
    before = peak()
    with pytest.raises(ModelError, match=r"must have at most .*, got 1e\+09 \(try .*_ELEMENTS=1000000000"):
        import_onnx(m)
    monkeypatch.setenv("WORKBENCH_MAX_ELEMENTS", "1000000000")
    assert import_onnx(m).graph.output_types["y"].shape == (10**9,)
    assert peak() - before < 50_000


def test_the_limit_is_none_of_weights_whose_data_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.frontends.model.MAX_VALUE_ELEMENTS", 1000)
    table = placeholder("table", TensorType("float32", (64, 50)), ("weights", 0))
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(64 * 50 * 4)  # a sparse file

    def imported(*nodes):
        m = model(
            [node("Gather", "table i", "rows"), *nodes], [value("i", [3], INT64)], [value("rows", None)]
        )
        m.graph.output.extend(value(o, None) for n in nodes for o in n.output[:1])
        m.graph.initializer.append(table)
        onnx.save(m, tmp_path / "m.onnx")
        return import_onnx(tmp_path / "m.onnx").graph.output_types

    assert imported(node("Transpose", "table", "turned"))["turned"].shape == (50, 64)
    with pytest.raises(ModelError, match=r"tensor 'both' of shape \(128, 50\) must have at most"):
        imported(node("Concat", "table table", "both", axis=0))


def test_inputs_are_limited_together():
    inputs = [value(f"x{i}", [1 << 27]) for i in range(3)]
    m = model([node("Sum", "x0 x1 x2", "y")], inputs, [value("y", None)])
    with pytest.raises(ModelError, match="all 3 inputs together"):
        import_onnx(m)


@pytest.mark.parametrize(
    ("element", "found"),
    [(None, [0.0, 0.0]), (weight("", [0.5]), [0.5, 0.5]), (ints("", 3), [3, 3])],
    ids=["without a value", "float", "integer"],
)
def test_small_generated_constants_are_computed_when_read(element, found):
    given = {} if element is None else {"value": element}
    nodes = [
        node("ConstantOfShape", "s", "w", **given),
        node("Cast", "w", "c", to=FLOAT),
        node("Add", "x c", "y"),
    ]
    m = model(nodes, [value("x", [2])], [value("y", [2])], [ints("s", 2)])
    (w,) = check(m).graph.weights.values()
    assert w.data.tolist() == found

"""The units and the tail in which a model is imported."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import workbench
from tests.frontends.models import FLOAT, INT64, check, model, node, normal, ops, value, weight
from workbench.frontends import ModelError, import_onnx, run_model, to_onnx
from workbench.frontends.onnx.file import type_proto
from workbench.frontends.onnx.import_units import live_nodes, units
from workbench.frontends.onnx.shape_inference import Values
from workbench.ops import TensorType


def test_nodes_that_no_output_needs_are_left_out():
    nodes = [node("Relu", "x", "a"), node("Neg", "x", "b"), node("Exp", "a", "y")]
    assert [n.op_type for n in live_nodes(nodes, ["y"])] == ["Relu", "Exp"]
    m = model(nodes, [value("x", [2])], [value("y", [2])])
    imported = import_onnx(m)
    assert imported.coverage.unused == 1
    assert "1 unused" in repr(imported.coverage)
    assert imported.graph.operators() == {"relu": 1, "exp": 1}


def test_data_dependent_shapes_are_kept_together_and_the_rest_is_modelled():
    """Return a model in which only the shape between NonZero and the sum depends on data."""
    m = model(
        [
            node("Relu", "x", "r"), node("NonZero", "r", "n"), node("Cast", "n", "f", to=FLOAT),
            node("ReduceSum", "f axis", "s", keepdims=0), node("Mul", "s w", "y"),
        ],
        [value("x", [3, 4])], [value("y", [2])], [weight("axis", [1], np.int64), normal("w", 2)],
    )  # fmt: skip
    imported = check(m)
    assert ops(imported.graph) == ["relu", "opaque", "mul"]
    assert imported.coverage.opaque == {"NonZero": 1, "Cast": 1, "ReduceSum": 1}
    reasons = {reason for _, reason in imported.coverage.reasons()}
    assert reasons == {"in a region around 'n', which is int64[2, ?]"}


def test_sequences_are_kept_together():
    m = model(
        [
            node("Neg", "x", "m"), node("SequenceConstruct", "x m", "seq"),
            node("SequenceAt", "seq one", "at"), node("Relu", "at", "y"),
        ],
        [value("x", [3])], [value("y", [3])], [weight("one", 1, np.int64)],
    )  # fmt: skip
    imported = check(m)
    assert ops(imported.graph) == ["neg", "opaque", "relu"]
    (record,) = imported.graph.opaques.values()
    assert record.op_type == "SequenceConstruct+SequenceAt"


def test_a_region_takes_along_what_lies_between_its_nodes():
    """The typed sum over ``n`` leads back into the region: outside of it, it would create a cycle."""
    m = model(
        [
            node("NonZero", "x", "n"), node("Shape", "n", "d"), node("Cast", "d", "df", to=FLOAT),
            node("Cast", "n", "nf", to=FLOAT), node("ReduceMax", "df", "top", keepdims=0),
            node("Mul", "nf top", "p"), node("ReduceSum", "p", "y", keepdims=0),
        ],
        [value("x", [3, 4])], [value("y", [])],
    )  # fmt: skip
    imported = check(m)
    assert ops(imported.graph) == ["opaque"]
    assert len(imported.coverage.uses) == 7


def test_two_regions_stay_two():
    parts = []
    for i in "ab":
        parts += [
            node("NonZero", f"x{i}", f"n{i}"), node("Cast", f"n{i}", f"f{i}", to=FLOAT),
            node("ReduceSum", f"f{i}", f"s{i}", keepdims=0),
        ]  # fmt: skip
    m = model([*parts, node("Add", "sa sb", "y")], [value("xa", [3]), value("xb", [3])], [value("y", [])])
    imported = check(m)
    assert imported.graph.operators() == {"opaque": 2, "add": 1}
    assert len(imported.graph.opaques) == 1  # the two operators are equal


def test_a_value_of_a_region_that_leaves_it_is_a_result():
    m = model(
        [
            node("Unique", "x", "u i"), node("Shape", "u", "d"), node("Cast", "d", "c", to=FLOAT),
            node("ReduceSum", "u", "s", keepdims=0), node("Add", "c s", "y"),
        ],
        [value("x", [5])], [value("d", [1], INT64), value("y", [1])],
    )  # fmt: skip
    imported = check(m)
    assert list(imported.graph.output_types) == ["d", "y"]
    assert imported.graph.operators()["add"] == 1


def test_units_of_typed_nodes_are_the_nodes():
    nodes = [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Exp", "a", "c")]
    values = Values(model(nodes, [value("x", [2])], [value("b", [2])]))
    for name in "xabc":
        values.types[name] = type_proto(TensorType("float32", (2,)))
    found = units(nodes, ["b", "a"], values)
    assert [len(u.nodes) for u in found] == [1, 1, 1]
    assert [set(u.leaving) for u in found] == [{"a"}, {"b"}, set()]


def same(m, feeds):
    """Import and export a model; both must give equal values of every kind."""
    imported = import_onnx(m)
    written = to_onnx(imported.graph)
    for side in ("input", "output"):
        names = [[v.name for v in getattr(g.graph, side)] for g in (m, written)]
        assert names[0] == names[1]
    expected, found = run_model(m, feeds), run_model(written, feeds)
    for name, array in expected.items():
        for a, b in zip(*((v if isinstance(v, list) else [v]) for v in (array, found[name])), strict=True):
            np.testing.assert_array_equal(a, b)
    return imported, written


X = {"x": np.float32([[1, 0, 2], [0, 0, 3]])}


def test_what_comes_before_an_output_of_unknown_shape_is_modelled():
    m = model(
        [
            node("MatMul", "x w", "h"),
            node("Relu", "h", "r"),
            node("NonZero", "r", "n"),
            node("Cast", "n", "y", to=FLOAT),
            node("Exp", "r", "z"),
        ],
        [value("x", [2, 3])],
        [value("y", [2, None]), value("z", [2, 3])],
        [normal("w", 3, 3)],
    )
    imported, written = same(m, X)
    assert imported.graph.operators() == {"matmul": 1, "relu": 1, "exp": 1}
    assert list(imported.graph.output_types) == ["z", "r"]
    assert imported.coverage.opaque == {"Cast": 1, "NonZero": 1}
    assert imported.coverage.reasons() == {
        ("NonZero", "the type of its result is known only when the model runs"): 1,
        ("Cast", "it comes after the part that can be modelled"): 1,
    }
    assert "2 nodes are kept unchanged after the graph" in imported.coverage.notes[0]
    assert [o.name for o in to_onnx(imported.graph, whole=False).graph.output] == ["z", "r"]
    result = workbench.optimize(m)
    assert result.certificate.passed
    np.testing.assert_array_equal(run_model(to_onnx(result.graph), X)["y"], run_model(written, X)["y"])


def test_a_model_that_is_only_a_tail_passes_through():
    imported, _ = same(model([node("NonZero", "x", "y")], [value("x", [2, 3])], [value("y", None, INT64)]), X)
    assert imported.graph.operators() == {}
    assert workbench.optimize(imported.graph).certificate.passed


def test_an_operator_of_somebody_else_without_a_declared_result_says_what_to_declare():
    nodes = [node("Mine", "x", "m", domain="mine"), node("Relu", "m", "y")]
    m = model(nodes, [value("x", [2, 3])], [helper.make_tensor_value_info("y", FLOAT, None)])
    m.opset_import.append(helper.make_opsetid("mine", 1))
    reasons = import_onnx(m).coverage.reasons()
    assert ("mine::Mine", "no type is declared for its result: add it to the model's value_info") in reasons


def test_sequences_go_in_and_out():
    inputs = [value("x", [2, 3]), helper.make_tensor_sequence_value_info("s", FLOAT, None)]
    outputs = [
        value("y", [2, 3]),
        helper.make_tensor_sequence_value_info("t", FLOAT, None),
        value("at", None),
    ]
    nodes = [
        node("Relu", "x", "y"),
        node("SequenceInsert", "s y", "t"),
        node("SequenceAt", "t one", "a"),
        node("Mul", "a big", "at"),
    ]
    big = np.full((2, 3), 2, np.float32)
    m = model(nodes, inputs, outputs, [weight("one", 1, np.int64), weight("big", big)])
    imported, _ = same(m, X | {"s": [np.ones((1, 2), np.float32)]})
    assert imported.graph.operators() == {"relu": 1}


def test_only_sequences():
    kinds = [helper.make_tensor_sequence_value_info(n, FLOAT, None) for n in "sty"]
    m = model([node("SequenceErase", "s", "t"), node("Identity", "t", "y")], kinds[:1], kinds[2:])
    imported, _ = same(m, {"s": [np.ones(2, np.float32), np.ones(3, np.float32)]})
    assert workbench.optimize(imported.graph).certificate.passed


def test_a_weight_that_both_read_is_stored_once():
    nodes = [
        node("Add", "x w", "y"),
        node("Mul", "x w", "h"),
        node("Relu", "h", "r"),
        node("NonZero", "r", "n"),
        node("Gather", "w n", "g", axis=1),
    ]
    outputs = [value("y", [2, 3]), value("g", None)]
    m = model(nodes, [value("x", [2, 3])], outputs, [weight("w", np.arange(6).reshape(2, 3) % 2)])
    _, written = same(m, {"x": np.ones((2, 3), np.float32)})
    assert [t.name for t in written.graph.initializer] == ["w"]


def test_local_functions_go_along():
    body = [
        helper.make_node("NonZero", ["a"], ["b"]),
        helper.make_node("Unheard", ["b"], ["c"], domain="other"),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("other", 1)]
    function = helper.make_function("own", "Find", ["a"], ["c"], body, imports)
    m = model(
        [helper.make_node("Find", ["h"], ["y"], domain="own"), node("Relu", "x", "h")],
        [value("x", [2, 3])],
        [value("y", [2, None], INT64)],
        extra=[helper.make_opsetid("own", 1), helper.make_opsetid("other", 1)],
        functions=[function],
    )
    graph = import_onnx(m).graph
    assert graph.operators() == {"relu": 1}
    assert "Unheard" in {n.op_type for n in to_onnx(graph).graph.node} | {
        n.op_type for f in to_onnx(graph).functions for n in f.node
    }


def test_names_of_the_tail_are_not_taken():
    nodes = [
        node("Mul", "x x", "v0"),
        node("Neg", "v0", "h"),
        node("NonZero", "h", "v1"),
        node("Shape", "v1", "y"),
    ]
    same(model(nodes, [value("x", [2, 3])], [value("y", [2], INT64), value("v1", None, INT64)]), X)


def test_an_output_without_any_type_is_refused():
    thing = helper.make_node("Thing", ["x"], ["y"], domain="my.own")
    m = model([thing], [value("x", [2])], [], extra=[helper.make_opsetid("my.own", 1)])
    m.graph.output.add(name="y")
    with pytest.raises(ModelError, match="output 'y' has no type: declare one"):
        import_onnx(m)


def test_optionals():
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])
    optional = helper.make_value_info("o", helper.make_optional_type_proto(kind))
    m = model(
        [node("OptionalHasElement", "o", "has"), node("Relu", "x", "y")],
        [optional, value("x", [2, 3])],
        [value("has", [], TensorProto.BOOL), value("y", [2, 3])],
        opset=18,
    )
    imported = import_onnx(m)
    assert imported.graph.operators() == {"relu": 1}
    assert [v.name for v in to_onnx(imported.graph).graph.input] == ["o", "x"]

import numpy as np

from tests.frontends.models import FLOAT, INT64, check, model, node, normal, ops, value, weight
from workbench.frontends import import_onnx
from workbench.frontends.onnx.import_units import live_nodes, units
from workbench.frontends.onnx.shape_inference import Values, type_proto
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

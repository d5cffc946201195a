import pickle

import numpy as np
import pytest

from workbench.graph import Graph, GraphBuilder, GraphError, Node, Weight
from workbench.graph.graph import cleaned_places, numbers_in, result_type, without_neutral
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.spec import OpSpec


def small():
    b = GraphBuilder("small")
    x = b.input("x", (2, 8))
    w = b.weight((8, 4))
    y = b.op("relu", b.op("matmul", x, w))
    return b.graph({"y": y, "again": b.op("matmul", x, w)})


def test_equal_applications_are_shared():
    graph = small()
    assert graph.operators() == {"matmul": 1, "relu": 1}
    assert graph.nodes[graph.output_ids[1]].op == "matmul"


def test_a_graph_cannot_be_changed():
    graph = small()
    with pytest.raises(AttributeError):
        graph.name = "other"
    with pytest.raises(TypeError):
        graph.weights["w0"] = None


def test_faces():
    graph = small()
    assert len(repr(graph).splitlines()) <= 12
    text = graph.text()
    assert "%2 = matmul(%0, %1) : float32[2, 4]" in text
    assert "return y = %3" in text


def test_structural_hash_sees_structure_not_order():
    def build(flip):
        b = GraphBuilder()
        x = b.input("x", (4, 4))
        ops = ["relu", "tanh"]
        made = {op: b.op(op, x) for op in (reversed(ops) if flip else ops)}
        return b.graph({"y": b.op("add", made["relu"], made["tanh"])})

    assert build(False).structural_hash() == build(True).structural_hash()
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    other = b.graph({"y": b.op("add", b.op("tanh", x), b.op("relu", x))})
    assert other.structural_hash() != build(False).structural_hash()


def test_reachable_constant_and_readers():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    w = b.op("transpose", b.weight((4, 4)), perm=(1, 0))
    graph = b.graph({"y": b.op("matmul", x, w)})
    assert graph.constant() == [False, True, True, False]
    assert all(graph.reachable())
    assert graph.readers == ((3,), (2,), (3,), ())


def test_an_operator_without_operands_is_constant():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"y": b.op("matmul", x, b.op("relu", b.op("eye", size=4)))})
    assert graph.constant() == [False, True, True, False]
    assert "%1 = eye[size=4] : float32[4, 4]" in graph.text()


def test_unused_inputs_stay_and_unused_nodes_go():
    b = GraphBuilder()
    b.input("unused", (3,))
    x = b.input("x", (4,))
    b.op("tanh", x)
    graph = b.graph({"y": b.op("relu", x)})
    assert list(graph.input_types) == ["unused", "x"]
    assert graph.operators() == {"relu": 1}


FLOAT = TensorType("float32", (2,))
THREE = TensorType("float32", (3,))


@pytest.mark.parametrize(
    ("nodes", "outputs", "message"),
    [
        ((Node("relu", (0,), (), FLOAT),), (("y", 0),), "must read earlier nodes only"),
        ((Node("weight", (), ("w",), FLOAT),), (("y", 0),), "must refer to a record of the graph, got 'w'"),
        ((Node("input", (), ("x",), FLOAT), Node("relu", (0,), (), THREE)), (("y", 1),), "must have type"),
        ((Node("input", (), ("x",), FLOAT),), (), "must have at least one output"),
        ((Node("input", (), ("x",), FLOAT),), (("y", 0), ("y", 0)), "output names must be unique"),
        ((Node("input", (), ("x",), FLOAT),), (("y", 5),), "output y must be a node from 0 to 0, got 5"),
    ],
)  # fmt: skip
def test_ill_formed_graphs_are_refused(nodes, outputs, message):
    with pytest.raises(GraphError, match=message):
        Graph(nodes, (), outputs)


def test_ill_typed_applications_are_refused():
    b = GraphBuilder()
    x = b.input("x", (2, 8))
    with pytest.raises(TypeMismatch, match=r"matmul: inner extents differ"):
        b.op("matmul", x, b.weight((3, 4)))
    with pytest.raises(TypeMismatch, match="takes 2 operands"):
        b.op("matmul", x)
    with pytest.raises(TypeMismatch, match="no attribute"):
        b.op("relu", x, slope=1)
    with pytest.raises(GraphError, match="operands must be from 0 to 1, got 99"):
        b.op("relu", 99)
    with pytest.raises(GraphError, match="already"):
        b.input("x", (2,))
    with pytest.raises(LookupError, match="did you mean relu"):
        b.op("rleu", x)


def test_absurd_sizes_are_refused_before_memory_is_asked_for():
    b = GraphBuilder()
    with pytest.raises(TypeMismatch, match="the limit"):
        b.weight((1 << 30, 1 << 30))
    x = b.input("x", (1 << 20, 1 << 20))
    with pytest.raises(TypeMismatch, match="the limit"):
        b.op("expand", x, shape=(1 << 20, 1 << 20, 1 << 20))


def test_splits_cover_their_axis():
    b = GraphBuilder()
    x = b.input("x", (2, 8))
    assert [b.type(p).shape for p in b.split(x, 1, (3, 5))] == [(2, 3), (2, 5)]
    with pytest.raises(TypeMismatch, match=r"must be positive and add up to axis 1 .*, got \[3, 4\]"):
        b.split(x, 1, (3, 4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (64, 32, 3, 3)], ids=str)
def test_a_generated_weight_is_an_array_of_its_type(dtype, shape):
    kind = TensorType(dtype, shape)
    data = Weight(kind, seed=4).value()
    assert TensorType.of(data) == kind
    if dtype.startswith(("float", "bfloat")) and len(shape) == 4:
        data = data.astype(np.float64)
        assert abs(data.mean()) < 1e-2 / np.sqrt(288)
        assert data.std() == pytest.approx(1 / np.sqrt(288), rel=0.02)


def test_weights():
    first, second = Weight(FLOAT, seed=1), Weight(FLOAT, seed=2)
    np.testing.assert_array_equal(first.value(), Weight(FLOAT, seed=1).value())
    assert not np.array_equal(first.value(), second.value())
    with pytest.raises(TypeMismatch, match="must have its dtype and shape"):
        Weight(FLOAT, np.zeros(3, np.float32))


def test_pickling_and_skeleton():
    graph = small()
    again = pickle.loads(pickle.dumps(graph))
    assert again.structural_hash() == graph.structural_hash()
    assert graph.skeleton().structural_hash() == graph.structural_hash()


def test_extents_are_whole_numbers_and_data_is_an_array():
    b = GraphBuilder("wrong")
    assert b.type(b.input("fine", (np.int64(2), 3))).shape == (2, 3)
    for shape in ((2.5, 3), "ab", (None, 3)):
        with pytest.raises(TypeMismatch, match="a shape must consist of whole numbers"):
            b.input("x", shape)
        with pytest.raises(TypeMismatch, match="a shape must consist of whole numbers"):
            b.weight(shape)
    with pytest.raises(TypeMismatch, match="must be an array, got 'float64' \\(try dtype='float64'\\)"):
        b.weight((2, 3), "float64")


X = TensorType("float32", (2, 3))


def test_the_type_is_that_of_the_operator():
    w = TensorType("float32", (3, 5))
    attrs = spec_of("matmul").pack({"act": "none"})
    for _ in range(2):
        assert result_type("matmul", [X, w], attrs) == TensorType("float32", (2, 5))


def test_an_error_is_raised_each_time():
    for _ in range(2):
        with pytest.raises(TypeMismatch, match="inner extents differ"):
            result_type("matmul", [X, X], ("none",))


def test_an_attribute_without_a_hash_is_inferred_anew():
    with pytest.raises(TypeMismatch, match="attributes none, got 1"):
        result_type("relu", [X], [["a list"]])


def test_a_replaced_operator_is_inferred_anew(monkeypatch):
    from workbench.ops import registry

    assert result_type("relu", [X], ()) == X
    other = OpSpec("relu", 1, lambda t, xs, attrs: TensorType("float32", (7,)), None)
    monkeypatch.setitem(registry._TABLE, "relu", other)
    monkeypatch.setattr(
        registry, "_replaced", -1
    )  # a number that no replacement has, since types are remembered by it
    assert result_type("relu", [X], ()) == TensorType("float32", (7,))


def test_weights_and_numbers_are_found():
    b = GraphBuilder()
    x = b.input("x", (2,))
    w, v = b.weight(data=np.ones(2, np.float32)), b.weight((2,))
    half = b.op("scalar", value=0.5)
    y = b.op("add", b.op("mul", b.op("mul", x, w), v), half)
    graph = b.graph({"y": y})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"weight": 1.0, "scalar": 0.5}


def test_what_is_computed_from_numbers_alone_is_one():
    b = GraphBuilder()
    ratio = b.op("sqrt", b.op("div", b.op("scalar", value=2.0), b.op("pi")))
    graph = b.graph({"y": b.op("mul", b.input("x", ()), ratio)})
    named = {graph.nodes[i].op: n for i, n in numbers_in(graph).items()}
    assert named == {"scalar": 2.0, "pi": 3.1415927, "div": 0.63661975, "sqrt": 0.7978845}


NOTHING = {
    "times one": lambda b, x: b.op("mul", x, filled(b, (3,), 1)),
    "one times": lambda b, x: b.op("mul", filled(b, (2, 1), 1), x),
    "over one": lambda b, x: b.op("div", x, filled(b, (), 1)),
    "plus zero": lambda b, x: b.op("add", x, filled(b, (2, 3), 0)),
    "minus zero": lambda b, x: b.op("sub", x, filled(b, (1,), 0)),
    "a slice of everything": lambda b, x: b.op("slice", x, axis=-1, start=0, stop=3),
    "a pad of nothing": lambda b, x: b.op("pad", x),
    "its own shape": lambda b, x: b.op("expand", b.op("reshape", x, shape=(2, 3)), shape=(2, 3)),
    "its own order": lambda b, x: b.op("transpose", x, perm=(0, 1)),
    "its own type": lambda b, x: b.op("cast", b.op("identity", x), to="float32"),
}
SOMETHING = {
    "one more axis": lambda b, x: b.op("mul", x, filled(b, (1, 1, 1), 1)),
    "more rows": lambda b, x: b.op("add", b.op("slice", x, axis=-2, start=0, stop=1), filled(b, (2, 3), 0)),
    "zero minus": lambda b, x: b.op("sub", filled(b, (), 0), x),
    "one over": lambda b, x: b.op("div", filled(b, (), 1), x),
    "times zero": lambda b, x: b.op("mul", x, filled(b, (), 0)),
    "another type": lambda b, x: b.op("cast", x, to="float16"),
    "another order": lambda b, x: b.op("transpose", b.op("matmul", x, b.weight((3, 2))), perm=(1, 0)),
}


def filled(b, shape, number):
    return b.weight(data=np.full(shape, number, np.float32))


@pytest.mark.parametrize("case", NOTHING)
def test_an_operator_that_leaves_a_value_as_it_is_goes(case):
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (2, 3)))
    found = without_neutral(b.graph({"y": NOTHING[case](b, x), "z": x}))
    assert found.operators() == {"relu": 1}
    assert found.outputs[0][1] == found.outputs[1][1]


@pytest.mark.parametrize("case", SOMETHING)
def test_an_operator_that_changes_shape_type_or_number_stays(case):
    b = GraphBuilder()
    graph = b.graph({"y": SOMETHING[case](b, b.input("x", (2, 3)))})
    assert without_neutral(graph) is graph


def test_the_places_of_a_cleaned_graph_have_the_values_of_the_given_one():
    b = GraphBuilder()
    x = b.input("x", (4, 8))
    y = b.op("mul", x, b.weight(data=np.float32(1)))
    z = b.op("relu", b.op("reshape", y, shape=(4, 8)))
    graph = b.graph({"z": b.op("exp", z), "y": y})
    cleaned = without_neutral(graph)
    places = cleaned_places(graph, cleaned)
    shown = [None if i < 0 else cleaned.nodes[i].op for i in places]
    assert shown == ["input", None, "input", "input", "relu", "exp"]

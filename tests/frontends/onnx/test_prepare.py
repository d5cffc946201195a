"""Models before import: dimensions, versions, names, order, and what nodes read."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.models import FLOAT, INT64, check, model, node, normal, value, weight
from workbench.frontends import ModelError, import_onnx, load_onnx, to_onnx
from workbench.frontends.onnx import prepare
from workbench.frontends.onnx.file import Apart, apart_of
from workbench.frontends.onnx.opaque import Fresh, inner_names, rename
from workbench.frontends.onnx.prepare import captured, read_by, read_in_place, walk
from workbench.frontends.runtime import run_model, run_session, session


def relu(shape, **more):
    return model([node("Relu", "x", "y")], [value("x", shape)], [value("y", None)], **more)


def test_named_dimensions_are_bound_everywhere():
    m = model(
        [node("Add", "x z", "y")],
        [value("x", ["batch", "n"]), value("z", ["batch", 1])],
        [value("y", ["batch", "n"])],
    )
    graph = load_onnx(m, dims={"batch": 3, "n": np.int64(5)})
    assert {k: t.shape for k, t in graph.input_types.items()} == {"x": (3, 5), "z": (3, 1)}
    assert graph.output_types["y"].shape == (3, 5)


def test_an_unbound_dimension_is_named_with_what_to_pass():
    m = model(
        [node("Add", "x z", "y")], [value("x", ["batch", 4]), value("z", ["batch", "m"])], [value("y", None)]
    )
    with pytest.raises(ModelError) as refusal:
        import_onnx(m)
    text = str(refusal.value)
    assert "axis 0 of input 'x' is the unbound dimension 'batch'" in text
    assert "axis 1 of input 'z' is the unbound dimension 'm'" in text
    assert "dims={'batch': 1, 'm': 128}" in text
    assert refusal.value.on_command_line.endswith("Bind it, as in --dim batch=1 --dim m=128")


def test_a_dimension_without_a_name_is_called_by_its_place():
    m = relu([None, 4])
    with pytest.raises(ModelError, match=r"unbound dimension 'x\[0\]'.*dims=\{'x\[0\]': 1\}"):
        import_onnx(m)
    assert load_onnx(m, dims={"x[0]": 7}).input_types["x"].shape == (7, 4)
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert load_onnx(m, dims={"x[0]": 7}).input_types["x"].shape == (7, 4)


def test_a_named_dimension_can_be_bound_by_its_place_too():
    assert load_onnx(relu(["batch", 4]), dims={"x[0]": 2}).input_types["x"].shape == (2, 4)


def test_a_whole_shape_can_be_given():
    for shape in (None, ["a", 4], [None, None]):
        graph = load_onnx(relu(shape), dims={"x": (3, 4)})
        assert graph.output_types["y"].shape == (3, 4)
    with pytest.raises(ModelError, match="input 'x' has no shape at all"):
        load_onnx(relu(None))
    with pytest.raises(ModelError, match=r"must fit \[None, 4\] in the model, got \(3, 5\)"):
        load_onnx(relu(["a", 4]), dims={"x": (3, 5)})


@pytest.mark.parametrize("extent", [0, -1, 2.5, "3", True, None])
def test_extents_are_positive_integers(extent):
    with pytest.raises(ModelError, match="must be a positive integer"):
        load_onnx(relu(["batch", 4]), dims={"batch": extent})


def test_a_dimension_that_does_not_exist_gets_the_nearest():
    with pytest.raises(ModelError, match=r"dims must name .*, got 'bacth'.*did you mean 'batch'\?"):
        load_onnx(relu(["batch", 4]), dims={"batch": 1, "bacth": 1})
    with pytest.raises(
        ModelError, match="dims must name a dimension of an input that is not bound, got 'batch'"
    ):
        load_onnx(relu([3, 4]), dims={"batch": 1})
    with pytest.raises(ModelError, match=r"got 'z'; there are: batch, x"):
        load_onnx(relu(["batch", 4]), dims={"batch": 1, "z": 1})


def test_operator_sets_out_of_range_are_refused():
    newest = onnx.defs.onnx_opset_version()
    for opset, message in (
        (newest + 1, "try a newer onnx"),
        (6, "set from 7 on, got 6"),
        (0, "from 7 on, got 0"),
    ):
        m = relu([2])
        m.opset_import[0].version = opset
        with pytest.raises(ModelError, match=message):
            load_onnx(m)
    m = relu([2])
    del m.opset_import[:]
    with pytest.raises(ModelError, match="no operator set"):
        load_onnx(m)
    m = relu([2])
    m.ir_version = 99
    with pytest.raises(ModelError, match=r"IR version up to .*, got 99"):
        load_onnx(m)


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_operator_set_is_read(opset):
    m = model(
        [node("Conv", "x w b", "c", auto_pad="SAME_UPPER", strides=[2, 2]), node("Relu", "c", "y")],
        [value("x", [1, 3, 7, 7])],
        [value("y", [1, 4, 4, 4])],
        [normal("w", 4, 3, 3, 3), normal("b", 4)],
        opset,
    )
    graph = import_onnx(m).graph
    assert graph.operators() == {"reshape": 1, "conv2d": 1, "relu": 1}
    if opset <= 26:
        check(m)


def test_the_long_name_of_the_default_domain_is_read():
    m = relu([2, 3])
    m.graph.node[0].domain = "ai.onnx"
    m.opset_import[0].domain = "ai.onnx"
    assert load_onnx(m).operators() == {"relu": 1}


def test_a_cycle_is_shown():
    m = model(
        [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")],
        [value("x", [2])],
        [value("y", [2])],
    )
    with pytest.raises(ModelError, match=r"the model has a cycle: node .*'Add_a'.* → .*'Relu_b'.* → "):
        load_onnx(m)


def test_nodes_in_another_order_are_sorted():
    m = model([node("Relu", "a", "y"), node("Neg", "x", "a")], [value("x", [2])], [value("y", [2])])
    assert load_onnx(m).operators() == {"neg": 1, "relu": 1}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", "q", "y")], "node Relu 'Relu_y' .* reads 'q', which no node"),
        (
            [node("Relu", "x", "y"), node("Neg", "x", "y")],
            "node Relu 'Relu_y' .* and node Neg 'Neg_y' .* both make 'y'",
        ),
        ([node("Relu", "x", "x")], "makes 'x', which is an input"),
        ([node("Relu", "x", "z")], "output 'y' is not made by any node"),
        ([node("Relu", "x", "y", axis=3)], "Unrecognized attribute: axis"),
        ([node("Concat", "x", "y")], "Required attribute 'axis' is missing"),
        ([node("Add", "x", "y")], "Add_y.* input size 1"),
        ([node("Rellu", "x", "y")], "node Rellu .*operator set 17 has no such operator"),
        ([helper.make_node("Thing", ["x"], ["y"], domain="my.own")], "No opset import for domain 'my.own'"),
        ([node("If", "x", "y")], "Required attribute"),
    ],
)
def test_malformed_graphs_are_refused_with_the_node(nodes, message):
    m = model(nodes, [value("x", [2])], [value("y", [2])])
    with pytest.raises(ModelError, match=message):
        load_onnx(m)


def test_repeated_names_are_refused():
    m = relu([2])
    m.graph.output.append(m.graph.output[0])
    with pytest.raises(ModelError, match="output names repeat: y, y"):
        load_onnx(m)
    m = model(
        [node("Add", "x w", "y")], [value("x", [2])], [value("y", [2])], [normal("w", 2), normal("w", 2)]
    )
    with pytest.raises(ModelError, match="two initializers are called 'w'"):
        load_onnx(m)
    m = relu([2])
    m.graph.input.append(m.graph.input[0])
    with pytest.raises(ModelError, match="is not valid ONNX"):
        load_onnx(m)


def test_a_model_without_outputs_is_refused():
    m = relu([2])
    del m.graph.output[:]
    with pytest.raises(ModelError, match="no outputs"):
        load_onnx(m)


def test_inputs_that_are_not_tensors_stay_inputs():
    m = relu([2])
    m.graph.input.insert(0, helper.make_tensor_sequence_value_info("s", FLOAT, None))
    graph = load_onnx(m)
    assert list(graph.input_types) == ["x"]
    assert [v.name for v in to_onnx(graph).graph.input] == ["s", "x"]


def test_sparse_initializers_are_stored_densely():
    m = model([node("Add", "x w", "y")], [value("x", [4])], [value("y", [4])], [normal("w", 4)])
    del m.graph.initializer[:]
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("w", FLOAT, [1], [1.0]), helper.make_tensor("i", INT64, [1], [2]), [4]
    )
    m.graph.sparse_initializer.append(sparse)
    (w,) = check(m).graph.weights.values()
    assert w.data.tolist() == [0, 0, 1, 0]
    sparse.indices.int64_data[0] = 4
    m.graph.sparse_initializer[0].CopyFrom(sparse)
    with pytest.raises(ModelError, match=r"the sparse tensor 'w' of shape \(4,\) is malformed"):
        load_onnx(m)


def test_names_that_are_not_text_are_refused():
    content = model([node("Relu", "x", "yyyy")], [value("x", [2])], [value("yyyy", [2])]).SerializeToString()
    with pytest.raises(ModelError, match="is not text"):
        load_onnx(content.replace(b"yyyy", b"\xff\xfe\xfdy"))


def test_local_functions_are_inlined():
    twice = helper.make_function(
        "my.own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    calls = [
        helper.make_node("Twice", ["x"], ["h"], domain="my.own"),
        helper.make_node("Twice", ["h"], ["y"], domain="my.own"),
    ]
    m = model(
        calls,
        [value("x", [3])],
        [value("y", [3])],
        extra=[helper.make_opsetid("my.own", 1)],
        functions=[twice],
    )
    imported = check(m)
    assert imported.graph.operators() == {"add": 2}
    assert imported.coverage.fraction == 1.0


def test_the_extent_that_an_output_declares_must_be_the_computed_one():
    for shape, dtype in (([2, 4], FLOAT), ([2], FLOAT), ([2, 3], TensorProto.DOUBLE)):
        m = model([node("Relu", "x", "y")], [value("x", [2, 3])], [value("y", shape, dtype)])
        with pytest.raises(
            ModelError, match=r"output 'y' is declared .* but the model computes float32\[2, 3\]"
        ):
            load_onnx(m)


def test_initializers_that_are_inputs_too_are_weights():
    m = model(
        [node("Add", "x w", "y")],
        [value("x", [2]), value("w", [2])],
        [value("y", [2])],
        [weight("w", [1.0, 2.0])],
        9,
    )
    graph = load_onnx(m)
    assert list(graph.input_types) == ["x"]
    assert list(graph.weights) == ["w"]
    (note,) = import_onnx(m).coverage.notes
    assert note.startswith("1 inputs have initial values and are read as weights: w (keep_inputs=True")
    m.ir_version = 3  # this version requires initializers to be inputs
    assert import_onnx(m).coverage.notes == ()


def test_inputs_with_initial_values_stay_inputs_on_request():
    m = model(
        [node("Mul", "x w", "y")],
        [value("x", [2]), value("w", [2])],
        [value("y", [2])],
        [weight("w", [1.0, 2.0])],
    )
    imported = import_onnx(m, keep_inputs=True)
    assert imported.coverage.notes == ()
    assert list(imported.graph.input_types) == ["x", "w"]
    written = to_onnx(imported.graph)
    assert [v.name for v in written.graph.input] == ["x", "w"]
    assert [t.name for t in written.graph.initializer] == ["w"]
    x = np.ones(2, np.float32)
    for form in (m, written):
        session = onnxruntime.InferenceSession(form.SerializeToString(), providers=["CPUExecutionProvider"])
        assert session.run(None, {"x": x})[0].tolist() == [1, 2]
        assert session.run(None, {"x": x, "w": x})[0].tolist() == [1, 1]


def nested(levels, calls=2):
    """Return a model of nested local functions, each of which calls the next one ``calls`` times."""
    functions = []
    for i in range(levels):
        names = [f"t{k}" for k in range(calls)]
        op, domain = (f"F{i + 1}", "own") if i < levels - 1 else ("Relu", "")
        nodes = [helper.make_node(op, [a], [b], domain=domain) for a, b in itertools.pairwise(["a", *names])]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"F{i}", ["a"], names[-1:], nodes, imports))
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    own = [helper.make_opsetid("own", 1)]
    return model([call], [value("x", [2])], [value("y", [2])], extra=own, functions=functions)


def test_local_functions_that_multiply_are_refused():
    assert import_onnx(nested(3)).graph.operators() == {"relu": 8}
    with pytest.raises(ModelError, match=r"functions of the model make 2.15e\+09 nodes; at most 200000"):
        import_onnx(nested(31))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Conv", "x w", "y", group=0), "node Conv .* group must be at least 1, got 0"),
        (node("Conv", "x w", "y", strides=[1, -1]), "strides must be at least 1, got -1"),
        (node("Conv", "x w", "y", auto_pad="SOME"), "auto_pad must be one of NOTSET, .*, got 'SOME'"),
        (node("Pad", "x", "y", mode="mirror"), "node Pad .* mode must be one of constant, .*, got 'mirror'"),
    ],
)
def test_attributes_that_no_runtime_takes_are_refused(made, message):
    inputs = [value("x", [1, 2, 4, 4]), value("w", [2, 2, 1, 1])]
    m = model([made], inputs, [value("y", None)])
    if made.op_type == "Pad":
        m.graph.node[0].input.append("p")
        m.graph.initializer.append(weight("p", [0] * 8, np.int64))
    with pytest.raises(ModelError, match=message):
        import_onnx(m)


def branch(name, nodes, output, weights=()):
    return helper.make_graph(nodes, name, [], [value(output, None, FLOAT)], weights)


def choice():
    """Return an If whose then-branch reads ``a`` and, one level deeper, ``b``, and defines ``t``."""
    deep = helper.make_node(
        "If", ["c"], ["d"], then_branch=branch("p", [node("Relu", "b", "p0")], "p0"),
        else_branch=branch("q", [node("Neg", "t", "q0")], "q0"),
    )  # fmt: skip
    then = branch("then", [node("Add", "a a", "t"), deep], "d")
    other = branch("else", [node("Exp", "a", "e")], "e")
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)


def test_values_read_from_outside_are_found_at_any_depth():
    assert captured(choice()) == ["a", "c", "b"]
    assert read_by(choice()) == ["c", "a", "b"]
    assert captured(node("Relu", "x", "y")) == []


def test_a_loop_body_does_not_capture_its_own_inputs():
    body = helper.make_graph(
        [node("Add", "state outer", "next"), node("Identity", "go", "again")],
        "body",
        [value("i", [], onnx.TensorProto.INT64), value("go", [], onnx.TensorProto.BOOL), value("state", [2])],
        [value("again", [], onnx.TensorProto.BOOL), value("next", [2])],
    )
    loop = helper.make_node("Loop", ["n", "", "start"], ["end"], body=body)
    assert captured(loop) == ["outer"]
    assert read_by(loop) == ["n", "start", "outer"]


def test_an_outer_value_that_a_branch_returns_is_read():
    then = branch("then", [], "a")
    other = branch("else", [node("Neg", "a", "e")], "e")
    one = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    assert captured(one) == ["a"]
    rename(one, {"a": "z"})
    assert one.attribute[0].g.output[0].name == "z" or one.attribute[1].g.output[0].name == "z"


def test_renaming_reaches_outer_values_and_leaves_inner_ones():
    one = choice()
    rename(one, {"a": "A", "b": "B", "c": "C", "t": "outer_t", "y": "Y"})
    assert (list(one.input), list(one.output)) == (["C"], ["Y"])
    assert captured(one) == ["A", "C", "B"]
    then = next(a.g for a in one.attribute if a.name == "then_branch")
    assert list(then.node[0].input) == ["A", "A"]
    assert list(then.node[0].output) == ["t"]  # the branch's own name stays
    deep_else = next(a.g for a in then.node[1].attribute if a.name == "else_branch")
    assert list(deep_else.node[0].input) == ["t"]


def test_inner_names_go_all_the_way_down():
    assert inner_names([choice()]) == {"t", "d", "p0", "q0", "e"}
    assert [n.op_type for n in walk([choice()])] == ["If", "Exp", "Add", "If", "Neg", "Relu"]


def test_fresh_names_are_never_repeated():
    fresh = Fresh({"v1", "x"})
    made = [fresh("v"), fresh("v"), fresh.exactly("x"), fresh.exactly("x"), fresh.exactly("n"), fresh("v")]
    assert made == ["v0", "v2", "x_1", "x_2", "n", "v3"]


@pytest.mark.parametrize(("alone", "perm"), [(True, [1, 0]), (False, [1, 0]), (True, None)])
def test_a_large_matrix_is_read_transposed_in_place_of_a_copy(monkeypatch, alone, perm):
    monkeypatch.setattr(prepare, "TIED", 1 << 10)
    table = normal("w", 96, 32)
    nodes = [
        node("Transpose", "w", "t", **({} if perm is None else {"perm": perm})),
        node("MatMul", "x t", "y"),
    ]
    outputs = [value("y", [2, 96])]
    if not alone:
        nodes.append(node("Add", "t t", "z"))
        outputs.append(value("z", [32, 96]))
    given = model(nodes, [value("x", [2, 32])], outputs, [table])
    apart = Apart(given, {"w": numpy_helper.to_array(table)})
    rewritten = apart_of(apart)
    read_in_place(rewritten.model)
    kinds = [n.op_type for n in rewritten.model.graph.node]
    assert kinds == (["FusedMatMul"] if alone else ["Transpose", "FusedMatMul", "Add"])
    x = {"x": numpy_helper.to_array(normal("x", 2, 32))}
    found = run_session(session(apart, optimise=False), x)
    for name, array in run_model(given, x).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)

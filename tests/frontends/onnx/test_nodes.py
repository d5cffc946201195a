import onnx
from onnx import helper

from tests.frontends.models import FLOAT, node, value
from workbench.frontends.onnx.nodes import Fresh, captured, inner_names, read_by, rename, walk


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

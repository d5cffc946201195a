"""Opaque operators: cut out, kept, and written back unchanged."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.models import FLOAT, INT64, check, model, node, normal, ops, random_inputs, value, weight
from workbench.frontends import ModelError, import_onnx, load_onnx, to_onnx
from workbench.frontends.onnx.opaque import Fresh, changed_operators, paste, payload_of
from workbench.graph import Opaque
from workbench.ops import TensorType


def single(graph):
    (record,) = graph.opaques.values()
    return record


def written(graph, op_type):
    return next(n for n in to_onnx(graph).graph.node if n.op_type == op_type)


def test_attributes_come_back_unchanged():
    lrn = node("LRN", "x", "y", alpha=0.5, beta=0.25, bias=2.0, size=3)
    m = model([lrn], [value("x", [1, 4, 3, 3])], [value("y", [1, 4, 3, 3])])
    graph = check(m).graph
    again = written(graph, "LRN")
    assert again.attribute == lrn.attribute
    assert again.name == lrn.name
    assert single(graph).reason == "not modelled"


def branches():
    """Return an If on run-time data whose branches read outer values, one of them in a nested If."""

    def graph(name, nodes, out, weights=()):
        return helper.make_graph(nodes, name, [], [value(out, [9, 9])], weights)

    deep = helper.make_node(
        "If", ["c"], ["d"],
        then_branch=graph("p", [node("MatMul", "a w", "p0")], "p0"),
        else_branch=graph("q", [node("Sub", "t k", "q0")], "q0", [normal("k", 9, 9)]),
    )  # fmt: skip
    then = graph("then", [node("Relu", "a", "t"), deep], "d")
    other = graph("else", [node("Neg", "a", "e")], "e")
    return model(
        [
            node("Exp", "x", "a"),
            helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other, name="choose"),
            node("Add", "a b", "y"),
        ],
        [value("x", [9, 9]), value("c", [], TensorProto.BOOL)],
        [value("y", [9, 9])],
        [normal("w", 9, 9)],
    )


def test_subgraphs_that_read_outer_values_come_back():
    m = branches()
    graph = load_onnx(m)
    taken = set()
    for seed in range(6):
        check(m, seed=seed)
        taken.add(bool(random_inputs(graph, seed)["c"]))
    assert taken == {True, False}
    assert ops(graph) == ["exp", "opaque", "add"]
    # The operands are the condition and the outer values, a weight among them.
    (position,) = [i for i, n in enumerate(graph.nodes) if n.op == "opaque"]
    assert [graph.nodes[j].op for j in graph.nodes[position].inputs] == ["input", "exp", "weight"]
    assert written(graph, "If").name == "choose"


def test_names_inside_subgraphs_never_meet_names_outside():
    """Return a model whose inner names clash with the writer's, one of them with an output's name."""
    m = branches()
    text = m.SerializeToString()
    # v0 (the writer's first name) is longer than t, so rename in the protos instead of the bytes
    model_ = onnx.ModelProto.FromString(text)

    def renamed(g):
        for n in g.node:
            for field in (n.input, n.output):
                for i, name in enumerate(field):
                    if name in ("t", "q0", "e"):
                        field[i] = {"t": "v0", "q0": "c0", "e": "x0"}[name]
            for a in n.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    renamed(a.g)
        for v in g.output:
            v.name = {"q0": "c0", "e": "x0"}.get(v.name, v.name)

    renamed(model_.graph)
    onnx.checker.check_model(model_, full_check=True)
    check(model_)
    check(model_, seed=1)


def test_a_loop_comes_back():
    body = helper.make_graph(
        [node("Identity", "go", "again"), node("Add", "state x", "next"), node("Mul", "next next", "seen")],
        "body",
        [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("state", [2])],
        [value("again", [], TensorProto.BOOL), value("next", [2]), value("seen", [2])],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["end", "all"], body=body)
    m = model(
        [loop, node("Relu", "end", "y"), node("ReduceMax", "all", "z", keepdims=0)],
        [value("x", [2])],
        [value("y", [2]), value("z", [])],
        [weight("n", 3, np.int64)],
    )
    imported = check(m)
    assert imported.coverage.opaque["Loop"] == 1


def test_equal_operators_share_one_record_and_equal_applications_one_node():
    m = model(
        [
            node("LRN", "x", "a", size=3), node("LRN", "x", "b", size=3),
            node("LRN", "a", "c", size=3), node("LRN", "x", "d", size=5), node("Sum", "b c d", "y"),
        ],
        [value("x", [1, 4, 3, 3])], [value("y", [1, 4, 3, 3])],
    )  # fmt: skip
    graph = check(m).graph
    assert len(graph.opaques) == 2
    assert graph.operators()["opaque"] == 3  # a and b are equal
    names = [n.name for n in to_onnx(graph).graph.node if n.op_type == "LRN"]
    assert len(set(names)) == len(names)


def test_a_value_that_is_read_twice_gives_the_record_of_two_values():
    def remainder(second):
        m = model(
            [node("Mod", f"a {second}", "y", fmod=1)],
            [value("a", [2, 3]), value("b", [2, 3])],
            [value("y", [2, 3])],
        )
        return check(m).graph

    two, twice = remainder("b"), remainder("a")
    assert [*two.opaques] == [*twice.opaques]
    (user,) = (n for n in twice.nodes if n.op == "opaque")
    assert user.inputs[0] == user.inputs[1]
    assert list(written(twice, "Mod").input) == ["a", "a"]


def test_random_operators_are_never_shared():
    m = model(
        [
            node("RandomNormalLike", "x", "a", seed=1.0), node("RandomNormalLike", "x", "b", seed=1.0),
            node("Sub", "a b", "y"),
        ],
        [value("x", [4])], [value("y", [4])],
    )  # fmt: skip
    graph = load_onnx(m)
    assert len(graph.opaques) == 2
    assert not any(r.deterministic for r in graph.opaques.values())
    assert sum(n.op_type == "RandomNormalLike" for n in to_onnx(graph).graph.node) == 2


def test_random_numbers_inside_subgraphs_and_functions_and_unknown_operators_count():
    def outcome(node_, **more):
        m = model([node_], [value("x", [2]), value("c", [], TensorProto.BOOL)], [value("y", [2])], **more)
        return single(load_onnx(m)).deterministic

    def choice(op_type):
        then = helper.make_graph([node(op_type, "x", "t")], "t", [], [value("t", [2])])
        other = helper.make_graph([node("Neg", "x", "e")], "e", [], [value("e", [2])])
        return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)

    assert outcome(choice("Exp"))
    assert not outcome(choice("RandomUniformLike"))
    mine = [helper.make_opsetid("my.own", 1)]
    assert not outcome(helper.make_node("Thing", ["x"], ["y"], domain="my.own"), extra=mine)
    assert outcome(node("Elu", "x", "y"))


def test_dropout_in_training_mode_is_random():
    m = model(
        [node("Dropout", "x ratio yes", "y")], [value("x", [4])], [value("y", [4])],
        [weight("ratio", 0.5), weight("yes", True, np.bool_)],
    )  # fmt: skip
    imported = import_onnx(m)
    assert imported.coverage.reasons() == {("Dropout", "dropout in training mode"): 1}
    assert not single(imported.graph).deterministic


def test_small_constants_belong_to_the_operator_and_large_ones_are_operands():
    resize = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic", exclude_outside=1)
    m = model(
        [resize], [value("x", [1, 1, 2, 2])], [value("y", [1, 1, 4, 4])], [weight("scales", [1, 1, 2, 2])]
    )
    graph = check(m).graph
    assert not graph.weights
    assert [len(n.inputs) for n in graph.nodes if n.op == "opaque"] == [1]
    lstm = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8)
    m = model(
        [lstm],
        [value("x", [3, 1, 4])],
        [value("y", [3, 1, 1, 8])],
        [normal("w", 1, 32, 4), normal("r", 1, 32, 8)],
    )
    assert set(check(m).graph.weights) == {"w", "r"}


def test_results_that_nothing_reads_are_written_but_are_not_results():
    topk = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    m = model([topk], [value("x", [2, 6])], [value("v", [2, 3])], [weight("k", [3], np.int64)])
    graph = check(m).graph
    assert single(graph).results == (TensorType("float32", (2, 3)),)
    assert len(written(graph, "TopK").output) == 2


def test_several_results_keep_their_places():
    topk = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    m = model(
        [topk, node("Relu", "v", "r")],
        [value("x", [2, 6])],
        [value("i", [2, 3], INT64), value("r", [2, 3]), value("v", [2, 3])],
        [weight("k", [3], np.int64)],
    )
    graph = check(m).graph
    assert graph.operators() == {"opaque": 1, "relu": 1}
    assert not any(n.op_type == "Identity" for n in to_onnx(graph).graph.node)


def test_functions_that_cannot_be_inlined_go_along():
    """A call of a function written for another operator set than the model's is unchanged."""
    body = [node("Add", "a a", "b0"), node("Neg", "b0", "b")]
    old = helper.make_function("my.own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 16)])
    call = helper.make_node("Twice", ["x"], ["h"], domain="my.own")
    m = model(
        [call, node("Relu", "h", "y")], [value("x", [3, 2])], [value("y", None)],
        extra=[helper.make_opsetid("my.own", 1)], functions=[old],
    )  # fmt: skip
    imported = check(m)
    assert ops(imported.graph) == ["opaque", "relu"]
    again = to_onnx(imported.graph)
    assert [f.name for f in again.functions] == ["Twice"]
    assert {o.domain for o in again.opset_import} == {"", "my.own"}


def test_operator_sets_of_other_domains_are_kept():
    binarizer = helper.make_node("Binarizer", ["x"], ["h"], domain="ai.onnx.ml", threshold=0.5)
    m = model(
        [binarizer, node("Neg", "h", "y")], [value("x", [4])], [value("y", [4])],
        extra=[helper.make_opsetid("ai.onnx.ml", 2)],
    )  # fmt: skip
    graph = check(m).graph
    assert {o.domain: o.version for o in to_onnx(graph).opset_import}["ai.onnx.ml"] == 2


def test_operators_that_changed_between_operator_sets_are_found():
    payload = model([node("Where", "c x x", "y")], [], [], opset=9)
    assert changed_operators(payload, 9) == []
    assert changed_operators(payload, 15) == []
    assert changed_operators(payload, 21) == ["Where"]


def test_a_record_without_a_payload_is_refused():
    with pytest.raises(ModelError, match="Thing has no ONNX form"):
        payload_of(Opaque("Thing", "", (TensorType("float32", (2,)),)))


def test_pasting_gives_the_names_that_are_wanted():
    graph = load_onnx(
        model([node("LRN", "x", "y", size=3)], [value("x", [1, 4, 3, 3])], [value("y", [1, 4, 3, 3])])
    )
    nodes, tensors, results = paste(payload_of(single(graph)), ["in"], ["out"], Fresh())
    assert (list(nodes[0].input), list(nodes[0].output), results, tensors) == (["in"], ["out"], ["out"], [])


def test_payloads_run_on_their_own():
    graph = load_onnx(branches())
    payload = payload_of(single(graph))
    onnx.checker.check_model(payload, full_check=True)
    assert [i.name for i in payload.graph.input] == ["x0", "x1", "x2"]
    assert payload.graph.output[0].type.tensor_type.elem_type == FLOAT

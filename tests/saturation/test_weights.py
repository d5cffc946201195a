"""Weights are computed once: how rules may leave them alone, and how they learn where they are of use."""

from collections import Counter

import numpy as np
import pytest

from workbench.egraph.rebuild import rebuild
from workbench.graph import GraphBuilder, evaluate
from workbench.rules import parse_rules, rule_set
from workbench.run.trace import StopReason
from workbench.saturation import Limits, Saturation


def grown(graph, text, **limits):
    with Saturation(graph, parse_rules(text), Limits(**limits)) as run:
        assert run.run() is StopReason.SATURATED
        return run.egraph()


def product():
    """Return x · (a + b): a sum of weights under an operator that runs, and one that runs itself."""
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    y = b.op("matmul", x, b.op("add", b.weight((4, 4)), b.weight((4, 4))))
    return b.graph({"y": b.op("add", y, x)})


def test_weights_are_rewritten_unless_the_settings_forbid_it():
    commutes = "swap: add(x, y) => add(y, x)"
    assert Counter(grown(product(), commutes).ops)["add"] == 4
    assert Counter(grown(product(), commutes, weights=False).ops)["add"] == 3


def test_what_makes_weights_smaller_is_used_on_them_too():
    b = GraphBuilder()
    w = b.op("neg", b.op("neg", b.weight((4, 4))))
    graph = b.graph({"y": b.op("matmul", b.input("x", (4, 4)), w)})
    egraph = grown(graph, "twice: neg(neg(x)) => x", weights=False)
    (matmul,) = [i for i, op in enumerate(egraph.ops) if op == "matmul"]
    classes = {int(c) for op, c in zip(egraph.ops, egraph.eclass, strict=True) if op == "weight"}
    assert int(egraph.operands(matmul)[1]) in classes


def test_of_what_differs_in_weights_alone_one_is_matched():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"y": b.op("relu", b.op("matmul", x, b.weight((4, 4))))})
    # Each step would make a further weight of the last one.
    text = "more: matmul(x, w) => matmul(x, neg(neg(w)))"
    with Saturation(graph, parse_rules(text), Limits(iterations=6)) as run:
        assert run.run() is StopReason.ITERATION_LIMIT
    egraph = grown(graph, text, iterations=6, weights=False)
    assert Counter(egraph.ops)["matmul"] == 2


def test_of_weights_that_turn_out_to_be_equal_one_is_matched():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    graph = b.graph({"y": b.op("relu", b.op("matmul", x, b.weight((4, 4))))})
    # The newer product is excluded before its weight is found to be that of the older one. The last law
    # comes when both are one.
    text = """more: matmul[act=none](x, w) => matmul[act=none](x, neg(neg(w)))
    twice: neg(neg(x)) => x
    phase last
    together: relu(matmul[act=none](x, w)) => matmul[act=relu](x, w)"""
    assert Counter(grown(graph, text, weights=False).ops)["matmul"] == 2


def test_where_a_rule_is_of_use():
    graph = product()
    everywhere = "swap: add(x, y) => add(y, x)"
    assert Counter(grown(graph, everywhere + " where constant(x)").ops)["add"] == 3
    assert Counter(grown(graph, everywhere + " where running(x)").ops)["add"] == 3
    assert Counter(grown(graph, everywhere + " where running(x), distinct(x, y)").ops)["add"] == 3
    assert Counter(grown(graph, everywhere + " where constant(x), running(y)").ops)["add"] == 2
    b = GraphBuilder()
    x = b.input("x", (4,))
    doubled = b.graph({"y": b.op("add", x, x)})
    both = "less: add(x, y) => sub(x, neg(y))"
    assert "sub" in grown(doubled, both).ops
    assert "sub" not in grown(doubled, both + " where distinct(x, y)").ops


@pytest.mark.parametrize("names", [("h", "ty"), ("runs", "constant"), ("t1", "n1"), ("ea", "clock")])
def test_variables_may_be_called_as_the_program_calls_its_own(names):
    a, b = names
    egraph = grown(product(), f"swap: add({a}, {b}) => add({b}, {a}) where dim({a}, -1) = 4")
    assert Counter(egraph.ops)["add"] == 4


def test_results_stay_equal():
    graph = product()
    rules = "apart: matmul(x, add(w, v)) => add(matmul(x, w), matmul(x, v))\nswap: add(x, y) => add(y, x)"
    egraph = grown(graph, rules, weights=False)
    inputs = {"x": np.arange(16.0).reshape(4, 4).astype(np.float32)}
    expected = evaluate(graph, inputs, precise=True)["y"]
    choice = np.full(egraph.n_classes, -1)
    for i in range(len(egraph) - 1, -1, -1):  # the oldest e-node of each e-class
        choice[egraph.eclass[i]] = i
    found = evaluate(rebuild(graph, egraph, choice), inputs, precise=True)["y"]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("number", [0.0, 0.5])
def test_an_e_node_that_reads_its_own_e_class_is_not_multiplied(number):
    # (x + 0)W = xW + 0W, and xW + 0W = (x + 0)W: without the exclusion every iteration adds a sum of weights.
    b = GraphBuilder()
    x, w = b.input("x", (4, 4)), b.weight((4, 4))
    for _ in range(2):
        x = b.op("matmul", b.op("add", x, b.weight(data=np.full((), number, np.float32))), w)
    rules = "add-zero: add(x, 0) => x\nshifted: matmul(add(x, t), w) => add(matmul(x, w), matmul(t, w))"
    egraph = grown(b.graph({"y": x}), rules, weights=False)
    assert len(egraph) < 20


@pytest.mark.parametrize(
    ("op", "numbers"),
    [("mul", (2, 4, 0.125)), ("div", (4, 0.25)), ("add", (1, 2, -3)), ("sub", (1, 2, -3))],
)
def test_numbers_that_arise_are_computed(op, numbers):
    b = GraphBuilder()
    x = y = b.input("x", (4, 4))
    for number in numbers:
        y = b.op(op, y, b.weight(data=np.full((), number, np.float32)))
    rules = (
        "times-one: mul(x, 1) => x\nplus-zero: add(x, 0) => x\n"
        "quotient: div(x, y) => mul(x, reciprocal(y))\ndifference: sub(x, y) => add(x, neg(y))\n"
        "scales: mul(mul(x, a), b) => mul(x, mul(a, b))\nshifts: add(add(x, a), b) => add(x, add(a, b))"
    )
    egraph = grown(b.graph({"x": x, "y": y}), rules, weights=False)
    assert egraph.roots[0] == egraph.roots[1]


@pytest.mark.parametrize(
    ("op", "numbers", "other"),
    [("add", (1, 1e17), 1e17), ("sub", (1, 1e17), 1e17), ("mul", (1e-200, 1e-200), 0)],
)
def test_a_number_that_floats_cannot_show_is_not_lost(op, numbers, other):
    b = GraphBuilder()
    x = y = b.input("x", (4, 4), "float64")
    z = b.op(op, x, b.weight(data=np.full((), other, np.float64)))
    for number in numbers:
        y = b.op(op, y, b.weight(data=np.full((), number, np.float64)))
    rules = (
        "plus-zero: add(x, 0) => x\ndifference: sub(x, y) => add(x, neg(y))\n"
        "scales: mul(mul(x, a), b) => mul(x, mul(a, b))\nshifts: add(add(x, a), b) => add(x, add(a, b))"
    )
    egraph = grown(b.graph({"y": y, "z": z}), rules, weights=False)
    assert egraph.roots[0] != egraph.roots[1]


def test_products_of_numbers_are_as_few_as_their_values():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    for number in (2, 4, 8, 0.125, 0.5, 2, 4, 8, 0.125, 0.5, 2, 4):
        x = b.op("mul", x, b.weight(data=np.full((), number, np.float32)))
    rules = "times-one: mul(x, 1) => x\nscales: mul(mul(x, a), b) => mul(x, mul(a, b))"
    assert len(grown(b.graph({"y": x}), rules, weights=False)) < 250  # 597 as terms


def test_a_quotient_of_numbers_that_is_not_finite_is_none():
    b = GraphBuilder()
    zero = b.weight(data=np.zeros((), np.float32))
    y = b.op("mul", b.input("x", (4, 4)), b.op("div", zero, zero))
    assert len(grown(b.graph({"y": y}), "times-one: mul(x, 1) => x", weights=False)) == 4


@pytest.mark.parametrize("op", ["mul", "add"])
def test_a_chain_of_weights_has_one_form_for_each_of_its_beginnings(op):
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    for _ in range(12):
        x = b.op(op, x, b.weight((4,)))
    rules = f"joined: {op}({op}(x, a), b) => {op}(x, {op}(a, b)) where constant(a), constant(b)"
    egraph = grown(b.graph({"y": x}), rules, weights=False)
    assert len(egraph) < 120  # 597 with one for each way to cut it


def stream(blocks):
    """Return a stream of residual blocks, each of whose sums is scaled and shifted instead of normalised."""
    b = GraphBuilder()
    x = b.input("x", (8, 16))
    for _ in range(blocks):
        y = b.op("relu", b.op("matmul", x, b.weight((16, 16))))
        y = b.op("add", b.op("matmul", y, b.weight((16, 16))), b.weight((16,)))
        x = b.op("add", b.op("mul", b.op("add", y, x), b.weight((16,))), b.weight((16,)))
    return b.graph({"y": x})


def gated(blocks):
    """Return a chain of convolutions beside scaled and shifted inputs, whose sums are scaled by gates."""
    b = GraphBuilder()
    x = b.input("x", (1, 8, 7, 7))
    for _ in range(blocks):
        gate = b.op("sigmoid", b.op("reduce_mean", x, axes=(-2, -1), keepdims=1))
        y = b.op("conv2d", x, b.weight((8, 8, 3, 3)), b.weight((1, 8, 1, 1)), pads=(1, 1, 1, 1))
        z = b.op("add", b.op("mul", x, b.weight((1, 8, 1, 1))), b.weight((1, 8, 1, 1)))
        x = b.op("mul", b.op("add", y, z), gate)
    return b.graph({"y": x})


def branches(count):
    """Return the scaled sum of scaled and shifted branches, as networks are trained."""
    b = GraphBuilder()
    x = b.input("x", (1, 8, 7, 7))
    total = x
    for _ in range(count):
        y = b.op("conv2d", x, b.weight((8, 8, 3, 3)), pads=(1, 1, 1, 1))
        y = b.op("add", b.op("mul", y, b.weight((1, 8, 1, 1))), b.weight((1, 8, 1, 1)))
        total = b.op("add", total, y)
    return b.graph({"y": b.op("relu", b.op("mul", total, b.weight((1, 8, 1, 1))))})


@pytest.mark.slow
@pytest.mark.parametrize(("chain", "length"), [(stream, 8), (gated, 4), (branches, 6)])
def test_chains_of_scales_shifts_and_sums_do_not_explode(chain, length):
    # Sums of computed values are not distributed: forms would multiply from block to block.
    sizes = []
    for n in (length // 2, length):
        graph = chain(n)
        with Saturation(graph, rule_set("default"), Limits(e_nodes=5_000), keep=0) as run:
            assert run.run() is StopReason.SATURATED
            sizes.append(run.e_nodes)
    assert sizes[1] < 25 * len(graph)
    assert sizes[1] < 6 * sizes[0]


@pytest.mark.parametrize(
    ("parts", "shifted"),
    [
        (("product", "product"), True),
        (("product", "scaled"), False),
        (("product", "scaled"), True),
        (("scaled", "scaled"), False),
    ],
)
def test_a_scale_of_a_sum_vanishes_if_both_parts_take_it(parts, shifted):
    b = GraphBuilder()
    made = []
    for name, part in zip("xy", parts, strict=True):
        x = b.input(name, (4, 8))
        y = b.op("matmul", x, b.weight((8, 8))) if part == "product" else b.op("mul", x, b.weight((8,)))
        made.append(b.op("add", y, b.weight((8,))) if shifted else y)
    graph = b.graph({"y": b.op("mul", b.op("add", *made), b.weight((8,)))})
    with Saturation(graph, rule_set("default"), keep=0) as run:
        assert run.run() is StopReason.SATURATED
        egraph = run.egraph()
    forms = [egraph.ops[i] for i in range(len(egraph)) if egraph.eclass[i] == egraph.roots[0]]
    assert "add" in forms

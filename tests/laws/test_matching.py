"""A left-hand side of a rule matched in a graph, node by node."""

import pytest

from workbench.graph import GraphBuilder
from workbench.laws.matching import Matched, Matcher
from workbench.ops import TensorType
from workbench.rules import parse_rule
from workbench.rules.interpret import read_attributes
from workbench.rules.pattern import App, Arith, AttrVar, Compare, DimOf, Literal, Rule, Var


class Operands:
    def __init__(self, nodes):
        self.nodes = nodes

    def __getitem__(self, node):
        return self.nodes[node].inputs


def bind(text, builder, node):
    (rule,) = parse_rule(f"r: {text} => x")
    return Matcher(rule, rule.sources[0]).bind(node, builder.nodes, Operands(builder.nodes))


@pytest.fixture
def convolution():
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 8, 8)), b.input("w", (4, 4, 3, 3))
    conv = b.op("conv2d", x, w, pads=(1, 2, 1, 2), strides=(2, 2))
    return b, x, w, conv, b.op("relu", conv)


def test_a_match_binds_tensors_attributes_and_rows(convolution):
    b, x, w, conv, relu = convolution
    bindings, inner = bind("relu(conv2d[c, strides=s, pads=(t, l, t, l)](x, w))", b, relu)
    assert inner == (conv,)
    assert (bindings["x"], bindings["w"]) == (x, w)
    assert (bindings["@s"], bindings["@t"], bindings["@l"]) == ((2, 2), 1, 2)
    assert bindings["#c.act"] == "none"
    assert "#c.strides" not in bindings


@pytest.mark.parametrize(
    "text",
    [
        "conv2d[c, pads=(t, t, t, t)](x, w)",  # unequal pads
        "conv2d[c, strides=1](x, w)",  # another number
        "conv2d[pads=p](x, w)",  # strides are not the default
        "conv2d[c](x, x)",  # two operands
        "conv2d[c](relu(x), w)",  # an input below
        "conv2d[c](x, w, b)",  # no bias
        "matmul(x, w)",
    ],
)
def test_what_differs_does_not_match(convolution, text):
    b, _, _, conv, _ = convolution
    assert bind(text, b, conv) is None


def test_one_number_stands_for_several(convolution):
    b, _, _, conv, _ = convolution
    assert bind("conv2d[c, strides=2](x, w)", b, conv) is not None


def test_vectors_of_another_length_do_not_match():
    b = GraphBuilder()
    node = b.op("reduce_sum", b.input("x", (2, 3, 4)), axes=(-2, -1))
    assert bind("reduce_sum[axes=(i, j), keepdims=k](x)", b, node) is not None
    assert bind("reduce_sum[axes=(i, j, h), keepdims=k](x)", b, node) is None


def test_a_left_hand_side_computes_nothing():
    half = Arith("//", AttrVar("n"), Literal(2))
    source = App("slice", (Var("x"),), (("axis", Literal(-1)), ("start", half), ("stop", AttrVar("n"))))
    with pytest.raises(ValueError, match="an attribute must be a value or a variable, got start=n // 2"):
        Matcher(Rule("odd", (source,), (Var("x"),)), source)
    with pytest.raises(ValueError, match="slice needs axis"):
        Matcher(Rule("bare", (App("slice", (Var("x"),)),), (Var("x"),)), App("slice", (Var("x"),)))


class Shaped(Matched):
    def kind(self, name):
        return TensorType("float32", {"x": (2, 6)}[name])


def test_targets_read_what_a_match_binds():
    algebra = Shaped({"@n": 3, "#c.strides": (2, 2), "#c.act": "relu"})
    (rule,) = parse_rule(
        "r: conv2d[c, groups=n](x, w) => conv2d[c, pads=(n, 0, n, 0), groups=dim(x, -1) // n](x, w)"
    )
    values = read_attributes(rule.targets[0], algebra)
    assert values["pads"] == (3, 0, 3, 0)
    assert values["groups"] == 2
    assert (values["strides"], values["act"]) == ((2, 2), "relu")
    assert values["dilations"] == (1, 1)  # bound by no row: the default
    assert algebra.holds(Compare("=", DimOf("x", -1), Arith("*", AttrVar("n"), Literal(2))))

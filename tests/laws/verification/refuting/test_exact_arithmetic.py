"""The exact arithmetics: each agrees with ONNX Runtime and with the others, operator by operator."""

import random
from fractions import Fraction

import numpy as np
import pytest

import workbench
from tests.sampled import in_turn
from workbench.frontends import RuntimeFailure, run_graph
from workbench.graph import GraphBuilder, Node
from workbench.laws.verification.instances.linear import Inconsistent, NotLinear
from workbench.laws.verification.instances.spaces import Ground, instance_of, open_space, sample
from workbench.laws.verification.instances.typings import RandomChoices
from workbench.laws.verification.refuting.exact_arithmetic import (
    ARITHMETICS,
    PRIME,
    arithmetic_for,
    beyond,
    degree,
    differs,
    draw_values,
    filled,
    rounded,
    run,
)
from workbench.laws.verification.refuting.refute import FULL
from workbench.laws.verification.refuting.sampling import draw_instance
from workbench.ops import TensorType, TypeMismatch, operators, spec_of
from workbench.ops.exact import Arithmetic, Inexact
from workbench.rules import parse_rule

#: Operators that no rule can be judged with: leaves, and what only an imported model has.
NOT_JUDGED = {"input", "weight", "opaque", "project", "cast", "quantize", "dequantize", "where"}
OPERATORS = sorted({s.name for s in operators()} - NOT_JUDGED)
#: The attributes on which the arithmetic of an operator depends, at values that need least.
PLAIN = {"act": "none", "value": 0.0, "mode": "nearest"}


def operators_in(arithmetic):
    """Return the operators that an arithmetic has and no lesser one."""
    return {s.name for s in operators() if s.exact is not None and s.exact.arithmetic(PLAIN) is arithmetic}


def instances(op, count):
    """Yield graphs of one operator with random attributes and operand types, with random operands."""
    spec = spec_of(op)
    arity = min(spec.max_inputs, max(2, spec.min_inputs)) if spec.max_inputs else 0
    operands = ", ".join("xyzuv"[:arity])
    attrs = "[c]" if spec.attrs else ""
    (rule,) = parse_rule(f"one: identity({op}{attrs}({operands})) => {op}{attrs}({operands})")
    rng = random.Random(7)
    found = 0
    for _ in range(4000):
        try:
            space = open_space(rule, RandomChoices(rng), FULL)
            values = sample(space, rng, FULL)
            instance = None if values is None else instance_of(space, values)
        except NotLinear:
            instance = draw_instance(rule, rng)
        except (Inconsistent, TypeMismatch):
            continue
        if instance is None:
            continue
        ground = Ground()
        ((_, root),) = ground.add(instance)
        graph = ground.builder.graph({"out": root})
        yield graph, rng
        found += 1
        if found == count:
            return
    raise AssertionError(f"only {found} instances of {op}")


def exactly(kind, graph, values):
    """Evaluate a graph in an arithmetic from whole numbers; return floats."""
    leaves = {i: filled(kind, values[i].ravel().tolist(), values[i].shape) for i in values}
    root = graph.outputs[0][1]
    result = run(kind, dict(enumerate(graph.nodes)), leaves)[root]
    return floats(result)


def dtype_of(graph, i):
    return graph.nodes[i].tensor.dtype


def is_place(graph, i):
    """Return whether the elements of a node are numbers of places."""
    return dtype_of(graph, i) == "int64"


def floats(array):
    return np.array([float(e) for e in array.flat]).reshape(array.shape)


@pytest.mark.parametrize("op", in_turn(OPERATORS, 1, quick=3))
def test_every_arithmetic_agrees_with_onnx_runtime(op):
    kinds = list(ARITHMETICS)[1:]
    compared = 0
    for graph, rng in instances(op, 12):
        least = arithmetic_for(n for n in graph.nodes)
        live = dict(enumerate(graph.nodes))
        drawn = draw_values("rational", live, rng)
        whole = {i: floats(a) for i, a in drawn.items()}
        named = {
            graph.nodes[i].attr("name"): a.astype(
                {"int64": np.int64, "bool": bool}.get(dtype_of(graph, i), np.float32)
            )
            for i, a in whole.items()
        }
        try:
            expected = run_graph(graph, named)["out"]
        except RuntimeFailure:
            assert op in ("maxpool", "avgpool")  # pads as wide as the kernel
            continue
        start = kinds.index("ordered" if least == "modular" else least)
        for kind in kinds[start:]:
            try:
                found = exactly(kind, graph, drawn if kind != "ordered" else whole)
            except Inexact:
                continue
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4, equal_nan=True)
            compared += 1
    assert compared >= 8


@pytest.mark.parametrize("op", sorted(operators_in(Arithmetic.POLYNOMIAL) & set(OPERATORS)))
def test_residues_are_those_of_the_whole_numbers(op):
    for graph, rng in instances(op, 12):
        live = dict(enumerate(graph.nodes))
        if arithmetic_for(graph.nodes) != "modular":
            continue
        whole = draw_values("ordered", live, rng)
        root = graph.outputs[0][1]
        expected = run("ordered", live, whole)[root]
        residues = {
            i: a.astype(np.int64) if is_place(graph, i) else filled("modular", a.ravel().tolist(), a.shape)
            for i, a in whole.items()
        }
        found = run("modular", live, residues)[root]
        assert (found == expected.astype(np.int64) % PRIME).all()


def test_every_operator_has_the_least_arithmetic_that_computes_it():
    moves = {"concat", "slice", "reshape", "transpose", "expand", "identity", "gather"}
    moves |= {"resize", "depth_to_space", "space_to_depth", "repeat", "unfold", "blocked"}
    constants = {"eye", "ones", "identity_kernel", "enlarge", "merge_gconv", "scalar"}
    sums = {
        "add",
        "sub",
        "mul",
        "neg",
        "matmul",
        "conv2d",
        "conv_transpose",
        "pad",
        "reduce_sum",
        "dequantize",
        "rotary",
    }
    assert operators_in(Arithmetic.POLYNOMIAL) == moves | constants | sums
    assert operators_in(Arithmetic.ORDERED) == {
        "relu",
        "abs",
        "max",
        "min",
        "maxpool",
        "reduce_max",
        "select",
    }
    quotients = {"div", "reciprocal", "avgpool", "reduce_mean", "mean_kernel", "leakyrelu", "clip"}
    quotients |= {"hardswish", "quantize", "interpolation"}
    assert operators_in(Arithmetic.RATIONAL) == quotients | {"batchnorm", "bn_scale", "bn_shift"}
    rest = {s.name for s in operators() if not s.leaf and s.name != "cast"}
    assert rest == set().union(*map(operators_in, Arithmetic))


def test_attributes_decide_which_arithmetic_is_needed():
    pair = TensorType("float32", (2, 2))
    product = {a: Node("matmul", (0, 0), (a,), pair) for a in ("none", "relu", "tanh", "sigmoid")}
    found = {a: arithmetic_for([node]) for a, node in product.items()}
    assert found == {"none": "modular", "relu": "ordered", "tanh": "digits", "sigmoid": "digits"}
    borders = [Node("pad", (0,), ((0, 0, 0, 0), value), pair) for value in (2.0, 0.5)]
    assert [arithmetic_for([node]) for node in borders] == ["modular", "rational"]


def test_a_function_without_a_fraction_for_a_value_is_refused():
    scalar = TensorType("float32", ())
    nodes = [leaf(()), Node("exp", (0,), (), scalar)]
    with pytest.raises(Inexact, match="without a fraction"):
        run("rational", dict(enumerate(nodes)), {0: filled("rational", [1], ())})
    root = [leaf(()), Node("sqrt", (0,), (), scalar)]
    square = filled("rational", [Fraction(4, 9)], ())
    assert run("rational", dict(enumerate(root)), {0: square})[1].item() == Fraction(2, 3)
    with pytest.raises(Inexact, match="root of 2"):
        run("rational", dict(enumerate(root)), {0: filled("rational", [2], ())})


def leaf(shape):
    return Node("input", (), ("x",), TensorType("float32", shape))


def test_sums_that_may_leave_the_whole_numbers_are_refused():
    nodes = [leaf((1, 1)), Node("mul", (0, 0), (), TensorType("float32", (1, 1)))]
    nodes += [Node("mul", (i, i), (), TensorType("float32", (1, 1))) for i in range(1, 6)]
    value = filled("ordered", [4], (1, 1))
    with pytest.raises(Inexact, match="2\\^53"):
        run("ordered", dict(enumerate(nodes)), {0: value})
    assert run("rational", dict(enumerate(nodes)), {0: filled("rational", [4], (1, 1))})[6].item() == 4**64
    assert degree(nodes, 6) == 64


def test_a_division_by_zero_is_not_a_value():
    scalar = TensorType("float32", ())
    nodes = [leaf(()), Node("reciprocal", (0,), (), scalar)]
    with pytest.raises(Inexact, match="division by zero"):
        run("rational", dict(enumerate(nodes)), {0: filled("rational", [0], ())})
    assert run("rational", dict(enumerate(nodes)), {0: filled("rational", [3], ())})[1].item() == Fraction(
        1, 3
    )


def test_differences_are_exact_where_the_arithmetic_is():
    tiny = Fraction(1, 10**40)
    one, other = filled("rational", [1], (1,)), filled("rational", [1 + tiny], (1,))
    assert differs("rational", one, other) == (0,)
    assert differs("rational", one, one) is None
    assert differs("digits", filled("digits", [1], (1,)), filled("digits", [1 + tiny], (1,))) == (0,)
    close = filled("digits", [1 + Fraction(1, 10**55)], (1,))
    assert differs("digits", filled("digits", [1], (1,)), close) is None
    logarithm = {0: leaf(()), 1: Node("log", (0,), (), TensorType("float32", ()))}
    infinite = run("digits", logarithm, {0: filled("digits", [0], ())})[1]
    assert differs("digits", infinite, infinite) is None
    assert differs("digits", infinite, filled("digits", [5], ())) == ()
    assert differs("modular", one, filled("modular", [1, 1], (2,))) == ()


def graph_with(value):
    b = GraphBuilder("constant")
    return b.graph({"y": b.op("mul", b.input("x", (2,)), b.apply("scalar", [], (value, "float32")))})


def verdict(law):
    check = workbench.laws.Verification(workbench.parse_rules(law))
    check.run()
    (found,) = check.verdicts
    return found


def test_values_lie_beside_large_constants_and_the_inverses_of_small_ones():
    def of(value):
        nodes = graph_with(value).nodes
        return beyond(dict(enumerate(nodes)), 4)

    assert of(100.0) == [-201, -101, -100, -99, 99, 100, 101, 201]
    assert of(-100.0) == of(100.0) == of(0.01)
    assert of(3.5) == of(0.5) == of(0.0) == of(1e30) == []


@pytest.mark.parametrize(
    ("value", "whether"),
    [
        (0.7071067811865476, True),
        (1 / 3, True),
        (0.70710678, False),
        (1e-9, False),
        (1e15, False),
        (0.1, False),
    ],
)
def test_a_number_of_many_digits_is_rounded(value, whether):
    nodes = graph_with(value).nodes
    assert rounded(dict(enumerate(nodes))) is whether


@pytest.mark.parametrize(
    "law",
    [
        "wide: clip[low=-1000.0, high=1000.0](x) => x",
        "above: relu(add(x, scalar[value=100.0, dtype=d]())) => add(x, scalar[value=100.0, dtype=d]())",
        "scaled: relu(add(mul(x, scalar[value=0.001, dtype=d]()), scalar[value=1.0, dtype=d]())) => "
        "add(mul(x, scalar[value=0.001, dtype=d]()), scalar[value=1.0, dtype=d]())",
        "third: mul(x, scalar[value=0.33333, dtype=d]()) => div(x, scalar[value=3.0, dtype=d]())",
    ],
)
def test_a_law_that_is_wrong_far_from_zero_or_in_few_digits_is_refuted(law):
    assert verdict(law).verdict == "refuted"


@pytest.mark.slow
def test_a_law_with_a_rounded_constant_is_right():
    third = "mul(x, scalar[value=0.3333333333333333, dtype=d]())"
    assert verdict(f"third: {third} => div(x, scalar[value=3.0, dtype=d]())").verdict == "tested"


@pytest.mark.slow
def test_gelu_as_it_is_written_in_models_is_proved_and_no_contradiction():
    found = verdict(
        "gelu: gelu[tanh=0](x) => mul(mul(x, scalar[value=0.5, dtype=dtype(x)]()), "
        "add(scalar[value=1.0, dtype=dtype(x)](), "
        "erf(mul(x, scalar[value=0.7071067811865476, dtype=dtype(x)]()))))"
    )
    assert found.by_axioms


@pytest.mark.slow
def test_a_rule_that_divides_by_a_deviation_of_zero_has_a_verdict():
    law = "none: layernorm[axis=b, eps=e](x, s) => layernorm[axis=b, eps=0.0](x, s)"
    assert verdict(law).verdict == "refuted"

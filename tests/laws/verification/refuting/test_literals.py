"""The numbers written in a rule: values are drawn beside them, and long ones stand for what they round."""

import pytest

import workbench
from workbench.graph import GraphBuilder
from workbench.laws.verification.refuting.literals import beyond, rounded


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
        return beyond(nodes, range(len(nodes)), 4)

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
    assert rounded(nodes, range(len(nodes))) is whether


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
    assert found.verdict == "proved"


def test_a_rule_that_divides_by_a_deviation_of_zero_has_a_verdict():
    law = "none: layernorm[axis=b, eps=e](x, s) => layernorm[axis=b, eps=0.0](x, s)"
    assert verdict(law).verdict == "refuted"

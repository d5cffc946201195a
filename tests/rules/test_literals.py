"""Numbers in rules: their matches, their terms, and how the verifier judges them."""

import numpy as np
import pytest

from workbench.graph import GraphBuilder
from workbench.laws.verification.verify import Verification
from workbench.rules import RuleSyntaxError, format_rule, parse_rule, parse_rules
from workbench.rules.literals import nearest_decimal, number
from workbench.rules.pattern import App, DtypeOf, Literal, Var
from workbench.saturation import Limits, Saturation
from workbench.saturation.compile import RuleCompileError, compile_rule
from workbench.saturation.encoding import Encoding


def egraph_of(rules, *operands, op="add", shape=(2, 3), dtype="float32"):
    """Return the e-graph of ``relu(op(x, w))`` for each operand w, and the e-classes of the results."""
    b = GraphBuilder()
    x = b.input("x", shape, dtype)
    ends = [b.op("relu", b.op(op, x, b.weight(data=np.asarray(w, dtype)))) for w in operands]
    graph = b.graph([(f"y{i}", y) for i, y in enumerate(ends)])
    with Saturation(graph, parse_rules(rules), Limits()) as run:
        run.run()
        return run.egraph()


def fired(rules, operand, **more):
    """Return whether a rule fires on ``op(x, operand)``: then there are more e-nodes, or fewer e-classes."""
    none = egraph_of("none: abs(abs(abs(x))) => abs(x)", operand, **more)
    some = egraph_of(rules, operand, **more)
    return (len(some.ops), some.n_classes) != (len(none.ops), none.n_classes)


def test_a_number_is_a_term_and_reads_back():
    (rule,) = parse_rule("half: mul(x, 0.5) => div(x, 2)")
    assert rule.sources[0] == App("mul", (Var("x"), number(0.5)))
    made = rule.targets[0].args[1]
    assert dict(made.attrs) == {"value": Literal(2.0), "dtype": DtypeOf("x")}
    for text in (
        "half: mul(x, 0.5) => div(x, 2)",
        "minus: add(x, -1e-05) => sub(x, 1e-05)",
        "root: div(x, sqrt(2)) => mul(x, sqrt(0.5))",
        "eps: add(x, scalar[value=e]()) => clip[low=e](x)",
    ):
        assert format_rule(parse_rule(text)[0]) == text
        assert parse_rule(format_rule(parse_rule(text)[0])) == parse_rule(text)


def test_a_sign_needs_a_number():
    with pytest.raises(RuleSyntaxError, match="expected a number, found 'x'"):
        parse_rule("p: mul(x, -x) => x")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1)])
def test_any_tensor_of_one_number_matches_that_does_not_change_the_type(shape):
    assert fired("none-added: add(x, 0) => x", np.zeros(shape))


@pytest.mark.parametrize(
    "operand", [np.zeros((1, 2, 3)), np.zeros((1, 1, 1)), np.ones(()), np.eye(3)[:2], -0.0]
)
def test_another_number_or_another_type_does_not_match(operand):
    assert not fired("none-added: add(x, 0) => x", operand)


def test_a_tensor_that_makes_its_operand_larger_does_not_match():
    assert not fired("none-added: add(x, 0) => x", np.zeros((4, 3)), shape=(1, 3))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_decimal_matches_in_every_precision(dtype):
    assert fired("tenth: mul(x, 0.1) => div(x, 10)", 0.1, op="mul", dtype=dtype)
    assert not fired("tenth: mul(x, 0.1) => div(x, 10)", 0.101, op="mul", dtype=dtype)


def test_a_computed_number_matches_what_single_precision_makes_of_it():
    root = "root: div(x, sqrt(2)) => mul(x, sqrt(0.5))"
    assert nearest_decimal(2**0.5) == 1.4142135
    assert fired(root, 2**0.5, op="div")
    assert not fired(root, np.nextafter(np.float32(2**0.5), np.float32(2)), op="div")
    # In double precision 1.4142135 is another number than the root.
    assert not fired(root, 1.4142135, op="div", dtype="float64")


def test_a_number_is_bound_to_a_variable():
    egraph = egraph_of("eps: add(x, scalar[value=e]()) => clip[low=e](x)", np.float32(1e-5), 2.5)
    lows = {a[0] for op, a in zip(egraph.ops, egraph.attrs, strict=True) if op == "clip"}
    assert lows == {1e-5, 2.5}


def test_the_same_number_may_be_two_tensors():
    b = GraphBuilder()
    x = b.input("x", (2, 3))
    one, other = (b.weight(data=np.asarray(2, np.float32)) for _ in range(2))
    graph = b.graph({"y": b.op("mul", b.op("add", x, one), other)})
    with Saturation(graph, parse_rules("p: mul(add(x, 2), 2) => add(mul(x, 2), 4)"), Limits()) as run:
        run.run()
        egraph = run.egraph()
    assert {a[0] for op, a in zip(egraph.ops, egraph.attrs, strict=True) if op == "scalar"} == {2.0, 4.0}
    assert len({int(c) for op, c in zip(egraph.ops, egraph.eclass, strict=True) if op == "mul"}) == 2


def test_what_a_rule_makes_is_matched_again():
    egraph = egraph_of("p: add(x, 1) => sub(x, -1)\nq: sub(x, -1) => abs(x)", 1.0)
    assert {"sub", "abs"} <= set(egraph.ops)


def test_a_made_number_has_the_type_of_its_neighbour():
    egraph = egraph_of("p: add(x, 1) => sub(x, -1)", 1.0, dtype="float64")
    assert [a for op, a in zip(egraph.ops, egraph.attrs, strict=True) if op == "scalar"] == [
        (-1.0, "float64")
    ]


def test_what_cannot_be_matched_is_refused():
    for text, message in (
        ("p: matmul(x, 2) => x", "not repeated"),
        ("p: mul(x, gelu(scalar[value=v]())) => x", "cannot be computed"),
        ("p: mul(x, scalar[value=2.0, dtype=float64]()) => x", "no dtype of its own"),
    ):
        with pytest.raises(RuleCompileError, match=message):
            compile_rule(parse_rule(text)[0], 1, Encoding(4))


@pytest.fixture(scope="module")
def verdicts():
    text = """
    zero: add(x, 0) => x
    zero-wrong: add(x, 1) => x
    root: div(x, sqrt(2)) => mul(x, sqrt(0.5))
    root-wrong: div(x, 1.4142135) => mul(x, sqrt(0.5))
    tenth: mul(x, 0.1) => div(x, 10)
    low: max(x, scalar[value=v]()) => clip[low=v](x)
    low-wrong: max(x, scalar[value=v]()) => clip[high=v](x)
    """
    run = Verification(parse_rules(text))
    run.run()
    return {v.name: v for v in run.verdicts}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero", "root", "tenth", "low"])
def test_a_law_with_numbers_is_confirmed(verdicts, name):
    assert verdicts[name].verdict == "tested"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zero-wrong", "root-wrong", "low-wrong"])
def test_a_wrong_number_is_refuted(verdicts, name):
    assert verdicts[name].verdict == "refuted"

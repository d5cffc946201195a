from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.graph import GraphBuilder
from workbench.laws.verification.verify import Verification
from workbench.ops import TensorType, TypeMismatch
from workbench.rules import RuleSyntaxError, format_rule, parse_rule, parse_rules
from workbench.rules.interpret import (
    ARITHMETIC,
    RELATIONS,
    Bound,
    NotBinding,
    RowAttr,
    attributes,
    bound_attributes,
    bound_term,
    compared,
    entries,
    evaluate,
    holds,
    nearest_decimal,
    number,
    read_attributes,
    read_term,
    value,
)
from workbench.rules.pattern import (
    App,
    Arith,
    AttrVar,
    Compare,
    DimOf,
    DtypeOf,
    Inverse,
    Literal,
    RankOf,
    Var,
    Vector,
    format_expr,
)
from workbench.saturation import Limits, Saturation
from workbench.saturation.compile import RuleCompileError, compile_rule
from workbench.saturation.encoding import Encoding


def rule(text):
    (found,) = parse_rule(f"r: {text}")
    return found


def term(text):
    return rule(f"{text} => x").sources[0]


@dataclass
class Text(Bound):
    """The algebra of texts: it writes terms and expressions, and records the order of what happens."""

    attrs: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)
    made: list = field(default_factory=list)
    members: int = 2

    def fresh(self, attr, variable, place):
        name = variable if isinstance(variable, str) else f"{variable.row}.{variable.name}"
        return f"{name}{place}"

    def literal(self, value, attr):
        return f"{value}"

    def dim(self, var, axis):
        return f"{var}[{axis}]"

    def rank(self, var):
        return f"|{var}|"

    def dtype(self, var):
        return f"type of {var}"

    def arith(self, sign, left, right):
        return f"({left}{sign}{right})"

    def compose(self, left, right):
        return f"{left} after {right}"

    def variable(self, name):
        return name

    def starred(self, name):
        return [f"{name}_{i}" for i in range(self.members)]

    def apply(self, term, operands, attrs):
        self.made.append(term.op)
        return f"{term.op}({' '.join(operands)})"


# -- attributes ------------------------------------------------------------------------------------
def test_an_attribute_is_named_else_its_rows_else_the_default():
    found = {attr.name: expr for attr, expr in attributes(term("conv2d[c, groups=g, act=relu](x, w)"))}
    assert list(found) == ["strides", "pads", "dilations", "groups", "act"]
    assert found["groups"] == AttrVar("g")
    assert found["act"] == Literal("relu")
    assert found["strides"] == RowAttr("c", "strides")
    plain = {attr.name: expr for attr, expr in attributes(term("conv2d[groups=g](x, w)"))}
    assert plain["strides"] == Literal((1, 1))
    bare = {attr.name: expr for attr, expr in attributes(App("slice", (Var("x"),)))}
    assert bare["axis"] is None


def test_variables_are_bound_where_they_appear_first():
    algebra = Text()
    values = bound_attributes(term("conv2d[c, pads=(t, l, t, 0), groups=l](x, w)"), algebra)
    assert values["pads"] == ("t0", "l1", "t0", "0")
    assert values["groups"] == "l1"
    assert algebra.attrs == {"t": "t0", "l": "l1"}
    assert algebra.rows == {"c": {"strides": "c.strides0", "dilations": "c.dilations0", "act": "c.act0"}}
    # A second term with the same row and the same variable reads them.
    algebra.attrs["t"], algebra.rows["c"]["act"] = "T", "A"
    again = bound_attributes(term("conv2d[c, pads=(t, 1, 1, 1), groups=g](x, w)"), algebra)
    assert (again["pads"][0], again["act"], again["groups"]) == ("T", "A", "g0")


def test_a_left_hand_side_computes_nothing():
    half = Arith("//", AttrVar("n"), Literal(2))
    for expr in (half, Vector((half, Literal(1))), DimOf("x", -1)):
        with pytest.raises(NotBinding, match="pads on the left-hand side must be a value or a variable"):
            bound_attributes(App("conv2d", (Var("x"), Var("w")), (("pads", expr),)), Text())


def test_a_target_reads_named_attributes_then_its_row_then_defaults():
    algebra = Text({"n": "N"}, {"c": {"strides": "S", "act": "A"}})
    target = rule("conv2d[c, groups=n](x, w) => conv2d[c, pads=n + 1, groups=dim(w, -4) // n](x, w)").targets[
        0
    ]
    assert read_attributes(target, algebra) == {
        "strides": "S",
        "pads": ("(N+1)",) * 4,
        "dilations": "(1, 1)",
        "groups": "(w[-4]//N)",
        "act": "A",
    }


# -- expressions -----------------------------------------------------------------------------------
def test_arithmetic_goes_entry_by_entry_from_either_side():
    algebra = Text({"p": ("a", "b"), "q": ("c", "d"), "n": "n"})
    p, q, n = map(AttrVar, "pqn")
    assert value(Arith("-", p, n), algebra) == ("(a-n)", "(b-n)")
    assert value(Arith("-", n, p), algebra) == ("(n-a)", "(n-b)")
    assert value(Arith("*", p, q), algebra) == ("(a*c)", "(b*d)")
    assert value(Arith("max", n, RankOf("x")), algebra) == "(nmax|x|)"
    assert value(Arith("compose", p, q), algebra) == "('a', 'b') after ('c', 'd')"
    with pytest.raises(ValueError, match="zip"):
        entries((1, 2), (1, 2, 3))


def test_conditions_compare_entry_by_entry():
    algebra = Text({"p": ("a", "b"), "n": "n"})
    assert compared(Compare("<", AttrVar("p"), AttrVar("n")), algebra) == [("a", "n"), ("b", "n")]
    assert compared(Compare("<", AttrVar("n"), AttrVar("p")), algebra) == [("n", "a"), ("n", "b")]
    assert compared(Compare("=", DimOf("x", -1), Literal(3)), algebra) == [("x[-1]", "3")]


numbers = st.one_of(
    st.integers(1, 5).map(Literal),
    st.sampled_from(["m", "n"]).map(AttrVar),
    st.integers(1, 4).map(lambda axis: DimOf("x", -axis)),
    st.just(RankOf("x")),
)
expressions = st.recursive(
    numbers,
    lambda inner: st.builds(Arith, st.sampled_from(sorted(ARITHMETIC)), inner, inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(expressions, st.integers(-3, 7), st.integers(1, 9))
def test_an_expression_means_what_its_text_says(expr, m, n):
    shape = (2, 3, 5)
    names = {
        "m": m,
        "n": n,
        "x": None,
        "dim": lambda _, axis: shape[axis] if axis >= -3 else 1,
        "rank": lambda _: 3,
    }
    found = expected = None
    try:
        expected = eval(format_expr(expr), names)
    except ZeroDivisionError:
        with pytest.raises(TypeMismatch):  # a rule does not apply if it divides by 0
            evaluate(expr, names.__getitem__, lambda _: TensorType("float32", shape))
    else:
        found = evaluate(expr, names.__getitem__, lambda _: TensorType("float32", shape))
    assert found == expected


def test_relations_mean_what_they_are_called():
    found = {name: [relation(a, 2) for a in (1, 2, 3)] for name, relation in RELATIONS.items()}
    assert found == {
        "=": [False, True, False],
        "!=": [True, False, True],
        "<": [True, False, False],
        "<=": [True, True, False],
        ">": [False, False, True],
        ">=": [False, True, True],
    }


# -- terms -----------------------------------------------------------------------------------------
def test_operands_come_before_their_reader():
    algebra = Text()
    assert bound_term(term("add(relu(matmul[c](x, w)), y)"), algebra) == "add(relu(matmul(x w)) y)"
    assert algebra.made == ["matmul", "relu", "add"]
    assert algebra.rows == {"c": {"act": "c.act0"}}


def test_equal_terms_have_one_meaning_if_they_are_remembered():
    twice = term("add(relu(x), relu(x))")
    algebra, made = Text(), {}
    assert bound_term(twice, algebra, made=made) == "add(relu(x) relu(x))"
    assert algebra.made == ["relu", "add"]
    assert made[twice.args[0]] == "relu(x)"
    # Values that the left-hand side made are there for the right-hand side.
    assert read_term(term("sigmoid(relu(x))"), algebra, made=made) == "sigmoid(relu(x))"
    assert algebra.made == ["relu", "add", "sigmoid"]
    algebra = Text()
    read_term(twice, algebra)
    assert algebra.made == ["relu", "relu", "add"]


def test_starred_variables_are_one_members_or_all_members():
    law = rule("each matmul[c](x, w*) => slice[axis=-1](matmul[c](x, concat[axis=-1](w*)))")
    algebra = Text(rows={"c": {"act": "A"}}, members=3)
    assert bound_term(law.sources[0], algebra, member=1) == "matmul(x w_1)"
    assert read_term(law.targets[0].args[0], algebra) == "matmul(x concat(w_0 w_1 w_2))"


ATTRS = {"n": 7, "pads": (1, 2, 3, 4), "p": (2, 0, 1), "q": (1, 0, 2)}
TYPES = {"x": TensorType("float32", (5, 6))}


def on_numbers(expr):
    return evaluate(expr, ATTRS.__getitem__, TYPES.__getitem__)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Literal((1, 2)), (1, 2)),
        (Arith("//", AttrVar("n"), Literal(2)), 3),
        (Arith("%", AttrVar("n"), Literal(4)), 3),
        (Arith("max", AttrVar("n"), DimOf("x", -1)), 7),
        (Arith("min", AttrVar("n"), DimOf("x", -1)), 6),
        (DimOf("x", -3), 1),
        (RankOf("x"), 2),
        (DtypeOf("x"), "float32"),
        (Arith("+", AttrVar("pads"), Literal(1)), (2, 3, 4, 5)),
        (Arith("-", AttrVar("pads"), AttrVar("pads")), (0, 0, 0, 0)),
        (Vector((AttrVar("n"), Arith("*", DimOf("x", -2), Literal(3)))), (7, 15)),
        (Arith("compose", AttrVar("p"), AttrVar("q")), (0, 2, 1)),
        (Inverse(AttrVar("p")), (1, 2, 0)),
        (Arith("compose", AttrVar("p"), Inverse(AttrVar("p"))), (0, 1, 2)),
        (Arith("axis", AttrVar("p"), Literal(-1)), -2),
        (Arith("axis", Inverse(AttrVar("p")), Literal(-2)), -1),
    ],
)
def test_values(expr, expected):
    assert on_numbers(expr) == expected


def test_conditions():
    assert holds(Compare("<", Literal(0), AttrVar("n")), ATTRS.__getitem__, TYPES.__getitem__)
    assert holds(Compare(">=", AttrVar("pads"), Literal(1)), ATTRS.__getitem__, TYPES.__getitem__)
    assert not holds(Compare(">", AttrVar("pads"), Literal(1)), ATTRS.__getitem__, TYPES.__getitem__)


def test_permutations_of_two_ranks():
    with pytest.raises(TypeMismatch, match="do not compose"):
        on_numbers(Arith("compose", AttrVar("p"), Literal((1, 0))))


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

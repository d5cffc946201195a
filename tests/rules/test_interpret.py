from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.ops import TensorType, TypeMismatch
from workbench.rules import parse_rule
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

"""Names proposed for laws, and short names of their variables."""

import re
from itertools import islice

import pytest

from workbench.laws.synthesis.naming import fresh_names, proposed_name, tidied, unique_name
from workbench.rules import parse_rule
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_rule


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        ("add(y, x)", "add(x, y)", "add-commutes"),
        ("add(add(x, y), z)", "add(x, add(y, z))", "add-associates"),
        ("transpose[perm=(1, 0)](transpose[perm=(1, 0)](x))", "x", "transpose-of-transpose-cancels"),
        ("relu(concat[axis=-1](x, y))", "concat[axis=-1](relu(x), relu(y))", "relu-over-concat"),
        ("matmul(concat[axis=-1](x, y), concat[axis=-2](z, w))", "add(matmul(x, z), matmul(y, w))",
         "matmul-of-concat-as-add-matmul"),
    ],
)  # fmt: skip
def test_a_name_says_what_the_operators_do(left, right, name):
    assert proposed_name(parse_term(left), parse_term(right)) == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)


def test_a_name_that_is_taken_gets_a_number():
    assert unique_name("add-commutes", {"add-commutes", "add-commutes-2"}) == "add-commutes-3"


def test_variables_get_short_names_and_conditions_follow():
    (rule,) = parse_rule("a: add(x_0, x_1) => add(x_1, x_0) where dim(x_1, -1) = 3")
    assert format_rule(tidied(rule, {})) == "a: add(x, y) => add(y, x) where dim(y, -1) = 3"
    (conv,) = parse_rule("b: relu(conv2d[c](i, k_1)) => conv2d[c](i, k_1)")
    assert "conv2d[c](x, w)" in format_rule(tidied(conv, {"k_1": ("c", "c", "k", "k")}))


def test_names_do_not_end():
    assert list(islice(fresh_names("xy"), 5)) == ["x", "y", "x2", "y2", "x3"]

"""Names proposed for laws."""

import re

import pytest

from workbench.laws.synthesis.naming import proposed_name, unique_name
from workbench.rules.language import parse_term


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

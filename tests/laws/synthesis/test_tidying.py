"""Variables of laws get short names, and everything that names them follows."""

from itertools import islice

from workbench.laws.synthesis.tidying import fresh_names, tidied
from workbench.rules import parse_rule
from workbench.rules.pattern import format_rule


def test_variables_get_short_names_and_conditions_follow():
    (rule,) = parse_rule("a: add(x_0, x_1) => add(x_1, x_0) where dim(x_1, -1) = 3")
    assert format_rule(tidied(rule, {})) == "a: add(x, y) => add(y, x) where dim(y, -1) = 3"
    (conv,) = parse_rule("b: relu(conv2d[c](i, k_1)) => conv2d[c](i, k_1)")
    assert "conv2d[c](x, w)" in format_rule(tidied(conv, {"k_1": ("c", "c", "k", "k")}))


def test_names_do_not_end():
    assert list(islice(fresh_names("xy"), 5)) == ["x", "y", "x2", "y2", "x3"]

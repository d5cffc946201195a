import re

import pytest

from workbench.rules import rule_set
from workbench.saturation.egglog_session import Base
from workbench.saturation.encoding import Encoding
from workbench.saturation.joins import equal_types
from workbench.saturation.saturation import compile_rules


def test_variables_are_compared_by_a_test_and_expressions_as_they_are():
    assert equal_types("s_x_", "s_y_") == "(= s_x_ (vec-append s_y_))"
    assert equal_types("s_x_", "(vec-of 0 1 3)") == "(= s_x_ (vec-of 0 1 3))"
    assert equal_types("(vec-of 0 1 3)", "s_x_") == "(= (vec-of 0 1 3) s_x_)"


@pytest.mark.parametrize(("second", "found"), [("(vec-of 1 2)", 1), ("(vec-of 1 3)", 0), ("(vec-of 1)", 0)])
def test_a_test_holds_for_equal_types_alone(second, found):
    base = Base("(sort T) (sort VI (Vec i64)) (function ty_ (T) VI :no-merge) (constructor f (i64) T)")
    base.begin({})
    facts = f"(= x_ (f 1)) (= y_ (f 2)) (= s_x_ (ty_ x_)) (= s_y_ (ty_ y_)) {equal_types('s_x_', 's_y_')}"
    base.include(
        f"(set (ty_ (f 1)) (vec-of 1 2)) (set (ty_ (f 2)) {second}) (relation same (T T))"
        f'(ruleset r_) (rule ({facts}) ((same x_ y_)) :ruleset r_ :name "r")'
    )
    base.run("(run r_ 1)")
    (output,) = base.run("(print-size same)")
    assert output.size == found


def test_no_rule_of_the_library_joins_by_types():
    rules = compile_rules(rule_set("default"), Encoding(4), True)
    joined = [c.rule.name for c in rules if re.search(r"\(= s_\w+ s_\w+\)", c.text + c.counting)]
    assert joined == []
    assert sum("vec-append" in c.text for c in rules) > 20

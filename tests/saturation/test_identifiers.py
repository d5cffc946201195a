"""Names of tensor variables: any name may be used in a rule, as none is mistaken for the program's own."""

import re

import pytest

from tests.saturation.test_engine import engine_of, sum_of
from workbench.graph import GraphBuilder
from workbench.rules import parse_rule
from workbench.saturation.encoding import PRELUDE
from workbench.saturation.engine import Plan
from workbench.saturation.identifiers import named


def grown(x, y):
    (rule,) = parse_rule(f"exchanged: add({x}, {y}) => add({y}, {x})")
    engine = engine_of(sum_of(4), rule)
    engine.iterate(Plan(1, False, 1000))
    return engine.sizes()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("x", "s_x"),  # the type of x
        ("k0", "v_k0"),  # the new name of k0
        ("uniform", "stamp"),
        ("t1", "n2"),
        ("add_n2", "x"),
        ("ea", "constant"),
    ],
)
def test_rules_match_alike_whatever_their_variables_are_called(x, y):
    assert grown(x, y) == grown("x", "y") != grown("x", "x")


def test_a_variable_is_not_mistaken_for_an_attribute():
    b = GraphBuilder("g")
    total = b.op("add", b.input("x", (2, 3)), b.input("y", (2, 3)))
    graph = b.graph({"t": b.op("transpose", total, perm=(1, 0))})
    found = []
    for y in ("y", "a_p"):
        (rule,) = parse_rule(f"moved: transpose[perm=p](add(x, {y})) => add({_moved('x')}, {_moved(y)})")
        engine = engine_of(graph, rule)
        engine.iterate(Plan(1, False, 1000))
        found.append(sorted(engine.snapshot().ops))
    assert found[0] == found[1]
    assert found[0].count("transpose") == 3


def _moved(name):
    return f"transpose[perm=p]({name})"


def test_no_variable_has_the_name_of_a_table_or_a_rule_set():
    own = re.findall(r"\((?:function|relation|ruleset|constructor) (\w+)_ ?[()]", PRELUDE)
    assert {"ty", "uniform", "found"} <= set(own)
    assert {named(name) for name in own} == {f"v_{name}_" for name in own}


def test_different_variables_have_different_names():
    names = ["x", "s_x", "v_x", "v_s_x", "k0", "v_k0", "v_v_k0", "h", "v_h", "add_n2_t", "rs_x", "group1"]
    assert len({named(name) for name in names}) == len(names)

"""A part does not sink below a value that is needed whole."""

import pytest

from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, parse_rules, rule_set
from workbench.saturation import Limits, Saturation
from workbench.saturation.pushdown_guard import sinks

LAWS = """phase movement
product: slice[axis=-2, r](matmul[c](x, w)) => matmul[c](slice[axis=-2, r](x), w)
bent: slice[axis=-2, r](relu(x)) => relu(slice[axis=-2, r](x))
turned: slice[axis=-2, start=i, stop=j](transpose[perm=(1, 0, 2)](x)) => \\
    transpose[perm=(1, 0, 2)](slice[axis=-3, start=i, stop=j](x))
"""


def test_a_law_sinks_if_it_computes_with_the_part():
    assert [sinks(rule) for rule in parse_rules(LAWS)] == [True, True, False]
    assert not any(sinks(rule) for rule in parse_rule("bent: slice[r](relu(x)) => relu(slice[r](x))"))
    assert {"rows-of-product", "part-of-gelu"} <= {r.name for r in rule_set("default") if sinks(r)}


def layers(outputs):
    """Return three layers of which a row is read and, if ``outputs`` is 2, the second whole."""
    b = GraphBuilder()
    x = b.input("x", (6, 4))
    between = []
    for _ in range(3):
        x = b.op("relu", b.op("matmul", x, b.weight((4, 4))))
        between.append(x)
    row = b.op("slice", x, axis=-2, start=0, stop=1)
    return b.graph({"y": row, "z": between[1]} if outputs == 2 else {"y": row})


def rows_of(saturation, op):
    egraph = saturation.egraph()
    return sum(
        egraph.ops[i] == op and egraph.types[egraph.eclass[i]].shape[0] == 1 for i in range(len(egraph))
    )


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(("outputs", "sunk"), [(1, 3), (2, 1)])
def test_a_row_sinks_as_far_as_nothing_is_needed_whole(outputs, sunk, weights):
    saturation = Saturation(layers(outputs), parse_rules(LAWS), Limits(weights=weights))
    saturation.run()
    assert rows_of(saturation, "relu") == rows_of(saturation, "matmul") == sunk


def test_a_value_in_another_order_is_needed_whole_too():
    b = GraphBuilder()
    x = b.op("relu", b.input("x", (6, 2, 4)))
    y = b.op("transpose", x, perm=(1, 0, 2))
    z = b.op("relu", y)
    graph = b.graph({"x": x, "row": b.op("slice", z, axis=-2, start=0, stop=1)})
    laws = parse_rules(LAWS + "down: transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))")
    saturation = Saturation(graph, laws)
    saturation.run()
    egraph = saturation.egraph()
    assert {egraph.rules[int(r)] for r in egraph.birth_rule if r >= 0} == {"bent", "turned", "down"}
    rows = [
        i for i in range(len(egraph)) if egraph.ops[i] == "relu" and 1 in egraph.types[egraph.eclass[i]].shape
    ]
    assert len(rows) == 1  # the row of z; below it, the row is a view of x

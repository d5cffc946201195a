"""Extraction from e-graphs of egglog-python, from files, and from columns."""

from __future__ import annotations

import json

import egglog
import numpy as np
import pytest

import workbench
from tests.extraction.egraphs import random_egraph
from workbench.extraction import NoExtraction, Status
from workbench.extraction.api import extract
from workbench.extraction.egglog_python import s_expressions


class Num(egglog.Expr):
    def __init__(self, value: egglog.i64Like) -> None: ...

    @classmethod
    def var(cls, name: egglog.StringLike) -> Num: ...

    def __add__(self, other: Num) -> Num: ...

    def __mul__(self, other: Num) -> Num: ...

    @classmethod
    def total(cls, parts: egglog.Vec[Num]) -> Num: ...


def distributed():
    egraph = egglog.EGraph()
    expr = egraph.let("expr", Num(2) * (Num.var("x") + Num(3)))

    @egraph.register
    def _rules(x: Num, y: Num, z: Num, i: egglog.i64, j: egglog.i64):
        yield egglog.rewrite(x + y).to(y + x)
        yield egglog.rewrite(x * (y + z)).to((x * y) + (x * z))
        yield egglog.rewrite(Num(i) * Num(j)).to(Num(i * j))

    egraph.run(10)
    return egraph, expr


def test_an_egraph_of_egglog_python_gives_a_typed_expression_with_bound_and_status():
    egraph, expr = distributed()
    found = workbench.extract(egraph, expr)
    _, cost = egraph.extract(expr, include_cost=True)
    assert found.status is Status.OPTIMAL
    assert found.cost == found.bound == cost == 8
    assert isinstance(found.expr, Num)
    egraph.check(egglog.eq(found.expr).to(expr))
    assert found.gap == 0


def test_the_cheapest_expressions_are_distinct_and_equal_to_the_first():
    egraph, expr = distributed()
    found = extract(egraph, expr, k=3)
    assert len({str(e) for e, _ in found.best}) == 3
    assert [c for _, c in found.best] == sorted(c for _, c in found.best)
    for term, _ in found.best:
        egraph.check(egglog.eq(term).to(expr))


def test_a_function_of_an_e_node_is_its_cost():
    egraph, expr = distributed()

    def cost(node):
        fn = egglog.get_callable_fn(node)
        return 100.0 if fn == Num.__add__ else 1.0

    # Each sum costs 100, and every term has one.
    assert 100 < extract(egraph, expr, cost=cost).cost < 200
    expensive = extract(egraph, expr, cost=lambda node: 50.0 if egglog.get_callable_fn(node) == Num else 1.0)
    assert expensive.cost == 103  # two numbers


def test_costs_that_were_set_and_declared_are_egglogs():
    egraph, expr = distributed()
    egraph.register(egglog.set_cost(Num.var("x") + Num(3), 50))
    found = extract(egraph, expr)
    assert found.cost == egraph.extract(expr, include_cost=True)[1] == 8
    assert str(found.expr) == 'Num(2) * (Num(3) + Num.var("x"))'


def test_what_is_shared_is_paid_once():
    egraph = egglog.EGraph()
    shared = (Num.var("x") + Num.var("y")) * Num.var("z")
    expr = egraph.let("expr", shared + shared)
    found = extract(egraph, expr)
    assert found.cost == 9
    assert egraph.extract(expr, include_cost=True)[1] == 17


def test_subsumed_e_nodes_are_left_out():
    egraph = egglog.EGraph()
    expr = egraph.let("expr", Num(1) + Num(2))
    egraph.register(egglog.union(expr).with_(Num(1) * Num(2) * Num(3)))
    egraph.register(egglog.subsume(Num(1) + Num(2)))
    assert str(extract(egraph, expr).expr) == "Num(1) * Num(2) * Num(3)"


def test_containers_of_e_classes_are_rebuilt():
    egraph = egglog.EGraph()
    expr = egraph.let("expr", Num.total(egglog.Vec(Num(1) * Num(2), Num(3))))
    egraph.register(egglog.union(Num(1) * Num(2)).with_(Num(2)))
    found = extract(egraph, expr)
    assert str(found.expr) == str(Num.total(egglog.Vec(Num(2), Num(3))))
    egraph.check(egglog.eq(found.expr).to(expr))


def test_an_expression_of_a_primitive_sort_is_refused():
    egraph, _ = distributed()
    with pytest.raises(NoExtraction, match="a sort with e-classes"):
        extract(egraph, egglog.i64(3))


def test_a_file_gives_an_s_expression(tmp_path):
    nodes = {
        "root": {"op": "add", "children": ["a", "a"], "eclass": "0", "cost": 1},
        "a": {"op": "x", "children": [], "eclass": "1", "cost": 5},
        "b": {"op": "neg", "children": ["c"], "eclass": "1", "cost": 1},
        "c": {"op": "y", "children": [], "eclass": "2", "cost": 1},
    }
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["0"]}))
    found = extract(path, k=2)
    assert [(e, c) for e, c in found.best] == [("(add (neg y) (neg y))", 3.0), ("(add x x)", 6.0)]
    assert extract(path, cost=len).expr == "(add x x)"


def test_a_file_of_several_roots_gives_a_term_for_each(tmp_path):
    nodes = {
        "f": {"op": "f", "children": ["x"], "eclass": "0", "cost": 2},
        "g": {"op": "g", "children": ["x", "y"], "eclass": "1", "cost": 3},
        "h": {"op": "h", "children": ["f"], "eclass": "1", "cost": 1},
        "x": {"op": "x", "children": [], "eclass": "2", "cost": 5},
        "y": {"op": "y", "children": [], "eclass": "3", "cost": 1},
    }
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["1", "0"]}))
    found = extract(path, k=2)
    assert found.exprs == ("(h (f x))", "(f x)")
    assert found.expr == "(h (f x))\n(f x)"
    assert [(e, c) for e, c in found.best] == [(found.expr, 8.0), ("(g x y)\n(f x)", 11.0)]


def test_columns_are_extracted_as_before():
    egraph, costs = random_egraph(3)
    found = workbench.extract(egraph, costs, "dag")
    assert found.cost >= workbench.extract(egraph, costs).cost
    assert s_expressions(egraph, found.choice)[0]
    with pytest.raises(ValueError, match="k must be at least 1"):
        extract(*distributed(), k=0)


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="got ndarray"):
        extract(np.zeros(3), None)

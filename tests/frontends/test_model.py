"""Models as they are read, and the sizes at which a user asks to price their dimensions."""

import pytest

import workbench
from workbench.frontends.model import ModelError, Source, SymbolTable, check_elements_at, check_names
from workbench.frontends.model_file import fixed_model
from workbench.graph import GraphBuilder
from workbench.studies.benchmarks import benchmark
from workbench.symbolic import Generic


def test_a_model_that_is_a_graph_is_itself():
    graph = benchmark("bert", layers=1)
    model = fixed_model(graph)
    assert model.graph is model.searched is graph
    assert (model.coverage, model.source) == (None, None)


def test_names_must_be_known_and_sizes_positive():
    check_names({"n": 3}, ["n"])
    with pytest.raises(ModelError, match="got 'm'; there are: n"):
        check_names({"m": 3}, ["n"])
    for size in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match=r"sizes\['n'\] must be a positive integer"):
            check_names({"n": size}, ["n"])


def test_inputs_that_no_machine_holds_are_refused_before_they_are_drawn():
    b = GraphBuilder("large")
    graph = b.graph({"y": b.op("relu", b.input("x", (10**12, 8)))})
    with pytest.raises(ModelError, match="input 'x' at n=1000000000000 must have at most"):
        check_elements_at(graph, {"n": 10**12})


def test_a_graph_has_no_dimensions_to_fix_or_to_price():
    b = GraphBuilder("fixed")
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 3)))})
    for argument in ("dims", "sizes"):
        with pytest.raises(ModelError, match=f"{argument} must name .*, got 'n'; the model has none"):
            workbench.optimize(graph, cost="analytic", time=False, **{argument: {"n": 3}})


@pytest.mark.parametrize("model", [None, 3, []])
def test_what_is_no_model_is_named(model):
    with pytest.raises(TypeError, match="a model must be a graph, a path, bytes or a ModelProto, got"):
        workbench.optimize(model, cost="analytic", time=False)


def test_what_are_no_rules_is_named():
    b = GraphBuilder("fixed")
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 3)))})
    with pytest.raises(TypeError, match="rules must be names, files or rules, got 3"):
        workbench.optimize(graph, rules=3, cost="analytic", time=False)


def test_extents_are_declared_by_the_names_of_symbols():
    n, s = 14_489, 51_991
    table = SymbolTable(Generic({"n": n, "s": s}), {("x", 0): "n", ("x", 1): "s"}, frozenset({"n"}))
    assert table.dims((n, 4, n * s)) == ["n", 4, None]  # no name of the file stands for s
    assert table.dims((2 * n, 4), "x") == ["n", 4]  # an axis of an input bears its own name
    assert SymbolTable(table.generic, named=frozenset({"n", "s"})).dims((n, n * s)) == ["n", "n*s"]
    assert table.sources == {"n": Source("x", 0), "s": Source("x", 1)}
    assert SymbolTable().dims((n, 4)) == [n, 4]

"""Extractors by name."""

import pytest

import workbench
from workbench.extraction import extract
from workbench.extraction.api import extractor
from workbench.extraction.registry import METHODS
from workbench.support.messages import UnknownName


@pytest.fixture(scope="module")
def found():
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.op("relu", b.input("x", (2, 3))))})
    return workbench.optimize(graph, cost="analytic")


def test_names_are_looked_up_before_anything_runs(found):
    with pytest.raises(UnknownName, match="did you mean exact"):
        workbench.optimize(found.original, cost="analytic", extractor="exakt")
    with pytest.raises(ValueError, match="the extraction method must be one of exact"):
        extract(found.egraph, found.costs, "exakt")
    with pytest.raises(ValueError, match="must not be a built-in one"):
        extractor.register("tree")(extract)


def test_the_built_in_ones_are_found_by_the_same_lookup(found):
    assert extractor("tree")(found.egraph, found.costs).method == "tree"
    assert extractor.names()[: len(METHODS)] == list(METHODS)

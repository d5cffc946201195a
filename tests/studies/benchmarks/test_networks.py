"""The published networks: their sizes in Tensat's e-graph, their outputs, and the benchmark table."""

import numpy as np
import pytest

from workbench.certification.inputs import random_inputs
from workbench.graph import evaluate
from workbench.studies.benchmarks import PUBLISHED, benchmark, benchmarks, tensat_size

TENSAT = {
    "bert": 192, "nasrnn": 403, "resnet50": 193, "resnext50": 198, "nasneta": 806,
    "inceptionv3": 334, "squeezenet": 127, "vgg19": 96, "mobilenetv2": 694,
}  # fmt: skip
OUTPUT = {
    "bert": (64, 1024), "nasrnn": (1, 512), "resnet50": (1, 2048, 7, 7), "resnext50": (1, 2048, 7, 7),
    "nasneta": (1, 5120, 7, 7), "inceptionv3": (1, 2048, 1, 1), "squeezenet": (1, 1000),
    "vgg19": (1, 1000), "mobilenetv2": (1, 1000), "transformer": (1, 64, 512),
}  # fmt: skip
SMALL = {
    "bert": {"layers": 2, "sequence": 8, "hidden": 32, "heads": 4},
    "nasrnn": {"hidden": 16, "length": 2},
    "resnet50": {"image": 8, "blocks": (1, 1, 1, 1), "width": 8},
    "resnext50": {"image": 32, "blocks": (1, 1, 1, 1), "width": 32},
    "nasneta": {"image": 32, "channels": 8, "stages": 2, "cells": 2},
    "inceptionv3": {"image": 79, "width": 0.1},
    "squeezenet": {"image": 67},
    "vgg19": {"image": 32, "width": 0.05},
    "mobilenetv2": {"image": 32},
    "transformer": {"layers": 1, "sequence": 6, "hidden": 16, "heads": 4, "batch": 2},
}


@pytest.mark.parametrize("name", TENSAT)
def test_the_start_graph_has_the_size_tensat_reports(name):
    assert tensat_size(benchmark(name)) == TENSAT[name]


@pytest.mark.parametrize("name", benchmarks())
def test_shape_of_the_output(name):
    assert list(benchmark(name).output_types.values())[-1].shape == OUTPUT[name]


@pytest.mark.parametrize("name", benchmarks())
def test_small_versions_compute_finite_values(name):
    graph = benchmark(name, **SMALL[name])
    results = evaluate(graph, random_inputs(graph, 0, 0), precise=True)
    assert all(np.isfinite(r).all() for r in results.values())
    assert any(np.ptp(r) > 0 for r in results.values())


def test_building_twice_gives_the_same_network():
    for name in benchmarks():
        first, second = benchmark(name, **SMALL[name]), benchmark(name, **SMALL[name])
        assert first.structural_hash() == second.structural_hash()
        for weight in first.weights:
            np.testing.assert_array_equal(first.weights[weight].value(), second.weights[weight].value())


def test_bert_has_a_side_output_a_layer():
    assert len(benchmark("bert").outputs) == 9


def test_published_figures_cover_tensats_seven():
    assert list(PUBLISHED) == ["bert", "resnext50", "nasneta", "nasrnn", "inceptionv3", "squeezenet", "vgg19"]


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(LookupError, match="squeezenet"):
        benchmark("squeezenett")

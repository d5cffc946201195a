"""The two graphs of a region are compared on random values, large images at reduced size."""

import numpy as np
import onnx
import pytest

from workbench.certification import half_precision
from workbench.certification.files import _together
from workbench.certification.inputs import Range
from workbench.certification.region_check import compare, short_fault, smaller, work
from workbench.certification.regions import Region
from workbench.certification.tolerance import difference
from workbench.graph import GraphBuilder


def region(extent, *, wrong=False, flatten=False):
    sides = []
    for fused in (False, True):
        b = GraphBuilder()
        x = b.input("v0", (1, 64, extent, extent))
        w = b.weight((64, 64, 3, 3), name="w")
        if fused:
            y = b.op("conv2d", x, w, pads=1, act="none" if wrong else "relu")
        else:
            y = b.op("relu", b.op("conv2d", x, w, pads=1))
        y = b.op("reshape", y, shape=(1, 64 * extent * extent)) if flatten else y
        sides.append(b.graph({"r0": y}))
    return Region(sides[0], sides[1], (0,), ("output 'y'",), ("y",))


def test_equal_graphs_differ_by_rounding_alone():
    outcome = compare(region(8), draws=3, seed=0, tolerance=1e-9)
    assert outcome.difference is None
    assert outcome.error < 1e-13


def test_a_difference_is_found_with_both_values():
    outcome = compare(region(16, wrong=True), draws=3, seed=0, tolerance=1e-9)
    at = outcome.difference
    assert at.draw == 0
    assert at.expected == 0 > at.found  # the original has a relu there
    assert len(at.index) == 4


def test_large_images_become_small_and_keep_their_operators():
    large = region(56)
    small = smaller(large)
    assert work(small.before) < work(large.before) / 20
    assert small.before.operators() == large.before.operators()
    assert small.before.output_types == small.after.output_types
    assert compare(large, draws=1, seed=0, tolerance=1e-9).difference is None
    assert compare(region(56, wrong=True), draws=1, seed=0, tolerance=1e-9).difference is not None


def test_what_is_small_or_has_its_size_in_an_attribute_stays():
    assert smaller(region(8)) is None
    assert smaller(region(56, flatten=True)) is None


@pytest.mark.parametrize("axis", [-1, -2])
def test_an_axis_of_which_stored_places_are_read_keeps_its_extent(axis):
    sides = []
    for first in (False, True):
        b = GraphBuilder()
        kernel = b.weight((64, 64, 1, 1), name="w")
        x, places = b.input("v0", (1, 64, 56, 56)), b.weight(data=np.arange(56)[::-1].copy(), name="p")
        if first:
            y = b.op("conv2d", b.op("gather", x, places, axis=axis), kernel)
        else:
            y = b.op("gather", b.op("conv2d", x, kernel), places, axis=axis)
        sides.append(b.graph({"r0": y}))
    read = Region(sides[0], sides[1], (0,), ("output 'y'",), ("y",))
    assert smaller(read) is None
    assert compare(read, draws=1, seed=0, tolerance=1e-9).difference is None


def test_values_are_drawn_from_the_range_that_was_seen():
    b = GraphBuilder()
    log = b.graph({"r0": b.op("log", b.input("v0", (64,)))})
    b = GraphBuilder()
    magnitude = b.graph({"r0": b.op("log", b.op("abs", b.input("v0", (64,))))})
    both = Region(log, magnitude, (0,), ("output 'y'",), ("y",))
    positive = {"v0": Range(5.0, 1.0, 1.0, 9.0)}
    assert compare(both, draws=1, seed=0, tolerance=1e-9, ranges=positive).difference is None
    assert compare(both, draws=1, seed=0, tolerance=1e-9).difference is not None


@pytest.mark.parametrize(
    ("expected", "found", "error"),
    [
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.inf], [1.0, -np.inf], np.inf),
        ([1.0, np.inf], [1.0, 2.0], np.inf),
        ([np.nan], [np.nan], 0.0),
        ([2.0, 0.0], [2.0, 1.0], 0.5),
    ],
)
def test_what_is_not_finite_must_agree(expected, found, error):
    assert difference(np.array(expected), np.array(found))[0] == error


def heads(features, *, wrong=False):
    sides = []
    for joined in (False, True):
        b = GraphBuilder()
        x = b.input("v0", (64, features))
        w = [b.weight((features, features), name=f"w{k}") for k in range(3)]
        if joined:
            wide = b.op("matmul", x, b.op("concat", *w, axis=-1))
            starts = [features * k for k in ((0, 2, 1) if wrong else (0, 1, 2))]
            parts = [b.op("slice", wide, axis=-1, start=s, stop=s + features) for s in starts]
        else:
            parts = [b.op("matmul", x, v) for v in w]
        sides.append(b.graph({f"r{k}": p for k, p in enumerate(parts)}))
    return Region(sides[0], sides[1], (0,), ("a", "b", "c"), ("", "", ""))


def test_many_features_become_few_in_values_weights_and_slices():
    small = smaller(heads(1024))
    assert small.before.input_types["v0"].shape == (64, 64)
    assert {w.type.shape for w in small.after.weights.values()} == {(64, 64)}
    stops = [n.attr("stop") for n in small.after.nodes if n.op == "slice"]
    assert stops == [64, 128, 192]
    assert compare(heads(1024), draws=2, seed=0, tolerance=1e-9).difference is None
    wrong = compare(heads(1024, wrong=True), draws=2, seed=0, tolerance=1e-9)
    assert wrong.difference.what == "b"


def test_a_memo_is_not_asked_about_weights_that_are_gone():
    memo = {}
    for _ in range(3):
        assert compare(heads(1024), draws=1, seed=0, tolerance=1e-9, memo=memo).difference is None
    assert memo == {}


def test_halves_are_computed_on_larger_and_smaller_values(monkeypatch):
    b = GraphBuilder()
    x, n = b.input("v0", (3, 4), "float16"), b.input("v1", (2,), "int64")
    graph = b.graph({"r0": b.op("relu", x), "r1": b.op("reshape", n, shape=(1, 2))})
    found = []
    monkeypatch.setattr(half_precision, "range_fault", lambda before, after, feeds: found.extend(feeds))
    short_fault(Region(graph, graph, (0, 1), ("output 'y'", "output 'n'"), ("y", "n")), seed=0)
    plain, large, small = found
    assert all(feeds["v0"].dtype == np.float16 for feeds in found)
    np.testing.assert_allclose(large["v0"], plain["v0"] * np.float16(150), rtol=1e-3)
    np.testing.assert_allclose(small["v0"], plain["v0"] * np.float16(1 / 150), rtol=1e-3)
    assert all((feeds["v1"] == plain["v1"]).all() for feeds in found)


@pytest.mark.parametrize(
    ("second", "together"), [({"": 18}, True), ({"": 17}, False), ({"": 18, "own": 2}, False)]
)
def test_pieces_of_one_operator_set_alone_are_run_together(second, together):
    def model(versions):
        node = onnx.helper.make_node("Relu", ["x"], ["y"])
        own = [onnx.helper.make_node("Own", ["y"], ["z"], domain="own")] if "own" in versions else []
        graph = onnx.helper.make_graph([node, *own], "piece", [], [])
        sets = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
        return onnx.helper.make_model(graph, opset_imports=sets)

    first = model({"": 18, "own": 1})
    assert _together(first, model(second)) == _together(model(second), first) == together

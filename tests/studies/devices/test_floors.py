"""Floors are never above what any graph of the e-graph needs, and say which part of it they speak of."""

import html
import json
import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import workbench
from workbench.costs import OpInstance
from workbench.costs.pricing import price_egraph
from workbench.faces.views.report import report_html
from workbench.ops import TensorType
from workbench.studies.devices import floors as measuring
from workbench.studies.devices.floors import ArithmeticCost, Peak, floors, peak, products
from workbench.support.machine import blas_threads, microseconds

PEAK = Peak("a machine", 1, 1e11, 1e11, 1e10)


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setattr("workbench.studies.devices.floors.peak", lambda threads=1: PEAK)


def graphs():
    b = workbench.GraphBuilder("parallel")
    x = b.input("x", (8, 16))
    yield b.graph({"y": b.op("relu", x @ b.weight((16, 8))), "z": x @ b.weight((16, 24))})
    b = workbench.GraphBuilder("associates")
    x, w = b.input("x", (64, 4)), b.weight((4, 64))
    yield b.graph({"y": (x @ w) @ b.input("v", (64, 2))})
    b = workbench.GraphBuilder("distributes")
    x, w = b.input("x", (8, 8)), b.weight((8, 8))
    yield b.graph({"y": x @ w + b.input("z", (8, 8)) @ w})
    b = workbench.GraphBuilder("padded")
    x = b.input("x", (1, 4, 6, 6))
    yield b.graph({"y": b.op("conv2d", x, b.weight((4, 4, 3, 3)), pads=1)})
    b = workbench.GraphBuilder("transposed")
    x = b.input("x", (4, 8))
    yield b.graph({"y": b.op("transpose", b.op("transpose", x, perm=(1, 0)) @ x, perm=(1, 0))})


def cheapest(egraph, costs):
    """Return the least cost of any acyclic selection, by trying all of them."""
    members = egraph.members()
    best = math.inf
    choosable = [c for c in range(egraph.n_classes) if len(members[c]) > 1]
    fixed = {c: members[c][0] for c in range(egraph.n_classes) if len(members[c]) == 1}
    for taken in product(*(members[c] for c in choosable)):
        choice = {**fixed, **dict(zip(choosable, taken, strict=True))}
        cost = _cost(egraph, costs, choice)
        best = min(best, cost)
    return best


def _cost(egraph, costs, choice):
    done, open_ = set(), set()

    def visit(c):
        if c in done:
            return True
        if c in open_ or c not in choice:
            return False
        open_.add(c)
        fine = all(visit(d) for d in egraph.operands(choice[c]).tolist())
        open_.discard(c)
        done.add(c)
        return fine

    if not all(visit(root) for root in egraph.roots):
        return math.inf
    return sum(costs[choice[c]] for c in done)


@pytest.mark.parametrize("graph", graphs(), ids=lambda g: g.name)
def test_floors_are_those_of_brute_force(graph):
    result = workbench.optimize(graph, iterations=2, settle=0)
    found = floors(result)
    sizes = [len(m) for m in result.egraph.members()]
    assert math.prod(sizes) < 1e6, "too large to try all"
    costs = price_egraph(result.egraph, ArithmeticCost(PEAK))
    assert found.arithmetic.bound == pytest.approx(cheapest(result.egraph, costs))
    assert found.prices.bound == pytest.approx(cheapest(result.egraph, result.costs))
    assert found.arithmetic.bound <= found.roofline.bound * (1 + 1e-9)
    assert found.factor >= 1


def test_the_least_is_an_independent_count():
    graph = next(g for g in graphs() if g.name == "associates")
    found = floors(workbench.optimize(graph))
    # (x w) v needs 64·4·64 + 64·64·2 products, x (w v) only 4·64·2 + 64·4·2.
    assert found.arithmetic.bound == pytest.approx(2 * (4 * 64 * 2 + 64 * 4 * 2) / PEAK.flops * 1e6)


def test_padding_is_not_multiplied():
    graph = next(g for g in graphs() if g.name == "padded")
    found = floors(workbench.optimize(graph))
    assert found.arithmetic.bound == pytest.approx(2 * 16 * (5 + 6 + 5) ** 2 / PEAK.flops * 1e6)


def test_what_has_no_known_peak_counts_nothing():
    half = TensorType("float16", (4, 4))
    assert products(OpInstance("matmul", ("none",), (half, half), half, (False, False))) == 0
    assert products(OpInstance("relu", (), (half,), half, (False,))) == 0


@pytest.mark.slow
def test_a_timed_result_is_compared_with_its_time(tmp_path, monkeypatch):
    graph = next(graphs())
    file = tmp_path / "m.onnx"
    workbench.save_model(graph, file)
    result = workbench.optimize(file)
    found = result.floors()
    # The runtime may make the same kernels of both: then nothing is timed.
    assert found.time is None or found.time > 0
    assert "the result runs in 12.0 µs" in str(replace(found, time=12.0))
    assert "the result runs in" not in str(replace(found, time=None))
    assert json.loads(json.dumps(found.summary()))["time"] == found.time
    places = replace(result.measured, places=3, alike=())
    assert floors(replace(result, measured=places)).time is None, "of places that ran alone"
    rows = found.frame()
    assert set(rows["graph"]) == {"before", "after"}
    assert np.isfinite(rows["least"]).all()
    # A report shows floors that it is given, and computes none.
    monkeypatch.setattr(type(result), "floors", lambda _: pytest.fail("computed twice"))
    assert html.escape(str(found)[1:]) in report_html(result, floors=found)


def test_a_result_that_is_faster_than_the_measured_peak_raises_it(monkeypatch):
    monkeypatch.setattr(measuring, "peak", lambda threads: replace(PEAK, flops=1e6))
    result = workbench.optimize(next(graphs()))
    median = SimpleNamespace(median=2.0)
    timed = SimpleNamespace(decided=True, failure="", places=0, winner=None, original=median)
    slow, found = floors(result), floors(replace(result, measured=timed))
    assert slow.arithmetic.bound > 2.0
    assert found.time == found.arithmetic.bound == 2.0
    assert found.peak.flops == pytest.approx(1e6 * slow.arithmetic.bound / 2.0)
    assert "which the result reaches, this machine needs at least 2.000 µs" in str(found)
    assert "at its measured peak of 0 Gflop/s this machine needs at least" in str(slow)


def test_the_sentence_names_a_part_of_the_egraph():
    found = floors(workbench.optimize(next(graphs())))
    part = replace(found, cost=10.0, prices=replace(found.prices, bound=8.0, scope="cycle-free part"))
    assert "nothing that these laws make is more than 1.25 times as fast, in its cycle-free part" in str(part)


def test_without_a_product_and_with_a_doubtful_peak_the_sentence_says_so():
    found = floors(workbench.optimize(next(graphs())))
    none = replace(found, arithmetic=replace(found.arithmetic, bound=0.0))
    assert str(none).endswith("no product of floats is in all of these graphs")
    some = replace(found.arithmetic, bound=1.0)
    loud = replace(found, arithmetic=some, peak=replace(found.peak, load=9.0))
    assert str(loud).endswith("(the peak was measured at a load of 9.0: a quiet machine may need less)")
    assert "quiet machine" not in str(replace(loud, peak=replace(found.peak, load=0.0)))


# -- the machine's limits ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
        patch.setattr(measuring, "SECONDS", 0.05)
        return peak()


@pytest.mark.nightly
def test_the_peak_is_the_rate_of_a_large_product(found):
    # Nightly, since it compares clocks: a neighbour that takes half the core in one of the two moments fails it.
    a = np.ones((768, 768), "f4")
    with blas_threads(1) as possible:
        if not possible:
            pytest.skip("numpy's products cannot be set to one thread here")
        least = min(microseconds(lambda: a @ a, 1) for _ in range(100))
    # Two libraries on one core.
    assert 0.5 < found.flops / (2e6 * 768**3 / least) < 2


def test_the_rate_is_two_operations_a_multiplication(monkeypatch):
    monkeypatch.setattr(measuring, "_least", lambda run: run() and 1000.0)
    assert measuring._multiplied(8, 1) == 2 * 8**3 / 1e-3


def test_bandwidths_are_those_of_a_machine(found):
    assert 1e8 < min(found.cache_bandwidth, found.bandwidth) < 1e13


def test_the_second_call_measures_nothing(found, monkeypatch):
    monkeypatch.setattr(measuring, "_multiplied", lambda *given: pytest.fail("measured again"))
    assert peak() == found


@pytest.mark.slow
def test_figures_of_a_busy_machine_are_told_and_not_kept_for_long(monkeypatch):
    monkeypatch.setattr(measuring, "machine", lambda: "a busy machine")
    monkeypatch.setattr(measuring, "SECONDS", 0.01)
    now = 0.0
    monkeypatch.setattr(measuring.time, "time", lambda: now)
    for load, anew, hours, told in (
        (7.0, False, 0, 7.0),
        (6.0, False, 0, 7.0),
        (5.0, True, 0, 5.0),
        (4.0, False, 1, 4.0),
        (0.5, True, 1, 0.5),
        (9.0, False, 1, 0.5),
    ):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        now = 3600.0 * hours
        found = peak(anew=anew)
        assert (found.load, found.quiet) == (told, told < 1)
        assert ("too low" in str(found)) is (told > 1)


def test_the_limits_are_a_device_without_launches(found):
    device = found.device()
    assert (device.launch, device.efficiency, device.peak("float32")) == (0, 1, found.flops)
    assert device.peak("float64") < found.flops < device.peak("float16")


def test_figures_are_plain_data(found):
    assert Peak(**json.loads(json.dumps(found.summary()))) == found
    assert "Gflop/s" in str(found)


@pytest.mark.parametrize("threads", [0, 10_000])
def test_threads_that_are_not_there_are_refused(threads):
    with pytest.raises(ValueError, match="threads must be from 1 to"):
        peak(threads)

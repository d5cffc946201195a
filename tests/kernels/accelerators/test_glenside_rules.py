from dataclasses import replace

import pytest

import workbench
from tests.kernels.accelerators.layers import conv_graph
from tests.sampled import marks_of
from workbench.graph import GraphBuilder
from workbench.kernels.accelerators import unit
from workbench.kernels.accelerators.glenside_rules import FILLING_AXIOMS, demanded, filling, generic
from workbench.laws.verification import Verification
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.proving import axioms
from workbench.rules import parse_rules
from workbench.saturation import Limits, Saturation

SMALL = replace(unit("systolic16"), inner=2, columns=2, name="small2")


def judged(rules, axiom_set=None, draws=60):
    run = Verification(list(rules), axiom_set=axiom_set, effort=Effort(draws=draws, chain=0))
    run.run()
    return {rule.name: run[rule.name].short for rule in rules}


@pytest.mark.slow
def test_what_is_filled_with_zeros_may_be_dropped_and_that_is_proved():
    extra = parse_rules(FILLING_AXIOMS)
    assert set(judged(extra).values()) == {"tested"}
    assert judged(filling(), (*axioms(), *extra)) == {"dropped": "by axioms", "filled": "by axioms"}


@pytest.mark.slow
@pytest.mark.parametrize("value", [1.0, -65504.0], ids=["ones", "the minimum"])
def test_filling_with_anything_else_is_refuted(value):
    extra = parse_rules(FILLING_AXIOMS)
    assert judged(filling(value), (*axioms(), *extra)) == {"dropped": "refuted", "filled": "refuted"}


@pytest.mark.parametrize(("value", "dropped"), [(0.0, True), (1.0, False), (-65504.0, False)])
def test_the_inner_block_is_dropped_if_zeros_fill_it_and_not_otherwise(value, dropped):
    b = GraphBuilder()
    x, y = b.input("x", (16, 40)), b.input("y", (64, 16))
    filled = b.op("pad", x, pads=(0, 0, 0, 24), value=value)
    graph = b.graph({"z": b.op("matmul", filled, y)})
    done = workbench.optimize(graph, rules=filling())
    assert done.certificate.passed
    assert ("pad" not in done.graph.operators()) == dropped


#: The number of parts in which the laws of tiles are judged, one part each commit.
TILES = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(n, marks=marks_of(n, TILES)) for n in range(TILES)])
def test_the_laws_of_tiles_are_sound(part):
    rules = [rule for rule in generic(SMALL) if rule.name != "windows"]
    assert set(judged(rules[part::TILES]).values()) <= {"by axioms", "tested"}


def grown(rules, graph, e_nodes=6000, iterations=20):
    with Saturation(graph, rules, Limits(e_nodes=e_nodes, iterations=iterations)) as run:
        stop = run.run()
        return run.e_nodes, stop.value


def test_generic_laws_grow_on_what_they_made_and_demanded_laws_end():
    b = GraphBuilder()
    graph = b.graph({"y": b.op("matmul", b.input("x", (5, 5)), b.input("w", (5, 5)))})
    few, ended = grown(demanded(SMALL), graph)
    many, limit = grown(generic(SMALL), graph)
    assert ended == "saturated"
    assert limit != "saturated"
    assert many > 4 * few


def test_demanded_laws_block_a_convolution_in_its_window_form():
    graph = conv_graph([((1, 3, 4, 4), (5, 3, 2, 2), {})])
    with Saturation(graph, demanded(SMALL), Limits(e_nodes=20_000, iterations=20)) as run:
        run.run()
        egraph = run.egraph()
    assert {"unfold", "small2"} <= set(egraph.ops)

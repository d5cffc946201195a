from dataclasses import replace

import numpy as np
import pytest

import workbench
from tests.kernels.accelerators.layers import conv_graph
from workbench.graph import GraphBuilder, evaluate
from workbench.kernels.accelerators import AcceleratorCost, placement, unit, unit_rules, units, unroll
from workbench.kernels.accelerators.rules import ORIENTATIONS, law_of_any_unit, recorded
from workbench.rules.pattern import App, subterms

#: The operators that the rules of a unit wait for.
DEMANDED = {"matmul", "conv2d"}


@pytest.mark.parametrize("name", units())
def test_every_rule_fires_on_demand_of_a_product_only(name):
    for rule in unit_rules(unit(name)):
        (source,) = rule.sources
        assert {t.op for t in subterms(source) if isinstance(t, App)} & DEMANDED, rule.name


def test_the_rules_are_not_in_the_library():
    library = {rule.name for rule in workbench.rule_set("all")}
    assert not library & {rule.name for rule in unit_rules(unit("systolic64"))}


def test_one_orientation_is_half_of_the_rules():
    chosen = unit_rules(unit("systolic64"), orientations=("streamed-left",))
    assert not any("turned" in rule.name for rule in chosen)
    with pytest.raises(ValueError, match="orientations must be among streamed-left, streamed-right"):
        unit_rules(unit("systolic64"), orientations=("upside-down",))


def product(rows, inner, columns, dtype="float32", act=None):
    b = GraphBuilder()
    y = b.op("matmul", b.input("x", (rows, inner), dtype), b.weight((inner, columns), dtype=dtype))
    return b.graph({"y": b.op(act, y) if act else y})


def on(graph, chosen, orientations=ORIENTATIONS, **settings):
    rules = unit_rules(chosen, orientations=orientations)
    return workbench.optimize(graph, rules=rules, cost=AcceleratorCost(chosen), **settings)


@pytest.mark.parametrize("extents", [(7, 13, 17), (64, 64, 64), (1, 65, 3)])
def test_extents_that_are_not_multiples_are_filled(extents):
    done = on(product(*extents), replace(unit("systolic16"), columns=5, lanes=1, name="odd"))
    assert done.certificate.passed
    assert done.graph.operators()["blocked"] == 1


def test_an_activation_of_the_unit_is_fused_and_another_is_not():
    for act, inside in (("relu", True), ("sigmoid", False)):
        done = on(product(64, 64, 64, act=act), unit("systolic64"))
        assert done.certificate.passed
        (found,) = [n for n in done.graph.nodes if n.op == "blocked"]
        assert (found.attr("act") == act) == inside
        assert (act in done.graph.operators()) != inside


def test_a_unit_of_another_element_type_takes_nothing():
    done = on(product(64, 64, 64), unit("wmma16"))
    assert "blocked" not in done.graph.operators()
    (left,) = placement(done.graph, unit("wmma16")).left
    assert left.reason == "its operands are float32, wmma16 multiplies float16"


@pytest.mark.slow
def test_a_product_whose_sums_may_overflow_stays_off_the_unit_with_the_reason():
    ranges = {"streamed_range": (-64, 64), "stationary_range": (-64, 64)}
    halves = replace(unit("wmma16"), accumulator="float16", **ranges)
    assert halves.longest == 15
    # Every rule is judged in half precision: those of one orientation are enough.
    fits, exceeds = (
        on(product(64, inner, 64, "float16"), halves, ("streamed-left",), certify=False).graph
        for inner in (15, 16)
    )
    assert "blocked" in fits.operators()
    assert "blocked" not in exceeds.operators()
    (left,) = placement(exceeds, halves).left
    assert left.reason == "16 products do not fit the float16 accumulator"


def test_halves_are_added_in_float32():
    done = on(product(33, 40, 20, "float16"), unit("wmma16"))
    assert done.certificate.passed
    assert done.graph.operators()["blocked"] == 1


def test_a_depthwise_convolution_becomes_blocks_of_the_diagonal():
    graph = conv_graph([((1, 32, 14, 14), (32, 1, 3, 3), {"pads": (1, 1, 1, 1), "groups": 32})])
    slow = replace(unit("systolic64"), lanes=1)
    done = on(graph, slow)
    assert done.certificate.passed
    (found,) = placement(done.graph, slow).layers
    # Seven channels of nine taps would fit 64; pairs of pairs make four.
    assert (found.tiling.batches, found.tiling.inner) == (8, 36)


def test_what_is_written_out_computes_the_same():
    chosen = unit("systolic16")
    done = on(product(20, 40, 24, act="relu"), chosen)
    x = {"x": np.random.default_rng(1).standard_normal((20, 40)).astype(np.float32)}
    np.testing.assert_allclose(
        evaluate(unroll(done.graph, chosen), x)["y"], evaluate(done.original, x)["y"], rtol=1e-5, atol=1e-5
    )


FLOATS = ("systolic16", "systolic64", "systolic128", "wmma16")


FUSED = ({}, {"bias": False}, {"activations": ()}, {"activations": ("sigmoid", "relu", "tanh")})


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("fused", FUSED, ids=str)
def test_every_rule_of_a_unit_was_judged(name, fused):
    rules = unit_rules(replace(unit(name), **fused))
    assert rules
    assert {rules.verdict(rule) for rule in rules} <= {"theorem", "tested"}


def test_the_numbers_of_a_unit_are_not_part_of_its_laws():
    ours = {law_of_any_unit(rule) for rule in unit_rules(unit("systolic64"))}
    other = replace(
        unit("wmma16"), inner=7, accumulator="float16", streamed_range=(0, 1), stationary_range=(0, 9)
    )
    assert ours == {law_of_any_unit(rule) for rule in unit_rules(other)}


def test_another_law_has_no_record():
    rule = unit_rules(unit("systolic64"))["product-bias"]
    assert recorded(rule)["status"] == "tested"
    assert recorded(replace(rule, targets=(rule.targets[0].args[0],))) == {}


def test_halves_keep_their_range_if_sums_are_float32():
    halves = unit("wmma16")
    assert len(unit_rules(halves).in_range) == len(unit_rules(halves))
    assert not unit_rules(replace(halves, accumulator="float16")).in_range

from dataclasses import replace

import pytest

from workbench.kernels.accelerators import unit, unit_rules
from workbench.kernels.accelerators.verdicts import law_of_any_unit, recorded

FLOATS = ("systolic16", "systolic64", "systolic128", "wmma16")


FUSED = ({}, {"bias": False}, {"activations": ()}, {"activations": ("sigmoid", "relu", "tanh")})


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("fused", FUSED, ids=str)
def test_every_rule_of_a_unit_was_judged(name, fused):
    rules = unit_rules(replace(unit(name), **fused))
    assert rules
    assert {rules.verdict(rule) for rule in rules} <= {"proved", "tested"}


def test_the_numbers_of_a_unit_are_not_part_of_its_laws():
    ours = {law_of_any_unit(rule) for rule in unit_rules(unit("systolic64"))}
    other = replace(
        unit("wmma16"), inner=7, accumulator="float16", streamed_range=(0, 1), stationary_range=(0, 9)
    )
    assert ours == {law_of_any_unit(rule) for rule in unit_rules(other)}


def test_another_law_has_no_record():
    rule = unit_rules(unit("systolic64"))["product-bias"]
    assert recorded(rule)["status"] == "proved"
    assert recorded(replace(rule, targets=(rule.targets[0].args[0],))) == {}


def test_halves_keep_their_range_if_sums_are_float32():
    halves = unit("wmma16")
    assert len(unit_rules(halves).in_range) == len(unit_rules(halves))
    assert not unit_rules(replace(halves, accumulator="float16")).in_range

import json

import pytest

from workbench.kernels.accelerators import unit, unit_rules
from workbench.kernels.accelerators.rules import law_of_any_unit
from workbench.kernels.accelerators.unit import folder
from workbench.kernels.accelerators.verify import verify_unit


@pytest.mark.slow
def test_the_definition_is_tested_and_what_follows_from_it_is_proved():
    found = {v.name: v for v in verify_unit(
        unit("systolic64"), "product", "product-bias", "product-turned-2-2", "groups-by-pairs", draws=60
    )}  # fmt: skip
    assert {n: v.short for n, v in found.items()} == {
        "product": "tested", "product-bias": "by axioms", "product-turned-2-2": "by axioms",
        "groups-by-pairs": "by axioms",
    }  # fmt: skip
    arithmetic = found["product"].evidence["arithmetic"]
    assert set(arithmetic) == {"modular"}
    assert arithmetic["modular"] >= 60


@pytest.mark.slow
def test_convolutions_are_tested_in_exact_arithmetic():
    (found,) = verify_unit(unit("wmma16"), "convolution-turned-bias", draws=60)
    assert found.verdict == "tested"
    assert "float64" not in found.evidence["arithmetic"]


@pytest.mark.slow
@pytest.mark.nightly
def test_the_records_are_what_verification_finds():
    records = json.loads((folder() / "verdicts.json").read_text())
    rules = {rule.name: rule for rule in unit_rules(unit("systolic64"))}
    found = verify_unit(unit("systolic64"))
    assert {v.name for v in found} == set(rules)
    assert all(records[law_of_any_unit(rules[v.name])]["status"] == v.verdict for v in found)

"""One type rule, three readings: the page about it runs, and the readings agree."""

import doctest
import random
from pathlib import Path

import pytest

from tests.ops.test_onnx_form import INSTANCES, named
from workbench.laws.verification.instances.linear import NotLinear, System
from workbench.laws.verification.instances.spaces import tensor_type
from workbench.laws.verification.instances.typings import AXES, Menu, RandomChoices, SpaceType, SpaceTyping
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.typing import CONCRETE
from workbench.saturation.encoding import Encoding
from workbench.saturation.symbolic import NotSymbolic, SymbolicTyping, SymType

PAGE = Path(__file__).parents[2] / "docs" / "typing.md"
ENCODING = Encoding(rank=AXES)


def test_the_page_runs_as_shown():
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert found.attempted > 20
    assert found.failed == 0


def shapes_only(case):
    """Return whether an instance is of floats of at most four axes, which all three readings know."""
    return "indices" not in case[2] and "dtype" not in case[1] and "to" not in case[1] and case[2]


CASES = [case for case in INSTANCES if shapes_only(case)]


def inferred(case):
    op, attrs, shapes = case
    spec = spec_of(op)
    return spec, spec.unpack(spec.pack(attrs)), [TensorType("float32", s) for s in shapes]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_expressions_of_numbers_are_the_numbers(case):
    spec, attrs, kinds = inferred(case)
    expected = spec.infer(CONCRETE, kinds, attrs)
    reading = SymbolicTyping(ENCODING, assuming=False)
    operands = [SymType("", dict(enumerate(ENCODING.type_vector(kind)))) for kind in kinds]
    try:
        found = spec.infer(reading, operands, attrs)
    except NotSymbolic:
        assert attrs.get("ceil") or attrs.get("keepdims") == 0
        return
    slots = [reading.get(found, i) for i in range(AXES + 2)]
    assert slots == ENCODING.type_vector(expected)
    assert reading.guards == []


@pytest.mark.parametrize("case", CASES, ids=named)
def test_unknowns_that_are_known_give_the_same_type(case):
    spec, attrs, kinds = inferred(case)
    expected = spec.infer(CONCRETE, kinds, attrs)
    system = System()
    reading = SpaceTyping(system, RandomChoices(random.Random(1)), Menu())
    operands = []
    for k, kind in enumerate(kinds):
        padded = (1,) * (AXES - kind.rank) + kind.shape
        unknowns = [system.fresh(f"{k}.{i}", "extent") for i in range(AXES)]
        for unknown, extent in zip(unknowns, padded, strict=True):
            reading.require(unknown == extent, "given")
        operands.append(SpaceType(kind.rank, tuple(unknowns)))
    try:
        found = spec.infer(reading, operands, attrs)
    except NotLinear:
        assert attrs.get("ceil") or attrs.get("keepdims") == 0
        return
    while reading.pending:
        assert reading.forced()
    values = system.complete({})
    assert tensor_type(found, values) == expected


def test_numbers_are_checked_and_operands_are_concrete():
    kind = TensorType("float32", (2, 3))
    assert list(CONCRETE.concrete("anything", kind, kind)) == [kind, kind]
    with pytest.raises(TypeMismatch, match="got -3"):
        CONCRETE.require_axis(kind, -3)
    with pytest.raises(NotSymbolic, match="a gather"):
        SymbolicTyping(ENCODING).concrete("a gather")

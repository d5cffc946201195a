"""The exact forms of operators: bounds and degrees hold; their values are in the exact arithmetics."""

import numpy as np
import pytest

from tests.ops.test_onnx_form import INSTANCES, instance, named
from workbench.ops import spec_of
from workbench.ops.exact import ORDERED, Arithmetic, ExactForm, each

WHOLE = [
    case
    for case in INSTANCES
    if case[2]
    and (exact := spec_of(case[0]).exact) is not None
    and "indices" not in case[2]
    and exact.arithmetic({"act": "none", "value": 0.0} | case[1]) <= Arithmetic.ORDERED
]


@pytest.mark.parametrize("case", WHOLE, ids=named)
def test_no_result_exceeds_its_bound(case):
    graph = instance(*case)
    node, spec = graph.nodes[-1], spec_of(case[0])
    attrs, shapes = node.named_attrs(), [graph.nodes[i].tensor.shape for i in node.inputs]
    for signs in (1, -1):
        operands = [np.full(shape, 3.0 * signs**k) for k, shape in enumerate(shapes)]
        found = np.abs(spec.evaluate(operands, attrs)).max()
        assert found <= spec.exact.bound([3] * len(shapes), shapes, attrs)
    assert spec.exact.bound([0] * len(shapes), shapes, attrs) <= abs(attrs.get("value", 0))


@pytest.mark.parametrize("case", [c for c in WHOLE if c[1].get("act", "none") == "none"], ids=named)
def test_no_result_grows_faster_than_its_degree(case):
    graph = instance(*case)
    node, spec = graph.nodes[-1], spec_of(case[0])
    if spec.exact.arithmetic(node.named_attrs()) is not Arithmetic.POLYNOMIAL:
        return
    rng = np.random.default_rng(3)
    operands = [rng.integers(-3, 4, graph.nodes[i].tensor.shape).astype(float) for i in node.inputs]
    degree = spec.exact.degree([1] * len(operands))
    values = [spec.evaluate([x * t for x in operands], node.named_attrs()) for t in range(degree + 2)]
    # A polynomial of a degree has no difference of the next order.
    np.testing.assert_array_equal(np.diff(np.stack(values), degree + 1, axis=0)[0], 0)


def test_a_form_may_need_more_for_some_attributes():
    form = ExactForm(lambda attrs: Arithmetic.DIGITS if attrs["tanh"] else Arithmetic.RATIONAL)
    assert form.arithmetic({"tanh": 1}) is Arithmetic.DIGITS
    assert form.arithmetic({"tanh": 0}) is Arithmetic.RATIONAL
    assert ORDERED.arithmetic({}) is Arithmetic.ORDERED


def test_elements_are_computed_one_by_one_in_their_places():
    found = each(lambda e: e + 1, np.array([[1, 2], [3, 4]], dtype=object))
    assert found.dtype == object
    assert found.tolist() == [[2, 3], [4, 5]]

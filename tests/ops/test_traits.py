"""The traits of operators, each against what the operators compute."""

import numpy as np
import pytest

from tests.ops.test_onnx_form import INSTANCES, MIXED, inputs, instance, named
from workbench.graph import evaluate
from workbench.ops import TensorType, Trait, TypeMismatch, operators, spec_of, with_trait
from workbench.ops.registry import register
from workbench.ops.spec import OpSpec

CASES = [case for case in INSTANCES if case[2]]
OPERATORS = {case[0] for case in CASES}


def computed(case, change=lambda x: x, dtype=np.float64):
    """Return the result of an instance on changed operands (indices stay), and these operands."""
    graph = instance(*case)
    feeds = inputs(graph)
    node = graph.nodes[graph.outputs[0][1]]
    operands = [feeds[graph.nodes[i].attr("name")] for i in node.inputs]
    operands = [change(x.astype(dtype)) if x.dtype == np.float32 else x for x in operands]
    with np.errstate(all="ignore"):
        return spec_of(node.op).evaluate(operands, node.named_attrs()), operands


def commuting(change):
    """Return the operators that may be applied before or after a change of all elements."""
    differ = {
        case[0] for case in CASES if not np.array_equal(computed(case, change)[0], change(computed(case)[0]))
    }
    return OPERATORS - differ


def test_every_operator_with_operands_is_tried():
    tried = OPERATORS | {case[0] for case in MIXED}
    assert {s.name for s in operators() if s.max_inputs and not s.leaf} == tried


def bent(x):
    """Change numbers without order or sign, but keep 0, 1/2 and 1: the numbers that operators fill with."""
    return x - 7 * x * (x - 0.5) * (x - 1)


def test_what_selects_elements_commutes_with_any_change_of_them():
    assert commuting(lambda x: bent(x) + 3) == with_trait(Trait.SELECTS)


def test_what_moves_elements_commutes_with_changes_that_keep_what_it_fills_with():
    assert commuting(bent) == with_trait(Trait.MOVES) & OPERATORS


@pytest.mark.parametrize("case", [c for c in CASES if c[0] in with_trait(Trait.UNROUNDED)], ids=named)
def test_what_is_not_rounded_is_the_same_in_a_longer_type(case):
    graph = instance(*case)
    found = evaluate(graph, inputs(graph))["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, computed(case)[0])


def signed(x):
    """Change the sign of every other element."""
    return x * np.where(np.arange(x.size) % 2, -1, 1).astype(x.dtype).reshape(x.shape)


def test_the_rounding_of_the_others_shows():
    rounded = {
        case[0]
        for case in CASES
        if not np.array_equal(computed(case, signed)[0], computed(case, signed, np.float32)[0])
    }
    # A maximum is an operand's element, but which one the values decide; a conversion may round or not.
    others = {"maxpool", "reduce_max", "clip", "cast"}
    assert OPERATORS - rounded - others == with_trait(Trait.UNROUNDED) & OPERATORS


def test_operands_broadcast_against_each_other():
    x, y = TensorType("float32", (3, 1, 2, 2)), TensorType("float32", (1, 4, 2, 2))
    found = set()
    for spec in operators():
        if spec.leaf or spec.min_inputs not in (2, 3):
            continue
        operands = [x, y] if spec.min_inputs == 2 else [TensorType("bool", x.shape), y, y]
        try:
            kind = spec.result_type(operands, spec.pack({"axis": -1} if "axis" in spec.attr_names else {}))
        except TypeMismatch:
            continue
        if kind.shape == (3, 4, 2, 2):
            found.add(spec.name)
    assert found == with_trait(Trait.BROADCASTS)


@pytest.mark.parametrize("case", [c for c in CASES if c[0] in with_trait(Trait.LINEAR)], ids=named)
def test_what_is_linear_is_zero_where_an_operand_is(case):
    op, attrs, shapes = case
    spec = spec_of(op)
    attrs = attrs | {"act": "none"} if "act" in attrs else attrs
    shapes = shapes if spec.variadic else shapes[: spec.min_inputs]
    graph = instance(op, attrs, shapes)
    feeds = inputs(graph)
    for zeros in [list(feeds)] if spec.variadic else [[name] for name in feeds]:
        found = evaluate(graph, feeds | {name: np.zeros_like(feeds[name]) for name in zeros})["y"]
        assert not found.any()


@pytest.mark.parametrize("op", sorted(with_trait(Trait.GROWS)))
def test_what_grows_is_infinite_for_some_finite_operands(op):
    spec = spec_of(op)
    numbers = np.array([3e38, -3e38, 1e-45, 90], np.float32)
    operands = np.meshgrid(*[numbers] * spec.min_inputs)
    with np.errstate(all="ignore"):
        found = spec.evaluate(operands, spec.unpack(spec.pack({})))
    assert found.dtype == np.float32
    assert np.isinf(found).any()


def test_views_share_the_memory_of_their_operand():
    shared, in_place = set(OPERATORS), set(OPERATORS)
    for case in CASES:
        found, operands = computed(case)
        if not np.shares_memory(found, operands[0]):
            shared.discard(case[0])
        if found.size != operands[0].size or not np.array_equal(found.ravel(), operands[0].ravel()):
            in_place.discard(case[0])
    assert shared == with_trait(Trait.VIEW) & OPERATORS
    assert shared & in_place == with_trait(Trait.ALIAS) & OPERATORS


def test_an_image_has_four_axes():
    needed = set()
    for op, attrs, shapes in CASES:
        spec = spec_of(op)
        kinds = [TensorType("float32", s) for s in shapes if s != "indices"]
        shorter = [TensorType("float32", kinds[0].shape[1:]), *kinds[1:]]
        if kinds[0].rank == 4 and len(kinds) == len(shapes) and op != "concat":
            try:
                spec.result_type(shorter, spec.pack(attrs))
            except TypeMismatch:
                needed.add(op)
    reductions = {"reduce_sum", "reduce_mean", "reduce_max", "softmax"}
    assert needed - reductions == with_trait(Trait.FOUR_AXES)


def test_leaves_and_constants():
    leaves = {s.name for s in operators() if s.leaf}
    assert with_trait(Trait.RUNTIME) == {"input", "opaque", "project"}
    assert with_trait(Trait.RUNTIME) | {"weight"} == leaves
    assert with_trait(Trait.REFERENCE) == leaves - {"opaque"}
    assert with_trait(Trait.NAMED) == {s.name for s in operators() if "name" in s.attr_names}
    constants = {s.name for s in operators() if not s.max_inputs} - with_trait(Trait.RUNTIME)
    assert with_trait(Trait.CONSTANT) == constants
    assert with_trait(Trait.FREE) == with_trait(Trait.REFERENCE) | {"identity"}


def test_an_operator_registered_later_is_found_by_its_traits(monkeypatch):
    from workbench.ops import registry

    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))
    monkeypatch.setattr(registry, "_WITH", {t: set(names) for t, names in registry._WITH.items()})
    views = with_trait(Trait.VIEW)
    register(OpSpec("flip", 1, None, None, traits=Trait.VIEW | Trait.MOVES))
    assert "flip" in views
    assert "flip" in with_trait(Trait.MOVES)
    assert "flip" not in with_trait(Trait.SELECTS)
    with pytest.raises(ValueError, match="registered already"):
        register(OpSpec("flip", 1, None, None))

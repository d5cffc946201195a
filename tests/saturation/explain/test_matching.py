"""Patterns matched among terms that are equal to one another."""

from workbench.ops import TensorType
from workbench.rules import parse_rules
from workbench.rules.matching import compiled
from workbench.saturation.explain.matching import Index, number_at, sides
from workbench.saturation.explain.proof_graph import Because, Proofs
from workbench.saturation.explain.rule_application import Growth

KIND = TensorType("float32", (4, 4))


def collection():
    proofs = Proofs()
    x, y = (proofs.add("input", (name,), (), KIND) for name in "xy")
    total = proofs.add("add", (), (x, y), KIND)
    return proofs, x, y, total, proofs.add("relu", (), (total,), KIND)


def test_a_pattern_matches_through_equal_terms():
    proofs, x, y, total, top = collection()
    (rule,) = parse_rules("r: relu(add(a, b)) => add(b, a)")
    (pattern,) = sides(rule, forward=True)
    index = Index(proofs, {}, 1000)
    index.begin()
    assert index.at(pattern, proofs.find(top)) == [{"a": x, "b": y}]
    assert index.at(pattern, proofs.find(total)) == []
    other = proofs.add("tanh", (), (x,), KIND)
    assert proofs.union(other, top, Because("law"))
    index = Index(proofs, {}, 1000)
    index.begin()
    assert len(index.at(pattern, proofs.find(other))) == 1


def test_a_variable_that_occurs_twice_needs_equal_terms():
    proofs, x, y, total, _ = collection()
    (rule,) = parse_rules("twice: add(a, a) => mul(a, 2)")
    (pattern,) = sides(rule, forward=True)
    for equal in (False, True):
        if equal:
            proofs.union(x, y, Because("law"))
        index = Index(proofs, {}, 1000)
        index.begin()
        assert bool(index.at(pattern, proofs.find(total))) is equal


def test_a_number_matches_a_tensor_of_that_number_alone():
    proofs, x, y, *_ = collection()
    product = proofs.add("mul", (), (x, y), KIND)
    (rule,) = parse_rules("half: mul(a, 0.5) => a")
    (pattern,) = sides(rule, forward=True)
    for value, wanted in ((0.5, 1), (0.25, 0)):
        index = Index(proofs, {y: value}, 1000)
        index.begin()
        found = index.at(pattern, proofs.find(product))
        assert len(found) == wanted
        assert all(number_at(rule.sources[0].args[1], bound) == y for bound in found)


def test_a_side_that_is_a_variable_is_not_searched():
    (rule,) = parse_rules("none: relu(relu(x)) => relu(x)")
    assert len(sides(rule, forward=False)) == 1
    (rule,) = parse_rules("gone: transpose[perm=(0, 1)](x) => x")
    assert sides(rule, forward=False) == ()
    assert compiled(rule.sources[0]).fixed == ((0, (0, 1)),)


def test_matching_ends_when_its_work_is_done():
    proofs, *_, top = collection()
    (rule,) = parse_rules("r: relu(add(a, b)) => add(b, a)")
    index = Index(proofs, {}, 0)
    index.begin()
    assert index.at(sides(rule, forward=True)[0], proofs.find(top)) == []


def test_both_sides_of_a_rule_are_made_equal_with_its_name():
    proofs, _, _, total, _ = collection()
    growth = Growth(proofs, constant=lambda t: False, running=lambda t: True)
    (rule,) = parse_rules("turn: add(a, b) => add(b, a)")
    index = growth.index(1000)
    for forward in (True, False):
        found = list(growth.matches(rule, index, forward=forward, hot={proofs.find(total)}))
        assert len(found) == 1
    applied = growth.apply(rule, *next(growth.matches(rule, index, forward=True, hot={total})))
    assert growth.record(applied)
    turned = applied.pairs[0][1]
    assert [k.because.rule for k in proofs.chain(total, turned)] == ["turn"]


def test_a_result_without_a_type_is_a_misfit():
    proofs = Proofs()
    x = proofs.add("input", ("x",), (), TensorType("float32", (4, 8)))
    top = proofs.add("relu", (), (x,), TensorType("float32", (4, 8)))
    growth = Growth(proofs, constant=lambda t: False, running=lambda t: True)
    (rule,) = parse_rules("bad: relu(a) => matmul(a, a)")
    index = growth.index(1000)
    applied = growth.apply(rule, *next(growth.matches(rule, index, forward=True, hot={top})))
    assert applied.misfit
    assert applied.pairs == ()
